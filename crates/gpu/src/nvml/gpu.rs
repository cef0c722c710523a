//! The calls about one GPU: its identity, its links and where they lead, fields, processes, partitions.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{c_char, c_int, c_uint};
use std::marker::PhantomData;

use super::{
    DeviceNumber, DeviceText, EMPTY_PCI_INFO, Handle, Library, LinkNumber, NAME_BYTES, PROCESSES_FIRST,
    PROCESSES_MAX, ProcessInfo, Session, UUID_BYTES, checked, pci_text, text,
};
use crate::code::Code;
use crate::field::FieldValue;

/// One GPU of a session.
#[derive(Clone, Copy)]
pub struct Gpu<'l, 's> {
    pub(super) library: &'l Library,
    pub(super) handle: Handle,
    // The handle means nothing after the session's shutdown.
    pub(super) _session: PhantomData<&'s Session<'l>>,
}

/// A process with a compute context on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeProcess {
    /// Its id.
    pub pid: u32,
    /// GPU and compute instance that it runs on, where the GPU is partitioned.
    pub instances: Option<(u32, u32)>,
}

/// NVML's number for "not on a partition".
pub(super) const NO_INSTANCE: u32 = u32::MAX;

impl<'l, 's> Gpu<'l, 's> {
    /// Most partitions (MIG devices) that the GPU can have now; 0 where it is not partitioned.
    ///
    /// # Errors
    /// NVML's code: [`Code::NOT_SUPPORTED`] on GPUs that can't be partitioned.
    pub fn partitions_max(&self) -> Result<u32, Code> {
        let mode = self.library.mig_mode.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let (mut current, mut pending): (c_uint, c_uint) = (0, 0);
        // SAFETY: the handle is of this session; both pointers are to live unsigned ints.
        checked(unsafe { mode(self.handle, &raw mut current, &raw mut pending) })?;
        if current == 0 {
            return Ok(0);
        }
        self.number(self.library.mig_count_max.ok_or(Code::FUNCTION_NOT_FOUND)?)
    }

    /// The partition at an index below [`Gpu::partitions_max`]; its UUID and instances are read like a GPU's.
    ///
    /// # Errors
    /// NVML's code: [`Code::NOT_FOUND`] where no partition has this index.
    pub fn partition(&self, index: u32) -> Result<Gpu<'l, 's>, Code> {
        let call = self.library.mig_handle.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the handle is of this session; the pointer is to a live handle; the index is NVML's to check.
        checked(unsafe { call(self.handle, index, &raw mut handle) })?;
        Ok(Gpu { library: self.library, handle, _session: PhantomData })
    }

    /// GPU instance and compute instance of a partition.
    pub fn instances(&self) -> Result<(u32, u32), Code> {
        let gpu = self.library.gpu_instance.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let compute = self.library.compute_instance.ok_or(Code::FUNCTION_NOT_FOUND)?;
        Ok((self.number(gpu)?, self.number(compute)?))
    }

    /// `GPU-` and a UUID, or `MIG-` and one for a partition.
    pub fn uuid(&self) -> Result<String, Code> {
        self.text::<UUID_BYTES>(self.library.uuid)
    }

    /// The product's name.
    ///
    /// # Errors
    /// NVML's code; [`Code::FUNCTION_NOT_FOUND`] where the library lacks the call, as for all below.
    pub fn name(&self) -> Result<String, Code> {
        self.text::<NAME_BYTES>(self.library.name.ok_or(Code::FUNCTION_NOT_FOUND)?)
    }

    /// Place on the PCI bus, as `dddddddd:bb:dd.f`.
    pub fn pci_bus_id(&self) -> Result<String, Code> {
        let call = self.library.pci.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut info = EMPTY_PCI_INFO;
        // SAFETY: the handle is of this session; the pointer is to a live structure of NVML's size.
        checked(unsafe { call(self.handle, &raw mut info) })?;
        Ok(pci_text(&info))
    }

    /// N of its device file `/dev/nvidiaN`.
    pub fn minor(&self) -> Result<u32, Code> {
        self.number(self.library.minor.ok_or(Code::FUNCTION_NOT_FOUND)?)
    }

    /// Largest PCIe generation and width of this GPU in its slot.
    pub fn pcie_generation_and_width(&self) -> Result<(u32, u32), Code> {
        let generation = self.library.pcie_generation.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let width = self.library.pcie_width.ok_or(Code::FUNCTION_NOT_FOUND)?;
        Ok((self.number(generation)?, self.number(width)?))
    }

