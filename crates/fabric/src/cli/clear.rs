//! `clear`: sets counters of chosen ports to 0, which nothing else of Throughline does.

use super::FabricOptions;
use super::nodes::{self, Pattern};
use super::source::{DiscoveryNeeds, Source};
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use throughline_crawler::clear::clear_port;
use throughline_crawler::sweep::{ClockPoint, Sweeper};
use throughline_crawler::transport::{Class, Destination};
use throughline_daemon::Failure;
use throughline_infiniband::mad::{CLEARABLE, ClassPortInfo, CounterSelection};
use throughline_infiniband::reading::{PortReading, Selection};
use throughline_infiniband::topology::label;

/// Options of `clear`.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").args(["node", "whole_fabric"]).required(true)))]
pub struct Options {
    /// Clear ports of these nodes: a GUID, a LID, or part of a name; may be repeated
    #[arg(long, value_name = "NODE")]
    node: Vec<Pattern>,
    /// Clear ports of every node of the fabric
    #[arg(long)]
    whole_fabric: bool,
    /// Clear only these ports of the nodes [default: all that have a link]
    #[arg(long, value_name = "NUMBER,…", value_delimiter = ',')]
    ports: Vec<u8>,
    /// Clear these counters, by name, or `errors`, or `all`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "errors")]
    counters: Vec<String>,
    /// Clear them; without this only report what would be cleared
    #[arg(long)]
    yes: bool,
    /// Print one JSON object per line and port
    #[arg(long)]
    json: bool,
}

/// The counters chosen.
fn selection(names: &[String]) -> Result<CounterSelection, Failure> {
    let mut bits = 0;
    for name in names {
        bits |= match name.as_str() {
            "errors" => CounterSelection::ERRORS.0,
            "all" => CounterSelection::ALL.0,
            name => match CLEARABLE.iter().position(|metric| metric.name == name) {
                Some(bit) => 1 << bit,
                None => {
                    let known: Vec<&str> = CLEARABLE.iter().map(|metric| metric.name).collect();
                    let known = known.join(", ");
                    let text =
                        format!("`{name}` is no counter that can be cleared: expected errors, all, {known}");
                    return Err(Failure::usage(text));
                }
            },
        };
    }
    Ok(CounterSelection(bits))
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, unknown nodes or counters (64), ports that were not cleared.
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let selection = selection(&options.counters)?;
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let Source::Live(live) = &source else {
        return Err(Failure::usage("counters of saved files can't be cleared").into());
    };
    let chosen = nodes::select(&topology, &options.node)?;
    let mut engine = super::fabric::engine(&live.port, Class::Performance, live.settings)?;
    let unlinked = Selection { unlinked: !options.ports.is_empty(), ..Selection::default() };
    let mut sweeper = Sweeper::new(&mut engine, &topology, 0, unlinked, None);
    // What each agent can do, and that it is there.
    sweeper.sweep(&mut engine, ClockPoint::now(), stop.flag())?;
    drop(engine);
    let is_chosen = |reading: &PortReading| {
        chosen.has(reading.node) && (options.ports.is_empty() || options.ports.contains(&reading.port))
    };
    let ports: Vec<(PortReading, Option<ClassPortInfo>)> = sweeper
        .readings()
        .iter()
        .enumerate()
        .filter(|(_, reading)| is_chosen(reading))
        .map(|(place, reading)| (*reading, sweeper.capabilities(place)))
        .collect();
    if sweeper.is_empty() {
        return Err(Failure::unavailable(super::sweep::NOTHING_TO_READ).into());
    }
    if ports.is_empty() {
        return Err(Failure::usage("no port of these nodes has counters that could be cleared").into());
    }
    let mut transport = match options.yes {
        true => Some(live.port.open(Class::Performance).map_err(throughline_crawler::run::device_failure)?),
        false => None,
    };
    let mut out = std::io::stdout().lock();
    let mut failed = 0;
    for (port, capabilities) in &ports {
        if stop.is_set() {
            break;
        }
        let result = match (&mut transport, capabilities) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("it did not answer".to_owned()),
            (Some(transport), Some(capabilities)) => {
                let to = Destination::Lid { lid: port.lid, service_level: 0 };
                let timeout = live.settings.timeout;
                let done = clear_port(transport.as_mut(), to, port.port, selection, capabilities, timeout);
                done.map_err(|error| error.to_string())
            }
        };
        failed += usize::from(result.is_err());
        let name = label(&topology.nodes[port.node].description, port.guid);
        let done = options.yes && result.is_ok();
        if options.json {
            let error = result.err();
            let line = serde_json::json!({
                "guid": port.guid, "num": port.port, "cleared": done, "error": error,
            });
            writeln!(out, "{line}")?;
        } else {
            match result {
                Err(error) => writeln!(out, "{name} port {}: not cleared: {error}", port.port)?,
                Ok(()) if done => writeln!(out, "{name} port {}: cleared", port.port)?,
                Ok(()) => writeln!(out, "{name} port {}: would be cleared", port.port)?,
            }
        }
    }
    if !options.json {
        let names: Vec<&str> = (0..CLEARABLE.len())
            .filter(|bit| selection.0 & (1 << bit) != 0)
            .map(|bit| CLEARABLE[bit].name)
            .collect();
        writeln!(out, "counters: {}", names.join(", "))?;
        if !options.yes {
            writeln!(out, "nothing was cleared: add --yes to clear these counters of {} ports", ports.len())?;
        }
    }
    out.flush()?;
    anyhow::ensure!(failed == 0, "{failed} of {} ports were not cleared", ports.len());
    Ok(ExitCode::SUCCESS)
}
