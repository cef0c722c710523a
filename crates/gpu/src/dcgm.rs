//! DCGM: NVLink and PCIe rates of a running host engine, summed up to bytes.
//!
//! For sites where DCGM profiles already and holds the performance monitor. It gives mean rates of its own intervals
//! with the time of each; so these counters are rate times time. Whether the bytes hold protocol headers DCGM's own documents
//! contradict each other about (docs/GPU.md).
//! Names, numbers and layouts are facts of DCGM's headers (3 and 4); nothing of them is copied. Not tried on real hardware.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{CString, c_char, c_double, c_int, c_longlong, c_uint, c_ushort};
use std::path::Path;

use crate::code::Code;
use crate::field::{self, value_type};
use crate::frame::{GpuPoll, GpuSurvey, Hello, LinkSurvey, Poll, ProblemKind, Processes, RawField, Survey};
use crate::library::{calls, text};
use crate::poll::monotonic_nanoseconds;
use crate::reader::{GivenUp, Reader, not_reported};

/// `DCGM_FI_DEV_NAME`, `…_UUID`, `…_PCI_BUSID`.
const NAME: u16 = 50;
const UUID: u16 = 54;
const PCI_BUS_ID: u16 = 57;
/// `DCGM_FI_PROF_PCIE_TX_BYTES` and `…_RX_BYTES`, bytes per second.
const PCIE_TRANSMIT: u16 = 1009;
const PCIE_RECEIVE: u16 = 1010;
/// `DCGM_FI_PROF_NVLINK_L0_TX_BYTES`: transmit and receive take turns from link to link.
const NVLINK_FIRST: u16 = 1040;
/// Links that have fields of their own.
const NVLINKS: u16 = 18;
/// `DCGM_MAX_NUM_DEVICES`.
const DEVICES: usize = 32;
/// `DCGM_GROUP_ALL_GPUS`.
const ALL_GPUS: usize = 0x7fff_ffff;
/// How often the host engine is to read, microseconds, and how long it keeps what it read, seconds.
const UPDATE_MICROSECONDS: c_longlong = 1_000_000;
const KEEP_SECONDS: c_double = 30.0;
/// From here on a number is no value: blank, not found, not supported, no permission.
const BLANK_INTEGER: i64 = 0x7fff_ffff_ffff_fff0;
const BLANK_DOUBLE: f64 = 140_737_488_355_328.0;
/// Types of values (`DCGM_FT_…`).
const TYPE_DOUBLE: u16 = b'd' as u16;
/// Where a host engine listens on its own node.
const ADDRESS: &str = "127.0.0.1";

type Handle = usize;

/// `dcgmFieldValue_v1`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    version: c_uint,
    field: c_ushort,
    kind: c_ushort,
    status: c_int,
    /// Microseconds since 1970.
    time: i64,
    bytes: [u8; 4096],
}
const _: () = assert!(size_of::<Value>() == 4120 && std::mem::offset_of!(Value, bytes) == 24);

const EMPTY: Value = Value { version: 0, field: 0, kind: 0, status: -1, time: 0, bytes: [0; 4096] };

impl Value {
    fn first_eight(&self) -> [u8; 8] {
        let mut first = [0; 8];
        first.copy_from_slice(&self.bytes[..8]);
        first
    }

    /// A rate, where there is one.
    fn rate(&self) -> Option<f64> {
        if self.status != 0 {
            return None;
        }
        if self.kind == TYPE_DOUBLE {
            let rate = f64::from_ne_bytes(self.first_eight());
            return (rate.is_finite() && (0.0..BLANK_DOUBLE).contains(&rate)).then_some(rate);
        }
        let rate = i64::from_ne_bytes(self.first_eight());
        (0..BLANK_INTEGER).contains(&rate).then_some(rate as f64)
    }

    fn text(&self) -> Option<String> {
        // Texts that are no value are in angle brackets.
        (self.status == 0)
            .then(|| text(&self.bytes))
            .filter(|text| !text.is_empty() && !text.starts_with('<'))
    }
}

