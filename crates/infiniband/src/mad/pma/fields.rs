//! Which attribute holds which counter at which bits. Tables only.

use super::capability::ClassPortInfo;
use super::counter_index::counter_index;
use crate::mad::{PMA_DATA_BYTES, attribute};
use throughline_sample::catalogue::{self as metric, Metric};

/// Attributes that hold counters of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PortCounterSet {
    /// PortCounters: errors and wait; data and packets only where there is no extended set.
    Classic,
    /// PortCountersExtended: data and packets in 64 bits; errors and wait, too, where CapabilityMask2 says so.
    Extended,
    /// PortRcvErrorDetails.
    ReceiveErrorDetails,
    /// PortXmitDiscardDetails.
    DiscardDetails,
    /// PortFlowCtlCounters.
    FlowControl,
    /// PortOpRcvCounters, of operation code 0.
    Operations,
    /// PortExtendedSpeedsCounters: forward error correction.
    ExtendedSpeeds,
    /// PortXmitDataSL.
    SlTransmitData,
    /// PortRcvDataSL.
    SlReceiveData,
    /// PortVLXmitWaitCounters.
    VlTransmitWait,
    /// PortVLXmitFlowCtlUpdateErrors.
    VlFlowControlErrors,
    /// SwPortVLCongestion.
    VlCongestion,
    /// PortVLOpPackets, of operation code 0.
    VlOperationPackets,
    /// PortVLOpData, of operation code 0.
    VlOperationData,
}

impl PortCounterSet {
    /// All, by number.
    pub const ALL: [PortCounterSet; 14] = [
        PortCounterSet::Classic,
        PortCounterSet::Extended,
        PortCounterSet::ReceiveErrorDetails,
        PortCounterSet::DiscardDetails,
        PortCounterSet::FlowControl,
        PortCounterSet::Operations,
        PortCounterSet::ExtendedSpeeds,
        PortCounterSet::SlTransmitData,
        PortCounterSet::SlReceiveData,
        PortCounterSet::VlTransmitWait,
        PortCounterSet::VlFlowControlErrors,
        PortCounterSet::VlCongestion,
        PortCounterSet::VlOperationPackets,
        PortCounterSet::VlOperationData,
    ];

    /// Number of the attribute.
    #[must_use]
    pub const fn attribute(self) -> u16 {
        match self {
            PortCounterSet::Classic => attribute::PORT_COUNTERS,
            PortCounterSet::Extended => attribute::PORT_COUNTERS_EXTENDED,
            PortCounterSet::ReceiveErrorDetails => 0x15,
            PortCounterSet::DiscardDetails => 0x16,
            PortCounterSet::Operations => 0x17,
            PortCounterSet::FlowControl => 0x18,
            PortCounterSet::VlOperationPackets => 0x19,
            PortCounterSet::VlOperationData => 0x1A,
            PortCounterSet::VlFlowControlErrors => 0x1B,
            PortCounterSet::VlTransmitWait => 0x1C,
            PortCounterSet::ExtendedSpeeds => 0x1F,
            PortCounterSet::VlCongestion => 0x30,
            PortCounterSet::SlTransmitData => 0x36,
            PortCounterSet::SlReceiveData => 0x37,
        }
    }

