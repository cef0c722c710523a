//! The agent with a whole node of MPI ranks: processor time and memory at 512 ranks that push each second, and what
//! its spool gets. Ends with status 2 where a goal is missed or a record is lost.
//!
//! The ranks are connections of this process that send frames as shims do: bins of 100 ms, some changed cells and
//! peers each second. No MPI is needed, and no collector: what is spooled is what a collector would get.
#![allow(clippy::cast_precision_loss)] // figures for people

use anyhow::{Context, bail, ensure};
use clap::Parser;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use throughline_mpit_bridge::frame::{MAGIC, VERSION};

/// Bins in a push of a second.
const BINS: u64 = 10;
/// Goal: share of one processor. A node has one for each few hundred of its ranks to spare, not more.
const PROCESSOR_GOAL: f64 = 0.05;
/// Goal: resident memory, bytes.
const MEMORY_GOAL: u64 = 100 << 20;

/// Measures throughline-agent with many MPI ranks.
#[derive(Debug, Parser)]
struct Options {
    /// The agent's program, built with --release
    #[arg(long, default_value = "target/release/throughline-agent")]
    agent: PathBuf,
    /// Ranks
    #[arg(long, default_value_t = 512)]
    ranks: u32,
    /// Changed cells of each rank in a second
    #[arg(long, default_value_t = 20)]
    cells: u64,
    /// Changed peers of each rank in a second
    #[arg(long, default_value_t = 64)]
    peers: u32,
    /// Seconds measured
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(&options, folder.path())?;
    let mut ranks = connect_all(&options, &folder.path().join("run/mpi.sock"))?;
    agent.until("throughline_connected_ranks{source=\"mpi\"}", f64::from(options.ranks))?;
    let mut round = 0;
    push(&options, &mut ranks, &mut round, 3)?; // the first pushes find empty tables
    let (before, begin) = (agent.figures()?, Instant::now());
    push(&options, &mut ranks, &mut round, options.seconds)?;
    let (after, elapsed) = (agent.figures()?, begin.elapsed().as_secs_f64());
    // What the agent counts as one record: a bin, and the peers of a push.
    let records = f64::from(options.ranks) * round as f64 * (BINS + 1) as f64;
    // The job and its ranks, and their places, come in addition.
    agent.until("throughline_records_total{source=\"mpi\"}", records)?;
    let end = agent.figures()?;

    let rows = f64::from(options.ranks)
        * f64::from(options.seconds)
        * (options.cells as f64 + f64::from(options.peers));
    let processor = (after.processor - before.processor) / elapsed;
    let per_second = |before: f64, after: f64| (after - before) / elapsed;
    println!(
        "{} ranks, {} cells and {} peers a rank and second, {elapsed:.1} s",
        options.ranks, options.cells, options.peers
    );
    println!("  frames taken a second     {:>12.0}", f64::from(options.ranks) * 2.0);
    println!("  rows a second             {:>12.0}", rows / elapsed);
    println!(
        "  spooled a second          {:>12.0} bytes in {:.1} entries",
        per_second(before.spooled, after.spooled),
        per_second(before.entries, after.entries)
    );
    println!("  bytes a row               {:>12.1}", (after.spooled - before.spooled) / rows);
    println!(
        "  processor                 {:>11.2} %  (goal: below {:.0} %)",
        processor * 100.0,
        PROCESSOR_GOAL * 100.0
    );
    println!(
        "  resident memory           {:>11.1} MiB (goal: below {} MiB; highest {:.1})",
        after.resident as f64 / 1048576.0,
        MEMORY_GOAL >> 20,
        end.highest as f64 / 1048576.0
    );
    println!("  records dropped           {:>12.0}", end.dropped);
    println!("  messages refused or lost  {:>12.0}", end.failed);
    let is_met = processor < PROCESSOR_GOAL && end.resident < MEMORY_GOAL && end.dropped + end.failed == 0.0;
    println!("{}", if is_met { "goals met" } else { "GOAL MISSED" });
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The running agent; killed when dropped.
struct Agent {
    child: Child,
    address: SocketAddr,
}

/// What is known of it at one moment.
struct Figures {
    processor: f64,
    resident: u64,
    highest: u64,
    spooled: f64,
    entries: f64,
    dropped: f64,
    failed: f64,
}

impl Agent {
    fn start(options: &Options, folder: &std::path::Path) -> anyhow::Result<Self> {
        let mut agent = Command::new(&options.agent);
        agent.args(["run", "--log-level", "warn", "--state-dir"]).arg(folder);
        // Port 9 is discard, which nobody runs: all stays in the spool.
        for (key, value) in [
            ("NODE", "bench"),
            ("HTTP__LISTEN", "127.0.0.1:0"),
            ("DELIVERY__COLLECTOR", "http://127.0.0.1:9"),
        ] {
            agent.env(format!("THROUGHLINE__{key}"), value);
        }
        let mut child =
            agent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| {
                format!("{}: build it with cargo build --release", options.agent.display())
            })?;
        let out = child.stdout.take().context("its standard output")?;
        let line = BufReader::new(out).lines().next().context("the agent ended")??;
        let address = line.strip_prefix("listening agent=").context("its first line")?.parse()?;
        Ok(Self { child, address })
    }

