//! A safe face on the calls of CUPTI and CUDA that are used.
//!
//! To be used in the sampler's process alone: a wedged driver never returns from a call, and a wrong library crashes.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use cupti_sys::cuda::{CU_DEVICE_ATTRIBUTE_CLOCK_RATE as CLOCK_RATE, CUctx_st, CUdevice, CUuuid, Cuda};
use cupti_sys::cupti::*;
use cupti_sys::{OpenError, open_cuda, open_cupti};

use super::code::CuptiError;

/// Both libraries, open.
pub struct Library {
    cuda: Option<Cuda>,
    pub(super) cupti: Cupti,
    /// `cuptiGetVersion`.
    pub(super) version: u32,
}

/// One GPU as CUDA reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// CUDA's index, which is CUPTI's device index.
    pub index: u32,
    /// `GPU-` and a UUID, as NVML writes it.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// `dddddddd:bb:dd.f`, as NVML writes it; empty if unknown.
    pub pci_bus_id: String,
    /// Clock rate in kHz, 0 if unknown.
    pub clock_khz: u32,
    pub(super) handle: CUdevice,
}

/// Calls a function of CUPTI with its parameter structure, whose fields are set first; gives the structure back.
///
/// What the fields point to must live during the call and be as large as they say, as CUPTI documents it.
macro_rules! call {
    ($library:expr, $function:ident, $params:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let library: &$crate::cupti::api::Library = $library;
        #[allow(unused_mut)]
        let mut params = <$params as cupti_sys::Params>::new(library.version);
        $(params.$field = $value;)*
        match &library.cupti.$function {
            Ok(function) => {
                // SAFETY: the structure is the function's, with the size that this release expects; its pointers are
                // to live memory of the lengths beside them, which the callers of this macro see to.
                let code = unsafe { function(&raw mut params) };
                $crate::cupti::code::CuptiError::check(stringify!($function), code).map(|()| params)
            }
            Err(_) => Err($crate::cupti::code::CuptiError::missing(stringify!($function))),
        }
    }};
}

/// Calls a function that takes plain arguments.
macro_rules! plain {
    ($table:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match &$table.$function {
            // SAFETY: pointers among the arguments are to live memory of the lengths beside them; the callers of this
            // macro see to it.
            Ok(function) => $crate::cupti::code::CuptiError::check(stringify!($function), unsafe { function($($argument),*) }),
            Err(_) => Err($crate::cupti::code::CuptiError::missing(stringify!($function))),
        }
    };
}
pub(super) use {call, plain};

impl Library {
    /// Opens both libraries.
    pub fn open(cuda: &Path, cupti: &Path) -> Result<Self, OpenError> {
        let cuda = Some(open_cuda(cuda)?);
        let (cupti, version) = open_cupti(cupti)?;
        Ok(Self { cuda, cupti, version })
    }

    /// Opens libcupti alone: enough to query which metrics a chip has, on a machine without a driver.
    pub fn without_driver(cupti: &Path) -> Result<Self, OpenError> {
        let (cupti, version) = open_cupti(cupti)?;
        Ok(Self { cuda: None, cupti, version })
    }

    fn cuda(&self) -> Result<&Cuda, CuptiError> {
        self.cuda.as_ref().ok_or(CuptiError::missing("cuInit"))
    }

    /// `cuptiGetVersion`.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Initialises the driver and CUPTI's profiler. No context is made on a GPU. After a failure nothing else may be
    /// called: CUPTI crashes then.
    pub fn start(&self) -> Result<Vec<Device>, CuptiError> {
        plain!(self.cuda()?, cuInit(0))?;
        call!(self, cuptiProfilerInitialize, CUpti_Profiler_Initialize_Params {})?;
        let mut count = 0;
        plain!(self.cuda()?, cuDeviceGetCount(&raw mut count))?;
        (0..u32::try_from(count).unwrap_or(0)).map(|index| self.device(index)).collect()
    }

    /// CUDA's version as the driver reports it, for instance 13000.
    pub fn driver_version(&self) -> Option<i32> {
        let mut version = 0;
        plain!(self.cuda().ok()?, cuDriverGetVersion(&raw mut version)).ok().map(|()| version)
    }

    fn device(&self, index: u32) -> Result<Device, CuptiError> {
        let mut handle = 0;
        let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
        plain!(self.cuda()?, cuDeviceGet(&raw mut handle, ordinal))?;
        let mut uuid = CUuuid { bytes: [0; 16] };
        plain!(self.cuda()?, cuDeviceGetUuid_v2(&raw mut uuid, handle))?;
        let mut text = [0; 96];
        let length = i32::try_from(text.len()).unwrap_or(0);
        let name = plain!(self.cuda()?, cuDeviceGetName(text.as_mut_ptr(), length, handle));
        let name = name.map_or_else(|_| String::new(), |()| to_text(&text));
        let pci = plain!(self.cuda()?, cuDeviceGetPCIBusId(text.as_mut_ptr(), length, handle));
        let pci = pci.map_or_else(|_| String::new(), |()| as_nvml(&to_text(&text)));
        let mut khz = 0;
        let clock = plain!(self.cuda()?, cuDeviceGetAttribute(&raw mut khz, CLOCK_RATE, handle));
        let clock_khz = clock.ok().and_then(|()| u32::try_from(khz).ok()).unwrap_or(0);
        Ok(Device { index, uuid: uuid_text(&uuid.bytes), name, pci_bus_id: pci, clock_khz, handle })
    }

