//! What of a job's time in MPI was waiting for other ranks: sums of its operations and sampled calls, as `throughline-waits` needs
//! them, and what it makes of them.

mod traced;

use crate::as_of::AsOf;
use crate::contests::OF_COUNTED_NODE;
use crate::jobs::Job;
use crate::time::{milliseconds, now};
use crate::whole;
use futures::TryStreamExt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use throughline_api::waits as api;
use throughline_store::sql_time::moment;
use throughline_store::{Error, PackedRows, SampledCall};
use throughline_waits::{
    Bounded, Counters, NodeSample, OperationWaits, Parts, RankOperation, WaitStates, estimate, merge,
};
use tokio_postgres::{Client, Row};
use traced::TracedWaits;

/// Seconds of a job whose samples are read: of a longer job so many, in windows that are evenly spaced, which leaves bounds as of sampling.
const SECONDS_READ_MAX: i64 = 600;
/// Seconds of a window: nodes report the calls of ten seconds at once, at whole multiples in UTC, or of each second.
const WINDOW_SECONDS: i64 = 10;
/// In hours that are thinned the last window of each minute in which anything was sampled is left.
const THINNED_WINDOWS: i64 = 6;
/// Calls in a row of a second, most times.
const CALLS_OF_ROW: i64 = 8;
/// Rows of samples that are read: some nodes with several collectives each in each of these seconds.
const ROWS_READ_MAX: i64 = 20_000;
/// Steps of the course over time.
const STEPS_MAX: i64 = 120;
/// Who arrived last: rows of a response.
const LAST_ARRIVALS_MAX: usize = 1000;

/// How many sampled calls are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// As many as make bounds narrow, for a person.
    Full,
    /// As many as decide what is said of a job each minute.
    Quick,
}

impl Depth {
    /// Rows of samples.
    fn rows(self) -> i64 {
        match self {
            Depth::Full => ROWS_READ_MAX,
            Depth::Quick => ROWS_READ_MAX / 40,
        }
    }
}

/// What a rank's calls of an operation and size class add up to, with the bytes handed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Calls and times.
    pub sums: RankOperation,
    /// What callers passed to send.
    pub bytes: u64,
}

/// A job's wait states, and what their groups are called.
#[derive(Clone, Debug, Default)]
pub struct OfJob {
    /// How they are known.
    basis: Basis,
    /// By operation, communicator and rank.
    pub states: WaitStates,
    /// Members of groups, for people.
    members: HashMap<i64, String>,
    /// Calls that all members sampled.
    samples: Vec<NodeSample>,
}

/// How wait states are known.
#[derive(Clone, Debug, Default, PartialEq)]
enum Basis {
    /// From counters: it was not traced.
    #[default]
    Counters,
    /// From counters: it was traced, and why that is not used.
    CountersBeside(String),
    /// From a trace, whose clocks may be wrong by so many seconds.
    Trace(f64),
}

/// A job's wait states for a person: exact where it has a trace of all calls of all its ranks, otherwise as [`of_job`] estimates them.
///
/// # Errors
/// The database's.
pub async fn exact_or_estimated(client: &Client, job: &Job, cells: &[Cell]) -> Result<OfJob, Error> {
    let estimated = of_job(client, job, cells, Depth::Full).await?;
    Ok(match traced::of_job(client, job).await? {
        TracedWaits::None => estimated,
        TracedWaits::Unusable(why) => OfJob { basis: Basis::CountersBeside(why), ..estimated },
        TracedWaits::Whole(traced::ExactWaits { states, members, clock_error }) => {
            OfJob { basis: Basis::Trace(clock_error), states, members, ..estimated }
        }
    })
}

/// A job's wait states so far, estimated, given its operations.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, job: &Job, cells: &[Cell], depth: Depth) -> Result<OfJob, Error> {
    let operations = cells.iter().map(|cell| cell.sums.clone()).collect();
    let (samples, members) = samples(client, job, depth).await?;
    let counters = Counters { operations, samples: merge(samples) };
    let states = estimate(&counters);
    Ok(OfJob { states, members, samples: counters.samples, basis: Basis::Counters })
}

