//! What the kernel counted of ranks: the first reading of each, the newest one and the one before it. Readings of several
//! batches may be of one rank; one that comes late is none. Of clocks the mean is kept, as a sum and a count.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;

use super::WriteError;
use super::keys::{Keys, small};
use super::versioned::execute;

/// The readings of some batches, by job, rank, epoch and time.
#[derive(Default)]
pub(super) struct SchedulingReadings(BTreeMap<(i64, i32, i64, i64), Value>);

impl SchedulingReadings {
    /// Adds a batch's readings.
    pub fn add(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for reading in &batch.mpi_scheduling {
            let (job, rank) = (keys.job(&reading.job_key)?, small(reading.rank, "rank")?);
            let row = json!({
                "job_id": job, "rank": rank, "epoch": to_rfc3339(reading.epoch), "time": to_rfc3339(reading.time),
                "cpu": reading.cpu_nanoseconds, "wait": reading.runqueue_wait_nanoseconds,
                "switches": reading.involuntary_switches, "hertz": reading.cpu_hertz,
                "elapsed": reading.elapsed_nanoseconds, "mpi": reading.mpi_nanoseconds,
                "off_outside": reading.off_outside_nanoseconds, "queued_outside": reading.queued_outside_nanoseconds,
                "off_inside": reading.off_inside_nanoseconds, "queued_inside": reading.queued_inside_nanoseconds,
                "file": reading.file_samples, "sleep": reading.sleep_samples, "lock": reading.lock_samples,
                "stopped": reading.stopped_samples, "other": reading.other_samples, "is_stopped": reading.is_stopped,
                "throttled": reading.throttled_nanoseconds,
            });
            self.0.insert((job, rank, reading.epoch, reading.time), row);
        }
        Ok(())
    }

    /// Brings the table up to date.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        execute(transaction, "scheduling of ranks", UPSERT_READINGS, self.0).await
    }
}

const UPSERT_READINGS: &str = "
INSERT INTO internal.mpi_rank_scheduling AS r (job_id, rank, epoch, first_time, first_cpu_nanoseconds,
    first_runqueue_wait_nanoseconds, first_involuntary_switches, time, cpu_nanoseconds, runqueue_wait_nanoseconds,
    involuntary_switches, before_time, before_cpu_nanoseconds, cpu_hertz_sum, cpu_hertz_readings, elapsed_nanoseconds, mpi_nanoseconds,
    off_outside_nanoseconds, queued_outside_nanoseconds, off_inside_nanoseconds, queued_inside_nanoseconds, file_samples, sleep_samples,
    lock_samples, stopped_samples, other_samples, stopped_since, throttled_nanoseconds)
SELECT job_id, rank, epoch, times[1], cpus[1], waits[1], switches[1], times[n], cpus[n], waits[n], switches[n],
    times[n - 1], cpus[n - 1], hertz, hertz_readings, (newest->>'elapsed')::bigint, (newest->>'mpi')::bigint,
    (newest->>'off_outside')::bigint, (newest->>'queued_outside')::bigint, (newest->>'off_inside')::bigint,
    (newest->>'queued_inside')::bigint, (newest->>'file')::integer, (newest->>'sleep')::integer, (newest->>'lock')::integer,
    (newest->>'stopped')::integer, (newest->>'other')::integer, CASE WHEN (newest->>'is_stopped')::boolean THEN times[n] END,
    (newest->>'throttled')::bigint
FROM (
    SELECT job_id, rank, epoch, array_agg(time ORDER BY time) AS times, array_agg(cpu ORDER BY time) AS cpus,
        array_agg(wait ORDER BY time) AS waits, array_agg(switches ORDER BY time) AS switches, count(*)::integer AS n,
        sum(hertz)::float8 AS hertz, count(hertz)::integer AS hertz_readings, (array_agg(e ORDER BY time DESC))[1] AS newest
    FROM jsonb_array_elements($1) AS e, jsonb_to_record(e) AS s(job_id bigint, rank integer, epoch timestamptz, time timestamptz,
        cpu bigint, wait bigint, switches bigint, hertz bigint)
    GROUP BY job_id, rank, epoch
) s
ORDER BY job_id, rank, epoch
ON CONFLICT (job_id, rank, epoch) DO UPDATE SET time = excluded.time, cpu_nanoseconds = excluded.cpu_nanoseconds,
    runqueue_wait_nanoseconds = excluded.runqueue_wait_nanoseconds,
    involuntary_switches = excluded.involuntary_switches,
    before_time = coalesce(excluded.before_time, r.time),
    before_cpu_nanoseconds = CASE WHEN excluded.before_time IS NULL THEN r.cpu_nanoseconds
        ELSE excluded.before_cpu_nanoseconds END,
    cpu_hertz_sum = coalesce(r.cpu_hertz_sum + excluded.cpu_hertz_sum, excluded.cpu_hertz_sum, r.cpu_hertz_sum),
    cpu_hertz_readings = r.cpu_hertz_readings + excluded.cpu_hertz_readings,
    elapsed_nanoseconds = coalesce(excluded.elapsed_nanoseconds, r.elapsed_nanoseconds),
    mpi_nanoseconds = coalesce(excluded.mpi_nanoseconds, r.mpi_nanoseconds),
    off_outside_nanoseconds = coalesce(excluded.off_outside_nanoseconds, r.off_outside_nanoseconds),
    queued_outside_nanoseconds = coalesce(excluded.queued_outside_nanoseconds, r.queued_outside_nanoseconds),
    off_inside_nanoseconds = coalesce(excluded.off_inside_nanoseconds, r.off_inside_nanoseconds),
    queued_inside_nanoseconds = coalesce(excluded.queued_inside_nanoseconds, r.queued_inside_nanoseconds),
    file_samples = greatest(excluded.file_samples, r.file_samples),
    sleep_samples = greatest(excluded.sleep_samples, r.sleep_samples),
    lock_samples = greatest(excluded.lock_samples, r.lock_samples),
    stopped_samples = greatest(excluded.stopped_samples, r.stopped_samples),
    other_samples = greatest(excluded.other_samples, r.other_samples),
    stopped_since = CASE WHEN excluded.stopped_since IS NOT NULL THEN coalesce(r.stopped_since, excluded.stopped_since) END,
    throttled_nanoseconds = coalesce(excluded.throttled_nanoseconds, r.throttled_nanoseconds)
WHERE r.time < excluded.time";
