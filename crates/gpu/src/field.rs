//! Field values of NVML: their numbers, their types, and one value as the library writes it.
//!
//! Facts of `nvml.h` (API version 12), in our own words. The link goes into `scope` unless noted. Safe and pure.

use throughline_sample::catalogue::{self as metric, Metric};

use crate::code::Code;

/// Links 0 to 5 of the error counters that have a number per link: flit CRC.
pub const CRC_FLIT_L0: u32 = 32;
/// Replays, links 0 to 5.
pub const REPLAY_L0: u32 = 46;
/// Recoveries, links 0 to 5.
pub const RECOVERY_L0: u32 = 53;
/// Nanoseconds in which heat kept the clock below that of applications; no scope. `NVML_FI_DEV_PERF_POLICY_THERMAL`.
pub const SLOWED_BY_HEAT: u32 = 75;
/// The same for the limit of the board. `NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT`.
pub const SLOWED_BY_BOARD: u32 = 77;
/// Flit CRC, links 6 to 11.
pub const CRC_FLIT_L6: u32 = 96;
/// Replays, links 6 to 11.
pub const REPLAY_L6: u32 = 108;
/// Recoveries, links 6 to 11.
pub const RECOVERY_L6: u32 = 114;
/// Data sent on a link before NVLink 5, KiB.
pub const DATA_TX_KIB: u32 = 138;
/// Data received on a link before NVLink 5, KiB.
pub const DATA_RX_KIB: u32 = 139;
/// Number of this link at its other end.
pub const REMOTE_LINK: u32 = 146;
/// Replays, any link, before NVLink 5.
pub const DL_REPLAY: u32 = 161;
/// Recoveries, any link, before NVLink 5.
pub const DL_RECOVERY: u32 = 162;
/// CRC errors, any link, before NVLink 5.
pub const DL_CRC: u32 = 163;
/// Speed of a link in MB/s, one direction.
pub const LINK_SPEED: u32 = 164;
/// State of a link: 0 inactive, 1 active, 2 asleep.
pub const LINK_STATE: u32 = 165;
/// How many C2C links (to a Grace CPU) the GPU has; no scope.
pub const C2C_COUNT: u32 = 170;
/// State of a C2C link, which is the scope: 0 inactive, 1 active.
pub const C2C_STATUS: u32 = 171;
/// Speed of a C2C link in MB/s, one direction.
pub const C2C_SPEED: u32 = 172;
/// Bytes sent over PCIe; no scope. 32 bits wide on today's drivers, so it wraps.
pub const PCIE_TX_BYTES: u32 = 197;
/// Bytes received over PCIe; as [`PCIE_TX_BYTES`].
pub const PCIE_RX_BYTES: u32 = 198;
/// Bytes sent on a link from NVLink 5.
pub const XMIT_BYTES: u32 = 202;
/// Bytes received on a link from NVLink 5.
pub const RCV_BYTES: u32 = 204;
/// Malformed packets received (NVLink 5, as all up to [`FEC_HISTORY_15`] but the C2C field).
pub const MALFORMED_PACKETS: u32 = 206;
/// Packets discarded on reception because a buffer was full.
pub const BUFFER_OVERRUNS: u32 = 207;
/// Packets received with an error.
pub const RECEIVE_ERRORS: u32 = 208;
/// Packets received that another device had marked as bad.
pub const REMOTE_ERRORS: u32 = 209;
/// Packets received whose header was wrong.
pub const GENERAL_ERRORS: u32 = 210;
/// Times the errors of the link itself passed their threshold.
pub const LINK_INTEGRITY_ERRORS: u32 = 211;
/// Packets discarded on the way out.
pub const TRANSMIT_DISCARDS: u32 = 212;
/// Recoveries that failed.
pub const RECOVERY_FAILURES: u32 = 214;
/// Recoveries of a link, whatever their outcome.
pub const RECOVERY_EVENTS: u32 = 215;
/// Errors left after forward error correction.
pub const EFFECTIVE_ERRORS: u32 = 219;
/// Bit error ratio after forward error correction; see [`ber_per_1e18`].
pub const EFFECTIVE_BER: u32 = 220;
/// Symbols with an error.
pub const SYMBOL_ERRORS: u32 = 221;
/// Bit error ratio of symbols; see [`ber_per_1e18`].
pub const SYMBOL_BER: u32 = 222;
/// Replays of a C2C link.
pub const C2C_REPLAY: u32 = 232;
/// Blocks in which forward error correction mended no symbol; each further number counts blocks with one more.
pub const FEC_HISTORY_0: u32 = 235;
/// The last of them: 15 symbols.
pub const FEC_HISTORY_15: u32 = 250;

/// C2C links have no numbers beside NVLinks in NVML; here they follow them, from this link number on. Beyond the 36
/// NVLinks that are looked for, below the 64 links that the store has space for.
pub const C2C_FIRST_LINK: u32 = 40;

