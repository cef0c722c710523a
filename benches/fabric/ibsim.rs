//! Against the standard tools and a raw pipeline, on ibsim, turn by turn.

use crate::client::Client;
use crate::measure::{self, Cost, Medians};
use crate::table::{Goal, Table};
use std::process::Stdio;
use throughline_simfabric::ibsim::SimFabric;

/// Sweeps must be this many times faster than `ibqueryerrors` with a cached topology, by the clock.
const SWEEP_GOAL: Goal = Goal::Least(3.0);
/// And take this many times less of the client's processor.
const SWEEP_CPU_GOAL: Goal = Goal::Least(2.0);
/// A sweep without output may take this many times what a raw pipeline takes.
const RAW_GOAL: Goal = Goal::Most(1.3);
/// Discovery with tables must be this many times as fast as `ibnetdiscover` and `dump_fts`.
const DISCOVERY_GOAL: Goal = Goal::Least(2.0);
/// Discovery, tables and all pairs, as a whole process, in seconds.
const ALL_PAIRS_GOAL: Goal = Goal::Most(1.0);

/// All of it.
pub fn measure(fabric: &SimFabric, host: &str, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    sweeps(fabric, host, runs, table)?;
    discoveries(fabric, host, runs, table)
}

/// Steady sweeps from a cached topology, printed as JSON lines to /dev/null.
fn sweeps(fabric: &SimFabric, host: &str, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let cache = fabric.folder().join("topology.cache");
    let mut save = fabric.tool("ibnetdiscover", Some(host))?;
    save.arg("--cache").arg(&cache).stdout(Stdio::null()).stderr(Stdio::null());
    anyhow::ensure!(save.status()?.success(), "ibnetdiscover --cache");
    let mut client = Client::start(crate::own(fabric, host)?, &[])?;
    let mut raw = Client::start(crate::own(fabric, host)?, &["--raw"])?;
    let (mut ours, mut quiet, mut least, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // One of each to warm up.
    for run in 0..=runs {
        let mut command = fabric.tool("ibqueryerrors", Some(host))?;
        command.args(["--counters", "--data", "--load-cache"]).arg(&cache);
        let other = measure::process(&mut command, &[0, 1])?;
        let mine = client.ask("sweep")?.cost;
        // One after the other, so that a busy moment of the machine meets both.
        let (silent, bare) = (client.ask("quiet")?.cost, raw.ask("raw")?.cost);
        if run > 0 {
            theirs.push(other);
            ours.push(mine);
            quiet.push(silent);
            least.push(bare);
        }
    }
    let medians = |costs: &[Cost]| Medians::of(costs);
    let (ours, theirs, quiet, least) = (medians(&ours), medians(&theirs), medians(&quiet), medians(&least));
    let ports = client.ask("ports")?.count;
    let what = format!("sweep of {ports} ports, JSON lines, s; ibqueryerrors");
    table.ratio(&what, ours.wall, theirs.wall, SWEEP_GOAL);
    table.ratio("  the same, client CPU, s", ours.cpu, theirs.cpu, SWEEP_CPU_GOAL);
    table.ratio("sweep without output, s; raw pipeline", quiet.wall, least.wall, RAW_GOAL);
    table.ratio("  the same, client CPU, s", quiet.cpu, least.cpu, Goal::None);
    println!("  {}", client.ask("stats")?.text);
    Ok(())
}

/// Whole processes: discovery with all forwarding tables, and with all pairs on them.
fn discoveries(fabric: &SimFabric, host: &str, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let crawler = crate::beside("throughline-fabric")?;
    let (mut ours, mut pairs, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=runs {
        let of_crawler = |words: &[&str]| -> anyhow::Result<Cost> {
            let mut command = fabric.client(&crawler, Some(host))?;
            measure::process(command.args(words), &[0])
        };
        let mine = of_crawler(&["discover", "--tables", "--json"])?;
        let all = of_crawler(&["usage", "--json"])?;
        let first = measure::process(&mut fabric.tool("ibnetdiscover", Some(host))?, &[0])?;
        let second = measure::process(&mut fabric.tool("dump_fts", Some(host))?, &[0])?;
        if run > 0 {
            ours.push(mine);
            pairs.push(all);
            theirs.push(Cost { wall: first.wall + second.wall, cpu: first.cpu + second.cpu });
        }
    }
    let (ours, theirs, pairs) = (Medians::of(&ours), Medians::of(&theirs), Medians::of(&pairs));
    table.ratio("discovery + tables, s; ibnetdiscover, dump_fts", ours.wall, theirs.wall, DISCOVERY_GOAL);
    table.ratio("  the same, client CPU, s", ours.cpu, theirs.cpu, Goal::None);
    table.figure("discovery + tables + routes of all pairs, s", pairs.wall, ALL_PAIRS_GOAL);
    Ok(())
}
