//! `top`: the hottest links, drawn again in place on a terminal, as lines elsewhere.

use super::FabricOptions;
use super::nodes::{Pattern, SelectedNodes, select};
use super::source::{Counting, DiscoveryNeeds};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_crawler::stop::Stop;
use throughline_daemon::Failure;
use throughline_daemon::Screen;
use throughline_infiniband::hottest::{Direction, LinkLoad, Order, loads, sort};
use throughline_infiniband::reading::rates::Recent;
use throughline_infiniband::reading::{PortReading, Selection};
use throughline_infiniband::topology::{PortEnd, Topology, aligned};

/// Links shown where no terminal says how many fit.
const USUAL_LINKS: usize = 20;
/// Lines of a frame that are no links: heading, total, names of columns, keys.
const OTHER_LINES: usize = 4;
/// Time between two looks for a key and a stop.
const LOOK: Duration = Duration::from_millis(50);

/// Options of `top`.
#[derive(Args)]
pub struct Options {
    /// Begin a sweep every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::sweep::seconds, allow_negative_numbers = true)]
    interval: Duration,
    /// Print one table and end
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print NUMBER tables and end [default: until q or Ctrl-C]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Sort by a column: utilisation, bytes, packets or wait
    #[arg(long, value_name = "COLUMN", default_value = "utilisation", value_parser = order)]
    sort: Order,
    /// Show at most so many links [default: as many as fit, 20 where there is no terminal, all with --json]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Show links of these nodes only: a GUID, a LID, or part of a name; may be repeated
    #[arg(long = "node", visible_alias = "switch", value_name = "NODE")]
    nodes: Vec<Pattern>,
    /// Print one JSON object per line and link, all links in each round
    #[arg(long)]
    json: bool,
}

fn order(text: &str) -> Result<Order, String> {
    let known = Order::ALL.into_iter().find(|order| order.name() == text);
    known.ok_or_else(|| format!("expected one of {}", Order::ALL.map(Order::name).join(", ")))
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, no LIDs (69).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let mut counting = source.counters(&topology, Selection::default())?;
    if counting.is_empty() {
        return Err(Failure::unavailable(super::sweep::NOTHING_TO_READ).into());
    }
    counting.want_ticks();
    let nodes = select(&topology, &options.nodes)?;
    let count = if options.once { Some(1) } else { options.count };
    let screen = if options.once || options.json { None } else { Screen::open()? };
    let mut top = Top { topology: &topology, nodes, options, order: options.sort, screen, stop: &stop };
    let shown = top.go(counting, count);
    match shown {
        Err(error) if super::fabric::is_stop(&error) => Ok(ExitCode::SUCCESS),
        other => other.map(|()| ExitCode::SUCCESS),
    }
}

struct Top<'a> {
    topology: &'a Topology,
    nodes: SelectedNodes,
    options: &'a Options,
    order: Order,
    screen: Option<Screen>,
    stop: &'a Stop,
}

/// What one round found.
struct Round {
    loads: Vec<LinkLoad>,
    ports: usize,
    missing: usize,
    took: Duration,
    time: i64,
}

