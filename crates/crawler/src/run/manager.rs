//! What is known of the master subnet manager, and what a look at it reports: another one, begun anew, gone. The one
//! place that reports on managers. Pure.

use super::trigger::Trigger;
use crate::events::{FabricEvent, Kind, NamedEnd, SM_CHANGED, SM_GONE};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::SmState;
use throughline_infiniband::mad::sa::SmInfoRecord;
use throughline_infiniband::topology::{Topology, label};
use throughline_sample::Guid;

/// How long a manager is silent until it counts as gone: ports are read again meanwhile, which takes a light discovery
/// after the manager that took over has written its LID into them.
const CONFIRMED_AFTER: Duration = Duration::from_secs(4);
/// Why ports are read again.
const SILENT: &str = "its subnet manager is silent";
/// The same.
const NOT_MASTER: &str = "its subnet manager is not master";

/// A master as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Master {
    lid: u16,
    /// GUID of its port, priority, and its count of requests; `None` where it was not queried, and only the local port
    /// names its LID.
    info: Option<(Guid, u8, u32)>,
}

/// What is retained of the manager.
#[derive(Debug, Default)]
pub struct Manager {
    known: Option<Master>,
    is_gone: bool,
    /// Since when it does not answer, until it is gone.
    suspected: Option<Instant>,
}

/// What a look reports.
#[derive(Debug, Default, PartialEq)]
pub struct ManagerChange {
    /// What happened.
    pub event: Option<FabricEvent>,
    /// Why to look at the subnet.
    pub trigger: Option<Trigger>,
    /// Requests that the manager sent since the last check, where it says so and is still the same.
    pub requests: Option<u32>,
    /// Whether the manager knows nothing of subscriptions.
    pub subscribe: bool,
}

impl Master {
    /// The node and port that it runs at, as far as the topology has them.
    fn place(&self, topology: Option<&Topology>) -> Option<NamedEnd> {
        let topology = topology?;
        let end = match self.info {
            Some((guid, ..)) => topology.port_by_guid(guid)?,
            None => topology.port_by_lid(self.lid)?,
        };
        Some((topology.nodes[end.node].guid, end.port))
    }

    /// GUID, name, LID and priority in words, as far as they are known.
    fn describe(&self, topology: Option<&Topology>) -> String {
        let place = self.place(topology);
        let node = place.and_then(|(guid, _)| {
            let topology = topology?;
            Some(&topology.nodes[topology.node_by_guid(guid)?])
        });
        let name = node.map_or("", |node| node.description.as_str());
        match self.info {
            Some((guid, priority, _)) => {
                format!("{} at LID {}, priority {priority}", label(name, guid), self.lid)
            }
            None => match place {
                Some((guid, _)) => format!("{} at LID {}", label(name, guid), self.lid),
                None => format!("LID {}", self.lid),
            },
        }
    }
}

impl Manager {
    /// The administrator at `lid` answered with the managers that it knows. What it says of itself comes first: of
    /// others it says what they were when it last observed them.
    pub fn answered(
        &mut self,
        lid: u16,
        managers: &[SmInfoRecord],
        topology: Option<&Topology>,
    ) -> ManagerChange {
        let masters = managers.iter().filter(|record| record.info.state == SmState::MASTER);
        let Some(found) = masters.copied().max_by_key(|record| (record.lid == lid, record.info.priority))
        else {
            // It handed over; to whom, ports name.
            return ManagerChange {
                trigger: Some(Trigger::LocalPort(NOT_MASTER)),
                ..ManagerChange::default()
            };
        };
        self.suspected = None;
        let (guid, priority, activity) = (found.info.guid, found.info.priority, found.info.activity);
        let master = Master { lid: found.lid, info: Some((guid, priority, activity)) };
        let before = self.known.replace(master);
        let was_gone = std::mem::replace(&mut self.is_gone, false);
        let Some(before) = before else {
            return ManagerChange { subscribe: true, ..ManagerChange::default() };
        };
        let Some((old_guid, old_priority, old_activity)) = before.info else {
            // Only its LID was known, and is reported already where it changed.
            return match before.lid == master.lid {
                true => ManagerChange { subscribe: true, ..ManagerChange::default() },
                false => changed(before, master, topology),
            };
        };
        let is_other = (old_guid, before.lid, old_priority) != (guid, master.lid, priority);
        // What opensm counts begins at 0 with the process; a count that wraps looks the same and does no harm.
        if is_other || activity < old_activity || was_gone {
            return changed(before, master, topology);
        }
        ManagerChange { requests: Some(activity - old_activity), ..ManagerChange::default() }
    }

