//! Frames of calls that threads are in for long. As pure and as careful as `frame.rs`, which this is part of.

use crate::status::Malformed;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 48;
/// Numbers from here on are no ranks: any source, none.
const ANY: u32 = u32::MAX - 1;
/// Number of the communicator's name where it is `MPI_COMM_WORLD`.
const IN_WORLD: u32 = u32::MAX;

/// The communicator of an open call, as far as the shim knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenOn {
    /// None, or one without a name.
    Unnamed,
    /// `MPI_COMM_WORLD`.
    World,
    /// By the number of its name, as in a frame of names.
    Named(u32),
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Number of the operation.
    pub operation: u16,
    /// Number of the thread.
    pub thread: u16,
    /// Number of the operation that began the request that it waits for, of several the thread's oldest one; 0: none is pending.
    pub oldest_request: u16,
    /// When it began, on the sender's CLOCK_MONOTONIC, nanoseconds.
    pub start: i64,
    /// Its communicator.
    pub on: OpenOn,
    /// Members of the communicator; `None`: not known.
    pub comm_size: Option<u32>,
    /// Rank in `MPI_COMM_WORLD` that it names: destination, source or root.
    pub peer: Option<u32>,
    /// It takes a message of any source.
    pub is_from_any: bool,
    /// Tag of its message; `None`: any, or it has none.
    pub tag: Option<u32>,
    /// Requests that it waits for or tests.
    pub requests: u32,
    /// Rank that the oldest request names.
    pub oldest_peer: Option<u32>,
    /// Tag that the oldest request names.
    pub oldest_tag: Option<u32>,
    /// The thread's pending requests.
    pub pending_requests: u32,
}

/// Calls of a rank that go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls {
    /// Its threads that have called MPI and go on.
    pub threads: u32,
    /// Its threads that were started since MPI_Init, have not called MPI, and may.
    pub threads_to_come: u32,
    /// One of each thread that is in a call for long.
    pub calls: Vec<OpenCall>,
}

/// Reads a body without its time.
pub(crate) fn open_calls(body: &[u8]) -> Result<OpenCalls, Malformed> {
    let (threads, entries) = body.split_at_checked(8).ok_or(Malformed::Body)?;
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(Malformed::Body);
    }
    Ok(OpenCalls {
        threads: number(&threads[..4]) as u32,
        threads_to_come: number(&threads[4..]) as u32,
        calls: entries.iter().map(open_call).collect(),
    })
}

fn open_call(entry: &[u8; ENTRY_BYTES]) -> OpenCall {
    let small = |at: usize| number(&entry[at..at + 2]) as u16;
    let word = |at: usize| number(&entry[at..at + 4]) as u32;
    OpenCall {
        operation: small(0),
        thread: small(2),
        oldest_request: small(4),
        start: number(&entry[8..16]).cast_signed(),
        on: match word(16) {
            0 => OpenOn::Unnamed,
            IN_WORLD => OpenOn::World,
            named => OpenOn::Named(named),
        },
        comm_size: Some(word(20)).filter(|size| *size > 0),
        peer: Some(word(24)).filter(|peer| *peer < ANY),
        is_from_any: word(24) == ANY,
        pending_requests: word(28),
        // Negative ones are any, and none.
        tag: Some(word(32)).filter(|tag| tag.cast_signed() >= 0),
        requests: word(36),
        oldest_peer: Some(word(40)).filter(|peer| *peer < ANY),
        oldest_tag: Some(word(44)).filter(|tag| tag.cast_signed() >= 0),
    }
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_whole() {
        assert_eq!(open_calls(&[0; 8]), Ok(OpenCalls::default()));
        for length in [0, 7, 8 + ENTRY_BYTES - 1] {
            assert_eq!(open_calls(&vec![0; length]), Err(Malformed::Body), "{length}");
        }
        let all = open_calls(&[0xff; 8 + 2 * ENTRY_BYTES]).unwrap().calls;
        assert_eq!((all.len(), all[1].on, all[1].peer, all[1].start), (2, OpenOn::World, None, -1));
        assert_eq!((all[1].tag, all[1].is_from_any), (None, false));
    }
}