impl Top<'_> {
    fn go(&mut self, mut counting: Counting, count: Option<u64>) -> anyhow::Result<()> {
        let mut due = Instant::now();
        counting.sweep(self.stop)?;
        let mut recent = Recent::default();
        recent.add(counting.readings());
        let mut shown = 0;
        while count.is_none_or(|count| shown < count) {
            due = (due + self.options.interval).max(Instant::now());
            match counting.left() {
                None if self.wait(due, None)? => return Ok(()),
                Some(0) if shown == 0 => {
                    let message = "rates need two readings and the files hold one";
                    return Err(Failure::unavailable(message).into());
                }
                Some(0) => return Ok(()),
                _ => {}
            }
            let start = Instant::now();
            let coverage = counting.sweep(self.stop)?;
            let before = recent.before(counting.readings());
            let round = self.round(&before, counting.readings(), coverage.missing, start.elapsed());
            recent.add(counting.readings());
            self.show(&round)?;
            shown += 1;
            // A terminal shows a round until the next one is due, and sorts it again at a key.
            if self.screen.is_some() && self.wait(Instant::now() + LOOK, Some(round))? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn round(&self, before: &[PortReading], after: &[PortReading], missing: usize, took: Duration) -> Round {
        let mut loads = loads(self.topology, before, after, self.order);
        loads.retain(|load| self.nodes.has(load.a.node) || load.b.is_some_and(|b| self.nodes.has(b.node)));
        let time = after.iter().map(|reading| reading.time).max().unwrap_or_default();
        Round { loads, ports: after.len(), missing, took, time }
    }

    /// Waits until a moment; `true` when it is to end. A key may sort the round shown.
    fn wait(&mut self, until: Instant, mut round: Option<Round>) -> anyhow::Result<bool> {
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if self.stop.is_set() {
                return Ok(true);
            }
            if rest.is_zero() {
                return Ok(false);
            }
            let Some(screen) = &self.screen else { return Ok(self.stop.sleep(rest)) };
            match screen.key(rest.min(LOOK))? {
                Some(b'q' | b'Q') => return Ok(true),
                Some(b's' | b'S') => {
                    let place = Order::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
                    self.order = Order::ALL[(place + 1) % Order::ALL.len()];
                    if let Some(round) = &mut round {
                        sort(&mut round.loads, self.order);
                        self.show(round)?;
                    }
                }
                _ => {}
            }
        }
    }

    fn show(&self, round: &Round) -> std::io::Result<()> {
        if self.options.json {
            return self.write_json(round);
        }
        match &self.screen {
            Some(screen) => {
                let fits = screen.size().0.saturating_sub(OTHER_LINES);
                screen.draw(&format!("{}\nq: quit  s: sort by the next column", self.table(round, fits)))
            }
            None => {
                let mut out = std::io::stdout().lock();
                writeln!(out, "{}", self.table(round, USUAL_LINKS))?;
                out.flush()
            }
        }
    }

    fn table(&self, round: &Round, fits: usize) -> String {
        let limit = self.options.limit.map_or(fits, |limit| limit as usize);
        let heading = ["LINK", "PORT", "REMOTE", "PORT", "OUT %", "BACK %", "OUT", "BACK", "PACKETS", "WAIT"];
        let mut rows = vec![heading.map(str::to_owned)];
        rows.extend(round.loads.iter().take(limit).map(|load| self.row(load)));
        let missing =
            if round.missing == 0 { String::new() } else { format!(", {} not read", round.missing) };
        format!(
            "{}  links: {}, by {}; ports: {}{missing}; swept in {:.3} s\n{}",
            throughline_sample::to_rfc3339(round.time).split('.').next().unwrap_or_default(),
            round.loads.len(),
            self.order.name(),
            round.ports,
            round.took.as_secs_f64(),
            aligned(&rows)
        )
    }

    fn row(&self, load: &LinkLoad) -> [String; 10] {
        let (a, a_port) = self.end(Some(load.a));
        let (b, b_port) = self.end(load.b);
        let packets = [load.out.packets_per_second, load.back.packets_per_second];
        [
            a,
            a_port,
            b,
            b_port,
            percent(load.out.utilisation),
            percent(load.back.utilisation),
            scaled(load.out.bytes_per_second, "B/s"),
            scaled(load.back.bytes_per_second, "B/s"),
            scaled(packets.into_iter().flatten().reduce(|a, b| a + b), "/s"),
            format!("{} {}", wait(&load.out), wait(&load.back)),
        ]
    }

    fn end(&self, end: Option<PortEnd>) -> (String, String) {
        let Some(end) = end else { return ("-".to_owned(), "-".to_owned()) };
        let node = &self.topology.nodes[end.node];
        let name = if node.description.is_empty() { node.guid.to_string() } else { node.description.clone() };
        (name, end.port.to_string())
    }

    fn write_json(&self, round: &Round) -> std::io::Result<()> {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let limit = self.options.limit.map_or(usize::MAX, |limit| limit as usize);
        for load in round.loads.iter().take(limit) {
            serde_json::to_writer(&mut out, &self.document(round, load)).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        out.flush()
    }

    fn document(&self, round: &Round, load: &LinkLoad) -> Value {
        let end = |end: PortEnd| {
            let node = &self.topology.nodes[end.node];
            json!({ "guid": node.guid, "description": node.description, "num": end.port })
        };
        let direction = |direction: &Direction| {
            json!({
                "bytes_per_second": direction.bytes_per_second,
                "utilisation": direction.utilisation,
                "packets_per_second": direction.packets_per_second,
                "wait_ratio": direction.wait_ratio,
                "wait_ticks_per_second": direction.wait_ticks_per_second,
            })
        };
        json!({
            "time": throughline_sample::to_rfc3339(round.time),
            "a": end(load.a),
            "b": load.b.map(end),
            "rate_bytes_per_second": load.rate_bytes_per_second,
            "a_to_b": direction(&load.out),
            "b_to_a": direction(&load.back),
        })
    }
}

/// No link carries more than its speed: above that, readings are of other times than they say.
fn percent(share: Option<f64>) -> String {
    match share {
        None => "-".to_owned(),
        Some(share) if share >= 1.0005 => "> 100".to_owned(),
        Some(share) => format!("{:.1}", share * 100.0),
    }
}

/// A share where the tick is known, else ticks.
fn wait(direction: &Direction) -> String {
    match direction.wait_ratio {
        Some(share) => format!("{:.1}%", share * 100.0),
        None => scaled(direction.wait_ticks_per_second, " ticks/s"),
    }
}

/// Three digits with a prefix: `12.3 GB/s`.
fn scaled(value: Option<f64>, unit: &str) -> String {
    let Some(mut value) = value else { return "-".to_owned() };
    let mut prefixes = ["", "k", "M", "G", "T"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    for next in prefixes {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let digits = if prefix.is_empty() || value >= 100.0 { 0 } else { 1 };
    let space = if unit.starts_with(' ') || prefix.is_empty() && unit.starts_with('/') { "" } else { " " };
    format!("{value:.digits$}{space}{prefix}{unit}").replace("  ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(scaled(None, "B/s"), "-");
        assert_eq!(scaled(Some(0.0), "B/s"), "0 B/s");
        assert_eq!(scaled(Some(999.0), "B/s"), "999 B/s");
        assert_eq!(scaled(Some(12_345.0), "B/s"), "12.3 kB/s");
        assert_eq!(scaled(Some(12.5e9), "B/s"), "12.5 GB/s");
        assert_eq!(scaled(Some(1_500.0), "/s"), "1.5 k/s");
        assert_eq!([0.9999, 1.0004, 1.28].map(|share| percent(Some(share))), ["100.0", "100.0", "> 100"]);
        assert!(order("utilization").unwrap_err().contains("utilisation, bytes"));
    }
}
