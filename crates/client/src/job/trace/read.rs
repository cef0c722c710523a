//! What the server has of a traced job. Requests only.

use super::align::Point;
use crate::Server;
use throughline_api::trace::{ComparisonColumns, RecordColumns, TraceRecords, TracedRanks};
use throughline_daemon::Failure;

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
        first: rank.first_ns,
        last: rank.last_ns,
        utc_offset: rank.utc_offset_ns,
        utc_offset_max: rank.utc_offset_max_ns,
        points: points(rank.comparisons),
    });
    Ok(ranks.collect())
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
    pub until: i64,
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
    // Times are stored to the microsecond below.
    let until_us = range.until.min(of.last).saturating_add(of.utc_offset_max) / 1_000 + 1;
    let numbers = [
        ("epoch_us", of.epoch_us),
        ("from_ns", range.from),
        ("until_ns", range.until),
        ("until_us", until_us.max(0)),
        ("after", after),
    ];
    let numbers = numbers.map(|(name, number)| (name, number.to_string()));
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
