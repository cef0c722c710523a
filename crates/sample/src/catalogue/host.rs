//! Counters of a host's own InfiniBand ports, read in sysfs; names follow node_exporter.

use super::Width::{Saturates, Wraps};
use super::metrics;

metrics! { ALL, HostPortCounters:
    101 PORT_DATA_TRANSMITTED_BYTES "port_data_transmitted_bytes" Counter Bytes Wraps(63), "Data sent on this port of the host.", "counters/port_xmit_data x 4";
    102 PORT_DATA_RECEIVED_BYTES "port_data_received_bytes" Counter Bytes Wraps(63), "Data received on this port of the host.", "counters/port_rcv_data x 4";
    103 PORT_PACKETS_TRANSMITTED "port_packets_transmitted" Counter Packets Wraps(63), "Packets sent on this port of the host.", "counters/port_xmit_packets";
    104 PORT_PACKETS_RECEIVED "port_packets_received" Counter Packets Wraps(63), "Packets received on this port of the host.", "counters/port_rcv_packets";
    105 UNICAST_PACKETS_TRANSMITTED "unicast_packets_transmitted" Counter Packets Wraps(63), "Unicast packets sent on this port of the host.", "counters/unicast_xmit_packets";
    106 UNICAST_PACKETS_RECEIVED "unicast_packets_received" Counter Packets Wraps(63), "Unicast packets received on this port of the host.", "counters/unicast_rcv_packets";
    107 MULTICAST_PACKETS_TRANSMITTED "multicast_packets_transmitted" Counter Packets Wraps(63), "Multicast packets sent on this port of the host.", "counters/multicast_xmit_packets";
    108 MULTICAST_PACKETS_RECEIVED "multicast_packets_received" Counter Packets Wraps(63), "Multicast packets received on this port of the host.", "counters/multicast_rcv_packets";
    109 PORT_TRANSMIT_WAIT "port_transmit_wait" Counter Ticks Wraps(63), "Ticks in which this port of the host had data to send and could not.", "counters/port_xmit_wait";
    110 HOST_SYMBOL_ERROR "symbol_error" Counter Count Saturates(16), "Minor link errors on one or more lanes of this port of the host.", "counters/symbol_error";
    111 HOST_LINK_ERROR_RECOVERY "link_error_recovery" Counter Count Saturates(8), "Times this port's link retrained successfully after an error.", "counters/link_error_recovery";
    112 HOST_LINK_DOWNED "link_downed" Counter Count Saturates(8), "Times this port's link failed to recover and went down.", "counters/link_downed";
    113 PORT_ERRORS_RECEIVED "port_errors_received" Counter Count Saturates(16), "Packets received with an error on this port of the host.", "counters/port_rcv_errors";
    114 PORT_RECEIVE_REMOTE_PHYSICAL_ERRORS "port_receive_remote_physical_errors" Counter Count Saturates(16), "Packets received that were marked bad by another link.", "counters/port_rcv_remote_physical_errors";
    115 PORT_RECEIVE_SWITCH_RELAY_ERRORS "port_receive_switch_relay_errors" Counter Count Saturates(16), "Packets received that could not be forwarded.", "counters/port_rcv_switch_relay_errors";
    116 PORT_DISCARDS_TRANSMITTED "port_discards_transmitted" Counter Count Saturates(16), "Packets that were to be sent on this port of the host and were discarded.", "counters/port_xmit_discards";
    117 PORT_CONSTRAINT_ERRORS_TRANSMITTED "port_constraint_errors_transmitted" Counter Count Saturates(8), "Packets not sent by this port of the host because of a partition or raw-packet rule.", "counters/port_xmit_constraint_errors";
    118 PORT_CONSTRAINT_ERRORS_RECEIVED "port_constraint_errors_received" Counter Count Saturates(8), "Packets received by this port of the host and discarded because of a partition or raw-packet rule.", "counters/port_rcv_constraint_errors";
    119 HOST_LOCAL_LINK_INTEGRITY_ERRORS "local_link_integrity_errors" Counter Count Saturates(4), "Times local physical errors of this port exceeded their threshold.", "counters/local_link_integrity_errors";
    120 HOST_EXCESSIVE_BUFFER_OVERRUN_ERRORS "excessive_buffer_overrun_errors" Counter Count Saturates(4), "Times consecutive flow-control update errors of this port exceeded their threshold.", "counters/excessive_buffer_overrun_errors";
    121 HOST_VL15_DROPPED "vl15_dropped" Counter Count Saturates(16), "Management packets on VL15 that this port dropped for lack of a buffer.", "counters/VL15_dropped";
    122 RATE_BYTES_PER_SECOND "rate_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Data rate of this port's link in one direction.", "rate";
    123 STATE_ID "state_id" Gauge Count Wraps(63), "Logical state of this port: 1 down, 2 initialize, 3 armed, 4 active.", "state";
    124 PHYSICAL_STATE_ID "physical_state_id" Gauge Count Wraps(63), "Physical state of this port: 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery.", "phys_state";
    125 PCIE_BYTES_PER_SECOND "pcie_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Bytes that the PCIe link of this port's adapter carries in one direction after line code, headers of PCIe among them; all ports of the adapter share it.", "../../device/current_link_speed";
}
