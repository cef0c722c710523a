//! The measured process: holds a topology, does one thing a line of its standard input, and says what it cost.

use crate::measure::{Cost, cpu};
use crate::raw::Raw;
use anyhow::Context;
use clap::Args;
use nix::sys::resource::UsageWho;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use throughline_crawler::discover::discover;
use throughline_crawler::engine::{Engine, Settings};
use throughline_crawler::port::{FabricPort, TransportKind};
use throughline_crawler::sweep::{ClockPoint, Sweeper};
use throughline_crawler::transport::Class;
use throughline_infiniband::reading::Selection;
use throughline_infiniband::route::Scope;
use throughline_infiniband::sweep_text::JsonLines;
use throughline_infiniband::topology::{Node, Topology};

/// Options of the measured process.
#[derive(Args, Clone)]
pub struct ClientOptions {
    /// How it reaches the fabric
    #[arg(long, default_value = "umad")]
    via: TransportKind,
    /// Requests outstanding
    #[arg(long, default_value_t = throughline_crawler::engine::DEFAULT_WINDOW)]
    window: usize,
    /// Sweep with the raw pipeline instead of the crawler's
    #[arg(long)]
    raw: bool,
}

/// The process as its starter sees it.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What was done.
pub struct Done {
    pub cost: Cost,
    /// Ports, or what the request counts.
    pub count: u64,
    /// The rest of the answer.
    pub text: String,
}

impl Client {
    /// Starts it with a command of this program that reaches the fabric.
    pub fn start(mut command: Command, options: &[&str]) -> anyhow::Result<Client> {
        command.arg("client").args(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("standard input")?;
        let output = BufReader::new(child.stdout.take().context("standard output")?);
        Ok(Client { child, input, output })
    }

    pub fn ask(&mut self, request: &str) -> anyhow::Result<Done> {
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut words = line.trim_end().splitn(4, ' ');
        let mut next = || words.next().with_context(|| format!("'{request}' was answered '{line}'"));
        let (wall, cpu, count) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
        Ok(Done { cost: Cost { wall, cpu }, count, text: words.next().unwrap_or_default().to_owned() })
    }

    /// The same request so many times.
    pub fn costs(&mut self, request: &str, runs: usize) -> anyhow::Result<Vec<Cost>> {
        (0..runs).map(|_| self.ask(request).map(|done| done.cost)).collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its input ends it, so that it tidies up.
        let _ = self.input.write_all(b"end\n").and_then(|()| self.input.flush());
        let _ = self.child.wait();
    }
}

/// What the process holds.
struct Held {
    topology: Topology,
    sweeper: Option<(Engine, Sweeper)>,
    raw: Option<Raw>,
    lines: JsonLines,
    nowhere: std::io::BufWriter<std::fs::File>,
}

/// The process itself.
pub fn run(options: &ClientOptions) -> anyhow::Result<()> {
    let port = FabricPort::find(&options.via, None, 0)?;
    let stop = AtomicBool::new(false);
    let settings = Settings { window: options.window, ..Settings::default() };
    let mut management = Engine::new(port.open(Class::Management)?, settings.for_class(Class::Management));
    let topology = discover(&mut management, true, &stop)?.topology;
    drop(management);
    let transport = port.open(Class::Performance)?;
    let (mut sweeper, mut raw) = (None, None);
    if options.raw {
        raw = Some(Raw::new(transport, &topology, options.window));
    } else {
        let mut engine = Engine::new(transport, settings);
        let plan = Sweeper::new(&mut engine, &topology, 0, Selection::default(), None);
        sweeper = Some((engine, plan));
    }
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    let nowhere = std::io::BufWriter::with_capacity(1 << 20, nowhere);
    let mut held = Held { topology, sweeper, raw, lines: JsonLines::default(), nowhere };
    for request in std::io::stdin().lock().lines() {
        let request = request?;
        if request == "end" {
            return Ok(());
        }
        let (start, before) = (Instant::now(), cpu(UsageWho::RUSAGE_SELF)?);
        let (count, text) = held.answer(&request, &stop)?;
        let cost = (start.elapsed().as_secs_f64(), cpu(UsageWho::RUSAGE_SELF)? - before);
        println!("{} {} {count} {text}", cost.0, cost.1);
    }
    Ok(())
}

impl Held {
    fn answer(&mut self, request: &str, stop: &AtomicBool) -> anyhow::Result<(u64, String)> {
        let nothing = String::new();
        match request.split(' ').next().unwrap_or_default() {
            "ports" => Ok((self.sweeper.as_ref().map_or(0, |(_, sweeper)| sweeper.len() as u64), nothing)),
            "raw" => {
                let raw = self.raw.as_mut().context("start with --raw")?;
                raw.sweep()?;
                Ok((raw.len() as u64, nothing))
            }
            "sweep" | "quiet" | "live" => self.sweep(request, stop),
            "busiest" => {
                let mut ports: HashMap<u16, u64> = HashMap::new();
                let (_, sweeper) = self.sweeper.as_ref().context("start without --raw")?;
                sweeper.readings().iter().for_each(|reading| *ports.entry(reading.lid).or_default() += 1);
                Ok((ports.into_values().max().unwrap_or(0), nothing))
            }
            "stats" => {
                let stats = self.sweeper.as_ref().context("start without --raw")?.0.stats();
                Ok((stats.sent, stats.to_string()))
            }
            "asked" => {
                let stats = self.sweeper.as_ref().context("start without --raw")?.0.stats();
                Ok((stats.sent - stats.retries, nothing))
            }
            "usage" => {
                let pairs = self.topology.all_pairs(&Scope::default());
                Ok((pairs.pairs, format!("{} reached", pairs.reached)))
            }
            "memory" => Ok((crate::measure::peak_memory_bytes("self")?, nothing)),
            "route" => route(&self.topology, request),
            other => anyhow::bail!("no request: {other}"),
        }
    }

    /// `sweep` writes lines; `quiet` does not; `live` takes missing ports for given and counts the others.
    fn sweep(&mut self, request: &str, stop: &AtomicBool) -> anyhow::Result<(u64, String)> {
        let (engine, sweeper) = self.sweeper.as_mut().context("start without --raw")?;
        let coverage = sweeper.sweep(engine, ClockPoint::now(), stop)?;
        let is_whole = request == "live" || coverage.complete == coverage.expected;
        anyhow::ensure!(is_whole, "incomplete: {coverage:?}");
        if request == "sweep" {
            self.lines.write(&mut self.nowhere, sweeper.readings())?;
            self.nowhere.flush()?;
        }
        Ok((coverage.complete as u64, String::new()))
    }
}

/// `route LID LID`: the hops as `GUID,IN,OUT;…`, 0 for no port.
fn route(topology: &Topology, request: &str) -> anyhow::Result<(u64, String)> {
    let words: Vec<&str> = request.split(' ').collect();
    let node = |index: usize| -> anyhow::Result<&Node> {
        let index: usize = words.get(index).context("route FROM TO")?.parse()?;
        Ok(&topology.nodes[index % topology.nodes.len()])
    };
    let (from, to) = (node(1)?, node(2)?);
    let hops = topology.route(from.guid, to.guid)?;
    let hop = |hop: &throughline_infiniband::route::Hop| {
        let guid = topology.nodes[hop.node].guid;
        format!("{guid},{},{}", hop.in_port.unwrap_or(0), hop.out_port.unwrap_or(0))
    };
    let text: Vec<String> = hops.iter().map(hop).collect();
    Ok((hops.len() as u64, format!("{} {} {}", from.lid(), to.lid(), text.join(";"))))
}