    /// 1 for an active link, 0 for an inactive one.
    ///
    /// # Errors
    /// NVML's code: [`Code::INVALID_ARGUMENT`] or [`Code::NOT_SUPPORTED`] where there is no such link.
    pub fn link_state(&self, link: u32) -> Result<u32, Code> {
        self.link_number(Some(self.library.link_state), link)
    }

    /// `nvmlNvlinkVersion_t` of a link.
    pub fn link_version(&self, link: u32) -> Result<u32, Code> {
        self.link_number(self.library.link_version, link)
    }

    /// `nvmlIntNvLinkDeviceType_t` of what is at the other end: 0 GPU, 1 CPU (IBM NPU), 2 switch.
    pub fn remote_type(&self, link: u32) -> Result<u32, Code> {
        self.link_number(self.library.remote_type, link)
    }

    /// Place on the PCI bus of what is at the other end.
    pub fn remote_pci_bus_id(&self, link: u32) -> Result<String, Code> {
        let call = self.library.remote_pci.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut info = EMPTY_PCI_INFO;
        // SAFETY: as in `pci_bus_id`; the link number is NVML's to check.
        checked(unsafe { call(self.handle, link, &raw mut info) })?;
        Ok(pci_text(&info))
    }

    /// Reads fields of one family in one call; each has its own code afterwards.
    ///
    /// # Errors
    /// NVML's code when the call as a whole failed; then no field was read.
    pub fn read_fields(&self, fields: &mut [FieldValue]) -> Result<(), Code> {
        let count = c_int::try_from(fields.len()).map_err(|_| Code::INVALID_ARGUMENT)?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the pointer is to `count` live structures of NVML's layout.
        checked(unsafe { (self.library.fields)(self.handle, count, fields.as_mut_ptr()) })
    }

    /// The processes that have a compute context on this GPU, or on a partition of it.
    ///
    /// # Errors
    /// NVML's code; [`Code::FUNCTION_NOT_FOUND`] where the library is older than version 2 of the call.
    pub fn compute_processes(&self) -> Result<Vec<ComputeProcess>, Code> {
        let call = self.library.processes.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut space = PROCESSES_FIRST;
        loop {
            let mut infos = vec![ProcessInfo::default(); space];
            let mut count = c_uint::try_from(space).unwrap_or(0); // far below
            // SAFETY: the handle is of this session; the pointers are to a live unsigned int and to as many live
            // structures of NVML's layout as it says.
            let code = unsafe { call(self.handle, &raw mut count, infos.as_mut_ptr()) };
            // Twice what there are now: more may come until the next try.
            let wanted = usize::try_from(count).unwrap_or(0).max(space) * 2;
            match Code(code) {
                Code::INSUFFICIENT_SIZE if wanted <= PROCESSES_MAX => space = wanted,
                _ => {
                    checked(code)?;
                    infos.truncate(usize::try_from(count).unwrap_or(0));
                    return Ok(infos.iter().map(ComputeProcess::from).collect());
                }
            }
        }
    }

    fn text<const BYTES: usize>(&self, call: DeviceText) -> Result<String, Code> {
        let mut buffer: [c_char; BYTES] = [0; BYTES];
        // SAFETY: the handle is of this session; the buffer has the length that is given.
        checked(unsafe { call(self.handle, buffer.as_mut_ptr(), BYTES as c_uint) })?;
        Ok(text(&buffer))
    }

    fn number(&self, call: DeviceNumber) -> Result<u32, Code> {
        let mut number: c_uint = 0;
        // SAFETY: the handle is of this session; the pointer is to a live unsigned int.
        checked(unsafe { call(self.handle, &raw mut number) })?;
        Ok(number)
    }

    fn link_number(&self, call: Option<LinkNumber>, link: u32) -> Result<u32, Code> {
        let call = call.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut number: c_uint = 0;
        // SAFETY: as in `number`. NVML's enumerations are unsigned ints in its ABI.
        checked(unsafe { call(self.handle, link, &raw mut number) })?;
        Ok(number)
    }
}

impl From<&ProcessInfo> for ComputeProcess {
    fn from(info: &ProcessInfo) -> Self {
        let is_known = info.gpu_instance != NO_INSTANCE && info.compute_instance != NO_INSTANCE;
        Self { pid: info.pid, instances: is_known.then_some((info.gpu_instance, info.compute_instance)) }
    }
}
