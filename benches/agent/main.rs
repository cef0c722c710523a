//! The agent with a whole node of MPI ranks: processor time and memory at 512 ranks (or `--ranks 32`) that push each second, and what
//! its spool gets. Ends with status 2 where a goal is missed or a record is lost.
//!
//! The ranks are connections of this process that send frames as shims do: bins of 100 ms, some changed cells and
//! peers each second. No MPI is needed, and no collector: what is spooled is what a collector would get.
#![allow(clippy::cast_precision_loss)] // figures for people

use anyhow::{Context, ensure};
use clap::Parser;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use throughline_benches::ranks::{BINS, Load, Rank, connect_all, push};
use throughline_benches::site::now;

/// Share of one processor and resident bytes: goals for so many ranks. A node has a processor for each few hundred of its ranks to
/// spare, not more.
const GOALS: [(u32, f64, u64); 2] = [(32, 0.005, 30 << 20), (512, 0.05, 100 << 20)];

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

impl Options {
    fn load(&self) -> Load {
        Load { ranks: self.ranks, cells: self.cells, peers: self.peers }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(&options, folder.path())?;
    let load = options.load();
    let mut ranks: Vec<Rank> = connect_all(load, &folder.path().join("run/mpi.sock"), now()?)?;
    agent.until("throughline_connected_ranks{source=\"mpi\"}", f64::from(options.ranks))?;
    let mut round = 0;
    push(load, &mut ranks, &mut round, 3)?; // the first pushes find empty tables
    let (before, begin) = (agent.figures()?, Instant::now());
    push(load, &mut ranks, &mut round, options.seconds)?;
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
    let (_, processor_goal, memory_goal) =
        GOALS.into_iter().find(|(ranks, ..)| options.ranks <= *ranks).unwrap_or(GOALS[1]);
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
        "  processor                 {:>11.2} %  (goal: below {} %)",
        processor * 100.0,
        processor_goal * 100.0
    );
    println!(
        "  resident memory           {:>11.1} MiB (goal: below {} MiB; highest {:.1})",
        after.resident as f64 / 1048576.0,
        memory_goal >> 20,
        end.highest as f64 / 1048576.0
    );
    println!("  records dropped           {:>12.0}", end.dropped);
    println!("  messages refused or lost  {:>12.0}", end.failed);
    let is_met = processor < processor_goal && end.resident < memory_goal && end.dropped + end.failed == 0.0;
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
            dropped: all("throughline_records_discarded_total{source=\"mpi\""),
            failed: all("throughline_failed_reads_total{source=\"mpi\"")
                + all("throughline_messages_rejected_total{source=\"mpi\""),
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
