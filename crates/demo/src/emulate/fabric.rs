//! The fabric that answers MADs: the tables of a real opensm in a simulated fabric whose counters can be set exactly.
//!
//! opensm configures ibsim, `throughline-fabric save` reads the result, and both end. What they leave goes into
//! `throughline-simfabric`, because ibsim counts its own management packets on every port, and these would be more than
//! many an emulated link carries.

use crate::layout::Layout;
use crate::start::Programs;
use anyhow::Context;
use std::path::Path;
use throughline_daemon::Failure;
use throughline_infiniband::mad::{LFT_NO_PORT, NodeKind};
use throughline_infiniband::offline;
use throughline_infiniband::topology::{FatTree, Topology};
use throughline_prefix::Prefix;
use throughline_simfabric::ibsim::{SimFabric as Ibsim, SimOptions, SimTools};
use throughline_simfabric::{Scenario, SimFabric};

/// LIDs are first moved here, so that none is in another one's place.
const PARKED_LIDS: u16 = 0x4000;

/// What opensm made of the cables of a tree. Waits for processes: not for a thread of the runtime that others need.
///
/// # Errors
/// The simulator or opensm can't be started, or the fabric can't be read.
pub fn configured_by_opensm(
    tree: FatTree,
    prefix: &Prefix,
    layout: &Layout,
    programs: &Programs,
) -> anyhow::Result<Topology> {
    let tools = SimTools::at(prefix.root())?;
    let net = tree.to_net().map_err(|error| Failure::usage(error.to_string()))?;
    let folder = layout.run().join("opensm");
    let options = SimOptions {
        manager_host: Some(FatTree::host_id(tree.hosts - 1)),
        own_process_groups: true,
        ..SimOptions::default()
    };
    let ibsim = Ibsim::start(&tools, &folder, &net, &options)?;
    let saved = layout.run().join("saved");
    let output = ibsim.client(&programs.fabric, None)?.arg("save").arg(&saved).output();
    let output = output.with_context(|| format!("starting {}", programs.fabric.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "throughline-fabric save: {}", said.trim());
    read(&saved)
}

/// A fabric that `throughline-fabric save` wrote.
///
/// # Errors
/// Its files can't be read, or are of no whole fabric.
pub fn read(folder: &Path) -> anyhow::Result<Topology> {
    let saved = offline::read(folder).with_context(|| format!("reading {}", folder.display()))?;
    anyhow::ensure!(
        saved.switches_without_table == 0,
        "{} switches have no table",
        saved.switches_without_table
    );
    Ok(saved.topology)
}

/// Starts the simulated fabric with the LIDs and tables of a topology.
///
/// # Errors
/// It can't be started, or does not take them.
pub fn start(tree: &FatTree, topology: &Topology) -> anyhow::Result<SimFabric> {
    let mut scenario = Scenario::new(tree.to_net().map_err(|error| Failure::usage(error.to_string()))?);
    scenario.setup = setup(topology);
    SimFabric::start(&scenario).context("starting the simulated fabric")
}

/// Commands that give a simulated fabric the LIDs and tables of a topology.
fn setup(topology: &Topology) -> Vec<String> {
    let ends: Vec<(String, u16)> = topology
        .nodes
        .iter()
        .flat_map(|node| {
            let is_switch = node.kind == NodeKind::Switch;
            let ports = node.ports.iter().filter(move |port| (port.number == 0) == is_switch);
            ports.filter_map(move |port| Some((format!("{} {}", node.guid, port.number), port.info?.lid)))
        })
        .filter(|(_, lid)| *lid != 0)
        .collect();
    let mut commands: Vec<String> =
        ends.iter().map(|(end, lid)| format!("lid {end} {}", PARKED_LIDS + lid)).collect();
    commands.extend(ends.iter().map(|(end, lid)| format!("lid {end} {lid}")));
    commands.push("sweep off".to_owned());
    for node in topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch) {
        let entries = node.forwarding.iter().enumerate().filter(|(_, port)| **port != LFT_NO_PORT);
        commands.extend(entries.map(|(lid, port)| format!("forward {} {lid} {port}", node.guid)));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::plan::tests::two_switches;

    #[test]
    fn a_simulated_fabric_takes_lids_and_tables_of_a_saved_one() {
        let topology = two_switches();
        let commands = setup(&topology);
        let lids = commands.iter().filter(|command| command.starts_with("lid ")).count();
        assert_eq!(lids, 2 * topology.nodes.len(), "each to a parking place, then to its own");
        let last_lid = commands.iter().rposition(|command| command.starts_with("lid ")).unwrap();
        let first_entry = commands.iter().position(|command| command.starts_with("forward ")).unwrap();
        assert!(last_lid < first_entry, "a new LID makes the manager write all tables");
        let mut scenario = Scenario::new(include_str!("../../tests/data/two-switches.net"));
        scenario.setup = commands;
        let fabric = SimFabric::start(&scenario).unwrap();
        let lids = fabric.control("nodes").unwrap();
        for node in &topology.nodes {
            assert!(lids.contains(&format!("lid {} ", node.lid())), "{lids}");
        }
    }
}
