//! Routes from linear forwarding tables: which ports a packet from one node to another passes. Pure.
//!
//! A route from tables is exact for static routing only. Nothing is asked of the fabric here.

use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};
use throughline_sample::Guid;

/// Most switches on a way: IBTA's hop limit of directed routes; a longer way is a loop.
const MAX_SWITCHES: usize = crate::mad::MAX_HOPS;

/// One node on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: NodeIndex,
    /// Port by which packets come in; `None` at the source.
    pub in_port: Option<u8>,
    /// Port by which they leave; `None` at the destination.
    pub out_port: Option<u8>,
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No such node.
    #[error("no node or port of this subnet has the GUID {0}; `throughline-fabric discover` lists them")]
    UnknownGuid(Guid),
    /// The end has no LID yet.
    #[error("{0} has no LID: the subnet manager has not configured it")]
    NoLid(Guid),
    /// The way ends at a switch.
    #[error("switch {switch} has no entry for LID {lid}")]
    NoEntry {
        /// The switch.
        switch: Guid,
        /// The destination.
        lid: u16,
    },
    /// The table leads out of a port without a known neighbour.
    #[error("{node} sends LID {lid} to port {port}, behind which no neighbour is known")]
    NoNeighbour {
        /// The node.
        node: Guid,
        /// The destination.
        lid: u16,
        /// The port.
        port: u8,
    },
    /// The way leads to an end node that is not the destination.
    #[error("LID {lid} ends at {node}, which is not its owner")]
    WrongEnd {
        /// The node.
        node: Guid,
        /// The destination.
        lid: u16,
    },
    /// The way does not end.
    #[error("LID {lid} loops: {switch} is passed twice")]
    Loop {
        /// The first switch passed twice.
        switch: Guid,
        /// The destination.
        lid: u16,
    },
}

impl Topology {
    /// The end that a node GUID or a port GUID means: of a node with several ports the first with a LID.
    ///
    /// # Errors
    /// [`RouteError::UnknownGuid`], [`RouteError::NoLid`].
    pub fn end_of(&self, guid: Guid) -> Result<PortEnd, RouteError> {
        if let Some(index) = self.node_by_guid(guid) {
            let node = &self.nodes[index];
            let with_lid = |port: &&crate::topology::Port| port.info.is_some_and(|info| info.lid != 0);
            let port = node.ports.iter().find(with_lid).ok_or(RouteError::NoLid(guid))?;
            return Ok(PortEnd { node: index, port: port.number });
        }
        self.port_by_guid(guid).ok_or(RouteError::UnknownGuid(guid))
    }

