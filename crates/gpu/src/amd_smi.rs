//! AMD's SMI library: xGMI links by the accumulators of the GPU's firmware.
//!
//! `amdsmi_get_link_metrics` gives each link's accumulators of `gpu_metrics` beside the GPU at its other end. Names,
//! sizes and offsets are facts of AMD's `amdsmi.h` (ROCm 6 and 7); nothing of it is copied. The unit is named KB there and
//! is 1,024 bytes in AMD's own tools. Not tried on real hardware.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;

use crate::code::Code;
use crate::field::{self, value_type};
use crate::frame::{GpuPoll, GpuSurvey, Hello, LinkSurvey, Poll, ProblemKind, Processes, RawField, Survey};
use crate::library::{calls, text};
use crate::poll::monotonic_nanoseconds;
use crate::reader::{GivenUp, Reader, not_reported};

/// `AMDSMI_INIT_AMD_GPUS`.
const INIT_GPUS: u64 = 2;
/// `AMDSMI_MAX_NUM_XGMI_PHYSICAL_LINK`.
const LINKS: usize = 64;
/// Links looked at: beyond them the numbers of C2C links begin. GPUs have 8.
const LINKS_READ: usize = 36;
/// More sockets, and GPUs of one, than any node has.
const HANDLES: usize = 64;
/// `AMDSMI_GPU_UUID_SIZE` is 38; a library of another version may write more.
const UUID_BYTES: usize = 128;
/// Far larger than `amdsmi_asic_info_t`, which grows with versions and begins with the product's name.
const ASIC_BYTES: usize = 4096;
/// `AMDSMI_LINK_TYPE_XGMI`, which is 1 in ROCm 6 and 2 later; this call reports xGMI links only.
const LINK_TYPES_XGMI: [u32; 2] = [1, 2];
/// `AMDSMI_LINK_STATUS_ENABLED`; older versions leave 0 there.
const LINK_ENABLED: u32 = 0;

type Handle = *mut c_void;

/// One link of `amdsmi_link_metrics_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Link {
    /// Function in 3 bits, device in 5, bus in 8, domain above.
    bdf: u64,
    /// Gb/s.
    bit_rate: u32,
    /// Gb/s.
    max_bandwidth: u32,
    link_type: u32,
    read: u64,
    write: u64,
    status: u32,
    reserved: u64,
}
const _: () = assert!(size_of::<Link>() == 56 && std::mem::offset_of!(Link, read) == 24);

/// `amdsmi_link_metrics_t`.
#[repr(C)]
struct LinkMetrics {
    count: u32,
    links: [Link; LINKS],
    reserved: [u64; 7],
}
const _: () = assert!(size_of::<LinkMetrics>() == 3648 && std::mem::offset_of!(LinkMetrics, links) == 8);

calls! {
    /// The calls.
    struct Calls {
        init: unsafe extern "C" fn(u64) -> u32 = "amdsmi_init",
        shut_down: unsafe extern "C" fn() -> u32 = "amdsmi_shut_down",
        sockets: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32 = "amdsmi_get_socket_handles",
        processors: unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> u32 = "amdsmi_get_processor_handles",
        uuid: unsafe extern "C" fn(Handle, *mut c_uint, *mut c_char) -> u32 = "amdsmi_get_gpu_device_uuid",
        bdf: unsafe extern "C" fn(Handle, *mut u64) -> u32 = "amdsmi_get_gpu_device_bdf",
        links: unsafe extern "C" fn(Handle, *mut LinkMetrics) -> u32 = "amdsmi_get_link_metrics",
    }
    optional {
        asic: unsafe extern "C" fn(Handle, *mut c_void) -> u32 = "amdsmi_get_gpu_asic_info",
    }
}

