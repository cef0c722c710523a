-- Readings of links.
CREATE TABLE internal.ib_port_counters (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    saturated text[],
    PRIMARY KEY (port_id, time)
);
SELECT public.create_hypertable('internal.ib_port_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.ib_port_counters IS
    'Counters of the fabric''s ports, read through MADs.';
COMMENT ON COLUMN internal.ib_port_counters.saturated IS 'Counters that stood at their largest value and are NULL for that reason.';

CREATE TABLE internal.ib_port_lane_counters (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (port_id, time)
);
SELECT public.create_hypertable('internal.ib_port_lane_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.ib_port_lane_counters IS
    'Counters of the fabric''s ports by service level (sl_) and virtual lane (vl_): element 1 of each array is number 0. Only where the crawler is set to read them. See ib_port_lane_values.';

CREATE TABLE internal.host_port_counters (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (host_port_id, time)
);
SELECT public.create_hypertable('internal.host_port_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.host_port_counters IS
    'Counters of hosts'' own adapter ports, read in sysfs.';

CREATE TABLE internal.nvlink_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.nvlink_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.nvlink_counters IS
    'Counters of a GPU''s NVLinks, one row per GPU and tick: element 1 of each array is link 0. See nvlink_link_counters.';

CREATE TABLE internal.gpu_pcie_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.gpu_pcie_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.gpu_pcie_counters IS
    'PCIe traffic of GPUs.';

CREATE TABLE internal.gpu_pm_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.gpu_pm_counters', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.gpu_pm_counters IS
    'NVLink and PCIe traffic of whole GPUs, sampled by their performance monitors: cumulative since epoch, and the highest rate in one sample since the row before.';

CREATE TABLE internal.gpu_metrics (
    time timestamptz NOT NULL,
    gpu_metric_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_metric_id, time, source)
);
SELECT public.create_hypertable('internal.gpu_metrics', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.gpu_metrics IS
    'Metrics of GPUs'' performance monitors that the site chose by name, a row for each GPU, metric and reading: sum or value. See gpu_metric_rates.';