    /// The attribute's name in the specification.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PortCounterSet::Classic => "PortCounters",
            PortCounterSet::Extended => "PortCountersExtended",
            PortCounterSet::ReceiveErrorDetails => "PortRcvErrorDetails",
            PortCounterSet::DiscardDetails => "PortXmitDiscardDetails",
            PortCounterSet::FlowControl => "PortFlowCtlCounters",
            PortCounterSet::Operations => "PortOpRcvCounters",
            PortCounterSet::ExtendedSpeeds => "PortExtendedSpeedsCounters",
            PortCounterSet::SlTransmitData => "PortXmitDataSL",
            PortCounterSet::SlReceiveData => "PortRcvDataSL",
            PortCounterSet::VlTransmitWait => "PortVLXmitWaitCounters",
            PortCounterSet::VlFlowControlErrors => "PortVLXmitFlowCtlUpdateErrors",
            PortCounterSet::VlCongestion => "SwPortVLCongestion",
            PortCounterSet::VlOperationPackets => "PortVLOpPackets",
            PortCounterSet::VlOperationData => "PortVLOpData",
        }
    }

    /// Its bit in a mask of sets.
    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// Whether a device may lack it without ClassPortInfo saying so.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        !matches!(self, PortCounterSet::Classic | PortCounterSet::Extended)
    }

    /// Whether it holds a counter for each lane, service level or virtual lane.
    #[must_use]
    pub const fn is_by_lane(self) -> bool {
        self as u8 >= PortCounterSet::SlTransmitData as u8
    }

    /// Bytes of data up to the end of its last field.
    pub(super) fn bytes(self, capabilities: &ClassPortInfo) -> usize {
        match self {
            PortCounterSet::Classic => 44,
            PortCounterSet::Extended if capabilities.has_extended_errors() => 184,
            PortCounterSet::Extended => 72,
            PortCounterSet::ReceiveErrorDetails => 16,
            PortCounterSet::DiscardDetails | PortCounterSet::FlowControl | PortCounterSet::Operations => 12,
            PortCounterSet::ExtendedSpeeds => 152,
            PortCounterSet::VlFlowControlErrors => 8,
            PortCounterSet::VlTransmitWait
            | PortCounterSet::VlCongestion
            | PortCounterSet::VlOperationPackets => 36,
            PortCounterSet::SlTransmitData
            | PortCounterSet::SlReceiveData
            | PortCounterSet::VlOperationData => 68,
        }
    }
}

/// One field of a counter attribute: which metric, where, how wide.
pub(super) struct CounterField {
    /// Position of the metric in the list of counters.
    pub index: usize,
    /// Byte in which it begins.
    byte: usize,
    /// Bits before it in that byte.
    before: u32,
    /// Bits of 64 that are not its own.
    beyond: u32,
}

/// Attribute data with room to read 8 bytes at the begin of each field.
pub(super) type FieldData = [u8; PMA_DATA_BYTES];

impl CounterField {
    /// Its value: no field crosses the end of the 8 bytes in which it begins, nor the end of the data
    /// (the build checks all tables).
    #[inline]
    pub fn value(&self, data: &FieldData) -> u64 {
        match data[self.byte..].first_chunk() {
            Some(window) => u64::from_be_bytes(*window) << self.before >> self.beyond,
            None => 0,
        }
    }

    /// Its largest value.
    #[inline]
    pub fn largest(&self) -> u64 {
        u64::MAX >> self.beyond
    }
}

const fn at(metric: &Metric, bit: usize, bits: usize) -> CounterField {
    match counter_index(metric) {
        Some(index) => {
            let (before, beyond) = ((bit % 8) as u32, 64 - bits as u32);
            assert!(bits > 0 && before + bits as u32 <= 64 && bit / 8 + 8 <= PMA_DATA_BYTES);
            CounterField { index, byte: bit / 8, before, beyond }
        }
        // Reached only while a static is made, and so a failure of the build.
        None => panic!("a field of a metric that is no counter"),
    }
}

