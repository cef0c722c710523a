//! `errors`: ports whose error counters are above their thresholds, as rates or as totals, like `ibqueryerrors`.

use super::FabricOptions;
use super::error_scan::{ErrorScan, scan};
use super::nodes::{Pattern, SelectedNodes, select};
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_infiniband::check::{UnreadPorts, describe, port_ranges};
use throughline_infiniband::errors::{COMMON, CounterExcess, Thresholds, find};
use throughline_infiniband::reading::Sets;
use throughline_infiniband::topology::{PortEnd, Topology, aligned, label};
use throughline_sample::Guid;
use throughline_sample::catalogue::TRANSMIT_WAIT;

/// Largest thresholds file: one of a line a counter has a hundredth of it.
const MOST_FILE_BYTES: u64 = 64 << 10;

/// Options of `errors`.
#[derive(Args)]
pub struct Options {
    /// Wait SECONDS between the two readings that make rates
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::sweep::seconds, allow_negative_numbers = true)]
    interval: Duration,
    /// Read once and print what was counted since the counters were cleared
    #[arg(long, visible_alias = "once", conflicts_with = "interval")]
    totals: bool,
    /// Read why packets were received in error or discarded, where the device reports: 2 more MADs a port
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    judged: ErrorCriteria,
    /// Print one JSON object per line and port
    #[arg(long)]
    json: bool,
}

/// Which nodes, and what is too much: the same for `errors` and `check`.
#[derive(Args)]
pub struct ErrorCriteria {
    /// Show these nodes only: a GUID, a LID, or part of a name; may be repeated
    #[arg(long = "node", visible_alias = "switch", value_name = "NODE")]
    nodes: Vec<Pattern>,
    /// Read the largest counts that are no error from FILE, in ibqueryerrors' format [default: 0 of each counter]
    #[arg(long, value_name = "FILE", visible_alias = "threshold-file")]
    thresholds: Option<PathBuf>,
    /// Leave out these counters: IBTA's names or ours, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    suppress: Vec<String>,
    /// Leave out receive_switch_relay_errors, which multicast counts without any fault
    #[arg(long)]
    suppress_common: bool,
}

impl ErrorCriteria {
    /// The thresholds that hold; also whether a file was read.
    ///
    /// # Errors
    /// A file that can't be read or understood, a counter nobody knows (64).
    pub fn thresholds(&self) -> anyhow::Result<Thresholds> {
        let mut thresholds = match &self.thresholds {
            None => Thresholds::default(),
            Some(path) => {
                let text = read(path).with_context(|| format!("thresholds file {}", path.display()))?;
                let (thresholds, unknown) = Thresholds::parse(&text)
                    .map_err(|error| Failure::usage(format!("{}, {error}", path.display())))?;
                for name in unknown {
                    tracing::warn!(name, file = %path.display(), "a threshold for a counter that is not known");
                }
                thresholds
            }
        };
        for name in &self.suppress {
            let metric = find(name).ok_or_else(|| {
                Failure::usage(format!(
                    "--suppress: no counter is called '{name}'; `errors --help` names a few, docs/METRICS.md all"
                ))
            })?;
            thresholds.suppress(metric);
        }
        if self.suppress_common {
            COMMON.into_iter().for_each(|metric| thresholds.suppress(metric));
        }
        Ok(thresholds)
    }

    /// Whether a file says what is too much.
    pub fn has_file(&self) -> bool {
        self.thresholds.is_some()
    }

    /// The nodes chosen.
    ///
    /// # Errors
    /// As [`select`].
    pub fn nodes(&self, topology: &Topology) -> Result<SelectedNodes, Failure> {
        select(topology, &self.nodes)
    }
}

