//! `discover`: the subnet's nodes, ports and cables.

use super::FabricOptions;
use super::source::DiscoveryNeeds;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;

/// Options of `discover`.
#[derive(Args)]
pub struct Options {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Read the forwarding tables as well, which takes longer and prints the same; to measure it
    #[arg(long, hide = true)]
    tables: bool,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer.
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let found = super::source::open(fabric)?.discover(DiscoveryNeeds { tables: options.tables }, &stop)?;
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", found.topology.to_json())?;
    } else {
        write!(out, "{}", found.topology.to_text())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