/// What a counter of a link is read with: NVML may refuse all fields of a call that mixes families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Bytes before NVLink 5.
    Kib,
    /// Bytes from NVLink 5.
    Bytes,
    /// Errors before NVLink 5.
    Errors,
    /// Recoveries from NVLink 5.
    Recoveries,
    /// Errors from NVLink 5, in one poll of ten.
    Nvlink5Errors,
    /// What forward error correction left over, from NVLink 5, in one poll of ten, with the ratios of bit errors.
    Nvlink5Ratios,
}

/// A counter of a link that is stored as it is read, times a factor.
#[derive(Debug)]
pub struct LinkCounter {
    /// Its number in NVML.
    pub field: u32,
    /// The metric that it becomes.
    pub metric: &'static Metric,
    /// From NVML's unit to the metric's.
    pub factor: u64,
    /// The fields that are read in the same call.
    pub family: Family,
}

const fn counter(field: u32, metric: &'static Metric, factor: u64, family: Family) -> LinkCounter {
    LinkCounter { field, metric, factor, family }
}

/// Every counter of a link whose field has the link as its scope. One that a release of NVML adds is a line here and one
/// in the catalogue (`docs/ADDING-A-COUNTER.md`): plan and conversion follow.
pub const LINK_COUNTERS: &[LinkCounter] = &[
    counter(DATA_TX_KIB, &metric::NVLINK_TRANSMIT_BYTES, 1024, Family::Kib),
    counter(DATA_RX_KIB, &metric::NVLINK_RECEIVE_BYTES, 1024, Family::Kib),
    counter(XMIT_BYTES, &metric::NVLINK_TRANSMIT_BYTES, 1, Family::Bytes),
    counter(RCV_BYTES, &metric::NVLINK_RECEIVE_BYTES, 1, Family::Bytes),
    counter(DL_REPLAY, &metric::NVLINK_REPLAY_ERRORS, 1, Family::Errors),
    counter(DL_RECOVERY, &metric::NVLINK_RECOVERY_ERRORS, 1, Family::Errors),
    counter(DL_CRC, &metric::NVLINK_CRC_ERRORS, 1, Family::Errors),
    counter(RECOVERY_EVENTS, &metric::NVLINK_RECOVERY_ERRORS, 1, Family::Recoveries),
    counter(MALFORMED_PACKETS, &metric::NVLINK_MALFORMED_PACKET_ERRORS, 1, Family::Nvlink5Errors),
    counter(BUFFER_OVERRUNS, &metric::NVLINK_BUFFER_OVERRUN_ERRORS, 1, Family::Nvlink5Errors),
    counter(RECEIVE_ERRORS, &metric::NVLINK_RECEIVE_ERRORS, 1, Family::Nvlink5Errors),
    counter(REMOTE_ERRORS, &metric::NVLINK_REMOTE_ERRORS, 1, Family::Nvlink5Errors),
    counter(GENERAL_ERRORS, &metric::NVLINK_GENERAL_ERRORS, 1, Family::Nvlink5Errors),
    counter(LINK_INTEGRITY_ERRORS, &metric::NVLINK_LINK_INTEGRITY_ERRORS, 1, Family::Nvlink5Errors),
    counter(TRANSMIT_DISCARDS, &metric::NVLINK_TRANSMIT_DISCARDS, 1, Family::Nvlink5Errors),
    counter(RECOVERY_FAILURES, &metric::NVLINK_RECOVERY_FAILURES, 1, Family::Nvlink5Errors),
    counter(EFFECTIVE_ERRORS, &metric::NVLINK_EFFECTIVE_ERRORS, 1, Family::Nvlink5Ratios),
    counter(SYMBOL_ERRORS, &metric::NVLINK_SYMBOL_ERRORS, 1, Family::Nvlink5Ratios),
];

/// The fields of a family, in the order of [`LINK_COUNTERS`].
pub fn fields_of(family: Family) -> impl Iterator<Item = u32> {
    LINK_COUNTERS.iter().filter(move |counter| counter.family == family).map(|counter| counter.field)
}

/// A bit error ratio as NVML packs it (bits 8 to 11 a mantissa, bits 0 to 7 a negative power of ten), in errors per
/// 10^18 bits. What a driver says before it has counted enough, 15e-255, is 0.
#[must_use]
pub fn ber_per_1e18(packed: u64) -> u64 {
    let (mantissa, exponent) = ((packed >> 8) & 0xf, (packed & 0xff) as u32);
    const SCALE: u32 = 18;
    match SCALE.checked_sub(exponent) {
        Some(power) => mantissa.saturating_mul(10_u64.pow(power)).min(10_u64.pow(SCALE)),
        None => 0,
    }
}