/// PortCounters (16.1.3.5): error counters, which all stick at their largest value.
static ERRORS: [CounterField; 12] = [
    at(&metric::SYMBOL_ERROR, 32, 16),
    at(&metric::LINK_ERROR_RECOVERY, 48, 8),
    at(&metric::LINK_DOWNED, 56, 8),
    at(&metric::RECEIVE_ERRORS, 64, 16),
    at(&metric::RECEIVE_REMOTE_PHYSICAL_ERRORS, 80, 16),
    at(&metric::RECEIVE_SWITCH_RELAY_ERRORS, 96, 16),
    at(&metric::TRANSMIT_DISCARDS, 112, 16),
    at(&metric::TRANSMIT_CONSTRAINT_ERRORS, 128, 8),
    at(&metric::RECEIVE_CONSTRAINT_ERRORS, 136, 8),
    at(&metric::LOCAL_LINK_INTEGRITY_ERRORS, 152, 4),
    at(&metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS, 156, 4),
    at(&metric::VL15_DROPPED, 176, 16),
];
/// PortCounters: QP1Dropped, where ClassPortInfo has it.
static QP1_DROPPED: [CounterField; 1] = [at(&metric::QP1_DROPPED, 160, 16)];
/// PortCounters: PortXmitWait, where ClassPortInfo has it.
static TRANSMIT_WAIT: [CounterField; 1] = [at(&metric::TRANSMIT_WAIT, 320, 32)];
/// PortCounters: data and packets in 32 bits, used where there is no PortCountersExtended.
static CLASSIC_TRAFFIC: [CounterField; 4] = [
    at(&metric::TRANSMIT_DATA_BYTES, 192, 32),
    at(&metric::RECEIVE_DATA_BYTES, 224, 32),
    at(&metric::TRANSMIT_PACKETS, 256, 32),
    at(&metric::RECEIVE_PACKETS, 288, 32),
];
/// PortCountersExtended (16.1.4.11): data and packets in 64 bits.
static EXTENDED_TRAFFIC: [CounterField; 4] = [
    at(&metric::TRANSMIT_DATA_BYTES, 64, 64),
    at(&metric::RECEIVE_DATA_BYTES, 128, 64),
    at(&metric::TRANSMIT_PACKETS, 192, 64),
    at(&metric::RECEIVE_PACKETS, 256, 64),
];
/// PortCountersExtended: unicast and multicast packets, where ClassPortInfo has them.
static EXTENDED_CASTS: [CounterField; 4] = [
    at(&metric::UNICAST_TRANSMIT_PACKETS, 320, 64),
    at(&metric::UNICAST_RECEIVE_PACKETS, 384, 64),
    at(&metric::MULTICAST_TRANSMIT_PACKETS, 448, 64),
    at(&metric::MULTICAST_RECEIVE_PACKETS, 512, 64),
];
/// PortCountersExtended: error counters in 64 bits, where CapabilityMask2 has them.
static EXTENDED_ERRORS: [CounterField; 12] = [
    at(&metric::SYMBOL_ERROR, 576, 64),
    at(&metric::LINK_ERROR_RECOVERY, 640, 64),
    at(&metric::LINK_DOWNED, 704, 64),
    at(&metric::RECEIVE_ERRORS, 768, 64),
    at(&metric::RECEIVE_REMOTE_PHYSICAL_ERRORS, 832, 64),
    at(&metric::RECEIVE_SWITCH_RELAY_ERRORS, 896, 64),
    at(&metric::TRANSMIT_DISCARDS, 960, 64),
    at(&metric::TRANSMIT_CONSTRAINT_ERRORS, 1024, 64),
    at(&metric::RECEIVE_CONSTRAINT_ERRORS, 1088, 64),
    at(&metric::LOCAL_LINK_INTEGRITY_ERRORS, 1152, 64),
    at(&metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS, 1216, 64),
    at(&metric::VL15_DROPPED, 1280, 64),
];
/// PortCountersExtended: PortXmitWait in 64 bits.
static EXTENDED_WAIT: [CounterField; 1] = [at(&metric::TRANSMIT_WAIT, 1344, 64)];
/// PortCountersExtended: QP1Dropped in 64 bits.
static EXTENDED_QP1: [CounterField; 1] = [at(&metric::QP1_DROPPED, 1408, 64)];
/// PortRcvErrorDetails (16.1.4.1).
static RECEIVE_ERROR_DETAILS: [CounterField; 6] = [
    at(&metric::LOCAL_PHYSICAL_ERRORS, 32, 16),
    at(&metric::MALFORMED_PACKET_ERRORS, 48, 16),
    at(&metric::BUFFER_OVERRUN_ERRORS, 64, 16),
    at(&metric::DLID_MAPPING_ERRORS, 80, 16),
    at(&metric::VL_MAPPING_ERRORS, 96, 16),
    at(&metric::LOOPING_ERRORS, 112, 16),
];
/// PortXmitDiscardDetails (16.1.4.2).
static DISCARD_DETAILS: [CounterField; 4] = [
    at(&metric::INACTIVE_DISCARDS, 32, 16),
    at(&metric::NEIGHBOR_MTU_DISCARDS, 48, 16),
    at(&metric::SWITCH_LIFETIME_LIMIT_DISCARDS, 64, 16),
    at(&metric::SWITCH_HOQ_LIFETIME_LIMIT_DISCARDS, 80, 16),
];
/// PortOpRcvCounters (16.1.4.3).
static OPERATIONS: [CounterField; 2] =
    [at(&metric::OPERATION_RECEIVE_PACKETS, 32, 32), at(&metric::OPERATION_RECEIVE_DATA, 64, 32)];
