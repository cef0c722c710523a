-- Chunks of a week of hours and of 400 days, from 36 hours ago back, each EACH_HOURS and EACH_DAYS: a row makes each, and goes. Tables that
-- hold rows until they are packed have none that old. For the test beside this file and benches/answers.sh --history.
DO $$
DECLARE
    hypertable record;
    columns text;
    row_values text;
BEGIN
    FOR hypertable IN
        SELECT d.hypertable_name, d.column_name, d.time_interval FROM timescaledb_information.dimensions d
        WHERE d.hypertable_schema = 'internal' AND d.dimension_number = 1 AND d.hypertable_name NOT LIKE 'detail\_%'
          AND d.hypertable_name NOT IN ('ib_port_counters', 'host_port_counters', 'nvlink_counters', 'gpu_pcie_counters', 'link_shares')
    LOOP
        SELECT string_agg(quote_ident(a.attname), ','),
               string_agg(CASE
                   WHEN a.attname = hypertable.column_name THEN 't'
                   WHEN a.attname = 'contributor' THEN '''rest'''
                   WHEN a.attname = 'kind' THEN '''measured'''
                   ELSE CASE format_type(a.atttypid, NULL)
                       WHEN 'text' THEN '''x''' WHEN 'timestamp with time zone' THEN 't' WHEN 'boolean' THEN 'false'
                       WHEN 'bytea' THEN '''\x''' WHEN 'bit varying' THEN 'B''''' WHEN 'jsonb' THEN '''{}'''
                       ELSE CASE WHEN format_type(a.atttypid, NULL) LIKE '%[]' THEN '''{}''' ELSE '1' END END END, ',')
        INTO columns, row_values
        FROM pg_attribute a
        WHERE a.attrelid = format('internal.%I', hypertable.hypertable_name)::regclass AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = '';
        EXECUTE format(
            'INSERT INTO internal.%I (%s) SELECT %s
             FROM generate_series(now() - %L::interval, now() - INTERVAL ''36 hours'', %L::interval) AS m (t)',
            hypertable.hypertable_name, columns, row_values,
            CASE WHEN hypertable.time_interval > INTERVAL '1 hour' THEN '400 days' ELSE '167 hours' END,
            CASE WHEN hypertable.time_interval > INTERVAL '1 hour' THEN 'EACH_DAYS' ELSE 'EACH_HOURS' END);
        EXECUTE format('DELETE FROM internal.%I WHERE %I < now() - INTERVAL ''1 day''', hypertable.hypertable_name, hypertable.column_name);
    END LOOP;
END
$$;
