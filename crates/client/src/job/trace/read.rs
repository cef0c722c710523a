//! What the server has of a traced job. Requests only.

use crate::Server;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_api::jobs::JobDetail;
use throughline_api::trace::{ComparisonColumns, RecordColumns, TraceRecords, TracedRanks};
use throughline_daemon::Failure;
use throughline_waits::Point;

/// One traced process of the job. A rank may have been several, one after the other.
#[derive(Clone, Debug)]
pub struct TracedRank {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// When it began to count, microseconds since 1970.
    pub epoch_us: i64,
    /// Its node, where known.
    pub host: Option<String>,
    /// Records there are.
    pub records: i64,
    /// Calls among them.
    pub calls: i64,
    /// Records that were lost on their way.
    pub lost: i64,
    /// `complete`, `limit`, or none where nothing says that no more will come.
    pub ending: Option<String>,
    /// Earliest beginning by its own clock, nanoseconds.
    pub first: i64,
    /// Latest beginning.
    pub last: i64,
    /// UTC as its node had it, less its own clock, nanoseconds; to the microsecond. The smallest observed.
    pub utc_offset: i64,
    /// The largest observed: UTC is adjusted while a program runs.
    pub utc_offset_max: i64,
    /// Comparisons with rank 0.
    pub points: Vec<Point>,
}

/// How long the last records of ranks that have ended are waited for: an agent sends a batch a second.
const ARRIVAL: Duration = Duration::from_millis(3_000);
const AGAIN: Duration = Duration::from_millis(200);

/// A job that ended longer ago has all that will come.
const JUST_NOW: Duration = Duration::from_secs(30);

/// The year 2255, milliseconds since 1970: the server takes no later time.
const LAST_MS: i64 = 9_000_000_000_000;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub number: i64,
    pub thread: i32,
    pub kind: String,
    pub operation: String,
    pub region: String,
    pub start: i64,
    pub end: i64,
    pub peer: Option<i32>,
    pub tag: Option<i32>,
    pub bytes: Option<i64>,
    pub comm: Option<i64>,
    pub sequence: Option<i64>,
}

/// The traced processes of a job, by rank.
///
/// # Errors
/// See [`crate::Error`].
pub fn ranks(server: &Server, key: &str) -> Result<Vec<TracedRank>, Failure> {
    let traced: TracedRanks = server.get(&["jobs", key, "trace"], &[])?;
    let ranks = traced.ranks.into_iter().map(|rank| TracedRank {
        rank: rank.rank,
        epoch_us: rank.epoch_us,
        host: rank.host,
        records: rank.records,
        calls: rank.calls,
        lost: rank.lost,
        ending: rank.ending,
        first: rank.first_ns,
        last: rank.last_ns,
        utc_offset: rank.utc_offset_ns,
        utc_offset_max: rank.utc_offset_max_ns,
        points: points(rank.comparisons),
    });
    Ok(ranks.collect())
}

/// The same as soon as all that ranks sent is there: a rank's last records are stored a second or two after its end. Of a job
/// that runs on, what there is.
///
/// # Errors
/// See [`crate::Error`].
pub fn all_of(server: &Server, key: &str) -> Result<Vec<TracedRank>, Failure> {
    let begin = Instant::now();
    loop {
        let ranks = ranks(server, key)?;
        let is_whole = !ranks.is_empty() && ranks.iter().all(|rank| rank.ending.is_some());
        // Most jobs are not traced.
        let patience = if ranks.is_empty() { ARRIVAL / 3 } else { ARRIVAL };
        if is_whole || begin.elapsed() >= patience || !has_been_running(server, key)? {
            return Ok(ranks);
        }
        std::thread::sleep(AGAIN);
    }
}

/// Whether the job runs, or did so until a moment ago.
fn has_been_running(server: &Server, key: &str) -> Result<bool, Failure> {
    let detail: JobDetail = server.get(&["jobs", key], &[])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(detail
        .job
        .end_ms
        .is_none_or(|end| now.saturating_sub(end.unsigned_abs().into()) < JUST_NOW.as_millis()))
}

