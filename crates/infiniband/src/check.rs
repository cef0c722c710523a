//! What is wrong with a subnet as it was discovered and swept: one finding a line, with what to do about it.
//! Pure. Judges what was read and names what could not be read; queries nobody.

use crate::capability::{Capability, link_name};
use crate::errors::CounterExcess;
use crate::mad::{NodeKind, PortState, SmInfo, SmState};
use crate::topology::{Failure, NEIGHBOUR, OTHER_FACTS, OTHER_PLACE};
use crate::topology::{NodeIndex, PortEnd, Topology};
use std::collections::BTreeMap;
use throughline_sample::Guid;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Traffic is lost, slowed or at risk, or nothing is known.
    Error,
    /// Works, and should be looked at.
    Warning,
}

impl Severity {
    /// The word in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// What a finding is about. The names are part of the interface: scripts select by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The walk ended at one of its bounds.
    DiscoveryTruncated,
    /// There is no subnet manager, or the one that the local port names does not answer as master.
    SubnetManagerAbsent,
    /// Two ports have one LID.
    LidDuplicate,
    /// An end port or switch with a link has no LID.
    LidMissing,
    /// A port stays in state Initialize or Armed.
    PortNotActive,
    /// A port has a link and nobody answers behind it.
    NeighbourSilent,
    /// A part of the walk was refused or lost.
    NotDiscovered,
    /// Counters were not read.
    CountersUnread,
    /// A link came up narrower or slower than both ends are set to.
    LinkDegraded,
    /// Error counters above their thresholds.
    PortErrors,
    /// Two nodes have one name.
    NameDuplicate,
}

impl Kind {
    /// All of them, for documents and tests.
    pub const ALL: [Kind; 11] = [
        Kind::DiscoveryTruncated,
        Kind::SubnetManagerAbsent,
        Kind::LidDuplicate,
        Kind::LidMissing,
        Kind::PortNotActive,
        Kind::NeighbourSilent,
        Kind::NotDiscovered,
        Kind::CountersUnread,
        Kind::LinkDegraded,
        Kind::PortErrors,
        Kind::NameDuplicate,
    ];

    /// The word in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::DiscoveryTruncated => "discovery.truncated",
            Kind::SubnetManagerAbsent => "sm.absent",
            Kind::LidDuplicate => "lid.duplicate",
            Kind::LidMissing => "lid.missing",
            Kind::PortNotActive => "port.not_active",
            Kind::NeighbourSilent => "node.silent",
            Kind::NotDiscovered => "node.not_discovered",
            Kind::CountersUnread => "counters.unread",
            Kind::LinkDegraded => "link.degraded",
            Kind::PortErrors => "port.errors",
            Kind::NameDuplicate => "name.duplicate",
        }
    }

    /// How bad it is.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Kind::NameDuplicate => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Kind::DiscoveryTruncated => {
                "look for a switch that is no real one; else raise the bound in [discovery]"
            }
            Kind::SubnetManagerAbsent => "start a subnet manager (opensm, or the one of a switch)",
            Kind::LidDuplicate => "look for a second subnet manager (`sminfo`) and let one reassign LIDs",
            Kind::LidMissing => "see why the subnet manager does not configure it: its log, its M_Key",
            Kind::PortNotActive => {
                "see why the subnet manager does not activate it: its log, and MTU and partition"
            }
            Kind::NeighbourSilent => {
                "look at that node: its firmware hangs, or it does not answer this M_Key"
            }
            Kind::NotDiscovered => "repeat; if it stays, look at that node and at the links on the way",
            Kind::CountersUnread => "look at the node; if many time out, lower --window or raise --timeout",
            Kind::LinkDegraded => "reseat or change the cable, clean the connector, reset the port",
            Kind::PortErrors => {
                "see whether they grow (`errors`); then cable, connector, far end, congestion"
            }
            Kind::NameDuplicate => "give each node a name of its own, or use a node-name map",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Kind of the fault.
    pub kind: Kind,
    /// The node; `None` where it is about the whole subnet.
    pub node: Option<NodeIndex>,
    /// The ports; empty where it is about the whole node.
    pub ports: Vec<u8>,
    /// How bad, in words and figures.
    pub what: String,
}

/// Ports of one node whose counters were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadPorts {
    /// The node.
    pub node: NodeIndex,
    /// Its ports.
    pub ports: Vec<u8>,
    /// Why.
    pub reason: &'static str,
}

/// What the port at the subnet manager's LID answered to SMInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagerAnswer {
    /// A subnet manager, in the state that it reports.
    State(SmInfo),
    /// The port's agent, with this status: no subnet manager runs there.
    Refused(u16),
    /// Nothing within all attempts.
    Silent,
    /// No discovered port has that LID.
    Nowhere,
}

