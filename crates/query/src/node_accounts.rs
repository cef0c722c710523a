//! Where the time of a job's ranks went, by node as of each ten seconds, from the sums in rows of nodes. They are newer than rows of single
//! ranks, and have a course.

use crate::contests::OF_COUNTED_NODE;
use crate::time::{Grid, milliseconds};
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_store::sql_time::moment;
use throughline_store::{Error, NODE_ACCOUNT_SUMS as SUMS, NodeAccount};
use throughline_verdicts::account::RankTimes;
use tokio_postgres::Client;

/// From one account of a node to the next, at least.
pub const STEP_MS: i64 = 10_000;
/// The same in hours whose rows are thinned.
const THINNED_STEP_MS: i64 = 60_000;
/// While somebody looks at a job, the row that has an account comes so long after it.
const AFTER_MS: i64 = 3_000;
/// An account that is older is none of now.
const OLD_MS: i64 = 120_000;
/// Ends of steps at which a node is looked for, all nodes together: each takes some milliseconds.
const LOOKS_MAX: i64 = 20_000;
/// The same, times the hours that a course has: rows of each are in a chunk of their own.
const LOOKS_OF_HOURS_MAX: i64 = 40_000;
const HOUR_MS: i64 = 3_600_000;
/// How far before the end of a step a node's row may be.
const REACH_MS: i64 = 300_000;

/// Sums of some ranks, or what they grew by: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeTimes {
    pub times: RankTimes,
    /// What of the time off the processor was in a file, asleep, at a lock, stopped.
    pub reasons: [f64; 4],
}

/// The newest account of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestAccount {
    /// Ranks whose newest reading is older are not in it.
    pub epoch_ms: i64,
    sums: [f64; SUMS],
}

