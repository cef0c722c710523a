//! Frames of the shim's protocol: reading what ranks send. What the agent answers is in `welcome.rs`.
//!
//! Pure functions over bytes. A reader never trusts a length, never allocates more than the message holds, and
//! says why it refused. What the words mean is in `protocol/README.md`.

mod algorithm_source;

pub use algorithm_source::AlgorithmSource;

use crate::account_frame::{self, Account};
use crate::open_frame::{self, OpenCalls};
use crate::status::Malformed;
use crate::trace;
use crate::traffic_frame::{self, Collective, GroupPart, Sample, Traffic};
use throughline_sample::admission::clean_text;

/// First four bytes of each frame: `TLM1`.
pub const MAGIC: u32 = 0x314d_4c54;
/// Version of the protocol.
pub const VERSION: u16 = 2;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 32;
/// Longest frame.
pub const FRAME_BYTES: usize = 60 * 1024;
/// Longest name of a performance variable.
const VARIABLE_NAME_BYTES: usize = 127;
/// Longest name of a region, algorithm or communicator, and longest setting with its value.
const NAME_BYTES: usize = 255;
/// Classes above this one would not fit 63 bits.
const SIZE_CLASS_MAX: u16 = 63;

const HELLO: u16 = 1;
pub(crate) const WELCOME: u16 = 2;
const OPS: u16 = 3;
const PEERS: u16 = 4;
const PVARS: u16 = 5;
const STATUS: u16 = 6;
const BYE: u16 = 7;
pub(crate) const BYPASS: u16 = 20;
const NAMES: u16 = 8;
const REGIONS: u16 = 9;
const TRAFFIC: u16 = 10;
const GROUPS: u16 = 11;
const OWN_GROUPS: u16 = 13;
const OPEN: u16 = 22;
const COLLECTIVES: u16 = 12;
const TRACE: u16 = 16;
const CLOCK: u16 = 17;
const SAMPLES: u16 = 18;
const PATHS: u16 = 19;
const ACCOUNT: u16 = 21;
const DEVICES: u16 = 23;

/// Flag of a cell: something that it began has completed later.
const CELL_HAS_WAIT: u16 = 1;
/// Flag of a cell: something was received.
const CELL_HAS_RECEIVED: u16 = 2;

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
    /// Number of the innermost region, as in a frame of names; 0 outside of all.
    pub region: u16,
    /// Number of the algorithm, as in a frame of names; 0 where it is not known.
    pub algorithm: u16,
    /// How the algorithm is known.
    pub algorithm_source: AlgorithmSource,
    /// Calls.
    pub calls: u64,
    /// Bytes handed over for sending.
    pub bytes: u64,
    /// Time inside the operation.
    pub elapsed_nanoseconds: u64,
    /// Longest single call.
    pub longest_nanoseconds: u64,
    /// What the calls would have taken, had each been as short as the shortest of its bin; `None` where that is not known.
    pub least_nanoseconds: Option<u64>,
    /// From the end of calls to the completion of what they began; `None` where nothing completed later.
    pub wait_nanoseconds: Option<u64>,
    /// What was received; `None` where nothing was.
    pub received_bytes: Option<u64>,
}

/// What a number of this rank means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A region of the program.
    Region(u16, String),
    /// An algorithm of the MPI library.
    Algorithm(u16, String),
    /// A communicator: its number, name, size, and the rank's place in it unless it is an intercommunicator.
    Communicator(u32, String, u32, Option<u32>),
    /// A setting of the MPI library and its value.
    Setting(String, String),
    /// A path of regions: its number, its innermost region, and the path around it, 0 outside of all.
    Path(u16, String, u16),
}

