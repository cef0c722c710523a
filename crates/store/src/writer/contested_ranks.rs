//! Ranks that two nodes say they run: both claims are marked when the second one is written, and count in nothing until `contests` has
//! settled which one is true.

/// Marks claims of ranks ($1) that others' claims are against. A node whose claims were overruled within the hour does not make those of
/// others contested any more.
pub(super) const CONTEST_RANKS: &str = "
WITH reported AS (
    SELECT * FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, start_time timestamptz)
), worlds AS MATERIALIZED (
    SELECT c.job_id, min(c.world_size) AS size FROM internal.run_claim c
    WHERE c.job_id IN (SELECT job_id FROM reported) AND c.has_ranks AND NOT c.is_excluded GROUP BY c.job_id
), suspects AS MATERIALIZED (
    SELECT s.* FROM reported s LEFT JOIN worlds w USING (job_id)
    WHERE s.rank >= w.size
       OR EXISTS (SELECT FROM internal.rank_claim o WHERE o.job_id = s.job_id AND o.rank = s.rank AND o.node_id <> s.node_id)
), pairs AS (
    SELECT c.job_id, c.rank, c.node_id, c.start_time, c.other_node_id
    FROM suspects s JOIN internal.rank_contests c USING (job_id, rank, node_id, start_time)
    WHERE c.contest IS NULL AND coalesce(c.other_contest, 'contested') = 'contested'
), losers AS (
    SELECT DISTINCT x.node_id FROM internal.rank_claim x
    WHERE x.contest = 'overruled' AND coalesce(x.end_time, now()) > now() - INTERVAL '1 hour'
      AND x.node_id IN (SELECT node_id FROM pairs UNION SELECT other_node_id FROM pairs)
), judged AS (
    SELECT p.*, n.node_id IS NOT NULL AND o.node_id IS NULL AS loses, n.node_id IS NULL AND o.node_id IS NOT NULL AS wins
    FROM pairs p LEFT JOIN losers n ON n.node_id = p.node_id LEFT JOIN losers o ON o.node_id = p.other_node_id
), marks AS (
    SELECT job_id, rank, node_id, start_time, CASE WHEN loses THEN 'overruled' ELSE 'contested' END AS contest FROM judged WHERE NOT wins
    UNION ALL
    SELECT j.job_id, j.rank, j.other_node_id, r.start_time, CASE WHEN j.wins THEN 'overruled' ELSE 'contested' END
    FROM judged j JOIN internal.rank_claim r ON r.job_id = j.job_id AND r.rank = j.rank AND r.node_id = j.other_node_id
    WHERE NOT j.loses AND coalesce(r.contest, 'contested') = 'contested'
)
UPDATE internal.rank_claim r SET contest = m.contest
FROM (SELECT job_id, rank, node_id, start_time, max(contest) AS contest FROM marks GROUP BY 1, 2, 3, 4) m
WHERE r.job_id = m.job_id AND r.rank = m.rank AND r.node_id = m.node_id AND r.start_time = m.start_time
  AND r.contest IS DISTINCT FROM m.contest";
