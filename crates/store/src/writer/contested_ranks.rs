//! Ranks that two nodes say they run: both claims are marked when the second one is written, and count in nothing until `contests` has
//! settled which one is true.

use serde_json::Value;
use tokio_postgres::Transaction;

use super::{WriteError, failed};

/// Of ranks that were reported ($1) those that another node may be against: one of the same number, or one beyond the other's world. Mostly none.
const SUSPECT_RANKS: &str = "
WITH reported AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, start_time timestamptz, world_size integer)
), worlds AS MATERIALIZED (
    SELECT c.job_id, min(c.world_size) AS size FROM internal.run_claim c
    WHERE c.job_id IN (SELECT job_id FROM reported) AND c.has_ranks AND NOT c.is_excluded GROUP BY c.job_id
)
SELECT jsonb_agg(to_jsonb(s)) FROM reported s LEFT JOIN worlds w USING (job_id)
WHERE s.rank >= w.size
   OR EXISTS (SELECT FROM internal.rank_claim o WHERE o.job_id = s.job_id AND o.rank = s.rank AND o.node_id <> s.node_id)
   OR EXISTS (SELECT FROM internal.rank_claim o WHERE o.job_id = s.job_id AND o.rank >= s.world_size AND o.node_id <> s.node_id)";

/// Marks claims of ranks ($1) that others' claims are against. A node whose claims were overruled within the hour does not make those of
/// others contested any more. OFFSET keeps the planner from making the view of all claims first.
const CONTEST_RANKS: &str = "
WITH pairs AS (
    SELECT c.job_id, c.rank, c.node_id, c.start_time, c.other_node_id
    FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, start_time timestamptz, world_size integer)
    CROSS JOIN LATERAL (
        SELECT * FROM internal.rank_contests c
        WHERE c.job_id = s.job_id AND c.rank = s.rank AND c.node_id = s.node_id AND c.start_time = s.start_time OFFSET 0) c
    WHERE c.contest IS NULL
    UNION
    -- Claims of others that the world of this one does not have, in either order: once for each node, however many ranks it reports.
    SELECT r.job_id, r.rank, r.node_id, r.start_time, w.node_id
    FROM (SELECT job_id, node_id, min(world_size) AS size
          FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, world_size integer) GROUP BY 1, 2) w
    JOIN internal.run_claim d ON d.job_id = w.job_id AND d.node_id = w.node_id AND d.has_ranks AND NOT d.is_excluded
    JOIN internal.rank_claim r ON r.job_id = w.job_id AND r.rank >= w.size AND r.node_id <> w.node_id AND r.contest IS NULL
    WHERE r.rank >= d.world_size AND d.reported_at >= r.start_time AND d.first_seen <= coalesce(r.end_time, now())
), losers AS (
    SELECT DISTINCT x.node_id FROM internal.rank_claim x
    WHERE x.contest = 'overruled' AND coalesce(x.end_time, now()) > now() - INTERVAL '1 hour'
      AND x.node_id IN (SELECT node_id FROM pairs UNION SELECT other_node_id FROM pairs)
), judged AS (
    SELECT p.*, n.node_id IS NOT NULL AND o.node_id IS NULL AS loses, n.node_id IS NULL AND o.node_id IS NOT NULL AS wins
    FROM pairs p LEFT JOIN losers n ON n.node_id = p.node_id LEFT JOIN losers o ON o.node_id = p.other_node_id
), others AS (
    SELECT DISTINCT job_id, rank, other_node_id, wins FROM judged WHERE NOT loses
), known AS (
    -- Of ranks that their node begins again while its claim to them is contested.
    SELECT r.job_id, r.rank, r.node_id, max(r.contest) AS contest
    FROM (SELECT DISTINCT job_id, rank, node_id FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint)) s
    JOIN internal.rank_claim r USING (job_id, rank, node_id)
    WHERE r.contest IN ('contested', 'overruled') GROUP BY 1, 2, 3
), marks AS (
    SELECT job_id, rank, node_id, start_time, CASE WHEN loses THEN 'overruled' ELSE 'contested' END AS contest FROM judged WHERE NOT wins
    UNION ALL
    SELECT j.job_id, j.rank, j.other_node_id, r.start_time, CASE WHEN j.wins THEN 'overruled' ELSE 'contested' END
    FROM others j JOIN internal.rank_claim r ON r.job_id = j.job_id AND r.rank = j.rank AND r.node_id = j.other_node_id
    WHERE coalesce(r.contest, 'contested') = 'contested'
    UNION ALL
    SELECT k.job_id, k.rank, k.node_id, s.start_time, k.contest
    FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, start_time timestamptz) JOIN known k USING (job_id, rank, node_id)
)
UPDATE internal.rank_claim r SET contest = m.contest
FROM (SELECT job_id, rank, node_id, start_time, max(contest) AS contest FROM marks GROUP BY 1, 2, 3, 4) m
WHERE r.job_id = m.job_id AND r.rank = m.rank AND r.node_id = m.node_id AND r.start_time = m.start_time
  AND r.contest IS DISTINCT FROM m.contest AND r.contest IS DISTINCT FROM 'barred'";

/// Marks the claims of these ranks (rows of `rank_claim`) that others' claims are against. Planning takes longer than all else of it, so
/// that it is looked first whether there are any.
pub(super) async fn mark(
    transaction: &Transaction<'_>,
    ranks: impl Iterator<Item = &Value>,
) -> Result<(), WriteError> {
    let ranks: Vec<Value> = ranks.cloned().collect();
    if ranks.is_empty() {
        return Ok(());
    }
    let what = "inventory: contested ranks";
    let suspects =
        transaction.query_one(SUSPECT_RANKS, &[&Value::Array(ranks)]).await.map_err(failed(what))?;
    if let Some(suspects) = suspects.get::<_, Option<Value>>(0) {
        transaction.execute(CONTEST_RANKS, &[&suspects]).await.map_err(failed(what))?;
    }
    Ok(())
}
