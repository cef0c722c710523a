//! 8,008 hosts and 542 switches on ibsim: times and memory of one process that does all of it.

use crate::client::Client;
use crate::measure::{self, Medians};
use crate::table::{Goal, Table};
use throughline_simfabric::ibsim::SimFabric;

/// Discovery, tables and link usage of all pairs, as a whole process, in seconds.
const USAGE_GOAL: Goal = Goal::Most(5.0);
/// A sweep of both sets, in seconds.
const SWEEP_GOAL: Goal = Goal::Most(1.0);
/// Resident memory at its most, in MB.
const MEMORY_GOAL: Goal = Goal::Most(250.0);

/// Measures it.
pub fn measure(fabric: &SimFabric, host: &str, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let crawler = crate::beside("throughline-fabric")?;
    let usage = (0..runs).map(|_| {
        let mut command = fabric.client(&crawler, Some(host))?;
        measure::process(command.args(["usage", "--json"]), &[0])
    });
    let usage = Medians::of(&usage.collect::<anyhow::Result<Vec<_>>>()?);
    table.figure("discovery + tables + link usage of all pairs, s", usage.wall, USAGE_GOAL);
    let mut client = Client::start(crate::own(fabric, host)?, &[])?;
    client.ask("sweep")?;
    let sweep = Medians::of(&client.costs("sweep", runs)?);
    table.figure("sweep of both sets, JSON lines, s", sweep.wall, SWEEP_GOAL);
    let pairs = client.ask("usage")?;
    table.figure(&format!("  link usage of {} pairs alone, s", pairs.count), pairs.cost.wall, Goal::None);
    let memory = client.ask("memory")?.count as f64 / 1e6;
    table.figure("resident memory at its most: all of it in one process, MB", memory, MEMORY_GOAL);
    Ok(())
}
