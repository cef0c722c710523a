//! Development tasks that need the workspace's own types: `cargo xtask --help`.

use anyhow::Context;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of Throughline")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write docs/METRICS.md from the metric catalogue
    Metrics,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Metrics => write_metrics(),
    }
}

fn write_metrics() -> anyhow::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS.md");
    std::fs::write(path, throughline_sample::catalogue::to_markdown())
        .with_context(|| format!("writing {path}"))?;
    println!("wrote docs/METRICS.md");
    Ok(())
}
