//! `route`: the way from one node to another.

use super::FabricOptions;
use super::source::Need;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use throughline_daemon::Failure;
use throughline_fabric::route::RouteError;
use throughline_sample::Guid;

/// Options of `route`.
#[derive(Args)]
pub struct Options {
    /// Source: a node GUID or a port GUID, 0x and up to 16 hexadecimal digits
    #[arg(value_name = "SRC_GUID")]
    source: Guid,
    /// Destination: a node GUID or a port GUID
    #[arg(value_name = "DST_GUID")]
    destination: Guid,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, an unknown GUID (64), no route.
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let topology = super::source::open(fabric)?.discover(Need { tables: true }, &stop)?.topology;
    let hops = topology.route(options.source, options.destination).map_err(|error| match error {
        RouteError::UnknownGuid(_) => anyhow::Error::from(Failure::usage(error.to_string())),
        other => anyhow::Error::from(other),
    })?;
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", topology.route_json(&hops))?;
    } else {
        write!(out, "{}", topology.route_text(&hops))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
