//! What a trap means for the crawler: an event, and perhaps a look at the topology. Pure.
//!
//! A burst is reported one by one up to a bound and then as a number; every trap is counted.

use super::trigger::Trigger;
use crate::events::{self, FabricEvent, Kind};
use std::collections::BTreeMap;
use throughline_infiniband::mad::sa::{Notice, Subject, trap};
use throughline_infiniband::topology::{PortEnd, Topology, label};
use throughline_sample::Guid;

/// Traps of one round that are reported one by one.
const REPORTED_MAX: usize = 64;

/// Traps that say that the topology, LIDs or tables may be others.
const fn is_change(number: u16) -> bool {
    matches!(
        number,
        trap::IN_SERVICE..=trap::GROUP_DELETED | trap::LINK_STATE | trap::CAPABILITY | trap::SYSTEM_GUID
    )
}

/// Why to look at the subnet after this one; `None` where there is nothing to see.
pub fn trigger(notice: &Notice) -> Option<Trigger> {
    let lid = match notice.subject {
        Subject::Lid { lid, .. } => lid,
        _ => 0,
    };
    (notice.is_generic && is_change(notice.number)).then_some(Trigger::Trap { number: notice.number, lid })
}

/// The port, or the node with port 0, that a notice is about, as far as the topology knows it.
fn place(notice: &Notice, topology: Option<&Topology>) -> (Guid, u8) {
    let end = |end: PortEnd| topology.map(|topology| (topology.nodes[end.node].guid, end.port));
    match notice.subject {
        Subject::Gid(_) => {
            let guid = notice.guid().unwrap_or(Guid(0));
            let known = topology.and_then(|topology| topology.port_by_guid(guid)).and_then(end);
            known.unwrap_or((Guid(0), 0))
        }
        Subject::Lid { lid, port } => {
            let found = topology.and_then(|topology| topology.port_by_lid(lid));
            let reported = found.map(|found| PortEnd { port: port.unwrap_or(found.port), ..found });
            reported.and_then(end).unwrap_or((Guid(0), 0))
        }
        Subject::Unknown => (Guid(0), 0),
    }
}

/// The subject of the notice, in words.
fn words(notice: &Notice, place: (Guid, u8), topology: Option<&Topology>) -> String {
    let node = topology.and_then(|topology| topology.node_by_guid(place.0).map(|at| &topology.nodes[at]));
    let name = node.map(|node| label(&node.description, node.guid));
    let is_group = matches!(notice.number, trap::GROUP_CREATED | trap::GROUP_DELETED);
    match (name, notice.subject) {
        (Some(name), _) if place.1 != 0 => format!("{name} port {}", place.1),
        (Some(name), _) => name,
        (None, Subject::Gid(gid)) if is_group => {
            format!("group {}", std::net::Ipv6Addr::from(gid))
        }
        (None, Subject::Gid(_)) => format!("port {}", notice.guid().unwrap_or(Guid(0))),
        (None, Subject::Lid { lid, .. }) => format!("LID {lid}"),
        (None, Subject::Unknown) => format!("reported by LID {}", notice.issuer_lid),
    }
}

/// Kind and meaning of a notice, in words.
fn meaning(notice: &Notice) -> (&'static Kind, String) {
    let kind = if notice.is_generic { events::of_trap(notice.number) } else { &events::TRAP_OTHER };
    let words = match (kind == &events::TRAP_OTHER, notice.is_generic) {
        (true, true) => format!("a trap {} without a known meaning", notice.number),
        (true, false) => format!("a trap of a vendor's own, of device {:#06x}", notice.number),
        (false, _) => kind.meaning.trim_end_matches('.').to_owned(),
    };
    (kind, words)
}

/// The events of one round's traps.
pub fn events(notices: &[Notice], topology: Option<&Topology>) -> Vec<FabricEvent> {
    let event = |kind, end, text| FabricEvent {
        kind,
        end,
        remote: None,
        before: String::new(),
        after: String::new(),
        text,
    };
    let mut events = Vec::new();
    let mut more: BTreeMap<&'static str, (&'static Kind, usize)> = BTreeMap::new();
    for notice in notices {
        let (kind, meaning) = meaning(notice);
        if events.len() >= REPORTED_MAX {
            more.entry(kind.id).or_insert((kind, 0)).1 += 1;
            continue;
        }
        let place = place(notice, topology);
        let text = format!("{meaning}: {}", words(notice, place, topology));
        events.push(event(kind, place, text));
    }
    for (kind, count) in more.into_values() {
        let text = format!("{}: {count} more", kind.meaning.trim_end_matches('.'));
        events.push(event(kind, (Guid(0), 0), text));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Severity;

    fn notice(number: u16, lid: u16) -> Notice {
        let mut data = [0; 80];
        data[0] = 0x81;
        data[3] = 2;
        data[4..6].copy_from_slice(&number.to_be_bytes());
        // 128 names its LID at once, the others after two bytes.
        let at = if number == trap::LINK_STATE { 10 } else { 12 };
        data[at..at + 2].copy_from_slice(&lid.to_be_bytes());
        Notice::decode(&data).unwrap()
    }

    #[test]
    fn changes_are_looked_at_and_errors_are_told() {
        assert_eq!(trigger(&notice(128, 7)), Some(Trigger::Trap { number: 128, lid: 7 }));
        assert_eq!(trigger(&notice(144, 9)), Some(Trigger::Trap { number: 144, lid: 9 }));
        assert!(trigger(&notice(64, 0)).is_some());
        assert_eq!(trigger(&notice(131, 7)), None);
        let reported = events(&[notice(131, 7), notice(128, 7), notice(999, 7)], None);
        assert_eq!((reported[0].kind.id, reported[0].kind.severity), ("trap.131", Severity::Warning));
        assert_eq!(reported[0].text, "No flow control update came in time: LID 7");
        assert_eq!((reported[1].kind.id, reported[1].kind.severity), ("trap.128", Severity::Info));
        assert_eq!(reported[2].kind.id, "trap.other");
        assert!(reported[2].text.contains("999"), "{}", reported[2].text);
    }

    #[test]
    fn a_storm_is_a_number() {
        let storm: Vec<Notice> = (0..500).map(|lid| notice(128, lid)).collect();
        let reported = events(&storm, None);
        assert_eq!(reported.len(), REPORTED_MAX + 1);
        assert!(reported[REPORTED_MAX].text.contains("436 more"), "{}", reported[REPORTED_MAX].text);
    }
}
