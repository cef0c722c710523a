//! GPU Performance Monitoring (Hopper and later): PCIe bytes where the counters are too narrow.
//!
//! GPM gives the mean rate between two samples that the caller keeps; rate and time between them make bytes, which are
//! summed up here. Numbers and layouts are facts of `nvml.h`. On an H200, Nsight Compute and CUPTI's PM Sampling went on beside
//! it (docs/GPU.md).
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{c_char, c_uint, c_void};

use super::{Gpu, Handle, checked};
use crate::code::Code;
use crate::library::LoadedLibrary;
use crate::poll::monotonic_nanoseconds;

/// `NVML_GPM_METRIC_PCIE_TX_PER_SEC`, MiB/s from this GPU.
const PCIE_TRANSMIT: c_uint = 20;
/// `NVML_GPM_METRIC_PCIE_RX_PER_SEC`, MiB/s to this GPU.
const PCIE_RECEIVE: c_uint = 21;
/// `NVML_GPM_METRICS_GET_VERSION` and `NVML_GPM_SUPPORT_VERSION`.
const VERSION: c_uint = 1;
/// `NVML_GPM_METRIC_MAX` of the newest header; the array is the structure's end, and a library reads as many entries
/// of it as it is reported.
const METRICS_SPACE: usize = 333;
/// Two samples closer together than this make a rate of few digits; the reading is left out.
const SHORTEST_NANOSECONDS: i64 = 50_000_000;

type Sample = *mut c_void;

/// `nvmlGpmMetric_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Metric {
    id: c_uint,
    code: c_uint,
    value: f64,
    /// Short name, long name, unit: the library's own memory, not looked at.
    names: [*const c_char; 3],
}
const _: () = assert!(size_of::<Metric>() == 40 && std::mem::offset_of!(Metric, value) == 8);

/// `nvmlGpmMetricsGet_t`.
#[repr(C)]
struct MetricsGet {
    version: c_uint,
    count: c_uint,
    first: Sample,
    second: Sample,
    metrics: [Metric; METRICS_SPACE],
}
const _: () = assert!(std::mem::offset_of!(MetricsGet, metrics) == 24);

/// `nvmlGpmSupport_t`.
#[repr(C)]
struct Support {
    version: c_uint,
    is_supported: c_uint,
}

/// The calls; all of them or none are there.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    support: unsafe extern "C" fn(Handle, *mut Support) -> u32,
    alloc: unsafe extern "C" fn(*mut Sample) -> u32,
    free: unsafe extern "C" fn(Sample) -> u32,
    get: unsafe extern "C" fn(Handle, Sample) -> u32,
    /// Of a GPU instance. Only a check of hardware calls it (hardware/gpu.sh).
    get_of_instance: Option<unsafe extern "C" fn(Handle, c_uint, Sample) -> u32>,
    metrics: unsafe extern "C" fn(*mut MetricsGet) -> u32,
}

impl Calls {
    /// Looks them up.
    pub(super) fn find(library: &LoadedLibrary) -> Option<Self> {
        // SAFETY: each name is looked up as the type that nvml.h declares for it; the pointers live in `Library`
        // beside what keeps it loaded.
        unsafe {
            // Each is looked up, so that all that are not there can be named.
            let (support, alloc) =
                (library.optional("nvmlGpmQueryDeviceSupport"), library.optional("nvmlGpmSampleAlloc"));
            let (free, get) = (library.optional("nvmlGpmSampleFree"), library.optional("nvmlGpmSampleGet"));
            let metrics = library.optional("nvmlGpmMetricsGet");
            let get_of_instance = library.optional("nvmlGpmMigSampleGet");
            Some(Self {
                support: support?,
                alloc: alloc?,
                free: free?,
                get: get?,
                get_of_instance,
                metrics: metrics?,
            })
        }
    }
}

/// PCIe bytes of one GPU, summed up since it was made.
pub struct GpmPcie {
    calls: Calls,
    /// The last sample and the one to come.
    samples: [Sample; 2],
    /// When the last sample was taken.
    last: Option<i64>,
    request: Box<MetricsGet>,
    /// Sent, received: whole bytes, and what is left below one.
    sums: [(u64, f64); 2],
}

