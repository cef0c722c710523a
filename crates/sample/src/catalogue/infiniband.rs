//! Counters of InfiniBand ports, as a fabric crawler reads them through MADs.
//!
//! Attributes: IBTA 1.x volume 1, chapter 16.1: PortCounters (0x12), PortCountersExtended (0x1D) and the optional
//! ones, each where its device has it.
//! Names follow infiniband_exporter 0.10, which users query, and so does what `guid` is: of a switch its GUID, of an
//! adapter's port the port's own GUID. `node_guid` of the info metrics is the adapter's, as its host and the
//! database have it.

use super::Width::{Saturates, Wraps};
use super::metrics;

/// Prometheus prefix of a switch's ports.
pub const SWITCH_PORT_PREFIX: &str = "infiniband_switch_port_";
/// Prometheus prefix of an adapter's ports.
pub const HCA_PORT_PREFIX: &str = "infiniband_hca_port_";

/// Info metric (value 1) that names both ends of a switch port's cable; alert rules join with it on
/// `guid` and `port`. Labels in [`SWITCH_UPLINK_LABELS`].
pub const SWITCH_UPLINK_INFO: &str = "infiniband_switch_uplink_info";
/// Labels of [`SWITCH_UPLINK_INFO`]: `switch` and `uplink` are node descriptions, `uplink_type` is SW, CA or RT.
pub const SWITCH_UPLINK_LABELS: [&str; 8] =
    ["guid", "port", "switch", "uplink", "uplink_guid", "uplink_lid", "uplink_port", "uplink_type"];
/// The same for an adapter's port, with its node GUID. Labels in [`HCA_UPLINK_LABELS`].
pub const HCA_UPLINK_INFO: &str = "infiniband_hca_uplink_info";
/// Labels of [`HCA_UPLINK_INFO`]: as on a switch, with `hca` for the adapter's node description.
pub const HCA_UPLINK_LABELS: [&str; 9] =
    ["guid", "port", "hca", "uplink", "uplink_guid", "uplink_lid", "uplink_port", "uplink_type", "node_guid"];

