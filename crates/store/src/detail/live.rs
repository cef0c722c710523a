//! The live request of a job: while somebody looks at it, each of its nodes makes a row of its sums each second, and some of its ranks
//! have rows as well.
//!
//! One request a job serves all who look: it is renewed as it comes to its end, and expires by itself.

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, Transaction};

use super::{DetailLimits, DetailRefusal, add_nodes, lock};
use crate::error::Error;
use crate::sql_time::moment;

/// Rows of a job that somebody looked at are made for so long.
pub const LIVE_SECONDS: u64 = 20;

/// A request is renewed by who looks once less than this is left of it: who looks every few seconds keeps it up, and a hundred of them
/// renew it once.
const RENEWED: Duration = Duration::from_secs(12);

/// Seconds between rows.
const RESOLUTION: f64 = 1.0;

/// Ranks of a job that have rows of their own: those that differ most from the others, or all.
const RANKS_MAX: i64 = 64;

/// Nodes of a job at a time all of whose ranks have.
const NODES_MAX: i64 = 4;

/// Time back from now in which nodes have reported which of their ranks spent the least and the most time in their operations.
const REPORTED_MS: i64 = 120_000;

/// The live request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRequest {
    /// Its number.
    pub id: i64,
    /// Whether it is to be renewed.
    pub is_due: bool,
}

/// The live request that a job has; with `node` the one that has all ranks of this node.
///
/// # Errors
/// The database's.
pub async fn live_request(
    client: &Client,
    job: i64,
    node: Option<i64>,
) -> Result<Option<LiveRequest>, Error> {
    const SQL: &str = "
        SELECT r.id, least(r.expires_at, n.ranks_until) < now() + make_interval(secs => $3)
        FROM internal.detail_request r LEFT JOIN internal.detail_request_node n ON n.request_id = r.id AND n.node_id = $2
        WHERE r.job_id = $1 AND r.reason = 'live' AND r.expires_at > now() AND ($2::bigint IS NULL OR n.ranks_until > now())
        ORDER BY r.id DESC LIMIT 1";
    let row = client.query_opt(SQL, &[&job, &node, &RENEWED.as_secs_f64()]).await;
    let row = row.map_err(Error::sql("looking for the live request of a job"))?;
    Ok(row.map(|row| LiveRequest { id: row.get(0), is_due: row.get(1) }))
}

/// Makes or renews the live request of a job that runs, if it is within the quotas; with `node` all ranks of this node have rows.
/// Returns its number.
///
/// # Errors
/// The database's.
pub async fn lift_job(
    client: &mut Client,
    job: i64,
    requested_by: &str,
    limits: &DetailLimits,
    node: Option<i64>,
) -> Result<Result<i64, DetailRefusal>, Error> {
    let what = "showing a job live";
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    lock(&transaction).await?;
    let seconds = LIVE_SECONDS as f64;
    let nodes = running_nodes(&transaction, job).await?;
    let ranks = shown_ranks(&transaction, job, &nodes).await?;
    let renew = "UPDATE internal.detail_request SET ranks = $3, expires_at = now() + make_interval(secs => $2), \
                    until = now() + make_interval(secs => $2) \
                 WHERE id = (SELECT id FROM internal.detail_request WHERE job_id = $1 AND reason = 'live' AND expires_at > now() \
                             ORDER BY id DESC LIMIT 1) RETURNING id";
    let renewed = transaction.query_opt(renew, &[&job, &seconds, &ranks]).await.map_err(Error::sql(what))?;
    let id = match renewed {
        Some(row) => row.get(0),
        None => {
            if let Err(refusal) = limits.check_live(&transaction, nodes.len()).await? {
                return Ok(Err(refusal));
            }
            let insert = "INSERT INTO internal.detail_request (requested_by, reason, job_id, since, until, resolution_seconds, records_max, \
                          expires_at, ranks) VALUES ($1, 'live', $2, now(), now() + make_interval(secs => $3), $4, 0, \
                          now() + make_interval(secs => $3), $5) RETURNING id";
            let row =
                transaction.query_one(insert, &[&requested_by, &job, &seconds, &RESOLUTION, &ranks]).await;
            row.map_err(Error::sql(what))?.get(0)
        }
    };
    // Ranks may have begun on further nodes, and ended on others.
    add_nodes(&transaction, id, &nodes).await?;
    let changed = "UPDATE internal.detail_request_node \
                   SET state = CASE WHEN node_id = ANY($2) THEN 'waiting' ELSE 'done' END, \
                       done_at = CASE WHEN node_id = ANY($2) THEN NULL ELSE now() END \
                   WHERE request_id = $1 AND (state = 'done') = (node_id = ANY($2))";
    transaction.execute(changed, &[&id, &nodes]).await.map_err(Error::sql(what))?;
    if let Some(node) = node
        && let Err(refusal) = show_ranks(&transaction, id, node, seconds).await?
    {
        return Ok(Err(refusal));
    }
    transaction.commit().await.map_err(Error::sql(what))?;
    Ok(Ok(id))
}