impl Calls {
    /// All GPUs.
    fn handles(&self) -> Result<Vec<Handle>, Code> {
        let mut sockets: [Handle; HANDLES] = [std::ptr::null_mut(); HANDLES];
        let mut count = HANDLES as u32;
        // SAFETY: the array has as many handles as the count says.
        checked(unsafe { (self.sockets)(&raw mut count, sockets.as_mut_ptr()) })?;
        let mut found = Vec::new();
        for socket in sockets.into_iter().take(count as usize) {
            let mut processors: [Handle; HANDLES] = [std::ptr::null_mut(); HANDLES];
            let mut count = HANDLES as u32;
            // SAFETY: as above; the socket was given by the library.
            checked(unsafe { (self.processors)(socket, &raw mut count, processors.as_mut_ptr()) })?;
            found.extend(processors.into_iter().take(count as usize));
        }
        Ok(found)
    }

    fn uuid(&self, gpu: Handle) -> Result<String, Code> {
        let mut buffer = [0_u8; UUID_BYTES];
        let mut length = UUID_BYTES as c_uint;
        // SAFETY: the handle was given by the library; the buffer has the length that is given.
        checked(unsafe { (self.uuid)(gpu, &raw mut length, buffer.as_mut_ptr().cast()) })?;
        Ok(text(&buffer))
    }

    fn place(&self, gpu: Handle) -> Option<String> {
        let mut bdf = 0;
        // SAFETY: the handle was given by the library; amdsmi_bdf_t is a union of 64 bits.
        checked(unsafe { (self.bdf)(gpu, &raw mut bdf) }).ok()?;
        Some(place(bdf))
    }

    fn name(&self, gpu: Handle) -> Option<String> {
        let mut buffer = [0_u8; ASIC_BYTES];
        // SAFETY: the handle was given by the library; the buffer is far larger than the structure.
        checked(unsafe { self.asic?(gpu, buffer.as_mut_ptr().cast()) }).ok()?;
        Some(text(&buffer))
    }
}

/// AMD's status as the code under which an absent value is counted.
fn checked(status: u32) -> Result<(), Code> {
    match status {
        0 => Ok(()),
        2 | 3 => Err(Code::NOT_SUPPORTED),
        10 => Err(Code::NO_PERMISSION),
        _ => Err(Code::UNKNOWN),
    }
}

/// A place on the PCI bus as inventories have it.
fn place(bdf: u64) -> String {
    format!("{:08x}:{:02x}:{:02x}.{}", bdf >> 16, (bdf >> 8) & 0xff, (bdf >> 3) & 0x1f, bdf & 7)
}

/// One GPU.
struct Gpu {
    handle: Handle,
    uuid: String,
    place: String,
    name: String,
}

/// The library between initialisation and shutdown.
struct AmdReader {
    calls: Calls,
    gpus: Vec<Gpu>,
    metrics: Box<LinkMetrics>,
}

impl Drop for AmdReader {
    fn drop(&mut self) {
        // SAFETY: pairs with the initialisation in `with_reader`. Its result changes nothing.
        unsafe { (self.calls.shut_down)() };
    }
}

/// See [`Vendor::with_reader`](crate::Vendor::with_reader).
pub(crate) fn with_reader<T>(path: &Path, body: &mut dyn FnMut(&mut dyn Reader) -> T) -> Result<T, GivenUp> {
    let calls = Calls::open(path)?;
    // SAFETY: may be called at any time.
    checked(unsafe { (calls.init)(INIT_GPUS) }).map_err(|code| {
        let text = format!("AMD SMI does not start ({}); load the kernel module amdgpu", code.reason());
        (ProblemKind::DriverUnavailable, text)
    })?;
    let none = Link {
        bdf: 0,
        bit_rate: 0,
        max_bandwidth: 0,
        link_type: 0,
        read: 0,
        write: 0,
        status: 0,
        reserved: 0,
    };
    let metrics = Box::new(LinkMetrics { count: 0, links: [none; LINKS], reserved: [0; 7] });
    Ok(body(&mut AmdReader { calls, gpus: Vec::new(), metrics }))
}

impl AmdReader {
    /// The links of a GPU as they are now.
    fn links(&mut self, gpu: Handle) -> Result<impl Iterator<Item = (u32, &Link)>, Code> {
        // SAFETY: the handle was given by the library; the structure is live and of the library's layout.
        checked(unsafe { (self.calls.links)(gpu, &raw mut *self.metrics) })?;
        let count = (self.metrics.count as usize).min(LINKS_READ);
        let links = (0..).zip(&self.metrics.links[..count]);
        Ok(links.filter(|(_, link)| LINK_TYPES_XGMI.contains(&link.link_type)))
    }

