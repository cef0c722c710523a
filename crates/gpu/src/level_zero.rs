//! Intel's Level Zero Sysman: Xe links between GPUs, by the counters of fabric ports.
//!
//! Names, numbers, sizes and offsets are facts of `zes_api.h` (Level Zero 1.5 and later); nothing of it is copied. Ports
//! are reported by the identities that they have in the fabric, which say where a link leads to. An outline: it has seen a
//! test double only, and Intel's UUIDs are not promised to differ between nodes before Level Zero 1.15.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::fmt::Write as _;
use std::path::Path;

use crate::code::Code;
use crate::field::{self, value_type};
use crate::frame::{GpuPoll, GpuSurvey, Hello, LinkSurvey, Poll, ProblemKind, Processes, RawField, Survey};
use crate::library::{calls, text};
use crate::poll::monotonic_nanoseconds;
use crate::reader::{GivenUp, Reader, not_reported};

/// `ZES_STRUCTURE_TYPE_…`.
const DEVICE_PROPERTIES: u32 = 0x1;
const PCI_PROPERTIES: u32 = 0x2;
const PORT_PROPERTIES: u32 = 0x6;
const PORT_STATE: u32 = 0x19;
/// `ZES_FABRIC_PORT_STATUS_HEALTHY` and `…_DEGRADED`: the port carries data.
const STATUS_UP: [u32; 2] = [1, 2];
/// More drivers, devices and ports of one than there are; ports beyond would get the numbers of C2C links.
const HANDLES: usize = 36;
/// Larger than `zes_device_properties_t` and `zes_pci_properties_t`, whose beginning is all that is read.
const PROPERTIES_BYTES: usize = 4096;
/// Offsets in `zes_device_properties_t`: UUID (16 bytes) and name (256) of the device within.
const UUID_AT: usize = 112;
const NAME_AT: usize = 128;
/// Offset of the address in `zes_pci_properties_t`: domain, bus, device, function, 32 bits each.
const ADDRESS_AT: usize = 16;

type Handle = *mut c_void;

/// `zes_fabric_port_id_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PortId {
    fabric: u32,
    attach: u32,
    port: u8,
}

/// `zes_fabric_port_speed_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Speed {
    /// Bits per second of a lane.
    bit_rate: i64,
    /// Lanes.
    width: i32,
}

/// `zes_fabric_port_properties_t`.
#[repr(C)]
struct PortProperties {
    structure: u32,
    next: *mut c_void,
    model: [c_char; 256],
    on_subdevice: u8,
    subdevice: u32,
    id: PortId,
    receive: Speed,
    transmit: Speed,
}
const _: () = assert!(size_of::<PortProperties>() == 328 && std::mem::offset_of!(PortProperties, id) == 280);

/// `zes_fabric_port_state_t`.
#[repr(C)]
struct PortState {
    structure: u32,
    next: *mut c_void,
    status: u32,
    quality: u32,
    failure: u32,
    remote: PortId,
    receive: Speed,
    transmit: Speed,
}
const _: () = assert!(size_of::<PortState>() == 72 && std::mem::offset_of!(PortState, remote) == 28);

/// `zes_fabric_port_throughput_t`: bytes since the driver was loaded.
#[repr(C)]
#[derive(Default)]
struct Throughput {
    timestamp: u64,
    received: u64,
    transmitted: u64,
}

type Enumerate = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> u32;
type Properties = unsafe extern "C" fn(Handle, *mut c_void) -> u32;

calls! {
    /// The calls.
    struct Calls {
        init: unsafe extern "C" fn(u32) -> u32 = "zesInit",
        drivers: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32 = "zesDriverGet",
        devices: Enumerate = "zesDeviceGet",
        properties: Properties = "zesDeviceGetProperties",
        pci: Properties = "zesDevicePciGetProperties",
        ports: Enumerate = "zesDeviceEnumFabricPorts",
        port_properties: unsafe extern "C" fn(Handle, *mut PortProperties) -> u32 = "zesFabricPortGetProperties",
        port_state: unsafe extern "C" fn(Handle, *mut PortState) -> u32 = "zesFabricPortGetState",
        throughput: unsafe extern "C" fn(Handle, *mut Throughput) -> u32 = "zesFabricPortGetThroughput",
    }
}

