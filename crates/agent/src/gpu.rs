//! `throughline-agent gpu …`: what a person wants to know of a node's GPUs, without a running agent.
//!
//! Each command starts a source of its own, in a child process as the agent does, reads, prints and ends.

mod doctor;
mod draw;
mod read;
mod top;
mod topo;

use crate::config::{Config, Places};
use crate::control;
use clap::Subcommand;
use std::process::ExitCode;
use std::time::Duration;

/// The commands.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum GpuCommand {
    /// Draw the node: GPUs, adapters and CPUs over PCIe, and the links between GPUs, CPUs and switches
    #[command(after_help = TOPO)]
    Topo {
        /// Show each physical link of a logical one
        #[arg(long)]
        physical: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show how much of each link is used, now and again
    #[command(after_help = TOP)]
    Top {
        /// Read every SECONDS
        #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = interval)]
        interval: Duration,
        /// End after N readings [default: until Ctrl-C]
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Show each link, not only each GPU
        #[arg(long)]
        links: bool,
        /// Print one JSON object per line, link and reading
        #[arg(long)]
        json: bool,
    },
    /// Have the running agent give the GPUs' performance monitors to a profiler, within a second
    #[command(after_help = PAUSE)]
    Pause {
        /// Give them for so long: the agent takes them again by itself
        #[arg(long = "for", value_name = "SECONDS", default_value_t = 3600,
              value_parser = clap::value_parser!(u64).range(1..=control::PAUSE_MAX.as_secs()))]
        seconds: u64,
    },
    /// Have the running agent take them again
    Resume,
    /// Report what can be read here, by which source, and how to allow the rest
    #[command(after_help = DOCTOR)]
    Doctor {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// Shortest interval: a reading of all GPUs of a node takes milliseconds.
const SHORTEST: Duration = Duration::from_millis(50);
/// Longest interval: longer ones are for the database.
const LONGEST: Duration = Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    let span = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let (shortest, longest) = (SHORTEST.as_secs_f64(), LONGEST.as_secs());
    (SHORTEST..=LONGEST)
        .contains(&span)
        .then_some(span)
        .ok_or(format!("expected {shortest} to {longest} seconds"))
}

const TOPO: &str = "\
Capacities are of one direction. A GPU that links lead to and that is not on this node is `elsewhere`.

Examples:
  throughline-agent gpu topo --physical
  throughline-agent gpu topo --json | jq '.logical_links[] | {from, to, count}'";

const TOP: &str = "\
Rates are made of counters, over the time between two readings. A link whose counters began anew has none until
the reading after.

Examples:
  throughline-agent gpu top --links
  throughline-agent gpu top --count 10 --json | jq 'select(.transmit_utilisation > 0.8)'";

const DOCTOR: &str = "\
Ends with 0 where all that this node has can be read or is switched off on purpose, with 2 where something is there
and can't be read.";

const PAUSE: &str = "\
Only with cupti.enabled: NVML takes nothing from profilers. A job's prolog can make a file in
cupti.leases instead, which holds until its epilog removes it.

Example:
  throughline-agent gpu pause --for 600 && nsys profile ./program; throughline-agent gpu resume";

/// Runs one command.
pub async fn run(what: GpuCommand, config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    match what {
        GpuCommand::Topo { physical, json } => topo::run(config, places, physical, json).await,
        GpuCommand::Top { interval, count, links, json } => {
            let how = top::TopOptions { interval, count, links, json };
            top::run(config, &how).await
        }
        GpuCommand::Pause { seconds } => {
            control::query(&places.control_socket, control::Request::Pause(Duration::from_secs(seconds)))
        }
        GpuCommand::Resume => control::query(&places.control_socket, control::Request::Resume),
        GpuCommand::Doctor { json } => doctor::run(config, places, json).await,
    }
}
