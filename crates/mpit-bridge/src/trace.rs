//! Trace mode: frames of records and of comparisons of clocks, and what becomes of them.
//!
//! Pure functions over bytes and times. Times stay on the clock of the rank: the agent's own would add its
//! corrections to them, and the reader of the trace lines up the clocks.

use crate::status::Malformed;
use throughline_sample::wire::{MpiClockPoint, MpiTraceRecord};

/// Bytes of one record in a TRACE frame.
const RECORD_BYTES: usize = 56;
/// Bytes of one comparison in a CLOCK frame.
const POINT_BYTES: usize = 32;
/// Longest time of one record: a month inside one call is a broken clock.
const LONGEST_NANOSECONDS: i64 = 31 * 86_400 * 1_000_000_000;

/// One record as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind of the record.
    pub kind: Kind,
    /// Beginning, on the rank's own CLOCK_MONOTONIC, nanoseconds.
    pub start: i64,
    /// End, not before the beginning.
    pub end: i64,
    /// Name of the communicator in numbers, the same in all its members; 0 where it is not known.
    pub comm: u64,
    /// Bytes handed over or received.
    pub bytes: u64,
    /// Rank in `MPI_COMM_WORLD` of the other side, or the root.
    pub peer: Option<u32>,
    /// Tag of a message.
    pub tag: i32,
    /// Running count of the message among those of its source, destination, communicator and tag.
    pub sequence: Option<u32>,
    /// Number of the operation.
    pub operation: u16,
    /// Thread of the rank, from 0.
    pub thread: u16,
    /// Number of the innermost region, 0 outside of all.
    pub region: u16,
}

/// What a record reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call that is no message.
    Call,
    /// A call that sent one message.
    Send,
    /// A call that received one message.
    Receive,
    /// A message that another call requested and a later one saw complete: from the one to the other.
    Arrival,
    /// One of several messages sent by a call.
    Departure,
    /// Nothing follows: the rank's limit is reached, where its bytes are 0, or the rank has ended.
    End,
}

impl Kind {
    fn of(number: u16) -> Result<Self, Malformed> {
        use Kind::{Arrival, Call, Departure, End, Receive, Send};
        const KINDS: [Kind; 6] = [Call, Send, Receive, Arrival, Departure, End];
        let at = usize::from(number).checked_sub(1).ok_or(Malformed::Body)?;
        KINDS.get(at).copied().ok_or(Malformed::Body)
    }

    /// The word in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Arrival => "arrival",
            Self::Departure => "departure",
            Self::End => "end",
        }
    }

    fn is_message(self) -> bool {
        !matches!(self, Self::Call | Self::End)
    }
}

/// Records of one rank, numbered one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Number of the first one. A gap before it is what was lost.
    pub number: u64,
    /// The records.
    pub records: Vec<Record>,
}

impl Trace {
    /// Takes away what follows the record after which nothing follows, in this frame or in those before; gives how many.
    pub(crate) fn cut_after_end(&mut self, has_ended: &mut bool) -> u64 {
        let last = self.records.iter().position(|record| record.kind == Kind::End);
        let fitting = if *has_ended { 0 } else { last.map_or(self.records.len(), |last| last + 1) };
        *has_ended |= last.is_some();
        let cut = self.records.len() - fitting;
        self.records.truncate(fitting);
        cut as u64
    }
}

/// One comparison of the rank's clock with rank 0's, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When, on the rank's own clock.
    pub time: i64,
    /// To be added to it for rank 0's.
    pub offset: i64,
    /// The offset is not wrong by more.
    pub uncertainty: i64,
    /// From the request to the answer.
    pub round_trip: i64,
}

/// Comparisons of one rank, numbered one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparisons {
    /// Number of the first one.
    pub number: u64,
    /// The comparisons.
    pub points: Vec<Point>,
}

