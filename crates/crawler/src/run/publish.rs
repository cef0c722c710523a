//! Publishes topologies: to the threads and pages of this process, as inventory and events into the spool, and
//! into the memory of the next start. It speaks to no fabric.

use super::shared::{SharedState, SignedTopology};
use super::thread_names::DISCOVERY;
use super::topology_cache::TopologyCache;
use crate::discover::Discovery;
use crate::events::{FabricEvent, Watch, WatchSettings};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;
use throughline_infiniband::mad::PortInfo;
use throughline_infiniband::multicast::MulticastTables;
use throughline_infiniband::records;
use throughline_infiniband::topology::Failure;
use throughline_infiniband::topology::SwitchRouting;
use throughline_infiniband::topology::{Node, NodeIndex, Topology};
use throughline_sample::Guid;
use throughline_sample::catalogue::{
    FAILED_READS, LAST_ROUND_SECONDS, RECORDS, RECORDS_DISCARDED, SOURCE_UP, UNANSWERED_NODES,
};

/// Failures of a walk that are logged one by one.
const FAILURES_LOGGED: usize = 10;

/// What a walk brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// Nothing new.
    Same,
    /// Only forwarding tables are others.
    TablesOnly,
    /// Nodes, ports or cables are others, or this is the first walk.
    Changed,
}

/// The topology as it was published last, and what is retained for the next one.
pub struct Publication {
    shared: Arc<SharedState>,
    cache: TopologyCache,
    settings: WatchSettings,
    last: Option<Arc<Topology>>,
    watch: Option<Watch>,
    /// Whether the last run's topology may still count.
    is_first: bool,
    /// Nodes of the last discovery that was whole, or of the first one where none was.
    believed: Option<HashSet<Guid>>,
}

impl Publication {
    pub fn new(shared: Arc<SharedState>, cache: TopologyCache, settings: WatchSettings) -> Publication {
        Publication { shared, cache, settings, last: None, watch: None, is_first: true, believed: None }
    }

