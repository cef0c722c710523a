//! Reads multicast forwarding tables, after the walk that found the switches.

use crate::engine::{Engine, EngineError};
use crate::smp_batch::{SmpGet, get_all};
use std::sync::atomic::AtomicBool;
use throughline_infiniband::mad::{MFT_POSITION_PORTS, attribute};
use throughline_infiniband::multicast::{MulticastTables, POSITION_SHIFT};
use throughline_infiniband::topology::Failure;
use throughline_infiniband::topology::{Node, Topology};

/// Requests of one reading: 3,000 switches of 64 ports with 2,000 groups need 950,000.
const REQUESTS_MAX: usize = 1_000_000;
/// Entries of all tables that are taken, counted in bytes of masks that are not 0: as many as saved files may have.
const ENTRIES_MAX: usize = 2_500_000;
/// All tables and what could not be read of them. As many blocks are requested of a switch as it has in use, or, where
/// it does not report that, can have: 96 SMPs with 36 ports and 1,024 multicast LIDs.
///
/// # Errors
/// [`EngineError`].
pub fn read(
    engine: &mut Engine,
    topology: &Topology,
    stop: &AtomicBool,
) -> Result<(MulticastTables, Vec<Failure>), EngineError> {
    let mut gets = Vec::new();
    let mut failures = Vec::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        let (blocks, positions) = extent(node);
        if gets.len() + blocks as usize * positions as usize > REQUESTS_MAX {
            let (guid, what) = (Some(node.guid), "MulticastForwardingTable");
            failures.push(Failure { guid, port: None, what, reason: "beyond_the_bound" });
            continue;
        }
        for block in 0..blocks {
            gets.extend((0..positions).map(|position| SmpGet {
                node: index,
                attribute: attribute::MULTICAST_FORWARDING_TABLE,
                modifier: position << POSITION_SHIFT | block,
                is_trial: false,
            }));
        }
    }
    let mut tables = MulticastTables::new(topology);
    let mut entries = 0;
    get_all(engine, topology, &gets, stop, &mut |position, answer| {
        let Some(SmpGet { node, modifier, .. }) = gets.get(position).copied() else { return };
        match answer {
            Ok(data) => {
                // Each entry with a port takes its room, whatever it says.
                entries += data.iter().filter(|byte| **byte != 0).count();
                if entries <= ENTRIES_MAX {
                    tables.add_block(node, modifier, data);
                } else if failures.len() < REQUESTS_MAX {
                    let (guid, what) = (Some(topology.nodes[node].guid), "MulticastForwardingTable");
                    failures.push(Failure { guid, port: None, what, reason: "beyond_the_bound" });
                }
            }
            Err(missing) => failures.push(Failure {
                guid: Some(topology.nodes[node].guid),
                port: None,
                what: "MulticastForwardingTable",
                reason: missing.name(),
            }),
        }
    })?;
    Ok((tables, failures))
}

/// Blocks and positions of a node's table; none of what is no switch.
fn extent(node: &Node) -> (u32, u32) {
    // Port 0 is in the table, too.
    let positions = (usize::from(node.port_count) + 1).div_ceil(MFT_POSITION_PORTS) as u32;
    (node.switch.map_or(0, |info| u32::from(info.multicast_blocks())), positions)
}

/// SMPs that [`read`] sends.
#[must_use]
pub fn cost(topology: &Topology) -> u64 {
    let extents = topology.nodes.iter().map(extent);
    extents.map(|(blocks, positions)| u64::from(blocks) * u64::from(positions)).sum()
}