/// Little-endian numbers of one fixed record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes. Callers take no more than the record has.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Body)?;
        self.0 = rest;
        Ok(*front)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, Malformed> {
        self.take().map(i64::from_le_bytes)
    }
}

/// The number at the front and the records behind it, each of `bytes`.
fn numbered<T>(
    body: &[u8],
    bytes: usize,
    read: fn(&mut Fields<'_>) -> Result<T, Malformed>,
) -> Result<(u64, Vec<T>), Malformed> {
    let (number, rest) = body.split_first_chunk().ok_or(Malformed::Body)?;
    let records = rest.chunks_exact(bytes);
    if !records.remainder().is_empty() {
        return Err(Malformed::Body);
    }
    let records = records.map(|record| read(&mut Fields(record))).collect::<Result<_, _>>()?;
    Ok((u64::from_le_bytes(*number), records))
}

/// Reads the body of a TRACE frame.
///
/// # Errors
/// Its length is not one of whole records, or one of them is impossible.
pub fn trace(body: &[u8]) -> Result<Trace, Malformed> {
    let (number, records) = numbered(body, RECORD_BYTES, record)?;
    Ok(Trace { number, records })
}

fn record(fields: &mut Fields<'_>) -> Result<Record, Malformed> {
    let (start, end) = (fields.i64()?, fields.i64()?);
    let (comm, bytes) = (fields.u64()?, fields.u64()?);
    let (peer, tag, sequence) = (fields.i32()?, fields.i32()?, fields.i32()?);
    let (operation, kind) = (fields.u16()?, Kind::of(fields.u16()?)?);
    let (thread, region) = (fields.u16()?, fields.u16()?);
    if start < 0 || end.checked_sub(start).is_none_or(|length| length > LONGEST_NANOSECONDS) {
        return Err(Malformed::Body);
    }
    Ok(Record {
        kind,
        start,
        // Ticks are turned into times frame by frame: one that began in an earlier frame may come out a trifle late.
        end: end.max(start),
        comm,
        bytes,
        peer: u32::try_from(peer).ok(),
        tag,
        sequence: u32::try_from(sequence).ok(),
        operation,
        thread,
        region,
    })
}

/// Reads the body of a CLOCK frame.
///
/// # Errors
/// Its length is not one of whole comparisons, or one of them is impossible.
pub fn comparisons(body: &[u8]) -> Result<Comparisons, Malformed> {
    let (number, points) = numbered(body, POINT_BYTES, point)?;
    Ok(Comparisons { number, points })
}

fn point(fields: &mut Fields<'_>) -> Result<Point, Malformed> {
    let (time, offset) = (fields.i64()?, fields.i64()?);
    let (uncertainty, round_trip) = (fields.i64()?, fields.i64()?);
    if time < 0 || uncertainty < 0 || round_trip < 0 || time.checked_add(offset).is_none() {
        return Err(Malformed::Body);
    }
    Ok(Point { time, offset, uncertainty, round_trip })
}

impl Record {
    /// The record for the store. `operation` and `region` are what its numbers mean.
    pub(crate) fn to_wire(self, operation: &str, region: &str) -> MpiTraceRecord {
        let is_message = self.kind.is_message();
        MpiTraceRecord {
            kind: self.kind.name().to_owned(),
            operation: operation.to_owned(),
            start: self.start,
            // Not before the start, see `record`.
            nanoseconds: u64::try_from(self.end - self.start).unwrap_or(0),
            thread: u32::from(self.thread),
            region: region.to_owned(),
            peer: self.peer,
            tag: is_message.then_some(self.tag),
            bytes: self.bytes,
            comm: self.comm,
            sequence: self.sequence.filter(|_| is_message),
        }
    }
}

impl From<Point> for MpiClockPoint {
    fn from(point: Point) -> Self {
        let Point { time, offset, uncertainty, round_trip } = point;
        Self { time, offset, uncertainty, round_trip }
    }
}

#[cfg(test)]
mod tests;
