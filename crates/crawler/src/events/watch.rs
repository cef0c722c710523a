//! From one topology to the next: what happened, with what must be retained for it. Pure but for its memory.

use super::cables::{Cables, NodeReplacements};
use super::flap::Flaps;
use super::links::{self, DegradedLinks, Waiting};
use super::{
    FabricEvent, Kind, NODE_ANSWERS, NODE_BACK, NODE_GONE, NODE_LID, NODE_NEW, NODE_RENAMED, NODE_REPLACED,
    NODE_SILENT, TOPOLOGY_CHANGED, end_text, node_text,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::topology::{NodeIndex, NodeStanding, Topology};
use throughline_sample::Guid;

/// Events reported of one walk; a subnet that is torn apart is a few sums, not 10,000 events.
pub const EVENTS_MAX: usize = 500;
/// Nodes that are gone and retained; beyond it one that comes back is new.
const GONE_MAX: usize = 65_536;
/// How often a node is queried in vain before it counts as silent: one lost request is none.
const SILENT_LOOKS: u32 = 2;

/// What counts as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Changes of a link within the window that make it a flapping one.
    pub flap_changes: usize,
    /// The window.
    pub flap_window: Duration,
    /// How long a port may stay in Initialize or Armed.
    pub stuck_after: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        WatchSettings {
            flap_changes: 4,
            flap_window: Duration::from_secs(300),
            stuck_after: Duration::from_secs(10),
        }
    }
}

/// A node that is gone.
struct LostNode {
    kind: NodeKind,
    name: String,
}

/// Compares topologies.
pub struct Watch {
    settings: WatchSettings,
    cables: Cables,
    degraded: DegradedLinks,
    waiting: Waiting,
    gone: HashMap<Guid, LostNode>,
    silent: BTreeSet<Guid>,
}

impl Watch {
    /// Begins with what is there: nothing of it is an event.
    #[must_use]
    pub fn new(settings: WatchSettings, topology: &Topology) -> Watch {
        Watch {
            settings,
            cables: Cables::new(Flaps::new(settings.flap_changes, settings.flap_window)),
            degraded: links::degraded(None, topology),
            waiting: Waiting::default(),
            gone: HashMap::new(),
            silent: BTreeSet::new(),
        }
    }

    /// What happened from one topology to the next. At most [`EVENTS_MAX`] and one sum for each kind.
    pub fn compare(&mut self, before: &Topology, after: &Topology, now: Instant) -> Vec<FabricEvent> {
        let guids =
            |topology: &Topology| -> BTreeSet<Guid> { topology.nodes.iter().map(|n| n.guid).collect() };
        let (old, new) = (guids(before), guids(after));
        let came: BTreeSet<Guid> = new.difference(&old).copied().collect();
        let went: BTreeSet<Guid> = old.difference(&new).copied().collect();
        let replaced = self.cables.replaced(before, after, &came, &|guid| {
            let now = went.contains(&guid).then(|| before.node_by_guid(guid)).flatten();
            now.map(|index| before.nodes[index].kind).or_else(|| self.gone.get(&guid).map(|gone| gone.kind))
        });
        let mut events = self.nodes(before, after, &came, &went, &replaced);
        events.extend(self.cables.compare(before, after, &replaced, now));
        let degraded = links::degraded(Some((before, &self.degraded)), after);
        events.extend(links::compare(before, &self.degraded, after, &degraded));
        self.degraded = degraded;
        events.extend(self.waiting.compare(after, self.settings.stuck_after, now));
        events.extend(self.silence(before, after));
        sum_up(events)
    }

    /// Time passes and the topology is the same: ports that wait too long, links that do not flap any more.
    pub fn pass(&mut self, topology: &Topology, now: Instant) -> Vec<FabricEvent> {
        let mut events = self.cables.compare(topology, topology, &NodeReplacements::new(), now);
        events.extend(self.waiting.compare(topology, self.settings.stuck_after, now));
        sum_up(events)
    }

