//! Wait states of a job with a trace of all calls of all its ranks: records on one clock, and what `throughline-waits` makes of them.

use crate::jobs::Job;
use crate::trace::ranks;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use throughline_api::trace::TracedRank;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use throughline_waits::{Alignment, Point, TracedRecord, WaitStates, calls_and_messages, exact};
use tokio_postgres::{Client, Row};

/// Records that are read for a request: a second of work, and some hundred megabytes while it lasts.
const RECORDS_MAX: i64 = 300_000;

/// A rank's clock may be so far from UTC that its first and last records lie outside of the job's time, milliseconds.
const ROOM_MS: i64 = 60_000;

/// MPI_COMM_WORLD, as records name it.
const WORLD: u64 = 1;

/// What a job's trace says.
pub enum TracedWaits {
    /// It was not traced, or runs.
    None,
    /// It was, and why no exact waiting follows from it.
    Unusable(String),
    /// All calls of all ranks.
    Whole(ExactWaits),
}

/// Exact wait states.
pub struct ExactWaits {
    pub states: WaitStates,
    /// Members of communicators, for people.
    pub members: HashMap<i64, String>,
    /// Clocks of ranks are not wrong by more against each other, seconds.
    pub clock_error: f64,
}

/// Exact wait states of a job that has ended, where its trace is whole.
pub async fn of_job(client: &Client, job: &Job) -> Result<TracedWaits, Error> {
    let what = "reading a trace for waiting times";
    let Some(end) = job.end else { return Ok(TracedWaits::None) };
    // Most jobs are not traced, and the table has a chunk an hour.
    let (from, to) = (moment(job.start.unwrap_or(job.first_seen) - ROOM_MS), moment(end + ROOM_MS));
    let of_job = format!("FROM internal.mpi_trace WHERE job_id = $1 AND time >= {from} AND time <= {to}");
    let exists = client.query_one(&format!("SELECT EXISTS (SELECT {of_job})"), &[&job.id]).await;
    if !exists.map_err(Error::sql(what))?.get::<_, bool>(0) {
        return Ok(TracedWaits::None);
    }
    let ranks = ranks(client, job.id).await?;
    if let Some(why) = unusable(&ranks, job.world_size) {
        return Ok(TracedWaits::Unusable(why));
    }
    let clocks = match clocks(&ranks) {
        Ok(clocks) => clocks,
        Err(why) => return Ok(TracedWaits::Unusable(why)),
    };
    let sql = format!("SELECT rank, kind, operation, start_ns, end_ns, peer, tag, comm, sequence {of_job}");
    let rows = client.query(&sql, &[&job.id]).await.map_err(Error::sql(what))?;
    let records: Vec<TracedRecord> = rows.iter().filter_map(|row| record(row, &clocks)).collect();
    drop(rows);
    Ok(TracedWaits::Whole(whole(&records, &clocks)))
}

/// Why exact waiting does not follow from these ranks' records; `None` where it does.
fn unusable(ranks: &[TracedRank], world_size: Option<i32>) -> Option<String> {
    let numbers: BTreeSet<i32> = ranks.iter().map(|rank| rank.rank).collect();
    let world = usize::try_from(world_size?).ok()?;
    let records: i64 = ranks.iter().map(|rank| rank.records).sum();
    let lost: i64 = ranks.iter().map(|rank| rank.lost).sum();
    let of = |ending: Option<&str>| {
        ranks.iter().find(|rank| rank.ending.as_deref() == ending).map(|rank| rank.rank)
    };
    if numbers.len() < world {
        Some(format!("{} of {world} ranks are traced", numbers.len()))
    } else if ranks.len() > numbers.len() {
        Some("a rank was started more than once".to_owned())
    } else if let Some(rank) = of(Some("limit")) {
        Some(format!("rank {rank} reached its limit of records"))
    } else if let Some(rank) = of(None) {
        Some(format!("what rank {rank} did last is not in it"))
    } else if lost > 0 {
        Some(format!("{lost} of its records were lost"))
    } else if records > RECORDS_MAX {
        Some(format!("it has {records} records, and at most {RECORDS_MAX} are read"))
    } else {
        None
    }
}

/// The way from each rank's clock to rank 0's.
type Clocks = HashMap<i32, Alignment>;

/// Ranks compare their clocks with rank 0's, those of its node have the same. By UTC alone, clocks are not known well enough.
fn clocks(ranks: &[TracedRank]) -> Result<Clocks, String> {
    let host = ranks.iter().find(|rank| rank.rank == 0).and_then(|rank| rank.host.as_ref());
    let mut clocks = Clocks::new();
    for rank in ranks {
        let points = points(rank);
        if points.is_empty() && rank.rank != 0 && (host.is_none() || host != rank.host.as_ref()) {
            return Err(format!("the clock of rank {} was not compared with rank 0's", rank.rank));
        }
        clocks.insert(rank.rank, Alignment::new(points));
    }
    Ok(clocks)
}

fn points(rank: &TracedRank) -> Vec<Point> {
    let columns = &rank.comparisons;
    let bounds = columns.offset_ns.iter().zip(&columns.uncertainty_ns);
    let points = columns.number.iter().zip(&columns.clock_ns).zip(bounds);
    let point = |((number, clock), (offset, uncertainty)): ((&i64, &i64), (&i64, &i64))| Point {
        number: *number,
        clock: *clock,
        offset: *offset,
        uncertainty: *uncertainty,
    };
    // Rank 0 is what the others are compared with.
    if rank.rank == 0 { Vec::new() } else { points.map(point).collect() }
}

