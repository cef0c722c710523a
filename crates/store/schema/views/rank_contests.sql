CREATE OR REPLACE VIEW internal.rank_contests AS
SELECT a.job_id, a.rank, a.node_id, a.start_time, a.end_time, a.contest, b.node_id AS other_node_id
FROM internal.rank_claim a
-- Not b.node_id <> a.node_id, and no more than 64: a node that began the rank a thousand times would be compared with another such one
-- a million times. Where there are as many, their times decide nothing.
CROSS JOIN LATERAL (
    SELECT node_id, start_time, end_time, count(*) OVER () = 64 AS are_many FROM (
        SELECT * FROM internal.rank_claim b WHERE b.job_id = a.job_id AND b.rank = a.rank AND b.node_id < a.node_id
            AND coalesce(b.contest, 'contested') = 'contested' LIMIT 64) b
    UNION ALL
    SELECT node_id, start_time, end_time, count(*) OVER () = 64 AS are_many FROM (
        SELECT * FROM internal.rank_claim b WHERE b.job_id = a.job_id AND b.rank = a.rank AND b.node_id > a.node_id
            AND coalesce(b.contest, 'contested') = 'contested' LIMIT 64) b) b
LEFT JOIN internal.run_claim c ON c.job_id = a.job_id AND c.node_id = a.node_id
LEFT JOIN internal.run_claim d ON d.job_id = a.job_id AND d.node_id = b.node_id
-- A node that says nothing any more ran its ranks until it last did.
WHERE b.are_many OR internal.claims_overlap(
    a.start_time, coalesce(a.end_time, CASE WHEN c.reported_at < now() - internal.minutely_gap() THEN greatest(c.last_seen, a.start_time) END),
    b.start_time, coalesce(b.end_time, CASE WHEN d.reported_at < now() - internal.minutely_gap() THEN greatest(d.last_seen, b.start_time) END))
UNION ALL
-- A rank beyond the world that another node reports.
SELECT a.job_id, a.rank, a.node_id, a.start_time, a.end_time, a.contest, d.node_id
FROM internal.rank_claim a
JOIN internal.run_claim d ON d.job_id = a.job_id AND d.node_id <> a.node_id AND d.has_ranks AND NOT d.is_excluded AND d.world_size <= a.rank AND d.reported_at >= a.start_time
    AND d.first_seen <= coalesce(a.end_time, now());
COMMENT ON VIEW internal.rank_contests IS
    'Claims of ranks that another node''s claim is against, which is not overruled itself: the same rank at the same time, or a rank that its world does not have.';