    /// The route from one node to another, both by node GUID or port GUID.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route(&self, from: Guid, to: Guid) -> Result<Vec<Hop>, RouteError> {
        let (from, to) = (self.end_of(from)?, self.end_of(to)?);
        let node = &self.nodes[to.node];
        let lid = node.port(to.port).and_then(|port| port.info).map_or(0, |info| info.lid);
        if lid == 0 {
            return Err(RouteError::NoLid(node.guid));
        }
        self.walk(from, to, lid)
    }

    fn walk(&self, from: PortEnd, to: PortEnd, lid: u16) -> Result<Vec<Hop>, RouteError> {
        let mut hops = vec![Hop { node: from.node, in_port: None, out_port: None }];
        let mut here = from.node;
        while here != to.node {
            let node = &self.nodes[here];
            let out = match node.kind {
                NodeKind::Switch => {
                    node.output_port(lid).ok_or(RouteError::NoEntry { switch: node.guid, lid })?
                }
                _ if here == from.node => from.port,
                _ => return Err(RouteError::WrongEnd { node: node.guid, lid }),
            };
            let remote = node.port(out).and_then(|port| port.remote);
            let next = remote.ok_or(RouteError::NoNeighbour { node: node.guid, lid, port: out })?;
            if let Some(last) = hops.last_mut() {
                last.out_port = Some(out);
            }
            let is_loop = hops.iter().any(|hop| hop.node == next.node);
            if is_loop || hops.len() > MAX_SWITCHES + 1 {
                return Err(RouteError::Loop { switch: self.nodes[next.node].guid, lid });
            }
            hops.push(Hop { node: next.node, in_port: Some(next.port), out_port: None });
            here = next.node;
        }
        Ok(hops)
    }

    /// `{"hops":[{"guid","in_port","out_port"}]}`.
    #[must_use]
    pub fn route_json(&self, hops: &[Hop]) -> String {
        let hops: Vec<serde_json::Value> = hops
            .iter()
            .map(|hop| {
                let guid = self.nodes[hop.node].guid;
                serde_json::json!({"guid": guid, "in_port": hop.in_port, "out_port": hop.out_port})
            })
            .collect();
        serde_json::json!({ "hops": hops }).to_string()
    }

    /// The route as a table for people.
    #[must_use]
    pub fn route_text(&self, hops: &[Hop]) -> String {
        let number = |port: Option<u8>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        let mut rows = vec![["IN", "NODE", "TYPE", "OUT"].map(str::to_owned)];
        rows.extend(hops.iter().map(|hop| {
            let node = &self.nodes[hop.node];
            let label = crate::topology::label(&node.description, node.guid);
            [number(hop.in_port), label, node.kind.name().to_owned(), number(hop.out_port)]
        }));
        crate::topology::aligned(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{DirectedPath, LFT_NO_PORT, LinkMasks, PhysicalState, PortInfo, PortState};
    use crate::topology::{Node, Port};

    fn info(lid: u16) -> PortInfo {
        PortInfo {
            gid_prefix: 0,
            lid,
            sm_lid: 1,
            capabilities: 0,
            local_port: 1,
            width_active: 2,
            state: Some(PortState::Active),
            physical_state: PhysicalState(5),
            lmc: 0,
            speed_active: 4,
            extended_speed_active: 0,
            supported: LinkMasks::default(),
            enabled: LinkMasks::default(),
        }
    }

    fn port(number: u8, guid: Option<u64>, lid: u16, remote: Option<(usize, u8)>) -> Port {
        let remote = remote.map(|(node, port)| PortEnd { node, port });
        Port { number, guid: guid.map(Guid), info: Some(info(lid)), remote }
    }

    fn node(guid: u64, kind: NodeKind, ports: Vec<Port>, forwarding: Vec<u8>) -> Node {
        Node {
            guid: Guid(guid),
            kind,
            description: String::new(),
            system_guid: Guid(guid),
            vendor_id: 0,
            device_id: 0,
            port_count: 2,
            ports,
            switch: None,
            forwarding,
            path: DirectedPath::local(),
        }
    }

    /// Host 0x10 (LID 1) - switch 0x20 (LID 2) - switch 0x30 (LID 3) - host 0x40 (LID 4).
    fn line(table_of_30: Vec<u8>) -> Topology {
        let nodes = vec![
            node(
                0x30,
                NodeKind::Switch,
                vec![
                    port(0, Some(0x30), 3, None),
                    port(1, None, 0, Some((1, 2))),
                    port(2, None, 0, Some((3, 1))),
                ],
                table_of_30,
            ),
            node(
                0x20,
                NodeKind::Switch,
                vec![
                    port(0, Some(0x20), 2, None),
                    port(1, None, 0, Some((2, 1))),
                    port(2, None, 0, Some((0, 1))),
                ],
                vec![LFT_NO_PORT, 1, 0, 2, 2],
            ),
            node(0x10, NodeKind::Ca, vec![port(1, Some(0x11), 1, Some((1, 1)))], Vec::new()),
            node(0x40, NodeKind::Ca, vec![port(1, Some(0x41), 4, Some((0, 2)))], Vec::new()),
        ];
        Topology::new(nodes, None, 0)
    }

    #[test]
    fn a_route_passes_both_switches() {
        let topology = line(vec![LFT_NO_PORT, 1, 1, 0, 2]);
        let hops = topology.route(Guid(0x10), Guid(0x41)).unwrap();
        assert_eq!(
            topology.route_json(&hops),
            r#"{"hops":[{"guid":"0x0000000000000010","in_port":null,"out_port":1},{"guid":"0x0000000000000020","in_port":1,"out_port":2},{"guid":"0x0000000000000030","in_port":1,"out_port":2},{"guid":"0x0000000000000040","in_port":1,"out_port":null}]}"#
        );
        assert_eq!(topology.route(Guid(0x10), Guid(0x10)).unwrap().len(), 1);
        assert_eq!(topology.route(Guid(0x40), Guid(0x20)).unwrap().len(), 3, "a switch is an end, too");
        assert_eq!(topology.route_text(&hops).lines().count(), 5);
        assert_eq!(topology.cables().count(), 3);
    }

    #[test]
    fn broken_tables_are_named() {
        let route = |table| line(table).route(Guid(0x10), Guid(0x40));
        assert_eq!(route(vec![]), Err(RouteError::NoEntry { switch: Guid(0x30), lid: 4 }));
        assert_eq!(route(vec![0, 0, 0, 0, 1]), Err(RouteError::Loop { switch: Guid(0x20), lid: 4 }));
        let nowhere = RouteError::NoNeighbour { node: Guid(0x30), lid: 4, port: 9 };
        assert_eq!(route(vec![0, 0, 0, 0, 9]), Err(nowhere));
        assert_eq!(line(vec![]).route(Guid(1), Guid(0x40)), Err(RouteError::UnknownGuid(Guid(1))));
    }
}
