//! Frames between a crawler and a simulated fabric, over a Unix stream socket. Bytes only: no I/O, no fabric.
//!
//! Each frame is a length (four bytes, little-endian: of all that follows), a kind (one byte) and a body;
//! numbers in bodies are little-endian as well, MADs are as on the wire. A connection is of one management
//! class, like a umad agent, or of none (for control). The client begins with [`Kind::Hello`]; the fabric
//! answers [`Kind::Welcome`] or [`Kind::Refused`] and closes. Then, until either side closes:
//!
//! | kind | from | body |
//! | --- | --- | --- |
//! | Hello | client | magic `TLSF`, version (1), class (1; 0: none), port (1; 0: any), name of the node to attach at (UTF-8, may be empty) |
//! | Welcome | fabric | [`Welcome`] |
//! | Refused | fabric | the reason, UTF-8 |
//! | Send | client | DLID (2; 0xFFFF: directed route), service level (1), given up after so many milliseconds (4), when (8), the MAD |
//! | Mad | fabric | SLID (2), service level (1), when it arrives (8), the MAD: 256 bytes, or a whole message |
//! | GivenUp | fabric | as Mad; the MAD is the request that could not be delivered |
//! | Control | client | one command a line, UTF-8 |
//! | Done | fabric | 0 or 1 for success and failure (1), what there is to say, UTF-8 |
//!
//! When a MAD was sent and when one arrives are times of CLOCK_MONOTONIC in nanoseconds, which both processes read
//! alike: a simulated round trip begins where the client sent, not when the simulator's process was woken, and it
//! ends where the simulator says, which hands a MAD over ahead of that. The client has it arrive then.
//!
//! Subnet administration: an answer of many records comes as one Mad frame, as the kernel hands it to a umad
//! agent that registered with RMPP: the headers of the first segment (MAD 24, RMPP 12, SA 20 bytes, PayLoadLength
//! being that of the whole message) and then all records without gaps between segments.

/// First bytes of a Hello.
pub const MAGIC: [u8; 4] = *b"TLSF";
/// Version of these frames.
pub const VERSION: u8 = 3;
/// Longest frame: an SA answer of all ports of the largest subnets (60,000 records of 64 bytes) fits.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// Bytes of the length and the kind.
pub const HEAD_BYTES: usize = 5;
/// "Class" of a connection that carries only control commands.
pub const CLASS_NONE: u8 = 0;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The client's first frame.
    Hello = 1,
    /// The fabric's first frame.
    Welcome = 2,
    /// The fabric's first and last frame.
    Refused = 3,
    /// A MAD into the fabric.
    Send = 4,
    /// A MAD out of it.
    Mad = 5,
    /// A MAD that could not be delivered.
    GivenUp = 6,
    /// Commands to the simulator.
    Control = 7,
    /// Their outcome.
    Done = 8,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Control, Done, GivenUp, Hello, Mad, Refused, Send, Welcome};
        [Hello, Welcome, Refused, Send, Mad, GivenUp, Control, Done].into_iter().find(|k| *k as u8 == byte)
    }
}

/// Bytes that are no frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A length of nothing or beyond [`MAX_FRAME_BYTES`].
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// A kind that there is not.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// A body that is too short or not text.
    #[error("a frame whose body is not what its kind needs")]
    Body,
    /// Another protocol or another version of it.
    #[error("another protocol, or another version of it")]
    Version,
}

/// Appends a frame.
pub fn put(out: &mut Vec<u8>, kind: Kind, parts: &[&[u8]]) {
    let length: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.push(kind as u8);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind of the frame.
    pub kind: Kind,
    /// What it says.
    pub body: &'a [u8],
    /// Bytes that it takes in all.
    pub bytes: usize,
}

/// The first frame in `bytes`; `None` when it is not whole yet.
///
/// # Errors
/// [`Malformed`].
pub fn take(bytes: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_FRAME_BYTES {
        return Err(Malformed::Length(length));
    }
    let Some(frame) = rest.get(..length) else { return Ok(None) };
    let kind = Kind::of(frame[0]).ok_or(Malformed::Kind(frame[0]))?;
    Ok(Some(Frame { kind, body: &frame[1..], bytes: 4 + length }))
}