/// Nodes on which ranks of a job run.
async fn running_nodes(transaction: &Transaction<'_>, job: i64) -> Result<Vec<i64>, Error> {
    const SQL: &str = "
        SELECT DISTINCT node_id FROM internal.rank_claim
        WHERE job_id = $1 AND end_time IS NULL AND contest IS NULL AND node_id IS NOT NULL ORDER BY 1";
    let rows = transaction.query(SQL, &[&job]).await;
    let rows = rows.map_err(Error::sql("looking for the nodes of a job that runs"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Ranks that differ most from the others: by the time in an operation that the nodes reported of their ranks with the least and the
/// most, against the mean of these over all nodes. Of a job with few ranks all.
async fn shown_ranks(transaction: &Transaction<'_>, job: i64, nodes: &[i64]) -> Result<Vec<i32>, Error> {
    let what = "looking for ranks that differ";
    let all = "SELECT DISTINCT rank FROM internal.rank_claim WHERE job_id = $1 AND end_time IS NULL AND contest IS NULL \
               AND (SELECT count(*) FROM (SELECT FROM internal.rank_claim WHERE job_id = $1 AND end_time IS NULL LIMIT $2::bigint + 1) c) <= $2::bigint";
    let all = transaction.query(all, &[&job, &RANKS_MAX]).await.map_err(Error::sql(what))?;
    if !all.is_empty() {
        return Ok(all.iter().map(|row| row.get(0)).collect());
    }
    let row = transaction.query_one("SELECT now()", &[]).await.map_err(Error::sql(what))?;
    let now: SystemTime = row.get(0);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let from = moment(i64::try_from(now).unwrap_or(0) - REPORTED_MS);
    let differing = format!(
        "WITH inside AS (
             SELECT p.cell_id, x.rank, x.nanoseconds
             FROM unnest($2::bigint[]) n (node_id)
             CROSS JOIN LATERAL (
                 SELECT m.cells, m.rounds FROM internal.mpi_node_rows m
                 WHERE m.job_id = $1 AND m.node_id = n.node_id AND m.time > {from}
                 ORDER BY m.epoch DESC, m.time DESC LIMIT 1) line
             CROSS JOIN LATERAL internal.mpi_packed_cells(line.cells) p
             CROSS JOIN LATERAL internal.mpi_packed_round(line.rounds, p.number) r
             CROSS JOIN LATERAL (VALUES (r.least_rank, r.least_rank_nanoseconds), (r.most_rank, r.most_rank_nanoseconds))
                 x (rank, nanoseconds)
             WHERE r.ranks > 0)
         SELECT rank FROM (SELECT rank, abs(nanoseconds - avg(nanoseconds) OVER (PARTITION BY cell_id)) AS distance FROM inside) d
         GROUP BY rank ORDER BY max(distance) DESC, rank LIMIT $3"
    );
    let rows = transaction.query(&differing, &[&job, &nodes, &RANKS_MAX]).await;
    Ok(rows.map_err(Error::sql(what))?.iter().map(|row| row.get(0)).collect())
}

/// All ranks of a node have rows for as long as the request holds.
async fn show_ranks(
    transaction: &Transaction<'_>,
    id: i64,
    node: i64,
    seconds: f64,
) -> Result<Result<(), DetailRefusal>, Error> {
    let what = "showing the ranks of a node live";
    let count = "SELECT count(*) FROM internal.detail_request_node WHERE request_id = $1 AND node_id <> $2 AND ranks_until > now()";
    let others: i64 = transaction.query_one(count, &[&id, &node]).await.map_err(Error::sql(what))?.get(0);
    if others >= NODES_MAX {
        return Ok(Err(DetailRefusal {
            reason: "live",
            message: format!("the ranks of {others} nodes of this job are shown live, the most at a time"),
            remedy: "leave the node out, or try again in half a minute".to_owned(),
            limit: None,
        }));
    }
    let show = "UPDATE internal.detail_request_node SET ranks_until = now() + make_interval(secs => $3) \
                WHERE request_id = $1 AND node_id = $2";
    let shown = transaction.execute(show, &[&id, &node, &seconds]).await.map_err(Error::sql(what))?;
    if shown == 0 {
        return Ok(Err(DetailRefusal {
            reason: "unknown",
            message: "no rank of this job runs on the node".to_owned(),
            remedy: "name one of its hosts".to_owned(),
            limit: None,
        }));
    }
    Ok(Ok(()))
}
