//! What the subnet manager reports to subscribers: Notices of traps (IBTA volume 1, 13.4.8.2, 14.2.5.1 and
//! 14.4), sent as Reports (13.4.9). Pure but for the list of subscriptions.

use crate::bits::{get, put};
use crate::model::{ACTIVE, End, Fabric};
use crate::sa;

/// Method Report (13.4.5).
const REPORT: u8 = 0x06;
/// Attribute Notice.
const NOTICE: u64 = 0x0002;
/// TrapNumber of a subscription to all.
const ALL_TRAPS: u16 = 0xFFFF;
/// Subscriptions at once; a crawler has a handful.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Producers (13.4.8.2): switch, and class manager.
const SWITCH: u64 = 2;
const CLASS_MANAGER: u64 = 4;
/// Types: urgent, informational.
const URGENT: u64 = 1;
const INFORMATIONAL: u64 = 4;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// 64 and 65: an end port came into the subnet or left it.
    Service { guid: u64, is_in: bool },
    /// 66 and 67: a group was made or deleted.
    Group { mgid: u128, is_made: bool },
    /// 128: a port of the switch at this LID changed its state.
    LinkState { lid: u16 },
    /// 144: capabilities, or with the flag the NodeDescription, changed.
    Capability { lid: u16, mask: u32, is_description: bool },
    /// 145: another system image GUID.
    SystemGuid { lid: u16, guid: u64 },
}

impl Event {
    pub fn number(self) -> u16 {
        match self {
            Event::Service { is_in, .. } => 64 + u16::from(!is_in),
            Event::Group { is_made, .. } => 66 + u16::from(!is_made),
            Event::LinkState { .. } => 128,
            Event::Capability { .. } => 144,
            Event::SystemGuid { .. } => 145,
        }
    }

    /// Fills the 80 bytes of a Notice: 64 of SMP's form and the issuer's GID.
    fn put(self, fabric: &Fabric, data: &mut [u8]) {
        let manager = fabric.manager.and_then(|end| fabric.port(end));
        let (manager_lid, manager_guid) = manager.map_or((0, 0), |port| (port.lid, port.guid));
        let (kind, producer, issuer) = match self {
            Event::Service { .. } | Event::Group { .. } => (INFORMATIONAL, CLASS_MANAGER, manager_lid),
            Event::LinkState { lid } => (URGENT, SWITCH, lid),
            Event::Capability { lid, .. } | Event::SystemGuid { lid, .. } => (INFORMATIONAL, 1, lid),
        };
        put(data, 0, 1, 1);
        put(data, 1, 7, kind);
        put(data, 8, 24, producer);
        put(data, 32, 16, u64::from(self.number()));
        put(data, 48, 16, u64::from(issuer));
        match self {
            Event::Service { guid, .. } => {
                put(data, 128, 64, fabric.prefix);
                put(data, 192, 64, guid);
            }
            Event::Group { mgid, .. } => {
                put(data, 128, 64, (mgid >> 64) as u64);
                put(data, 192, 64, mgid as u64);
            }
            Event::LinkState { lid } => put(data, 80, 16, u64::from(lid)),
            Event::Capability { lid, mask, is_description } => {
                put(data, 96, 16, u64::from(lid));
                put(data, 127, 1, u64::from(is_description));
                put(data, 128, 32, u64::from(mask));
                put(data, 175, 1, u64::from(is_description));
            }
            Event::SystemGuid { lid, guid } => {
                put(data, 96, 16, u64::from(lid));
                put(data, 128, 64, guid);
            }
        }
        let issuer_guid = fabric.by_lid(issuer).and_then(|end| fabric.port(end)).map(|port| port.guid);
        put(data, 512, 64, fabric.prefix);
        put(data, 576, 64, issuer_guid.unwrap_or(manager_guid));
    }
}

/// Who wants to know what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subscription {
    end: End,
    number: u16,
}

/// All subscriptions, and what is still to be reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    subscriptions: Vec<Subscription>,
    events: Vec<Event>,
    /// End ports in the subnet, as last reported.
    known: Vec<u64>,
    transaction: u32,
}

impl Notices {
    /// A Set of InformInfo (13.4.8.3) from an end port; whether it is accepted.
    pub fn subscribe(&mut self, end: End, data: &[u8]) -> bool {
        let is_generic = get(data, 176, 8) == 1;
        let wanted = Subscription { end, number: get(data, 208, 16) as u16 };
        self.subscriptions.retain(|known| *known != wanted);
        if get(data, 184, 8) == 1 && is_generic && self.subscriptions.len() < MAX_SUBSCRIPTIONS {
            self.subscriptions.push(wanted);
            return true;
        }
        is_generic && get(data, 184, 8) == 0
    }

    /// A new manager knows of no subscription.
    pub fn discard(&mut self) {
        self.subscriptions.clear();
    }

    pub fn push(&mut self, event: Event) {
        if !self.events.contains(&event) {
            self.events.push(event);
        }
    }

    /// Which end ports came or went since the last check.
    pub fn update(&mut self, fabric: &Fabric, is_reported: bool) {
        let is_in = |end: &End| fabric.port(*end).is_some_and(|port| port.state == ACTIVE && port.lid != 0);
        let ends = fabric.lids.iter().flatten().filter(|end| is_in(end));
        let mut now: Vec<u64> = ends.filter_map(|end| fabric.port(*end)).map(|port| port.guid).collect();
        now.sort_unstable();
        now.dedup();
        if is_reported {
            for guid in self.known.iter().filter(|guid| now.binary_search(guid).is_err()) {
                self.events.push(Event::Service { guid: *guid, is_in: false });
            }
            for guid in now.iter().filter(|guid| self.known.binary_search(guid).is_err()) {
                self.events.push(Event::Service { guid: *guid, is_in: true });
            }
        }
        self.known = now;
    }

    /// The Reports that are due: to whom, and the MAD.
    pub fn reports(&mut self, fabric: &Fabric) -> Vec<(End, [u8; 256])> {
        let mut reports = Vec::new();
        for event in std::mem::take(&mut self.events) {
            let wants = |s: &&Subscription| s.number == ALL_TRAPS || s.number == event.number();
            let mut notified: Vec<End> = Vec::new();
            for subscription in self.subscriptions.iter().filter(wants) {
                if fabric.manager.is_none() || notified.contains(&subscription.end) {
                    continue;
                }
                notified.push(subscription.end);
                let mut mad = [0; 256];
                (mad[0], mad[1], mad[2], mad[3]) = (1, sa::CLASS, sa::VERSION, REPORT);
                self.transaction = self.transaction.wrapping_add(1);
                put(&mut mad, 64, 64, u64::from(self.transaction));
                put(&mut mad, 128, 16, NOTICE);
                event.put(fabric, &mut mad[sa::HEADER_BYTES..]);
                reports.push((subscription.end, mad));
            }
        }
        reports
    }
}
