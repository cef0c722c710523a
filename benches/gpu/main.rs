//! GPU readings against the NVML test double: one poll of 8 GPUs with 18 links, the agent's processor time at one
//! reading a second, and the time from a sampler's start to its first reading. Ends with status 2 where a goal is missed.
//!
//! `benches/gpu.sh` runs it, and counts instructions with callgrind around `bench-gpu poll`. The double costs time of its
//! own; what a poll costs on real hardware is measured by `hardware/gpu.sh`.
#![allow(clippy::cast_precision_loss)] // figures for people

mod profilers;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::frame::{Body, Frame, FrameReader, FrameWriter, Poll};
use throughline_gpu::nvml::{Library, NvmlOptions, NvmlReader};
use throughline_gpu::{Reader, SUBCOMMAND, SamplerOptions, Vendor};

/// Goal: one poll of 8 GPUs with 18 links, the double's own time with it.
const POLL_GOAL_SECONDS: f64 = 150e-6;
/// Goal: share of one processor at one reading a second, agent and sampler.
const PROCESSOR_GOAL: f64 = 0.002;
/// Goal: from the start of a sampler to its first reading; INAM takes 1.6 s.
const START_GOAL_SECONDS: f64 = 0.050;

/// Measures GPU readings against the NVML test double.
#[derive(Debug, Parser)]
struct Options {
    /// Folder with throughline-agent and lib/throughline/libnvidia-ml.so.1
    #[arg(long, default_value = "target/release", global = true)]
    programs: PathBuf,
    /// The node that is simulated
    #[arg(long, default_value = "crates/gpu/scenarios/hgx-h200.scenario", global = true)]
    scenario: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum What {
    /// Polls in this process: median and 99th percentile
    Poll {
        /// How many
        #[arg(long, default_value_t = 10_000)]
        count: u32,
    },
    /// From a sampler's start to its first reading
    Start,
    /// Processor time of the agent and its sampler
    Agent {
        /// Seconds measured
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Processor time of looking for users' profilers, and how soon one gets the GPUs
    Profilers {
        /// Seconds measured
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Other processes that sleep
        #[arg(long, default_value_t = 0)]
        others: u32,
    },
    /// A process that grows and shrinks until its standard input ends
    #[command(hide = true)]
    Grow,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let What::Grow = options.what {
        profilers::grow();
        return Ok(ExitCode::SUCCESS);
    }
    let library = options.programs.join("lib/throughline/libnvidia-ml.so.1");
    ensure!(library.is_file(), "{} is not there: make build", library.display());
    let library = library.canonicalize()?;
    let scenario = options.scenario.canonicalize().context("the scenario")?;
    let good = match options.what {
        What::Poll { count } => poll(&library, count)?,
        What::Start => start(&options.programs, &library, &scenario)?,
        What::Agent { seconds } => {
            agent(&options.programs, &library, &scenario, Duration::from_secs(seconds))?
        }
        What::Profilers { seconds, others } => {
            let cheap = profilers::cost(Duration::from_secs(seconds), others)?;
            profilers::reaction(&options.programs, &library)? && cheap
        }
        What::Grow => true,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Prints a figure against its goal; whether it is met.
fn tell(what: &str, value: f64, goal: f64, unit: &str) -> bool {
    let met = value <= goal;
    println!("  {what:<44} {value:>10.3} {unit:<9} goal {goal:.3}: {}", if met { "met" } else { "MISSED" });
    met
}

/// Polls and writes frames as a sampler does. The scenario is this process's environment: `benches/gpu.sh` sets it.
fn poll(library: &Path, count: u32) -> anyhow::Result<bool> {
    ensure!(std::env::var_os(SCENARIO_VARIABLE).is_some(), "set {SCENARIO_VARIABLE}");
    let library = Library::open(library)?;
    let session = library.start().map_err(|code| anyhow::anyhow!("{code}"))?;
    let mut reader = NvmlReader::new(&session, NvmlOptions::default());
    let found = reader.survey().map_err(|(_, text)| anyhow::anyhow!(text))?;
    let links: usize = found.gpus.iter().map(|gpu| gpu.links.len()).sum();
    let mut writer = FrameWriter::new(std::io::sink());
    let mut frame = Frame { body: Some(Body::Poll(Poll::default())) };
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let begin = Instant::now();
        if let Some(Body::Poll(poll)) = &mut frame.body {
            reader.poll(poll);
        }
        writer.write(&frame)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{count} polls of {} GPUs with {links} links, the double's own time with them",
        found.gpus.len()
    );
    let at = |share: f64| {
        times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1))).copied()
    };
    let (Some(median), Some(late)) = (at(0.5), at(0.99)) else { return Ok(true) };
    println!("  {:<44} {:>10.3} us", "99th percentile", late * 1e6);
    Ok(tell("one poll, median", median * 1e6, POLL_GOAL_SECONDS * 1e6, "us"))
}