/// What a client requests at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Management class number; [`CLASS_NONE`] for control.
    pub class: u8,
    /// Port of the node; 0 for its first linked one.
    pub port: u8,
    /// GUID, id or description of the node to attach at; the first host where empty.
    pub node: String,
}

impl Hello {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let numbers = [VERSION, self.class, self.port];
        put(out, Kind::Hello, &[&MAGIC, &numbers, self.node.as_bytes()]);
    }

    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: &[u8]) -> Result<Hello, Malformed> {
        let (magic, rest) = body.split_first_chunk::<4>().ok_or(Malformed::Body)?;
        let ([version, class, port], node) = rest.split_first_chunk::<3>().ok_or(Malformed::Body)?;
        if *magic != MAGIC || *version != VERSION {
            return Err(Malformed::Version);
        }
        let node = std::str::from_utf8(node).map_err(|_| Malformed::Body)?.to_owned();
        Ok(Hello { class: *class, port: *port, node })
    }
}

/// The port that a client is attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Port number.
    pub port: u8,
    /// Logical state: 1 down, 2 initialize, 3 armed, 4 active.
    pub state: u8,
    /// Service level to the subnet manager.
    pub service_level: u8,
    /// Base LID; 0 where there is none.
    pub lid: u16,
    /// LID of the subnet manager; 0 where there is none.
    pub manager_lid: u16,
    /// Port GUID.
    pub port_guid: u64,
    /// Subnet prefix.
    pub subnet_prefix: u64,
    /// The node, by GUID.
    pub node: String,
}

impl Welcome {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let numbers = [self.port, self.state, self.service_level];
        let lids = [self.lid.to_le_bytes(), self.manager_lid.to_le_bytes()].concat();
        let guids = [self.port_guid.to_le_bytes(), self.subnet_prefix.to_le_bytes()].concat();
        put(out, Kind::Welcome, &[&numbers, &lids, &guids, self.node.as_bytes()]);
    }

    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: &[u8]) -> Result<Welcome, Malformed> {
        let ([port, state, service_level], rest) = body.split_first_chunk::<3>().ok_or(Malformed::Body)?;
        let (lid, rest) = rest.split_first_chunk::<2>().ok_or(Malformed::Body)?;
        let (manager_lid, rest) = rest.split_first_chunk::<2>().ok_or(Malformed::Body)?;
        let (port_guid, rest) = rest.split_first_chunk::<8>().ok_or(Malformed::Body)?;
        let (subnet_prefix, node) = rest.split_first_chunk::<8>().ok_or(Malformed::Body)?;
        Ok(Welcome {
            port: *port,
            state: *state,
            service_level: *service_level,
            lid: u16::from_le_bytes(*lid),
            manager_lid: u16::from_le_bytes(*manager_lid),
            port_guid: u64::from_le_bytes(*port_guid),
            subnet_prefix: u64::from_le_bytes(*subnet_prefix),
            node: std::str::from_utf8(node).map_err(|_| Malformed::Body)?.to_owned(),
        })
    }
}

/// What a Send says of its MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendHead {
    /// Destination.
    pub lid: u16,
    /// Service level.
    pub service_level: u8,
    /// When the sender gives it up.
    pub timeout_milliseconds: u32,
    /// When it was sent: nanoseconds of CLOCK_MONOTONIC.
    pub sent: u64,
}

