//! What a walk holds of each node and each outstanding request, and how much memory that takes.

use crate::engine::{NodeId, Request};
use throughline_infiniband::topology::{Node, NodeIndex, Port, PortEnd};

/// Memory of a node without its ports, with what the engine and the walk know of it: rounded up, and less than a
/// tenth of it is for the outstanding requests of one.
pub(super) const NODE_BYTES: usize = size_of::<WalkedNode>() + 512;
/// Memory of a port, with a request that is still to be sent.
pub(super) const PORT_BYTES: usize = size_of::<Port>() + size_of::<Request>() + size_of::<Purpose>();

/// What an outstanding request is about; its position is the request's tag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// NodeInfo behind this end; `None` for the local node.
    Neighbour(Option<PortEnd>),
    Description(NodeIndex),
    Switch(NodeIndex),
    Port(PortEnd),
    /// Whether a QDR link is an FDR10 one.
    Fdr10(PortEnd),
    /// One block of the forwarding table.
    Table(NodeIndex, u16),
}

/// A node on the way.
pub(super) struct WalkedNode {
    pub found: Node,
    /// How the engine reaches it; `None` for a node that is taken as it is known.
    pub engine: Option<NodeId>,
    /// Whether its SwitchInfo says that a port changed, or is not known: its neighbours are queried.
    pub is_suspect: bool,
}
