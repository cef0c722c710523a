//! `sweep`: the counters of all ports with a link, once or again and again.

use super::FabricOptions;
use super::fabric::FAILURES_SHOWN;
use super::source::{Counting, DiscoveryNeeds};
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_crawler::stop::Stop;
use throughline_daemon::Failure;
use throughline_infiniband::reading::{Coverage, PortReading, Selection, Sets};
use throughline_infiniband::sweep_text::{JsonLines, to_table};
use throughline_infiniband::topology::{Topology, label};

/// Bytes of output gathered before they are written: a sweep of 1,400 ports.
const OUTPUT_BUFFER_BYTES: usize = 1 << 20;

/// Options of `sweep`.
#[derive(Args)]
pub struct Options {
    /// Sweep once
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Sweep NUMBER times [default: until stopped]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Begin a sweep every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    interval: Duration,
    /// Print one JSON object per line and port
    #[arg(long)]
    pub json: bool,
    /// Read switch ports without a link, too, whose error counters stay readable
    #[arg(long)]
    all_ports: bool,
    /// Read these sets of counters: data, wait, errors, details, flow, fec, sl, vl, or all
    #[arg(long, value_name = "SET,…", default_value_t = Sets::USUAL)]
    sets: Sets,
    /// Print what the daemon's sweep plan costs on this fabric, by its configuration
    #[arg(long, conflicts_with_all = ["once", "count", "sets"])]
    pub plan: bool,
    /// Read the daemon's configuration for --plan from FILE [default: /etc/throughline/fabric.toml if it exists]
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub config: Option<PathBuf>,
}

/// Message where no port's counters can be requested.
pub const NOTHING_TO_READ: &str = "no port has both a link and a LID; is a subnet manager running?";

/// A duration in seconds, of a day at most.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "not between 0 and a day".to_owned())?;
    if duration > MAX_INTERVAL { Err("more than a day".to_owned()) } else { Ok(duration) }
}

/// Longest interval: a day.
const MAX_INTERVAL: Duration = Duration::from_secs(86_400);

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, no LIDs (69).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let mut counting =
        source.counters(&topology, Selection { unlinked: options.all_ports, ..Selection::default() })?;
    if counting.is_empty() {
        return Err(Failure::unavailable(NOTHING_TO_READ).into());
    }
    counting.read(options.sets);
    let mut printer = Printer::new(options.json, options.sets);
    let count = if options.once { Some(1) } else { options.count };
    let mut due = Instant::now();
    let mut any_read = false;
    for number in 1.. {
        let swept = sweep(&topology, &mut counting, &stop);
        let coverage = match swept {
            Err(error) if super::fabric::is_stop(&error) => break,
            other => other?,
        };
        printer.print(&topology, counting.readings(), &coverage)?;
        any_read |= coverage.missing < coverage.expected;
        if count.is_some_and(|count| number >= count) || counting.left() == Some(0) {
            break;
        }
        due += options.interval;
        let now = Instant::now();
        if due < now {
            // Late by more than an interval: the missed ones are left out, not caught up with.
            due = now;
        }
        stop.sleep(due - now);
        if stop.is_set() {
            break;
        }
    }
    // A stop before the first sweep's end is no failure; a fabric where nothing was read is one.
    anyhow::ensure!(any_read || stop.is_set(), "no port answered: {} were queried", counting.len());
    Ok(ExitCode::SUCCESS)
}

fn sweep(topology: &Topology, counting: &mut Counting, stop: &Stop) -> anyhow::Result<Coverage> {
    let coverage = counting.sweep(stop)?;
    report_unread(topology, counting.readings());
    Ok(coverage)
}

/// Names what was not read, one line a node.
fn report_unread(topology: &Topology, readings: &[PortReading]) {
    let of_nodes = readings.chunk_by(|a, b| a.node == b.node);
    let mut unread = of_nodes.filter_map(|of_node| {
        let failed: Vec<&PortReading> = of_node.iter().filter(|reading| reading.failure.is_some()).collect();
        failed.first().map(|first| (*first, failed.iter().map(|reading| reading.port).collect::<Vec<u8>>()))
    });
    for (first, ports) in unread.by_ref().take(FAILURES_SHOWN) {
        let node = label(&topology.nodes[first.node].description, first.guid);
        let reason = first.failure.unwrap_or_default();
        tracing::warn!(node, lid = first.lid, ?ports, reason, "counters were not read");
    }
    let (nodes, ports) = unread.fold((0, 0), |(nodes, ports), (_, more)| (nodes + 1, ports + more.len()));
    if nodes > 0 {
        tracing::warn!("counters of {ports} ports of {nodes} more nodes were not read");
    }
}

/// Where readings go.
struct Printer {
    out: io::BufWriter<io::Stdout>,
    json: Option<JsonLines>,
}

impl Printer {
    fn new(json: bool, sets: Sets) -> Printer {
        let out = io::BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout());
        Printer { out, json: json.then(|| JsonLines::of(sets)) }
    }

    fn print(
        &mut self,
        topology: &Topology,
        readings: &[PortReading],
        coverage: &Coverage,
    ) -> io::Result<()> {
        match &mut self.json {
            Some(lines) => lines.write(&mut self.out, readings)?,
            None => {
                self.out.write_all(to_table(topology, readings).as_bytes())?;
                let (complete, expected) = (coverage.complete, coverage.expected);
                let elapsed = coverage.elapsed.as_secs_f64();
                writeln!(self.out, "{complete} of {expected} ports read in {elapsed:.3} s")?;
            }
        }
        self.out.flush()
    }
}