    /// What was published last.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.last.clone()
    }

    /// Begins anew, without the memory of the last run.
    pub fn discard(&mut self) {
        (self.last, self.watch, self.is_first, self.believed) = (None, None, false, None);
    }

    /// What of a discovery is believed: of a truncated one only nodes that were known before it, so that a liar's
    /// nodes come neither into sweeps nor into the inventory, in whatever number and under whatever GUIDs.
    pub fn believable(&mut self, topology: Topology) -> Topology {
        if topology.truncated.is_none() {
            return topology;
        }
        if self.believed.is_none() {
            let before = Some(&self.cache).filter(|_| self.is_first).and_then(TopologyCache::load);
            let before = before.filter(|before| records::is_same_fabric(before, &topology));
            self.believed = before.map(|before| guids(&before));
        }
        let local = topology.local.map(|end| topology.nodes[end.node].guid);
        match self.believed.as_ref().filter(|known| local.is_none_or(|local| known.contains(&local))) {
            Some(known) => topology.retaining(|guid| known.contains(&guid)),
            None => topology,
        }
    }

    /// Publishes the result of a walk.
    pub fn publish(&mut self, mut found: Discovery, began: i64, is_whole: bool) -> TopologyChange {
        if let Some(last) = &self.last {
            let stays = |(guid, _): &(&Guid, &SwitchRouting)| found.topology.node_by_guid(**guid).is_some();
            let known = last.routing.iter().filter(stays);
            found.topology.routing = known.map(|(guid, routing)| (*guid, *routing)).collect();
        }
        let topology = Arc::new(found.topology);
        let difference = self.last.as_deref().map(|last| Difference::of(last, &topology));
        let published = match &difference {
            Some(difference) if difference.is_nothing() => TopologyChange::Same,
            Some(difference) if difference.nodes.is_empty() && !difference.is_other => {
                TopologyChange::TablesOnly
            }
            _ => TopologyChange::Changed,
        };
        // What a truncated discovery did not reach is not gone.
        let is_whole = is_whole && topology.truncated.is_none();
        let (nodes, links) = (topology.nodes.len(), topology.cables().count());
        let (elapsed, failures) = (found.elapsed.as_secs_f64(), found.failures.len());
        if published == TopologyChange::Changed {
            tracing::info!(nodes, links, failures, mads = found.mads, elapsed_seconds = elapsed, "topology");
        }
        for failure in found.failures.iter().take(FAILURES_LOGGED) {
            tracing::debug!(?failure, "not read");
        }
        let events = self.events(&topology, published);
        let signature = topology.signature();
        let fabric = self.shared.publisher.sender.identity.current();
        self.shared.set_found(SignedTopology { topology: topology.clone(), signature, fabric });
        let records = self.append(&topology, began, is_whole, difference.as_ref());
        self.shared.publisher.emit(&events);
        let metrics = &self.shared.publisher.metrics;
        metrics.add(DISCOVERY, &RECORDS, (records + events.len()) as u64);
        metrics.add(DISCOVERY, &FAILED_READS, failures as u64);
        metrics.set(DISCOVERY, &LAST_ROUND_SECONDS, elapsed);
        metrics.set(DISCOVERY, &SOURCE_UP, 1.0);
        // Exact up to 2^53.
        #[allow(clippy::cast_precision_loss)]
        metrics.set(DISCOVERY, &UNANSWERED_NODES, topology.unanswered.len() as f64);
        let is_good = topology.truncated.is_none();
        if published == TopologyChange::Changed && is_good && self.cache.store(&topology, signature) {
            metrics.add((DISCOVERY, "not_stored"), &RECORDS_DISCARDED, 1);
        }
        if is_good || self.believed.is_none() {
            self.believed = Some(guids(&topology));
        }
        self.last = Some(topology);
        published
    }

    /// Publishes the multicast tables of a whole walk; the store keeps those that it has. One that was not read whole
    /// stays as it is.
    pub fn publish_multicast(&self, tables: &MulticastTables, failures: &[Failure], began: i64) {
        let Some(topology) = &self.last else { return };
        let unread: BTreeSet<Guid> = failures.iter().filter_map(|failure| failure.guid).collect();
        let is_read = |node: &Node| node.switch.is_some() && !unread.contains(&node.guid);
        let read: Vec<NodeIndex> =
            (0..topology.nodes.len()).filter(|index| is_read(&topology.nodes[*index])).collect();
        let metrics = &self.shared.publisher.metrics;
        let batches = records::multicast(topology, tables, &read, began).into_iter();
        metrics.add(DISCOVERY, &RECORDS, self.shared.publisher.append_inventory(batches) as u64);
        metrics.add(DISCOVERY, &FAILED_READS, failures.len() as u64);
    }

    /// Publishes how switches route, as they report: records of those only that route otherwise than published. `read` is the
    /// time at which that was read; it is not part of the walk, so that nothing waits for it.
    pub fn publish_routing(&mut self, routing: BTreeMap<Guid, SwitchRouting>, read: i64) {
        let Some(last) = &self.last else { return };
        let is_new = |(guid, routing): &(&Guid, &SwitchRouting)| last.routing.get(guid) != Some(routing);
        let changed: Vec<NodeIndex> =
            routing.iter().filter(is_new).filter_map(|(guid, _)| last.node_by_guid(*guid)).collect();
        if changed.is_empty() {
            return;
        }
        let mut topology = Topology::clone(last);
        topology.routing.extend(routing);
        let publisher = &self.shared.publisher;
        let batches = records::changed_nodes(&topology, &changed, read, |_| false);
        publisher.metrics.add(DISCOVERY, &RECORDS, publisher.append_inventory(batches) as u64);
        self.last = Some(Arc::new(topology));
    }

    fn events(&mut self, topology: &Topology, published: TopologyChange) -> Vec<FabricEvent> {
        let now = Instant::now();
        if let (Some(watch), Some(last)) = (&mut self.watch, &self.last) {
            return match published {
                TopologyChange::Changed => watch.compare(last, topology, now),
                TopologyChange::Same | TopologyChange::TablesOnly => watch.pass(topology, now),
            };
        }
        if topology.truncated.is_some() {
            return Vec::new();
        }
        // The first walk: held against what the last run left.
        let watch = self.watch.insert(Watch::new(self.settings, topology));
        let Some(before) = Some(&self.cache).filter(|_| self.is_first).and_then(TopologyCache::load) else {
            return Vec::new();
        };
        if !records::is_same_fabric(&before, topology) {
            tracing::info!("the last topology is that of another fabric; beginning anew");
            return Vec::new();
        }
        let mut events = watch.compare(&before, topology, now);
        for event in &mut events {
            event.text = format!("while not watched: {}", event.text);
        }
        events
    }

    /// Appends inventory: all of it after a whole walk and when something is gone, else what changed. How many
    /// records those were.
    fn append(
        &self,
        topology: &Topology,
        began: i64,
        is_whole: bool,
        difference: Option<&Difference>,
    ) -> usize {
        let publisher = &self.shared.publisher;
        let now = publisher.clock.now();
        let is_changed = |node: &Node| {
            let index = topology.node_by_guid(node.guid);
            difference.is_none_or(|difference| index.is_some_and(|at| difference.tables.contains(&at)))
        };
        match difference {
            Some(difference) if !is_whole && (!difference.is_gone || topology.truncated.is_some()) => {
                let mut nodes = difference.nodes.clone();
                nodes.extend(&difference.tables);
                nodes.sort_unstable();
                nodes.dedup();
                if nodes.is_empty() {
                    return 0;
                }
                publisher.append_inventory(records::changed_nodes(topology, &nodes, began, is_changed))
            }
            None if topology.truncated.is_some() => {
                let all: Vec<NodeIndex> = (0..topology.nodes.len()).collect();
                publisher.append_inventory(records::changed_nodes(topology, &all, began, |_| true))
            }
            _ => publisher.append_inventory(records::inventory(topology, began, now, |node| {
                is_whole || is_changed(node)
            })),
        }
    }
}