    /// The name of a GPU's chip, for instance `GH100`.
    pub fn chip(&self, index: u32) -> Result<CString, CuptiError> {
        let params = call!(
            self,
            cuptiDeviceGetChipName,
            CUpti_Device_GetChipName_Params { deviceIndex: index as usize }
        )?;
        let nothing = CuptiError { call: "cuptiDeviceGetChipName", code: super::code::UNKNOWN };
        if params.pChipName.is_null() {
            return Err(nothing);
        }
        // SAFETY: CUPTI gives a pointer to a text of its own, ended by a zero.
        Ok(unsafe { CStr::from_ptr(params.pChipName) }.to_owned())
    }

    /// The names of all chips that this release knows. Needs no driver.
    pub fn chips(&self) -> Result<Vec<CString>, CuptiError> {
        let params =
            call!(self, cuptiProfilerHostGetSupportedChips, CUpti_Profiler_Host_GetSupportedChips_Params {})?;
        if params.ppChipNames.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: CUPTI gives as many pointers as it says, each to a text of its own.
        let names = unsafe { std::slice::from_raw_parts(params.ppChipNames, params.numChips) };
        // SAFETY: as above.
        Ok(names.iter().map(|name| unsafe { CStr::from_ptr(*name) }.to_owned()).collect())
    }

    /// Makes a context on a GPU, for this thread.
    pub(super) fn context(&self, device: &Device) -> Result<Context<'_>, CuptiError> {
        let mut context = std::ptr::null_mut();
        plain!(self.cuda()?, cuCtxCreate_v2(&raw mut context, 0, device.handle))?;
        Ok(Context { library: self, context })
    }
}

/// A context on a GPU.
pub(super) struct Context<'l> {
    library: &'l Library,
    context: *mut CUctx_st,
}

impl Context<'_> {
    /// Makes it this thread's.
    pub(super) fn enter(&self) -> Result<(), CuptiError> {
        plain!(self.library.cuda()?, cuCtxSetCurrent(self.context))
    }

    pub(super) fn raw(&self) -> *mut CUctx_st {
        self.context
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if let Ok(cuda) = self.library.cuda() {
            let _ = plain!(cuda, cuCtxDestroy_v2(self.context));
        }
    }
}

/// CUPTI's object that knows the metrics of one chip.
pub struct Host<'l> {
    library: &'l Library,
    object: *mut CUpti_Profiler_Host_Object,
}

impl<'l> Host<'l> {
    /// One for a chip, with what the GPU at hand offers if it is known.
    ///
    /// # Errors
    /// The call that failed; 27 for a chip without PM Sampling.
    pub fn new(library: &'l Library, chip: &CStr, availability: Option<&[u8]>) -> Result<Self, CuptiError> {
        let params = call!(
            library,
            cuptiProfilerHostInitialize,
            CUpti_Profiler_Host_Initialize_Params {
                profilerType: CUPTI_PROFILER_TYPE_PM_SAMPLING,
                pChipName: chip.as_ptr(),
                pCounterAvailabilityImage: availability.map_or(std::ptr::null(), <[u8]>::as_ptr),
            }
        )?;
        Ok(Self { library, object: params.pHostObject })
    }

    /// Adds metrics in one call: each call is a pass of its own.
    ///
    /// # Errors
    /// The call that failed; this object is of no use then.
    pub fn add(&self, names: &[&CStr]) -> Result<(), CuptiError> {
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        call!(
            self.library,
            cuptiProfilerHostConfigAddMetrics,
            CUpti_Profiler_Host_ConfigAddMetrics_Params {
                pHostObject: self.object,
                ppMetricNames: pointers.as_mut_ptr(),
                numMetrics: pointers.len(),
            }
        )
        .map(drop)
    }

    /// The metrics' own names that the chip has, without what may follow them, each with its type.
    ///
    /// # Errors
    /// The call that failed.
    pub fn own_names(&self) -> Result<Vec<(CUpti_MetricType, String)>, CuptiError> {
        let mut all = Vec::new();
        for kind in METRIC_TYPES {
            let params = call!(
                self.library,
                cuptiProfilerHostGetBaseMetrics,
                CUpti_Profiler_Host_GetBaseMetrics_Params { pHostObject: self.object, metricType: kind }
            )?;
            let names = texts(params.ppMetricNames, params.numMetrics);
            all.extend(names.into_iter().map(|name| (kind, name)));
        }
        Ok(all)
    }

