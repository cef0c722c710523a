//! A rank without MPI: well-behaved, or anything but.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

pub struct Client {
    socket: OwnedFd,
    sequence: u32,
    flags: MsgFlags,
}

fn field(body: &mut Vec<u8>, tag: u16, data: &[u8]) {
    body.extend(tag.to_le_bytes());
    body.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
    body.extend(data);
}

pub fn monotonic() -> i64 {
    now(nix::time::ClockId::CLOCK_MONOTONIC)
}

fn now(clock: nix::time::ClockId) -> i64 {
    let time = nix::time::clock_gettime(clock).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// A frame with a correct header.
pub fn frame(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x314d_4c54_u32.to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(u32::try_from(32 + body.len()).unwrap().to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes());
    bytes.extend(now(nix::time::ClockId::CLOCK_REALTIME).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn hello_body(rank: u32, size: u32, launcher: &str) -> Vec<u8> {
    let mut body = Vec::new();
    field(&mut body, 2, &rank.to_le_bytes());
    field(&mut body, 3, &size.to_le_bytes());
    field(&mut body, 4, &now(nix::time::ClockId::CLOCK_REALTIME).to_le_bytes());
    field(&mut body, 9, launcher.as_bytes());
    body
}

impl Client {
    pub fn connect(path: &Path) -> nix::Result<Self> {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(60))?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(Self { socket, sequence: 0, flags: MsgFlags::MSG_NOSIGNAL })
    }

    pub fn set_nonblocking(&mut self) {
        self.flags |= MsgFlags::MSG_DONTWAIT;
    }

    pub fn send(&self, message: &[u8]) -> nix::Result<usize> {
        send(self.socket.as_raw_fd(), message, self.flags)
    }

    /// Sends a frame with the next number.
    pub fn frame(&mut self, kind: u16, body: &[u8]) -> nix::Result<usize> {
        let message = frame(kind, self.sequence, body);
        self.sequence += 1;
        self.send(&message)
    }

    pub fn hello(&mut self, rank: u32, size: u32, launcher: &str) -> nix::Result<usize> {
        self.frame(1, &hello_body(rank, size, launcher))
    }

    /// One bin with one cell.
    pub fn operation(&mut self, operation: u16, class: u16, calls: u64, bytes: u64) -> nix::Result<usize> {
        let mut body = Vec::new();
        body.extend(now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes());
        body.extend([1_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat());
        body.extend([operation.to_le_bytes(), class.to_le_bytes()].concat());
        body.extend([0; 12]); // no region, algorithm or flags
        body.extend([calls, bytes, 1000, 100, 0, 0].map(u64::to_le_bytes).concat());
        self.frame(3, &body)
    }

    pub fn goodbye(&mut self) -> nix::Result<usize> {
        let mut body = Vec::new();
        field(&mut body, 32, &1_u32.to_le_bytes());
        self.frame(7, &body)
    }

    pub fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// Until there is an answer, which is left unread, or the connection is closed.
    pub fn is_answered(&self) -> bool {
        recv(self.socket.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_PEEK) == Ok(1)
    }

    pub fn wait_for_answer(&self) {
        assert!(self.is_answered());
    }

    pub fn is_closed(&self) -> bool {
        let mut buffer = [0; 1];
        let read = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
        matches!(read, Ok(0) | Err(Errno::ECONNRESET))
    }
}

/// A repeatable source of numbers (xorshift64*).
pub fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A number below `limit`.
fn below(random: &mut impl FnMut() -> u64, limit: u64) -> usize {
    usize::try_from((random() >> 8) % limit).unwrap()
}

/// A message that no rank should send.
fn bad_message(random: &mut impl FnMut() -> u64) -> Vec<u8> {
    let length = below(random, 300);
    let noise: Vec<u8> = (0..=length).map(|_| random().to_le_bytes()[3]).collect();
    let mut good = frame(3, 1, &[1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 0, 0, 0]);
    match below(random, 12) {
        0 => noise,
        1 => frame(u16::try_from(below(random, 8)).unwrap(), 0, &noise),
        2 => frame(1, 0, &hello_body(9, 4, "rank outside its world")),
        3 => frame(1, 0, &[2, 0, 255, 255]),
        4 => frame(2, 0, &[]),
        5 => good, // a bin with a cell that is not there
        6 => {
            good[4] = 77;
            good
        }
        7 => {
            good.truncate(10);
            good
        }
        8 => {
            good.push(0);
            good
        }
        9 => vec![0; 61_441 + length],
        10 => frame(7, 0, &[]),
        _ => {
            good[below(random, 12)] ^= 1 << below(random, 8);
            good
        }
    }
}

/// Sends `messages` bad ones over as many connections as it takes; returns how many the kernel took, and how
/// many HELLOs.
pub fn misbehave(socket: &Path, seed: u64, messages: u64) -> (u64, u64) {
    let mut random = random(seed);
    let (mut sent, mut hellos) = (0, 0);
    while sent < messages {
        let Ok(mut client) = Client::connect(socket) else {
            std::thread::yield_now(); // the queue of waiting connections is full
            continue;
        };
        if below(&mut random, 4) == 0 && client.hello(1, 4, "some other launcher").is_ok() {
            hellos += 1;
        }
        while sent < messages && client.send(&bad_message(&mut random)).is_ok() {
            sent += 1;
        }
    }
    (sent, hellos)
}
