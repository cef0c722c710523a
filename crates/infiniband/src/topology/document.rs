//! The topology as the document that `discover --json` prints.

use super::{Node, Source, Topology};
use crate::link::rate_bytes_per_second;
use crate::mad::NodeKind;
use crate::topology::Limit;
use serde::Serialize;
use throughline_sample::Guid;

/// `{"nodes":[…]}`; with `"source":"sa"` where the subnet administrator reported it, and with `"truncated":"nodes_max"` (or
/// another bound) where the discovery ended at a bound.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<&'static str>,
    nodes: Vec<NodeDocument>,
}

#[derive(Serialize)]
struct NodeDocument {
    guid: Guid,
    r#type: &'static str,
    description: String,
    system_guid: Guid,
    /// Of a switch: the GUID of its port 0.
    port_guid: Option<Guid>,
    lid: u16,
    ports: Vec<PortDocument>,
}

#[derive(Default, Serialize)]
struct PortDocument {
    num: u8,
    /// Of the ports of adapters and routers, which have one each; null for those of switches, as are `lid` and `lmc`.
    guid: Option<Guid>,
    lid: Option<u16>,
    lmc: Option<u8>,
    state: Option<&'static str>,
    width: Option<&'static str>,
    speed: Option<&'static str>,
    rate_bytes_per_second: Option<u64>,
    remote: Option<Remote>,
}

#[derive(Serialize)]
struct Remote {
    guid: Guid,
    num: u8,
}

impl Topology {
    /// The JSON document, on one line. A node's and a remote's `guid` is the node GUID; what is not known is null. All ports
    /// of a node are there but a switch's port 0, whose LID and GUID stand with the node.
    #[must_use]
    pub fn to_json(&self) -> String {
        let source = (self.source != Source::default()).then(|| self.source.name());
        let nodes = self.nodes.iter().map(|node| self.node_document(node)).collect();
        let document = Document { source, truncated: self.truncated.map(Limit::name), nodes };
        // Only strings and numbers as values and no maps: this can't fail.
        serde_json::to_string(&document).unwrap_or_default()
    }

    fn node_document(&self, node: &Node) -> NodeDocument {
        // As many ports as the node says to have. Of an adapter only those are queried through which it was
        // reached: the others may be in another subnet.
        let ports = (1..=node.port_count).map(|number| {
            let Some(port) = node.port(number) else {
                return PortDocument { num: number, ..PortDocument::default() };
            };
            let link = node.link_of(port);
            let own = port.info.filter(|_| node.kind != NodeKind::Switch);
            PortDocument {
                num: number,
                guid: port.guid.filter(|_| node.kind != NodeKind::Switch),
                lid: own.map(|info| info.lid),
                lmc: own.map(|info| info.lmc),
                state: port.info.and_then(|info| info.state).map(|state| state.name()),
                width: link.map(|(width, _)| width.name()),
                speed: link.map(|(_, speed)| speed.name()),
                rate_bytes_per_second: link.map(|(width, speed)| rate_bytes_per_second(width, speed)),
                remote: port
                    .remote
                    .map(|remote| Remote { guid: self.nodes[remote.node].guid, num: remote.port }),
            }
        });
        NodeDocument {
            guid: node.guid,
            r#type: node.kind.name(),
            description: node.description.clone(),
            system_guid: node.system_guid,
            port_guid: node.port(0).and_then(|port| port.guid),
            lid: node.lid(),
            ports: ports.collect(),
        }
    }
}
