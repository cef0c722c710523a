//! Counters of GPU links: NVLink per physical link, PCIe per GPU, and what a GPU's performance monitor sums up.
//!
//! Field numbers are NVML's (`NVML_FI_DEV_*` in nvml.h).

use super::Width::Wraps;
use super::metrics;

/// Who reads counters of GPUs, the first as the first to be believed: counters of two sources are never one series, and
/// never added up. The database's `gpu_source_rank` has the same order.
pub const GPU_SOURCES: [&str; 6] = ["nvml", "nvml_gpm", "amd_smi", "level_zero", "dcgm", "cupti"];

/// A source's place in [`GPU_SOURCES`]; one that is not known comes last.
#[must_use]
pub fn gpu_source_rank(source: &str) -> usize {
    GPU_SOURCES.iter().position(|known| *known == source).unwrap_or(GPU_SOURCES.len())
}

metrics! { NVLINK, NvlinkCounters:
    201 NVLINK_TRANSMIT_BYTES "transmit_bytes" Counter Bytes Wraps(63), "Data sent on this NVLink, payload only.", "NVML fields 138 (KiB), 202 from NVLink 5";
    202 NVLINK_RECEIVE_BYTES "receive_bytes" Counter Bytes Wraps(63), "Data received on this NVLink, payload only.", "NVML fields 139 (KiB), 204 from NVLink 5";
    203 NVLINK_REPLAY_ERRORS "replay_errors" Counter Count Wraps(63), "Packets sent again on this NVLink after an error.", "NVML DL replay counter of the link";
    204 NVLINK_RECOVERY_ERRORS "recovery_errors" Counter Count Wraps(63), "Times this NVLink recovered from an error.", "NVML DL recovery counter of the link";
    205 NVLINK_CRC_ERRORS "crc_errors" Counter Count Wraps(63), "Flow-control units with a wrong checksum on this NVLink.", "NVML DL CRC FLIT counter of the link";
    206 NVLINK_SPEED_BYTES_PER_SECOND "speed_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Speed of this NVLink in one direction.", "NVML field 164 and its family (MB/s)";
    207 NVLINK_UP "up" Gauge Count Wraps(63), "1 while this NVLink is active, else 0.", "nvmlDeviceGetNvLinkState";
    208 NVLINK_MALFORMED_PACKET_ERRORS "malformed_packet_errors" Counter Count Wraps(63), "Malformed packets received on this NVLink.", "NVML field 206 (NVLink 5)";
    209 NVLINK_BUFFER_OVERRUN_ERRORS "buffer_overrun_errors" Counter Count Wraps(63), "Packets received on this NVLink and discarded because a buffer was full.", "NVML field 207 (NVLink 5)";
    210 NVLINK_RECEIVE_ERRORS "receive_errors" Counter Count Wraps(63), "Packets received on this NVLink with an error.", "NVML field 208 (NVLink 5)";
    211 NVLINK_REMOTE_ERRORS "remote_errors" Counter Count Wraps(63), "Packets received on this NVLink that another device had marked as bad.", "NVML field 209 (NVLink 5)";
    212 NVLINK_GENERAL_ERRORS "general_errors" Counter Count Wraps(63), "Packets received on this NVLink with a wrong header.", "NVML field 210 (NVLink 5)";
    213 NVLINK_LINK_INTEGRITY_ERRORS "link_integrity_errors" Counter Count Wraps(63), "Times the errors of this NVLink passed their threshold.", "NVML field 211 (NVLink 5)";
    214 NVLINK_TRANSMIT_DISCARDS "transmit_discards" Counter Count Wraps(63), "Packets that this NVLink discarded and did not send.", "NVML field 212 (NVLink 5)";
    215 NVLINK_RECOVERY_FAILURES "recovery_failures" Counter Count Wraps(63), "Times this NVLink failed to recover from an error.", "NVML field 214 (NVLink 5)";
    216 NVLINK_EFFECTIVE_ERRORS "effective_errors" Counter Count Wraps(63), "Errors of this NVLink that forward error correction did not mend.", "NVML field 219 (NVLink 5)";
    217 NVLINK_SYMBOL_ERRORS "symbol_errors" Counter Count Wraps(63), "Symbols with an error on this NVLink.", "NVML field 221 (NVLink 5)";
    218 NVLINK_EFFECTIVE_BER "effective_ber_per_1e18" Gauge Count Wraps(63), "Bit error ratio of this NVLink after forward error correction, in errors per 10^18 bits.", "NVML field 220 (NVLink 5)";
    219 NVLINK_SYMBOL_BER "symbol_ber_per_1e18" Gauge Count Wraps(63), "Bit error ratio of this NVLink's symbols, in errors per 10^18 bits.", "NVML field 222 (NVLink 5)";
    220 NVLINK_FEC_CORRECTED_BLOCKS "fec_corrected_blocks" Counter Count Wraps(63), "Blocks of this NVLink in which forward error correction mended at least one symbol.", "NVML fields 236 to 250, summed up (NVLink 5)";
    221 NVLINK_FEC_MOST_SYMBOLS "fec_most_symbols" Gauge Count Wraps(63), "Most symbols that forward error correction mended in one block of this NVLink; 15 is its limit.", "the highest of NVML fields 236 to 250 that is not 0 (NVLink 5)";
}

