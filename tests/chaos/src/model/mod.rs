//! The model: the real spool, the real delivery and the real queue and writer of the collector, on simulated disks, a
//! simulated network and a simulated clock, with a database and leases in memory. One thread plays a seed, so that it
//! plays the same way again, and minutes of faults take milliseconds.
//!
//! What must hold at the end of each play: every record that was said to be on disk is stored once, set aside once, or
//! counted as lost by the spool that lost it; nothing else is stored; terms of crawlers never overlap; everything
//! is delivered within a bounded time.

mod database;
mod network;
mod node;
mod pause;
mod play;
mod terms;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The kinds of event that a database refuses, and that count as readings of a fabric.
const POISON: &str = "model.poison";
const READING: &str = "model.reading";

/// UTC of the beginning of each play, nanoseconds.
const EPOCH: i64 = 1_800_000_000_000_000_000;

/// The time of the database and of every clock that is right.
fn now_nanoseconds() -> i64 {
    EPOCH + i64::try_from(play::elapsed().as_nanos()).unwrap_or(i64::MAX - EPOCH)
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    node: u64,
    number: u64,
}

impl Id {
    fn text(self) -> String {
        format!("{} {}", self.node, self.number)
    }

    fn of(text: &str) -> Id {
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(u64::MAX));
        Id { node: numbers.next().unwrap_or(u64::MAX), number: numbers.next().unwrap_or(u64::MAX) }
    }
}

/// Which seeds are played.
#[derive(clap::Args, Clone)]
pub struct Options {
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    pub seeds: u64,
    /// Only this seed [default: THROUGHLINE_CHAOS_SEED, else all from 0 on]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What happened in a play.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A sum over everything that the database did, with its times.
    pub digest: u64,
    /// Faults by kind, and what became of records.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Plays the seeds, as many side by side as there are processors.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let named = std::env::var("THROUGHLINE_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    let (first, count) = options.seed.or(named).map_or((0, options.seeds), |seed| (seed, 1));
    let begun = Instant::now();
    let (next, all, failed) = (AtomicU64::new(first), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match play::play(seed, count == 1) {
                        Ok(outcome) => {
                            let mut all = node::locked(&all);
                            for (what, count) in outcome.counts {
                                *all.entry(what).or_insert(0) += count;
                            }
                        }
                        Err(error) => {
                            println!("FAIL seed {seed}: {error:#}");
                            println!("  again with: cargo run -p throughline-chaos -- model --seed {seed}");
                            node::locked(&failed).push(seed);
                        }
                    }
                }
            });
        }
    });
    for (what, count) in node::locked(&all).iter() {
        println!("  {count:9} {what}");
    }
    let failed = failed.into_inner().unwrap_or_default();
    let seconds = begun.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    anyhow::ensure!(failed.is_empty(), "{} of {count} seeds failed", failed.len());
    println!("PASS {count} seeds in {seconds:.1} s");
    Ok(())
}