impl Calls {
    /// What a call lists of something.
    fn listed(call: Enumerate, of: Handle) -> Result<Vec<Handle>, Code> {
        let mut handles: [Handle; HANDLES] = [std::ptr::null_mut(); HANDLES];
        let mut count = HANDLES as u32;
        // SAFETY: the handle was given by the library; the array has as many handles as the count says.
        checked(unsafe { call(of, &raw mut count, handles.as_mut_ptr()) })?;
        Ok(handles.into_iter().take(count as usize).collect())
    }

    fn all_devices(&self) -> Result<Vec<Handle>, Code> {
        let mut drivers: [Handle; HANDLES] = [std::ptr::null_mut(); HANDLES];
        let mut count = HANDLES as u32;
        // SAFETY: the array has as many handles as the count says.
        checked(unsafe { (self.drivers)(&raw mut count, drivers.as_mut_ptr()) })?;
        let mut devices = Vec::new();
        for driver in drivers.into_iter().take(count as usize) {
            devices.extend(Self::listed(self.devices, driver)?);
        }
        Ok(devices)
    }

    /// The beginning of a structure of properties.
    fn read(call: Properties, device: Handle, structure: u32) -> Result<Vec<u8>, Code> {
        // 64-bit words, so that the structure is aligned.
        let mut words = vec![0_u64; PROPERTIES_BYTES / 8];
        words[0] = u64::from(structure); // the second half of the word is padding
        // SAFETY: the handle was given by the library; the buffer is aligned and larger than the structure.
        checked(unsafe { call(device, words.as_mut_ptr().cast()) })?;
        Ok(words.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    fn state(&self, port: Handle) -> Result<PortState, Code> {
        let mut state = PortState {
            structure: PORT_STATE,
            next: std::ptr::null_mut(),
            status: 0,
            quality: 0,
            failure: 0,
            remote: PortId::default(),
            receive: Speed::default(),
            transmit: Speed::default(),
        };
        // SAFETY: the handle was given by the library; the structure is live and of the type it names.
        checked(unsafe { (self.port_state)(port, &raw mut state) }).map(|()| state)
    }

    fn port_id(&self, port: Handle) -> Option<PortId> {
        let mut properties = PortProperties {
            structure: PORT_PROPERTIES,
            next: std::ptr::null_mut(),
            model: [0; 256],
            on_subdevice: 0,
            subdevice: 0,
            id: PortId::default(),
            receive: Speed::default(),
            transmit: Speed::default(),
        };
        // SAFETY: as in `state`.
        checked(unsafe { (self.port_properties)(port, &raw mut properties) }).ok().map(|()| properties.id)
    }
}

/// Level Zero's result as the code under which an absent value is counted.
fn checked(result: u32) -> Result<(), Code> {
    match result {
        0 => Ok(()),
        0x7800_0001 => Err(Code::UNINITIALIZED),
        0x7800_0003 => Err(Code::NOT_SUPPORTED),
        0x7001_0000 => Err(Code::NO_PERMISSION),
        0x7000_0001 => Err(Code::GPU_IS_LOST),
        _ => Err(Code::UNKNOWN),
    }
}

/// One GPU.
struct Gpu {
    uuid: String,
    place: String,
    name: String,
    ports: Vec<Handle>,
}

/// All GPUs of the library.
struct ZeroReader {
    calls: Calls,
    gpus: Vec<Gpu>,
}

/// See [`Vendor::with_reader`](crate::Vendor::with_reader).
pub(crate) fn with_reader<T>(path: &Path, body: &mut dyn FnMut(&mut dyn Reader) -> T) -> Result<T, GivenUp> {
    let calls = Calls::open(path)?;
    // SAFETY: may be called at any time; 0 stands for no flags.
    checked(unsafe { (calls.init)(0) }).map_err(|code| {
        let text = format!("Level Zero does not start ({}); is Intel's GPU driver loaded?", code.reason());
        (ProblemKind::DriverUnavailable, text)
    })?;
    Ok(body(&mut ZeroReader { calls, gpus: Vec::new() }))
}

impl ZeroReader {
    fn describe(&self, device: Handle) -> Result<Gpu, Code> {
        let properties = Calls::read(self.calls.properties, device, DEVICE_PROPERTIES)?;
        let mut uuid = String::from("INTEL-");
        for byte in &properties[UUID_AT..UUID_AT + 16] {
            // Writing to a String can't fail.
            let _ = write!(uuid, "{byte:02x}");
        }
        let place = Calls::read(self.calls.pci, device, PCI_PROPERTIES).map(|pci| {
            let number = |at: usize| u32::from_ne_bytes([pci[at], pci[at + 1], pci[at + 2], pci[at + 3]]);
            let [domain, bus, device, function] = [0, 4, 8, 12].map(|offset| number(ADDRESS_AT + offset));
            format!("{domain:08x}:{bus:02x}:{device:02x}.{function}")
        });
        Ok(Gpu {
            uuid,
            place: place.unwrap_or_default(),
            name: text(&properties[NAME_AT..NAME_AT + 256]),
            // A GPU without ports answers that it has no such feature.
            ports: Calls::listed(self.calls.ports, device).unwrap_or_default(),
        })
    }

    /// Ports by identity: place of their GPU, and number there.
    fn identities(&self) -> BTreeMap<PortId, (String, u32)> {
        let ports = self
            .gpus
            .iter()
            .flat_map(|gpu| (0..).zip(&gpu.ports).map(move |(link, port)| (gpu, link, *port)));
        ports
            .filter_map(|(gpu, link, port)| Some((self.calls.port_id(port)?, (gpu.place.clone(), link))))
            .collect()
    }
}

impl Reader for ZeroReader {
    fn hello(&self) -> Hello {
        Hello::default()
    }

    fn survey(&mut self) -> Result<Survey, GivenUp> {
        let devices = self.calls.all_devices().map_err(|code| {
            (
                ProblemKind::DriverUnavailable,
                format!("cannot list Intel GPUs ({}); see xpu-smi discovery", code.reason()),
            )
        })?;
        if devices.is_empty() {
            return Err((ProblemKind::NoGpu, "Level Zero works and there is no GPU".to_owned()));
        }
        let mut found = Survey::default();
        self.gpus.clear();
        for device in devices {
            match self.describe(device) {
                Ok(gpu) => self.gpus.push(gpu),
                Err(_) => found.unreadable += 1,
            }
        }
        let identities = self.identities();
        for (index, gpu) in (0..).zip(&self.gpus) {
            let links = (0..).zip(&gpu.ports).filter_map(|(link, port)| {
                let state = self.calls.state(*port).ok()?;
                let active = STATUS_UP.contains(&state.status);
                let bits = state.transmit.bit_rate.checked_mul(i64::from(state.transmit.width)).unwrap_or(0);
                let remote = identities.get(&state.remote).filter(|_| active);
                Some(LinkSurvey {
                    link,
                    active,
                    speed_megabytes_per_second: u64::try_from(bits / 8_000_000)
                        .ok()
                        .filter(|speed| active && *speed > 0),
                    remote_type: remote.map(|_| 0),
                    remote_pci_bus_id: remote.map(|(place, _)| place.clone()),
                    remote_link: remote.map(|(_, link)| *link),
                    ..LinkSurvey::default()
                })
            });
            found.gpus.push(GpuSurvey {
                index,
                uuid: gpu.uuid.clone(),
                name: gpu.name.clone(),
                pci_bus_id: gpu.place.clone(),
                links: links.collect(),
                ..GpuSurvey::default()
            });
        }
        Ok(found)
    }

    fn poll(&mut self, poll: &mut Poll) {
        poll.gpus.resize_with(self.gpus.len(), GpuPoll::default);
        let start = monotonic_nanoseconds();
        for (gpu, into) in self.gpus.iter().zip(&mut poll.gpus) {
            let begin = monotonic_nanoseconds();
            into.link_fields.clear();
            for (scope, port) in (0..).zip(&gpu.ports) {
                let answered = |field, read: Result<u64, Code>| RawField {
                    field,
                    scope,
                    code: read.err().unwrap_or(Code::SUCCESS).0,
                    value_type: value_type::UNSIGNED_LONG_LONG,
                    bits: read.unwrap_or(0),
                };
                let state = self.calls.state(*port).map(|state| u64::from(STATUS_UP.contains(&state.status)));
                let mut bytes = Throughput::default();
                // SAFETY: the handle was given by the library; the structure is live.
                let read = checked(unsafe { (self.calls.throughput)(*port, &raw mut bytes) });
                into.link_fields.push(answered(field::LINK_STATE, state));
                into.link_fields.push(answered(field::XMIT_BYTES, read.map(|()| bytes.transmitted)));
                into.link_fields.push(answered(field::RCV_BYTES, read.map(|()| bytes.received)));
            }
            into.links_monotonic_nanoseconds = begin + (monotonic_nanoseconds() - begin) / 2;
            into.pcie_monotonic_nanoseconds = into.links_monotonic_nanoseconds;
        }
        poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - start).unwrap_or(0);
    }

    fn processes(&mut self) -> Processes {
        not_reported(self.gpus.iter().map(|gpu| &gpu.uuid))
    }
}