fn points(columns: ComparisonColumns) -> Vec<Point> {
    let ComparisonColumns { number, clock_ns, offset_ns, uncertainty_ns } = columns;
    let bounds = offset_ns.into_iter().zip(uncertainty_ns);
    let points = number.into_iter().zip(clock_ns).zip(bounds);
    points
        .map(|((number, clock), (offset, uncertainty))| Point { number, clock, offset, uncertainty })
        .collect()
}

/// A range of a rank's own clock, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Records that end before are left out.
    pub from: i64,
    /// Records that begin after are left out.
    pub to: i64,
}

/// Records of one process, in the order of their numbers. One page of them is in memory.
pub fn records<'a>(
    server: &'a Server,
    key: &'a str,
    of: &'a TracedRank,
    range: Range,
) -> impl Iterator<Item = Result<Record, Failure>> + 'a {
    let mut next = Some(-1);
    std::iter::from_fn(move || {
        let after = next.take()?;
        Some(match page(server, key, of, range, after) {
            Ok(page) => {
                next = page.next;
                rows(page.records).into_iter().map(Ok).collect()
            }
            Err(failure) => vec![Err(failure)],
        })
    })
    .flatten()
}

fn page(
    server: &Server,
    key: &str,
    of: &TracedRank,
    range: Range,
    after: i64,
) -> Result<TraceRecords, Failure> {
    let mut numbers =
        vec![("epoch_us", of.epoch_us), ("from_ns", range.from), ("to_ns", range.to), ("next", after)];
    // Records may have come since the list of ranks was made: no bound but a wanted one leaves any of them out.
    if range.to < i64::MAX {
        // Times are stored to the microsecond below.
        let to_ms = range.to.saturating_add(of.utc_offset_max) / 1_000_000 + 1;
        numbers.push(("to", to_ms.clamp(0, LAST_MS)));
    }
    let numbers: Vec<(&str, String)> =
        numbers.into_iter().map(|(name, number)| (name, number.to_string())).collect();
    let query: Vec<(&str, &str)> = numbers.iter().map(|(name, number)| (*name, number.as_str())).collect();
    Ok(server.get(&["jobs", key, "trace", &of.rank.to_string()], &query)?)
}

/// Columns to rows. Columns of another length than the first are an answer that is cut: what is whole is taken.
fn rows(columns: RecordColumns) -> Vec<Record> {
    let names = columns.kind.into_iter().zip(columns.operation).zip(columns.region);
    let times = columns.start_ns.into_iter().zip(columns.end_ns);
    let message = columns.peer.into_iter().zip(columns.tag).zip(columns.bytes);
    let identity = columns.comm.into_iter().zip(columns.sequence);
    let all = columns.number.into_iter().zip(columns.thread).zip(names).zip(times).zip(message).zip(identity);
    all.map(
        |(
            ((((number, thread), ((kind, operation), region)), (start, end)), ((peer, tag), bytes)),
            (comm, sequence),
        )| {
            Record { number, thread, kind, operation, region, start, end, peer, tag, bytes, comm, sequence }
        },
    )
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_rows() {
        let columns = RecordColumns {
            number: vec![4, 6],
            thread: vec![0, 1],
            kind: vec!["send".into(), "call".into()],
            operation: vec!["isend".into(), "barrier".into()],
            region: vec!["".into(), "solve".into()],
            start_ns: vec![10, 20],
            end_ns: vec![11, 29],
            peer: vec![Some(3), None],
            tag: vec![Some(-1), None],
            bytes: vec![Some(64), None],
            comm: vec![Some(1), Some(2)],
            sequence: vec![Some(9), None],
        };
        let rows = rows(columns);
        assert_eq!((rows.len(), rows[0].peer, rows[1].operation.as_str()), (2, Some(3), "barrier"));
        assert_eq!((rows[1].number, rows[1].start, rows[1].end, rows[1].sequence), (6, 20, 29, None));
    }
}