fn guids(topology: &Topology) -> HashSet<Guid> {
    topology.nodes.iter().map(|node| node.guid).collect()
}

/// What is not as it was.
struct Difference {
    /// Nodes of the new topology that are new or have something new about themselves, their ports or cables.
    nodes: Vec<NodeIndex>,
    /// Switches with another forwarding table.
    tables: Vec<NodeIndex>,
    /// Whether a node is gone.
    is_gone: bool,
    /// Whether anything else is not the same: who answers, the local port.
    is_other: bool,
}

impl Difference {
    fn of(before: &Topology, after: &Topology) -> Difference {
        let mut difference = Difference {
            nodes: Vec::new(),
            tables: Vec::new(),
            is_gone: before.nodes.iter().any(|node| after.node_by_guid(node.guid).is_none()),
            is_other: before.unanswered != after.unanswered,
        };
        difference.is_other |= difference.is_gone;
        for (index, node) in after.nodes.iter().enumerate() {
            let old = before.node_by_guid(node.guid).map(|at| &before.nodes[at]);
            if old.is_none_or(|old| !is_same(before, old, after, node)) {
                difference.nodes.push(index);
            }
            if old.is_none_or(|old| old.forwarding != node.forwarding) && !node.forwarding.is_empty() {
                difference.tables.push(index);
            }
        }
        difference
    }

    fn is_nothing(&self) -> bool {
        self.nodes.is_empty() && self.tables.is_empty() && !self.is_other
    }
}

fn is_same(before: &Topology, old: &Node, after: &Topology, new: &Node) -> bool {
    // By which port a switch was queried differs from walk to walk, and says nothing of the port requested.
    let reported = |info: Option<PortInfo>| info.map(|info| PortInfo { local_port: 0, ..info });
    let remote = |topology: &Topology, port: &throughline_infiniband::topology::Port| {
        port.remote.map(|end| (topology.nodes[end.node].guid, end.port))
    };
    (old.description == new.description)
        && (old.system_guid, old.kind, old.port_count) == (new.system_guid, new.kind, new.port_count)
        && old.ports.len() == new.ports.len()
        && old.ports.iter().zip(&new.ports).all(|(old, new)| {
            (old.number, old.guid, reported(old.info)) == (new.number, new.guid, reported(new.info))
                && remote(before, old) == remote(after, new)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Batch, IbNodeInfo, IbPortInfo};

    fn host(state: &str, local_port: u8) -> Topology {
        let state = state.to_owned();
        let port = IbPortInfo { port: 1, state, ..IbPortInfo::default() };
        let node = IbNodeInfo { guid: 7, port_count: 1, ports: vec![port], ..IbNodeInfo::default() };
        let mut topology = records::topology(&Batch { ib_nodes: vec![node], ..Batch::default() });
        if let Some(info) = &mut topology.nodes[0].ports[0].info {
            info.local_port = local_port;
        }
        topology
    }

    #[test]
    fn the_way_by_which_a_port_was_asked_is_no_change() {
        let before = host("Active", 1);
        assert!(Difference::of(&before, &host("Active", 2)).is_nothing());
        assert_eq!(Difference::of(&before, &host("Armed", 1)).nodes, [0]);
    }
}