/// A job's operations by rank and size class, as of a time of its ranks' rows where there is one.
///
/// # Errors
/// The database's.
pub async fn cells(client: &Client, job: i64, as_of: Option<&AsOf>) -> Result<Vec<Cell>, Error> {
    let sql = "
        SELECT c.rank, c.operation, c.size_class_bytes, sum(c.calls)::bigint, sum(c.elapsed_seconds)::float8,
               sum(c.wait_seconds)::float8, CASE WHEN bool_and(c.least_seconds IS NOT NULL) THEN sum(c.least_seconds)::float8 END,
               internal.stored_total(sum(c.bytes))
        FROM internal.mpi_op_cells($1, coalesce($2::timestamptz, 'infinity')) c
        GROUP BY 1, 2, 3";
    let rows = client
        .query(sql, &[&job, &as_of.map(AsOf::latest)])
        .await
        .map_err(Error::sql("summing operations of ranks"))?;
    let one = |row: &Row| {
        let sums = RankOperation {
            rank: u32::try_from(row.get::<_, i32>(0)).ok()?,
            operation: row.get(1),
            size_class_bytes: u64::try_from(row.get::<_, i64>(2)).ok()?,
            calls: u64::try_from(row.get::<_, i64>(3)).ok()?,
            elapsed_seconds: row.get(4),
            wait_seconds: row.get(5),
            least_seconds: row.get(6),
        };
        Some(Cell { sums, bytes: whole(row.get(7)) })
    };
    Ok(rows.iter().filter_map(one).collect())
}

/// Single calls as nodes sampled them, and what their groups are called.
async fn samples(
    client: &Client,
    job: &Job,
    depth: Depth,
) -> Result<(Vec<NodeSample>, HashMap<i64, String>), Error> {
    let (sql, stride) = samples_sql(client, job, depth).await?;
    let rows = client.query_raw(&sql, [job.id]).await.map_err(Error::sql("reading sampled calls"))?;
    let mut rows = pin!(rows);
    let (mut all, mut members) = (Vec::new(), HashMap::new());
    let most = usize::try_from(depth.rows() * CALLS_OF_ROW).unwrap_or(usize::MAX);
    while let Some(row) = rows.try_next().await.map_err(Error::sql("reading sampled calls"))? {
        if all.len() >= most {
            break;
        }
        let one = NodeSample {
            second: milliseconds(row.get(0)).div_euclid(1000),
            group: row.get(1),
            operation: row.get(2),
            size_class_bytes: u64::try_from(row.get::<_, i64>(3)).unwrap_or_default(),
            cell: row.get(4),
            group_size: u32::try_from(row.get::<_, i32>(5)).unwrap_or_default(),
            ..NodeSample::default()
        };
        members.entry(one.group).or_insert_with(|| row.get(6));
        all.extend(row.get::<_, PackedRows>(7).sampled_calls().map(|figures: SampledCall| {
            let figure = |column: usize| figures[column];
            #[allow(clippy::cast_possible_truncation)] // at most 40
            let level = figure(5).clamp(0, 40) as i32;
            NodeSample {
                call: figure(0).unsigned_abs(),
                ranks: u32::try_from(figure(1)).unwrap_or_default(),
                seconds: seconds(figure(2)),
                least_seconds: seconds(figure(3)),
                least_rank: u32::try_from(figure(4)).unwrap_or_default(),
                weight: f64::from(level).exp2() * stride,
                ..one.clone()
            }
        }));
    }
    Ok((all, members))
}

