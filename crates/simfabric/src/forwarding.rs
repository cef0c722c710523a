//! The way of a packet through the fabric: along a directed route, or by LID through forwarding tables. Pure.

use crate::model::{ACTIVE, End, Fabric};
use crate::plan::NO_PORT;

/// Hops after which a packet by LID is taken for looping: twice the longest directed route.
const MAX_HOPS: usize = 128;

/// Where a directed route from `from` ends: the node and the port by which it comes in, and the ports of the way
/// back (the ports by which each node is entered). `None` where it leads nowhere.
pub(crate) fn directed(fabric: &Fabric, from: End, ports: &[u8]) -> Option<(End, Vec<u8>)> {
    let mut at = from;
    let mut back = Vec::with_capacity(ports.len());
    for (hop, port) in ports.iter().enumerate() {
        // End nodes send by their own port and do not forward.
        let may = fabric.nodes[at.node].is_switch() || (hop == 0 && *port == from.port);
        if !may {
            return None;
        }
        at = fabric.across(End { node: at.node, port: *port })?;
        back.push(at.port);
    }
    let is_own_switch = ports.is_empty() && fabric.nodes[from.node].is_switch();
    Some((if is_own_switch { End { node: from.node, port: 0 } } else { at }, back))
}

/// The end port at which a packet by LID from the end port `from` arrives; `None` where it is lost.
pub(crate) fn by_lid(fabric: &Fabric, from: End, lid: u16) -> Option<End> {
    let target = fabric.by_lid(lid)?;
    let mut at = from;
    if !fabric.nodes[from.node].is_switch() {
        if from == target {
            return Some(from);
        }
        at = leave(fabric, from)?;
    }
    for _ in 0..MAX_HOPS {
        let node = &fabric.nodes[at.node];
        if !node.is_switch() {
            return (at == target).then_some(at);
        }
        let port = node.forwarding.get(usize::from(lid)).copied().filter(|port| *port != NO_PORT)?;
        if port == 0 {
            let own = End { node: at.node, port: 0 };
            return (own == target).then_some(own);
        }
        at = leave(fabric, End { node: at.node, port })?;
    }
    None
}

/// Over a cable, if data may pass.
fn leave(fabric: &Fabric, end: End) -> Option<End> {
    let there = fabric.across(end)?;
    let active = |end| fabric.port(end).is_some_and(|port| port.state == ACTIVE);
    (active(end) && active(there)).then_some(there)
}
