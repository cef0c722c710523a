//! Records of MPI that arrive so late that their job's final totals may be packed (`crate::finals`): noted in the transaction that writes
//! them, so that upkeep packs the job again.

use std::collections::BTreeSet;

use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::{WriteError, failed};
use crate::finals::SETTLED;

/// Notes the jobs of these batches that have ended and that late records are of; `now` is nanoseconds since 1970. Of a job that runs all is
/// packed when it has ended.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    keys: &Keys,
    now: i64,
) -> Result<(), WriteError> {
    let jobs = late_jobs(batches, keys, now - i64::try_from(SETTLED.as_nanos()).unwrap_or(i64::MAX));
    if jobs.is_empty() {
        return Ok(());
    }
    // Another note is changed, not left alone: who packs the job at this moment then fails, and tries again.
    let insert = "INSERT INTO internal.job_final_wanted AS w (job_id)
                  SELECT j.id FROM internal.run j WHERE j.id = ANY ($1) AND j.end_time IS NOT NULL ORDER BY j.id
                  ON CONFLICT (job_id) DO UPDATE SET noted_at = now()";
    let jobs: Vec<i64> = jobs.into_iter().collect();
    transaction
        .query_typed(insert, &[(&jobs, Type::INT8_ARRAY)])
        .await
        .map_err(failed("noting jobs of late records"))?;
    Ok(())
}

/// Jobs with a record of this time or earlier that is packed.
fn late_jobs(batches: &[&Batch], keys: &Keys, until: i64) -> BTreeSet<i64> {
    let of_batch = |batch: &&Batch| {
        let bins =
            batch.mpi_rank_rows.iter().chain(&batch.mpi_ops).map(|bin| (bin.time, bin.job_key.clone()));
        let peers = batch.mpi_peers.iter().map(|peers| (peers.time, peers.job_key.clone()));
        let regions = batch.mpi_regions.iter().map(|regions| (regions.time, regions.job_key.clone()));
        let ended = batch.job_ranks.iter().filter(|rank| rank.end != 0);
        let ranks = ended.map(|rank| (rank.end, rank.job_key.clone()));
        let late = bins.chain(peers).chain(regions).chain(ranks).filter(|(time, _)| *time <= until);
        late.filter_map(|(_, key)| keys.job(&key).ok()).collect::<Vec<i64>>()
    };
    batches.iter().flat_map(of_batch).collect()
}
