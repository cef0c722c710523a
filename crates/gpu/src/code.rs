//! NVML's return codes, and the reasons under which values that could not be read are counted.
//!
//! Pure: numbers and names only.

use std::fmt;

/// `nvmlReturn_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u32);

impl Code {
    /// The call did what it should.
    pub const SUCCESS: Self = Self(0);
    /// Called before initialisation or after shutdown.
    pub const UNINITIALIZED: Self = Self(1);
    /// NVML refuses an argument; also: there is no such link.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// Not on this GPU, or not in its present mode.
    pub const NOT_SUPPORTED: Self = Self(3);
    /// Not for this user.
    pub const NO_PERMISSION: Self = Self(4);
    /// The buffer was too small.
    pub const INSUFFICIENT_SIZE: Self = Self(7);
    /// The kernel driver is not loaded.
    pub const DRIVER_NOT_LOADED: Self = Self(9);
    /// The library lacks a function.
    pub const FUNCTION_NOT_FOUND: Self = Self(13);
    /// The GPU has fallen off the bus.
    pub const GPU_IS_LOST: Self = Self(15);
    /// Library and kernel driver are of different versions (an update without a reboot).
    pub const VERSION_MISMATCH: Self = Self(18);
    /// There is no value at this time.
    pub const NO_DATA: Self = Self(21);
    /// The library does not say what went wrong.
    pub const UNKNOWN: Self = Self(999);
    /// There is none of this kind, for instance no partition with this index.
    pub const NOT_FOUND: Self = Self(6);
    /// The GPU, or a value, is not ready yet.
    pub const NOT_READY: Self = Self(27);
    /// NVML knows no such GPU any more.
    pub const GPU_NOT_FOUND: Self = Self(28);
    /// Ours, not NVML's: a 32-bit PCIe counter that nobody reads often enough to unfold.
    pub const PCIE_COUNTER_TOO_NARROW: Self = Self(u32::MAX - 1);

    /// The reason under which a value that failed so is counted; a fixed set, fit for a label.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "uninitialized",
            2 => "invalid_argument",
            3 => "not_supported",
            4 => "no_permission",
            6 => "not_found",
            7 => "insufficient_size",
            9 => "driver_not_loaded",
            10 => "timeout",
            11 => "irq_issue",
            12 => "library_not_found",
            13 => "function_not_found",
            14 => "corrupted_inforom",
            15 => "gpu_is_lost",
            16 => "reset_required",
            17 => "operating_system",
            18 => "version_mismatch",
            19 => "in_use",
            20 => "memory",
            21 => "no_data",
            23 => "insufficient_resources",
            25 => "argument_version_mismatch",
            26 => "deprecated",
            27 => "not_ready",
            28 => "gpu_not_found",
            29 => "invalid_state",
            999 => "unknown",
            0xffff_fffe => "pcie_counter_too_narrow",
            0xffff_ffff => "not_answered",
            _ => "other",
        }
    }

    /// What a person can do about it, where there is something.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::DRIVER_NOT_LOADED => "load the kernel module nvidia",
            Self::VERSION_MISMATCH => "reboot or reload the kernel driver: the library is of another version",
            Self::NO_PERMISSION => "give the agent's user access to /dev/nvidia*",
            Self::GPU_IS_LOST => "the GPU has left the bus: look at the kernel's log for an Xid",
            _ => "see nvidia-smi on this node",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVML error {} ({})", self.0, self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_reason_and_unknown_ones_share_one() {
        assert_eq!(Code(15).reason(), "gpu_is_lost");
        assert_eq!(Code(4711).reason(), "other");
        assert_eq!(Code(18).to_string(), "NVML error 18 (version_mismatch)");
    }
}
