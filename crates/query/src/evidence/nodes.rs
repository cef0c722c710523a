//! What ranks have of their nodes: how many ranks are bound to their CPUs, and the links of their GPUs.

use super::numbers;
use std::collections::{BTreeSet, HashMap};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use throughline_verdicts::evidence::Rank;
use tokio_postgres::{Client, Row};

/// Ranks of other jobs that are read.
const OTHERS_MAX: i64 = 20_000;

/// Other jobs that are named.
const NAMES_MAX: usize = 3;

/// A rank of another job that started earlier has ended, whatever is known of it.
const DAYS: i32 = 30;

/// A rank of another job on one of the job's nodes.
struct ForeignRank {
    host: String,
    job: String,
    cpus: Vec<u32>,
}

/// Ranks of other jobs on the job's nodes at the middle of its time.
const OTHERS: &str = "
    SELECT o.host, coalesce(j.native_id, j.key), o.cpus
    FROM (SELECT DISTINCT node_id FROM internal.job_rank WHERE job_id = $1 AND node_id IS NOT NULL) n
    JOIN internal.job_rank o ON o.node_id = n.node_id
    JOIN internal.run_visible j ON j.id = o.job_id
    WHERE o.job_id <> $1 AND o.cpus <> '' AND o.start_time > AT - make_interval(days => $2) AND o.start_time <= AT
      AND (o.end_time IS NULL OR o.end_time > AT)
    LIMIT $3";

/// Puts into ranks how many are bound to their CPUs, those of other jobs among them.
///
/// # Errors
/// The database's.
pub(super) async fn bindings(
    client: &Client,
    id: i64,
    ranks: &mut [Rank],
    (from, to): (i64, i64),
) -> Result<(), Error> {
    let sql = OTHERS.replace("AT", &moment(from.midpoint(to)));
    let rows = client.query(&sql, &[&id, &DAYS, &OTHERS_MAX]).await;
    let rows = rows.map_err(Error::sql("reading which CPUs other jobs have"))?;
    let other = |row: &Row| ForeignRank { host: row.get(0), job: row.get(1), cpus: numbers(row.get(2)) };
    put_bindings(ranks, &rows.iter().map(other).collect::<Vec<_>>());
    Ok(())
}

fn put_bindings(ranks: &mut [Rank], others: &[ForeignRank]) {
    let mut bound: HashMap<String, HashMap<u32, f64>> = HashMap::new();
    let own = ranks.iter().map(|rank| (&rank.host, &rank.cpus));
    for (host, cpus) in own.chain(others.iter().map(|other| (&other.host, &other.cpus))) {
        let of_host = bound.entry(host.clone()).or_default();
        cpus.iter().for_each(|cpu| *of_host.entry(*cpu).or_default() += 1.0 / count(cpus.len()));
    }
    for rank in ranks.iter_mut().filter(|rank| !rank.cpus.is_empty()) {
        let of_host = &bound[&rank.host];
        let all: f64 = rank.cpus.iter().map(|cpu| of_host[cpu]).sum();
        rank.ranks_a_cpu = Some(all / count(rank.cpus.len()));
        let shares = |other: &&ForeignRank| {
            other.host == rank.host && other.cpus.iter().any(|cpu| rank.cpus.contains(cpu))
        };
        let jobs: BTreeSet<&String> = others.iter().filter(shares).map(|other| &other.job).collect();
        rank.cpus_shared_with = jobs.into_iter().take(NAMES_MAX).cloned().collect();
    }
}

#[allow(clippy::cast_precision_loss)] // CPUs
fn count(cpus: usize) -> f64 {
    cpus as f64
}

/// Where the first and last readings of a job's links are looked for: of a long job whose hours are packed, two are unpacked.
const ENDS: &str = "INTERVAL '10 minutes'";

/// Of each rank and GPU: the speed of its active links together, and their errors from the first reading of the range to the last.
fn links(from: i64, to: i64) -> String {
    let (from, to) = (moment(from), moment(to));
    format!(
        "SELECT r.rank, l.speed, n.errors - coalesce(o.errors, CASE WHEN n.epoch > {from} THEN 0 END)
         FROM (SELECT DISTINCT r.rank, k.id FROM internal.job_rank r CROSS JOIN unnest(r.gpu_uuids) u (uuid)
               JOIN internal.gpu_key k ON k.uuid = u.uuid AND k.node_id = r.node_id WHERE r.job_id = $1) r
         LEFT JOIN LATERAL (
             SELECT CASE WHEN count(*) > 0 THEN coalesce(sum(speed_bytes_per_second) FILTER (WHERE active), 0)::float8 END AS speed
             FROM internal.gpu_link WHERE gpu_id = r.id AND valid_to IS NULL) l ON true
         LEFT JOIN LATERAL (
             SELECT c.source, c.epoch, {ERRORS} AS errors FROM public.nvlink_readings(greatest({from}, {to} - {ENDS}), {to}) c
             WHERE c.gpu_id = r.id ORDER BY c.time DESC, internal.gpu_source_rank(c.source) LIMIT 1) n ON true
         LEFT JOIN LATERAL (
             SELECT {ERRORS} AS errors FROM public.nvlink_readings({from}, least({from} + {ENDS}, {to})) c
             WHERE c.gpu_id = r.id AND c.source = n.source AND c.epoch = n.epoch ORDER BY c.time LIMIT 1) o ON true"
    )
}

