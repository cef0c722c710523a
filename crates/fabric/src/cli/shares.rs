//! `link-shares`: whose bytes were on each link, from saved files: topology, forwarding tables, two readings of the counters,
//! and the traffic of jobs between hosts.

mod fabric;
mod text;
mod traffic;

use super::FabricOptions;
use super::source::DiscoveryNeeds;
use clap::Args;
use fabric::Fabric;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_daemon::Failure;
use throughline_infiniband::reading::{PortReading, Selection};
use throughline_shares::estimate::{Kind, estimate};

/// Links shown where nothing else is requested: a screen.
const TOP: usize = 20;

/// Options of `link-shares`.
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Options {
    /// Read traffic of a job between hosts: from,to,bytes,messages, as `throughline job matrix JOB --by node --csv` prints it
    #[arg(long, value_name = "[NAME=]FILE", required = true)]
    traffic: Vec<String>,
    /// Take the bytes of these files as known in this way; it decides how far they may be wrong
    #[arg(long, value_name = "KIND", default_value = "measured", value_parser = ["measured", "modelled", "logical"])]
    kind: String,
    /// Show only the fullest links; 0 for all that carried something
    #[arg(long, value_name = "NUMBER", default_value_t = TOP)]
    top: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const HELP: &str = "Examples:
  throughline job matrix 4711 --kind wire --by node --csv > 4711.csv
  throughline-fabric --saved case link-shares --traffic 4711.csv
  throughline-fabric --saved case link-shares --traffic alice=4711.csv --traffic bob=4712.csv --json

The folder needs the topology and the forwarding tables (ibnetdiscover, dump_fts). With two readings of the
counters (ibqueryerrors --counters --data, before and after) shares are fitted to what the ports counted in
between: they add up to it, what no file has is the share of the host that sent it, and the rest is headers,
management and errors. Without readings the files' bytes are laid along the routes as they are.";

/// Runs the command.
///
/// # Errors
/// Not `--saved` a folder, files that cannot be read or name hosts that are not there (64), no forwarding tables (69).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    if fabric.saved.is_none() {
        let text = "shares are made of saved files: name their folder with --saved (save writes one)";
        return Err(Failure::usage(text).into());
    }
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds { tables: true }, &stop)?.topology;
    super::route::configured(&topology)?;
    let readings = readings(&source, &topology, &stop)?;
    let fabric = Fabric::new(&topology);
    let kind = match options.kind.as_str() {
        "modelled" => Kind::Modelled,
        "logical" => Kind::Logical,
        _ => Kind::Measured,
    };
    let mut names = Vec::new();
    let mut flows = Vec::new();
    for file in &options.traffic {
        let (name, path) = named(file);
        let contributor = u32::try_from(names.len())?;
        flows.extend(traffic::read(&path, &fabric, contributor, kind)?);
        names.push(name);
    }
    let counted = match &readings {
        Some((before, after)) => fabric.counted(before, after),
        None => vec![None; fabric.links()],
    };
    let shares = estimate(&fabric, &flows, &counted);
    let found = text::links(&fabric, &names, &shares, options.top);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        serde_json::to_writer(&mut out, &text::document(&found, readings.is_some()))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text::table(&found, readings.is_some()).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The first and the last saved reading; `None` where there are not two.
fn readings(
    source: &super::source::Source,
    topology: &throughline_infiniband::topology::Topology,
    stop: &throughline_crawler::stop::Stop,
) -> anyhow::Result<Option<(Vec<PortReading>, Vec<PortReading>)>> {
    let Ok(mut counting) = source.counters(topology, Selection::default()) else { return Ok(None) };
    if counting.left().is_none_or(|left| left < 2) {
        return Ok(None);
    }
    counting.sweep(stop)?;
    let before = counting.readings().to_vec();
    while counting.left().is_some_and(|left| left > 0) {
        counting.sweep(stop)?;
    }
    Ok(Some((before, counting.readings().to_vec())))
}

/// The name of a job and its file: `NAME=FILE`, or the file's own name without its ending.
fn named(text: &str) -> (String, PathBuf) {
    if let Some((name, file)) = text.split_once('=')
        && !name.is_empty()
        && !name.contains('/')
    {
        return (name.to_owned(), PathBuf::from(file));
    }
    let path = PathBuf::from(text);
    let name = path.file_stem().map_or_else(|| text.to_owned(), |stem| stem.to_string_lossy().into_owned());
    (name, path)
}