    fn poll_gpu(&mut self, at: usize, into: &mut GpuPoll) {
        let handle = self.gpus[at].handle;
        let begin = monotonic_nanoseconds();
        into.link_fields.clear();
        into.pcie_fields.clear();
        match self.links(handle) {
            Ok(links) => {
                for (scope, link) in links {
                    let up = u64::from(link.status == LINK_ENABLED);
                    let counter = |field, value: u64| RawField {
                        field,
                        scope,
                        // All ones stand for what the firmware does not count.
                        code: if value == u64::MAX { Code::NOT_SUPPORTED.0 } else { Code::SUCCESS.0 },
                        value_type: value_type::UNSIGNED_LONG_LONG,
                        bits: value,
                    };
                    into.link_fields.push(counter(field::LINK_STATE, up));
                    into.link_fields.push(counter(field::DATA_TX_KIB, link.write));
                    into.link_fields.push(counter(field::DATA_RX_KIB, link.read));
                }
            }
            Err(code) => into.link_fields.push(RawField {
                field: field::DATA_TX_KIB,
                code: code.0,
                ..RawField::default()
            }),
        }
        into.links_monotonic_nanoseconds = begin + (monotonic_nanoseconds() - begin) / 2;
        into.pcie_monotonic_nanoseconds = into.links_monotonic_nanoseconds;
    }
}

impl Reader for AmdReader {
    fn hello(&self) -> Hello {
        Hello::default()
    }

    fn survey(&mut self) -> Result<Survey, GivenUp> {
        let handles = self.calls.handles().map_err(|code| {
            (
                ProblemKind::DriverUnavailable,
                format!("cannot list AMD GPUs ({}); see amd-smi list", code.reason()),
            )
        })?;
        if handles.is_empty() {
            return Err((ProblemKind::NoGpu, "AMD SMI works and there is no GPU".to_owned()));
        }
        let mut found = Survey::default();
        self.gpus.clear();
        for handle in handles {
            match self.calls.uuid(handle) {
                Ok(uuid) => self.gpus.push(Gpu {
                    handle,
                    uuid,
                    place: self.calls.place(handle).unwrap_or_default(),
                    name: self.calls.name(handle).unwrap_or_default(),
                }),
                Err(_) => found.unreadable += 1,
            }
        }
        for at in 0..self.gpus.len() {
            let handle = self.gpus[at].handle;
            let links = self
                .links(handle)
                .map(|links| links.map(|(link, metrics)| describe(link, metrics)).collect());
            let gpu = &self.gpus[at];
            found.gpus.push(GpuSurvey {
                index: u32::try_from(at).unwrap_or(u32::MAX),
                uuid: gpu.uuid.clone(),
                name: gpu.name.clone(),
                pci_bus_id: gpu.place.clone(),
                links: links.unwrap_or_default(),
                ..GpuSurvey::default()
            });
        }
        Ok(found)
    }

    fn poll(&mut self, poll: &mut Poll) {
        poll.gpus.resize_with(self.gpus.len(), GpuPoll::default);
        let begin = monotonic_nanoseconds();
        for (at, into) in poll.gpus.iter_mut().enumerate() {
            self.poll_gpu(at, into);
        }
        poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - begin).unwrap_or(0);
    }

    fn processes(&mut self) -> Processes {
        not_reported(self.gpus.iter().map(|gpu| &gpu.uuid))
    }
}

fn describe(link: u32, metrics: &Link) -> LinkSurvey {
    let active = metrics.status == LINK_ENABLED;
    // Gb/s of one direction.
    let speed = u64::from(metrics.max_bandwidth) * 1000 / 8;
    LinkSurvey {
        link,
        active,
        speed_megabytes_per_second: (active && speed > 0 && metrics.max_bandwidth != u32::MAX)
            .then_some(speed),
        remote_type: active.then_some(0),
        remote_pci_bus_id: active.then(|| place(metrics.bdf)),
        ..LinkSurvey::default()
    }
}