fn read(path: &std::path::Path) -> anyhow::Result<String> {
    let wrong = |error: std::io::Error| Failure::usage(error.to_string());
    let size = std::fs::metadata(path).map_err(wrong)?.len();
    if size > MOST_FILE_BYTES {
        return Err(Failure::usage(format!("{size} bytes are no thresholds file")).into());
    }
    Ok(std::fs::read_to_string(path).map_err(wrong)?)
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, wrong thresholds (64).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let thresholds = options.judged.thresholds()?;
    let interval = (!options.totals).then_some(options.interval);
    let sets = if options.details { Sets::USUAL | Sets::DETAILS } else { Sets::USUAL };
    let Some(look) = scan(fabric, interval, sets)? else { return Ok(ExitCode::SUCCESS) };
    if look.is_empty() {
        return Err(Failure::unavailable(super::sweep::NOTHING_TO_READ).into());
    }
    let nodes = options.judged.nodes(&look.topology)?;
    let errors = look.errors(&nodes, &thresholds);
    let unread = look.unread(&nodes);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        let lines = errors.iter().map(|(end, excesses)| error_line(&look, *end, excesses, options.details));
        let lines = lines.chain(unread.iter().flat_map(|unread| unread_lines(&look.topology, unread)));
        for line in lines.chain(silent_lines(&look)) {
            serde_json::to_writer(&mut out, &line).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        let missing: usize = unread.iter().map(|unread| unread.ports.len()).sum();
        let since = interval.map_or_else(
            || "since they were cleared".to_owned(),
            |interval| format!("within {:.1} s", interval.as_secs_f64()),
        );
        let expected = look.expected(&nodes);
        let waiting = errors.iter().filter(|(_, excesses)| only_waits(excesses)).count();
        let waited = match waiting {
            0 => String::new(),
            _ => format!(", without errors that waited to send (transmit_wait, congestion): {waiting}"),
        };
        let faulty = errors.len() - waiting;
        writeln!(out, "ports: {expected}, with errors {since}: {faulty}, not read: {missing}{waited}")?;
        let limits = thresholds.describe();
        if !limits.is_empty() {
            writeln!(out, "{limits}")?;
        }
        write!(out, "{}", table(&look, &errors, options.details))?;
        write!(out, "{}", not_read(&look, &unread))?;
    }
    out.flush()?;
    anyhow::ensure!(
        missing_all(&look, &nodes, &unread),
        "no counter could be read; the reasons are named above"
    );
    Ok(ExitCode::SUCCESS)
}

/// Whether something was read.
fn missing_all(look: &ErrorScan, nodes: &SelectedNodes, unread: &[UnreadPorts]) -> bool {
    let missing: usize = unread.iter().map(|unread| unread.ports.len()).sum();
    missing < look.expected(nodes)
}

/// Whether all that was counted is time in which data waited: congestion, and no error.
fn only_waits(excesses: &[CounterExcess]) -> bool {
    excesses.iter().all(|excess| excess.metric.name == TRANSMIT_WAIT.name)
}

/// One line a port with errors; nothing where there is none.
fn table(look: &ErrorScan, errors: &[(PortEnd, Vec<CounterExcess>)], with_details: bool) -> String {
    let topology = &look.topology;
    if errors.is_empty() {
        return String::new();
    }
    let mut rows = vec![["NODE", "PORT", "REMOTE", "PORT", "ERRORS"].map(str::to_owned)];
    for (end, excesses) in errors {
        let node = &topology.nodes[end.node];
        let remote = node.port(end.port).and_then(|port| port.remote);
        let (remote, remote_port) = remote.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |end| {
                let node = &topology.nodes[end.node];
                (label(&node.description, node.guid), end.port.to_string())
            },
        );
        let said: Vec<String> = excesses
            .iter()
            .map(|excess| {
                let parts: Vec<String> = if with_details {
                    look.details(*end, excess.metric).iter().map(describe).collect()
                } else {
                    Vec::new()
                };
                let said = describe(excess);
                if parts.is_empty() { said } else { format!("{said} [{}]", parts.join(" ")) }
            })
            .collect();
        let node = label(&node.description, node.guid);
        rows.push([node, end.port.to_string(), remote, remote_port, said.join(" ")]);
    }
    aligned(&rows)
}