impl SendHead {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>, mad: &[u8]) {
        let [low, high] = self.lid.to_le_bytes();
        let timeout = self.timeout_milliseconds.to_le_bytes();
        put(out, Kind::Send, &[&[low, high, self.service_level], &timeout, &self.sent.to_le_bytes(), mad]);
    }

    /// Reads the body: the head and the MAD.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: &[u8]) -> Result<(SendHead, &[u8]), Malformed> {
        let ([low, high, service_level], rest) = body.split_first_chunk::<3>().ok_or(Malformed::Body)?;
        let (timeout, rest) = rest.split_first_chunk::<4>().ok_or(Malformed::Body)?;
        let (sent, mad) = rest.split_first_chunk::<8>().ok_or(Malformed::Body)?;
        let head = SendHead {
            lid: u16::from_le_bytes([*low, *high]),
            service_level: *service_level,
            timeout_milliseconds: u32::from_le_bytes(*timeout),
            sent: u64::from_le_bytes(*sent),
        };
        Ok((head, mad))
    }
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock of [`SendHead::sent`]; 0 where it can't be read.
#[must_use]
pub fn monotonic() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    // Neither part is negative on this clock.
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// What a Mad or GivenUp says of its MAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadHead {
    /// LID of the sender.
    pub lid: u16,
    /// Service level.
    pub service_level: u8,
    /// When it arrives: nanoseconds of CLOCK_MONOTONIC; 0 for at once.
    pub arrives: u64,
}

impl MadHead {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>, kind: Kind, mad: &[u8]) {
        let [low, high] = self.lid.to_le_bytes();
        put(out, kind, &[&[low, high, self.service_level], &self.arrives.to_le_bytes(), mad]);
    }

    /// Reads the body: the head and the MAD.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: &[u8]) -> Result<(MadHead, &[u8]), Malformed> {
        let ([low, high, service_level], rest) = body.split_first_chunk::<3>().ok_or(Malformed::Body)?;
        let (arrives, mad) = rest.split_first_chunk::<8>().ok_or(Malformed::Body)?;
        let head = MadHead {
            lid: u16::from_le_bytes([*low, *high]),
            service_level: *service_level,
            arrives: u64::from_le_bytes(*arrives),
        };
        Ok((head, mad))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_come_back() {
        let mut bytes = Vec::new();
        let hello = Hello { class: 4, port: 2, node: "node 7".to_owned() };
        let welcome =
            Welcome { port: 1, state: 4, lid: 7, manager_lid: 1, port_guid: 9, ..Welcome::default() };
        hello.put(&mut bytes);
        welcome.put(&mut bytes);
        let Frame { kind, body, bytes: taken } = take(&bytes).unwrap().unwrap();
        assert_eq!((kind, Hello::decode(body).unwrap()), (Kind::Hello, hello));
        let rest = &bytes[taken..];
        let Frame { kind, body, bytes: taken } = take(rest).unwrap().unwrap();
        assert_eq!((kind, Welcome::decode(body).unwrap()), (Kind::Welcome, welcome));
        assert_eq!(take(&rest[taken..]), Ok(None));
        let head = SendHead { lid: 7, service_level: 3, timeout_milliseconds: 200, sent: 1 << 40 };
        let mut sent = Vec::new();
        head.put(&mut sent, &[5; 256]);
        let body = take(&sent).unwrap().unwrap().body;
        assert_eq!(SendHead::decode(body), Ok((head, &[5; 256][..])));
        let head = MadHead { lid: 9, service_level: 1, arrives: 1 << 41 };
        let mut arriving = Vec::new();
        head.put(&mut arriving, Kind::Mad, &[6; 256]);
        let body = take(&arriving).unwrap().unwrap().body;
        assert_eq!(MadHead::decode(body), Ok((head, &[6; 256][..])));
        assert_eq!(take(&bytes[..7]), Ok(None), "not whole yet");
    }

    #[test]
    fn nonsense_is_reported() {
        assert_eq!(take(&[0, 0, 0, 0]), Err(Malformed::Length(0)));
        assert_eq!(take(&[255, 255, 255, 255, 1]), Err(Malformed::Length(0xFFFF_FFFF)));
        assert_eq!(take(&[1, 0, 0, 0, 99]), Err(Malformed::Kind(99)));
        assert_eq!(Hello::decode(b"TLSF\x63\x01\x01"), Err(Malformed::Version));
        assert_eq!(Welcome::decode(&[0; 22]), Err(Malformed::Body));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some(Frame { body, bytes: taken, .. })) = take(&bytes) {
                prop_assert!(taken <= bytes.len() && body.len() < taken);
                let _ = (Hello::decode(body), Welcome::decode(body), SendHead::decode(body), MadHead::decode(body));
            }
        }
    }
}
