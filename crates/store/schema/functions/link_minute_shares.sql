CREATE OR REPLACE FUNCTION public.link_minute_shares(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id bigint, contributor text, job_id bigint, operation text, name text, bytes bigint,
    low_bytes bigint, high_bytes bigint, kind text, is_bound boolean, counted_bytes bigint, peak_counted_bytes bigint,
    windows smallint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.time, m.port_id, m.contributor, m.job_id, m.operation, m.name, m.bytes, m.low_bytes, m.high_bytes, m.kind, m.is_bound,
           m.counted_bytes, m.peak_counted_bytes, m.windows
    FROM internal.link_share_minutes m
    WHERE m.time >= since AND m.time <= until AND (of_job IS NULL OR m.job_id = of_job)
      AND m.time >= (SELECT coalesce(s.hours_until, '-infinity') FROM internal.link_share_state s)
    UNION ALL
    SELECT h.time + c.minute * INTERVAL '1 minute', h.port_id, h.contributors[c.who], h.job_ids[c.who],
           h.operations[c.who], h.names[c.who], c.bytes, c.low_bytes, c.high_bytes, h.kinds[c.who], h.are_bounds[c.who],
           c.counted_bytes, c.peak_counted_bytes, c.windows
    FROM internal.link_share_hours h
    CROSS JOIN LATERAL internal.packed_shares(h.minutes, h.shares, cardinality(h.contributors)) c
    WHERE h.time >= date_bin('1 hour', since, TIMESTAMPTZ '2000-01-01 00:00:00+00') AND h.time <= until AND (of_job IS NULL OR h.job_ids @> ARRAY[of_job])
      AND h.time < (SELECT s.hours_until FROM internal.link_share_state s)
      AND (of_job IS NULL OR h.job_ids[c.who] = of_job)
      AND h.time + c.minute * INTERVAL '1 minute' >= since AND h.time + c.minute * INTERVAL '1 minute' <= until;
END;
COMMENT ON FUNCTION public.link_minute_shares IS
    'Shares of links by the minute from since to until, as link_share_minutes has them: rows, and hours that are in link_share_hours. Condition port_id, or name a job, so that no other hours are unpacked.';
