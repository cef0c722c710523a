CREATE OR REPLACE FUNCTION internal.expire_table(of_table text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
DECLARE
    older timestamptz := (SELECT internal.expiry_time() - p.keep FROM internal.retention_policy p WHERE p.hypertable = of_table);
    dropped bigint;
BEGIN
    IF older IS NULL OR NOT internal.try_lock_chunks() THEN
        RETURN 0;
    END IF;
    IF of_table = 'link_shares' THEN
        -- After an outage windows of link shares are made that are old already: they wait for their minutes. Where no more are made,
        -- not for long.
        older := greatest(least(older, (SELECT s.minutes_until FROM internal.link_share_state s)), older - INTERVAL '1 day');
    ELSIF EXISTS (SELECT FROM internal.packed_state p WHERE p.readings = regexp_replace(of_table, '_blocks$', '_counters')) THEN
        -- Readings wait for their minutes, each with the reading before it, and for those that are made again, however old they are:
        -- after an outage, or on a machine that slept, upkeep makes up for days. Where round after round makes none, not for ever.
        older := least(older, (
            SELECT least(s.made_until, min(l.since)) - max(g.gap)
            FROM internal.minute_state s CROSS JOIN (VALUES ('ib_port'), ('host_port'), ('gpu')) k (kind)
            CROSS JOIN LATERAL internal.row_gap(k.kind, s.made_until, s.made_until) g
            LEFT JOIN internal.retention_policy p ON p.hypertable = of_table
            LEFT JOIN internal.minute_late l ON l.since > coalesce(p.dropped_until, '-infinity')
            WHERE s.rounds_in_vain < 10000 GROUP BY s.made_until));
    END IF;
    -- Nor those that are being thinned, and what is behind them: both would wait for each other. Who wants to thin one from now on finds
    -- it locked.
    SELECT least(older, min(c.range_start)) INTO older
    FROM timescaledb_information.chunks c
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older
      AND NOT internal.try_lock_chunk(to_regclass(format('%I.%I', c.chunk_schema, c.chunk_name)));
    SELECT count(*) INTO dropped
    FROM public.drop_chunks(format('internal.%I', of_table)::regclass, older_than => older) chunk;
    IF dropped > 0 THEN
        UPDATE internal.retention_policy p SET dropped_chunks = p.dropped_chunks + dropped, dropped_until = greatest(p.dropped_until, older)
        WHERE p.hypertable = of_table;
    END IF;
    RETURN dropped;
END $$;
COMMENT ON FUNCTION internal.expire_table IS
    'Drops the chunks of a table that are older than its policy, by expiry_time(); how many. For the procedure expire.';