/// Kinds of value a field can hold (`nvmlValueType_t`).
pub mod value_type {
    /// `double`.
    pub const DOUBLE: u32 = 0;
    /// 32 bits, unsigned.
    pub const UNSIGNED_INT: u32 = 1;
    /// `unsigned long`: 64 bits on every platform NVML for Linux exists on.
    pub const UNSIGNED_LONG: u32 = 2;
    /// 64 bits, unsigned.
    pub const UNSIGNED_LONG_LONG: u32 = 3;
    /// 64 bits, signed.
    pub const SIGNED_LONG_LONG: u32 = 4;
    /// 32 bits, signed.
    pub const SIGNED_INT: u32 = 5;
    /// 16 bits, unsigned.
    pub const UNSIGNED_SHORT: u32 = 6;
}

/// One field to read and its answer (`nvmlFieldValue_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldValue {
    /// Which field, by the numbers above.
    pub field: u32,
    /// Which link, where the field is one of a link.
    pub scope: u32,
    /// When the driver read it, microseconds since 1970.
    pub timestamp_microseconds: i64,
    /// How long that took.
    pub latency_microseconds: i64,
    /// See [`value_type`].
    pub value_type: u32,
    /// Whether `bits` mean anything.
    pub code: u32,
    /// The union of all value types; read it with [`FieldValue::unsigned`].
    pub bits: u64,
}

impl FieldValue {
    /// The value as an unsigned number; `None` where it was not read, is negative or no whole number.
    #[must_use]
    pub fn unsigned(&self) -> Option<u64> {
        if Code(self.code) != Code::SUCCESS {
            return None;
        }
        // The union's members all start at its first byte.
        let bytes = self.bits.to_ne_bytes();
        let first_four = [bytes[0], bytes[1], bytes[2], bytes[3]];
        match self.value_type {
            value_type::UNSIGNED_INT => Some(u64::from(u32::from_ne_bytes(first_four))),
            value_type::UNSIGNED_LONG | value_type::UNSIGNED_LONG_LONG => Some(self.bits),
            value_type::SIGNED_LONG_LONG => u64::try_from(i64::from_ne_bytes(bytes)).ok(),
            value_type::SIGNED_INT => u64::try_from(i32::from_ne_bytes(first_four)).ok(),
            value_type::UNSIGNED_SHORT => Some(u64::from(u16::from_ne_bytes([bytes[0], bytes[1]]))),
            _ => None,
        }
    }
}

// What nvml.h gives on the platforms NVML exists on (64-bit Linux). A mistake here would corrupt memory.
const _: () = assert!(size_of::<FieldValue>() == 40 && align_of::<FieldValue>() == 8);
const _: () = assert!(std::mem::offset_of!(FieldValue, timestamp_microseconds) == 8);
const _: () = assert!(std::mem::offset_of!(FieldValue, value_type) == 24);
const _: () = assert!(std::mem::offset_of!(FieldValue, code) == 28);
const _: () = assert!(std::mem::offset_of!(FieldValue, bits) == 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value_type: u32, bytes: &[u8]) -> FieldValue {
        let mut eight = [0xAA; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        FieldValue { value_type, bits: u64::from_ne_bytes(eight), ..FieldValue::default() }
    }

    #[test]
    fn a_value_is_read_by_its_type_and_surplus_bytes_do_not_matter() {
        assert_eq!(value(value_type::UNSIGNED_INT, &7u32.to_ne_bytes()).unsigned(), Some(7));
        assert_eq!(value(value_type::UNSIGNED_LONG, &u64::MAX.to_ne_bytes()).unsigned(), Some(u64::MAX));
        assert_eq!(value(value_type::UNSIGNED_SHORT, &9u16.to_ne_bytes()).unsigned(), Some(9));
        assert_eq!(value(value_type::SIGNED_INT, &(-1i32).to_ne_bytes()).unsigned(), None);
        assert_eq!(value(value_type::SIGNED_LONG_LONG, &5i64.to_ne_bytes()).unsigned(), Some(5));
        assert_eq!(value(value_type::DOUBLE, &1.5f64.to_ne_bytes()).unsigned(), None);
        assert_eq!(value(77, &[0; 8]).unsigned(), None);
    }

    #[test]
    fn bit_error_ratios_are_unpacked() {
        assert_eq!(ber_per_1e18(0x50c), 5_000_000, "5e-12");
        assert_eq!(ber_per_1e18(0xfff), 0, "15e-255: nothing counted yet");
        assert_eq!(ber_per_1e18(0x112), 1, "1e-18");
        assert_eq!(ber_per_1e18(0xf00), 1_000_000_000_000_000_000, "no ratio is above 1");
    }

    #[test]
    fn a_failed_value_is_absent_and_not_zero() {
        let failed = FieldValue { code: Code::NOT_SUPPORTED.0, value_type: 3, ..FieldValue::default() };
        assert_eq!(failed.unsigned(), None);
    }
}
