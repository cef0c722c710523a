//! State of single links: degraded width and speed, ports that the subnet manager does not bring up. Pure.

use super::{
    FabricEvent, LINK_RESTORED, LINK_SPEED, LINK_WIDTH, NamedEnd, PORT_ACTIVE, PORT_STUCK, end_text,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use throughline_infiniband::capability::{Capability, Link};
use throughline_infiniband::link::rate_bytes_per_second;
use throughline_infiniband::mad::PortState;
use throughline_infiniband::topology::{PortEnd, Topology};

/// What of a link is less than it could be, by its first end.
pub(super) type DegradedLinks = BTreeMap<NamedEnd, (Link, Link)>;

/// Links that are less than both ends are set to use, or than they were: their present state and what it could be.
/// `before` is the topology before with its degraded links.
pub(super) fn degraded(before: Option<(&Topology, &DegradedLinks)>, topology: &Topology) -> DegradedLinks {
    let degraded = topology.cables().filter_map(|(here, there)| {
        let end = (topology.nodes[here.node].guid, here.port);
        let active = active(topology, here, there)?;
        let enabled = Capability::of(topology, here, Some(there)).enabled;
        let best = match before.and_then(|(before, was)| {
            Some((was.get(&end).copied(), link_before(before, end, named(topology, there))?))
        }) {
            // One that was degraded stays so until it is as good as it was; another one is as good as it was.
            Some((Some((_, best)), _)) => best,
            Some((None, was)) => enabled.filter(|enabled| is_less(was, *enabled)).unwrap_or(was),
            None => enabled?,
        };
        is_less(active, best).then_some((end, (active, best)))
    });
    degraded.collect()
}

fn named(topology: &Topology, end: PortEnd) -> NamedEnd {
    (topology.nodes[end.node].guid, end.port)
}

/// The link as the worse of its ends says: one may have been set and not trained anew.
fn active(topology: &Topology, here: PortEnd, there: PortEnd) -> Option<Link> {
    let of = |end: PortEnd| {
        let node = &topology.nodes[end.node];
        node.link_of(node.port(end.port)?)
    };
    match (of(here), of(there)) {
        (Some(a), Some(b)) => Some(if is_less(b, a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn is_less((width, speed): Link, (best_width, best_speed): Link) -> bool {
    width.lanes() < best_width.lanes()
        || rate_bytes_per_second(best_width, speed) < rate_bytes_per_second(best_width, best_speed)
}

fn name((width, speed): Link) -> String {
    format!("{}{}", width.name(), speed.name())
}

/// What changed of degraded links that are there before or after.
pub(super) fn compare(
    before: &Topology,
    was: &DegradedLinks,
    after: &Topology,
    is: &DegradedLinks,
) -> Vec<FabricEvent> {
    let mut events = Vec::new();
    for (here, there) in after.cables() {
        let (end, remote) = (named(after, here), named(after, there));
        let old = was.get(&end);
        let both = || format!("{} - {}", end_text(end, [after, before]), end_text(remote, [after, before]));
        let event = |kind, before: String, after, text| FabricEvent {
            kind,
            end,
            remote: Some(remote),
            before,
            after,
            text,
        };
        match (is.get(&end), old) {
            (Some(new), old) if old != Some(new) => {
                let (active, best) = *new;
                let was = link_before(before, end, remote).map_or_else(String::new, name);
                let kind = if active.0.lanes() < best.0.lanes() { &LINK_WIDTH } else { &LINK_SPEED };
                let text = format!("{}: {}, and could be {}", both(), name(active), name(best));
                events.push(event(kind, was, name(active), text));
            }
            (None, Some((old, _))) => {
                if let Some(now) = active(after, here, there) {
                    let text = format!("{}: {} again", both(), name(now));
                    events.push(event(&LINK_RESTORED, name(*old), name(now), text));
                }
            }
            _ => {}
        }
    }
    events
}

/// What a cable between two ends was; `None` if it was not there.
fn link_before(topology: &Topology, here: NamedEnd, there: NamedEnd) -> Option<Link> {
    let end = PortEnd { node: topology.node_by_guid(here.0)?, port: here.1 };
    let remote = topology.nodes[end.node].port(end.port)?.remote?;
    if named(topology, remote) != there { None } else { active(topology, end, remote) }
}

/// Ports with a link that are not Active, and since when.
#[derive(Default)]
pub(super) struct Waiting {
    since: HashMap<NamedEnd, (Instant, bool)>,
}

impl Waiting {
    /// Ports that wait for longer than `limit`, reported once, and those reported that wait no more.
    pub fn compare(&mut self, topology: &Topology, limit: Duration, now: Instant) -> Vec<FabricEvent> {
        let mut events = Vec::new();
        let mut waiting = HashMap::new();
        let both = [topology, topology];
        for node in &topology.nodes {
            if topology.unanswered.contains_key(&node.guid) {
                continue;
            }
            for port in node.physical_ports() {
                let end = (node.guid, port.number);
                let Some(info) = port.info.filter(|info| info.is_linked()) else { continue };
                let remote = port.remote.map(|there| (topology.nodes[there.node].guid, there.port));
                let former = self.since.get(&end).copied();
                let state = info.state.map_or("unknown", PortState::name).to_owned();
                if !matches!(info.state, Some(PortState::Initialize | PortState::Armed)) {
                    if former.is_some_and(|(_, is_reported)| is_reported) {
                        let text = format!("{} is {state}", end_text(end, both));
                        let before = "stuck".to_owned();
                        events.push(FabricEvent {
                            kind: &PORT_ACTIVE,
                            end,
                            remote,
                            before,
                            after: state,
                            text,
                        });
                    }
                    continue;
                }
                let (since, was_reported) = former.unwrap_or((now, false));
                let is_long = now.saturating_duration_since(since) >= limit;
                if is_long && !was_reported {
                    let text = format!(
                        "{} stays in {state} for {:?}; is the subnet manager at work?",
                        end_text(end, both),
                        limit
                    );
                    events.push(FabricEvent {
                        kind: &PORT_STUCK,
                        end,
                        remote,
                        before: String::new(),
                        after: state,
                        text,
                    });
                }
                waiting.insert(end, (since, was_reported || is_long));
            }
        }
        self.since = waiting;
        events
    }
}
