//! The measured process: holds a topology, does one thing a line of its standard input, and says what it cost.

use crate::measure::{Cost, cpu};
use anyhow::Context;
use nix::sys::resource::UsageWho;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use throughline_fabric::discover::discover;
use throughline_fabric::engine::{Engine, Settings};
use throughline_fabric::sim::SimFabric;
use throughline_fabric::sweep::{ClockPoint, Selection, Sweeper};
use throughline_fabric::sweep_text::JsonLines;
use throughline_fabric::topology::Topology;
use throughline_fabric::transport::Class;
use throughline_fabric::umad::UmadPort;

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
    pub fn start(fabric: &SimFabric, host: &str) -> anyhow::Result<Client> {
        let mut command = crate::own(fabric, host)?;
        let mut child = command.arg("client").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
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
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its input ends it, so that it tidies up.
        let _ = self.input.write_all(b"end\n").and_then(|()| self.input.flush());
        let _ = self.child.wait();
    }
}

/// The process itself.
pub fn run() -> anyhow::Result<()> {
    let port = UmadPort::find(None, 0)?;
    let stop = AtomicBool::new(false);
    let mut management =
        Engine::new(port.open(Class::Management)?, Settings::default().for_class(Class::Management));
    let topology = discover(&mut management, true, &stop)?.topology;
    drop(management);
    let mut engine = Engine::new(port.open(Class::Performance)?, Settings::default());
    let mut sweeper = Sweeper::new(&mut engine, &topology, 0, Selection::default(), None);
    let mut lines = JsonLines::default();
    let mut nowhere =
        std::io::BufWriter::with_capacity(1 << 20, std::fs::File::options().write(true).open("/dev/null")?);
    for request in std::io::stdin().lock().lines() {
        let request = request?;
        let (start, before) = (Instant::now(), cpu(UsageWho::RUSAGE_SELF)?);
        let mut text = String::new();
        let mut count = sweeper.len() as u64;
        match request.as_str() {
            "ports" => {}
            "sweep" | "quiet" => {
                let coverage = sweeper.sweep(&mut engine, ClockPoint::now(), &stop)?;
                anyhow::ensure!(coverage.complete == coverage.expected, "incomplete: {coverage:?}");
                if request == "sweep" {
                    lines.write(&mut nowhere, sweeper.readings())?;
                    nowhere.flush()?;
                }
            }
            "end" => return Ok(()),
            other => (count, text) = route(&topology, other)?,
        }
        let cost = (start.elapsed().as_secs_f64(), cpu(UsageWho::RUSAGE_SELF)? - before);
        println!("{} {} {count} {text}", cost.0, cost.1);
    }
    Ok(())
}

/// `route LID LID`: the hops as `GUID,IN,OUT;…`, 0 for no port.
fn route(topology: &Topology, request: &str) -> anyhow::Result<(u64, String)> {
    let words: Vec<&str> = request.split(' ').collect();
    let node = |index: usize| -> anyhow::Result<&throughline_fabric::topology::Node> {
        let index: usize = words.get(index).context("route FROM TO")?.parse()?;
        Ok(&topology.nodes[index % topology.nodes.len()])
    };
    let (from, to) = (node(1)?, node(2)?);
    let hops = topology.route(from.guid, to.guid)?;
    let hop = |hop: &throughline_fabric::route::Hop| {
        let guid = topology.nodes[hop.node].guid;
        format!("{guid},{},{}", hop.in_port.unwrap_or(0), hop.out_port.unwrap_or(0))
    };
    let text: Vec<String> = hops.iter().map(hop).collect();
    Ok((hops.len() as u64, format!("{} {} {}", from.lid(), to.lid(), text.join(";"))))
}
