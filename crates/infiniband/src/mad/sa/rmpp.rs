//! RMPP, the transfer of one message in many MADs (IBTA volume 1, 13.6): the receiving side, as a state machine.
//!
//! For layers below that hand over single segments; the kernel puts messages together itself and shows none of
//! this. Segments are taken in their order; one out of order is dropped and the last good one acknowledged
//! again, so that the sender goes back to it. Pure: no I/O, no clock.

use super::{DATA_BYTES, HEADER_BYTES};
use crate::mad::{MAD_BYTES, Mad, be32};

/// Only version (13.6.2.1).
pub const VERSION: u8 = 1;
/// Type of a segment with data.
pub const TYPE_DATA: u8 = 1;
/// Type of an acknowledgement.
pub const TYPE_ACK: u8 = 2;
/// Type of "no resources, stop".
pub const TYPE_STOP: u8 = 3;
/// Type of "given up because of an error".
pub const TYPE_ABORT: u8 = 4;
/// Flag: this header is meaningful.
pub const FLAG_ACTIVE: u8 = 1;
/// Flag: first segment.
pub const FLAG_FIRST: u8 = 2;
/// Flag: last segment.
pub const FLAG_LAST: u8 = 4;
/// Abort status: the message is longer than what is taken (13.6.2.2, "too many retries" and others aside).
pub const STATUS_UNSPECIFIED: u8 = 127;
/// Abort status: a segment number where none should be.
pub const STATUS_INCONSISTENT: u8 = 119;
/// Segments that may be sent ahead of an acknowledgement. The kernel's receive queue of 512 allows 64 as well.
pub const WINDOW: u32 = 64;
/// Bytes that PayloadLength counts in each segment besides data: the SA header.
const CLASS_HEADER_BYTES: usize = 20;

/// The RMPP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version.
    pub version: u8,
    /// Type.
    pub kind: u8,
    /// Flags, without the response time.
    pub flags: u8,
    /// Status; 0 in data.
    pub status: u8,
    /// Segment number from 1.
    pub segment: u32,
    /// Data: payload length. Acknowledgement: last segment that may be sent.
    pub length_or_window: u32,
}

impl Header {
    /// Reads it from a MAD; bytes beyond the end read as 0.
    #[must_use]
    pub fn read(mad: &[u8]) -> Header {
        let byte = |at: usize| mad.get(at).copied().unwrap_or(0);
        Header {
            version: byte(24),
            kind: byte(25),
            flags: byte(26) & 0x07,
            status: byte(27),
            segment: be32(mad, 28),
            length_or_window: be32(mad, 32),
        }
    }

    /// Writes it into a MAD.
    pub fn write(&self, mad: &mut Mad) {
        mad[24..28].copy_from_slice(&[self.version, self.kind, self.flags, self.status]);
        mad[28..32].copy_from_slice(&self.segment.to_be_bytes());
        mad[32..36].copy_from_slice(&self.length_or_window.to_be_bytes());
    }

    /// Whether the message is sent by RMPP.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.flags & FLAG_ACTIVE != 0
    }

    /// Whether this is one of several segments, or the only one, of a message that nobody put together yet:
    /// `length` is that of the MAD with its headers.
    #[must_use]
    pub const fn is_segment(&self, length: usize) -> bool {
        let is_data = self.is_active() && self.kind == TYPE_DATA && self.segment != 0;
        // A whole message says FIRST as its first segment did. It is longer than a MAD, or says LAST as well.
        is_data && length <= MAD_BYTES && self.flags & (FLAG_FIRST | FLAG_LAST) != FLAG_FIRST | FLAG_LAST
    }
}

/// What to do after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; more segments are on their way.
    Wait,
    /// Send an acknowledgement.
    Acknowledge,
    /// Send an acknowledgement; the message is whole.
    Complete,
    /// Send an abort with this status; the message is lost.
    Abort(u8),
    /// The sender gave up.
    Stopped,
}

/// Receives one message.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Headers of the first segment, then data.
    message: Vec<u8>,
    /// Last segment that came in order.
    last: u32,
    /// Last segment that the sender may send.
    window_end: u32,
    is_complete: bool,
    bytes_max: usize,
}

impl Receiver {
    /// For a message of at most this many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Receiver {
        Receiver { message: Vec::new(), last: 0, window_end: 1, is_complete: false, bytes_max }
    }

    /// Takes one MAD of the message.
    pub fn take(&mut self, mad: &[u8]) -> Step {
        let header = Header::read(mad);
        if !header.is_active() || self.is_complete && header.kind != TYPE_DATA {
            return Step::Wait;
        }
        match header.kind {
            TYPE_DATA => self.data(mad, &header),
            TYPE_STOP | TYPE_ABORT => Step::Stopped,
            _ => Step::Wait,
        }
    }

    fn data(&mut self, mad: &[u8], header: &Header) -> Step {
        if header.segment == 0 || (header.segment == 1) != (header.flags & FLAG_FIRST != 0) {
            return Step::Abort(STATUS_INCONSISTENT);
        }
        if self.is_complete || header.segment != self.last + 1 {
            // Out of order, or a repetition: say again what is here.
            return Step::Acknowledge;
        }
        let is_last = header.flags & FLAG_LAST != 0;
        let sent = mad.get(HEADER_BYTES..).unwrap_or_default();
        let sent = &sent[..sent.len().min(DATA_BYTES)];
        let payload = (header.length_or_window as usize).saturating_sub(CLASS_HEADER_BYTES);
        // In the last segment the length is exact; a length beyond the segment means that it is full.
        let data = if is_last { &sent[..payload.min(sent.len())] } else { sent };
        if self.message.len() + HEADER_BYTES + data.len() > self.bytes_max {
            return Step::Abort(STATUS_UNSPECIFIED);
        }
        if self.message.is_empty() {
            self.message.extend_from_slice(&mad[..HEADER_BYTES.min(mad.len())]);
            self.message.resize(HEADER_BYTES, 0);
        }
        self.message.extend_from_slice(data);
        self.last = header.segment;
        self.is_complete = is_last;
        if is_last {
            Step::Complete
        } else if self.last >= self.window_end {
            self.window_end = self.last.saturating_add(WINDOW);
            Step::Acknowledge
        } else {
            Step::Wait
        }
    }

    /// Writes the acknowledgement of what has come. `segment` is any segment of the message.
    pub fn acknowledge(&self, mad: &mut Mad, segment: &[u8]) {
        self.control(mad, segment, TYPE_ACK, 0);
    }

    /// Writes an abort.
    pub fn abort(&self, mad: &mut Mad, segment: &[u8], status: u8) {
        self.control(mad, segment, TYPE_ABORT, status);
    }

    fn control(&self, mad: &mut Mad, segment: &[u8], kind: u8, status: u8) {
        mad.fill(0);
        let headers = &segment[..HEADER_BYTES.min(segment.len())];
        mad[..headers.len()].copy_from_slice(headers);
        // To the one who answers it is a request again (as the kernel's RMPP does).
        mad[3] ^= super::METHOD_RESPONSE;
        let window = if self.is_complete { self.last } else { self.window_end };
        let header = Header {
            version: VERSION,
            kind,
            flags: FLAG_ACTIVE,
            status,
            segment: self.last,
            length_or_window: window,
        };
        header.write(mad);
    }

    /// The message: headers of its first segment, then the data of all that came in order.
    #[must_use]
    pub fn into_message(self) -> Vec<u8> {
        self.message
    }
}
