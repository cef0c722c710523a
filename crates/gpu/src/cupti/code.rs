//! CUPTI's and CUDA's return codes, and the reasons under which values that could not be read are counted.
//!
//! Pure: numbers and names only.

use std::fmt;

/// A call that failed: which one, and its code (`CUptiResult`; `CUresult` where the call begins with `cu` alone).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuptiError {
    /// The function.
    pub call: &'static str,
    /// Its code.
    pub code: u32,
}

/// CUPTI is not initialised; also where there is no driver.
pub const NOT_INITIALIZED: u32 = 15;
/// The performance monitor of the GPU is another's.
pub const HARDWARE_BUSY: u32 = 26;
/// Not on this GPU.
pub const NOT_SUPPORTED: u32 = 27;
/// Not for this user.
pub const INSUFFICIENT_PRIVILEGES: u32 = 35;
/// The Metric API is not for this GPU, or no longer in this driver.
pub const LEGACY_PROFILER_NOT_SUPPORTED: u32 = 38;
/// Not while the GPU computes in confidence.
pub const CONFIDENTIAL_COMPUTING: u32 = 41;
/// Not on this GPU, whose partitions (MIG) have no performance monitor of their own.
pub const MIG_DEVICE_NOT_SUPPORTED: u32 = 43;
/// CUPTI can't say.
pub const UNKNOWN: u32 = 999;
/// Ours: the library has no such function.
pub const FUNCTION_NOT_FOUND: u32 = u32::MAX - 2;
/// Ours: the library says that a reading needs several passes, which cannot be had while a program runs.
pub const SEVERAL_PASSES: u32 = u32::MAX - 3;
/// Ours: no metric that is wanted is known for this chip.
pub const NO_METRIC: u32 = u32::MAX - 4;

/// Whether a GPU that failed with a code will go on to: trying again soon is of no use.
#[must_use]
pub fn is_final(code: u32) -> bool {
    matches!(
        code,
        NOT_SUPPORTED
            | INSUFFICIENT_PRIVILEGES
            | LEGACY_PROFILER_NOT_SUPPORTED
            | CONFIDENTIAL_COMPUTING
            | MIG_DEVICE_NOT_SUPPORTED
            | FUNCTION_NOT_FOUND
            | SEVERAL_PASSES
            | NO_METRIC
    )
}

/// The reason under which a value that failed with a code of CUPTI is counted; a fixed set, fit for a label.
#[must_use]
pub fn reason(code: u32) -> &'static str {
    match code {
        0 => "success",
        1 => "invalid_parameter",
        2 => "invalid_device",
        7 => "invalid_operation",
        8 => "out_of_memory",
        9 => "hardware",
        12 => "max_limit_reached",
        13 => "not_ready",
        14 => "not_compatible",
        NOT_INITIALIZED => "not_initialized",
        HARDWARE_BUSY => "hardware_busy",
        NOT_SUPPORTED => "not_supported",
        INSUFFICIENT_PRIVILEGES => "insufficient_privileges",
        36 => "old_profiler_api_initialized",
        LEGACY_PROFILER_NOT_SUPPORTED => "legacy_profiler_not_supported",
        CONFIDENTIAL_COMPUTING => "confidential_computing",
        MIG_DEVICE_NOT_SUPPORTED => "mig_device",
        UNKNOWN => "unknown",
        FUNCTION_NOT_FOUND => "function_not_found",
        SEVERAL_PASSES => "several_passes",
        NO_METRIC => "no_metric",
        _ => "other",
    }
}

impl CuptiError {
    /// A call whose function is not in the library.
    #[must_use]
    pub fn missing(call: &'static str) -> Self {
        Self { call, code: FUNCTION_NOT_FOUND }
    }

    /// `Ok` for 0.
    pub fn check(call: &'static str, code: u32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self { call, code }) }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self.code {
            HARDWARE_BUSY => "another profiler has the GPU (Nsight, DCGM's profiling): it is tried again",
            INSUFFICIENT_PRIVILEGES => {
                "run the agent as root or with CAP_SYS_ADMIN, or set NVreg_RestrictProfilingToAdminUsers=0 for the \
                 kernel module nvidia"
            }
            NOT_SUPPORTED | NO_METRIC => "this GPU is read by NVML alone",
            MIG_DEVICE_NOT_SUPPORTED => "switch MIG off, or leave this GPU to NVML",
            SEVERAL_PASSES | FUNCTION_NOT_FOUND => "use CUPTI of CUDA 12.6 to 13.1",
            NOT_INITIALIZED => "see whether nvidia-smi works on this node",
            _ => "see nvidia-smi and the kernel's log on this node",
        }
    }
}

impl fmt::Display for CuptiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.call.starts_with("cupti") {
            write!(f, "{} answers {} ({})", self.call, self.code, reason(self.code))
        } else {
            write!(f, "{} answers CUDA error {}", self.call, self.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_remedies() {
        let busy = CuptiError { call: "cuptiPmSamplingEnable", code: 26 };
        assert_eq!(busy.to_string(), "cuptiPmSamplingEnable answers 26 (hardware_busy)");
        assert!(CuptiError { code: 35, ..busy }.remedy().contains("NVreg_RestrictProfilingToAdminUsers"));
        assert_eq!(CuptiError { call: "cuInit", code: 100 }.to_string(), "cuInit answers CUDA error 100");
        assert_eq!(reason(4711), "other");
    }
}
