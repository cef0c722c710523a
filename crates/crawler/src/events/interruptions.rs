//! Links that were down for a moment between two discoveries: their LinkDownedCounter rose and nobody saw them down.
//! Pure: the caller brings the time.

use super::{
    CABLE_MOVED, FabricEvent, LINK_DOWN, LINK_FLAP, LINK_INTERRUPTED, LINK_UP, NODE_BACK, NODE_GONE,
    NODE_NEW, NODE_REPLACED, NamedEnd, end_text,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::counter_metrics;
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::topology::Topology;
use throughline_sample::catalogue::LINK_DOWNED;

/// A counter of errors may be read as seldom as once a minute: a link that was found down up to so long before its
/// counter rose explains the rise.
const EXPLAINED_FOR: Duration = Duration::from_secs(120);
/// Between two events of one link; what it counted meanwhile is in the second one.
const REPEATED_AFTER: Duration = Duration::from_secs(60);

/// A cable, or a port whose other end is not known; the smaller end first.
type Link = (NamedEnd, Option<NamedEnd>);

struct PendingRise {
    since: Instant,
    /// By which the counter of either end rose, at most.
    times: u64,
}

/// Rises of LinkDownedCounter that no event explains yet.
pub struct Interruptions {
    /// How long a rise waits for a discovery to explain it.
    patience: Duration,
    /// Epoch and count of each port.
    counts: HashMap<NamedEnd, (i64, u64)>,
    pending: BTreeMap<Link, PendingRise>,
    reported: HashMap<Link, Instant>,
    /// Ports, and nodes as port 0, whose going or coming was reported by an event.
    explained: HashMap<NamedEnd, Instant>,
}

impl Interruptions {
    /// `patience`: within it a discovery finds out about a link that stays down.
    #[must_use]
    pub fn new(patience: Duration) -> Interruptions {
        Interruptions {
            patience,
            counts: HashMap::new(),
            pending: BTreeMap::new(),
            reported: HashMap::new(),
            explained: HashMap::new(),
        }
    }

    /// Events that explain rises before and after them.
    pub fn explain(&mut self, events: &[FabricEvent], now: Instant) {
        let kinds = [
            &LINK_DOWN,
            &LINK_UP,
            &LINK_FLAP,
            &CABLE_MOVED,
            &NODE_GONE,
            &NODE_BACK,
            &NODE_NEW,
            &NODE_REPLACED,
        ];
        for event in events.iter().filter(|event| kinds.iter().any(|kind| std::ptr::eq(*kind, event.kind))) {
            self.explained.insert(event.end, now);
            self.explained.extend(event.remote.map(|end| (end, now)));
        }
    }

    /// Notes what a sweep read. Whether any counter rose: then the topology should be looked at.
    pub fn note(&mut self, readings: &[PortReading], topology: &Topology, now: Instant) -> bool {
        let Some(index) = counter_metrics().iter().position(|metric| metric.id == LINK_DOWNED.id) else {
            return false;
        };
        let mut has_risen = false;
        for reading in readings.iter().filter(|reading| reading.was_requested) {
            let counters = &reading.counters;
            let Some(count) = counters.wrapped(index).or_else(|| counters.end(index)) else { continue };
            let end = (reading.guid, reading.port);
            let before = self.counts.insert(end, (reading.epoch, count));
            let Some((_, before)) =
                before.filter(|(epoch, before)| *epoch == reading.epoch && *before < count)
            else {
                continue;
            };
            has_risen = true;
            let pending =
                self.pending.entry(link(end, topology)).or_insert(PendingRise { since: now, times: 0 });
            pending.times = pending.times.max(count - before);
        }
        if self.counts.len() > readings.len().saturating_mul(2) {
            let there: std::collections::HashSet<NamedEnd> =
                readings.iter().map(|reading| (reading.guid, reading.port)).collect();
            self.counts.retain(|end, _| there.contains(end));
        }
        has_risen
    }

    /// What waited long enough and nothing explains.
    pub fn due(&mut self, topology: &Topology, now: Instant) -> Vec<FabricEvent> {
        let is_recent = |at: &Instant, within: Duration| now.saturating_duration_since(*at) <= within;
        self.explained.retain(|_, at| is_recent(at, EXPLAINED_FOR + self.patience));
        self.reported.retain(|_, at| is_recent(at, REPEATED_AFTER));
        let mut events = Vec::new();
        let (explained, reported, patience) = (&self.explained, &mut self.reported, self.patience);
        self.pending.retain(|link, pending| {
            let ends = [Some(link.0), link.1];
            let mut ends = ends.into_iter().flatten();
            if ends.any(|end| explained.contains_key(&end) || explained.contains_key(&(end.0, 0))) {
                return false;
            }
            if is_recent(&pending.since, patience) || reported.contains_key(link) {
                return true;
            }
            // Whatever is down now, a discovery reports.
            if is_linked(link.0, topology) {
                events.push(event(*link, pending.times, topology));
                reported.insert(*link, now);
            }
            false
        });
        events
    }
}

fn link(end: NamedEnd, topology: &Topology) -> Link {
    let node = topology.node_by_guid(end.0).map(|index| &topology.nodes[index]);
    let remote = node.and_then(|node| node.port(end.1)?.remote);
    match remote.map(|remote| (topology.nodes[remote.node].guid, remote.port)) {
        Some(remote) => (end.min(remote), Some(end.max(remote))),
        None => (end, None),
    }
}

fn is_linked((guid, port): NamedEnd, topology: &Topology) -> bool {
    let node = topology.node_by_guid(guid).map(|index| &topology.nodes[index]);
    node.and_then(|node| node.port(port)?.info).is_some_and(|info| info.is_linked())
}

fn event((end, remote): Link, times: u64, topology: &Topology) -> FabricEvent {
    let both = [topology, topology];
    let far = remote.map_or_else(String::new, |remote| format!(" - {}", end_text(remote, both)));
    let how_often = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    let text = format!("{}{far} was down for a moment, {how_often}", end_text(end, both));
    FabricEvent {
        kind: &LINK_INTERRUPTED,
        end,
        remote,
        before: String::new(),
        after: format!("LinkDownedCounter +{times}"),
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::mad::{ClassPortInfo, NodeKind, PMA_DATA_BYTES, PortCounterSet};
    use throughline_infiniband::records;
    use throughline_sample::Guid;
    use throughline_sample::wire::{Batch, IbNodeInfo, IbPortInfo};

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Hosts 1 and 2, cabled to each other.
    fn topology() -> Topology {
        let node = |guid: u64, remote: u64| {
            let port = IbPortInfo {
                port: 1,
                port_guid: guid,
                state: "Active".to_owned(),
                physical_state: "LinkUp".to_owned(),
                remote_guid: Some(remote),
                remote_port: Some(1),
                ..IbPortInfo::default()
            };
            IbNodeInfo {
                guid,
                r#type: "ca".to_owned(),
                port_count: 1,
                ports: vec![port],
                ..IbNodeInfo::default()
            }
        };
        records::topology(&Batch { ib_nodes: vec![node(1, 2), node(2, 1)], ..Batch::default() })
    }

    fn reading(guid: u64, count: u8) -> PortReading {
        let mut data = [0; PMA_DATA_BYTES];
        data[7] = count;
        let mut reading = PortReading::new(0, Guid(guid), NodeKind::Ca, 1, 1);
        reading.counters.decode(PortCounterSet::Classic, &data, &ClassPortInfo::default()).unwrap();
        reading.was_requested = true;
        reading
    }

    #[test]
    fn a_rise_that_nothing_explains_is_reported_once_a_cable() {
        let (topology, start) = (topology(), Instant::now());
        let mut watched = Interruptions::new(PATIENCE);
        assert!(!watched.note(&[reading(1, 7), reading(2, 0)], &topology, start), "the first is no rise");
        assert!(watched.note(&[reading(1, 8), reading(2, 1)], &topology, start));
        assert_eq!(watched.due(&topology, start + PATIENCE / 2), []);
        let later = start + PATIENCE * 2;
        let events = watched.due(&topology, later);
        let [one] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((one.kind, one.end, one.remote), (&LINK_INTERRUPTED, (Guid(1), 1), Some((Guid(2), 1))));
        assert!(one.text.ends_with("once"), "{}", one.text);
        // Again and again: gathered for a minute.
        watched.note(&[reading(1, 11)], &topology, later);
        assert_eq!(watched.due(&topology, later + PATIENCE * 2), []);
        let again = watched.due(&topology, later + REPEATED_AFTER * 2);
        assert!(again[0].text.ends_with("3 times"), "{again:?}");
    }

    #[test]
    fn what_is_reported_already_is_no_interruption() {
        let (topology, start) = (topology(), Instant::now());
        for (kind, end) in [(&LINK_DOWN, (Guid(2), 1)), (&NODE_GONE, (Guid(1), 0))] {
            let mut watched = Interruptions::new(PATIENCE);
            watched.note(&[reading(1, 0)], &topology, start);
            watched.note(&[reading(1, 1)], &topology, start);
            let (before, after, text) = Default::default();
            let reported = FabricEvent { kind, end, remote: None, before, after, text };
            watched.explain(&[reported], start + PATIENCE / 2);
            assert_eq!(watched.due(&topology, start + PATIENCE * 2), []);
        }
    }
}
