//! By what the store knows a fabric: its switches, from a topology.

use crate::mad::NodeKind;
use crate::topology::Topology;
use throughline_sample::wire::FabricFingerprint;

/// The fingerprint of a topology. `None` where it has neither a switch nor a cable: nothing but the crawler's own node is seen.
#[must_use]
pub fn fingerprint(topology: &Topology) -> Option<FabricFingerprint> {
    let switches = topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
    let switches: Vec<u64> = switches.map(|node| node.guid.0).collect();
    if switches.is_empty() && topology.cables().next().is_none() {
        return None;
    }
    let linked =
        topology.nodes.iter().flat_map(|node| node.ports.iter().filter(|port| port.remote.is_some()));
    let host_ports = linked.filter_map(|port| Some(port.guid?.0));
    let guid_at = |end: crate::topology::PortEnd| Some(topology.nodes[end.node].port(end.port)?.guid?.0);
    let manager = topology.manager_lid().and_then(|lid| topology.port_by_lid(lid)).and_then(guid_at);
    Some(FabricFingerprint {
        port_guid: topology.local_end_port().and_then(guid_at).unwrap_or(0),
        subnet_prefix: topology.subnet_prefix,
        subnet_manager_guid: manager.unwrap_or(0),
        ..FabricFingerprint::of_guids(switches, host_ports)
    })
}

/// Whether two topologies are of one fabric, as far as that is seen: they have a switch in common.
#[must_use]
pub fn is_same_fabric(one: &Topology, other: &Topology) -> bool {
    let (one, other) = (fingerprint(one), fingerprint(other));
    one.zip(other).is_some_and(|(one, other)| {
        throughline_sample::CommonGuids::of(one.guids(), other.guids()).common > 0
    })
}