calls! {
    /// The calls.
    struct Calls {
        init: unsafe extern "C" fn() -> c_int = "dcgmInit",
        shut_down: unsafe extern "C" fn() -> c_int = "dcgmShutdown",
        connect: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int = "dcgmConnect",
        disconnect: unsafe extern "C" fn(Handle) -> c_int = "dcgmDisconnect",
        devices: unsafe extern "C" fn(Handle, *mut c_uint, *mut c_int) -> c_int = "dcgmGetAllDevices",
        field_group: unsafe extern "C" fn(Handle, c_int, *const c_ushort, *const c_char, *mut usize) -> c_int = "dcgmFieldGroupCreate",
        watch: unsafe extern "C" fn(Handle, usize, usize, c_longlong, c_double, c_int) -> c_int = "dcgmWatchFields",
        update: unsafe extern "C" fn(Handle, c_int) -> c_int = "dcgmUpdateAllFields",
        latest: unsafe extern "C" fn(Handle, c_int, *const c_ushort, c_uint, *mut Value) -> c_int = "dcgmGetLatestValuesForFields",
    }
}

/// No link or slot carries as much in one direction, bytes per second: a rate above it is none.
const FASTEST: f64 = 1e12;

/// A rate summed up.
#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    /// What is left below a whole byte.
    rest: f64,
    /// Of the last value, microseconds; `None` before the first.
    time: Option<i64>,
}

impl Sum {
    /// Takes a value in: its rate held since the value before.
    fn add(&mut self, rate: f64, time: i64) {
        if let Some(last) = self.time
            && time > last
        {
            let grown = rate * (time - last) as f64 / 1e6 + self.rest;
            // Not negative, and far below 2^64.
            self.bytes = self.bytes.wrapping_add(grown as u64);
            self.rest = grown.fract();
        }
        self.time = Some(self.time.map_or(time, |last| last.max(time)));
    }
}

/// One GPU and the fields that it answers.
struct Gpu {
    id: c_int,
    fields: Vec<c_ushort>,
    sums: Vec<Sum>,
    values: Vec<Value>,
    uuid: String,
}

/// A connection to the node's host engine.
struct DcgmReader {
    calls: Calls,
    handle: Handle,
    gpus: Vec<Gpu>,
}

impl Drop for DcgmReader {
    fn drop(&mut self) {
        // SAFETY: pairs with connection and initialisation in `with_reader`. Their results change nothing.
        unsafe {
            (self.calls.disconnect)(self.handle);
            (self.calls.shut_down)();
        }
    }
}

fn unavailable(what: &str, status: c_int) -> GivenUp {
    let text =
        format!("{what}: DCGM error {status}; is nv-hostengine running on this node? See dcgmi discovery -l");
    (ProblemKind::DriverUnavailable, text)
}

/// See [`Vendor::with_reader`](crate::Vendor::with_reader).
pub(crate) fn with_reader<T>(path: &Path, body: &mut dyn FnMut(&mut dyn Reader) -> T) -> Result<T, GivenUp> {
    let calls = Calls::open(path)?;
    let address = CString::new(ADDRESS).unwrap_or_default();
    let mut handle = 0;
    // SAFETY: may be called at any time.
    let status = unsafe { (calls.init)() };
    if status != 0 {
        return Err(unavailable("DCGM does not start", status));
    }
    // SAFETY: the address ends in a NUL; the pointer is to a live handle.
    let status = unsafe { (calls.connect)(address.as_ptr(), &raw mut handle) };
    if status != 0 {
        // SAFETY: pairs with the initialisation.
        unsafe { (calls.shut_down)() };
        return Err(unavailable("cannot connect to the host engine", status));
    }
    let mut reader = DcgmReader { calls, handle, gpus: Vec::new() };
    reader.watch()?;
    Ok(body(&mut reader))
}

