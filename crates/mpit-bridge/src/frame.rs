//! Frames of the shim's protocol: reading what ranks send, writing what the agent answers.
//!
//! Pure functions over bytes. A reader never trusts a length, never allocates more than the message holds, and
//! says why it refused. What the words mean is in `protocol/README.md`.

use crate::status::Malformed;

/// First four bytes of each frame: `TLM1`.
pub const MAGIC: u32 = 0x314d_4c54;
/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 32;
/// Longest frame.
pub const FRAME_BYTES: usize = 60 * 1024;
/// Longest name of a performance variable.
const VARIABLE_NAME_BYTES: usize = 127;
/// Classes above this one would not fit 63 bits.
const SIZE_CLASS_MAX: u16 = 63;

const HELLO: u16 = 1;
const WELCOME: u16 = 2;
const OPS: u16 = 3;
const PEERS: u16 = 4;
const PVARS: u16 = 5;
const STATUS: u16 = 6;
const BYE: u16 = 7;

/// What each frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the frame among those its process tried to send.
    pub sequence: u32,
    /// The sender's CLOCK_MONOTONIC in nanoseconds when it sent.
    pub monotonic: i64,
    /// The sender's CLOCK_REALTIME in nanoseconds when it sent.
    pub realtime: i64,
}

/// One cell of a bin: sums since the rank's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number of the operation.
    pub operation: u16,
    /// Largest message of its size class, in bytes.
    pub size_class_bytes: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes handed over for sending.
    pub bytes: u64,
    /// Time inside the operation.
    pub elapsed_nanoseconds: u64,
    /// Longest single call.
    pub longest_nanoseconds: u64,
}

/// One time bin of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Its end on the sender's CLOCK_MONOTONIC, nanoseconds.
    pub end: i64,
    /// Cells that changed in it.
    pub cells: Vec<Cell>,
}

/// Traffic to one peer since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Rank in `MPI_COMM_WORLD`.
    pub peer: u32,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// One performance variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name in MPI_T.
    pub name: String,
    /// Its class, as MPI_T calls it.
    pub class: &'static str,
    /// Index and value of each element listed.
    pub elements: Vec<(u32, f64)>,
}

/// One tagged field of a HELLO, STATUS or BYE.
pub type Field<'a> = (u16, &'a [u8]);