    /// The local port names a manager at this LID, and nobody can be queried for who that is.
    pub fn named(&mut self, lid: u16, topology: Option<&Topology>) -> ManagerChange {
        let master = Master { lid, info: None };
        match self.known {
            _ if lid == 0 => ManagerChange::default(),
            Some(before) if before.lid == lid => ManagerChange::default(),
            Some(before) => {
                (self.known, self.is_gone, self.suspected) = (Some(master), false, None);
                changed(before, master, topology)
            }
            None => {
                self.known = Some(master);
                ManagerChange::default()
            }
        }
    }

    /// The administrator at `lid`, which ports name, does not answer. Another manager may have taken over and written
    /// its LID into the ports: only when they were read again ([`CONFIRMED_AFTER`]) and still name this one, it is gone.
    pub fn silent(&mut self, lid: u16, now: Instant, topology: Option<&Topology>) -> ManagerChange {
        // Ports may name none at all.
        let is_other = lid != 0 && self.known.is_some_and(|known| known.lid != lid);
        if self.is_gone && !is_other {
            return ManagerChange::default();
        }
        if is_other {
            // The manager that is silent now is another one than before.
            let mut reported = self.named(lid, topology);
            reported.subscribe = false;
            self.suspected = Some(now);
            return reported;
        }
        let since = *self.suspected.get_or_insert(now);
        if now.saturating_duration_since(since) < CONFIRMED_AFTER {
            return ManagerChange { trigger: Some(Trigger::LocalPort(SILENT)), ..ManagerChange::default() };
        }
        self.is_gone = true;
        let before = self.known.map(|known| known.describe(topology)).unwrap_or_default();
        let text = match &self.known {
            Some(_) => format!("the subnet manager {before} does not answer"),
            None => "no subnet manager answers".to_owned(),
        };
        let end = self.known.and_then(|known| known.place(topology));
        ManagerChange {
            event: Some(event(&SM_GONE, end, before, String::new(), text)),
            // The ports show which manager is next.
            trigger: Some(Trigger::SmChange),
            ..ManagerChange::default()
        }
    }

    /// Whether it did not answer and may still have been replaced by another one.
    pub fn is_suspected(&self) -> bool {
        self.suspected.is_some() && !self.is_gone
    }

    /// Whether the last check got no answer.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }
}

fn changed(before: Master, master: Master, topology: Option<&Topology>) -> ManagerChange {
    let (was, is) = (before.describe(topology), master.describe(topology));
    let text = match was == is {
        true => format!("the subnet manager {is} began anew, or was away"),
        false => format!("the subnet manager was {was} and is {is}"),
    };
    ManagerChange {
        event: Some(event(&SM_CHANGED, master.place(topology), was, is, text)),
        trigger: Some(Trigger::SmChange),
        requests: None,
        subscribe: true,
    }
}