metrics! { ALL, IbPortCounters:
    1 TRANSMIT_DATA_BYTES "transmit_data_bytes" Counter Bytes Wraps(63), "Data sent on this port, all virtual lanes, without link packets.", "PortXmitData x 4";
    2 RECEIVE_DATA_BYTES "receive_data_bytes" Counter Bytes Wraps(63), "Data received on this port, all virtual lanes, without link packets.", "PortRcvData x 4";
    3 TRANSMIT_PACKETS "transmit_packets" Counter Packets Wraps(63), "Packets sent on this port.", "PortXmitPkts";
    4 RECEIVE_PACKETS "receive_packets" Counter Packets Wraps(63), "Packets received on this port.", "PortRcvPkts";
    5 UNICAST_TRANSMIT_PACKETS "unicast_transmit_packets" Counter Packets Wraps(63), "Unicast packets sent on this port.", "PortUnicastXmitPkts";
    6 UNICAST_RECEIVE_PACKETS "unicast_receive_packets" Counter Packets Wraps(63), "Unicast packets received on this port.", "PortUnicastRcvPkts";
    7 MULTICAST_TRANSMIT_PACKETS "multicast_transmit_packets" Counter Packets Wraps(63), "Multicast packets sent on this port.", "PortMulticastXmitPkts";
    8 MULTICAST_RECEIVE_PACKETS "multicast_receive_packets" Counter Packets Wraps(63), "Multicast packets received on this port.", "PortMulticastRcvPkts";
    9 TRANSMIT_WAIT "transmit_wait" Counter Ticks Saturates(32), "Ticks in which data was ready to be sent and no credit or arbitration allowed it: congestion.", "PortXmitWait";
    10 SYMBOL_ERROR "symbol_error" Counter Count Saturates(16), "Minor link errors on one or more lanes.", "SymbolErrorCounter";
    11 LINK_ERROR_RECOVERY "link_error_recovery" Counter Count Saturates(8), "Times the link retrained successfully after an error.", "LinkErrorRecoveryCounter";
    12 LINK_DOWNED "link_downed" Counter Count Saturates(8), "Times the link failed to recover and went down.", "LinkDownedCounter";
    13 RECEIVE_ERRORS "receive_errors" Counter Count Saturates(16), "Packets received with an error: physical, malformed, or no buffer.", "PortRcvErrors";
    14 RECEIVE_REMOTE_PHYSICAL_ERRORS "receive_remote_physical_errors" Counter Count Saturates(16), "Packets received that were marked bad by another link.", "PortRcvRemotePhysicalErrors";
    15 RECEIVE_SWITCH_RELAY_ERRORS "receive_switch_relay_errors" Counter Count Saturates(16), "Packets received that the switch could not forward.", "PortRcvSwitchRelayErrors";
    16 TRANSMIT_DISCARDS "transmit_discards" Counter Count Saturates(16), "Packets that were to be sent and were discarded because the port was down or congested.", "PortXmitDiscards";
    17 TRANSMIT_CONSTRAINT_ERRORS "transmit_constraint_errors" Counter Count Saturates(8), "Packets not sent because of a partition or raw-packet rule.", "PortXmitConstraintErrors";
    18 RECEIVE_CONSTRAINT_ERRORS "receive_constraint_errors" Counter Count Saturates(8), "Packets received and discarded because of a partition or raw-packet rule.", "PortRcvConstraintErrors";
    19 LOCAL_LINK_INTEGRITY_ERRORS "local_link_integrity_errors" Counter Count Saturates(4), "Times local physical errors exceeded their threshold.", "LocalLinkIntegrityErrors";
    20 EXCESSIVE_BUFFER_OVERRUN_ERRORS "excessive_buffer_overrun_errors" Counter Count Saturates(4), "Times consecutive flow-control update errors exceeded their threshold.", "ExcessiveBufferOverrunErrors";
    21 VL15_DROPPED "vl15_dropped" Counter Count Saturates(16), "Management packets on VL15 that were dropped for lack of a buffer.", "VL15Dropped";
    22 QP1_DROPPED "qp1_dropped" Counter Count Saturates(16), "General services packets on QP1 that were dropped.", "QP1Dropped";
    23 PORT_RATE_BYTES_PER_SECOND "rate_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Data rate of this port's link in one direction, after line coding.", "PortInfo: active width x active speed";
    24 TRANSMIT_WAIT_TICK_BYTES "transmit_wait_tick_bytes" Gauge Bytes Wraps(63), "Bytes that the link could have carried in one tick of transmit_wait; absent where the device does not tell its tick.", "PortSamplesControl: Tick";
    25 LOCAL_PHYSICAL_ERRORS "local_physical_errors" Counter Count Saturates(16), "Packets received with an error of this link: CRC, framing, length.", "PortRcvErrorDetails: PortLocalPhysicalErrors";
    26 MALFORMED_PACKET_ERRORS "malformed_packet_errors" Counter Count Saturates(16), "Packets received that were malformed.", "PortRcvErrorDetails: PortMalformedPktErrors";
    27 BUFFER_OVERRUN_ERRORS "buffer_overrun_errors" Counter Count Saturates(16), "Packets received and discarded because the buffer was full.", "PortRcvErrorDetails: PortBufferOverrunErrors";
    28 DLID_MAPPING_ERRORS "dlid_mapping_errors" Counter Count Saturates(16), "Packets received for a LID to which the switch has no way.", "PortRcvErrorDetails: PortDLIDMappingErrors";
    29 VL_MAPPING_ERRORS "vl_mapping_errors" Counter Count Saturates(16), "Packets received whose service level has no virtual lane on the way out.", "PortRcvErrorDetails: PortVLMappingErrors";
    30 LOOPING_ERRORS "looping_errors" Counter Count Saturates(16), "Packets received that would have left by the port they came in by.", "PortRcvErrorDetails: PortLoopingErrors";
    31 INACTIVE_DISCARDS "inactive_discards" Counter Count Saturates(16), "Packets not sent because the port was not active.", "PortXmitDiscardDetails: PortInactiveDiscards";
    32 NEIGHBOR_MTU_DISCARDS "neighbor_mtu_discards" Counter Count Saturates(16), "Packets not sent because they were longer than the neighbour's MTU.", "PortXmitDiscardDetails: PortNeighborMTUDiscards";
    33 SWITCH_LIFETIME_LIMIT_DISCARDS "switch_lifetime_limit_discards" Counter Count Saturates(16), "Packets not sent because they were in the switch for too long.", "PortXmitDiscardDetails: PortSwLifetimeLimitDiscards";
    34 SWITCH_HOQ_LIFETIME_LIMIT_DISCARDS "switch_hoq_lifetime_limit_discards" Counter Count Saturates(16), "Packets not sent because they were at the head of the queue for too long: congestion.", "PortXmitDiscardDetails: PortSwHOQLifetimeLimitDiscards";
    35 TRANSMIT_FLOW_PACKETS "transmit_flow_packets" Counter Packets Saturates(32), "Flow-control packets sent.", "PortFlowCtlCounters: PortXmitFlowPkts";
    36 RECEIVE_FLOW_PACKETS "receive_flow_packets" Counter Packets Saturates(32), "Flow-control packets received.", "PortFlowCtlCounters: PortRcvFlowPkts";
    37 OPERATION_RECEIVE_PACKETS "operation_receive_packets" Counter Packets Saturates(32), "Packets received with operation code 0.", "PortOpRcvCounters: PortOpRcvPkts";
    38 OPERATION_RECEIVE_DATA "operation_receive_data" Counter Count Saturates(32), "Data received with operation code 0, in the device's unit.", "PortOpRcvCounters: PortOpRcvData";
    39 SYNC_HEADER_ERRORS "sync_header_errors" Counter Count Saturates(16), "Blocks received with a wrong synchronisation header.", "PortExtendedSpeedsCounters: SyncHeaderErrorCounter";
    40 UNKNOWN_BLOCKS "unknown_blocks" Counter Count Saturates(16), "Blocks received of an unknown type.", "PortExtendedSpeedsCounters: UnknownBlockCounter";
    41 FEC_CORRECTED_BLOCKS "fec_corrected_blocks" Counter Count Saturates(0), "Blocks received with errors that forward error correction mended.", "PortExtendedSpeedsCounters: PortFECCorrectableBlockCtr, else the sum over lanes";
    42 FEC_UNCORRECTED_BLOCKS "fec_uncorrected_blocks" Counter Count Saturates(0), "Blocks received with errors that forward error correction could not mend.", "PortExtendedSpeedsCounters: PortFECUncorrectableBlockCtr, else the sum over lanes";
    43 FEC_CORRECTED_SYMBOLS "fec_corrected_symbols" Counter Count Saturates(32), "Symbols of 10 bits that Reed-Solomon error correction mended.", "PortExtendedSpeedsCounters: PortFECCorrectedSymbolCtr";
}