fn record(row: &Row, clocks: &Clocks) -> Option<TracedRecord> {
    let rank: i32 = row.get(0);
    let clock = clocks.get(&rank)?;
    let (start_ns, end_ns): (i64, i64) = (row.get(3), row.get(4));
    let (begin, end) = (clock.align(start_ns), clock.align(end_ns));
    let number = |column: usize| row.get::<_, Option<i64>>(column).map(i64::cast_unsigned);
    Some(TracedRecord {
        rank: u32::try_from(rank).ok()?,
        kind: row.get(1),
        operation: row.get(2),
        start_ns,
        end_ns,
        begin: seconds(begin.time),
        end: seconds(end.time),
        clock_error: seconds(begin.error.max(end.error)),
        peer: row.get::<_, Option<i32>>(5).and_then(|peer| u32::try_from(peer).ok()),
        tag: row.get(6),
        comm: number(7),
        sequence: number(8),
    })
}

#[allow(clippy::cast_precision_loss)] // nanoseconds since a boot
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn whole(records: &[TracedRecord], clocks: &Clocks) -> ExactWaits {
    let (calls, messages) = calls_and_messages(records);
    // A communicator's members are those that called on it; of the world they are all ranks.
    let mut of_comm: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for call in &calls {
        if let Some(comm) = call.comm {
            of_comm.entry(comm).or_default().insert(call.rank);
        }
    }
    if let Some(world) = of_comm.get_mut(&WORLD) {
        world.extend(clocks.keys().filter_map(|rank| u32::try_from(*rank).ok()));
    }
    let sizes = of_comm.iter().map(|(comm, ranks)| (*comm, u32::try_from(ranks.len()).unwrap_or(u32::MAX)));
    let states = exact(&calls, &messages, &sizes.collect());
    let members = of_comm.iter().map(|(comm, ranks)| (comm.cast_signed(), listed(ranks))).collect();
    let clock_error = clocks.values().map(Alignment::error).max().map_or(0.0, seconds);
    ExactWaits { states, members, clock_error }
}

/// `0-7`, `0-6:2` for those with a distance, else the numbers, some of them where they are many.
fn listed(ranks: &BTreeSet<u32>) -> String {
    const LISTED_MAX: usize = 8;
    let all: Vec<u32> = ranks.iter().copied().collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return String::new() };
    let distance = all.get(1).map_or(1, |second| second - first);
    if all.len() > 2 && all.windows(2).all(|pair| pair[1] - pair[0] == distance)
        || all.len() == 2 && distance == 1
    {
        let step = if distance == 1 { String::new() } else { format!(":{distance}") };
        return format!("{first}-{last}{step}");
    }
    let mut text: Vec<String> = all.iter().take(LISTED_MAX).map(u32::to_string).collect();
    if all.len() > LISTED_MAX {
        text.push(format!("and {} more", all.len() - LISTED_MAX));
    }
    text.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: i32) -> TracedRank {
        let ending = Some("complete".to_owned());
        TracedRank { rank, records: 10, ending, host: Some("n1".into()), ..TracedRank::default() }
    }

    #[test]
    fn only_a_whole_trace_is_exact() {
        let both = || vec![rank(0), rank(1)];
        assert_eq!(unusable(&both(), Some(2)), None);
        assert!(unusable(&both(), Some(4)).unwrap().contains("2 of 4 ranks"));
        let with = |change: fn(&mut TracedRank)| {
            let mut ranks = both();
            change(&mut ranks[1]);
            unusable(&ranks, Some(2)).unwrap_or_default()
        };
        assert!(with(|rank| rank.lost = 3).contains("3 of its records"));
        assert!(with(|rank| rank.ending = None).contains("what rank 1 did last"));
        assert!(with(|rank| rank.ending = Some("limit".into())).contains("rank 1 reached its limit"));
        assert!(with(|rank| rank.records = RECORDS_MAX).contains("at most 300000"));
        assert!(unusable(&[rank(0), rank(1), rank(1)], Some(2)).unwrap().contains("more than once"));
    }

    #[test]
    fn clocks_that_were_not_compared_are_those_of_rank_0s_node_or_none() {
        let mut ranks = vec![rank(0), rank(1)];
        assert_eq!(clocks(&ranks).unwrap().len(), 2);
        ranks[1].host = Some("n2".into());
        assert!(clocks(&ranks).unwrap_err().contains("rank 1"));
    }

    #[test]
    fn members_are_listed_short() {
        let of = |ranks: &[u32]| listed(&ranks.iter().copied().collect());
        assert_eq!((of(&[0, 1, 2, 3]).as_str(), of(&[0, 2, 4]).as_str()), ("0-3", "0-4:2"));
        assert_eq!((of(&[0, 1]).as_str(), of(&[0, 5]).as_str(), of(&[3]).as_str()), ("0-1", "0,5", "3"));
        assert_eq!(of(&[0, 1, 3, 7, 8, 9, 12, 20, 21]), "0,1,3,7,8,9,12,20,and 1 more");
    }
}
