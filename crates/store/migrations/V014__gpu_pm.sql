-- What GPUs' performance monitors were sampled for (CUPTI PM Sampling), GPU by GPU: sums, and highest rates in a sample.

CREATE TABLE gpu_pm_counters (
    time timestamptz NOT NULL,
    gpu_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    nvlink_transmit_bytes bigint,
    nvlink_receive_bytes bigint,
    pcie_read_bytes bigint,
    pcie_write_bytes bigint,
    nvlink_transmit_peak_bytes_per_second bigint,
    nvlink_receive_peak_bytes_per_second bigint,
    pcie_read_peak_bytes_per_second bigint,
    pcie_write_peak_bytes_per_second bigint,
    samples bigint,
    void_samples bigint,
    buffer_overflows bigint,
    PRIMARY KEY (gpu_id, time, source)
);
COMMENT ON TABLE gpu_pm_counters IS
    'NVLink and PCIe traffic of whole GPUs, sampled by their performance monitors: cumulative since epoch, and the highest rate in one sample since the row before.';
SELECT create_hypertable('gpu_pm_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