/// What the subnet manager's answer shows: a finding unless it is alive and master.
#[must_use]
pub fn of_manager(topology: &Topology, answer: ManagerAnswer) -> Option<Finding> {
    let lid = topology.manager_lid().unwrap_or_default();
    let end = topology.port_with_lid(lid);
    let what = match answer {
        ManagerAnswer::State(info) if info.state == SmState::MASTER => return None,
        ManagerAnswer::State(info) => {
            format!("the subnet manager at LID {lid} is {} and not master", info.state.name())
        }
        ManagerAnswer::Refused(status) => {
            format!("no subnet manager runs at LID {lid}, which ports still name (status {status:#06x})")
        }
        ManagerAnswer::Silent => format!("the subnet manager at LID {lid} does not answer"),
        ManagerAnswer::Nowhere => {
            format!("ports name LID {lid} as the subnet manager's, and no port has that LID")
        }
    };
    let ports = end.map(|end| end.port).into_iter().collect();
    Some(Finding { kind: Kind::SubnetManagerAbsent, node: end.map(|end| end.node), ports, what })
}

/// What the walk itself shows: managers, LIDs, states, widths and speeds, names, silent nodes.
#[must_use]
pub fn of_topology(topology: &Topology, failures: &[Failure]) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(limit) = topology.truncated {
        let what = format!("the discovery ended at {}: there is more than was looked at", limit.name());
        found.push(Finding { kind: Kind::DiscoveryTruncated, node: None, ports: Vec::new(), what });
    }
    manager(topology, &mut found);
    lids(topology, &mut found);
    for (index, node) in topology.nodes.iter().enumerate() {
        for state in [PortState::Initialize, PortState::Armed] {
            let stuck = node
                .ports
                .iter()
                .filter(|port| port.info.is_some_and(|info| info.is_linked() && info.state == Some(state)));
            let ports: Vec<u8> = stuck.map(|port| port.number).collect();
            if !ports.is_empty() {
                let what = format!("link is up and the state is {}: no data pass", state.name());
                found.push(Finding { kind: Kind::PortNotActive, node: Some(index), ports, what });
            }
        }
    }
    unanswered(topology, failures, &mut found);
    degraded(topology, &mut found);
    names(topology, &mut found);
    found
}

/// Nodes named where findings are merged.
const NAMED: usize = 3;

/// Where no subnet manager is seen, what follows from that is one finding a kind, not one a node: there is one
/// thing to do.
pub fn merge_unmanaged(topology: &Topology, findings: &mut Vec<Finding>) {
    if findings.iter().all(|finding| finding.kind != Kind::SubnetManagerAbsent) {
        return;
    }
    for kind in [Kind::LidMissing, Kind::PortNotActive, Kind::CountersUnread] {
        let (of_kind, others): (Vec<Finding>, Vec<Finding>) =
            std::mem::take(findings).into_iter().partition(|finding| finding.kind == kind);
        *findings = others;
        let mut by_what: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for finding in of_kind {
            by_what.entry(finding.what.clone()).or_default().push(finding);
        }
        for (what, mut same) in by_what {
            if same.len() < 2 {
                findings.append(&mut same);
                continue;
            }
            let ports: usize = same.iter().map(|finding| finding.ports.len()).sum();
            let nodes = same.iter().filter_map(|finding| topology.nodes.get(finding.node?));
            let mut named: Vec<String> =
                nodes.take(NAMED).map(|node| name_of(node.guid, &node.description)).collect();
            if same.len() > NAMED {
                named.push("…".to_owned());
            }
            let what = format!("{ports} ports of {} nodes: {what} ({})", same.len(), named.join(", "));
            findings.push(Finding { kind, node: None, ports: Vec::new(), what });
        }
    }
}

/// What the counters show.
#[must_use]
pub fn of_counters(errors: &[(PortEnd, Vec<CounterExcess>)], unread: &[UnreadPorts]) -> Vec<Finding> {
    let unread = unread.iter().map(|unread| Finding {
        kind: Kind::CountersUnread,
        node: Some(unread.node),
        ports: unread.ports.clone(),
        what: format!("counters not read: {}", unread.reason),
    });
    let errors = errors.iter().map(|(end, excesses)| Finding {
        kind: Kind::PortErrors,
        node: Some(end.node),
        ports: vec![end.port],
        what: excesses.iter().map(describe).collect::<Vec<_>>().join(" "),
    });
    unread.chain(errors).collect()
}

/// `symbol_error=12 (2.40/s)`; `>=` where it may be more.
#[must_use]
pub fn describe(excess: &CounterExcess) -> String {
    let sign = if excess.at_least { ">=" } else { "=" };
    let total = format!("{}{sign}{}", excess.metric.name, excess.count);
    match excess.per_second {
        Some(rate) => format!("{total} ({}/s)", short(rate)),
        None => total,
    }
}

/// Three significant digits.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// Port numbers as ranges: `1-4,7`.
#[must_use]
pub fn port_ranges(ports: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in ports.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        match run {
            [one] => parts.push(one.to_string()),
            [first, .., last] => parts.push(format!("{first}-{last}")),
            [] => {}
        }
    }
    parts.join(",")
}

