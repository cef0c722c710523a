CREATE OR REPLACE VIEW public.self_stats AS
SELECT r.time, internal.instance_name(r.instance) AS instance, v.source, v.label, v.name, v.value,
       r.instance AS instance_key
FROM internal.self_stat_rows r
LEFT JOIN internal.self_stat_names n ON n.id = r.names_id
CROSS JOIN LATERAL unnest(
    coalesce(n.sources, r.sources), coalesce(n.labels, r.labels), coalesce(n.names, r.names), r.readings)
    v (source, label, name, value);
COMMENT ON VIEW public.self_stats IS
    'Self-metrics of Throughline; names, and what label means for each, are in the catalogue. For the newest value of one series use self_stat_newest. Instance is a node or a fabric by its name, instance_key what the rows have.';
