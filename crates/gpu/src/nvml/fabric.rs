//! The NVLink domain that a GPU is registered in: several nodes' GPUs behind the same NVSwitches (GB200 NVL72).
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::c_uint;

use super::{Gpu, checked};
use crate::code::Code;
use crate::frame::FabricSurvey;

/// The call.
pub(super) const CALL: &str = "nvmlDeviceGetGpuFabricInfoV";

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct FabricInfo {
    version: c_uint,
    cluster_uuid: [u8; 16], // NVML_GPU_FABRIC_UUID_LEN
    status: u32,
    clique_id: c_uint,
    state: u8,
    health_mask: c_uint,
}
// What nvml.h gives on the platforms NVML exists on. A mistake here would corrupt memory.
const _: () = assert!(size_of::<FabricInfo>() == 36 && std::mem::offset_of!(FabricInfo, status) == 20);
const _: () = assert!(std::mem::offset_of!(FabricInfo, state) == 28);
const _: () = assert!(std::mem::offset_of!(FabricInfo, health_mask) == 32);

/// `nvmlGpuFabricInfo_v2`: the structure's size, and its version in the highest byte.
const VERSION_2: c_uint = 36 | 2 << 24;

/// `NVML_GPU_FABRIC_STATE_NOT_SUPPORTED`.
const STATE_NOT_SUPPORTED: u8 = 0;

pub(super) type DeviceFabric = unsafe extern "C" fn(super::Handle, *mut FabricInfo) -> u32;

impl Gpu<'_, '_> {
    /// How far its registration in a fabric of NVLinks is, and which one.
    ///
    /// # Errors
    /// NVML's code; [`Code::NOT_SUPPORTED`] where it takes part in none, [`Code::FUNCTION_NOT_FOUND`] where the library is older.
    pub fn fabric(&self) -> Result<FabricSurvey, Code> {
        let call = self.library.fabric.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut info = FabricInfo { version: VERSION_2, ..FabricInfo::default() };
        // SAFETY: the handle is of this session; the pointer is to a live structure of the size and version that it names.
        checked(unsafe { call(self.handle, &raw mut info) })?;
        if info.state == STATE_NOT_SUPPORTED {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(FabricSurvey {
            state: u32::from(info.state),
            status: info.status,
            cluster_uuid: info.cluster_uuid.to_vec(),
            clique_id: info.clique_id,
        })
    }
}
