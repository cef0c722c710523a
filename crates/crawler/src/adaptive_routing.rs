//! Queries switches whether they route adaptively, those that are known to be able to report.
//!
//! The specification has no such thing. NVIDIA's (Mellanox's) switches answer a vendor attribute; others would
//! drop it or wait it out, so they are not queried and stay unknown. Nobody waits long for an answer.

use crate::engine::{Engine, EngineError};
use crate::smp_batch::{SmpError, SmpGet, get_all};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::mad::attribute;
use throughline_infiniband::route::VENDOR_MELLANOX;
use throughline_infiniband::topology::SwitchRouting;
use throughline_infiniband::topology::{Node, NodeIndex, Topology};
use throughline_sample::Guid;

/// Device IDs of switches with the attribute: SwitchX, Switch-IB, Switch-IB 2 (as infiniband-diags list them for
/// other vendor attributes), Quantum, Quantum-2, Quantum-3.
const DEVICES: &[u16] = &[0xC738, 0xC739, 0xC73A, 0xC73B, 0xCB20, 0xCF08, 0xD2F0, 0xD2F2, 0xD2F4];
/// Status field of a reply: the agent does not have this attribute (13.4.7).
const STATUS_UNSUPPORTED: u16 = 0x000C;
/// Mask of that field.
const STATUS_FIELD: u16 = 0x001C;

fn has_attribute(node: &Node) -> bool {
    node.kind == NodeKind::Switch && node.vendor_id == VENDOR_MELLANOX && DEVICES.contains(&node.device_id)
}

/// The switches that can report.
pub fn reporting(topology: &Topology) -> impl Iterator<Item = NodeIndex> + '_ {
    topology.nodes.iter().enumerate().filter(|(_, node)| has_attribute(node)).map(|(index, _)| index)
}

/// What each of these switches says; one SMP a switch. One that does not answer is not in the result.
///
/// # Errors
/// [`EngineError`].
pub fn read_routing(
    engine: &mut Engine,
    topology: &Topology,
    switches: impl Iterator<Item = NodeIndex>,
    stop: &AtomicBool,
) -> Result<BTreeMap<Guid, SwitchRouting>, EngineError> {
    let attribute = attribute::ADAPTIVE_ROUTING_INFO;
    let gets: Vec<SmpGet> =
        switches.map(|node| SmpGet { node, attribute, modifier: 0, is_trial: true }).collect();
    let mut found = BTreeMap::new();
    get_all(engine, topology, &gets, stop, &mut |position, answer| {
        let routing = routing(answer);
        if let (Some(get), Some(routing)) = (gets.get(position), routing) {
            found.insert(topology.nodes[get.node].guid, routing);
        }
    })?;
    Ok(found)
}

/// What an answer means; `None` where it says nothing.
fn routing(answer: Result<&[u8], SmpError>) -> Option<SwitchRouting> {
    match answer {
        // Bit 0 of the first 32 bits: switched on.
        Ok(data) => data.get(3).map(|byte| match byte & 1 {
            1 => SwitchRouting::Adaptive,
            _ => SwitchRouting::Static,
        }),
        Err(SmpError::Refused(status)) if status & STATUS_FIELD == STATUS_UNSUPPORTED => {
            Some(SwitchRouting::Static)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_is_known() {
        assert_eq!(routing(Ok(&[0, 0, 0, 1])), Some(SwitchRouting::Adaptive));
        assert_eq!(routing(Ok(&[0xFF, 0xFF, 0xFF, 0xFE])), Some(SwitchRouting::Static));
        assert_eq!(routing(Ok(&[])), None);
        assert_eq!(routing(Err(SmpError::Refused(0x000C))), Some(SwitchRouting::Static));
        assert_eq!(routing(Err(SmpError::Refused(0x0100))), None);
        assert_eq!(routing(Err(SmpError::Lost("timeout"))), None);
    }
}
