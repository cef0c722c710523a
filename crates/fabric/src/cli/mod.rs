//! Command line: options, and one module per command.

mod discover;
mod fabric;
mod route;
mod stop;
mod sweep;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::LogOptions;
use throughline_fabric::engine::{self, Settings};

/// Reads an InfiniBand fabric: topology, routes and port counters. It never changes or clears anything.
#[derive(Parser)]
#[command(name = "throughline-fabric", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: FabricOptions,
    #[command(flatten)]
    log: LogOptions,
}

/// Which local port, and how hard to ask.
#[derive(Args)]
pub struct FabricOptions {
    /// Local device, for instance mlx5_0 [default: the first with an active port]
    #[arg(long, global = true, value_name = "DEVICE")]
    ca: Option<String>,
    /// Port of the local device [default: its first active port]
    #[arg(long, global = true, value_name = "NUMBER")]
    port: Option<u8>,
    /// Time until a request without an answer is repeated [default: 200]
    #[arg(long, global = true, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout: Option<u64>,
    /// Requests outstanding at once [default: 32]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=engine::MAX_WINDOW as i64))]
    window: Option<u8>,
}

impl FabricOptions {
    /// Settings of an engine, from the options and the defaults.
    fn settings(&self, defaults: Settings) -> Settings {
        Settings {
            window: self.window.map_or(defaults.window, usize::from),
            timeout: self.timeout.map_or(defaults.timeout, Duration::from_millis),
            ..defaults
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Walk the subnet and print nodes, ports and cables
    Discover(discover::Options),
    /// Read the counters of all ports with a link
    Sweep(sweep::Options),
    /// Print the way from one node to another, from the forwarding tables
    Route(route::Options),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Whatever ends it early; a [`throughline_daemon::Failure`] in the chain has the exit status.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.log.start()?;
        match self.command {
            Command::Discover(options) => discover::run(&self.options, &options),
            Command::Sweep(options) => sweep::run(&self.options, &options),
            Command::Route(options) => route::run(&self.options, &options),
        }
    }
}