/// A frame's content.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// Who the rank is.
    Hello(Vec<Field<'a>>),
    /// Bins of operations.
    Ops(Vec<Bin>),
    /// Traffic to peers, and the time of it on the sender's CLOCK_MONOTONIC.
    Peers(i64, Vec<Peer>),
    /// Performance variables, and the time of reading.
    Pvars(i64, Vec<Variable>),
    /// Figures about the shim.
    Status(Vec<Field<'a>>),
    /// The end, with figures about the shim.
    Bye(Vec<Field<'a>>),
    /// A type that this version does not know; to be skipped.
    Unknown(u16),
}

/// Reads one message.
///
/// # Errors
/// What is wrong with it. Nothing of a frame that is wrong in one place is taken.
pub fn decode(message: &[u8]) -> Result<(Header, Frame<'_>), Malformed> {
    if message.len() > FRAME_BYTES {
        return Err(Malformed::TooLong);
    }
    let mut reader = Reader(message);
    if reader.u32().map_err(|_| Malformed::Short)? != MAGIC {
        return Err(Malformed::Magic);
    }
    if reader.u16().map_err(|_| Malformed::Short)? != VERSION {
        return Err(Malformed::Version);
    }
    let kind = reader.u16().map_err(|_| Malformed::Short)?;
    let length = reader.u32().map_err(|_| Malformed::Short)?;
    let sequence = reader.u32().map_err(|_| Malformed::Short)?;
    let monotonic = reader.i64().map_err(|_| Malformed::Short)?;
    let realtime = reader.i64().map_err(|_| Malformed::Short)?;
    if usize::try_from(length) != Ok(message.len()) {
        return Err(Malformed::Length);
    }
    let frame = match kind {
        HELLO => Frame::Hello(reader.fields()?),
        OPS => Frame::Ops(reader.bins()?),
        PEERS => Frame::Peers(reader.i64()?, reader.peers()?),
        PVARS => Frame::Pvars(reader.i64()?, reader.variables()?),
        STATUS => Frame::Status(reader.fields()?),
        BYE => Frame::Bye(reader.fields()?),
        // The agent's own word, from a rank.
        WELCOME => return Err(Malformed::Type),
        other => Frame::Unknown(other),
    };
    Ok((Header { sequence, monotonic, realtime }, frame))
}

/// The value of a numeric field: little-endian, 1 to 8 bytes.
///
/// # Errors
/// The field has no bytes or too many.
pub fn number(data: &[u8]) -> Result<u64, Malformed> {
    if data.is_empty() || data.len() > 8 {
        return Err(Malformed::Field);
    }
    Ok(data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::Body)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        // `take` gives exactly N bytes, so the conversion can't fail.
        self.take(N)?.try_into().map_err(|_| Malformed::Body)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn fields(&mut self) -> Result<Vec<Field<'a>>, Malformed> {
        let mut fields = Vec::new();
        while !self.0.is_empty() {
            let (tag, length) = (self.u16()?, self.u16()?);
            fields.push((tag, self.take(usize::from(length))?));
        }
        Ok(fields)
    }

    fn bins(&mut self) -> Result<Vec<Bin>, Malformed> {
        let mut bins = Vec::new();
        while !self.0.is_empty() {
            let (end, count, _) = (self.i64()?, self.u32()?, self.u32()?);
            let mut cells = Vec::new();
            for _ in 0..count {
                cells.push(self.cell()?);
            }
            bins.push(Bin { end, cells });
        }
        Ok(bins)
    }

    fn cell(&mut self) -> Result<Cell, Malformed> {
        let (operation, class, _) = (self.u16()?, self.u16()?, self.u32()?);
        if class > SIZE_CLASS_MAX {
            return Err(Malformed::Body);
        }
        Ok(Cell {
            operation,
            size_class_bytes: if class == 0 { 0 } else { 1 << (class - 1) },
            calls: self.u64()?,
            bytes: self.u64()?,
            elapsed_nanoseconds: self.u64()?,
            longest_nanoseconds: self.u64()?,
        })
    }

    fn peers(&mut self) -> Result<Vec<Peer>, Malformed> {
        let mut peers = Vec::new();
        while !self.0.is_empty() {
            let (peer, kind) = (self.u32()?, self.u32()?);
            let (bytes, messages) = (self.u64()?, self.u64()?);
            if kind == 0 {
                peers.push(Peer { peer, bytes, messages });
            }
        }
        Ok(peers)
    }

    fn variables(&mut self) -> Result<Vec<Variable>, Malformed> {
        let mut variables = Vec::new();
        while !self.0.is_empty() {
            let length = usize::from(self.u16()?);
            let name = variable_name(self.take(length)?)?;
            let (class, count) = (class_name(self.u16()?)?, self.u32()?);
            let mut elements = Vec::new();
            for _ in 0..count {
                elements.push((self.u32()?, f64::from_bits(self.u64()?)));
            }
            variables.push(Variable { name, class, elements });
        }
        Ok(variables)
    }
}

/// MPI_T names are C identifiers, with dots and dashes in some libraries.
fn variable_name(bytes: &[u8]) -> Result<String, Malformed> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':');
    if bytes.is_empty() || bytes.len() > VARIABLE_NAME_BYTES || !bytes.iter().all(fits) {
        return Err(Malformed::Body);
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn class_name(class: u16) -> Result<&'static str, Malformed> {
    const CLASSES: [&str; 10] = [
        "state",
        "level",
        "size",
        "percentage",
        "highwatermark",
        "lowwatermark",
        "counter",
        "aggregate",
        "timer",
        "generic",
    ];
    CLASSES.get(usize::from(class)).copied().ok_or(Malformed::Body)
}

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
        frame(WELCOME, sequence, monotonic, realtime, &body)
    }
}

fn frame(kind: u16, sequence: u32, monotonic: i64, realtime: i64, body: &[u8]) -> Vec<u8> {
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

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
