//! Xid events: what the driver reports of a GPU's faults, by NVML's event set. Never waited for: each poll takes what is there.
//!
//! Numbers and layouts are facts of `nvml.h`.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{c_uint, c_void};

use super::gpu::NO_INSTANCE;
use super::{Gpu, Handle, Session, checked};
use crate::code::Code;
use crate::frame::{GpuSurvey, Xid};
use crate::library::LoadedLibrary;

/// `nvmlEventTypeXidCriticalError`.
const XID_CRITICAL_ERROR: u64 = 0x8;

/// Events that one poll takes; the rest waits for the next.
const EVENTS_MAX: usize = 32;
/// GPUs that are known, those that are lost included.
const REGISTERED_MAX: usize = 128;

type EventSet = *mut c_void;

/// `nvmlEventData_t`.
#[repr(C)]
struct EventData {
    device: Handle,
    kind: u64,
    data: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
const _: () = assert!(size_of::<EventData>() == 32 && std::mem::offset_of!(EventData, data) == 16);

/// The calls; all of them or none are there.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    create: unsafe extern "C" fn(*mut EventSet) -> u32,
    register: unsafe extern "C" fn(Handle, u64, EventSet) -> u32,
    wait: unsafe extern "C" fn(EventSet, *mut EventData, c_uint) -> u32,
    free: unsafe extern "C" fn(EventSet) -> u32,
}

impl Calls {
    /// Looks them up.
    pub(super) fn find(library: &LoadedLibrary) -> Option<Self> {
        // SAFETY: each name is looked up as the type that nvml.h declares for it; the pointers live in `Library`
        // beside what keeps it loaded.
        unsafe {
            // Each is looked up, so that all that are not there can be named.
            let (create, register) =
                (library.optional("nvmlEventSetCreate"), library.optional("nvmlDeviceRegisterEvents"));
            let (wait, free) =
                (library.optional("nvmlEventSetWait_v2"), library.optional("nvmlEventSetFree"));
            Some(Self { create: create?, register: register?, wait: wait?, free: free? })
        }
    }
}

/// A GPU in the set. It stays when the GPU is lost: that is when its Xids matter.
struct Registered {
    handle: Handle,
    /// What its events say of it.
    gpu: Xid,
}

/// A set of events, in which GPUs are registered.
pub(super) struct XidEvents<'s> {
    calls: Calls,
    set: EventSet,
    registered: Vec<Registered>,
    // The set means nothing after the session's shutdown.
    _session: std::marker::PhantomData<&'s Session<'s>>,
}

impl<'s> XidEvents<'s> {
    /// An empty set.
    ///
    /// # Errors
    /// NVML's code; [`Code::FUNCTION_NOT_FOUND`] where the library has none.
    pub fn new(session: &'s Session<'s>) -> Result<Self, Code> {
        let calls = session.library.xid.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut set: EventSet = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer.
        checked(unsafe { (calls.create)(&raw mut set) })?;
        Ok(Self { calls, set, registered: Vec::new(), _session: std::marker::PhantomData })
    }

    /// Registers a GPU unless it is; NVML's code. One that is refused is tried again with the next survey.
    pub fn register(&mut self, gpu: &Gpu<'_, '_>, found: &GpuSurvey) -> u32 {
        let (index, uuid, pci_bus_id) = (found.index, found.uuid.clone(), found.pci_bus_id.clone());
        let described = Xid { index, uuid, pci_bus_id, ..Xid::default() };
        if let Some(known) = self.registered.iter_mut().find(|known| known.handle == gpu.handle)
            && known.gpu.uuid == described.uuid
        {
            known.gpu = described;
            return Code::SUCCESS.0;
        }
        // SAFETY: handle and set are of this session.
        let code = unsafe { (self.calls.register)(gpu.handle, XID_CRITICAL_ERROR, self.set) };
        if Code(code) == Code::SUCCESS {
            self.registered.retain(|known| known.handle != gpu.handle);
            if self.registered.len() == REGISTERED_MAX {
                self.registered.remove(0);
            }
            self.registered.push(Registered { handle: gpu.handle, gpu: described });
        }
        code
    }

    /// Appends each event that has come. Allocates nothing where none has.
    pub fn take(&self, xids: &mut Vec<Xid>) {
        if self.registered.is_empty() {
            return;
        }
        for _ in 0..EVENTS_MAX {
            let null = std::ptr::null_mut();
            let mut event = EventData {
                device: null,
                kind: 0,
                data: 0,
                gpu_instance: NO_INSTANCE,
                compute_instance: NO_INSTANCE,
            };
            // SAFETY: the set is of this session, the pointer is to a live structure of NVML's layout; a timeout of 0 does not wait.
            if Code(unsafe { (self.calls.wait)(self.set, &raw mut event, 0) }) != Code::SUCCESS {
                return;
            }
            let known = self.registered.iter().find(|known| known.handle == event.device);
            if event.kind & XID_CRITICAL_ERROR != 0
                && let Some(known) = known
            {
                let part = |instance| (instance != NO_INSTANCE).then_some(instance);
                let (gpu_instance, compute_instance) =
                    (part(event.gpu_instance), part(event.compute_instance));
                xids.push(Xid { number: event.data, gpu_instance, compute_instance, ..known.gpu.clone() });
            }
        }
    }
}

impl Drop for XidEvents<'_> {
    fn drop(&mut self) {
        // SAFETY: pairs with the creation. Its result changes nothing.
        unsafe { (self.calls.free)(self.set) };
    }
}