metrics! { LANES, IbPortLaneCounters:
    61 SL_TRANSMIT_DATA_BYTES "sl_transmit_data_bytes" Counter Bytes Saturates(0), "Data sent on this port with this service level.", "PortXmitDataSL x 4";
    62 SL_RECEIVE_DATA_BYTES "sl_receive_data_bytes" Counter Bytes Saturates(0), "Data received on this port with this service level.", "PortRcvDataSL x 4";
    63 VL_TRANSMIT_WAIT "vl_transmit_wait" Counter Ticks Saturates(0), "Ticks in which data of this virtual lane was ready to be sent and was not.", "PortVLXmitWaitCounters";
    64 VL_FLOW_CONTROL_ERRORS "vl_flow_control_errors" Counter Count Saturates(0), "Flow-control update errors of this virtual lane.", "PortVLXmitFlowCtlUpdateErrors";
    65 VL_CONGESTION "vl_congestion" Counter Ticks Saturates(0), "Time for which this virtual lane of a switch port was congested.", "SwPortVLCongestion";
    66 VL_OPERATION_PACKETS "vl_operation_packets" Counter Packets Saturates(0), "Packets received on this virtual lane with operation code 0.", "PortVLOpPackets";
    67 VL_OPERATION_DATA "vl_operation_data" Counter Count Saturates(0), "Data received on this virtual lane with operation code 0, in the device's unit.", "PortVLOpData";
}