    fn metrics(&self) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Waits until a figure has reached a value.
    fn until(&self, name: &str, value: f64) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let now = figure(&self.metrics()?, name);
            if now >= value {
                return Ok(());
            }
            ensure!(begin.elapsed() < Duration::from_secs(60), "{name} is {now}, and {value} is expected");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn figures(&self) -> anyhow::Result<Figures> {
        let metrics = self.metrics()?;
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()));
        let stat = read("stat")?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("stat")?.1.split_whitespace().collect();
        // Fields 14 and 15, of the whole process; its child for GPUs is another one.
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
        let status = read("status")?;
        let kib = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("status")?;
            Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
        };
        let all = |name: &str| metrics.lines().filter(|line| line.starts_with(name)).map(value).sum::<f64>();
        Ok(Figures {
            processor: ticks / per_second,
            resident: kib("VmRSS:")?,
            highest: kib("VmHWM:")?,
            spooled: all("throughline_spool_bytes{"),
            entries: all("throughline_spool_entries{"),
            dropped: all("throughline_dropped_records_total{source=\"mpi\""),
            failed: all("throughline_failed_reads_total{source=\"mpi\"")
                + all("throughline_malformed_messages_total{source=\"mpi\""),
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn value(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

fn figure(metrics: &str, name: &str) -> f64 {
    metrics.lines().find(|line| line.starts_with(name)).map_or(0.0, value)
}

fn now(clock: nix::time::ClockId) -> anyhow::Result<i64> {
    let time = nix::time::clock_gettime(clock)?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// A rank: its connection and the number of its next frame.
struct Rank(OwnedFd, u32);

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

fn connect_all(options: &Options, path: &std::path::Path) -> anyhow::Result<Vec<Rank>> {
    let address = UnixAddr::new(path)?;
    let epoch = now(nix::time::ClockId::CLOCK_REALTIME)?;
    let mut ranks = Vec::new();
    for number in 0..options.ranks {
        let connection = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        connect(connection.as_raw_fd(), &address)?;
        let mut rank = Rank(connection, 0);
        let mut body = Vec::new();
        let launcher = b"bench".as_slice();
        // Ranks of one process are told apart by their epoch.
        let epoch = (epoch + i64::from(number)).to_le_bytes();
        for (tag, data) in [
            (2_u16, number.to_le_bytes().as_slice()),
            (3, &options.ranks.to_le_bytes()),
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

/// Each rank pushes once a second, at a moment of its own.
fn push(options: &Options, ranks: &mut [Rank], round: &mut u64, seconds: u32) -> anyhow::Result<()> {
    let begin = Instant::now();
    for second in 0..seconds {
        *round += 1;
        let count = ranks.len();
        for (index, rank) in ranks.iter_mut().enumerate() {
            let due = f64::from(second) + index as f64 / count as f64;
            std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(begin.elapsed()));
            rank.send(3, &bins(options.cells, *round)?)?;
            rank.send(4, &peers(options.peers, options.ranks, *round)?)?;
        }
    }
    std::thread::sleep(Duration::from_secs(u64::from(seconds)).saturating_sub(begin.elapsed()));
    if begin.elapsed() > Duration::from_secs(u64::from(seconds) + 1) {
        bail!("this program itself does not keep up: the machine is busy");
    }
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
