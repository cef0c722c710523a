//! The run: a site of real processes, faults for as long as was requested, healing, and the comparison.

mod contested;
mod faults;
mod hostile;
mod ledger;
mod part;
mod probes;
mod proxy;
mod site;

use anyhow::{Context, bail};
use faults::{Fault, FaultKind};
use probes::Probes;
use site::Site;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long everything may take to be delivered once all faults are over. Longest pauses of senders and of the
/// spool's writer together are below a minute.
const HEAL_PATIENCE: Duration = Duration::from_secs(180);

/// How long short jobs begin after the faults, and the longest time for all of them to have their reports.
const CALM_STARTS: Duration = Duration::from_secs(100);
const CALM_PATIENCE: Duration = Duration::from_secs(300);

/// What a run is made of.
#[derive(clap::Args, Clone)]
pub struct Options {
    /// How long faults go on
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// Which faults, in which order [default: THROUGHLINE_CHAOS_SEED, else a random number]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Faults a minute
    #[arg(long, default_value_t = 10.0)]
    pub rate: f64,
    /// Folder of throughline, throughline-agent, throughline-fabric, throughline-simfabric [default: this program's]
    #[arg(long)]
    pub bin_dir: Option<PathBuf>,
    /// Nodes with a valid certificate that claim everything, all the time
    #[arg(long, default_value_t = 1)]
    pub hostile_nodes: usize,
    /// Users with floods of short ranks, all the time
    #[arg(long, default_value_t = 1)]
    pub hostile_users: usize,
    /// Kinds of faults to leave out, with commas
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<FaultKind>,
    /// Leave logs and state of the site where they are, also after a good end
    #[arg(long)]
    pub retain: bool,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let named = std::env::var("THROUGHLINE_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = options.seed.or(named).unwrap_or_else(|| fastrand::u64(..1 << 32));
    let Options { minutes, rate, .. } = options;
    let command =
        format!("cargo run -p throughline-chaos -- --minutes {minutes} --rate {rate} --seed {seed}");
    println!("seed {seed}; again with: {command}");
    let result = run_seed(options, seed);
    match &result {
        Ok(()) => println!("PASS seed {seed}"),
        Err(error) => println!("FAIL seed {seed}: {error:#}\nagain with: {command}"),
    }
    result
}

fn run_seed(options: &Options, seed: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut site = Site::start(options, &runtime).context("starting the site")?;
    let mut probes = Probes::default();
    let counts = match inject(&mut site, &mut probes, options, seed) {
        Ok(counts) => counts,
        Err(error) => {
            site.retain();
            return Err(error);
        }
    };
    println!("faults:");
    for (kind, count) in &counts {
        println!("  {count:5} {kind}");
    }
    println!("  {:5} in all", counts.values().sum::<usize>());
    let result = calm(&mut site, &mut probes)
        .and_then(|()| settle(&mut site))
        .and_then(|()| ledger::compare(&mut site));
    let result = result.and_then(|()| probes.check(options.hostile_nodes));
    if options.retain || result.is_err() {
        site.retain();
    }
    result.and(site.end())
}

/// Faults at the rate that was requested, each with its end, until the time is over.
fn inject(
    site: &mut Site,
    probes: &mut Probes,
    options: &Options,
    seed: u64,
) -> anyhow::Result<BTreeMap<FaultKind, usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(options.minutes * 60.0);
    let mean = 60.0 / options.rate.max(0.1);
    let mut counts = BTreeMap::new();
    let mut next = started + Duration::from_secs(3);
    while Instant::now() < end {
        if Instant::now() >= next {
            // All numbers of a fault are drawn at once, so that the sequence is the seed's alone.
            let fault = Fault::draw(&mut random, site);
            next += Duration::from_secs_f64(mean * (0.5 + random.f64()));
            if options.without.contains(&fault.kind) {
                continue;
            }
            if let Some(what) = site.apply(&fault)? {
                println!("{:8.1} {:14} {what}", started.elapsed().as_secs_f64(), fault.kind.to_string());
                *counts.entry(fault.kind).or_insert(0) += 1;
            }
        }
        site.undo_due(Instant::now())?;
        step(site, probes, true)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{:8.1} the faults end", started.elapsed().as_secs_f64());
    Ok(counts)
}

/// Looks after the site and the short jobs; with `starts` a new one begins when it is due.
fn step(site: &mut Site, probes: &mut Probes, starts: bool) -> anyhow::Result<()> {
    site.watch()?;
    probes.note(site.has_faults());
    if starts && probes.is_due() {
        probes.start(site)?;
    }
    probes.go_on(site);
    Ok(())
}

/// Ends all faults, and waits until short jobs that begin then have their reports, while the hostile ones go on.
fn calm(site: &mut Site, probes: &mut Probes) -> anyhow::Result<()> {
    site.undo_all()?;
    let (begun, end) = (Instant::now(), Instant::now() + CALM_PATIENCE);
    loop {
        let starts = begun.elapsed() < CALM_STARTS;
        step(site, probes, starts)?;
        if !starts && !probes.are_open() || Instant::now() > end {
            return site.finish_hostile();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends all production, and waits until everything is delivered.
fn settle(site: &mut Site) -> anyhow::Result<()> {
    site.finish_producers()?;
    let end = Instant::now() + HEAL_PATIENCE;
    let mut left = String::new();
    // Twice in a row: what is in a daemon's own queues gets to its spool within its batch interval.
    let mut empty = 0;
    while empty < 2 {
        if Instant::now() > end {
            bail!("stuck: {HEAL_PATIENCE:?} after the last fault this is not delivered: {left}");
        }
        site.watch()?;
        std::thread::sleep(Duration::from_secs(2));
        left = site.undelivered();
        empty = if left.is_empty() { empty + 1 } else { 0 };
    }
    site.finish_writers()
}
