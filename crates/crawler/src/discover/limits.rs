//! Bounds of one discovery: a fabric that lies, or a fault in one, can look endless.
//!
//! A discovery that reaches a bound ends there, says which one it was, and is *truncated*: what it did not reach is
//! not gone. Nothing here walks.

use super::walked::{NODE_BYTES, PORT_BYTES};
use std::time::Duration;
use throughline_infiniband::mad::MAX_HOPS;
use throughline_infiniband::topology::Limit;

/// Nodes: more than the 49,151 unicast LIDs of a subnet; each node needs one of them.
pub const DEFAULT_MAX_NODES: usize = 65_536;
/// Ports of all nodes together, port 0 of switches among them. 49,151 LIDs in a fat tree of three levels take some
/// 200,000. With the most that there can be, the whole crawler stays below 512 MB.
pub const DEFAULT_MAX_PORTS: usize = 262_144;
/// Requests of one discovery, repetitions not counted: a subnet of 49,151 LIDs and 3,000 switches of 64 ports needs
/// 2.7 million with all forwarding tables.
pub const DEFAULT_MAX_MADS: u64 = 4_000_000;
/// Memory of one topology with what is still to be requested. During a discovery there are two topologies, and records
/// and readings besides: the process takes up to four times as much.
pub const DEFAULT_MEMORY_BYTES_MAX: usize = 128 << 20;
/// The largest subnets take some 10 s, with many silent nodes a minute.
pub const DEFAULT_MAX_TIME: Duration = Duration::from_secs(300);

/// What one discovery may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes.
    pub nodes: usize,
    /// Ports of all nodes.
    pub ports: usize,
    /// Links of a directed route.
    pub hops: usize,
    /// Requests, without repetitions.
    pub mads: u64,
    /// Bytes of nodes, ports, tables and outstanding requests.
    pub bytes: usize,
    /// Time from the beginning.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: DEFAULT_MAX_NODES,
            ports: DEFAULT_MAX_PORTS,
            hops: MAX_HOPS,
            mads: DEFAULT_MAX_MADS,
            bytes: DEFAULT_MEMORY_BYTES_MAX,
            time: DEFAULT_MAX_TIME,
        }
    }
}

/// What a discovery has taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiscoveryUsage {
    pub nodes: usize,
    pub ports: usize,
    pub mads: u64,
    /// Of forwarding tables.
    pub table_bytes: usize,
}

impl DiscoveryUsage {
    /// Whether a further node of so many ports is within the bounds; the one that it would exceed.
    pub fn check(&self, limits: &Limits, ports: usize) -> Result<(), Limit> {
        let bytes = (self.nodes + 1) * NODE_BYTES + (self.ports + ports) * PORT_BYTES + self.table_bytes;
        match () {
            () if self.nodes + 1 > limits.nodes => Err(Limit::Nodes),
            () if self.ports + ports > limits.ports => Err(Limit::Ports),
            () if bytes > limits.bytes => Err(Limit::Memory),
            () => Ok(()),
        }
    }

    /// Whether a table of so many bytes is.
    pub fn check_table(&self, limits: &Limits, bytes: usize) -> Result<(), Limit> {
        let all = self.nodes * NODE_BYTES + self.ports * PORT_BYTES + self.table_bytes + bytes;
        if all > limits.bytes { Err(Limit::Memory) } else { Ok(()) }
    }

    pub fn add(&mut self, ports: usize) {
        self.nodes += 1;
        self.ports += ports;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_met_by_name() {
        let limits = Limits { nodes: 2, ports: 10, bytes: 1 << 20, ..Limits::default() };
        let mut taken = DiscoveryUsage::default();
        assert_eq!(taken.check(&limits, 10), Ok(()));
        assert_eq!(taken.check(&limits, 11), Err(Limit::Ports));
        taken.add(5);
        taken.add(5);
        assert_eq!(taken.check(&limits, 0), Err(Limit::Nodes));
        assert_eq!(taken.check_table(&limits, 1 << 20), Err(Limit::Memory));
        let small = Limits { bytes: NODE_BYTES, ..Limits::default() };
        assert_eq!(DiscoveryUsage::default().check(&small, 1), Err(Limit::Memory));
        let names: std::collections::BTreeSet<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        assert_eq!(names.len(), Limit::ALL.len());
    }
}
