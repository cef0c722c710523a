//! What an MPI rank sends, with sums that are known exactly.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use nix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use throughline_mpit_bridge::frame::{MAGIC, VERSION};

/// Number of allreduce in the protocol.
const ALLREDUCE: u16 = 17;
/// Size class of up to 8192 bytes.
const SIZE_CLASS: u16 = 14;
/// Kind of traffic: messages that the library reported.
const WIRE: u16 = 2;
/// Bytes of each call.
pub const CALL_BYTES: u64 = 8192;
/// How long a rank tries to say its last sums: agents are back long before.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
pub struct Options {
    /// The agent's socket
    #[arg(long)]
    socket: PathBuf,
    /// Its rank
    #[arg(long)]
    rank: u32,
    /// Ranks of the job on all nodes
    #[arg(long)]
    size: u32,
    /// The job's number
    #[arg(long)]
    job: String,
    /// From one push to the next
    #[arg(long, default_value_t = 250)]
    pace_ms: u64,
}

fn now(clock: ClockId) -> i64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

fn frame(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + body.len());
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(u32::try_from(32 + body.len()).unwrap_or(0).to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(now(ClockId::CLOCK_MONOTONIC).to_le_bytes());
    bytes.extend(now(ClockId::CLOCK_REALTIME).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn fields(fields: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (tag, data) in fields {
        body.extend(tag.to_le_bytes());
        body.extend(u16::try_from(data.len()).unwrap_or(0).to_le_bytes());
        body.extend(*data);
    }
    body
}

/// A bin with one cell: the sums so far.
fn sums(sequence: u32, calls: u64) -> Vec<u8> {
    let mut body = now(ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    body.extend([1_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat());
    body.extend([ALLREDUCE.to_le_bytes(), SIZE_CLASS.to_le_bytes()].concat());
    body.extend([0; 12]); // no region, algorithm or flags
    body.extend([calls, calls * CALL_BYTES, calls * 1000, 1000, 0, 0].map(u64::to_le_bytes).concat());
    frame(3, sequence, &body)
}

/// Messages that it sent to all others so far: as many bytes to each as they send to it.
fn traffic(sequence: u32, calls: u64, own: u32, size: u32) -> Vec<u8> {
    let mut body = now(ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    for peer in (0..size).filter(|peer| *peer != own) {
        body.extend(peer.to_le_bytes());
        body.extend([ALLREDUCE.to_le_bytes(), WIRE.to_le_bytes()].concat());
        body.extend([calls * CALL_BYTES, calls].map(u64::to_le_bytes).concat());
    }
    frame(10, sequence, &body)
}

/// What a rank sends over its connection, which is made anew when it breaks.
pub struct Connection {
    socket: PathBuf,
    rank: u32,
    size: u32,
    job: String,
    epoch: i64,
    sequence: u32,
    connected: Option<OwnedFd>,
}

impl Connection {
    pub fn new(socket: PathBuf, rank: u32, size: u32, job: String) -> Self {
        let epoch = now(ClockId::CLOCK_REALTIME);
        Self { socket, rank, size, job, epoch, sequence: 0, connected: None }
    }

    fn connect(&mut self) -> Option<()> {
        if self.connected.is_some() {
            return Some(());
        }
        let address = UnixAddr::new(&self.socket).ok()?;
        let made = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
        connect(made.as_raw_fd(), &address).ok()?;
        let (rank, size) = (self.rank.to_le_bytes(), self.size.to_le_bytes());
        let (epoch, job) = (self.epoch.to_le_bytes(), format!("SLURM_JOB_ID={}", self.job));
        let step = b"SLURM_STEP_ID=0".as_slice();
        let body = fields(&[(2, &rank), (3, &size), (4, &epoch), (8, job.as_bytes()), (8, step)]);
        send(made.as_raw_fd(), &frame(1, self.sequence, &body), MsgFlags::MSG_NOSIGNAL).ok()?;
        self.connected = Some(made);
        Some(())
    }

    /// Whether the kernel took it.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.sequence += 1;
        let Some(connection) = self.connect().and(self.connected.as_ref()) else { return false };
        match send(connection.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Ok(_) => true,
            Err(nix::errno::Errno::EAGAIN) => false,
            Err(_) => {
                self.connected = None;
                false
            }
        }
    }

    /// Pushes the sums so far; whether they were taken.
    pub fn push(&mut self, calls: u64) -> bool {
        let push = sums(self.sequence + 1, calls);
        self.send(&push)
    }

    /// Pushes its messages with others so far; whether they were taken.
    pub fn push_traffic(&mut self, calls: u64) -> bool {
        let push = traffic(self.sequence + 1, calls, self.rank, self.size);
        self.send(&push)
    }

    /// Says that the program ended well; whether that was taken.
    pub fn say_goodbye(&mut self) -> bool {
        let goodbye = frame(7, self.sequence + 1, &fields(&[(32, &1_u32.to_le_bytes())]));
        self.send(&goodbye)
    }
}

/// Prints `pushed CALLS` for each push that the socket took, and `total CALLS` at the end.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (closed, is_closed) = channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        drop(closed);
    });
    let Options { socket, rank, size, job, .. } = options;
    let mut rank = Connection::new(socket.clone(), *rank, *size, job.clone());
    let mut out = std::fs::File::options().append(true).open("/proc/self/fd/1")?;
    let mut calls = 0;
    while is_closed.recv_timeout(Duration::from_millis(options.pace_ms)) == Err(RecvTimeoutError::Timeout) {
        calls += 1;
        if rank.push(calls) {
            out.write_all(format!("pushed {calls}\n").as_bytes())?;
        }
        rank.push_traffic(calls);
    }
    calls += 1;
    let end = Instant::now() + GOODBYE_PATIENCE;
    while Instant::now() < end {
        if rank.push(calls) && rank.push_traffic(calls) && rank.say_goodbye() {
            writeln!(out, "total {calls}")?;
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("no agent took the last sums within {GOODBYE_PATIENCE:?}")
}