/// A child that is ended with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts samplers as the agent does and waits for the first poll's frame.
fn start(programs: &Path, library: &Path, scenario: &Path) -> anyhow::Result<bool> {
    let sampler = SamplerOptions {
        vendor: Vendor::Nvml,
        library: library.to_owned(),
        interval: Duration::from_secs(1),
        survey_interval: Duration::from_secs(60),
        unfold_pcie: false,
        gpm: false,
        parent: std::process::id(),
    };
    let mut times = Vec::new();
    for _ in 0..21 {
        let begin = Instant::now();
        let child = Command::new(programs.join("throughline-agent"))
            .arg(SUBCOMMAND)
            .args(sampler.to_arguments())
            .env(SCENARIO_VARIABLE, scenario)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut child = Running(child);
        let out = child.0.stdout.as_mut().context("its pipe")?;
        let (mut frames, mut buffer) = (FrameReader::default(), vec![0; 1 << 16]);
        loop {
            match frames.next_frame()? {
                Some(Body::Poll(_)) => break,
                Some(Body::Problem(problem)) => anyhow::bail!("{}", problem.text),
                Some(_) => {}
                None => {
                    let read = out.read(&mut buffer)?;
                    ensure!(read > 0, "the sampler ended");
                    frames.push(&buffer[..read]);
                }
            }
        }
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!("21 starts of a sampler to its first reading, no CUDA context");
    Ok(tell("median", times[times.len() / 2] * 1e3, START_GOAL_SECONDS * 1e3, "ms"))
}

/// Nanoseconds on a processor of all threads of a process, by the scheduler's own count.
fn on_processor(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        sum += stat.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Runs the agent with nothing but GPUs and sums up its processor time and its sampler's.
fn agent(programs: &Path, library: &Path, scenario: &Path, time: Duration) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let child = Command::new(programs.join("throughline-agent"))
        .args(["run", "--log-level", "warn", "--state-dir"])
        .arg(folder.path())
        .env(SCENARIO_VARIABLE, scenario)
        .env("THROUGHLINE__NVML__LIBRARY", library)
        .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
        // Port 9 is discard, which nobody runs: what is read stays in the spool.
        .env("THROUGHLINE__DELIVERY__COLLECTOR", "http://127.0.0.1:9")
        .env("THROUGHLINE__SYSFS__ENABLED", "false")
        .env("THROUGHLINE__MPI__ENABLED", "false")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child = Running(child);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().context("its pipe")?).read_line(&mut line)?;
    ensure!(line.starts_with("listening"), "the agent did not start: {line}");
    std::thread::sleep(Duration::from_secs(5)); // its start is not what it costs
    let pid = child.0.id();
    let samplers = children(pid);
    ensure!(samplers.len() == 1, "{} samplers", samplers.len());
    let both = || anyhow::Ok((on_processor(pid)?, on_processor(samplers[0])?));
    let (before, begin) = (both()?, Instant::now());
    std::thread::sleep(time);
    let (after, elapsed) = (both()?, begin.elapsed().as_secs_f64());
    let share = |before: u64, after: u64| (after - before) as f64 / 1e9 / elapsed;
    let (agent, sampler) = (share(before.0, after.0), share(before.1, after.1));
    println!("the agent at one reading a second, {elapsed:.0} s");
    println!("  {:<44} {:>10.3} % of a processor", "agent: records, spool, sync", agent * 100.0);
    println!("  {:<44} {:>10.3} % of a processor", "sampler: the double's own time with it", sampler * 100.0);
    Ok(tell("both", (agent + sampler) * 100.0, PROCESSOR_GOAL * 100.0, "%"))
}