    fn nodes(
        &mut self,
        before: &Topology,
        after: &Topology,
        came: &BTreeSet<Guid>,
        went: &BTreeSet<Guid>,
        replaced: &NodeReplacements,
    ) -> Vec<FabricEvent> {
        let mut events = Vec::new();
        let of_node = |kind, guid: Guid, before: String, after: String, text| FabricEvent {
            kind,
            end: (guid, 0),
            remote: None,
            before,
            after,
            text,
        };
        for guid in went {
            let Some(node) = before.node_by_guid(*guid).map(|index| &before.nodes[index]) else { continue };
            self.silent.remove(guid);
            if self.gone.len() < GONE_MAX {
                self.gone.insert(*guid, LostNode { kind: node.kind, name: node.description.clone() });
            }
            if !replaced.values().any(|former| former == guid) {
                let place = place_of(before, *guid);
                let text = format!(
                    "{}{}{}",
                    node_text(*guid, [before, after]),
                    words(" was at ", &place),
                    cables_of(before, *guid)
                );
                events.push(of_node(&NODE_GONE, *guid, place, String::new(), text));
            }
        }
        for guid in came {
            let (name, place) = (node_text(*guid, [after, before]), place_of(after, *guid));
            if let Some(former) = replaced.get(guid) {
                let known = self.gone.remove(former).map(|gone| gone.name).unwrap_or_default();
                let former = throughline_infiniband::topology::label(&known, *former);
                let text = format!("{name} is{} in the place of {former}", words(" at ", &place));
                events.push(of_node(&NODE_REPLACED, *guid, former, name, text));
                self.gone.remove(guid);
                continue;
            }
            let kind = if self.gone.remove(guid).is_some() { &NODE_BACK } else { &NODE_NEW };
            let text = format!("{name}{}{}", words(" is at ", &place), cables_of(after, *guid));
            events.push(of_node(kind, *guid, String::new(), place, text));
        }
        for node in &after.nodes {
            let Some(old) = before.node_by_guid(node.guid).map(|index| &before.nodes[index]) else {
                continue;
            };
            let both = [(&old.description, &node.description)];
            for (was, is) in both.into_iter().filter(|(was, is)| was != is && !was.is_empty()) {
                let text = format!("{} was called {was}", node_text(node.guid, [after, before]));
                events.push(of_node(&NODE_RENAMED, node.guid, was.clone(), is.clone(), text));
            }
            let (was, is) = (old.lid(), node.lid());
            if was != is && was != 0 && is != 0 {
                let text = format!("{}: LID {was} is {is} now", node_text(node.guid, [after, before]));
                events.push(of_node(&NODE_LID, node.guid, was.to_string(), is.to_string(), text));
            }
        }
        events
    }

    /// Nodes that fell silent and that answer again.
    fn silence(&mut self, before: &Topology, after: &Topology) -> Vec<FabricEvent> {
        let silent: BTreeSet<Guid> = after
            .unanswered
            .iter()
            .filter(|(_, node)| node.standing == NodeStanding::Silent && node.looks >= SILENT_LOOKS)
            .map(|(guid, _)| *guid)
            .collect();
        let hidden = after.unanswered.values().filter(|node| node.standing == NodeStanding::Hidden).count();
        let mut events = Vec::new();
        let state = |is_silent: bool| if is_silent { "silent" } else { "answering" }.to_owned();
        for guid in silent.difference(&self.silent) {
            let place = place_of(after, *guid);
            let mut text = format!("{} does not answer", node_text(*guid, [after, before]));
            text += &words("; its link is up at ", &place);
            let is_switch =
                after.node_by_guid(*guid).is_some_and(|at| after.nodes[at].kind == NodeKind::Switch);
            if is_switch && hidden > 0 {
                text += &format!("; {hidden} nodes can only be reached through silent ones");
            }
            let (before, after) = (state(false), state(true));
            events.push(FabricEvent {
                kind: &NODE_SILENT,
                end: (*guid, 0),
                remote: None,
                before,
                after,
                text,
            });
        }
        let answers =
            |guid: &Guid| after.node_by_guid(*guid).is_some() && !after.unanswered.contains_key(guid);
        for guid in self.silent.iter().filter(|guid| answers(guid)) {
            let text = format!("{} answers again", node_text(*guid, [after, before]));
            let (before, after) = (state(true), state(false));
            events.push(FabricEvent {
                kind: &NODE_ANSWERS,
                end: (*guid, 0),
                remote: None,
                before,
                after,
                text,
            });
        }
        // One that is hidden now may be silent still: it is reported once.
        self.silent.retain(|guid| after.unanswered.contains_key(guid));
        self.silent.extend(silent);
        events
    }
}

fn words(start: &str, what: &str) -> String {
    if what.is_empty() { String::new() } else { format!("{start}{what}") }
}

/// Where a node hangs, in words: the switch port at the other end of its first cable to a switch; of a host without one
/// whatever it is cabled to. Empty where there is nothing: hosts say nothing about where a switch is.
fn place_of(topology: &Topology, guid: Guid) -> String {
    let Some(node) = topology.node_by_guid(guid).map(|index| &topology.nodes[index]) else {
        return String::new();
    };
    let is_switch = |node: NodeIndex| topology.nodes[node].kind == NodeKind::Switch;
    let remotes = || node.physical_ports().filter_map(|port| port.remote);
    let remote = remotes().find(|end| is_switch(end.node));
    let remote = remote.or_else(|| remotes().next().filter(|_| node.kind != NodeKind::Switch));
    remote.map_or_else(String::new, |end| {
        end_text((topology.nodes[end.node].guid, end.port), [topology, topology])
    })
}