/// PortFlowCtlCounters (16.1.4.4).
static FLOW_CONTROL: [CounterField; 2] =
    [at(&metric::TRANSMIT_FLOW_PACKETS, 32, 32), at(&metric::RECEIVE_FLOW_PACKETS, 64, 32)];
/// PortExtendedSpeedsCounters: what it has with every kind of error correction.
static SPEEDS: [CounterField; 2] =
    [at(&metric::SYNC_HEADER_ERRORS, 128, 16), at(&metric::UNKNOWN_BLOCKS, 144, 16)];
/// PortExtendedSpeedsCounters: totals of the port with Reed-Solomon error correction.
pub(super) static RS_FEC: [CounterField; 3] = [
    at(&metric::FEC_CORRECTED_BLOCKS, 1120, 32),
    at(&metric::FEC_UNCORRECTED_BLOCKS, 1152, 32),
    at(&metric::FEC_CORRECTED_SYMBOLS, 1184, 32),
];
/// PortExtendedSpeedsCounters: the first of 12 lanes' 32-bit counters, whose sum a metric is.
pub(super) static LANE_FEC: [(usize, usize); 2] = [
    (at(&metric::FEC_CORRECTED_BLOCKS, 352, 32).index, 352),
    (at(&metric::FEC_UNCORRECTED_BLOCKS, 736, 32).index, 736),
];

/// Calls `each` with the tables of fields that an attribute has on a device. Made part of its callers, which spares
/// a sweep a call through a closure for each table.
#[inline]
pub(super) fn fields(
    set: PortCounterSet,
    capabilities: &ClassPortInfo,
    mut each: impl FnMut(&'static [CounterField]),
) {
    match set {
        PortCounterSet::Classic => {
            each(&ERRORS);
            if capabilities.has_transmit_wait() {
                each(&TRANSMIT_WAIT);
            }
            if capabilities.has_qp1_dropped() {
                each(&QP1_DROPPED);
            }
            if !capabilities.has_extended() {
                each(&CLASSIC_TRAFFIC);
            }
        }
        PortCounterSet::Extended => {
            each(&EXTENDED_TRAFFIC);
            if capabilities.has_casts() {
                each(&EXTENDED_CASTS);
            }
            if capabilities.has_extended_errors() {
                each(&EXTENDED_ERRORS);
                if capabilities.has_transmit_wait() {
                    each(&EXTENDED_WAIT);
                }
                if capabilities.has_qp1_dropped() {
                    each(&EXTENDED_QP1);
                }
            }
        }
        PortCounterSet::ReceiveErrorDetails => each(&RECEIVE_ERROR_DETAILS),
        PortCounterSet::DiscardDetails => each(&DISCARD_DETAILS),
        PortCounterSet::Operations => each(&OPERATIONS),
        PortCounterSet::FlowControl => each(&FLOW_CONTROL),
        PortCounterSet::ExtendedSpeeds => {
            each(&SPEEDS);
            if capabilities.has_rs_fec() {
                each(&RS_FEC);
            }
        }
        // By lane: see `lanes`.
        _ => {}
    }
}
