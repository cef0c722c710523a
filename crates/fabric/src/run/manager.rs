//! What is known of the master subnet manager, and what a look at it tells: another one, begun anew, gone. Pure.

use super::trigger::Trigger;
use throughline_fabric::mad::SmState;
use throughline_fabric::mad::sa::SmInfoRecord;
use throughline_fabric::records::SOURCE;
use throughline_sample::wire::Event;

/// What is remembered of the manager.
#[derive(Debug, Default)]
pub struct Manager {
    known: Option<SmInfoRecord>,
    is_gone: bool,
}

/// What a look tells.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// What happened.
    pub event: Option<Event>,
    /// Why to look at the subnet.
    pub trigger: Option<Trigger>,
    /// Requests that the manager sent since the last look, where it says so and is still the same.
    pub requests: Option<u32>,
    /// Whether the manager knows nothing of subscriptions.
    pub subscribe: bool,
}

fn describe(record: &SmInfoRecord) -> String {
    format!("{} at LID {}, priority {}", record.info.guid, record.lid, record.info.priority)
}

fn event(time: i64, kind: &str, severity: &str, record: Option<&SmInfoRecord>, text: String) -> Event {
    Event {
        time,
        source: SOURCE.to_owned(),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text,
        ib_guid: record.map_or(0, |record| record.info.guid.0),
        ..Event::default()
    }
}

impl Manager {
    /// The administrator answered with the managers that it knows.
    pub fn answered(&mut self, managers: &[SmInfoRecord], time: i64) -> Told {
        let masters = managers.iter().filter(|record| record.info.state == SmState::MASTER);
        let Some(master) = masters.copied().max_by_key(|record| record.info.priority) else {
            return Told::default();
        };
        let before = self.known.replace(master);
        let was_gone = std::mem::replace(&mut self.is_gone, false);
        let Some(before) = before else {
            return Told { subscribe: true, ..Told::default() };
        };
        let (old, new) = (&before.info, &master.info);
        let is_other = (old.guid, before.lid, old.priority) != (new.guid, master.lid, new.priority);
        if is_other {
            let text = format!("the subnet manager was {} and is {}", describe(&before), describe(&master));
            return Told {
                event: Some(event(time, "sm.changed", "warning", Some(&master), text)),
                trigger: Some(Trigger::SmChange),
                requests: None,
                subscribe: true,
            };
        }
        // What opensm counts begins at 0 with the process; a count that wraps looks the same and does no harm.
        if new.activity < old.activity || was_gone {
            let text = format!("the subnet manager {} began anew, or was away", describe(&master));
            return Told {
                event: Some(event(time, "sm.changed", "warning", Some(&master), text)),
                trigger: Some(Trigger::SmChange),
                requests: None,
                subscribe: true,
            };
        }
        Told { requests: Some(new.activity - old.activity), ..Told::default() }
    }

    /// The administrator does not answer.
    pub fn silent(&mut self, time: i64) -> Told {
        if std::mem::replace(&mut self.is_gone, true) {
            return Told::default();
        }
        let text = match &self.known {
            Some(known) => format!("the subnet manager {} does not answer", describe(known)),
            None => "no subnet manager answers".to_owned(),
        };
        Told {
            event: Some(event(time, "sm.gone", "error", self.known.as_ref(), text)),
            // Who is the next one stands in the ports.
            trigger: Some(Trigger::SmChange),
            ..Told::default()
        }
    }

    /// Whether the last look got no answer.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_fabric::mad::SmInfo;
    use throughline_sample::Guid;

    fn record(guid: u64, lid: u16, priority: u8, activity: u32, state: u8) -> SmInfoRecord {
        let info = SmInfo { guid: Guid(guid), activity, priority, state: SmState(state) };
        SmInfoRecord { lid, info }
    }

    #[test]
    fn changes_of_the_master_are_told() {
        let mut manager = Manager::default();
        let first = manager.answered(&[record(1, 10, 8, 100, 3), record(2, 20, 4, 0, 2)], 0);
        assert!(first.subscribe && first.event.is_none());
        let same = manager.answered(&[record(1, 10, 8, 150, 3)], 0);
        assert_eq!(same, Told { requests: Some(50), ..Told::default() });
        let other = manager.answered(&[record(2, 20, 4, 9, 3)], 7);
        let event = other.event.unwrap();
        assert_eq!((event.kind.as_str(), event.ib_guid, event.time), ("sm.changed", 2, 7));
        assert!(event.text.contains("LID 10, priority 8") && event.text.contains("LID 20, priority 4"));
        assert!(other.subscribe && other.trigger == Some(Trigger::SmChange));
        assert!(manager.answered(&[record(2, 20, 9, 10, 3)], 0).event.unwrap().text.contains("priority 9"));
        assert!(manager.answered(&[record(2, 20, 9, 3, 3)], 0).event.unwrap().text.contains("began anew"));
    }

    #[test]
    fn silence_is_told_once() {
        let mut manager = Manager::default();
        manager.answered(&[record(1, 10, 8, 100, 3)], 0);
        assert_eq!(manager.silent(0).event.unwrap().kind, "sm.gone");
        assert_eq!(manager.silent(0), Told::default());
        assert!(manager.is_gone());
        let back = manager.answered(&[record(1, 10, 8, 101, 3)], 0);
        assert!(back.event.unwrap().text.contains("was away") && back.subscribe);
        assert!(!manager.is_gone());
    }
}