/// Metrics of an NVLink's health: read in one poll of ten, because they are many and change slowly. A row without them
/// is no change of theirs.
pub const NVLINK_HEALTH: std::ops::RangeInclusive<u32> =
    NVLINK_MALFORMED_PACKET_ERRORS.id..=NVLINK_FEC_MOST_SYMBOLS.id;

metrics! { PCIE, GpuPcieCounters:
    251 PCIE_TRANSMIT_BYTES "transmit_bytes" Counter Bytes Wraps(63), "Data this GPU sent over PCIe.", "NVML field 197; GPM metric 20 by rate and time";
    252 PCIE_RECEIVE_BYTES "receive_bytes" Counter Bytes Wraps(63), "Data this GPU received over PCIe.", "NVML field 198; GPM metric 21 by rate and time";
}

metrics! { PM, GpuPmCounters:
    261 PM_NVLINK_TRANSMIT_BYTES "nvlink_transmit_bytes" Counter Bytes Wraps(63), "Bytes this GPU sent over all its NVLinks, headers included.", "CUPTI PM Sampling, nvltx__bytes.sum";
    262 PM_NVLINK_RECEIVE_BYTES "nvlink_receive_bytes" Counter Bytes Wraps(63), "Bytes this GPU received over all its NVLinks, headers included.", "CUPTI PM Sampling, nvlrx__bytes.sum";
    263 PM_PCIE_READ_BYTES "pcie_read_bytes" Counter Bytes Wraps(63), "Bytes this GPU read over PCIe.", "CUPTI PM Sampling, pcie__read_bytes.sum";
    264 PM_PCIE_WRITE_BYTES "pcie_write_bytes" Counter Bytes Wraps(63), "Bytes this GPU wrote over PCIe.", "CUPTI PM Sampling, pcie__write_bytes.sum";
    265 PM_NVLINK_TRANSMIT_PEAK "nvlink_transmit_peak_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Highest rate at which this GPU sent over its NVLinks in one sample since the row before.", "CUPTI PM Sampling, bytes and length of each sample";
    266 PM_NVLINK_RECEIVE_PEAK "nvlink_receive_peak_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Highest rate at which this GPU received over its NVLinks in one sample since the row before.", "CUPTI PM Sampling, bytes and length of each sample";
    267 PM_PCIE_READ_PEAK "pcie_read_peak_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Highest rate at which this GPU read over PCIe in one sample since the row before.", "CUPTI PM Sampling, bytes and length of each sample";
    268 PM_PCIE_WRITE_PEAK "pcie_write_peak_bytes_per_second" Gauge BytesPerSecond Wraps(63), "Highest rate at which this GPU wrote over PCIe in one sample since the row before.", "CUPTI PM Sampling, bytes and length of each sample";
    269 PM_SAMPLES "samples" Counter Count Wraps(63), "Samples of this GPU's performance monitor that the sums hold.", "cuptiPmSamplingGetCounterDataInfo";
    270 PM_VOID_SAMPLES "void_samples" Counter Count Wraps(63), "Samples of this GPU's performance monitor that held no number (the first one, now and then) or more than any GPU carries.", "cuptiProfilerHostEvaluateToGpuValues";
    271 PM_OVERFLOWS "buffer_overflows" Counter Count Wraps(63), "Times the buffer of this GPU's performance monitor was full, so that samples were lost.", "cuptiPmSamplingDecodeData";
}

metrics! { CHOSEN, GpuMetrics:
    281 GPU_METRIC_SUM "sum" Counter Own Wraps(63), "A metric that ends in .sum, as the site chose it: summed up over the samples of this GPU's performance monitor.", "CUPTI PM Sampling, [cupti] metrics";
    282 GPU_METRIC_VALUE "value" Gauge Own Wraps(63), "Any other metric that the site chose: its mean over the samples since the row before, its largest where it ends in .max, its least in .min.", "CUPTI PM Sampling, [cupti] metrics";
}
