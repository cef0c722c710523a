use crate::cuda::{CUcontext, CUdevice};

pub const CUPTI_SUCCESS: CUptiResult = 0;
pub const CUPTI_ERROR_INVALID_PARAMETER: CUptiResult = 1;
pub const CUPTI_ERROR_INVALID_DEVICE: CUptiResult = 2;
pub const CUPTI_ERROR_INVALID_CONTEXT: CUptiResult = 3;
pub const CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID: CUptiResult = 4;
pub const CUPTI_ERROR_INVALID_EVENT_ID: CUptiResult = 5;
pub const CUPTI_ERROR_INVALID_EVENT_NAME: CUptiResult = 6;
pub const CUPTI_ERROR_INVALID_OPERATION: CUptiResult = 7;
pub const CUPTI_ERROR_OUT_OF_MEMORY: CUptiResult = 8;
pub const CUPTI_ERROR_HARDWARE: CUptiResult = 9;
pub const CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT: CUptiResult = 10;
pub const CUPTI_ERROR_API_NOT_IMPLEMENTED: CUptiResult = 11;
pub const CUPTI_ERROR_MAX_LIMIT_REACHED: CUptiResult = 12;
pub const CUPTI_ERROR_NOT_READY: CUptiResult = 13;
pub const CUPTI_ERROR_NOT_COMPATIBLE: CUptiResult = 14;
pub const CUPTI_ERROR_NOT_INITIALIZED: CUptiResult = 15;
pub const CUPTI_ERROR_INVALID_METRIC_ID: CUptiResult = 16;
pub const CUPTI_ERROR_INVALID_METRIC_NAME: CUptiResult = 17;
pub const CUPTI_ERROR_QUEUE_EMPTY: CUptiResult = 18;
pub const CUPTI_ERROR_INVALID_HANDLE: CUptiResult = 19;
pub const CUPTI_ERROR_INVALID_STREAM: CUptiResult = 20;
pub const CUPTI_ERROR_INVALID_KIND: CUptiResult = 21;
pub const CUPTI_ERROR_INVALID_EVENT_VALUE: CUptiResult = 22;
pub const CUPTI_ERROR_DISABLED: CUptiResult = 23;
pub const CUPTI_ERROR_INVALID_MODULE: CUptiResult = 24;
pub const CUPTI_ERROR_INVALID_METRIC_VALUE: CUptiResult = 25;
pub const CUPTI_ERROR_HARDWARE_BUSY: CUptiResult = 26;
pub const CUPTI_ERROR_NOT_SUPPORTED: CUptiResult = 27;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED: CUptiResult = 28;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE: CUptiResult = 29;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES: CUptiResult = 30;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS: CUptiResult = 31;
pub const CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED: CUptiResult = 32;
pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED: CUptiResult = 33;
pub const CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE: CUptiResult = 34;
pub const CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: CUptiResult = 35;
pub const CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED: CUptiResult = 36;
pub const CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE: CUptiResult = 37;
pub const CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED: CUptiResult = 38;
pub const CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: CUptiResult = 39;
pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: CUptiResult = 40;
pub const CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: CUptiResult = 41;
pub const CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED: CUptiResult = 42;
pub const CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: CUptiResult = 43;
pub const CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED: CUptiResult = 44;
pub const CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED: CUptiResult = 45;
pub const CUPTI_ERROR_UNKNOWN: CUptiResult = 999;
pub const CUPTI_ERROR_FORCE_INT: CUptiResult = 2147483647;
pub type CUptiResult = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Device_GetChipName_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pChipName: *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Device_GetChipName_Params"]
        [::std::mem::size_of::<CUpti_Device_GetChipName_Params>() - 32usize];
    ["Alignment of CUpti_Device_GetChipName_Params"]
        [::std::mem::align_of::<CUpti_Device_GetChipName_Params>() - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pChipName) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Initialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Initialize_Params>() - 16usize];
    ["Alignment of CUpti_Profiler_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, pPriv) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_DeInitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_DeInitialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_DeInitialize_Params>() - 16usize];
    ["Alignment of CUpti_Profiler_DeInitialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_DeInitialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_DeInitialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_DeInitialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_DeInitialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_DeInitialize_Params, pPriv) - 8usize];
};
pub const CUPTI_METRIC_TYPE_COUNTER: CUpti_MetricType = 0;
pub const CUPTI_METRIC_TYPE_RATIO: CUpti_MetricType = 1;
pub const CUPTI_METRIC_TYPE_THROUGHPUT: CUpti_MetricType = 2;
pub const CUPTI_METRIC_TYPE__COUNT: CUpti_MetricType = 3;
pub type CUpti_MetricType = ::std::os::raw::c_uint;
pub const CUPTI_PROFILER_TYPE_RANGE_PROFILER: CUpti_ProfilerType = 0;
pub const CUPTI_PROFILER_TYPE_PM_SAMPLING: CUpti_ProfilerType = 1;
pub const CUPTI_PROFILER_TYPE_PROFILER_INVALID: CUpti_ProfilerType = 2;
pub type CUpti_ProfilerType = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Object {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub profilerType: CUpti_ProfilerType,
    pub pChipName: *const ::std::os::raw::c_char,
    pub pCounterAvailabilityImage: *const u8,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Initialize_Params>() - 48usize];
    ["Alignment of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::profilerType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, profilerType) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pChipName) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pCounterAvailabilityImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pHostObject) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Deinitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 24usize];
    ["Alignment of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pHostObject) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetSupportedChips_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub numChips: usize,
    pub ppChipNames: *const *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetSupportedChips_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetSupportedChips_Params>() - 32usize];
    ["Alignment of CUpti_Profiler_Host_GetSupportedChips_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetSupportedChips_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetSupportedChips_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSupportedChips_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetSupportedChips_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSupportedChips_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetSupportedChips_Params::numChips"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSupportedChips_Params, numChips) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetSupportedChips_Params::ppChipNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSupportedChips_Params, ppChipNames) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetBaseMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub metricType: CUpti_MetricType,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetBaseMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetBaseMetrics_Params>() - 48usize];
    ["Alignment of CUpti_Profiler_Host_GetBaseMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetBaseMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::metricType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, metricType) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, ppMetricNames) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, numMetrics) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetSubMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub metricType: CUpti_MetricType,
    pub pMetricName: *const ::std::os::raw::c_char,
    pub numOfSubmetrics: usize,
    pub ppSubMetrics: *mut *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetSubMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetSubMetrics_Params>() - 56usize];
    ["Alignment of CUpti_Profiler_Host_GetSubMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetSubMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::metricType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, metricType) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::pMetricName"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, pMetricName) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::numOfSubmetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, numOfSubmetrics) - 40usize];
    ["Offset of field: CUpti_Profiler_Host_GetSubMetrics_Params::ppSubMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetSubMetrics_Params, ppSubMetrics) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_EvaluateToGpuValues_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub rangeIndex: usize,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub pMetricValues: *mut f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 72usize];
    ["Alignment of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        counterDataImageSize
    ) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::rangeIndex"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex) - 40usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames) - 48usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics) - 56usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pMetricValues"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues) - 64usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_ConfigAddMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImageSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 32usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImage_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, configImageSize) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetNumOfPasses_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
    pub numOfPasses: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::numOfPasses"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Object {
    _unused: [u8; 0],
}
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL: CUpti_PmSampling_TriggerMode = 0;
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL: CUpti_PmSampling_TriggerMode = 1;
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_COUNT: CUpti_PmSampling_TriggerMode = 2;
pub type CUpti_PmSampling_TriggerMode = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER: CUpti_PmSampling_DecodeStopReason = 0;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL: CUpti_PmSampling_DecodeStopReason = 1;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS: CUpti_PmSampling_DecodeStopReason = 2;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNT: CUpti_PmSampling_DecodeStopReason = 3;
pub type CUpti_PmSampling_DecodeStopReason = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST:
    CUpti_PmSampling_HardwareBuffer_AppendMode = 0;
