-- PCIe of GPUs is packed by the hour, as readings of NVLinks are. Immutable once released: later changes are new files.

CREATE TABLE gpu_pcie_blocks (
    time timestamptz NOT NULL,
    gpu_id integer NOT NULL,
    metric integer NOT NULL,
    source text NOT NULL,
    element integer NOT NULL,
    samples bytea,
    metrics integer[],
    elements integer[],
    offsets integer[],
    PRIMARY KEY (metric, gpu_id, time, source, element)
);
-- Nothing is compressed that is packed already.
ALTER TABLE gpu_pcie_blocks ALTER COLUMN samples SET STORAGE EXTERNAL;
SELECT create_hypertable('gpu_pcie_blocks', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE gpu_pcie_blocks IS 'Hours of gpu_pcie_counters, packed.';
COMMENT ON COLUMN gpu_pcie_blocks.time IS 'When the hour begins.';
COMMENT ON COLUMN gpu_pcie_blocks.metric IS '-6: all series of the hour; 0: the hour is packed.';
COMMENT ON COLUMN gpu_pcie_blocks.source IS 'Who read it.';
COMMENT ON COLUMN gpu_pcie_blocks.element IS '0.';
COMMENT ON COLUMN gpu_pcie_blocks.samples IS 'The series, one behind the other: bit-packed differences with a checksum each.';
COMMENT ON COLUMN gpu_pcie_blocks.metrics IS
    'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began.';
COMMENT ON COLUMN gpu_pcie_blocks.elements IS 'NULL, as all are 0.';
COMMENT ON COLUMN gpu_pcie_blocks.offsets IS
    'Where in samples each series begins, in bytes from 0, and where the last one ends.';

-- Hours before the next one keep their rows until they expire.
INSERT INTO packed_state (readings, packed_from, packed_until)
SELECT 'gpu_pcie_counters', coalesce(s.blocks_until, '-infinity'), coalesce(s.blocks_until, '-infinity') FROM minute_state s;