/// What could not be read, one line a node.
fn not_read(look: &ErrorScan, unread: &[UnreadPorts]) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for unread in unread {
        let node = &look.topology.nodes[unread.node];
        let plural = if unread.ports.len() == 1 { "port" } else { "ports" };
        let ports = format!("{plural} {}", port_ranges(&unread.ports));
        rows.push([label(&node.description, node.guid), ports, unread.reason.to_owned()]);
    }
    for failure in &look.failures {
        let node = failure.guid.and_then(|guid| look.topology.node_by_guid(guid));
        let node = node.map_or_else(
            || "local node".to_owned(),
            |node| label(&look.topology.nodes[node].description, look.topology.nodes[node].guid),
        );
        let port = failure.port.map_or_else(|| "-".to_owned(), |port| format!("behind port {port}"));
        rows.push([node, port, format!("{}: {}", failure.what, failure.reason)]);
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, ["NOT READ", "PORTS", "REASON"].map(str::to_owned));
    aligned(&rows)
}

#[derive(Serialize)]
struct NamedPort<'a> {
    guid: Guid,
    description: &'a str,
    num: u8,
}

fn named(topology: &Topology, end: PortEnd) -> NamedPort<'_> {
    let node = &topology.nodes[end.node];
    NamedPort { guid: node.guid, description: &node.description, num: end.port }
}

/// How much was counted, in figures.
fn figures(excess: &CounterExcess) -> Map<String, Value> {
    let mut figures = Map::new();
    // A count within 64 bits: the widest counter has 64.
    figures.insert("count".to_owned(), u64::try_from(excess.count).unwrap_or(u64::MAX).into());
    figures.insert("at_least".to_owned(), excess.at_least.into());
    figures.insert("per_second".to_owned(), json!(excess.per_second));
    figures
}

fn error_line(look: &ErrorScan, end: PortEnd, excesses: &[CounterExcess], with_details: bool) -> Value {
    let node = &look.topology.nodes[end.node];
    let remote = node.port(end.port).and_then(|port| port.remote);
    let errors: Map<String, Value> = excesses
        .iter()
        .map(|excess| {
            let mut value = figures(excess);
            value.insert("threshold".to_owned(), excess.threshold.into());
            let parts = if with_details { look.details(end, excess.metric) } else { Vec::new() };
            if !parts.is_empty() {
                let parts: Map<String, Value> =
                    parts.iter().map(|part| (part.metric.name.to_owned(), figures(part).into())).collect();
                value.insert("details".to_owned(), parts.into());
            }
            (excess.metric.name.to_owned(), Value::from(value))
        })
        .collect();
    let reading = look.reading(end);
    json!({
        "guid": node.guid,
        "description": node.description,
        "num": end.port,
        "lid": reading.map(|reading| reading.lid),
        "time": reading.map(|reading| throughline_sample::to_rfc3339(reading.time)),
        "remote": remote.map(|end| json!(named(&look.topology, end))),
        "errors": errors,
        "unread": null,
    })
}

fn unread_lines<'a>(topology: &'a Topology, unread: &'a UnreadPorts) -> impl Iterator<Item = Value> + 'a {
    let node = &topology.nodes[unread.node];
    unread.ports.iter().map(move |port| {
        json!({
            "guid": node.guid,
            "description": node.description,
            "num": port,
            "remote": node.port(*port).and_then(|port| port.remote).map(|end| json!(named(topology, end))),
            "errors": null,
            "unread": unread.reason,
        })
    })
}

/// Nodes that did not answer the walk: the node behind such a port is not known.
fn silent_lines(look: &ErrorScan) -> impl Iterator<Item = Value> + '_ {
    look.failures.iter().map(|failure| {
        let node = failure.guid.and_then(|guid| look.topology.node_by_guid(guid));
        json!({
            "guid": failure.guid,
            "description": node.map(|node| &look.topology.nodes[node].description),
            "num": failure.port,
            "remote": null,
            "errors": null,
            "unread": format!("{}: {}", failure.what, failure.reason),
        })
    })
}
