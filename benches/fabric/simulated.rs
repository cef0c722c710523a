//! On the simulated fabric, which has latency: how near a sweep comes to what round trip, service time and windows
//! allow; with loss; and with dead nodes.

use crate::client::Client;
use crate::measure::Medians;
use crate::table::{Goal, Table};
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use throughline_crawler::engine::{DEFAULT_PER_NODE, DEFAULT_TIMEOUT};

/// Steady sweep against the bound.
const STEADY_GOAL: Goal = Goal::Most(1.3);
/// With 1 % of loss against the bound.
const LOSS_GOAL: Goal = Goal::Most(2.0);
/// With 5 % of nodes dead against the steady sweep.
const DEAD_GOAL: Goal = Goal::Most(1.2);
const LOSS: f64 = 0.01;
const DEAD: f64 = 0.05;

/// The fabric's parameters.
pub struct Setup {
    pub hosts: usize,
    pub round_trip_us: f64,
    pub service_us: f64,
    pub window: usize,
}

/// A simulated fabric in a process of its own.
struct Simulated {
    child: Child,
    socket: String,
}

impl Simulated {
    fn start(folder: &Path, setup: &Setup) -> anyhow::Result<Simulated> {
        let socket = folder.join("fabric.sock").display().to_string();
        let mut command = Command::new(crate::beside("throughline-simfabric")?);
        command.args(["run", "--socket", &socket, "--fat-tree", &setup.hosts.to_string()]);
        command.args(["--do", &format!("latency {}us", setup.round_trip_us)]);
        command.args(["--do", &format!("service {}us", setup.service_us)]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("standard output")?);
        let simulated = Simulated { child, socket };
        let ready = output.lines().map_while(Result::ok).any(|line| line.starts_with("listening sim="));
        anyhow::ensure!(ready, "throughline-simfabric did not start");
        Ok(simulated)
    }

    fn control(&self, command: &str) -> anyhow::Result<()> {
        let mut ctl = Command::new(crate::beside("throughline-simfabric")?);
        let status = ctl.args(["ctl", &self.socket, command]).stdout(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "throughline-simfabric ctl: {command}");
        Ok(())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It may be gone already.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// Measures it.
pub fn measure(setup: &Setup, folder: &Path, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let fabric = Simulated::start(folder, setup)?;
    let via = format!("sim:{}", fabric.socket);
    let window = setup.window.to_string();
    let start = |extra: &[&str]| {
        let options = [&["--via", via.as_str(), "--window", window.as_str()], extra].concat();
        Client::start(Command::new(std::env::current_exe()?), &options)
    };
    let mut client = start(&[])?;
    let mut raw = start(&["--raw"])?;
    // The first sweep asks for capabilities as well, and learns the round trip.
    client.ask("quiet")?;
    let before = client.ask("asked")?.count;
    let ports = client.ask("quiet")?.count;
    let mads = (client.ask("asked")?.count - before) as f64;
    let sets = mads / ports as f64;
    let busiest = client.ask("busiest")?.count as f64 * sets;
    let by_window = mads * setup.round_trip_us / setup.window as f64;
    let by_node = busiest * (setup.service_us + setup.round_trip_us / f64::from(DEFAULT_PER_NODE));
    let bound = by_window.max(by_node) / 1e6;
    println!(
        "  {mads} MADs for {ports} ports, at most {busiest} at one node; round trip {} µs, service {} µs, window {}, {} at a node",
        setup.round_trip_us, setup.service_us, setup.window, DEFAULT_PER_NODE
    );
    println!(
        "  bound: max({:.4} s by the window, {:.4} s by the busiest node)",
        by_window / 1e6,
        by_node / 1e6
    );
    raw.ask("raw")?;
    let (mut steady, mut least) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        steady.push(client.ask("quiet")?.cost);
        least.push(raw.ask("raw")?.cost);
    }
    let (steady, least) = (Medians::of(&steady), Medians::of(&least));
    table.ratio("steady sweep, s; bound", steady.wall, bound, STEADY_GOAL);
    table.ratio("  raw pipeline on the same fabric, s; bound", least.wall, bound, Goal::None);

    fabric.control(&format!("loss {LOSS}"))?;
    client.ask("live")?;
    let lossy = (0..runs).map(|_| client.ask("live")).collect::<anyhow::Result<Vec<_>>>()?;
    let read: u64 = lossy.iter().map(|done| done.count).sum();
    let lossy = Medians::of(&lossy.iter().map(|done| done.cost).collect::<Vec<_>>());
    table.ratio("with 1 % of MADs lost, s; bound", lossy.wall, bound, LOSS_GOAL);
    table.holds(
        &format!("  none missing: {read} of {} ports read", ports * runs as u64),
        read == ports * runs as u64,
    );

    fabric.control("loss 0")?;
    fabric.control(&format!("dead {DEAD} hosts"))?;
    let dead = (setup.hosts as f64 * DEAD).round() as u64;
    client.ask("live")?;
    let crippled = (0..runs).map(|_| client.ask("live")).collect::<anyhow::Result<Vec<_>>>()?;
    let live = crippled.iter().map(|done| done.count).min().unwrap_or(0);
    let crippled = Medians::of(&crippled.iter().map(|done| done.cost).collect::<Vec<_>>());
    table.ratio("with 5 % of hosts dead, s; steady sweep", crippled.wall, steady.wall, DEAD_GOAL);
    // Each host of these nets has one port.
    let what = format!("  none missing: {live} of {} live ports read, {dead} hosts dead", ports - dead);
    table.holds(&what, live == ports - dead);
    fabric.control("alive all")?;
    // The probe of a silent node ends with the time-out of an answer, and the next sweep sends a new one.
    std::thread::sleep(DEFAULT_TIMEOUT);
    let back = client.ask("live")?.count;
    table.holds(&format!("  all back: {back} of {ports} ports read"), back == ports);
    println!("  {}", client.ask("stats")?.text);
    Ok(())
}