/// All seconds of a short job; of a long one windows of it, and how many each stands for; where some of its hours are thinned, such
/// windows of all of them as are left there. Records are made at whole seconds, by all nodes at once.
async fn samples_sql(client: &Client, job: &Job, depth: Depth) -> Result<(String, f64), Error> {
    const COLUMNS: &str =
        "m.time, m.comm_group, m.operation, m.size_class_bytes, m.cell, m.group_size, m.members, m.packed";
    let at = now(client).await?;
    let from = job.start.unwrap_or(job.first_seen).div_euclid(1000) * 1000;
    let to = job.end.map_or(at, |end| end.min(at)) + 2000;
    let length = (to - from) / 1000;
    // A node has some four records a second.
    let rows = depth.rows();
    let most = (rows / (4 * job.nodes.max(1))).clamp(STEPS_MAX / 4, SECONDS_READ_MAX);
    let is_thinned = length > THINNED_WINDOWS * WINDOW_SECONDS && is_thinned(client, from, to).await?;
    if length <= most && !is_thinned {
        let (from, to) = (moment(from), moment(to));
        let sql = format!(
            "SELECT {COLUMNS} FROM internal.mpi_sampled_calls m WHERE m.job_id = $1 AND m.time >= {from} AND m.time <= {to} AND {OF_COUNTED_NODE} \
             LIMIT {rows}"
        );
        return Ok((sql, 1.0));
    }
    if is_thinned {
        return Ok(of_minutes(COLUMNS, (from, to), most / WINDOW_SECONDS, rows));
    }
    let (windows, most) = (length / WINDOW_SECONDS + 1, most / WINDOW_SECONDS);
    let stride = (windows + most - 1) / most;
    let sql = format!(
        "SELECT {COLUMNS} FROM generate_series({}, {}, make_interval(secs => {})) t(time) \
         CROSS JOIN LATERAL (SELECT * FROM internal.mpi_sampled_calls m WHERE m.job_id = $1 AND m.time > t.time AND {within} \
                             AND m.time <= t.time + make_interval(secs => {WINDOW_SECONDS}) AND {OF_COUNTED_NODE}) m LIMIT {rows}",
        moment(from.div_euclid(1000 * WINDOW_SECONDS) * 1000 * WINDOW_SECONDS),
        moment(to),
        stride * WINDOW_SECONDS,
        within = within(from - 1000 * WINDOW_SECONDS, to + 1000 * WINDOW_SECONDS)
    );
    #[allow(clippy::cast_precision_loss)] // seconds
    Ok((sql, stride as f64))
}

/// Of each minute, or of evenly spaced ones of a job of more than `most`, the last window in which anything was sampled. A minute counts
/// as one, however many of its windows had calls.
fn of_minutes(columns: &str, (from, to): (i64, i64), most: i64, rows: i64) -> (String, f64) {
    let minute = WINDOW_SECONDS * THINNED_WINDOWS;
    let minutes = (to - from) / 1000 / minute + 1;
    let stride = (minutes + most - 1) / most;
    let sql = format!(
        "SELECT {columns} FROM generate_series({}, {}, make_interval(secs => {})) t(time) \
         CROSS JOIN LATERAL (SELECT date_bin('{WINDOW_SECONDS} seconds', max(m.time) - INTERVAL '1 microsecond', 'epoch') AS since \
                             FROM internal.mpi_sampled_calls m WHERE m.job_id = $1 AND m.time > t.time AND {within} \
                                 AND m.time <= t.time + make_interval(secs => {minute})) l \
         CROSS JOIN LATERAL (SELECT * FROM internal.mpi_sampled_calls m WHERE m.job_id = $1 AND m.time > l.since AND {within} \
                             AND m.time <= t.time + make_interval(secs => {minute}) AND {OF_COUNTED_NODE}) m LIMIT {rows}",
        moment(from.div_euclid(1000 * minute) * 1000 * minute),
        moment(to),
        stride * minute,
        within = within(from - 1000 * minute, to + 1000 * minute)
    );
    #[allow(clippy::cast_precision_loss)] // minutes
    (sql, (stride * THINNED_WINDOWS) as f64)
}

/// Bounds that are constants: those of a step are not known when the database plans.
fn within(from: i64, to: i64) -> String {
    format!("m.time > {} AND m.time <= {}", moment(from - 1), moment(to))
}

/// Whether sampled calls of some of this time are thinned.
async fn is_thinned(client: &Client, from: i64, to: i64) -> Result<bool, Error> {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM internal.thinned_chunk WHERE hypertable = 'mpi_sampled_calls' AND range_start <= {} AND range_end > {})",
        moment(to),
        moment(from)
    );
    let row =
        client.query_one(&sql, &[]).await.map_err(Error::sql("reading which sampled calls are thinned"))?;
    Ok(row.get(0))
}

