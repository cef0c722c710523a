CREATE OR REPLACE FUNCTION link_minute_shares(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id integer, contributor text, job_id bigint, operation text, name text, bytes bigint,
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
    SELECT h.time + h.minutes[c.at] * INTERVAL '1 minute', h.port_id, h.contributors[c.who], h.job_ids[c.who],
           h.operations[c.who], h.names[c.who], c.bytes, c.low::bigint, c.high::bigint, h.kinds[c.who], h.are_bounds[c.who],
           CASE WHEN h.are_counted[c.at] THEN c.counted END, h.peak_counted_bytes[c.at]::bigint, h.windows[c.at]
    FROM link_share_hours h
    CROSS JOIN LATERAL (
        SELECT u.at, ((u.number - 1) % cardinality(h.contributors) + 1)::integer AS who, u.bytes::bigint AS bytes, u.low, u.high,
               (sum(u.bytes::bigint) OVER (PARTITION BY u.at))::bigint AS counted
        FROM (SELECT ((e.number - 1) / cardinality(h.contributors) + 1)::integer AS at, e.*
              FROM unnest(h.bytes, h.low_bytes, h.high_bytes) WITH ORDINALITY AS e (bytes, low, high, number)) u
        WHERE u.bytes IS NOT NULL
    ) c
    WHERE h.time > since - INTERVAL '1 hour' AND h.time <= until AND (of_job IS NULL OR h.job_ids @> ARRAY[of_job])
      AND h.time < (SELECT s.hours_until FROM link_share_state s)
      AND (of_job IS NULL OR h.job_ids[c.who] = of_job)
      AND h.time + h.minutes[c.at] * INTERVAL '1 minute' >= since AND h.time + h.minutes[c.at] * INTERVAL '1 minute' <= until
$$;
COMMENT ON FUNCTION link_minute_shares IS
    'Shares of links by the minute from since to until, as link_share_minutes has them: rows, and hours that are in link_share_hours. Condition port_id, or name a job, so that no other hours are unpacked.';