    /// What may follow a metric's own name: `.sum`, `.avg.per_second` and so on.
    ///
    /// # Errors
    /// The call that failed.
    pub fn endings(&self, kind: CUpti_MetricType, own: &str) -> Result<Vec<String>, CuptiError> {
        // CUPTI of CUDA 12 answers only where the name has one of them.
        let ending = match kind {
            CUPTI_METRIC_TYPE_RATIO => ".ratio",
            CUPTI_METRIC_TYPE_THROUGHPUT => ".avg.pct_of_peak_sustained_elapsed",
            _ => ".sum",
        };
        let name = CString::new(format!("{own}{ending}")).unwrap_or_default();
        let params = call!(
            self.library,
            cuptiProfilerHostGetSubMetrics,
            CUpti_Profiler_Host_GetSubMetrics_Params {
                pHostObject: self.object,
                metricType: kind,
                pMetricName: name.as_ptr(),
            }
        )?;
        Ok(texts(params.ppSubMetrics, params.numOfSubmetrics))
    }

    /// The configuration for the GPU, and how many passes it takes.
    pub fn image(&self) -> Result<(Vec<u8>, usize), CuptiError> {
        let size = call!(
            self.library,
            cuptiProfilerHostGetConfigImageSize,
            CUpti_Profiler_Host_GetConfigImageSize_Params { pHostObject: self.object }
        )?
        .configImageSize;
        let mut image = vec![0; size];
        call!(
            self.library,
            cuptiProfilerHostGetConfigImage,
            CUpti_Profiler_Host_GetConfigImage_Params {
                pHostObject: self.object,
                configImageSize: image.len(),
                pConfigImage: image.as_mut_ptr(),
            }
        )?;
        let passes = call!(
            self.library,
            cuptiProfilerHostGetNumOfPasses,
            CUpti_Profiler_Host_GetNumOfPasses_Params {
                configImageSize: image.len(),
                pConfigImage: image.as_mut_ptr(),
            }
        )?
        .numOfPasses;
        Ok((image, passes))
    }

    /// The values of metrics in one sample of a counter data image.
    pub fn evaluate(
        &self,
        data: &[u8],
        sample: usize,
        names: &mut [*const c_char],
        values: &mut [f64],
    ) -> Result<(), CuptiError> {
        assert!(values.len() >= names.len());
        call!(
            self.library,
            cuptiProfilerHostEvaluateToGpuValues,
            CUpti_Profiler_Host_EvaluateToGpuValues_Params {
                pHostObject: self.object,
                pCounterDataImage: data.as_ptr(),
                counterDataImageSize: data.len(),
                rangeIndex: sample,
                ppMetricNames: names.as_mut_ptr(),
                numMetrics: names.len(),
                pMetricValues: values.as_mut_ptr(),
            }
        )
        .map(drop)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let _ = call!(
            self.library,
            cuptiProfilerHostDeinitialize,
            CUpti_Profiler_Host_Deinitialize_Params { pHostObject: self.object }
        );
    }
}

/// All types of metrics.
const METRIC_TYPES: [CUpti_MetricType; 3] =
    [CUPTI_METRIC_TYPE_COUNTER, CUPTI_METRIC_TYPE_RATIO, CUPTI_METRIC_TYPE_THROUGHPUT];

/// A list of texts that CUPTI gave, copied.
fn texts(list: *mut *const c_char, count: usize) -> Vec<String> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: CUPTI gives as many pointers as it says, each to a text of its own.
    let names = unsafe { std::slice::from_raw_parts(list, count) };
    let given = names.iter().filter(|name| !name.is_null());
    // SAFETY: as above.
    given.map(|name| unsafe { CStr::from_ptr(*name) }.to_string_lossy().into_owned()).collect()
}

/// A text that a library wrote into a buffer.
fn to_text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> =
        buffer.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// CUDA writes 4 digits of the PCI domain, NVML 8.
fn as_nvml(pci: &str) -> String {
    match pci.split_once(':') {
        Some((domain, rest)) => format!("{domain:0>8}:{rest}").to_lowercase(),
        None => String::new(),
    }
}

fn uuid_text(bytes: &[c_char; 16]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{:02x}", byte.to_ne_bytes()[0])).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    format!("GPU-{}-{}-{}-{}-{}", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_as_nvml_writes_them() {
        assert_eq!(as_nvml("0004:04:00.0"), "00000004:04:00.0");
        assert_eq!(as_nvml("0000:DF:00.0"), "00000000:df:00.0");
        let bytes = std::array::from_fn(|at| c_char::try_from(at).unwrap_or(0));
        assert_eq!(uuid_text(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