#[allow(clippy::cast_precision_loss)] // nanoseconds of a call
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl OfJob {
    /// As the API has it.
    #[must_use]
    pub fn described(&self, job_key: String) -> api::JobWaits {
        let states = &self.states;
        let members = |group: i64| self.members.get(&group).cloned();
        let operation = |one: &OperationWaits| api::OperationWaits {
            operation: one.operation.clone(),
            members: one.group.and_then(members),
            group_size: one.group_size,
            parts: parts(&one.parts),
        };
        let last = states.last_arrivals.iter().take(LAST_ARRIVALS_MAX);
        let (basis, clock_error_seconds, trace_unused) = match &self.basis {
            Basis::Counters => (api::WaitBasis::Estimated, None, None),
            Basis::CountersBeside(why) => (api::WaitBasis::Estimated, None, Some(why.clone())),
            Basis::Trace(error) => (api::WaitBasis::Exact, Some(*error), None),
        };
        api::JobWaits {
            job_key,
            as_of: None,
            basis,
            clock_error_seconds,
            trace_unused,
            total: parts(&states.total()),
            operations: states.operations.iter().map(operation).collect(),
            communicators: states.communicators.iter().map(operation).collect(),
            ranks: states
                .ranks
                .iter()
                .map(|one| api::RankWaits { rank: one.rank, parts: parts(&one.parts) })
                .collect(),
            last_arrivals: last
                .map(|one| api::LastArrivalWaits {
                    rank: one.rank,
                    operation: one.operation.clone(),
                    members: members(one.group).unwrap_or_default(),
                    share: one.share,
                    waited_seconds: one.waited_seconds,
                })
                .collect(),
            course: self.course(),
        }
    }

    /// What the sampled calls waited, step by step.
    /// Seconds from one report to the next, most times.
    fn report_gap(&self) -> i64 {
        let times: BTreeSet<i64> = self.samples.iter().map(|one| one.second).collect();
        let mut gaps: Vec<i64> =
            times.iter().zip(times.iter().skip(1)).map(|(one, next)| next - one).collect();
        gaps.sort_unstable();
        gaps.get(gaps.len() / 2).copied().unwrap_or(1)
    }

    fn course(&self) -> api::WaitCourse {
        let times = self.samples.iter().map(|one| one.second);
        let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
            return api::WaitCourse::default();
        };
        let gap = self.report_gap();
        let step = ((last - first) / STEPS_MAX + 1).max(1);
        let step = (step + gap - 1) / gap * gap;
        let mut sums: BTreeMap<(i64, &str), (f64, f64)> = BTreeMap::new();
        for one in &self.samples {
            let sum = sums.entry(((one.second - first) / step, one.operation.as_str())).or_default();
            let waiting = (one.seconds - f64::from(one.ranks) * one.least_seconds).max(0.0);
            sum.0 += one.weight * waiting;
            sum.1 += one.weight * one.seconds;
        }
        let mut course = api::WaitCourse { step_ms: step * 1000, ..api::WaitCourse::default() };
        for ((number, operation), (waiting, elapsed)) in sums {
            course.time_ms.push((first + (number + 1) * step) * 1000);
            course.operation.push(operation.to_owned());
            course.waiting_seconds.push(waiting);
            course.elapsed_seconds.push(elapsed);
        }
        course
    }
}

fn parts(of: &Parts) -> api::WaitParts {
    let bounded = |one: Bounded| api::WaitSeconds { seconds: one.seconds, low: one.low, high: one.high };
    api::WaitParts {
        calls: of.calls,
        elapsed_seconds: of.elapsed,
        waiting: bounded(of.waiting()),
        late_sender: bounded(of.late_sender),
        late_receiver: bounded(of.late_receiver),
        at_collective: bounded(of.at_collective),
        late_root: bounded(of.late_root),
        progress: bounded(of.progress),
        transfer: bounded(of.transfer),
    }
}
