//! Minutes of sweeps at a steady pace with rows committed: drift, memory, overruns, and the times of both.

use crate::daemon::{Daemons, Said, is_there};
use crate::measure::{median, memory_now_bytes, quantile};
use crate::table::{Goal, Table};
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_simfabric::ibsim::SimFabric;

/// From the beginning of one sweep to the next, in seconds: 4 a second.
const INTERVAL: f64 = 0.25;
/// Memory at the end against memory after the first minute.
const GROWTH_GOAL: Goal = Goal::Most(1.05);
/// How far the last sweeps lie from the rhythm of the first, in seconds: a part of one interval that clocks and a busy
/// machine explain.
const DRIFT_GOAL: Goal = Goal::Most(0.05);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_secs(5);
/// Sweeps whose place in the rhythm is averaged, at the beginning and at the end.
const EDGE: usize = 40;
/// Sweeps timed by [`commits`] come so many seconds apart: long enough for each to be alone on its way.
const ALONE: f64 = 1.0;

/// The time from the first MAD of a sweep to the acknowledged commit of its rows, for so many sweeps.
pub fn commits(
    fabric: &SimFabric,
    host: &str,
    folder: &Path,
    sweeps: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    if !is_there() {
        println!("  time to commit: left out, `throughline` is not built with the same profile");
        return Ok(());
    }
    let mut daemons = Daemons::start(fabric, host, folder, ALONE)?;
    let mut times = Vec::new();
    // The first sweep makes the keys of all ports.
    while times.len() <= sweeps {
        if let (_, Said::Committed(seconds)) = daemons.next()? {
            times.push(seconds);
        }
    }
    table.figure("first MAD to committed rows: the very first sweep, s", times.remove(0), Goal::None);
    table.figure(&format!("  median of {sweeps}, s"), median(times.clone()), Goal::None);
    table.figure("  99th percentile, s", quantile(times, 0.99), Goal::None);
    Ok(())
}

/// What was seen over the time.
#[derive(Default)]
struct Seen {
    ends: Vec<Instant>,
    sweeps: Vec<f64>,
    commits: Vec<f64>,
    memory: Vec<(Duration, u64)>,
}

/// Runs for so long.
pub fn soak(
    fabric: &SimFabric,
    host: &str,
    folder: &Path,
    length: Duration,
    table: &mut Table,
) -> anyhow::Result<()> {
    anyhow::ensure!(is_there(), "`throughline` is not built with the same profile");
    let mut daemons = Daemons::start(fabric, host, folder, INTERVAL)?;
    let mut seen = Seen::default();
    // Inventory and keys are on their way with the first sweeps: the rhythm counts from the first commit.
    while !matches!(daemons.next()?, (_, Said::Committed(_))) {}
    let (start, mut looked) = (Instant::now(), Instant::now());
    while start.elapsed() < length {
        match daemons.next()? {
            (at, Said::Swept(seconds)) => {
                seen.ends.push(at - Duration::from_secs_f64(seconds));
                seen.sweeps.push(seconds);
            }
            (_, Said::Committed(seconds)) => seen.commits.push(seconds),
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            seen.memory.push((start.elapsed(), memory_now_bytes(&daemons.crawler())?));
        }
    }
    let overruns = daemons.metric("throughline_overruns_total", "\"mad\"")?;
    report(&seen, length, overruns, table)
}

fn report(seen: &Seen, length: Duration, overruns: f64, table: &mut Table) -> anyhow::Result<()> {
    anyhow::ensure!(seen.sweeps.len() > 2 * EDGE, "only {} sweeps: give it more minutes", seen.sweeps.len());
    let expected = length.as_secs_f64() / INTERVAL;
    table.figure(
        &format!("sweeps in {:.0} s, of {expected:.0} expected", length.as_secs_f64()),
        seen.sweeps.len() as f64,
        Goal::None,
    );
    table.figure("  sweeps whose rows were committed meanwhile", seen.commits.len() as f64, Goal::None);
    table.figure("overruns", overruns, Goal::None);
    table.figure("drift of the rhythm from beginning to end, s", drift(&seen.ends), DRIFT_GOAL);
    // Memory after the first minute, or after the first tenth of a short run.
    let warm = (length / 10).min(Duration::from_secs(60));
    let later: Vec<f64> =
        seen.memory.iter().filter(|(at, _)| *at >= warm).map(|(_, bytes)| *bytes as f64 / 1e6).collect();
    let edge = (later.len() / 5).max(1);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (first, last) =
        (mean(&later[..edge.min(later.len())]), mean(&later[later.len().saturating_sub(edge)..]));
    table.ratio("resident memory at the end; after the first minute, MB", last, first, GROWTH_GOAL);
    let tenths = later.chunks(later.len().div_ceil(10).max(1)).map(|part| format!("{:.1}", mean(part)));
    println!("    over the time: {} MB", tenths.collect::<Vec<_>>().join(", "));
    for (what, times) in [("sweep", &seen.sweeps), ("first MAD to committed rows", &seen.commits)] {
        table.figure(&format!("{what}: median, s"), median(times.clone()), Goal::None);
        table.figure("  99th percentile, s", quantile(times.clone(), 0.99), Goal::None);
    }
    Ok(())
}

/// How far the beginnings of the last sweeps lie beside the rhythm of the first ones: medians, so that single late
/// ones do not count; missed ticks do not either.
fn drift(starts: &[Instant]) -> f64 {
    let Some(origin) = starts.first() else { return 0.0 };
    let beside = |start: &Instant| {
        let intervals = (*start - *origin).as_secs_f64() / INTERVAL;
        (intervals - intervals.round()) * INTERVAL
    };
    let phase = |part: &[Instant]| median(part.iter().map(beside).collect());
    (phase(&starts[starts.len() - EDGE..]) - phase(&starts[..EDGE])).abs()
}
