//! Cables that went, came or were moved. Pure.
//!
//! What a port last had at its other end is retained while it has nothing: a cable that is pulled and plugged
//! elsewhere minutes later was moved all the same.

use super::flap::{Change, Flaps};
use super::{CABLE_MOVED, FabricEvent, LINK_DOWN, LINK_FLAP, LINK_STEADY, LINK_UP, NamedEnd, end_text};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;

/// Ends whose last neighbour is retained; beyond it they are forgotten, and a cable is new and not moved.
const REMEMBERED_MAX: usize = 65_536;

/// A cable, its ends in order.
type Cable = (NamedEnd, NamedEnd);

pub(super) struct Cables {
    flaps: Flaps,
    /// What ends without a cable had at the other end last, and in which comparison that went.
    last: HashMap<NamedEnd, (NamedEnd, u64)>,
    comparisons: u64,
}

/// Nodes that took the place of others: the former one by the new one.
pub(super) type NodeReplacements = BTreeMap<Guid, Guid>;

pub(super) fn all(topology: &Topology) -> BTreeSet<Cable> {
    let named = |end: throughline_infiniband::topology::PortEnd| (topology.nodes[end.node].guid, end.port);
    topology
        .cables()
        .map(|(here, there)| {
            let (a, b) = (named(here), named(there));
            (a.min(b), a.max(b))
        })
        .collect()
}

impl Cables {
    pub fn new(flaps: Flaps) -> Cables {
        Cables { flaps, last: HashMap::new(), comparisons: 0 }
    }

    /// What an end had at its other end before it lost its link.
    pub fn last_neighbour(&self, end: NamedEnd) -> Option<NamedEnd> {
        self.last.get(&end).map(|(neighbour, _)| *neighbour)
    }

    /// Nodes of `new` that are where nodes of `gone` were.
    pub fn replaced(
        &self,
        before: &Topology,
        after: &Topology,
        new: &BTreeSet<Guid>,
        gone: &dyn Fn(Guid) -> Option<NodeKind>,
    ) -> NodeReplacements {
        let old: HashMap<NamedEnd, NamedEnd> =
            all(before).into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let mut replaced = NodeReplacements::new();
        for (a, b) in all(after) {
            for (here, there) in [(a, b), (b, a)] {
                if !new.contains(&here.0) || replaced.contains_key(&here.0) {
                    continue;
                }
                let Some(former) = old.get(&there).copied().or_else(|| self.last_neighbour(there)) else {
                    continue;
                };
                let kind = after.node_by_guid(here.0).map(|index| after.nodes[index].kind);
                let is_same_place = former.0 != here.0 && gone(former.0).is_some() && gone(former.0) == kind;
                if is_same_place && !replaced.values().any(|taken| *taken == former.0) {
                    replaced.insert(here.0, former.0);
                }
            }
        }
        replaced
    }

    /// What changed of cables.
    pub fn compare(
        &mut self,
        before: &Topology,
        after: &Topology,
        replaced: &NodeReplacements,
        now: Instant,
    ) -> Vec<FabricEvent> {
        if std::ptr::eq(before, after) && self.flaps.is_calm() {
            return Vec::new();
        }
        self.comparisons += 1;
        let (old, new) = (all(before), all(after));
        let mut lost: BTreeSet<Cable> = old.difference(&new).copied().collect();
        let mut events = Vec::new();
        for (a, b) in &lost {
            self.remember(*a, *b);
            self.remember(*b, *a);
        }
        for (a, b) in new.difference(&old).copied() {
            let moved = self.moved(after, a, b);
            self.last.remove(&a);
            self.last.remove(&b);
            let Some((kept, from, to)) = moved else {
                if is_with_node(a, b, after, before) {
                    continue;
                }
                self.single(&mut events, &LINK_UP, (a, b), [after, before], now);
                continue;
            };
            let was = (kept.min(from), kept.max(from));
            lost.remove(&was);
            if replaced.get(&to.0) == Some(&from.0) && from.1 == to.1 {
                // Reported with the node.
                continue;
            }
            events.push(moved_event(kept, from, to, [after, before]));
        }
        for (a, b) in lost {
            if !is_with_node(a, b, before, after) {
                self.single(&mut events, &LINK_DOWN, (a, b), [before, after], now);
            }
        }
        for (a, b) in self.flaps.steady(now) {
            let state = if new.contains(&(a, b)) { "up" } else { "down" };
            let text = format!(
                "{} - {} is {state} and steady",
                end_text(a, [after, before]),
                end_text(b, [after, before])
            );
            let (before, after) = ("flapping".to_owned(), state.to_owned());
            events.push(FabricEvent { kind: &LINK_STEADY, end: a, remote: Some(b), before, after, text });
        }
        events
    }

