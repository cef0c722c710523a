//! Xid events: what the driver reports of a GPU's faults, by NVML's event set. Never waited for: each poll takes what is there.
//!
//! Numbers and layouts are facts of `nvml.h`.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{c_uint, c_void};

use super::{Gpu, Handle, Session, checked};
use crate::code::Code;
use crate::library::LoadedLibrary;

/// `nvmlEventTypeXidCriticalError`.
const XID_CRITICAL_ERROR: u64 = 0x8;

/// Events that one poll takes; the rest waits for the next.
const EVENTS_MAX: usize = 32;

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
            Some(Self {
                create: library.optional("nvmlEventSetCreate")?,
                register: library.optional("nvmlDeviceRegisterEvents")?,
                wait: library.optional("nvmlEventSetWait_v2")?,
                free: library.optional("nvmlEventSetFree")?,
            })
        }
    }
}

/// A set of events, in which GPUs are registered.
pub(super) struct XidEvents<'s> {
    calls: Calls,
    set: EventSet,
    /// UUIDs of the GPUs in it.
    registered: Vec<String>,
    // The set means nothing after the session's shutdown.
    _session: std::marker::PhantomData<&'s Session<'s>>,
}

impl<'s> XidEvents<'s> {
    /// An empty set; `None` where the library has none.
    pub fn new(session: &'s Session<'s>) -> Option<Self> {
        let calls = session.library.xid?;
        let mut set: EventSet = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer.
        checked(unsafe { (calls.create)(&raw mut set) }).ok()?;
        Some(Self { calls, set, registered: Vec::new(), _session: std::marker::PhantomData })
    }

    /// Registers those of these GPUs that are not yet. One that does not report events is tried again with the next survey.
    pub fn register<'g>(&mut self, gpus: impl Iterator<Item = (&'g str, Gpu<'s, 's>)> + Clone) {
        self.registered.retain(|known| gpus.clone().any(|(uuid, _)| uuid == known));
        for (uuid, gpu) in gpus {
            if self.registered.iter().any(|known| known == uuid) {
                continue;
            }
            // SAFETY: handle and set are of this session.
            let code = unsafe { (self.calls.register)(gpu.handle, XID_CRITICAL_ERROR, self.set) };
            if Code(code) == Code::SUCCESS {
                self.registered.push(uuid.to_owned());
            }
        }
    }

    /// Hands each event that has come to `take`: a GPU's handle and the number. Allocates nothing.
    pub fn take(&self, mut take: impl FnMut(Handle, u64)) {
        if self.registered.is_empty() {
            return;
        }
        for _ in 0..EVENTS_MAX {
            let null = std::ptr::null_mut();
            let mut event =
                EventData { device: null, kind: 0, data: 0, gpu_instance: 0, compute_instance: 0 };
            // SAFETY: the set is of this session, the pointer is to a live structure of NVML's layout; a timeout of 0 does not wait.
            if Code(unsafe { (self.calls.wait)(self.set, &raw mut event, 0) }) != Code::SUCCESS {
                return;
            }
            if event.kind & XID_CRITICAL_ERROR != 0 {
                take(event.device, event.data);
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
