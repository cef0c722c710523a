//! Wall and CPU time of processes, and medians.

use anyhow::Context;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seconds that something took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// By the clock.
    pub wall: f64,
    /// On processors, all threads.
    pub cpu: f64,
}

/// Medians of some costs.
#[derive(Clone, Copy, Debug)]
pub struct Medians {
    /// By the clock.
    pub wall: f64,
    /// On processors.
    pub cpu: f64,
}

impl Medians {
    /// Of at least one cost.
    pub fn of(costs: &[Cost]) -> Medians {
        let of = |value: fn(&Cost) -> f64| median(costs.iter().map(value).collect());
        Medians { wall: of(|cost| cost.wall), cpu: of(|cost| cost.cpu) }
    }
}

/// The middle value; NaN of none.
pub fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share lies; NaN of none.
pub fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// CPU seconds so far: of this process, or of children that ended.
pub fn cpu(who: UsageWho) -> anyhow::Result<f64> {
    let usage: Usage = getrusage(who)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

/// Runs a process to its end, its output thrown away; it must end with one of these statuses.
pub fn process(command: &mut Command, statuses: &[i32]) -> anyhow::Result<Cost> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (start, before) = (Instant::now(), cpu(UsageWho::RUSAGE_CHILDREN)?);
    let status = command.status().with_context(|| format!("{command:?}"))?;
    let wall = start.elapsed().as_secs_f64();
    let ended_well = status.code().is_some_and(|code| statuses.contains(&code));
    anyhow::ensure!(ended_well, "{command:?} ended with {status}");
    Ok(Cost { wall, cpu: cpu(UsageWho::RUSAGE_CHILDREN)? - before })
}

/// The most memory that a process (`self`, or its number) has had resident so far.
pub fn peak_memory_bytes(process: &str) -> anyhow::Result<u64> {
    memory_bytes(process, "VmHWM:")
}

/// The memory that a process has resident now.
pub fn memory_now_bytes(process: &str) -> anyhow::Result<u64> {
    memory_bytes(process, "VmRSS:")
}

fn memory_bytes(process: &str, key: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kibibytes.with_context(|| format!("{key} of {process}"))? * 1024)
}
