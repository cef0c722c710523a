CREATE OR REPLACE FUNCTION internal.job_rank_times(job bigint, until timestamptz, nodes bigint[], times timestamptz[])
RETURNS TABLE (rank integer, observed_seconds double precision, open_seconds double precision)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH at AS MATERIALIZED (
        SELECT * FROM unnest(job_rank_times.nodes, job_rank_times.times) a (node_id, time)
    ), ranks AS MATERIALIZED (
        SELECT r.rank, r.node_id, r.start_time, r.end_time,
               CASE WHEN a.node_id IS NULL THEN job_rank_times.until ELSE a.time END AS time
        FROM internal.job_rank r LEFT JOIN at a ON a.node_id = r.node_id WHERE r.job_id = job_rank_times.job
    )
    SELECT r.rank, sum(greatest(extract(epoch FROM least(r.end_time, r.time) - r.start_time), 0))::double precision,
           sum(o.seconds)
    FROM ranks r
    CROSS JOIN LATERAL (
        -- Of one that has returned it is known that it went on then if the report of its end came a second later: ranks report each second.
        SELECT sum(greatest(extract(epoch FROM
                   least(r.time, CASE WHEN r.end_time IS NOT NULL THEN c.reported_at END) - c.start_time), 0))::double precision AS seconds
        FROM internal.mpi_open_call c
        WHERE c.job_id = job_rank_times.job AND c.rank = r.rank AND NOT c.is_counted AND c.epoch = r.start_time AND c.node_id IS NOT DISTINCT FROM r.node_id
          AND (NOT c.has_returned AND c.reported_at > coalesce(r.end_time, now()) - internal.default_gap()
               OR c.has_returned AND c.reported_at >= r.time + INTERVAL '1 second')) o
    WHERE r.time > r.start_time
    GROUP BY r.rank;
END;
COMMENT ON FUNCTION internal.job_rank_times IS
    'How long each rank of a job was observed as of a time, nodes with another time as of that; and how long it was then in calls that had not returned.';