/// Sums of one region, or one path of regions, since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its number among regions, or among paths.
    pub number: u16,
    /// Times entered.
    pub visits: u64,
    /// Time in it, with what is within.
    pub elapsed_nanoseconds: u64,
    /// Time as the innermost one.
    pub own_nanoseconds: u64,
    /// MPI operations as the innermost one.
    pub mpi_calls: u64,
    /// Time in them.
    pub mpi_nanoseconds: u64,
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
    /// How it was counted.
    pub kind: PeerKind,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// What counts as traffic to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// What call arguments say.
    Logical,
    /// Messages that really went, also inside collectives.
    Wire,
    /// What one-sided operations of the sender read from the peer.
    Read,
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
    /// Calls of a process pass by the shim: all that it sends.
    Bypass(Vec<Field<'a>>),
    /// What numbers mean, and the time of reporting.
    Names(i64, Vec<Name>),
    /// Regions that changed, and the time of it.
    Regions(i64, Vec<Region>),
    /// Paths of regions that changed, and the time of it.
    Paths(i64, Vec<Region>),
    /// Traffic by operation and peer, and the time of it.
    Traffic(i64, Vec<Traffic>),
    /// Members of groups.
    Groups(Vec<GroupPart>),
    /// Members of the own groups of intercommunicators.
    OwnGroups(Vec<GroupPart>),
    /// What collectives moved within groups, and the time of it.
    Collectives(i64, Vec<Collective>),
    /// Single calls of collectives within groups.
    Samples(Vec<Sample>),
    /// Calls that threads are in for long, and the time of it.
    Open(i64, OpenCalls),
    /// Where the time of the thread went that called `MPI_Init`.
    Account(Account),
    /// Device files of GPUs that the rank has open.
    Devices(Vec<Field<'a>>),
    /// Trace mode: calls and messages.
    Trace(trace::Trace),
    /// Trace mode: comparisons of the clock with rank 0's.
    Clock(trace::Comparisons),
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
        BYPASS => Frame::Bypass(reader.fields()?),
        NAMES => Frame::Names(reader.i64()?, reader.names()?),
        REGIONS => Frame::Regions(reader.i64()?, reader.regions()?),
        PATHS => Frame::Paths(reader.i64()?, reader.regions()?),
        TRAFFIC => Frame::Traffic(reader.i64()?, traffic_frame::traffic(reader.0)?),
        GROUPS => {
            let _time = reader.i64()?;
            Frame::Groups(traffic_frame::groups(reader.0)?)
        }
        OWN_GROUPS => {
            let _time = reader.i64()?;
            Frame::OwnGroups(traffic_frame::own_groups(reader.0)?)
        }
        COLLECTIVES => Frame::Collectives(reader.i64()?, traffic_frame::collectives(reader.0)?),
        SAMPLES => {
            let _time = reader.i64()?;
            Frame::Samples(traffic_frame::samples(reader.0)?)
        }
        OPEN => Frame::Open(reader.i64()?, open_frame::open_calls(reader.0)?),
        ACCOUNT => Frame::Account(account_frame::account(reader.0)?),
        DEVICES => Frame::Devices(reader.fields()?),
        TRACE => Frame::Trace(trace::trace(reader.0)?),
        CLOCK => Frame::Clock(trace::comparisons(reader.0)?),
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
        let (operation, class) = (self.u16()?, self.u16()?);
        if class > SIZE_CLASS_MAX {
            return Err(Malformed::Body);
        }
        let (region, algorithm, source, flags) = (self.u16()?, self.u16()?, self.u16()?, self.u16()?);
        let least = self.u32()?;
        let mut cell = Cell {
            operation,
            size_class_bytes: if class == 0 { 0 } else { 1 << (class - 1) },
            region,
            algorithm,
            algorithm_source: AlgorithmSource::of_number(source)?,
            calls: self.u64()?,
            bytes: self.u64()?,
            elapsed_nanoseconds: self.u64()?,
            longest_nanoseconds: self.u64()?,
            least_nanoseconds: None,
            wait_nanoseconds: Some(self.u64()?).filter(|_| flags & CELL_HAS_WAIT != 0),
            received_bytes: Some(self.u64()?).filter(|_| flags & CELL_HAS_RECEIVED != 0),
        };
        let share = (u128::from(cell.elapsed_nanoseconds) * u128::from(least)) >> 32;
        cell.least_nanoseconds = u64::try_from(share).ok().filter(|_| least != 0);
        Ok(cell)
    }

    fn peers(&mut self) -> Result<Vec<Peer>, Malformed> {
        let mut peers = Vec::new();
        while !self.0.is_empty() {
            let (peer, kind) = (self.u32()?, self.u32()?);
            let (bytes, messages) = (self.u64()?, self.u64()?);
            let kind = match kind {
                0 => PeerKind::Logical,
                1 => PeerKind::Wire,
                2 => PeerKind::Read,
                _ => continue, // of a newer shim
            };
            peers.push(Peer { peer, kind, bytes, messages });
        }
        Ok(peers)
    }

    fn names(&mut self) -> Result<Vec<Name>, Malformed> {
        let mut names = Vec::new();
        while !self.0.is_empty() {
            let (kind, length) = (self.u16()?, usize::from(self.u16()?));
            let (number, size, place) = (self.u32()?, self.u32()?, self.u32()?);
            let text = name(self.take(length)?)?;
            let small = u16::try_from(number).map_err(|_| Malformed::Body);
            names.push(match kind {
                1 => Name::Region(small?, text),
                2 => Name::Algorithm(small?, text),
                3 => Name::Communicator(number, text, size, Some(place).filter(|place| *place != u32::MAX)),
                4 => {
                    let (name, value) = text.split_once('=').ok_or(Malformed::Body)?;
                    Name::Setting(name.to_owned(), value.to_owned())
                }
                5 => Name::Path(small?, text, u16::try_from(size).map_err(|_| Malformed::Body)?),
                _ => continue, // of a newer shim
            });
        }
        Ok(names)
    }

    fn regions(&mut self) -> Result<Vec<Region>, Malformed> {
        let mut regions = Vec::new();
        while !self.0.is_empty() {
            let number = u16::try_from(self.u32()?).map_err(|_| Malformed::Body)?;
            let _reserved = self.u32()?;
            regions.push(Region {
                number,
                visits: self.u64()?,
                elapsed_nanoseconds: self.u64()?,
                own_nanoseconds: self.u64()?,
                mpi_calls: self.u64()?,
                mpi_nanoseconds: self.u64()?,
            });
        }
        Ok(regions)
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

/// A name from a user's program: any text, but one line of it and not without end.
fn name(bytes: &[u8]) -> Result<String, Malformed> {
    if bytes.is_empty() || bytes.len() > NAME_BYTES {
        return Err(Malformed::Body);
    }
    let text = String::from_utf8_lossy(bytes);
    // Bytes that are no text become characters of three.
    Ok(clean_text(&text, NAME_BYTES).into_owned())
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

#[cfg(test)]
mod tests;
