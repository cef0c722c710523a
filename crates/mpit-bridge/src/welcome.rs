//! What the agent answers a HELLO, as bytes. Pure; the frame's layout is in `protocol/README.md`.

use crate::frame::{HEADER_BYTES, MAGIC, VERSION, WELCOME};

/// What the agent wants of the shims on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Length of a bin in milliseconds.
    pub bin_milliseconds: Option<u32>,
    /// Time between pushes in milliseconds.
    pub push_milliseconds: Option<u32>,
    /// Performance variables to read; `None` leaves the shim's own choice, an empty list reads none.
    pub variables: Option<Vec<String>>,
    /// Peers with fewer bytes are sent only at the end.
    pub peer_bytes: Option<u64>,
    /// Whether messages that really went are reported too; `None` leaves it to the program's environment.
    pub wire: Option<bool>,
    /// Who may trace.
    pub trace: Option<Tracing>,
    /// Most trace records of a rank in a second.
    pub trace_records_per_second: Option<u64>,
    /// Most trace records of a job; each rank has its share of them.
    pub trace_records_of_job: Option<u64>,
}

/// Who may trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Nobody, even on request.
    Never = 0,
    /// Programs whose environment requests it.
    Requested = 1,
    /// Every program.
    Always = 2,
}

impl Welcome {
    /// The frame's bytes.
    #[must_use]
    pub fn encode(&self, sequence: u32, monotonic: i64, realtime: i64) -> Vec<u8> {
        let mut body = Vec::new();
        let mut field = |tag: u16, data: &[u8]| {
            // A list of names too long for a field is cut by `Config`'s check long before.
            let length = u16::try_from(data.len()).unwrap_or(0);
            body.extend_from_slice(&tag.to_le_bytes());
            body.extend_from_slice(&length.to_le_bytes());
            body.extend_from_slice(&data[..usize::from(length)]);
        };
        if let Some(value) = self.bin_milliseconds {
            field(1, &value.to_le_bytes());
        }
        if let Some(value) = self.push_milliseconds {
            field(2, &value.to_le_bytes());
        }
        if let Some(names) = &self.variables {
            field(3, names.join(",").as_bytes());
        }
        if let Some(value) = self.peer_bytes {
            field(4, &value.to_le_bytes());
        }
        if let Some(value) = self.wire {
            field(5, &u32::from(value).to_le_bytes());
        }
        if let Some(value) = self.trace {
            field(16, &(value as u32).to_le_bytes());
        }
        if let Some(value) = self.trace_records_per_second {
            field(17, &value.to_le_bytes());
        }
        if let Some(value) = self.trace_records_of_job {
            field(18, &value.to_le_bytes());
        }
        frame(WELCOME, sequence, monotonic, realtime, &body)
    }
}

/// A frame's bytes.
pub(crate) fn frame(kind: u16, sequence: u32, monotonic: i64, realtime: i64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    // Bodies are a few hundred bytes.
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&monotonic.to_le_bytes());
    bytes.extend_from_slice(&realtime.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}
