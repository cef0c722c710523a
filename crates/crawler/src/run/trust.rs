//! Whether a discovery replaces the topology in use: the last good one stays until another one is confirmed.
//!
//! A discovery that failed, ended at one of its bounds or lost most of the fabric at once is repeated, and believed when
//! the second one shows the same. Meanwhile sweeps go on with what was good.

use super::shared::SharedState;
use super::thread_names::DISCOVERY;
use super::trigger::Trigger;
use crate::discover::Discovery;
use crate::events::{DISCOVERY_TRUNCATED, FabricEvent, Kind, REPLY_REJECTED, TOPOLOGY_RETAINED};
use std::collections::{BTreeMap, BTreeSet};
use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;
use throughline_sample::catalogue::{
    DISCOVERIES_REJECTED, REPLIES_REJECTED, TOPOLOGY_TRUNCATED, TRUNCATED_DISCOVERIES,
};

/// Topologies of fewer nodes change as a whole: a laboratory's switch is unplugged.
const SHRINK_NODES_MIN: usize = 8;

/// Reasons for which a topology stays in use.
const FAILED: &str = "failed";
const TRUNCATED: &str = "truncated";
const SHRUNK: &str = "shrunk";

/// What is retained from discovery to discovery.
#[derive(Default)]
pub struct Trust {
    /// Why the last one was not believed.
    held: Option<&'static str>,
    /// Whether the last one was truncated.
    is_truncated: bool,
    /// Reasons of replies that the last one did not believe.
    rejected: BTreeSet<&'static str>,
}

impl Trust {
    /// Whether what was found replaces `known`. Says what is wrong with it, once.
    pub fn accepts(&mut self, shared: &SharedState, found: &Discovery, known: Option<&Topology>) -> bool {
        self.report(shared, found);
        let reason = known.and_then(|known| doubt(found, known));
        let before = std::mem::replace(&mut self.held, reason);
        match reason.filter(|_| before.is_none()) {
            None => true,
            Some(reason) => {
                retained(shared, reason, known, found.topology.nodes.len());
                shared.want_discovery(&Trigger::Doubt);
                false
            }
        }
    }

    /// No node answered.
    pub fn failed(&mut self, shared: &SharedState, known: Option<&Topology>) {
        if known.is_some() && self.held.replace(FAILED) != Some(FAILED) {
            retained(shared, FAILED, known, 0);
        }
    }

    fn report(&mut self, shared: &SharedState, found: &Discovery) {
        let metrics = &shared.publisher.metrics;
        let truncated = found.topology.truncated;
        metrics.set(DISCOVERY, &TOPOLOGY_TRUNCATED, f64::from(u8::from(truncated.is_some())));
        if let Some(limit) = truncated {
            metrics.add((DISCOVERY, limit.name()), &TRUNCATED_DISCOVERIES, 1);
        }
        let was = std::mem::replace(&mut self.is_truncated, truncated.is_some());
        if let Some(limit) = truncated.filter(|_| !was) {
            let (key, nodes) = (limit.name(), found.topology.nodes.len());
            let text = format!(
                "the discovery ended at discovery.{key} with {nodes} nodes: look for a switch that is no real one, or \
                 raise the bound"
            );
            shared.publisher.emit(&[event(&DISCOVERY_TRUNCATED, key, text)]);
        }
        for (reason, count) in &found.rejected {
            metrics.add((DISCOVERY, *reason), &REPLIES_REJECTED, *count);
        }
        let new: BTreeMap<&str, u64> = found
            .rejected
            .iter()
            .filter(|(reason, _)| !self.rejected.contains(*reason))
            .map(|(reason, count)| (*reason, *count))
            .collect();
        if !new.is_empty() {
            let words: Vec<String> = new.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            let text = format!("replies of the fabric are not believed: {}", words.join(", "));
            shared.publisher.emit(&[event(&REPLY_REJECTED, "", text)]);
        }
        self.rejected = found.rejected.keys().copied().collect();
    }
}

/// Why a discovery is to be repeated before it is believed.
fn doubt(found: &Discovery, known: &Topology) -> Option<&'static str> {
    if found.topology.truncated.is_some() {
        return known.truncated.is_none().then_some(TRUNCATED);
    }
    let is_gone = |guid: Guid| found.topology.node_by_guid(guid).is_none();
    let gone = known.nodes.iter().filter(|node| is_gone(node.guid)).count();
    // What a truncated discovery made of the fabric is no measure.
    let is_large = known.nodes.len() >= SHRINK_NODES_MIN && known.truncated.is_none();
    (is_large && gone * 2 > known.nodes.len()).then_some(SHRUNK)
}

fn retained(shared: &SharedState, reason: &'static str, known: Option<&Topology>, found: usize) {
    shared.publisher.metrics.add((DISCOVERY, reason), &DISCOVERIES_REJECTED, 1);
    let nodes = known.map_or(0, |known| known.nodes.len());
    let text = format!(
        "the topology of {nodes} nodes stays in use: the discovery {} ({found} nodes)",
        match reason {
            FAILED => "found no node",
            TRUNCATED => "was truncated",
            _ => "lost most of them at once",
        }
    );
    shared.publisher.emit(&[event(&TOPOLOGY_RETAINED, reason, text)]);
}

/// An event about the subnet.
fn event(kind: &'static Kind, after: &str, text: String) -> FabricEvent {
    let (before, after) = (String::new(), after.to_owned());
    FabricEvent { kind, end: (Guid(0), 0), remote: None, before, after, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::records;
    use throughline_infiniband::topology::Limit;
    use throughline_sample::wire::{Batch, IbNodeInfo};

    fn of(guids: std::ops::Range<u64>) -> Topology {
        let ib_nodes = guids.map(|guid| IbNodeInfo { guid, ..IbNodeInfo::default() }).collect();
        records::topology(&Batch { ib_nodes, ..Batch::default() })
    }

    #[test]
    fn what_is_doubted() {
        let known = of(1..11);
        let found = |topology| Discovery { topology, ..Discovery::default() };
        assert_eq!(doubt(&found(of(1..11)), &known), None);
        assert_eq!(doubt(&found(of(1..6)), &known), None, "half of them are there");
        assert_eq!(doubt(&found(of(1..5)), &known), Some(SHRUNK));
        assert_eq!(doubt(&found(of(1..2)), &of(1..5)), None, "a small one");
        let mut cut = of(1..11);
        cut.truncated = Some(Limit::Ports);
        assert_eq!(doubt(&found(cut.clone()), &known), Some(TRUNCATED));
        assert_eq!(doubt(&found(cut.clone()), &cut), None, "it was believed");
        assert_eq!(doubt(&found(of(1..2)), &cut), None);
    }
}
