//! Looking for users' profilers: what it costs beside a node's processes, and how soon a profiler has the GPUs.

use super::{Running, tell};
use anyhow::{Context, ensure};
use nix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_host::profilers::ProfilerWatch;

/// Processes that sleep, and as many that change: ranks of a full node.
const RANKS: u32 = 64;
/// The agent's interval.
const LOOK: Duration = Duration::from_millis(500);
/// Goal: share of one processor.
const PROCESSOR_GOAL: f64 = 0.005;
/// Goal: from a profiler's start until it has the performance monitor.
const REACTION_GOAL_SECONDS: f64 = 1.0;
/// Profilers that are started for that.
const PROFILERS: usize = 10;

/// Takes and gives back memory each 0.1 s, and has one mapping more in three of six times, as a program that computes does.
pub fn grow() {
    std::thread::spawn(|| {
        for round in 1_usize.. {
            // A stack beyond what the C library keeps, with a page that guards it: no data.
            let more = (round % 6 == 0).then(|| {
                let thread = std::thread::Builder::new().stack_size(64 << 20);
                thread.spawn(|| std::thread::sleep(Duration::from_millis(300)))
            });
            // Beyond what the allocator keeps: it is mapped, and unmapped a moment later.
            let memory = vec![1_u8; (1 + round % 7) << 20];
            std::hint::black_box((&memory, more));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}

/// Looks at the processes of this machine, ranks among them, and prints the share of a processor; whether it meets the goal.
pub fn cost(time: Duration, others: u32) -> anyhow::Result<bool> {
    let sleeper = || Command::new("sleep").arg("86400").spawn().map(Running);
    let own = std::env::current_exe()?;
    let changing = || Command::new(&own).arg("grow").stdin(Stdio::piped()).spawn().map(Running);
    let mut ranks = (0..RANKS + others).map(|_| sleeper()).collect::<Result<Vec<_>, _>>()?;
    ranks.extend((0..RANKS).map(|_| changing()).collect::<Result<Vec<_>, _>>()?);
    std::thread::sleep(Duration::from_secs(1));
    let mut watch = ProfilerWatch::new(Path::new("/proc"));
    let processor = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let before = processor()?;
    let look = watch.look()?;
    let first = processor()? - before;
    let (begin, before) = (Instant::now(), processor()?);
    let mut looks = 0;
    while begin.elapsed() < time {
        let next = Instant::now() + LOOK;
        watch.look()?;
        looks += 1;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let (used, elapsed) = (processor()? - before, begin.elapsed());
    drop(ranks);
    println!("{looks} looks at {} processes; {RANKS} change each 0.1 s", look.processes);
    println!("  {:<44} {:>10.3} ms", "the first look", first.as_secs_f64() * 1e3);
    println!("  {:<44} {:>10.3} ms", "one look", used.as_secs_f64() / f64::from(looks) * 1e3);
    let share = used.as_secs_f64() / elapsed.as_secs_f64();
    Ok(tell("looking for profilers", share * 100.0, PROCESSOR_GOAL * 100.0, "%"))
}

/// Starts profilers one after the other beside an agent that samples, and prints how long the slowest waited.
pub fn reaction(programs: &Path, library: &Path) -> anyhow::Result<bool> {
    let doubles = library.parent().context("the doubles' folder")?;
    let folder = tempfile::tempdir()?;
    let scenario = folder.path().join("scenario");
    let text = std::fs::read_to_string("crates/gpu/scenarios/ampere-pm.scenario")?;
    std::fs::write(&scenario, format!("{text}\nmonitors {}\n", folder.path().display()))?;
    let program = folder.path().join("ncu");
    std::fs::copy(doubles.join("profiler"), &program)?;
    let agent = Command::new(programs.join("throughline-agent"))
        .args(["run", "--log-level", "warn", "--state-dir"])
        .arg(folder.path().join("state"))
        .env(SCENARIO_VARIABLE, &scenario)
        .env("THROUGHLINE__CUPTI__ENABLED", "true")
        .env("THROUGHLINE__CUPTI__CUDA", doubles.join("libcuda.so.1"))
        .env("THROUGHLINE__CUPTI__LIBRARY", doubles.join("libcupti.so"))
        .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
        // Port 9 is discard, which nobody runs.
        .env("THROUGHLINE__DELIVERY__COLLECTOR", "http://127.0.0.1:9")
        .env("THROUGHLINE__NVML__ENABLED", "false")
        .env("THROUGHLINE__SYSFS__ENABLED", "false")
        .env("THROUGHLINE__MPI__ENABLED", "false")
        .stdout(Stdio::null())
        .spawn()?;
    let _agent = Running(agent);
    let mut times = Vec::new();
    while times.len() < PROFILERS {
        // Long enough that it samples again, and at another moment between two looks each time.
        std::thread::sleep(Duration::from_millis(4000 + 137 * times.len() as u64));
        times.push(waited(&program, doubles, &scenario)?);
    }
    times.sort_by(f64::total_cmp);
    println!("{PROFILERS} profilers, each while the agent samples a double");
    println!("  {:<44} {:>10.3} s", "until the GPU is its own, median", times[PROFILERS / 2]);
    Ok(tell("until the GPU is its own, longest", times[PROFILERS - 1], REACTION_GOAL_SECONDS, "s"))
}

/// Seconds from a profiler's start until it has the performance monitor.
fn waited(program: &Path, doubles: &Path, scenario: &Path) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let child: Child = Command::new(program)
        .arg("takes")
        .args([doubles.join("libcuda.so.1"), doubles.join("libcupti.so")])
        .env(SCENARIO_VARIABLE, scenario)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child = Running(child);
    let mut lines = BufReader::new(child.0.stdout.take().context("its pipe")?).lines();
    let mut said = || anyhow::Ok(lines.next().context("it ended")??);
    ensure!([said()?, said()?] == ["open", "busy"], "the agent did not sample");
    ensure!(said()? == "has");
    Ok(begin.elapsed().as_secs_f64())
}
