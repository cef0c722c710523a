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
    /// From here on codes are ours, not NVML's.
    const FIRST_OF_OURS: Self = Self(u32::MAX - 15);
    /// Ours, not NVML's: another GPU of this node has the same UUID.
    pub const DUPLICATE_UUID: Self = Self(u32::MAX - 2);
    /// Ours, not NVML's: a 32-bit PCIe counter that nobody reads often enough to unfold.
    pub const PCIE_COUNTER_TOO_NARROW: Self = Self(u32::MAX - 1);
    /// Ours, too: a value that is no number, or more than can have passed.
    pub const IMPLAUSIBLE: Self = Self(u32::MAX - 3);

    /// The reason under which a value that failed so is counted; a fixed set, fit for a label.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "uninitialized",
            2 => "invalid_argument",
            3 => "not_supported",
            4 => "no_permission",
            5 => "already_initialized",
            6 => "not_found",
            7 => "insufficient_size",
            8 => "insufficient_power",
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
            22 => "vgpu_ecc_not_supported",
            23 => "insufficient_resources",
            24 => "freq_not_supported",
            25 => "argument_version_mismatch",
            26 => "deprecated",
            27 => "not_ready",
            28 => "gpu_not_found",
            29 => "invalid_state",
            30 => "reset_type_not_supported",
            999 => "unknown",
            0xffff_fffd => "duplicate_uuid",
            0xffff_fffc => "implausible",
            0xffff_fffe => "pcie_counter_too_narrow",
            0xffff_ffff => "not_answered",
            _ => "other",
        }
    }

    /// The code that is counted under a reason, where it is of one code alone.
    #[must_use]
    pub fn of_reason(reason: &str) -> Option<Self> {
        let ours = [Self::UNKNOWN, Self::DUPLICATE_UUID, Self::PCIE_COUNTER_TOO_NARROW, Self(u32::MAX)];
        (1..=30).map(Self).chain(ours).find(|code| code.reason() == reason)
    }

    /// What a person can do about it; each code has its own words.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self.0 {
            1 => "the driver's library was shut down beneath the sampler: start the agent again",
            2 => {
                "the driver does not take this call's arguments: library and kernel driver may be of different versions"
            }
            3 => "this GPU, or its present mode, does not have it",
            4 => {
                "give the agent's user access to /dev/nvidia*; in a container, pass all of the GPUs' devices \
                  (/dev/nvidiactl and one /dev/nvidiaN each)"
            }
            6 => "the driver does not find what it listed: it may be changing; see whether it lasts",
            7 => "the driver wants a larger buffer than any version is known to: use a newer agent",
            8 => "the GPU's external power cables are not plugged in, or not all of them",
            9 => "load the kernel module nvidia",
            10 => "the GPU does not answer in time: see Xid in the kernel's log; reset it if that lasts",
            11 => "the kernel can't deliver the GPU's interrupts: see its log (IRQ, MSI), then the BIOS",
            12 => "a library of the driver is missing: install the driver's packages whole",
            13 => "the driver's library is too old for it: use one of the kernel driver's version",
            14 => {
                "the GPU's information ROM is corrupted: `nvidia-smi -q -d PAGE_RETIREMENT`, then the vendor"
            }
            15 => {
                "the GPU has left the bus: see its events gpu.xid, or Xid in the kernel's log; power-cycle the node"
            }
            16 => "reset the GPU (`nvidia-smi --gpu-reset`) or reboot the node",
            17 => {
                "the operating system has blocked the GPU or its control device: see cgroups' device rules and security modules"
            }
            18 => "reboot or reload the kernel driver: the library is of another version",
            19 => "another program holds the GPU exclusively: see `nvidia-smi` for its processes",
            20 => "the node is out of memory",
            21 => "there is no value at this time",
            22 => "not with error correction on this virtual GPU",
            23 => {
                "the driver is out of what it needs for this call: see its log, and fewer monitoring tools at a time"
            }
            24 => "this clock is not supported by the GPU",
            25 => "the driver wants another version of a structure: use a newer agent",
            26 => "the driver has given this call up: use a newer agent",
            27 => "the GPU is not ready yet: it is read again later",
            28 => "the driver knows no such GPU any more: it may have been taken away; see gpu.lost",
            29 => "not in the GPU's present state: see `nvidia-smi -q`",
            30 => "this kind of reset is not supported",
            999 => "the driver does not say why: see Xid in the kernel's log",
            0xffff_fffd => {
                "two GPUs report one UUID: see `nvidia-smi -L`; the second one is not read until that is mended"
            }
            0xffff_fffe => "set nvml.unfold_pcie, or use GPM",
            0xffff_ffff => "the driver left it unanswered",
            _ => "a code that this version does not know: see nvidia-smi on this node",
        }
    }

    /// Whether an answer means that what was requested is not there; any other refusal leaves it open.
    #[must_use]
    pub fn is_absence(self) -> bool {
        matches!(self, Self::NOT_SUPPORTED | Self::FUNCTION_NOT_FOUND | Self::NOT_FOUND)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self >= Self::FIRST_OF_OURS {
            return write!(f, "no value ({})", self.reason());
        }
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
        assert_eq!(Code::DUPLICATE_UUID.to_string(), "no value (duplicate_uuid)");
    }

    #[test]
    fn each_code_has_words_of_its_own() {
        let documented =
            (1..=30).filter(|code| *code != 5).chain([999, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff]);
        let mut words: Vec<&str> = documented.map(|code| Code(code).remedy()).collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(
            (Code::of_reason("gpu_is_lost"), Code::of_reason("link_inactive")),
            (Some(Code(15)), None)
        );
        assert_eq!((words.len(), Code(5).remedy()), (all, Code(4711).remedy()));
    }
}
