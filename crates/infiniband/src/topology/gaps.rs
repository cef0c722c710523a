//! What a discovery did not read: the bound at which it ended, and requests that failed.

use throughline_sample::Guid;

/// A bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Nodes.
    Nodes,
    /// Ports of all nodes.
    Ports,
    /// Links of a directed route.
    Hops,
    /// Requests, without repetitions.
    Mads,
    /// Bytes of the topology and of outstanding requests.
    Memory,
    /// Time from the beginning.
    Time,
}

impl Limit {
    /// All of them.
    pub const ALL: [Limit; 6] =
        [Limit::Nodes, Limit::Ports, Limit::Hops, Limit::Mads, Limit::Memory, Limit::Time];

    /// The key of `[discovery]` that sets it; also its name in metrics, events and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Nodes => "nodes_max",
            Limit::Ports => "ports_max",
            Limit::Hops => "hops_max",
            Limit::Mads => "mads_max",
            Limit::Memory => "memory_bytes_max",
            Limit::Time => "seconds_max",
        }
    }
}

/// What a [`Failure`] is about when a link is up and nobody answered behind it.
pub const NEIGHBOUR: &str = "NodeInfo of the neighbour";

/// Reason of a [`Failure`]: who answers has a GUID that another node has, and says something else of itself.
pub const OTHER_FACTS: &str = "other_facts";
/// Reason of a [`Failure`]: who answers claims a port that has its cable elsewhere.
pub const OTHER_PLACE: &str = "other_place";

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The node, or the one from which the unknown one would be reached; `None` for the local node.
    pub guid: Option<Guid>,
    /// The port, where the failure is about one.
    pub port: Option<u8>,
    /// What was requested.
    pub what: &'static str,
    /// Why it is missing.
    pub reason: &'static str,
}
