-- Self-metrics of a daemon with all values of a time in one row, in place of a row for each value. Immutable once released: later
-- changes are new files.

-- The view self_stats has the rows of both tables.
ALTER TABLE self_stats RENAME TO self_stat_values;
COMMENT ON TABLE self_stat_values IS
    'Figures about Throughline itself, a row for each value: those that earlier versions stored. The view self_stats has them with self_stat_rows.';

CREATE TABLE self_stat_rows (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    sources text[] NOT NULL,
    names text[] NOT NULL,
    readings double precision[] NOT NULL
);
COMMENT ON TABLE self_stat_rows IS
    'Figures about Throughline itself, of a daemon at a time: element n of each array is of the same value. The view self_stats has a row for each value.';
COMMENT ON COLUMN self_stat_rows.names IS 'As in the catalogue. Not each row has all of a daemon: agents report those that changed, and each minute all.';
CREATE INDEX self_stat_rows_by_instance ON self_stat_rows (instance, time DESC);
SELECT create_hypertable('self_stat_rows', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE self_stat_series (
    name text NOT NULL,
    source text NOT NULL,
    instance text NOT NULL,
    PRIMARY KEY (name, source, instance)
);
COMMENT ON TABLE self_stat_series IS 'Which values self_stat_rows has or had of which daemon.';