/// The local port's master SM LID is set by the manager (14.2.5.6).
fn manager(topology: &Topology, found: &mut Vec<Finding>) {
    if topology.manager_lid() != Some(0) {
        return;
    }
    let what = "no subnet manager has configured the local port".to_owned();
    let end = topology.local_end_port();
    let ports = end.map(|end| end.port).into_iter().collect();
    let node = end.map(|end| end.node);
    found.push(Finding { kind: Kind::SubnetManagerAbsent, node, ports, what });
}

/// End ports and switches' port 0 that have a link: each with its LIDs.
fn lids(topology: &Topology, found: &mut Vec<Finding>) {
    let mut owners: Vec<(u32, u32, PortEnd)> = Vec::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        for port in node.ports.iter().filter(|port| (node.kind == NodeKind::Switch) == (port.number == 0)) {
            let Some(info) = port.info else { continue };
            let end = PortEnd { node: index, port: port.number };
            if info.lid != 0 {
                owners.push((u32::from(info.lid), u32::from(info.lid) + (1 << info.lmc), end));
            } else if node.kind == NodeKind::Switch || info.is_linked() {
                let what = "a link and no LID: only neighbours can reach it".to_owned();
                found.push(Finding {
                    kind: Kind::LidMissing,
                    node: Some(index),
                    ports: vec![port.number],
                    what,
                });
            }
        }
    }
    owners.sort_unstable_by_key(|(first, _, end)| (*first, end.node, end.port));
    for pair in owners.windows(2) {
        let [(_, end_of_first, first), (lid, _, second)] = pair else { continue };
        if lid < end_of_first {
            let node = &topology.nodes[first.node];
            let what = format!(
                "LID {lid} is also that of {} port {}",
                name_of(node.guid, &node.description),
                first.port
            );
            found.push(Finding {
                kind: Kind::LidDuplicate,
                node: Some(second.node),
                ports: vec![second.port],
                what,
            });
        }
    }
}

/// Requests of the walk that were not answered.
fn unanswered(topology: &Topology, failures: &[Failure], found: &mut Vec<Finding>) {
    for failure in failures {
        let node = failure.guid.and_then(|guid| topology.node_by_guid(guid));
        let ports: Vec<u8> = failure.port.into_iter().collect();
        // NodeInfo is requested through a port: the node behind it is not known.
        let (kind, what) = if failure.reason == OTHER_FACTS || failure.reason == OTHER_PLACE {
            let what = format!("who answers behind it claims to be another node: {}", failure.reason);
            (Kind::NotDiscovered, what)
        } else if failure.what == NEIGHBOUR {
            (Kind::NeighbourSilent, format!("link is up and nobody answers behind it: {}", failure.reason))
        } else {
            (Kind::NotDiscovered, format!("{} was not read: {}", failure.what, failure.reason))
        };
        found.push(Finding { kind, node, ports, what });
    }
}

fn degraded(topology: &Topology, found: &mut Vec<Finding>) {
    for (here, there) in topology.cables() {
        let capability = Capability::of(topology, here, Some(there));
        if let (true, Some(active), Some(enabled)) =
            (capability.is_degraded(), capability.active, capability.enabled)
        {
            // Reported once a cable, at a switch where there is one.
            let is_switch = |end: PortEnd| topology.nodes[end.node].kind == NodeKind::Switch;
            let end = if !is_switch(here) && is_switch(there) { there } else { here };
            let what = format!("{} instead of {}", link_name(active), link_name(enabled));
            found.push(Finding {
                kind: Kind::LinkDegraded,
                node: Some(end.node),
                ports: vec![end.port],
                what,
            });
        }
    }
}

fn names(topology: &Topology, found: &mut Vec<Finding>) {
    let mut by_name: BTreeMap<&str, Vec<NodeIndex>> = BTreeMap::new();
    for (index, node) in topology.nodes.iter().enumerate().filter(|(_, node)| !node.description.is_empty()) {
        by_name.entry(&node.description).or_default().push(index);
    }
    for (name, nodes) in by_name {
        let [first, others @ ..] = nodes.as_slice() else { continue };
        for other in others {
            let what = format!("the name '{name}' is also that of {}", topology.nodes[*first].guid);
            found.push(Finding { kind: Kind::NameDuplicate, node: Some(*other), ports: Vec::new(), what });
        }
    }
}

fn name_of(guid: Guid, description: &str) -> String {
    crate::topology::label(description, guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_behind_a_link_is_silent() {
        let of = |what| {
            let failure = Failure { guid: None, port: Some(3), what, reason: "timeout" };
            let found = of_topology(&Topology::default(), &[failure]);
            found.into_iter().map(|finding| finding.kind).collect::<Vec<Kind>>()
        };
        assert_eq!(of(NEIGHBOUR), [Kind::NeighbourSilent]);
        assert_eq!(of("PortInfo"), [Kind::NotDiscovered]);
    }
}
