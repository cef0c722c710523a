//! State of single links: degraded width and speed, ports that the subnet manager does not bring up. Pure.

use super::{Happened, LINK_RESTORED, LINK_SPEED, LINK_WIDTH, NamedEnd, PORT_ACTIVE, PORT_STUCK, end_text};
use crate::capability::{Capability, Link};
use crate::mad::PortState;
use crate::topology::Topology;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// What of a link is less than it could be, by its first end.
pub(super) type Degraded = BTreeMap<NamedEnd, (Link, Link)>;

/// Links that came up with less than both ends are set to use: what they are and what they could be.
pub(super) fn degraded(topology: &Topology) -> Degraded {
    let degraded = topology.cables().filter_map(|(here, there)| {
        let capability = Capability::of(topology, here, Some(there));
        let (active, best) = (capability.active?, capability.enabled?);
        let end = (topology.nodes[here.node].guid, here.port);
        capability.is_degraded().then_some((end, (active, best)))
    });
    degraded.collect()
}

fn name((width, speed): Link) -> String {
    format!("{}{}", width.name(), speed.name())
}

/// What changed of degraded links that are there before or after.
pub(super) fn compare(before: &Topology, was: &Degraded, after: &Topology, is: &Degraded) -> Vec<Happened> {
    let mut events = Vec::new();
    for (here, there) in after.cables() {
        let end = (after.nodes[here.node].guid, here.port);
        let remote = (after.nodes[there.node].guid, there.port);
        let old = was.get(&end);
        let both = || format!("{} - {}", end_text(end, [after, before]), end_text(remote, [after, before]));
        let event = |kind, before: String, after, text| Happened {
            kind,
            end,
            remote: Some(remote),
            before,
            after,
            text,
        };
        match is.get(&end) {
            Some(new) if old != Some(new) => {
                let (active, best) = *new;
                let was = link_before(before, end).map_or_else(String::new, name);
                let kind = if active.0.lanes() < best.0.lanes() { &LINK_WIDTH } else { &LINK_SPEED };
                let text =
                    format!("{}: {}, and both ends are set to use {}", both(), name(active), name(best));
                events.push(event(kind, was, name(active), text));
            }
            None => {
                // Its ends may have been told apart: the first end of a cable stays the same while it is there.
                let now =
                    after.nodes[here.node].port(here.port).and_then(|p| after.nodes[here.node].link_of(p));
                if let (Some((old, _)), Some(now)) = (old, now) {
                    let text = format!("{}: {} again", both(), name(now));
                    events.push(event(&LINK_RESTORED, name(*old), name(now), text));
                }
            }
            Some(_) => {}
        }
    }
    events
}

fn link_before(topology: &Topology, (guid, port): NamedEnd) -> Option<Link> {
    let node = &topology.nodes[topology.node_by_guid(guid)?];
    node.link_of(node.port(port)?)
}

/// Ports with a link that are not Active, and since when.
#[derive(Default)]
pub(super) struct Waiting {
    since: HashMap<NamedEnd, (Instant, bool)>,
}

impl Waiting {
    /// Ports that wait for longer than `limit`, told once, and those told that wait no more.
    pub fn compare(&mut self, topology: &Topology, limit: Duration, now: Instant) -> Vec<Happened> {
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
                    if former.is_some_and(|(_, is_told)| is_told) {
                        let text = format!("{} is {state}", end_text(end, both));
                        let before = "stuck".to_owned();
                        events.push(Happened { kind: &PORT_ACTIVE, end, remote, before, after: state, text });
                    }
                    continue;
                }
                let (since, was_told) = former.unwrap_or((now, false));
                let is_long = now.saturating_duration_since(since) >= limit;
                if is_long && !was_told {
                    let text = format!(
                        "{} stays in {state} for {} s; is the subnet manager at work?",
                        end_text(end, both),
                        limit.as_secs()
                    );
                    events.push(Happened {
                        kind: &PORT_STUCK,
                        end,
                        remote,
                        before: String::new(),
                        after: state,
                        text,
                    });
                }
                waiting.insert(end, (since, was_told || is_long));
            }
        }
        self.since = waiting;
        events
    }
}