    fn remember(&mut self, end: NamedEnd, neighbour: NamedEnd) {
        if self.last.len() < REMEMBERED_MAX {
            self.last.insert(end, (neighbour, self.comparisons));
        }
    }

    /// Whether a new cable is an old one with one end elsewhere: the end that stayed, its former neighbour and
    /// its present one. The youngest memory counts, and an adapter's port says more than a switch's: it is the
    /// host that was moved.
    fn moved(&self, after: &Topology, a: NamedEnd, b: NamedEnd) -> Option<(NamedEnd, NamedEnd, NamedEnd)> {
        let is_host = |end: NamedEnd| {
            after.node_by_guid(end.0).is_some_and(|index| after.nodes[index].kind != NodeKind::Switch)
        };
        let formers = [(a, b), (b, a)].into_iter().filter_map(|(kept, to)| {
            let (from, when) = self.last.get(&kept).copied()?;
            Some((when, is_host(kept), (kept, from, to)))
        });
        let youngest = formers.max_by_key(|(when, is_host, _)| (*when, *is_host));
        // The same cable has its link again where both ends are as before.
        youngest.map(|(.., moved)| moved).filter(|(_, from, to)| from != to)
    }

    /// A link up or down, unless it flaps.
    fn single(
        &mut self,
        events: &mut Vec<FabricEvent>,
        kind: &'static super::Kind,
        (a, b): Cable,
        topologies: [&Topology; 2],
        now: Instant,
    ) {
        let text = format!("{} - {}", end_text(a, topologies), end_text(b, topologies));
        let (up, down) = ("up".to_owned(), "down".to_owned());
        let (before, after) = if std::ptr::eq(kind, &LINK_UP) { (down, up) } else { (up, down) };
        match self.flaps.note((a, b), now) {
            Change::Single => events.push(FabricEvent { kind, end: a, remote: Some(b), before, after, text }),
            Change::Flap(count) => {
                let text = format!("{text}: {count} changes within {} s", self.flaps.window_seconds());
                events.push(FabricEvent { kind: &LINK_FLAP, end: a, remote: Some(b), before, after, text });
            }
            Change::Hidden => {}
        }
    }
}

/// Whether a cable that only `there` has went or came with its nodes, whose events say so: a switch with all its
/// cables, or both ends.
fn is_with_node(a: NamedEnd, b: NamedEnd, there: &Topology, elsewhere: &Topology) -> bool {
    let is_missing = |end: NamedEnd| elsewhere.node_by_guid(end.0).is_none();
    let is_switch = |end: NamedEnd| {
        there.node_by_guid(end.0).is_some_and(|index| there.nodes[index].kind == NodeKind::Switch)
    };
    is_missing(a) && is_missing(b) || [a, b].into_iter().any(|end| is_missing(end) && is_switch(end))
}

fn moved_event(kept: NamedEnd, from: NamedEnd, to: NamedEnd, topologies: [&Topology; 2]) -> FabricEvent {
    let [kept_text, from_text, to_text] = [kept, from, to].map(|end| end_text(end, topologies));
    let text = format!("the cable of {kept_text} was at {from_text} and is at {to_text}");
    FabricEvent { kind: &CABLE_MOVED, end: kept, remote: Some(to), before: from_text, after: to_text, text }
}