/// Of a switch, how many cables go or come with it: they have no events of their own.
fn cables_of(topology: &Topology, guid: Guid) -> String {
    let node = topology.node_by_guid(guid).map(|index| &topology.nodes[index]);
    let Some(node) = node.filter(|node| node.kind == NodeKind::Switch) else { return String::new() };
    match node.physical_ports().filter(|port| port.remote.is_some()).count() {
        0 => String::new(),
        1 => ", with its cable".to_owned(),
        cables => format!(", with its {cables} cables"),
    }
}

/// At most [`EVENTS_MAX`] events, the worst first, and for each kind the number of what is left out.
fn sum_up(mut events: Vec<FabricEvent>) -> Vec<FabricEvent> {
    if events.len() <= EVENTS_MAX {
        return events;
    }
    events.sort_by_key(|event| std::cmp::Reverse(event.kind.severity));
    let mut left: BTreeMap<&'static str, (usize, &'static Kind)> = BTreeMap::new();
    for event in events.drain(EVENTS_MAX..) {
        left.entry(event.kind.id).or_insert((0, event.kind)).0 += 1;
    }
    for (id, (count, _)) in left {
        events.push(FabricEvent {
            kind: &TOPOLOGY_CHANGED,
            end: (Guid(0), 0),
            remote: None,
            before: String::new(),
            after: format!("{count} x {id}"),
            text: format!("{count} more events {id} at once, not reported one by one"),
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::records;
    use throughline_sample::wire::{Batch, IbNodeInfo, IbPortInfo};

    /// A switch or host by GUID, with (port, GUID and port at the other end).
    type Cabled<'a> = (u64, &'a str, &'a [(u32, u64, u32)]);

    fn topology(nodes: &[Cabled<'_>]) -> Topology {
        let node = |(guid, kind, cables): &Cabled<'_>| IbNodeInfo {
            guid: *guid,
            r#type: (*kind).to_owned(),
            description: format!("{kind}{guid}"),
            port_count: 4,
            ports: cables
                .iter()
                .map(|(port, remote_guid, remote_port)| IbPortInfo {
                    port: *port,
                    state: "Active".to_owned(),
                    physical_state: "LinkUp".to_owned(),
                    remote_guid: Some(*remote_guid),
                    remote_port: Some(*remote_port),
                    ..IbPortInfo::default()
                })
                .collect(),
            ..IbNodeInfo::default()
        };
        records::topology(&Batch { ib_nodes: nodes.iter().map(node).collect(), ..Batch::default() })
    }

    /// A leaf (1) with two hosts (11, 12) and two cables to a spine (2), which has a host (13) of its own.
    fn whole() -> Topology {
        topology(&[
            (1, "switch", &[(1, 11, 1), (2, 12, 1), (3, 2, 1), (4, 2, 2)]),
            (2, "switch", &[(1, 1, 3), (2, 1, 4), (3, 13, 1)]),
            (11, "ca", &[(1, 1, 1)]),
            (12, "ca", &[(1, 1, 2)]),
            (13, "ca", &[(1, 2, 3)]),
        ])
    }

    #[test]
    fn a_switch_goes_and_comes_with_its_cables() {
        let (before, now) = (whole(), Instant::now());
        let without = topology(&[(2, "switch", &[(3, 13, 1)]), (13, "ca", &[(1, 2, 3)])]);
        let mut watch = Watch::new(WatchSettings::default(), &before);
        let kinds = |events: &[FabricEvent]| -> Vec<(&str, u64)> {
            events.iter().map(|event| (event.kind.id, event.end.0.0)).collect()
        };
        let went = watch.compare(&before, &without, now);
        assert_eq!(kinds(&went), [("node.gone", 1), ("node.gone", 11), ("node.gone", 12)]);
        assert!(
            went[0].text.ends_with("was at 0x0000000000000002 switch2 port 1, with its 4 cables"),
            "{went:?}"
        );
        let came = watch.compare(&without, &before, now);
        assert_eq!(kinds(&came), [("node.back", 1), ("node.back", 11), ("node.back", 12)]);
        // A host alone has its cable's events: they name the switch's port.
        let fewer = topology(&[
            (1, "switch", &[(2, 12, 1), (3, 2, 1), (4, 2, 2)]),
            (2, "switch", &[(1, 1, 3), (2, 1, 4), (3, 13, 1)]),
            (12, "ca", &[(1, 1, 2)]),
            (13, "ca", &[(1, 2, 3)]),
        ]);
        let host = watch.compare(&before, &fewer, now);
        assert_eq!(kinds(&host), [("node.gone", 11), ("link.down", 1)]);
    }

    #[test]
    fn a_switch_is_not_placed_by_a_host() {
        // The cable to a host comes first.
        let of = |guid: u64| place_of(&whole(), Guid(guid));
        assert_eq!(of(1), "0x0000000000000002 switch2 port 1");
        assert_eq!(of(11), "0x0000000000000001 switch1 port 1");
        let alone = topology(&[(1, "switch", &[(1, 11, 1)]), (11, "ca", &[(1, 1, 1)])]);
        assert_eq!(place_of(&alone, Guid(1)), "", "hosts move, switches do not");
    }
}