fn event(
    kind: &'static Kind,
    end: Option<NamedEnd>,
    before: String,
    after: String,
    text: String,
) -> FabricEvent {
    FabricEvent { kind, end: end.unwrap_or((Guid(0), 0)), remote: None, before, after, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::mad::SmInfo;
    use throughline_infiniband::records;
    use throughline_sample::wire::{Batch, IbNodeInfo, IbPortInfo};

    fn record(guid: u64, lid: u16, priority: u8, activity: u32, state: u8) -> SmInfoRecord {
        let info = SmInfo { guid: Guid(guid), activity, priority, state: SmState(state) };
        SmInfoRecord { lid, info }
    }

    /// A host with GUID 100 and name `alpha`, whose port 1 has this GUID and LID.
    fn topology(guid: u64, lid: u32) -> Topology {
        let port =
            IbPortInfo { port: 1, port_guid: guid, lid, state: "Active".to_owned(), ..IbPortInfo::default() };
        let description = "alpha".to_owned();
        let node =
            IbNodeInfo { guid: 100, description, port_count: 1, ports: vec![port], ..IbNodeInfo::default() };
        records::topology(&Batch { ib_nodes: vec![node], ..Batch::default() })
    }

    #[test]
    fn changes_of_the_master_are_told() {
        let mut manager = Manager::default();
        let first = manager.answered(10, &[record(1, 10, 8, 100, 3), record(2, 20, 4, 0, 2)], None);
        assert!(first.subscribe && first.event.is_none());
        let same = manager.answered(10, &[record(1, 10, 8, 150, 3)], None);
        assert_eq!(same, ManagerChange { requests: Some(50), ..ManagerChange::default() });
        let topology = topology(2, 20);
        let other = manager.answered(20, &[record(2, 20, 4, 9, 3)], Some(&topology));
        let event = other.event.unwrap();
        assert_eq!((event.kind, event.end), (&SM_CHANGED, (Guid(100), 1)));
        assert!(event.before.ends_with("at LID 10, priority 8"), "{}", event.before);
        assert!(event.after.ends_with("alpha at LID 20, priority 4"), "{}", event.after);
        assert!(other.subscribe && other.trigger == Some(Trigger::SmChange));
        assert!(
            manager
                .answered(20, &[record(2, 20, 9, 10, 3)], None)
                .event
                .unwrap()
                .after
                .contains("priority 9")
        );
        assert!(
            manager.answered(20, &[record(2, 20, 9, 3, 3)], None).event.unwrap().text.contains("began anew")
        );
    }

    #[test]
    fn silence_is_reported_once() {
        let mut manager = Manager::default();
        manager.answered(10, &[record(1, 10, 8, 100, 3)], None);
        let start = Instant::now();
        let first = manager.silent(10, start, None);
        assert!(first.event.is_none() && first.trigger.is_some() && manager.is_suspected());
        assert!(manager.silent(10, start + CONFIRMED_AFTER / 2, None).event.is_none());
        let later = start + CONFIRMED_AFTER;
        assert_eq!(manager.silent(10, later, None).event.unwrap().kind, &SM_GONE);
        assert_eq!(manager.silent(10, later, None), ManagerChange::default());
        assert!(manager.is_gone());
        let back = manager.answered(10, &[record(1, 10, 8, 101, 3)], None);
        assert!(back.event.unwrap().text.contains("was away") && back.subscribe);
        assert!(!manager.is_gone());
    }

    #[test]
    fn a_handover_blames_nobody() {
        let mut manager = Manager::default();
        manager.answered(10, &[record(1, 10, 8, 100, 3)], None);
        let start = Instant::now();
        assert_eq!(manager.silent(10, start, None).event, None);
        // Ports name the next one meanwhile, which does not answer yet.
        let reported = manager.silent(20, start + CONFIRMED_AFTER, None);
        let event = reported.event.unwrap();
        assert_eq!((event.kind, event.after.as_str()), (&SM_CHANGED, "LID 20"), "the first is not blamed");
        assert!(event.before.ends_with("LID 10, priority 8"), "{event:?}");
        let gone = manager.silent(20, start + CONFIRMED_AFTER * 3, None).event.unwrap();
        assert_eq!((gone.kind, gone.before.as_str()), (&SM_GONE, "LID 20"));
    }

    #[test]
    fn what_a_manager_says_of_others_is_old() {
        let mut manager = Manager::default();
        manager.answered(10, &[record(1, 10, 8, 100, 3)], None);
        // The former master, of a higher priority, was master when the next one last observed it.
        let reported = manager.answered(20, &[record(2, 20, 4, 7, 3), record(1, 10, 8, 100, 3)], None);
        assert!(reported.event.unwrap().after.ends_with("LID 20, priority 4"));
        let standby = manager.answered(20, &[record(2, 20, 4, 7, 2)], None);
        assert_eq!(standby.trigger, Some(Trigger::LocalPort(NOT_MASTER)));
        assert_eq!(standby.event, None);
    }

    #[test]
    fn where_nobody_can_be_asked_the_port_names_it() {
        let mut manager = Manager::default();
        assert_eq!(manager.named(10, None), ManagerChange::default());
        assert_eq!(
            manager.named(0, None),
            ManagerChange::default(),
            "a port without a manager says nothing of one"
        );
        let reported = manager.named(20, Some(&topology(2, 20)));
        assert_eq!(reported.event.unwrap().end, (Guid(100), 1));
        // Queried afterwards, it is the same one.
        assert_eq!(manager.answered(20, &[record(2, 20, 9, 3, 3)], None).event, None);
    }
}