/// All fields that are watched.
fn fields() -> Vec<c_ushort> {
    let links = NVLINK_FIRST..NVLINK_FIRST + 2 * NVLINKS;
    [NAME, UUID, PCI_BUS_ID, PCIE_TRANSMIT, PCIE_RECEIVE].into_iter().chain(links).collect()
}

impl DcgmReader {
    /// Has the host engine read our fields; it drops them with the connection.
    fn watch(&mut self) -> Result<(), GivenUp> {
        let fields = fields();
        // The name must be no other client's.
        let name = CString::new(format!("throughline-{}", std::process::id())).unwrap_or_default();
        let (mut group, count) = (0, c_int::try_from(fields.len()).unwrap_or(0));
        // SAFETY: the array has as many fields as the count says; name and group are live.
        let made = unsafe {
            (self.calls.field_group)(self.handle, count, fields.as_ptr(), name.as_ptr(), &raw mut group)
        };
        if made != 0 {
            return Err(unavailable("cannot make a group of fields", made));
        }
        let (watch, every) = (self.calls.watch, UPDATE_MICROSECONDS);
        // SAFETY: plain numbers.
        let watched = unsafe { watch(self.handle, ALL_GPUS, group, every, KEEP_SECONDS, 0) };
        if watched != 0 {
            return Err(unavailable("cannot watch fields", watched));
        }
        Ok(())
    }

    fn latest(&self, gpu: c_int, fields: &[c_ushort], values: &mut [Value]) -> Result<(), Code> {
        let count = c_uint::try_from(fields.len().min(values.len())).unwrap_or(0);
        values.iter_mut().for_each(|value| value.status = -1);
        let (latest, into) = (self.calls.latest, values.as_mut_ptr());
        // SAFETY: both arrays have as many entries as the count says.
        let status = unsafe { latest(self.handle, gpu, fields.as_ptr(), count, into) };
        if status == 0 { Ok(()) } else { Err(Code::UNKNOWN) }
    }
}

impl Reader for DcgmReader {
    fn hello(&self) -> Hello {
        Hello::default()
    }

    fn survey(&mut self) -> Result<Survey, GivenUp> {
        let (mut ids, mut count) = ([0; DEVICES], 0);
        // SAFETY: the array has DCGM's own length; the pointers are live.
        let status = unsafe { (self.calls.devices)(self.handle, ids.as_mut_ptr(), &raw mut count) };
        if status != 0 {
            return Err(unavailable("cannot list the GPUs", status));
        }
        // SAFETY: plain numbers; waits until each field was read once, which is bounded by the host engine.
        unsafe { (self.calls.update)(self.handle, 1) };
        let mut found = Survey::default();
        let before = std::mem::take(&mut self.gpus);
        let fields = fields();
        let mut values = vec![EMPTY; fields.len()];
        for id in ids.into_iter().take(usize::try_from(count).unwrap_or(0)) {
            let id = c_int::try_from(id).unwrap_or(-1);
            let read = self.latest(id, &fields, &mut values);
            let value = |field: u16| fields.iter().position(|known| *known == field).map(|at| &values[at]);
            let Some(uuid) = value(UUID).filter(|_| read.is_ok()).and_then(Value::text) else {
                found.unreadable += 1;
                continue;
            };
            let there = |field: &c_ushort| value(*field).is_some_and(|value| value.rate().is_some());
            let polled: Vec<c_ushort> =
                fields.iter().copied().filter(|field| *field >= PCIE_TRANSMIT && there(field)).collect();
            let link_of = |field: &c_ushort| field.checked_sub(NVLINK_FIRST).map(|at| u32::from(at / 2));
            let mut links: Vec<u32> = polled.iter().filter_map(link_of).collect();
            links.dedup();
            found.gpus.push(GpuSurvey {
                index: u32::try_from(id).unwrap_or(u32::MAX),
                uuid: uuid.clone(),
                name: value(NAME).and_then(Value::text).unwrap_or_default(),
                pci_bus_id: value(PCI_BUS_ID).and_then(Value::text).unwrap_or_default().to_ascii_lowercase(),
                links: links
                    .into_iter()
                    .map(|link| LinkSurvey { link, active: true, ..LinkSurvey::default() })
                    .collect(),
                ..GpuSurvey::default()
            });
            // Sums go on where the fields are the same.
            let old = before.iter().find(|old| old.uuid == uuid && old.fields == polled);
            let sums = old.map_or_else(|| vec![Sum::default(); polled.len()], |old| old.sums.clone());
            let values = vec![EMPTY; polled.len()];
            self.gpus.push(Gpu { id, fields: polled, sums, values, uuid });
        }
        if self.gpus.is_empty() {
            return Err((ProblemKind::NoGpu, "DCGM works and knows no GPU".to_owned()));
        }
        Ok(found)
    }

