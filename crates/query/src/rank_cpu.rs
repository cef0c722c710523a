//! What the kernel counted of a job's ranks, on which processors they may run, and where their adapters are.

use throughline_sample::row_rules::MINUTELY;
use throughline_store::Error;
use throughline_verdicts::account::{OffReasons, RankTimes};
use tokio_postgres::{Client, Row};

/// The first reading comes with MPI_Init, when a CPU may still clock up.
const CLOCK_READINGS_MIN: i32 = 2;

/// A rank's processor. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankCpu {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Seconds from the first reading, just after MPI_Init, to the newest one: the time that the three below are of.
    pub seconds: Option<f64>,
    /// Processor time of all its threads.
    pub cpu_seconds: Option<f64>,
    /// Time that its first thread could have run and waited for a processor.
    pub runqueue_wait_seconds: Option<f64>,
    /// How often its first thread was taken off its processor.
    pub involuntary_switches: Option<i64>,
    /// Part of a processor that it used between the two newest readings, a minute; above 1 with several threads. Absent
    /// where these are old: kernel counts come each minute.
    pub recent_cpu_share: Option<f64>,
    /// When it was read last, milliseconds since 1970.
    pub read_ms: Option<i64>,
    /// What its thread did since the end of `MPI_Init` until then; absent where its shim does not report it.
    pub times: Option<RankTimes>,
    /// It is stopped by a signal, for so many seconds.
    pub stopped_seconds: Option<f64>,
    /// Mean clock of the CPUs that it ran on, hertz; absent of fewer than two readings.
    pub cpu_hertz: Option<f64>,
    /// CPUs that it might run on when it connected, as the kernel writes a list.
    pub cpus: Option<String>,
    /// NUMA nodes of these.
    pub numa_nodes: Option<Vec<i32>>,
    /// NUMA nodes of the adapters that it used, or of all adapters of its host where these are not known.
    pub hca_numa_nodes: Option<Vec<i32>>,
}

impl RankCpu {
    /// Whether none of its CPUs is on a NUMA node of one of its adapters.
    #[must_use]
    pub fn is_far_from_adapter(&self) -> Option<bool> {
        let known = |nodes: &Option<Vec<i32>>| nodes.clone().filter(|nodes| !nodes.is_empty());
        let (own, adapters) = known(&self.numa_nodes).zip(known(&self.hca_numa_nodes))?;
        Some(!own.iter().any(|node| adapters.contains(node)))
    }
}

/// Of each rank its last start.
const RANKS: &str = "
    SELECT DISTINCT ON (r.rank) r.rank,
        nullif(extract(epoch FROM s.time - s.first_time), 0)::double precision,
        ((s.cpu_nanoseconds - s.first_cpu_nanoseconds) / 1e9)::double precision,
        ((s.runqueue_wait_nanoseconds - s.first_runqueue_wait_nanoseconds) / 1e9)::double precision,
        s.involuntary_switches - s.first_involuntary_switches,
        CASE WHEN s.before_time < s.time AND s.time > now() - make_interval(secs => $2)
            THEN ((s.cpu_nanoseconds - s.before_cpu_nanoseconds) / 1e9
                / extract(epoch FROM s.time - s.before_time))::double precision END,
        r.cpus, r.numa_nodes, CASE WHEN r.hca_ports = '{}' THEN NULL ELSE r.hca_numa_nodes END,
        CASE WHEN s.cpu_hertz_readings >= $3 THEN s.cpu_hertz_sum / s.cpu_hertz_readings END,
        (extract(epoch FROM s.time) * 1000)::bigint, s.elapsed_nanoseconds, s.mpi_nanoseconds, s.off_outside_nanoseconds,
        s.queued_outside_nanoseconds, s.off_inside_nanoseconds, s.file_samples, s.sleep_samples, s.lock_samples, s.stopped_samples,
        s.other_samples, CASE WHEN r.end_time IS NULL THEN extract(epoch FROM now() - s.stopped_since)::float8 END,
        s.queued_inside_nanoseconds, s.throttled_nanoseconds
    FROM internal.job_rank r
    LEFT JOIN internal.mpi_rank_scheduling s ON s.job_id = r.job_id AND s.rank = r.rank AND s.epoch = r.start_time
    WHERE r.job_id = $1
    ORDER BY r.rank, r.start_time DESC";

/// The ranks of a job, ended ones included, in their order.
///
/// # Errors
/// The database's.
pub async fn rank_cpu(client: &Client, job: i64) -> Result<Vec<RankCpu>, Error> {
    let rows = client
        .query(RANKS, &[&job, &MINUTELY.largest_gap_seconds, &CLOCK_READINGS_MIN])
        .await
        .map_err(Error::sql("reading what the kernel counted of ranks"))?;
    let rank = |row: &Row| {
        let seconds: Option<f64> = row.get(1);
        // One reading counts nothing.
        let if_spanned = |value: Option<f64>| seconds.and(value).map(|value| value.max(0.0));
        RankCpu {
            rank: row.get(0),
            seconds,
            cpu_seconds: if_spanned(row.get(2)),
            runqueue_wait_seconds: if_spanned(row.get(3)),
            involuntary_switches: seconds.and(row.get(4)),
            recent_cpu_share: row.get(5),
            cpus: row.get(6),
            numa_nodes: row.get(7),
            hca_numa_nodes: row.get(8),
            cpu_hertz: row.get(9),
            read_ms: row.get(10),
            times: times(row),
            stopped_seconds: row.get(21),
        }
    };
    Ok(rows.iter().map(rank).collect())
}

fn times(row: &Row) -> Option<RankTimes> {
    #[allow(clippy::cast_precision_loss)] // below 2^53 in a hundred days
    let seconds = |at: usize| row.get::<_, Option<i64>>(at).map(|nanoseconds| nanoseconds as f64 / 1e9);
    let samples =
        |at: usize| row.get::<_, Option<i32>>(at).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let (elapsed, mpi, off_outside, queued) = (seconds(11)?, seconds(12)?, seconds(13)?, seconds(14)?);
    let found = OffReasons {
        file: samples(16),
        sleep: samples(17),
        lock: samples(18),
        stopped: samples(19),
        other: samples(20),
    };
    Some(RankTimes {
        found,
        off_in_mpi: seconds(15)?,
        queued_in_mpi: seconds(22).unwrap_or_default(),
        throttled: seconds(23).unwrap_or_default(),
        ..RankTimes::of(elapsed, mpi, off_outside, queued)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_is_where_no_node_is_shared() {
        let rank = |own: &[i32], adapters: Option<&[i32]>| RankCpu {
            numa_nodes: Some(own.to_vec()),
            hca_numa_nodes: adapters.map(<[i32]>::to_vec),
            ..RankCpu::default()
        };
        assert_eq!(rank(&[1], Some(&[0])).is_far_from_adapter(), Some(true));
        assert_eq!(rank(&[0, 1], Some(&[0])).is_far_from_adapter(), Some(false));
        assert_eq!(rank(&[0], None).is_far_from_adapter(), None);
        assert_eq!(rank(&[], Some(&[0])).is_far_from_adapter(), None, "a machine without NUMA nodes");
    }
}