impl GpmPcie {
    /// Two samples for a GPU.
    ///
    /// # Errors
    /// NVML's code; [`Code::NOT_SUPPORTED`] where the GPU has no GPM, [`Code::FUNCTION_NOT_FOUND`] where the library has none.
    pub fn new(gpu: &Gpu<'_, '_>) -> Result<Self, Code> {
        let calls = gpu.library.gpm.ok_or(Code::FUNCTION_NOT_FOUND)?;
        let mut support = Support { version: VERSION, is_supported: 0 };
        // SAFETY: the handle is of a live session; the pointer is to a live structure of the version it names.
        checked(unsafe { (calls.support)(gpu.handle, &raw mut support) })?;
        if support.is_supported == 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let metric = |id| Metric { id, code: 0, value: 0.0, names: [std::ptr::null(); 3] };
        let mut metrics = [metric(0); METRICS_SPACE];
        (metrics[0], metrics[1]) = (metric(PCIE_TRANSMIT), metric(PCIE_RECEIVE));
        let none = std::ptr::null_mut();
        let request = Box::new(MetricsGet { version: VERSION, count: 2, first: none, second: none, metrics });
        let mut made = Self { calls, samples: [none; 2], last: None, request, sums: [(0, 0.0); 2] };
        for sample in &mut made.samples {
            // SAFETY: the pointer is to a live handle. What was got is given back when the value is dropped.
            checked(unsafe { (calls.alloc)(sample) })?;
        }
        Ok(made)
    }

    /// Bytes sent and received so far; 0 at first.
    ///
    /// # Errors
    /// NVML's code; [`Code::NOT_READY`] too soon after the last reading, [`Code::IMPLAUSIBLE`] of a rate that is none, or twice that of
    /// the slot and more. What was missed is in the next one.
    pub fn read(&mut self, gpu: &Gpu<'_, '_>, slot_bytes_per_second: u64) -> Result<[u64; 2], Code> {
        let get = self.calls.get;
        // SAFETY: handle and sample are of this session and were given by the library.
        self.read_by(slot_bytes_per_second, |sample| unsafe { get(gpu.handle, sample) })
    }

    /// The same of a GPU instance of a partitioned GPU.
    ///
    /// # Errors
    /// As of [`GpmPcie::read`]; [`Code::FUNCTION_NOT_FOUND`] where the library lacks the call.
    pub fn read_instance(
        &mut self,
        gpu: &Gpu<'_, '_>,
        instance: u32,
        slot_bytes_per_second: u64,
    ) -> Result<[u64; 2], Code> {
        let get = self.calls.get_of_instance.ok_or(Code::FUNCTION_NOT_FOUND)?;
        // SAFETY: as in `read`; the number of the instance is NVML's to check.
        self.read_by(slot_bytes_per_second, |sample| unsafe { get(gpu.handle, instance, sample) })
    }

    fn read_by(
        &mut self,
        slot_bytes_per_second: u64,
        take: impl FnOnce(Sample) -> u32,
    ) -> Result<[u64; 2], Code> {
        let begin = monotonic_nanoseconds();
        if self.last.is_some_and(|last| begin - last < SHORTEST_NANOSECONDS) {
            return Err(Code::NOT_READY);
        }
        checked(take(self.samples[1]))?;
        let now = begin + (monotonic_nanoseconds() - begin) / 2;
        if let Some(last) = self.last {
            (self.request.first, self.request.second) = (self.samples[0], self.samples[1]);
            // SAFETY: the structure is live, has the version it names, and space for more than `count` metrics.
            checked(unsafe { (self.calls.metrics)(&raw mut *self.request) })?;
            let seconds = (now - last) as f64 / 1e9;
            let mut grown = [0.0; 2];
            for (grown, metric) in grown.iter_mut().zip(&self.request.metrics) {
                checked(metric.code)?;
                let rate = metric.value * (1024.0 * 1024.0);
                if !(0.0..=2.0 * slot_bytes_per_second as f64).contains(&rate) {
                    return Err(Code::IMPLAUSIBLE);
                }
                *grown = rate * seconds;
            }
            for ((whole, rest), grown) in self.sums.iter_mut().zip(grown) {
                let grown = grown + *rest;
                // Not negative, and far below 2^64.
                *whole = whole.wrapping_add(grown as u64);
                *rest = grown.fract();
            }
        }
        self.last = Some(now);
        self.samples.swap(0, 1);
        Ok(self.sums.map(|(whole, _)| whole))
    }
}

impl Drop for GpmPcie {
    fn drop(&mut self) {
        for sample in self.samples.into_iter().filter(|sample| !sample.is_null()) {
            // SAFETY: the sample was given by the library, which the session keeps initialised, and is given back once.
            unsafe { (self.calls.free)(sample) };
        }
    }
}