    fn poll(&mut self, poll: &mut Poll) {
        poll.gpus.resize_with(self.gpus.len(), GpuPoll::default);
        let start = monotonic_nanoseconds();
        let mut gpus = std::mem::take(&mut self.gpus);
        for (gpu, into) in gpus.iter_mut().zip(&mut poll.gpus) {
            let begin = monotonic_nanoseconds();
            let read = self.latest(gpu.id, &gpu.fields, &mut gpu.values);
            into.links_monotonic_nanoseconds = begin + (monotonic_nanoseconds() - begin) / 2;
            into.pcie_monotonic_nanoseconds = into.links_monotonic_nanoseconds;
            into.link_fields.clear();
            into.pcie_fields.clear();
            for ((field, value), sum) in gpu.fields.iter().zip(&gpu.values).zip(&mut gpu.sums) {
                let code = match (read, value.rate()) {
                    (Err(code), _) => code,
                    (Ok(()), None) => Code::NO_DATA,
                    (Ok(()), Some(rate)) if rate > FASTEST => Code::IMPLAUSIBLE,
                    (Ok(()), Some(rate)) => {
                        sum.add(rate, value.time);
                        Code::SUCCESS
                    }
                };
                let answered = |field, scope| RawField {
                    field,
                    scope,
                    code: code.0,
                    value_type: value_type::UNSIGNED_LONG_LONG,
                    bits: sum.bytes,
                };
                match field.checked_sub(NVLINK_FIRST) {
                    Some(at) => {
                        let to = if at % 2 == 0 { field::XMIT_BYTES } else { field::RCV_BYTES };
                        into.link_fields.push(answered(to, u32::from(at / 2)));
                    }
                    None => {
                        let to =
                            if *field == PCIE_TRANSMIT { field::PCIE_TX_BYTES } else { field::PCIE_RX_BYTES };
                        into.pcie_fields.push(answered(to, 0));
                    }
                }
            }
        }
        self.gpus = gpus;
        poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - start).unwrap_or(0);
    }

    fn processes(&mut self) -> Processes {
        not_reported(self.gpus.iter().map(|gpu| &gpu.uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_for_the_time_since_the_last_value_and_once() {
        let mut sum = Sum::default();
        sum.add(100.0, 5_000_000);
        assert_eq!(sum.bytes, 0, "nothing is known of the time before");
        sum.add(100.0, 7_000_000);
        sum.add(100.0, 7_000_000);
        sum.add(300.0, 6_000_000);
        assert_eq!(sum.bytes, 200, "the same value, or an older one, adds nothing");
    }

    #[test]
    fn what_is_blank_is_no_rate() {
        let integer = |number: i64| {
            let mut value = Value { status: 0, kind: u16::from(b'i'), ..EMPTY };
            value.bytes[..8].copy_from_slice(&number.to_ne_bytes());
            value.rate()
        };
        assert_eq!((integer(7), integer(BLANK_INTEGER), integer(-1)), (Some(7.0), None, None));
        assert_eq!(EMPTY.rate(), None);
    }
}