/// Errors that cost a link time: what was sent again, and times in which it had to recover.
const ERRORS: &str = "(SELECT sum(v)::bigint FROM unnest(c.replay_errors || c.recovery_errors || c.crc_errors || c.receive_errors) v)";

/// Puts into ranks the links of the slowest of their GPUs.
///
/// # Errors
/// The database's.
pub(super) async fn gpu_links(
    client: &Client,
    id: i64,
    ranks: &mut [Rank],
    (from, to): (i64, i64),
) -> Result<(), Error> {
    let sql = links(from, to);
    let rows = client.query(&sql, &[&id]).await.map_err(Error::sql("reading the GPU links of ranks"))?;
    let mut by: HashMap<u32, (Option<f64>, Option<i64>)> = HashMap::new();
    for row in &rows {
        let (rank, speed, errors): (i32, Option<f64>, Option<i64>) = (row.get(0), row.get(1), row.get(2));
        let Ok(rank) = u32::try_from(rank) else { continue };
        let all = by.entry(rank).or_default();
        all.0 = [all.0, speed].into_iter().flatten().reduce(f64::min);
        all.1 = [all.1, errors].into_iter().flatten().reduce(|one, other| one + other);
    }
    for rank in ranks {
        let (speed, errors) = by.get(&rank.rank).copied().unwrap_or_default();
        rank.gpu_link_bytes_per_second = speed;
        rank.gpu_link_errors = errors.map(i64::unsigned_abs);
    }
    Ok(())
}

/// Ten minutes, and one more for the way.
const SLOWED_REPEAT_MS: i64 = 11 * 60_000;

/// Of each rank the last report that one of its GPUs is slowed down. One from before the range counts where it was not over
/// before it: agents repeat it each ten minutes.
const SLOWED: &str = "
    SELECT DISTINCT ON (r.rank) r.rank, e.text
    FROM (SELECT DISTINCT rank, unnest(gpu_uuids) AS uuid FROM internal.job_rank WHERE job_id = $1) r
    JOIN internal.events e ON e.gpu_uuid = r.uuid
    WHERE e.kind = 'gpu.slowed' AND e.time > EARLIER AND e.time <= UNTIL
      -- On its own: TimescaleDB finds no bounds in what becomes a condition of a join.
      AND NOT EXISTS (SELECT FROM (SELECT gpu_uuid, time FROM internal.events
                                   WHERE kind = 'gpu.full_speed' AND time < SINCE AND time > EARLIER OFFSET 0) o
                      WHERE o.gpu_uuid = e.gpu_uuid AND o.time >= e.time)
    ORDER BY r.rank, e.time DESC";

/// Puts into ranks what slowed their GPUs down.
///
/// # Errors
/// The database's.
pub(super) async fn slowed_gpus(
    client: &Client,
    id: i64,
    ranks: &mut [Rank],
    (from, to): (i64, i64),
) -> Result<(), Error> {
    let sql = SLOWED.replace("SINCE", &moment(from)).replace("UNTIL", &moment(to));
    let sql = sql.replace("EARLIER", &moment(from - SLOWED_REPEAT_MS));
    let rows = client.query(&sql, &[&id]).await.map_err(Error::sql("reading what slowed GPUs down"))?;
    let mut by: HashMap<u32, String> =
        rows.iter().filter_map(|row| Some((u32::try_from(row.get::<_, i32>(0)).ok()?, row.get(1)))).collect();
    for rank in ranks {
        rank.gpu_slowed = by.remove(&rank.rank);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, host: &str, cpus: &[u32]) -> Rank {
        Rank { rank, host: host.into(), cpus: cpus.to_vec(), ..Rank::default() }
    }

    #[test]
    fn ranks_that_are_bound_to_one_cpu_are_counted_on_it() {
        let mut ranks = [
            rank(0, "n1", &[0]),
            rank(1, "n1", &[0]),
            rank(2, "n1", &[2, 3]),
            rank(3, "n2", &[0]),
            rank(4, "n2", &[]),
        ];
        let others = [ForeignRank { host: "n2".into(), job: "4712".into(), cpus: vec![0] }];
        put_bindings(&mut ranks, &others);
        let a_cpu: Vec<_> = ranks.iter().map(|rank| rank.ranks_a_cpu).collect();
        assert_eq!(a_cpu, [Some(2.0), Some(2.0), Some(0.5), Some(2.0), None]);
        assert_eq!(ranks[3].cpus_shared_with, ["4712"]);
        assert!(ranks[0].cpus_shared_with.is_empty(), "another node");
    }

    #[test]
    fn ranks_without_binding_share_all_cpus_evenly() {
        let all: Vec<u32> = (0..4).collect();
        let mut ranks: Vec<Rank> = (0..4).map(|number| rank(number, "n1", &all)).collect();
        put_bindings(&mut ranks, &[]);
        assert_eq!(ranks[0].ranks_a_cpu, Some(1.0));
    }
}
