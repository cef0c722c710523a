//! Counters of GPU links: NVLink per physical link, PCIe per GPU.
//!
//! Field numbers are NVML's (`NVML_FI_DEV_*` in nvml.h).

use super::Width::Wraps;
use super::metrics;

metrics! { NVLINK, NvlinkCounters:
    201 NVLINK_TRANSMIT_BYTES "transmit_bytes" Counter Bytes Wraps(63), "Data sent on this NVLink, payload only.", "NVML fields 138 (KiB), 202 from NVLink 5";
    202 NVLINK_RECEIVE_BYTES "receive_bytes" Counter Bytes Wraps(63), "Data received on this NVLink, payload only.", "NVML fields 139 (KiB), 204 from NVLink 5";
    203 NVLINK_REPLAY_ERRORS "replay_errors" Counter Count Wraps(63), "Packets sent again on this NVLink after an error.", "NVML DL replay counter of the link";
    204 NVLINK_RECOVERY_ERRORS "recovery_errors" Counter Count Wraps(63), "Times this NVLink recovered from an error.", "NVML DL recovery counter of the link";
    205 NVLINK_CRC_ERRORS "crc_errors" Counter Count Wraps(63), "Flow-control units with a wrong checksum on this NVLink.", "NVML DL CRC FLIT counter of the link";
    206 NVLINK_SPEED_BYTES_PER_SECOND "speed_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Speed of this NVLink in one direction.", "NVML field 164 and its family (MB/s)";
    207 NVLINK_UP "up" Gauge Count Wraps(63), "1 while this NVLink is active, else 0.", "nvmlDeviceGetNvLinkState";
}

metrics! { PCIE, GpuPcieCounters:
    251 PCIE_TRANSMIT_BYTES "transmit_bytes" Counter Bytes Wraps(63), "Data this GPU sent over PCIe.", "NVML field 197";
    252 PCIE_RECEIVE_BYTES "receive_bytes" Counter Bytes Wraps(63), "Data this GPU received over PCIe.", "NVML field 198";
}
