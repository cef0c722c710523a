//! `throughline-weeks`: a site with known counters and jobs whose clocks jump through days, weeks and a year, and what is left of it against
//! what is known by formula: integrals of links by SQL and by PromQL against Prometheus' own storage, totals of jobs.
//!
//! PostgreSQL, `throughline serve`, agents, MPI programs and this program run under libfaketime, wall and monotonic clocks alike.

mod checks;
mod clock;
mod frames;
mod jobs;
mod plan;
mod program;
mod prometheus;
mod send;
mod site;
mod truth;
mod world;

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Plays weeks of a site and compares what is left with what is known.
#[derive(Debug, Parser)]
struct Options {
    /// Days to play; without it ten days with few hours in them
    #[arg(long)]
    days: Option<u32>,
    /// Days of them in which all is read all the time
    #[arg(long, default_value_t = 31)]
    dense: u32,
    /// Folder of Throughline's programs [default: this program's]
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Prints only checks that fail
    #[arg(long)]
    quiet: bool,
    /// Leaves logs and the database's files where they are
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("throughline-weeks: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let options = Options::parse();
    if !clock::is_faked() {
        clock::become_faked(&tempfile::Builder::new().prefix("tl-weeks").tempdir()?.keep())?;
    }
    let folder = clock::folder()?;
    let bin = match options.bin.clone() {
        Some(bin) => bin,
        None => std::env::current_exe()?.parent().context("this program's folder")?.to_owned(),
    };
    let bin = std::path::absolute(bin)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let stop = throughline_daemon::stop_signal()?;
        let plan = match options.days {
            Some(days) => plan::Plan::long(days.into(), options.dense.into()),
            None => plan::Plan::short(),
        };
        let play = async {
            let world = world::World::start(plan, &folder, &bin, options.quiet).await?;
            world.play().await
        };
        tokio::select! {
            played = play => played,
            () = stop.cancelled() => anyhow::bail!("stopped by a signal"),
        }
    });
    if options.keep {
        println!("logs and state stay in {}", folder.display());
    } else {
        std::fs::remove_dir_all(&folder)?;
    }
    let checks = result?;
    println!("{} checks passed, {} failed", checks.passed, checks.failed);
    Ok(checks.failed == 0)
}
