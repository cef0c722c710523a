//! What a rank sends over its socket, as the shim's protocol has it (`crates/mpit-bridge/protocol/README.md`).

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use throughline_mpit_bridge::frame::{MAGIC, VERSION};

/// Number of allreduce in the protocol, and of isend.
const ALLREDUCE: u16 = 17;
const ISEND: u16 = 5;
/// Size class of up to 8192 bytes.
const SIZE_CLASS: u16 = 14;
/// Bytes of each call.
pub const CALL_BYTES: u64 = 8192;
/// Regions by their numbers: the first is 1.
pub const REGIONS: [&str; 2] = ["init", "solve"];

fn now(clock: ClockId) -> i64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// What a rank has counted.
#[derive(Clone, Default)]
pub struct Sums {
    /// Calls in each of [`REGIONS`].
    pub calls: [u64; 2],
    /// Other ranks: bytes and messages to each.
    pub peers: Vec<(u32, u64, u64)>,
}

/// The connection of a rank, which is made anew when it breaks.
pub struct Rank {
    socket: PathBuf,
    rank: u32,
    size: u32,
    job: u32,
    epoch: i64,
    sequence: u32,
    connection: Option<OwnedFd>,
    pushed: Sums,
}

impl Rank {
    /// Ranks of one process differ in their epochs.
    pub fn new(socket: PathBuf, rank: u32, size: u32, job: u32) -> Self {
        let epoch = now(ClockId::CLOCK_REALTIME) + i64::from(job % 1000) * 1000 + i64::from(rank);
        Self { socket, rank, size, job, epoch, sequence: 0, connection: None, pushed: Sums::default() }
    }

    /// Connects unless it is connected; whether that was new.
    fn connect(&mut self) -> anyhow::Result<bool> {
        if self.connection.is_some() {
            return Ok(false);
        }
        let made = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        connect(made.as_raw_fd(), &UnixAddr::new(&self.socket)?)?;
        self.connection = Some(made);
        let job = format!("SLURM_JOB_ID={}", self.job);
        let (rank, size, epoch) =
            (self.rank.to_le_bytes(), self.size.to_le_bytes(), self.epoch.to_le_bytes());
        let step = b"SLURM_STEP_ID=0".as_slice();
        self.send(1, &fields(&[(2, &rank), (3, &size), (4, &epoch), (8, job.as_bytes()), (8, step)]))?;
        let mut names = now(ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
        for (number, name) in (1_u32..).zip(REGIONS) {
            names.extend([1_u16.to_le_bytes(), u16::try_from(name.len())?.to_le_bytes()].concat());
            names.extend([number.to_le_bytes(), 0_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat());
            names.extend(name.as_bytes());
        }
        self.send(8, &names)?;
        Ok(true)
    }

    fn send(&mut self, kind: u16, body: &[u8]) -> anyhow::Result<()> {
        let Some(connection) = &self.connection else { anyhow::bail!("no connection") };
        let mut frame = Vec::with_capacity(32 + body.len());
        frame.extend(MAGIC.to_le_bytes());
        frame.extend(VERSION.to_le_bytes());
        frame.extend(kind.to_le_bytes());
        frame.extend(u32::try_from(32 + body.len())?.to_le_bytes());
        frame.extend(self.sequence.to_le_bytes());
        frame.extend(now(ClockId::CLOCK_MONOTONIC).to_le_bytes());
        frame.extend(now(ClockId::CLOCK_REALTIME).to_le_bytes());
        frame.extend(body);
        self.sequence += 1;
        if let Err(error) = send(connection.as_raw_fd(), &frame, MsgFlags::MSG_NOSIGNAL) {
            self.connection = None;
            return Err(error.into());
        }
        Ok(())
    }

    /// Pushes the sums that changed; all of them over a new connection.
    pub fn push(&mut self, sums: &Sums) -> anyhow::Result<()> {
        if self.connect()? {
            self.pushed = Sums::default();
        }
        let before = std::mem::replace(&mut self.pushed, sums.clone());
        let time = now(ClockId::CLOCK_MONOTONIC).to_le_bytes();
        let changed = sums.calls.into_iter().zip(before.calls);
        let changed = (1_u16..).zip(changed).filter(|(_, (calls, before))| calls != before);
        let (mut cells, mut regions, mut count) = (Vec::new(), Vec::new(), 0_u32);
        for (region, (calls, _)) in changed {
            cells.extend([ALLREDUCE, SIZE_CLASS, region, 0, 0, 0].map(u16::to_le_bytes).concat());
            cells.extend(0_u32.to_le_bytes());
            cells
                .extend([calls, calls * CALL_BYTES, calls * 1000, 1000, 0, 0].map(u64::to_le_bytes).concat());
            regions.extend([u32::from(region), 0].map(u32::to_le_bytes).concat());
            regions.extend(
                [calls, calls * 5000, calls * 5000, calls, calls * 1000].map(u64::to_le_bytes).concat(),
            );
            count += 1;
        }
        let head = [time.to_vec(), count.to_le_bytes().to_vec(), vec![0; 4]].concat();
        self.send(3, &[head, cells].concat())?;
        self.send(9, &[time.to_vec(), regions].concat())?;
        let (mut peers, mut traffic) = (time.to_vec(), time.to_vec());
        for (peer, bytes, messages) in sums.peers.iter().filter(|peer| !before.peers.contains(peer)) {
            peers.extend([*peer, 0].map(u32::to_le_bytes).concat());
            peers.extend([*bytes, *messages].map(u64::to_le_bytes).concat());
            traffic.extend(peer.to_le_bytes());
            traffic.extend([ISEND, 0].map(u16::to_le_bytes).concat());
            traffic.extend([*bytes, *messages].map(u64::to_le_bytes).concat());
        }
        self.send(4, &peers)?;
        self.send(10, &traffic)
    }

    /// Ends as a program that called MPI_Finalize.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.connect()?;
        self.send(7, &fields(&[(32, &1_u32.to_le_bytes())]))
    }

    /// Looks whether the connection broke meanwhile; all is pushed again then.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
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