pub const CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST:
    CUpti_PmSampling_HardwareBuffer_AppendMode = 1;
pub type CUpti_PmSampling_HardwareBuffer_AppendMode = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_SetConfig_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub configSize: usize,
    pub pConfig: *const u8,
    pub hardwareBufferSize: usize,
    pub samplingInterval: u64,
    pub triggerMode: CUpti_PmSampling_TriggerMode,
    pub hwBufferAppendMode: CUpti_PmSampling_HardwareBuffer_AppendMode,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_SetConfig_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_SetConfig_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_SetConfig_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_SetConfig_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::configSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, configSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pConfig"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pConfig) - 32usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::hardwareBufferSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, hardwareBufferSize) - 40usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::samplingInterval"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, samplingInterval) - 48usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::triggerMode"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, triggerMode) - 56usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::hwBufferAppendMode"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode) - 60usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Enable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Enable_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Enable_Params>() - 32usize];
    ["Alignment of CUpti_PmSampling_Enable_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Enable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPmSamplingObject) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Disable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Disable_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Disable_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Disable_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Disable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPmSamplingObject) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Start_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Start_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Start_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Start_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Start_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPmSamplingObject) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Stop_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Stop_Params"][::std::mem::size_of::<CUpti_PmSampling_Stop_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Stop_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Stop_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPmSamplingObject) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_DecodeData_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *mut u8,
    pub counterDataImageSize: usize,
    pub decodeStopReason: CUpti_PmSampling_DecodeStopReason,
    pub overflow: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_DecodeData_Params>() - 48usize];
    ["Alignment of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_DecodeData_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, counterDataImageSize) - 32usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::decodeStopReason"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, decodeStopReason) - 40usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::overflow"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, overflow) - 44usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterAvailability_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub counterAvailabilityImageSize: usize,
    pub pCounterAvailabilityImage: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::counterAvailabilityImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        counterAvailabilityImageSize
    )
        - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pCounterAvailabilityImage"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        pCounterAvailabilityImage
    )
        - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub maxSamples: u32,
    pub counterDataSize: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pMetricNames"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, numMetrics) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::maxSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, maxSamples) - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::counterDataSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_CounterDataImage_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub counterDataSize: usize,
    pub pCounterData: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPmSamplingObject"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        pPmSamplingObject
    ) - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::counterDataSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        counterDataSize
    ) - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pCounterData"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub numTotalSamples: usize,
    pub numPopulatedSamples: usize,
    pub numCompletedSamples: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, pCounterDataImage) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, counterDataImageSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numTotalSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numPopulatedSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numPopulatedSamples) - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numCompletedSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_CounterData_GetSampleInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub sampleIndex: usize,
    pub startTimestamp: u64,
    pub endTimestamp: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPmSamplingObject"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        pPmSamplingObject
    ) - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pCounterDataImage"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        pCounterDataImage
    ) - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        counterDataImageSize
    ) - 32usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::sampleIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex) - 40usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::startTimestamp"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp) - 48usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::endTimestamp"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp) - 56usize];
};
pub type CUpti_EventID = u32;
pub type CUpti_EventGroup = *mut ::std::os::raw::c_void;
pub const CUPTI_EVENT_GROUP_ATTR_EVENT_DOMAIN_ID: CUpti_EventGroupAttribute = 0;
pub const CUPTI_EVENT_GROUP_ATTR_PROFILE_ALL_DOMAIN_INSTANCES: CUpti_EventGroupAttribute = 1;
pub const CUPTI_EVENT_GROUP_ATTR_USER_DATA: CUpti_EventGroupAttribute = 2;
pub const CUPTI_EVENT_GROUP_ATTR_NUM_EVENTS: CUpti_EventGroupAttribute = 3;
pub const CUPTI_EVENT_GROUP_ATTR_EVENTS: CUpti_EventGroupAttribute = 4;
pub const CUPTI_EVENT_GROUP_ATTR_INSTANCE_COUNT: CUpti_EventGroupAttribute = 5;
pub const CUPTI_EVENT_GROUP_ATTR_PROFILING_SCOPE: CUpti_EventGroupAttribute = 6;
pub const CUPTI_EVENT_GROUP_ATTR_FORCE_INT: CUpti_EventGroupAttribute = 2147483647;
pub type CUpti_EventGroupAttribute = ::std::os::raw::c_uint;
pub const CUPTI_EVENT_COLLECTION_MODE_CONTINUOUS: CUpti_EventCollectionMode = 0;
pub const CUPTI_EVENT_COLLECTION_MODE_KERNEL: CUpti_EventCollectionMode = 1;
pub const CUPTI_EVENT_COLLECTION_MODE_FORCE_INT: CUpti_EventCollectionMode = 2147483647;
pub type CUpti_EventCollectionMode = ::std::os::raw::c_uint;
pub const CUPTI_EVENT_READ_FLAG_NONE: CUpti_ReadEventFlags = 0;
pub const CUPTI_EVENT_READ_FLAG_FORCE_INT: CUpti_ReadEventFlags = 2147483647;
pub type CUpti_ReadEventFlags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_EventGroupSet {
    pub numEventGroups: u32,
    pub eventGroups: *mut CUpti_EventGroup,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_EventGroupSet"][::std::mem::size_of::<CUpti_EventGroupSet>() - 16usize];
    ["Alignment of CUpti_EventGroupSet"][::std::mem::align_of::<CUpti_EventGroupSet>() - 8usize];
    ["Offset of field: CUpti_EventGroupSet::numEventGroups"]
        [::std::mem::offset_of!(CUpti_EventGroupSet, numEventGroups) - 0usize];
    ["Offset of field: CUpti_EventGroupSet::eventGroups"]
        [::std::mem::offset_of!(CUpti_EventGroupSet, eventGroups) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_EventGroupSets {
    pub numSets: u32,
    pub sets: *mut CUpti_EventGroupSet,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_EventGroupSets"][::std::mem::size_of::<CUpti_EventGroupSets>() - 16usize];
    ["Alignment of CUpti_EventGroupSets"][::std::mem::align_of::<CUpti_EventGroupSets>() - 8usize];
    ["Offset of field: CUpti_EventGroupSets::numSets"]
        [::std::mem::offset_of!(CUpti_EventGroupSets, numSets) - 0usize];
    ["Offset of field: CUpti_EventGroupSets::sets"]
        [::std::mem::offset_of!(CUpti_EventGroupSets, sets) - 8usize];
};
pub type CUpti_MetricID = u32;
pub const CUPTI_METRIC_VALUE_UTILIZATION_IDLE: CUpti_MetricValueUtilizationLevel = 0;
pub const CUPTI_METRIC_VALUE_UTILIZATION_LOW: CUpti_MetricValueUtilizationLevel = 2;
pub const CUPTI_METRIC_VALUE_UTILIZATION_MID: CUpti_MetricValueUtilizationLevel = 5;
pub const CUPTI_METRIC_VALUE_UTILIZATION_HIGH: CUpti_MetricValueUtilizationLevel = 8;
pub const CUPTI_METRIC_VALUE_UTILIZATION_MAX: CUpti_MetricValueUtilizationLevel = 10;
pub const CUPTI_METRIC_VALUE_UTILIZATION_FORCE_INT: CUpti_MetricValueUtilizationLevel = 2147483647;
pub type CUpti_MetricValueUtilizationLevel = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_MetricValue {
    pub metricValueDouble: f64,
    pub metricValueUint64: u64,
    pub metricValueInt64: i64,
    pub metricValuePercent: f64,
    pub metricValueThroughput: u64,
    pub metricValueUtilizationLevel: CUpti_MetricValueUtilizationLevel,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_MetricValue"][::std::mem::size_of::<CUpti_MetricValue>() - 8usize];
    ["Alignment of CUpti_MetricValue"][::std::mem::align_of::<CUpti_MetricValue>() - 8usize];
    ["Offset of field: CUpti_MetricValue::metricValueDouble"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValueDouble) - 0usize];
    ["Offset of field: CUpti_MetricValue::metricValueUint64"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValueUint64) - 0usize];
    ["Offset of field: CUpti_MetricValue::metricValueInt64"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValueInt64) - 0usize];
    ["Offset of field: CUpti_MetricValue::metricValuePercent"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValuePercent) - 0usize];
    ["Offset of field: CUpti_MetricValue::metricValueThroughput"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValueThroughput) - 0usize];
    ["Offset of field: CUpti_MetricValue::metricValueUtilizationLevel"]
        [::std::mem::offset_of!(CUpti_MetricValue, metricValueUtilizationLevel) - 0usize];
};
pub struct Cupti {
    __library: ::libloading::Library,
    pub cuptiGetResultString: Result<
        unsafe extern "C" fn(result: CUptiResult, str_: *mut *const ::std::os::raw::c_char) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiGetVersion: Result<unsafe extern "C" fn(version: *mut u32) -> CUptiResult, ::libloading::Error>,
    pub cuptiDeviceGetChipName: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Device_GetChipName_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerInitialize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Initialize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerDeInitialize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_DeInitialize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostInitialize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_Initialize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostDeinitialize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_Deinitialize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetSupportedChips: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetSupportedChips_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetBaseMetrics: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetBaseMetrics_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetSubMetrics: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetSubMetrics_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostEvaluateToGpuValues: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostConfigAddMetrics: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetConfigImageSize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetConfigImageSize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetConfigImage: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetConfigImage_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiProfilerHostGetNumOfPasses: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetNumOfPasses_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingSetConfig: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_SetConfig_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingEnable: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Enable_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingDisable: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Disable_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingStart: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Start_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingStop: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Stop_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingDecodeData: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_DecodeData_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingGetCounterAvailability: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterAvailability_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingGetCounterDataSize: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterDataSize_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingCounterDataImageInitialize: Result<
        unsafe extern "C" fn(
            pParams: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingGetCounterDataInfo: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterDataInfo_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiPmSamplingCounterDataGetSampleInfo: Result<
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiSetEventCollectionMode: Result<
        unsafe extern "C" fn(context: CUcontext, mode: CUpti_EventCollectionMode) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupGetAttribute: Result<
        unsafe extern "C" fn(
            eventGroup: CUpti_EventGroup,
            attrib: CUpti_EventGroupAttribute,
            valueSize: *mut usize,
            value: *mut ::std::os::raw::c_void,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupSetAttribute: Result<
        unsafe extern "C" fn(
            eventGroup: CUpti_EventGroup,
            attrib: CUpti_EventGroupAttribute,
            valueSize: usize,
            value: *mut ::std::os::raw::c_void,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupReadAllEvents: Result<
        unsafe extern "C" fn(
            eventGroup: CUpti_EventGroup,
            flags: CUpti_ReadEventFlags,
            eventValueBufferSizeBytes: *mut usize,
            eventValueBuffer: *mut u64,
            eventIdArraySizeBytes: *mut usize,
            eventIdArray: *mut CUpti_EventID,
            numEventIdsRead: *mut usize,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupSetsDestroy: Result<
        unsafe extern "C" fn(eventGroupSets: *mut CUpti_EventGroupSets) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupSetEnable: Result<
        unsafe extern "C" fn(eventGroupSet: *mut CUpti_EventGroupSet) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiEventGroupSetDisable: Result<
        unsafe extern "C" fn(eventGroupSet: *mut CUpti_EventGroupSet) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiMetricGetIdFromName: Result<
        unsafe extern "C" fn(
            device: CUdevice,
            metricName: *const ::std::os::raw::c_char,
            metric: *mut CUpti_MetricID,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiMetricGetNumEvents: Result<
        unsafe extern "C" fn(metric: CUpti_MetricID, numEvents: *mut u32) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiMetricEnumEvents: Result<
        unsafe extern "C" fn(
            metric: CUpti_MetricID,
            eventIdArraySizeBytes: *mut usize,
            eventIdArray: *mut CUpti_EventID,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiMetricCreateEventGroupSets: Result<
        unsafe extern "C" fn(
            context: CUcontext,
            metricIdArraySizeBytes: usize,
            metricIdArray: *mut CUpti_MetricID,
            eventGroupPasses: *mut *mut CUpti_EventGroupSets,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
    pub cuptiMetricGetValue: Result<
        unsafe extern "C" fn(
            device: CUdevice,
            metric: CUpti_MetricID,
            eventIdArraySizeBytes: usize,
            eventIdArray: *mut CUpti_EventID,
            eventValueArraySizeBytes: usize,
            eventValueArray: *mut u64,
            timeDuration: u64,
            metricValue: *mut CUpti_MetricValue,
        ) -> CUptiResult,
        ::libloading::Error,
    >,
}
impl Cupti {
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let cuptiGetResultString = __library.get("cuptiGetResultString").map(|sym| *sym);
        let cuptiGetVersion = __library.get("cuptiGetVersion").map(|sym| *sym);
        let cuptiDeviceGetChipName = __library.get("cuptiDeviceGetChipName").map(|sym| *sym);
        let cuptiProfilerInitialize = __library.get("cuptiProfilerInitialize").map(|sym| *sym);
        let cuptiProfilerDeInitialize = __library.get("cuptiProfilerDeInitialize").map(|sym| *sym);
        let cuptiProfilerHostInitialize = __library.get("cuptiProfilerHostInitialize").map(|sym| *sym);
        let cuptiProfilerHostDeinitialize = __library.get("cuptiProfilerHostDeinitialize").map(|sym| *sym);
        let cuptiProfilerHostGetSupportedChips =
            __library.get("cuptiProfilerHostGetSupportedChips").map(|sym| *sym);
        let cuptiProfilerHostGetBaseMetrics =
            __library.get("cuptiProfilerHostGetBaseMetrics").map(|sym| *sym);
        let cuptiProfilerHostGetSubMetrics = __library.get("cuptiProfilerHostGetSubMetrics").map(|sym| *sym);
        let cuptiProfilerHostEvaluateToGpuValues =
            __library.get("cuptiProfilerHostEvaluateToGpuValues").map(|sym| *sym);
        let cuptiProfilerHostConfigAddMetrics =
            __library.get("cuptiProfilerHostConfigAddMetrics").map(|sym| *sym);
        let cuptiProfilerHostGetConfigImageSize =
            __library.get("cuptiProfilerHostGetConfigImageSize").map(|sym| *sym);
        let cuptiProfilerHostGetConfigImage =
            __library.get("cuptiProfilerHostGetConfigImage").map(|sym| *sym);
        let cuptiProfilerHostGetNumOfPasses =
            __library.get("cuptiProfilerHostGetNumOfPasses").map(|sym| *sym);
        let cuptiPmSamplingSetConfig = __library.get("cuptiPmSamplingSetConfig").map(|sym| *sym);
        let cuptiPmSamplingEnable = __library.get("cuptiPmSamplingEnable").map(|sym| *sym);
        let cuptiPmSamplingDisable = __library.get("cuptiPmSamplingDisable").map(|sym| *sym);
        let cuptiPmSamplingStart = __library.get("cuptiPmSamplingStart").map(|sym| *sym);
        let cuptiPmSamplingStop = __library.get("cuptiPmSamplingStop").map(|sym| *sym);
        let cuptiPmSamplingDecodeData = __library.get("cuptiPmSamplingDecodeData").map(|sym| *sym);
        let cuptiPmSamplingGetCounterAvailability =
            __library.get("cuptiPmSamplingGetCounterAvailability").map(|sym| *sym);
        let cuptiPmSamplingGetCounterDataSize =
            __library.get("cuptiPmSamplingGetCounterDataSize").map(|sym| *sym);
        let cuptiPmSamplingCounterDataImageInitialize =
            __library.get("cuptiPmSamplingCounterDataImageInitialize").map(|sym| *sym);
        let cuptiPmSamplingGetCounterDataInfo =
            __library.get("cuptiPmSamplingGetCounterDataInfo").map(|sym| *sym);
        let cuptiPmSamplingCounterDataGetSampleInfo =
            __library.get("cuptiPmSamplingCounterDataGetSampleInfo").map(|sym| *sym);
        let cuptiSetEventCollectionMode = __library.get("cuptiSetEventCollectionMode").map(|sym| *sym);
        let cuptiEventGroupGetAttribute = __library.get("cuptiEventGroupGetAttribute").map(|sym| *sym);
        let cuptiEventGroupSetAttribute = __library.get("cuptiEventGroupSetAttribute").map(|sym| *sym);
        let cuptiEventGroupReadAllEvents = __library.get("cuptiEventGroupReadAllEvents").map(|sym| *sym);
        let cuptiEventGroupSetsDestroy = __library.get("cuptiEventGroupSetsDestroy").map(|sym| *sym);
        let cuptiEventGroupSetEnable = __library.get("cuptiEventGroupSetEnable").map(|sym| *sym);
        let cuptiEventGroupSetDisable = __library.get("cuptiEventGroupSetDisable").map(|sym| *sym);
        let cuptiMetricGetIdFromName = __library.get("cuptiMetricGetIdFromName").map(|sym| *sym);
        let cuptiMetricGetNumEvents = __library.get("cuptiMetricGetNumEvents").map(|sym| *sym);
        let cuptiMetricEnumEvents = __library.get("cuptiMetricEnumEvents").map(|sym| *sym);
        let cuptiMetricCreateEventGroupSets =
            __library.get("cuptiMetricCreateEventGroupSets").map(|sym| *sym);
        let cuptiMetricGetValue = __library.get("cuptiMetricGetValue").map(|sym| *sym);
        Ok(Cupti {
            __library,
            cuptiGetResultString,
            cuptiGetVersion,
            cuptiDeviceGetChipName,
            cuptiProfilerInitialize,
            cuptiProfilerDeInitialize,
            cuptiProfilerHostInitialize,
            cuptiProfilerHostDeinitialize,
            cuptiProfilerHostGetSupportedChips,
            cuptiProfilerHostGetBaseMetrics,
            cuptiProfilerHostGetSubMetrics,
            cuptiProfilerHostEvaluateToGpuValues,
            cuptiProfilerHostConfigAddMetrics,
            cuptiProfilerHostGetConfigImageSize,
            cuptiProfilerHostGetConfigImage,
            cuptiProfilerHostGetNumOfPasses,
            cuptiPmSamplingSetConfig,
            cuptiPmSamplingEnable,
            cuptiPmSamplingDisable,
            cuptiPmSamplingStart,
            cuptiPmSamplingStop,
            cuptiPmSamplingDecodeData,
            cuptiPmSamplingGetCounterAvailability,
            cuptiPmSamplingGetCounterDataSize,
            cuptiPmSamplingCounterDataImageInitialize,
            cuptiPmSamplingGetCounterDataInfo,
            cuptiPmSamplingCounterDataGetSampleInfo,
            cuptiSetEventCollectionMode,
            cuptiEventGroupGetAttribute,
            cuptiEventGroupSetAttribute,
            cuptiEventGroupReadAllEvents,
            cuptiEventGroupSetsDestroy,
            cuptiEventGroupSetEnable,
            cuptiEventGroupSetDisable,
            cuptiMetricGetIdFromName,
            cuptiMetricGetNumEvents,
            cuptiMetricEnumEvents,
            cuptiMetricCreateEventGroupSets,
            cuptiMetricGetValue,
        })
    }
    pub unsafe fn cuptiGetResultString(
        &self,
        result: CUptiResult,
        str_: *mut *const ::std::os::raw::c_char,
    ) -> CUptiResult {
        (self.cuptiGetResultString.as_ref().expect("Expected function, got error."))(result, str_)
    }
    pub unsafe fn cuptiGetVersion(&self, version: *mut u32) -> CUptiResult {
        (self.cuptiGetVersion.as_ref().expect("Expected function, got error."))(version)
    }
    pub unsafe fn cuptiDeviceGetChipName(
        &self,
        pParams: *mut CUpti_Device_GetChipName_Params,
    ) -> CUptiResult {
        (self.cuptiDeviceGetChipName.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerInitialize(
        &self,
        pParams: *mut CUpti_Profiler_Initialize_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerInitialize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerDeInitialize(
        &self,
        pParams: *mut CUpti_Profiler_DeInitialize_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerDeInitialize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostInitialize(
        &self,
        pParams: *mut CUpti_Profiler_Host_Initialize_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostInitialize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostDeinitialize(
        &self,
        pParams: *mut CUpti_Profiler_Host_Deinitialize_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostDeinitialize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetSupportedChips(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetSupportedChips_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetSupportedChips.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetBaseMetrics(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetBaseMetrics_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetBaseMetrics.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetSubMetrics(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetSubMetrics_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetSubMetrics.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostEvaluateToGpuValues(
        &self,
        pParams: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostEvaluateToGpuValues.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostConfigAddMetrics(
        &self,
        pParams: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostConfigAddMetrics.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetConfigImageSize(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetConfigImageSize_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetConfigImageSize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetConfigImage(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetConfigImage_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetConfigImage.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiProfilerHostGetNumOfPasses(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetNumOfPasses_Params,
    ) -> CUptiResult {
        (self.cuptiProfilerHostGetNumOfPasses.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingSetConfig(
        &self,
        pParams: *mut CUpti_PmSampling_SetConfig_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingSetConfig.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingEnable(&self, pParams: *mut CUpti_PmSampling_Enable_Params) -> CUptiResult {
        (self.cuptiPmSamplingEnable.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingDisable(
        &self,
        pParams: *mut CUpti_PmSampling_Disable_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingDisable.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingStart(&self, pParams: *mut CUpti_PmSampling_Start_Params) -> CUptiResult {
        (self.cuptiPmSamplingStart.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingStop(&self, pParams: *mut CUpti_PmSampling_Stop_Params) -> CUptiResult {
        (self.cuptiPmSamplingStop.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingDecodeData(
        &self,
        pParams: *mut CUpti_PmSampling_DecodeData_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingDecodeData.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingGetCounterAvailability(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterAvailability_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingGetCounterAvailability.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingGetCounterDataSize(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterDataSize_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingGetCounterDataSize.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingCounterDataImageInitialize(
        &self,
        pParams: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingCounterDataImageInitialize.as_ref().expect("Expected function, got error."))(
            pParams,
        )
    }
    pub unsafe fn cuptiPmSamplingGetCounterDataInfo(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterDataInfo_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingGetCounterDataInfo.as_ref().expect("Expected function, got error."))(pParams)
    }
    pub unsafe fn cuptiPmSamplingCounterDataGetSampleInfo(
        &self,
        pParams: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params,
    ) -> CUptiResult {
        (self.cuptiPmSamplingCounterDataGetSampleInfo.as_ref().expect("Expected function, got error."))(
            pParams,
        )
    }
    pub unsafe fn cuptiSetEventCollectionMode(
        &self,
        context: CUcontext,
        mode: CUpti_EventCollectionMode,
    ) -> CUptiResult {
        (self.cuptiSetEventCollectionMode.as_ref().expect("Expected function, got error."))(context, mode)
    }
    pub unsafe fn cuptiEventGroupGetAttribute(
        &self,
        eventGroup: CUpti_EventGroup,
        attrib: CUpti_EventGroupAttribute,
        valueSize: *mut usize,
        value: *mut ::std::os::raw::c_void,
    ) -> CUptiResult {
        (self.cuptiEventGroupGetAttribute.as_ref().expect("Expected function, got error."))(
            eventGroup, attrib, valueSize, value,
        )
    }
    pub unsafe fn cuptiEventGroupSetAttribute(
        &self,
        eventGroup: CUpti_EventGroup,
        attrib: CUpti_EventGroupAttribute,
        valueSize: usize,
        value: *mut ::std::os::raw::c_void,
    ) -> CUptiResult {
        (self.cuptiEventGroupSetAttribute.as_ref().expect("Expected function, got error."))(
            eventGroup, attrib, valueSize, value,
        )
    }
    pub unsafe fn cuptiEventGroupReadAllEvents(
        &self,
        eventGroup: CUpti_EventGroup,
        flags: CUpti_ReadEventFlags,
        eventValueBufferSizeBytes: *mut usize,
        eventValueBuffer: *mut u64,
        eventIdArraySizeBytes: *mut usize,
        eventIdArray: *mut CUpti_EventID,
        numEventIdsRead: *mut usize,
    ) -> CUptiResult {
        (self.cuptiEventGroupReadAllEvents.as_ref().expect("Expected function, got error."))(
            eventGroup,
            flags,
            eventValueBufferSizeBytes,
            eventValueBuffer,
            eventIdArraySizeBytes,
            eventIdArray,
            numEventIdsRead,
        )
    }
    pub unsafe fn cuptiEventGroupSetsDestroy(
        &self,
        eventGroupSets: *mut CUpti_EventGroupSets,
    ) -> CUptiResult {
        (self.cuptiEventGroupSetsDestroy.as_ref().expect("Expected function, got error."))(eventGroupSets)
    }
    pub unsafe fn cuptiEventGroupSetEnable(&self, eventGroupSet: *mut CUpti_EventGroupSet) -> CUptiResult {
        (self.cuptiEventGroupSetEnable.as_ref().expect("Expected function, got error."))(eventGroupSet)
    }
    pub unsafe fn cuptiEventGroupSetDisable(&self, eventGroupSet: *mut CUpti_EventGroupSet) -> CUptiResult {
        (self.cuptiEventGroupSetDisable.as_ref().expect("Expected function, got error."))(eventGroupSet)
    }
    pub unsafe fn cuptiMetricGetIdFromName(
        &self,
        device: CUdevice,
        metricName: *const ::std::os::raw::c_char,
        metric: *mut CUpti_MetricID,
    ) -> CUptiResult {
        (self.cuptiMetricGetIdFromName.as_ref().expect("Expected function, got error."))(
            device, metricName, metric,
        )
    }
    pub unsafe fn cuptiMetricGetNumEvents(&self, metric: CUpti_MetricID, numEvents: *mut u32) -> CUptiResult {
        (self.cuptiMetricGetNumEvents.as_ref().expect("Expected function, got error."))(metric, numEvents)
    }
    pub unsafe fn cuptiMetricEnumEvents(
        &self,
        metric: CUpti_MetricID,
        eventIdArraySizeBytes: *mut usize,
        eventIdArray: *mut CUpti_EventID,
    ) -> CUptiResult {
        (self.cuptiMetricEnumEvents.as_ref().expect("Expected function, got error."))(
            metric,
            eventIdArraySizeBytes,
            eventIdArray,
        )
    }
    pub unsafe fn cuptiMetricCreateEventGroupSets(
        &self,
        context: CUcontext,
        metricIdArraySizeBytes: usize,
        metricIdArray: *mut CUpti_MetricID,
        eventGroupPasses: *mut *mut CUpti_EventGroupSets,
    ) -> CUptiResult {
        (self.cuptiMetricCreateEventGroupSets.as_ref().expect("Expected function, got error."))(
            context,
            metricIdArraySizeBytes,
            metricIdArray,
            eventGroupPasses,
        )
    }
    pub unsafe fn cuptiMetricGetValue(
        &self,
        device: CUdevice,
        metric: CUpti_MetricID,
        eventIdArraySizeBytes: usize,
        eventIdArray: *mut CUpti_EventID,
        eventValueArraySizeBytes: usize,
        eventValueArray: *mut u64,
        timeDuration: u64,
        metricValue: *mut CUpti_MetricValue,
    ) -> CUptiResult {
        (self.cuptiMetricGetValue.as_ref().expect("Expected function, got error."))(
            device,
            metric,
            eventIdArraySizeBytes,
            eventIdArray,
            eventValueArraySizeBytes,
            eventValueArray,
            timeDuration,
            metricValue,
        )
    }
}
