//! The daemon `throughline-agent`: sources of one node to spool to collector.
//!
//! Wiring only: what is read, retained and sent is decided in the crates that it joins.

mod batch;
mod batcher;
mod config;
mod control;
mod detail;
mod gpu;
mod health;
mod help;
mod latest;
mod mpi_quota;
mod mpi_totals;
mod node;
mod once;
mod placement;
mod privileges;
mod profilers;
mod recorder;
mod run;
mod sample_json;
mod self_metrics;
mod sources;
mod users;
mod values;

use crate::config::{Config, Places};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_agent::{fold, live, rounds};
use throughline_daemon::{LogOptions, bound_allocator, finish, usage};

/// Name of the program in messages.
const PROGRAM: &str = "throughline-agent";

/// Read MPI ranks, GPU links and InfiniBand ports of this node and send what was read to a collector
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, max_term_width = 100, after_help = help::ALL)]
struct Cli {
    /// Read the configuration from FILE [default: /etc/throughline/agent.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep state in FOLDER [default: /var/lib/throughline for root, else $XDG_STATE_HOME/throughline]
    #[arg(long, global = true, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    log: LogOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Read all sources and deliver, until SIGTERM or Ctrl-C
    #[command(after_help = help::RUN)]
    Run,
    /// Print one sample of each source as JSON, and why a source has none
    #[command(after_help = help::ONCE)]
    Once,
    /// Show this node's GPUs and their links
    #[command(subcommand)]
    Gpu(gpu::GpuCommand),
    /// List batches that the collector rejected, and why; they are sent again once that is corrected
    RejectedBatches {
        /// Print one JSON document per line
        #[arg(long)]
        json: bool,
    },
    /// List what this node's recorder has: the last hour of all sources in full resolution
    #[command(after_help = help::RECORDER)]
    Recorder(recorder::Options),
    /// Check the configuration and print what holds, with all defaults
    CheckConfig,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The agent's own children, in which the GPU driver may hang or crash: nothing else runs there.
    match arguments.next() {
        Some(first) if first == throughline_gpu::SUBCOMMAND => {
            return throughline_gpu::sampler_main(arguments);
        }
        Some(first) if first == throughline_gpu::cupti::CUPTI_SUBCOMMAND => {
            return throughline_gpu::cupti::cupti_sampler_main(arguments);
        }
        Some(first) if first == throughline_gpu::cupti::METRICS_SUBCOMMAND => {
            return throughline_gpu::cupti::metrics_main(arguments);
        }
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return usage(&said),
    };
    finish(PROGRAM, start(&cli))
}

fn start(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Gpu(_) | Command::Recorder(_) => cli.log.start_quietly()?,
        Command::Run | Command::Once | Command::RejectedBatches { .. } | Command::CheckConfig => {
            cli.log.start()?
        }
    }
    let mut config: Config = throughline_daemon::config::load("agent", cli.config.as_deref())?;
    let places = config.resolve(cli.state_dir.as_deref())?;
    if let Command::CheckConfig = cli.command {
        config.check_files(&places)?;
        let text = throughline_daemon::config::print(&config)?;
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::RejectedBatches { json } = cli.command {
        let folder = places.state_dir.join(run::REFUSED_FOLDER);
        throughline_delivery::print_refused(&folder, json, &mut std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::Recorder(options) = &cli.command {
        return recorder::list(options, &config, &places);
    }
    bound_allocator();
    // Before there are threads: each has capabilities of its own.
    privileges::keep_needed(&config);
    // Two threads: one for what sources send, one for delivery and /metrics. The node belongs to its jobs.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(command(&cli.command, &config, &places));
    // What still runs on a blocking thread (a read of a wedged file system) must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn command(command: &Command, config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    match command {
        Command::Once => once::once(config, places).await,
        Command::Gpu(what) => gpu::run(*what, config, places).await,
        Command::Run | Command::RejectedBatches { .. } | Command::Recorder(_) | Command::CheckConfig => {
            run::run(config, places).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
