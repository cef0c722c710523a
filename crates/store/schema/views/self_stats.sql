CREATE OR REPLACE VIEW self_stats AS
SELECT time, instance, source, name, value
FROM self_stat_values
UNION ALL
SELECT r.time, r.instance, v.source, v.name, v.value
FROM self_stat_rows r
CROSS JOIN LATERAL unnest(r.sources, r.names, r.readings) v (source, name, value);
COMMENT ON VIEW self_stats IS
    'Figures about Throughline itself; the names are those of the catalogue. For the newest value of one series use self_stat_newest.';
