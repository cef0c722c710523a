//! MPI ranks as an agent sees them: connections that send frames as shims do. No MPI is needed.

use anyhow::{Context, bail};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_mpit_bridge::frame::{MAGIC, VERSION};

/// Bins in a push of a second.
pub const BINS: u64 = 10;
const SECOND_NANOSECONDS: i64 = 1_000_000_000;

fn now(clock: nix::time::ClockId) -> anyhow::Result<i64> {
    let time = nix::time::clock_gettime(clock)?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// What ranks do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many there are.
    pub ranks: u32,
    /// Cells of each that change in a second.
    pub cells: u64,
    /// Peers of each that change in a second.
    pub peers: u32,
}

/// A rank: its connection and the number of its next frame.
pub struct Rank(OwnedFd, u32);

impl Rank {
    fn send(&mut self, kind: u16, body: &[u8]) -> anyhow::Result<()> {
        let mut frame = Vec::with_capacity(32 + body.len());
        frame.extend(MAGIC.to_le_bytes());
        frame.extend(VERSION.to_le_bytes());
        frame.extend(kind.to_le_bytes());
        frame.extend(u32::try_from(32 + body.len())?.to_le_bytes());
        frame.extend(self.1.to_le_bytes());
        frame.extend(now(nix::time::ClockId::CLOCK_MONOTONIC)?.to_le_bytes());
        frame.extend(now(nix::time::ClockId::CLOCK_REALTIME)?.to_le_bytes());
        frame.extend(body);
        self.1 += 1;
        // As a shim does: it never waits.
        let sent = send(self.0.as_raw_fd(), &frame, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
        sent.context("the agent does not keep up")?;
        Ok(())
    }
}

/// Connects all ranks, which have counted since `epoch`, UTC nanoseconds, and as many more as their numbers.
///
/// # Errors
/// The agent does not listen.
pub fn connect_all(load: Load, path: &Path, epoch: i64) -> anyhow::Result<Vec<Rank>> {
    let address = UnixAddr::new(path)?;
    let mut ranks = Vec::new();
    for number in 0..load.ranks {
        let connection = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        connect(connection.as_raw_fd(), &address)?;
        let mut rank = Rank(connection, 0);
        let mut body = Vec::new();
        let launcher = b"bench".as_slice();
        // Ranks of one process differ in their epoch.
        let epoch = (epoch + i64::from(number)).to_le_bytes();
        for (tag, data) in [
            (2_u16, number.to_le_bytes().as_slice()),
            (3, &load.ranks.to_le_bytes()),
            (4, &epoch),
            (9, launcher),
        ] {
            body.extend(tag.to_le_bytes());
            body.extend(u16::try_from(data.len())?.to_le_bytes());
            body.extend(data);
        }
        rank.send(1, &body)?;
        ranks.push(rank);
    }
    Ok(ranks)
}

/// All ranks push at whole seconds of UTC, as shims do. Ends half a second before the next push would be due.
///
/// # Errors
/// The agent, or this program, does not keep up.
pub fn push(load: Load, ranks: &mut [Rank], round: &mut u64, seconds: u32) -> anyhow::Result<()> {
    let since = now(nix::time::ClockId::CLOCK_REALTIME)?.rem_euclid(SECOND_NANOSECONDS);
    let begin = Instant::now() + Duration::from_nanos((SECOND_NANOSECONDS - since).unsigned_abs());
    for second in 0..seconds {
        *round += 1;
        let due = begin + Duration::from_secs(second.into());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        for rank in ranks.iter_mut() {
            rank.send(3, &bins(load.cells, *round)?)?;
            rank.send(4, &peers(load.peers, load.ranks, *round)?)?;
        }
        if due.elapsed() > Duration::from_secs(1) {
            bail!("this program itself does not keep up: the machine is busy");
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    Ok(())
}

/// Cells spread over the bins of a second: operations and sizes as a program's main loop has them.
fn bins(cells: u64, round: u64) -> anyhow::Result<Vec<u8>> {
    let end = now(nix::time::ClockId::CLOCK_MONOTONIC)?;
    let mut body = Vec::new();
    for bin in 0..BINS {
        let of_bin: Vec<u64> = (0..cells).filter(|cell| cell % BINS == bin).collect();
        body.extend((end - i64::try_from(BINS - bin)? * 100_000_000).to_le_bytes());
        body.extend(u32::try_from(of_bin.len())?.to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        for cell in of_bin {
            // Four operations (numbers of shim/operations.h), and sizes from 64 bytes on.
            body.extend((1 + u16::try_from(cell % 4)? * 8).to_le_bytes());
            body.extend((7 + u16::try_from(cell / 4 % 12)?).to_le_bytes());
            body.extend([0; 12]);
            body.extend(
                [round * 100, round * 819_200, round * 1_000_000, 50_000, 0, 0]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
        }
    }
    Ok(body)
}

fn peers(peers: u32, ranks: u32, round: u64) -> anyhow::Result<Vec<u8>> {
    let mut body = now(nix::time::ClockId::CLOCK_MONOTONIC)?.to_le_bytes().to_vec();
    for peer in 0..peers {
        body.extend((peer * 7 % ranks).to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        body.extend([round * 1_000_000, round * 100].map(u64::to_le_bytes).concat());
    }
    Ok(body)
}
