//! Records of a trace as calls and messages, as [`crate::exact`] needs them: both sides of a message are found by its identity.

use crate::{TracedCall, TracedMessage};
use std::collections::HashMap;

/// A record of a rank (`mpi_trace`), with its times on the clock of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedRecord {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// call, send, receive, arrival, departure or end.
    pub kind: String,
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// Begin on the rank's own clock, nanoseconds: records of one call have the same.
    pub start_ns: i64,
    /// End on the rank's own clock.
    pub end_ns: i64,
    /// Begin on the clock of all, seconds.
    pub begin: f64,
    /// End on the clock of all.
    pub end: f64,
    /// These two are not wrong by more.
    pub clock_error: f64,
    /// Other side of a message, or root of a collective.
    pub peer: Option<u32>,
    /// Tag of a message.
    pub tag: Option<i32>,
    /// The communicator, by a number that is the same in all its members.
    pub comm: Option<u64>,
    /// Count of the message among those of its source, destination, communicator and tag.
    pub sequence: Option<u64>,
}

/// Collectives in which a member waits for others until it may leave, and whose calls are one record each. Scans are none: a member
/// waits for those before it alone.
fn is_collective(operation: &str) -> bool {
    matches!(
        operation,
        "barrier"
            | "bcast"
            | "scatter"
            | "scatterv"
            | "gather"
            | "gatherv"
            | "allgather"
            | "allgatherv"
            | "alltoall"
            | "alltoallv"
            | "alltoallw"
            | "reduce"
            | "allreduce"
            | "reduce_scatter"
            | "reduce_scatter_block"
    )
}

/// What a message is known by: source, destination, communicator, tag and count.
type Identity = (u32, u32, Option<u64>, Option<i32>, Option<u64>);

/// Calls in the order of their records, and messages with both sides.
#[must_use]
pub fn calls_and_messages(records: &[TracedRecord]) -> (Vec<TracedCall>, Vec<TracedMessage>) {
    let mut calls = Vec::new();
    // A call by its begin, and by its end, where another one's request completed in it.
    let (mut begun, mut ended) = (HashMap::new(), HashMap::new());
    for one in records.iter().filter(|one| matches!(one.kind.as_str(), "call" | "send" | "receive")) {
        begun.insert((one.rank, one.start_ns), calls.len());
        ended.insert((one.rank, one.end_ns), calls.len());
        let is_collective = is_collective(&one.operation);
        calls.push(TracedCall {
            rank: one.rank,
            operation: one.operation.clone(),
            begin: one.begin,
            end: one.end,
            comm: one.comm.filter(|_| is_collective),
            root: one.peer.filter(|_| is_collective),
            clock_error: one.clock_error,
        });
    }
    let mut sends: HashMap<Identity, usize> = HashMap::new();
    for one in records.iter().filter(|one| matches!(one.kind.as_str(), "send" | "departure")) {
        if let Some((to, at)) = one.peer.zip(begun.get(&(one.rank, one.start_ns)).copied()) {
            sends.insert((one.rank, to, one.comm, one.tag, one.sequence), at);
        }
    }
    let received = records.iter().filter(|one| matches!(one.kind.as_str(), "receive" | "arrival"));
    let message = |one: &TracedRecord| {
        let send = *sends.get(&(one.peer?, one.rank, one.comm, one.tag, one.sequence))?;
        Some(TracedMessage {
            send,
            receive: begun.get(&(one.rank, one.start_ns)).copied()?,
            send_completed: None,
            receive_completed: ended.get(&(one.rank, one.end_ns)).copied(),
        })
    };
    let messages = received.filter_map(message).collect();
    (calls, messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_message_are_found_and_the_call_that_saw_it() {
        let one = |rank, kind: &str, operation: &str, start_ns, end_ns| TracedRecord {
            rank,
            kind: kind.into(),
            operation: operation.into(),
            start_ns,
            end_ns,
            ..TracedRecord::default()
        };
        let of = |peer, record: TracedRecord| TracedRecord {
            peer: Some(peer),
            comm: Some(1),
            tag: Some(7),
            sequence: Some(3),
            ..record
        };
        let records = [
            of(1, one(0, "send", "send", 10, 20)),
            one(1, "call", "irecv", 0, 1),
            one(1, "call", "wait", 5, 25),
            of(0, one(1, "arrival", "irecv", 0, 25)),
            // Its send is not there.
            TracedRecord { sequence: Some(4), ..of(0, one(1, "receive", "recv", 30, 31)) },
            TracedRecord { comm: Some(1), peer: Some(0), ..one(1, "call", "bcast", 40, 41) },
        ];
        let (calls, messages) = calls_and_messages(&records);
        assert_eq!(calls.len(), 5);
        let expected =
            TracedMessage { send: 0, receive: 1, send_completed: None, receive_completed: Some(2) };
        assert_eq!(messages, [expected]);
        assert_eq!((calls[4].comm, calls[4].root), (Some(1), Some(0)));
        assert_eq!((calls[0].comm, calls[0].root), (None, None), "a message is no collective");
    }
}
