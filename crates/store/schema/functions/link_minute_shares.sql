CREATE OR REPLACE FUNCTION link_minute_shares(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id bigint, contributor text, job_id bigint, operation text, name text, bytes bigint,
    low_bytes bigint, high_bytes bigint, kind text, is_bound boolean, counted_bytes bigint, peak_counted_bytes bigint,
    windows smallint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT m.time, m.port_id, m.contributor, m.job_id, m.operation, m.name, m.bytes, m.low_bytes, m.high_bytes, m.kind, m.is_bound,
           m.counted_bytes, m.peak_counted_bytes, m.windows
    FROM link_share_minutes m
    WHERE m.time >= since AND m.time <= until AND (of_job IS NULL OR m.job_id = of_job)
      AND m.time >= (SELECT coalesce(s.hours_until, '-infinity') FROM link_share_state s)
    UNION ALL
    SELECT h.time + m.minutes[c.at] * INTERVAL '1 minute', h.port_id, h.contributors[c.who], h.job_ids[c.who],
           h.operations[c.who], h.names[c.who], c.bytes, c.low, c.high, h.kinds[c.who], h.are_bounds[c.who],
           CASE WHEN m.are_counted[c.at] = 1 THEN c.counted END, packed_bytes(m.peaks[c.at]), m.windows[c.at]::smallint
    FROM link_share_hours h
    CROSS JOIN LATERAL (
        SELECT array_agg(p.c1 ORDER BY p.number) AS minutes, array_agg(p.c2 ORDER BY p.number) AS windows,
               array_agg(p.c3 ORDER BY p.number) AS are_counted, array_agg(p.c6 ORDER BY p.number) AS peaks
        FROM packed_rows(h.minutes) p
    ) m
    CROSS JOIN LATERAL (
        SELECT s.at, s.who, packed_bytes(s.bytes) AS bytes, packed_bytes(s.bytes - s.less) AS low,
               packed_bytes(s.bytes + s.more) AS high, (sum(packed_bytes(s.bytes)) OVER (PARTITION BY s.at))::bigint AS counted
        FROM (
            -- On its own, or each is unpacked as often as it is named.
            SELECT p.number / cardinality(h.contributors) + 1 AS at, p.number % cardinality(h.contributors) + 1 AS who,
                   p.c6 AS bytes, p.c7 AS less, p.c8 AS more
            FROM packed_rows(h.shares) p OFFSET 0
        ) s
        WHERE s.bytes IS NOT NULL
    ) c
    WHERE h.time > since - INTERVAL '1 hour' AND h.time <= until AND (of_job IS NULL OR h.job_ids @> ARRAY[of_job])
      AND h.time < (SELECT s.hours_until FROM link_share_state s)
      AND (of_job IS NULL OR h.job_ids[c.who] = of_job)
      AND h.time + m.minutes[c.at] * INTERVAL '1 minute' >= since AND h.time + m.minutes[c.at] * INTERVAL '1 minute' <= until
$$;
COMMENT ON FUNCTION link_minute_shares IS
    'Shares of links by the minute from since to until, as link_share_minutes has them: rows, and hours that are in link_share_hours. Condition port_id, or name a job, so that no other hours are unpacked.';