impl NewestAccount {
    /// What its ranks have beyond what is known of each, summed.
    pub fn beyond(&self, known: &RankTimes) -> NodeTimes {
        let off_outside = known.off + known.queued;
        let mut sums = self.sums;
        let less = [
            known.elapsed,
            known.mpi,
            off_outside,
            known.queued,
            known.off_in_mpi,
            known.queued_in_mpi,
            known.throttled,
        ];
        sums.iter_mut().zip(less).for_each(|(sum, less)| *sum -= less);
        // What its ranks were found in is another measure than these parts.
        let left = (off(&sums) / off(&self.sums).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        sums[7..].iter_mut().for_each(|sum| *sum *= left);
        grown(&sums)
    }
}

/// Off the processor outside of MPI, and not in a queue.
fn off(sums: &[f64; SUMS]) -> f64 {
    sums[2] - sums[3]
}

/// No part is more than the whole that it is a part of: a stretch that was open may turn out to be of another line.
fn grown(sums: &[f64; SUMS]) -> NodeTimes {
    let elapsed = sums[0].max(0.0);
    let mpi = sums[1].clamp(0.0, elapsed);
    let off_outside = sums[2].clamp(0.0, elapsed - mpi);
    let queued = sums[3].clamp(0.0, off_outside);
    let off_in_mpi = sums[4].clamp(0.0, mpi);
    let mut left = off_outside - queued;
    let reasons = [7, 8, 9, 10].map(|at: usize| {
        let part = sums[at].clamp(0.0, left);
        left -= part;
        part
    });
    let times = RankTimes {
        off_in_mpi,
        queued_in_mpi: sums[5].clamp(0.0, off_in_mpi),
        throttled: sums[6].max(0.0),
        ..RankTimes::of(elapsed, mpi, off_outside, queued)
    };
    NodeTimes { times, reasons }
}

#[allow(clippy::cast_precision_loss)] // below 2^53 in a hundred thousand years
fn seconds(milliseconds: &[u64; SUMS]) -> [f64; SUMS] {
    milliseconds.map(|sum| sum as f64 / 1e3)
}

/// The newest account of each node of a job up to a time, by its name.
///
/// # Errors
/// The database's.
pub(crate) async fn newest(
    client: &Client,
    job: i64,
    until: SystemTime,
) -> Result<HashMap<String, NewestAccount>, Error> {
    let until = milliseconds(until);
    let sql = format!(
        "SELECT k.name, (extract(epoch FROM m.epoch) * 1000)::bigint, m.account
         FROM (SELECT DISTINCT r.node_id FROM internal.job_ranks($1) r) n
         JOIN internal.node_key k ON k.id = n.node_id
         CROSS JOIN LATERAL (
             SELECT m.epoch, m.account FROM internal.mpi_node_rows m
             WHERE m.job_id = $1 AND m.node_id = n.node_id AND m.time > {} AND m.time <= {} AND m.account <> B'' AND {OF_COUNTED_NODE}
             ORDER BY m.epoch DESC, m.time DESC LIMIT 1) m",
        moment(until - OLD_MS),
        moment(until + AFTER_MS),
    );
    let rows =
        client.query(&sql, &[&job]).await.map_err(Error::sql("reading where the time of nodes went"))?;
    let newest = rows.iter().map(|row| {
        let NodeAccount { grown, before, .. } = row.get(2);
        let (grown, before) = (seconds(&grown), seconds(&before));
        let sums = std::array::from_fn(|at| grown[at] + before[at]);
        (row.get(0), NewestAccount { epoch_ms: row.get(1), sums })
    });
    Ok(newest.collect())
}

/// Whole steps of a time, in which a job with so many nodes has rows: none is finer than these, nor more than are read.
///
/// # Errors
/// The database's.
pub async fn grid(
    client: &Client,
    (from, to): (i64, i64),
    step: i64,
    nodes: i64,
    steps_max: usize,
) -> Result<Grid, Error> {
    let thinned = format!(
        "SELECT EXISTS (SELECT FROM internal.thinned_chunk WHERE hypertable = 'mpi_node_rows' AND range_start <= {} AND range_end > {})",
        moment(to),
        moment(from)
    );
    let row = client.query_one(&thinned, &[]).await.map_err(Error::sql("reading which rows are thinned"))?;
    let finest = if row.get(0) { THINNED_STEP_MS } else { STEP_MS };
    let (nodes, hours) = (nodes.max(1), (to - from).max(0) / HOUR_MS + 1);
    let steps_max = i64::try_from(steps_max).unwrap_or(i64::MAX).max(1);
    let most = (LOOKS_MAX / nodes).min(LOOKS_OF_HOURS_MAX / nodes / hours).clamp(1, steps_max);
    let least = ((to - from).max(1) + most - 1) / most;
    let step = (step.max(least).max(1) + finest - 1) / finest * finest;
    let from = from.div_euclid(step) * step;
    let steps = ((to - from) + step - 1).div_euclid(step).max(1);
    Ok(Grid { from, step, steps: usize::try_from(steps).unwrap_or(1) })
}

/// What a job's ranks, of one node where one is named, did in each step. Where a node has no row at both ends of a step, it has no part
/// in it.
///
/// # Errors
/// The database's.
pub(crate) async fn course(
    client: &Client,
    job: i64,
    grid: &Grid,
    node: Option<&str>,
) -> Result<Vec<NodeTimes>, Error> {
    // The newest row of each node at the end of each step, and at the beginning of the first.
    let reach = grid.step.clamp(OLD_MS, REACH_MS);
    let sql = format!(
        "SELECT g.number::integer, n.node_id, (extract(epoch FROM m.epoch) * 1000)::bigint, m.account
         FROM (SELECT DISTINCT r.node_id FROM internal.job_ranks($1) r WHERE r.node_id IS NOT NULL) n
         JOIN internal.node_key k ON k.id = n.node_id AND ($2::text IS NULL OR k.name = $2)
         CROSS JOIN generate_series(0, {steps}) g (number)
         CROSS JOIN LATERAL (
             SELECT s.epoch, s.account FROM (
             -- Not in an order: then only the chunk of that time is looked into.
             SELECT m.epoch, m.time, m.account FROM internal.mpi_node_rows m
             WHERE m.job_id = $1 AND m.node_id = n.node_id AND m.account <> B'' AND {OF_COUNTED_NODE}
               AND m.time > {begin} AND m.time <= {end}
               AND m.time > {from} + (g.number * {step} - {reach}) * INTERVAL '1 millisecond'
               AND m.time <= {from} + (g.number * {step} + {AFTER_MS}) * INTERVAL '1 millisecond' OFFSET 0) s
             ORDER BY s.epoch DESC, s.time DESC LIMIT 1) m
         ORDER BY n.node_id, g.number",
        steps = grid.steps,
        step = grid.step,
        from = moment(grid.from),
        begin = moment(grid.from - reach),
        end = moment(grid.to() + AFTER_MS),
    );
    let rows = client
        .query(&sql, &[&job, &node])
        .await
        .map_err(Error::sql("reading where the time of nodes went"))?;
    let mut course = vec![NodeTimes::default(); grid.steps];
    let mut before: Option<(i64, usize, i64, [f64; SUMS])> = None;
    for row in &rows {
        let (number, of, epoch): (i32, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let (number, account) = (usize::try_from(number).unwrap_or(0), row.get::<_, NodeAccount>(3));
        let sums = seconds(&account.grown);
        let since = before
            .filter(|(node, at, began, _)| (*node, at + 1, *began) == (of, number, epoch))
            .map(|(.., sums)| sums)
            // The node began to count in this step.
            .or_else(|| {
                (epoch >= grid.from + (i64::try_from(number).unwrap_or(0) - 1) * grid.step)
                    .then_some([0.0; SUMS])
            });
        if let Some((since, step)) = since.zip(number.checked_sub(1).and_then(|at| course.get_mut(at))) {
            add(step, &grown(&std::array::from_fn(|at| sums[at] - since[at])));
        }
        before = Some((of, number, epoch, sums));
    }
    Ok(course)
}

fn add(sum: &mut NodeTimes, one: &NodeTimes) {
    sum.times = sum.times.with(&one.times);
    sum.reasons.iter_mut().zip(one.reasons).for_each(|(sum, one)| *sum += one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_within_their_wholes() {
        let NodeTimes { times, reasons } =
            grown(&[80.0, 90.0, 5.0, 7.0, -1.0, 3.0, -2.0, 4.0, 4.0, 0.0, 0.0]);
        assert_eq!(
            (times.elapsed, times.mpi, times.computing, times.queued, times.off),
            (80.0, 80.0, 0.0, 0.0, 0.0)
        );
        assert_eq!(
            (times.off_in_mpi, times.queued_in_mpi, times.throttled, reasons),
            (0.0, 0.0, 0.0, [0.0; 4])
        );
        let NodeTimes { times, reasons } =
            grown(&[80.0, 20.0, 30.0, 10.0, 5.0, 3.0, 2.0, 15.0, 15.0, 0.0, 0.0]);
        assert_eq!(
            (times.computing, times.queued, times.off, reasons),
            (30.0, 10.0, 20.0, [15.0, 5.0, 0.0, 0.0])
        );
    }

    #[test]
    fn what_a_node_has_beyond_its_ranks() {
        let sums = [200.0, 60.0, 40.0, 10.0, 6.0, 4.0, 0.0, 15.0, 15.0, 0.0, 0.0];
        let known =
            RankTimes { off_in_mpi: 5.0, queued_in_mpi: 4.0, ..RankTimes::of(160.0, 40.0, 30.0, 10.0) };
        let NodeTimes { times, reasons } = NewestAccount { epoch_ms: 0, sums }.beyond(&known);
        assert_eq!((times.elapsed, times.mpi, times.computing, times.off), (40.0, 20.0, 10.0, 10.0));
        assert_eq!((times.off_in_mpi, times.queued, reasons), (1.0, 0.0, [5.0, 5.0, 0.0, 0.0]));
    }
}
