CREATE OR REPLACE FUNCTION internal.self_stat_newest(
    of_name text, of_source text, of_instance text, since timestamptz, until timestamptz DEFAULT now(),
    of_label text DEFAULT '')
RETURNS TABLE ("time" timestamptz, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Most daemons do not have most series: that is one step, and not a look into each row.
    SELECT x.time, x.value
    FROM internal.self_stat_series s
    CROSS JOIN LATERAL (
        SELECT r.time, e.value
        FROM internal.self_stat_rows r
        LEFT JOIN internal.self_stat_names n ON n.id = r.names_id
        CROSS JOIN LATERAL unnest(
            coalesce(n.sources, r.sources), coalesce(n.labels, r.labels), coalesce(n.names, r.names), r.readings)
            e (source, label, name, value)
        WHERE r.instance = s.instance AND r.time > since AND r.time <= until
          AND e.source = s.source AND e.label = s.label AND e.name = s.name
        ORDER BY r.time DESC LIMIT 1) x
    WHERE s.name = of_name AND s.source = of_source AND s.label = of_label AND s.instance = of_instance;
END;
COMMENT ON FUNCTION internal.self_stat_newest IS
    'The newest value that a daemon reported of one of its self-metrics in a range of time; no row where it reported none.';
