//! MPI calls that go on, and those in which their ranks were killed.

use std::collections::BTreeMap;
use throughline_api::jobs::OpenCalls;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// A shorter one is what programs do: it is reported once it returns.
const SECONDS_MIN: f64 = 1.0;
/// Most ranks and peers that are named of a group.
const EXAMPLES_MAX: usize = 8;

/// A call that a rank's thread is in, or was killed in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenCall {
    /// The job.
    pub job_id: i64,
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// MPI name without the prefix.
    pub operation: String,
    /// `MPI_COMM_WORLD`, or the name that the program gave it.
    pub comm: Option<String>,
    /// Its members.
    pub comm_size: Option<i32>,
    /// Rank that the call names.
    pub peer: Option<i32>,
    /// Requests of its thread that are pending.
    pub pending_requests: i32,
    /// What began the one that it waits for, of several the oldest of them.
    pub oldest_request: Option<String>,
    /// Rank and tag that it names.
    pub oldest_peer: Option<i32>,
    /// Tag that it names.
    pub oldest_tag: Option<i32>,
    /// Tag of the call's message.
    pub tag: Option<i32>,
    /// It takes a message of any source.
    pub is_from_any: bool,
    /// Requests that it waits for or tests.
    pub requests: i32,
    /// The rank's number of the thread.
    pub thread: i32,
    /// How long it goes on, or went on until the rank's last report.
    pub seconds: f64,
    /// When it began, milliseconds since 1970.
    pub start_ms: i64,
    /// It is a row of tests, each of them counted.
    pub is_counted: bool,
    /// Threads of its rank that have called MPI and are in no call that goes on.
    pub threads_elsewhere: i32,
    /// Threads of its rank that may call MPI and have not.
    pub threads_to_come: i32,
    /// The rank has ended in it.
    pub is_of_ended_rank: bool,
}

const OPEN: &str = "
    SELECT * FROM (
        SELECT job_id, rank, operation, comm, comm_size, peer, pending_requests, oldest_request,
               CASE WHEN rank_end_time IS NULL
                    THEN extract(epoch FROM greatest(now(), reported_at) - start_time)::double precision
                    ELSE seconds END AS seconds,
               rank_end_time IS NOT NULL AS is_of_ended_rank, oldest_peer, oldest_tag, tag, is_from_any, requests, thread,
               (extract(epoch FROM start_time) * 1000)::bigint AS start_ms, is_counted,
               threads_elsewhere, threads_to_come
        FROM internal.mpi_open_calls WHERE job_id = ANY($1)) o
    WHERE seconds >= $2 ORDER BY job_id, rank, seconds DESC";

/// The open calls of some jobs, in the order of jobs and ranks, of a rank the longest first.
///
/// # Errors
/// The database's.
pub async fn of_jobs(client: &Client, ids: &[i64]) -> Result<Vec<OpenCall>, Error> {
    let rows = client
        .query(OPEN, &[&ids, &SECONDS_MIN])
        .await
        .map_err(Error::sql("reading MPI calls that go on"))?;
    let call = |row: &Row| OpenCall {
        job_id: row.get(0),
        rank: row.get(1),
        operation: row.get(2),
        comm: row.get(3),
        comm_size: row.get(4),
        peer: row.get(5),
        pending_requests: row.get(6),
        oldest_request: row.get(7),
        seconds: row.get(8),
        is_of_ended_rank: row.get(9),
        oldest_peer: row.get(10),
        oldest_tag: row.get(11),
        tag: row.get(12),
        is_from_any: row.get(13),
        requests: row.get(14),
        thread: row.get(15),
        start_ms: row.get(16),
        is_counted: row.get(17),
        threads_elsewhere: row.get(18),
        threads_to_come: row.get(19),
    };
    Ok(rows.iter().map(call).collect())
}

/// Calls of one job grouped by operation and communicator, those with most ranks first.
#[must_use]
pub fn grouped(calls: &[OpenCall]) -> Vec<OpenCalls> {
    let mut groups: BTreeMap<_, OpenCalls> = BTreeMap::new();
    for call in calls {
        let key = (&call.operation, &call.comm, call.comm_size, call.is_of_ended_rank);
        let group = groups.entry(key).or_insert_with(|| OpenCalls {
            operation: call.operation.clone(),
            comm: call.comm.clone(),
            comm_size: call.comm_size,
            have_ended: call.is_of_ended_rank,
            is_counted: call.is_counted,
            shortest_seconds: call.seconds,
            ..OpenCalls::default()
        });
        if group.last_rank != Some(call.rank) {
            group.ranks += 1;
            group.last_rank = Some(call.rank);
            if group.examples.len() < EXAMPLES_MAX {
                group.examples.push(call.rank);
            }
        }
        add_to(&mut group.peers, call.peer);
        add_to(&mut group.tags, call.tag);
        group.longest_seconds = group.longest_seconds.max(call.seconds);
        group.shortest_seconds = group.shortest_seconds.min(call.seconds);
        group.pending_requests = group.pending_requests.max(call.pending_requests);
        if group.oldest_request.is_none() {
            group.oldest_request.clone_from(&call.oldest_request);
            (group.oldest_peer, group.oldest_tag) = (call.oldest_peer, call.oldest_tag);
        }
    }
    let mut groups: Vec<OpenCalls> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.ranks));
    groups
}

/// A few of what calls of a group name.
fn add_to(some: &mut Vec<i32>, named: Option<i32>) {
    if let Some(named) = named.filter(|named| !some.contains(named))
        && some.len() < EXAMPLES_MAX
    {
        some.push(named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_the_same_are_one_group() {
        let barrier = |rank, seconds| OpenCall {
            rank,
            operation: "barrier".into(),
            comm: Some("MPI_COMM_WORLD".into()),
            comm_size: Some(4),
            seconds,
            ..OpenCall::default()
        };
        let receive = |peer| OpenCall { operation: "recv".into(), peer: Some(peer), ..barrier(3, 2.0) };
        let killed = OpenCall { is_of_ended_rank: true, ..barrier(5, 88.0) };
        let groups =
            grouped(&[barrier(0, 138.0), barrier(1, 137.5), receive(7), receive(7), receive(2), killed]);
        let of: Vec<_> = groups.iter().map(|group| (group.operation.as_str(), group.ranks)).collect();
        assert_eq!(of, [("barrier", 2), ("barrier", 1), ("recv", 1)]);
        assert_eq!((groups[0].longest_seconds, groups[0].shortest_seconds), (138.0, 137.5));
        assert_eq!((groups[0].examples.as_slice(), groups[0].have_ended), (&[0, 1][..], false));
        assert!(groups[1].have_ended);
        assert_eq!(groups[2].peers, [7, 2]);
    }
}
