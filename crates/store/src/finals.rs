//! Final totals: what stays of a job that has ended, for as long as the job is known. Rows of its time go after a week; before, each rank's
//! totals, what its claim said, and the traffic between nodes are packed into `job_final` and `job_node_final`. Readers take these once
//! rows may be gone (`job_rows_gone`). It must be called before old chunks are dropped.
//!
//! A job is packed once nothing was stored of it for a while, and again when a late record came: writers note it in `job_final_wanted` in
//! the transaction that stores the record (`writer::late_jobs`).

mod account;
mod encode;
mod expiry;
mod read;

pub use expiry::{ExpiredJobs, expire_jobs, release_claims};

use std::time::{Duration, Instant};

use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::error::Error;
use encode::NodeFinal;
use read::JobTotals;

const WHAT: &str = "packing the final totals of jobs";

/// A job's records are settled when none was stored for so long after its end.
pub(crate) const SETTLED: Duration = Duration::from_secs(600);

/// SQLSTATE of a transaction that another one was faster than.
const SERIALIZATION_FAILURE: &str = "40001";

/// Jobs that are looked for at a time.
const JOBS: i64 = 200;

/// What a call of [`pack_totals`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TotalsPacked {
    /// Jobs that were packed.
    pub jobs: u64,
    /// Whether more wait.
    pub is_behind: bool,
}

/// Jobs that have ended and are not packed, or otherwise than they ended, or that late records came for: $1 are seconds, $2 the limit.
const DUE: &str = "
SELECT j.id FROM internal.run j
LEFT JOIN internal.job_final f ON f.job_id = j.id
WHERE j.end_time < (SELECT internal.upkeep_time()) - make_interval(secs => $1)
  AND (f.ended_at IS DISTINCT FROM j.end_time OR EXISTS (SELECT FROM internal.job_final_wanted w WHERE w.job_id = j.id))
  AND NOT EXISTS (SELECT FROM internal.run_claim c
      WHERE c.job_id = j.id AND c.reported_at > now() - make_interval(secs => $1) AND c.reported_at <= now())
ORDER BY j.end_time, j.id LIMIT $2";

/// Packs the final totals of jobs that wait for it, the first that ended first, for about so long.
///
/// # Errors
/// The database's.
pub async fn pack_totals(client: &mut Client, patience: Duration) -> Result<TotalsPacked, Error> {
    let until = Instant::now() + patience;
    let mut done = TotalsPacked::default();
    let rows = client.query(DUE, &[&SETTLED.as_secs_f64(), &JOBS]).await.map_err(Error::sql(WHAT))?;
    done.is_behind = i64::try_from(rows.len()).is_ok_and(|jobs| jobs >= JOBS);
    for row in rows {
        if Instant::now() >= until {
            done.is_behind = true;
            break;
        }
        match pack(client, row.get(0)).await {
            Ok(()) => done.jobs += 1,
            // A late record came at this moment.
            Err(error) if error.state() == SERIALIZATION_FAILURE => done.is_behind = true,
            Err(error) => return Err(error),
        }
    }
    // Notes of jobs that are no more, or run again: they are packed when they end.
    let forget = "DELETE FROM internal.job_final_wanted w
                  WHERE NOT EXISTS (SELECT FROM internal.run j WHERE j.id = w.job_id AND j.end_time IS NOT NULL)";
    client.execute(forget, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(done)
}

/// Packs one job, of one snapshot.
async fn pack(client: &mut Client, job: i64) -> Result<(), Error> {
    let transaction =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await;
    let transaction = transaction.map_err(Error::sql(WHAT))?;
    let take = "DELETE FROM internal.job_final_wanted WHERE job_id = $1";
    transaction.execute(take, &[&job]).await.map_err(Error::sql(WHAT))?;
    if let Some(totals) = read::totals(&transaction, job).await? {
        write(&transaction, job, &totals).await?;
    }
    transaction.commit().await.map_err(Error::sql(WHAT))
}

async fn write(transaction: &Transaction<'_>, job: i64, totals: &JobTotals) -> Result<(), Error> {
    let nodes = encode::nodes(totals);
    let (operations, cells, unit) = encode::cells(&totals.cells);
    let (kinds, pairs) = encode::pairs(&totals.pairs, &nodes);
    let sums = &totals.sums;
    let insert = "
        INSERT INTO internal.job_final AS f (job_id, began_at, ended_at, world_size, ranks, rank_starts, nodes, lost, unseen, silent,
            libraries, operations, cells, unit_nanoseconds, regions, paths, traffic, pair_kinds, pairs)
        SELECT j.id, coalesce($2, j.start_time, j.first_seen), j.end_time, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
            $17, $18
        FROM internal.run j WHERE j.id = $1 AND j.end_time IS NOT NULL
        ON CONFLICT (job_id) DO UPDATE SET packed_at = now(), began_at = excluded.began_at, ended_at = excluded.ended_at,
            world_size = excluded.world_size, ranks = excluded.ranks, rank_starts = excluded.rank_starts, nodes = excluded.nodes,
            lost = excluded.lost, unseen = excluded.unseen, silent = excluded.silent, libraries = excluded.libraries,
            operations = excluded.operations, cells = excluded.cells, unit_nanoseconds = excluded.unit_nanoseconds,
            regions = excluded.regions, paths = excluded.paths, traffic = excluded.traffic, pair_kinds = excluded.pair_kinds,
            pairs = excluded.pairs";
    let written = transaction
        .execute(
            insert,
            &[
                &job,
                &totals.began(),
                &totals.world_size(),
                &sums.ranks,
                &sums.starts,
                &sums.nodes,
                &sums.lost,
                &sums.unseen,
                &sums.silent,
                &totals.libraries,
                &operations,
                &cells,
                &unit,
                &totals.regions,
                &totals.paths,
                &totals.traffic,
                &kinds,
                &pairs,
            ],
        )
        .await
        .map_err(Error::sql(WHAT))?;
    let remove = "DELETE FROM internal.job_node_final WHERE job_id = $1";
    transaction.execute(remove, &[&job]).await.map_err(Error::sql(WHAT))?;
    if written == 0 {
        return Ok(());
    }
    for node in &nodes {
        write_node(transaction, job, node).await?;
    }
    Ok(())
}

async fn write_node(transaction: &Transaction<'_>, job: i64, node: &NodeFinal) -> Result<(), Error> {
    let insert = "
        INSERT INTO internal.job_node_final (job_id, place, node_id, host, began_at, ended_at, operations, texts, ranks, places, totals,
            rank_count, account)
        VALUES ($1, $2, $3, $4, internal.packed_time($5), internal.packed_time($6), $7, $8, $9, $10, $11, $12, $13)";
    let statement = transaction.prepare(insert).await.map_err(Error::sql(WHAT))?;
    transaction
        .execute(
            &statement,
            &[
                &job,
                &node.place,
                &node.node_id,
                &node.host,
                &node.began,
                &node.ended,
                &node.operations,
                &node.texts,
                &node.ranks,
                &node.places,
                &node.totals,
                &node.rank_count,
                &node.account,
            ],
        )
        .await
        .map_err(Error::sql(WHAT))?;
    Ok(())
}
