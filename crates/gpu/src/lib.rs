//! Source: NVLink and PCIe counters and topology through NVML in a child process.
