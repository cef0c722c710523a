//! What answers for ports, and what it can do. No I/O.

use super::silence::Silence;
use crate::engine::NodeId;
use crate::events::NamedEnd;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::{ClassPortInfo, Counters, NodeKind, PortCounterSet, SamplesControl};
use throughline_infiniband::topology::NodeIndex;
use throughline_sample::Guid;

/// After this time an optional attribute that a node did not have is tried once more: firmware is updated
/// while a crawler runs, and a lost reply looks like a missing attribute. Asking each sweep would cost a
/// time-out each.
const RETRY_OPTIONAL: Duration = Duration::from_secs(3600);

/// A port's memory over sweeps: what it last said and since when it counts.
pub(super) type History = HashMap<(Guid, u8), (i64, Counters)>;

/// What a LID answers for: a switch's port 0 for all its ports, an adapter's port for itself.
pub(super) struct Target {
    pub engine: NodeId,
    pub node: NodeIndex,
    pub guid: Guid,
    pub kind: NodeKind,
    /// Its end port: 0 of a switch.
    pub end: u8,
    pub lid: u16,
    /// How many ports it answers for, whether they have readings or not.
    pub port_count: usize,
    /// The ports as they were planned, until they have readings.
    pub planned: Vec<PlannedPort>,
    /// Whether it ever answered: under this topology or a former one, or in an earlier run.
    pub has_answered: bool,
    /// Whether its ports have readings though it never did.
    pub is_listed: bool,
    pub silence: Silence,
    /// Why it failed last, while its ports have no readings that say so.
    pub failure: Option<&'static str>,
    /// Which of the plan's classes it belongs to.
    pub class: u8,
    /// `None` until it was requested.
    pub capabilities: Option<ClassPortInfo>,
    /// Positions of its ports in the readings; empty while they have none.
    pub ports: Range<usize>,
    pub optional: OptionalAttributes,
    /// Attributes of the present sweep that are to be requested in its second part.
    pub later: u16,
}

impl Target {
    /// Its name in events.
    pub fn named_end(&self) -> NamedEnd {
        (self.guid, self.end)
    }
}

/// What a reading of a port begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedPort {
    pub number: u8,
    pub rate_bytes_per_second: Option<u64>,
    pub link_lanes: Option<u8>,
}

/// What is known of a node's optional attributes, as bits of [`PortCounterSet::bit`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptionalAttributes {
    /// Whether PortSamplesControl was requested.
    pub is_requested: bool,
    /// Length of a tick, where the node reports.
    pub tick: Option<SamplesControl>,
    /// Reported by the node, or answered once.
    present: u16,
    /// Not reported, refused or never answered.
    absent: u16,
    /// One trial was not answered; the next decides, because MADs get lost.
    doubted: u16,
    retry: Option<Instant>,
    /// Not to be requested, whatever the node has.
    never: u16,
}

impl OptionalAttributes {
    /// Of the port through which the subnet is managed: nothing that its agent may not know is queried there. What
    /// an agent does not know can be handed to programs of its class at that port, and opensm 3.3.23 with its
    /// performance manager ends on a request (seen on ibsim; it takes each for an answer to its own).
    pub fn of_manager() -> OptionalAttributes {
        let known = [
            PortCounterSet::ReceiveErrorDetails,
            PortCounterSet::DiscardDetails,
            PortCounterSet::FlowControl,
            PortCounterSet::Operations,
        ];
        let unknown = PortCounterSet::ALL.into_iter().filter(|set| set.is_optional() && !known.contains(set));
        let never = unknown.fold(0, |bits, set| bits | set.bit());
        OptionalAttributes { is_requested: true, never, ..OptionalAttributes::default() }
    }

    /// The node's own words; attributes beyond them are not requested.
    pub fn learn(&mut self, control: SamplesControl) {
        self.tick = Some(control);
        // A mask without a bit is that of a node which does not fill it in: then only trying shows.
        if control.options == 0 {
            return;
        }
        for set in PortCounterSet::ALL.into_iter().filter(|set| set.is_optional()) {
            if control.has(set) {
                self.present |= set.bit();
            } else {
                self.absent |= set.bit();
            }
        }
    }

    /// Which of some attributes are worth asking for.
    pub fn worth(&mut self, wanted: u16, now: Instant) -> u16 {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.retry = None;
            self.absent = 0;
        }
        wanted & !(self.absent | self.never)
    }

    /// It answered.
    pub fn answered(&mut self, set: PortCounterSet) {
        self.present |= set.bit();
        self.doubted &= !set.bit();
        self.absent &= !set.bit();
    }

    /// Whether a missing answer is a failure. An attribute that never answered is taken as one that the node
    /// does not have.
    pub fn is_present(&self, set: PortCounterSet) -> bool {
        self.present & set.bit() != 0
    }

    /// It did not answer a trial. `true` where that shows that it does not have it.
    pub fn is_silent_about(&mut self, set: PortCounterSet, now: Instant) -> bool {
        let is_second = self.doubted & set.bit() != 0;
        self.doubted ^= set.bit();
        is_second && self.lacks(set, now)
    }

    /// The node does not have it. `true` where that was not known.
    pub fn lacks(&mut self, set: PortCounterSet, now: Instant) -> bool {
        let is_news = self.absent & set.bit() == 0;
        self.present &= !set.bit();
        self.absent |= set.bit();
        self.retry.get_or_insert(now + RETRY_OPTIONAL);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_managers_port_is_queried_for_what_every_agent_knows() {
        let now = Instant::now();
        let mut optional = OptionalAttributes::of_manager();
        let (details, sl) = (PortCounterSet::ReceiveErrorDetails, PortCounterSet::SlTransmitData);
        assert!(optional.is_requested);
        assert_eq!(optional.worth(details.bit() | sl.bit(), now), details.bit());
        assert!(optional.lacks(details, now));
        let later = now + RETRY_OPTIONAL;
        assert_eq!(optional.worth(details.bit() | sl.bit(), later), details.bit(), "and never for more");
    }

    #[test]
    fn what_a_node_lacks_is_not_asked_for_again_and_again() {
        let now = Instant::now();
        let (flow, sl) = (PortCounterSet::FlowControl, PortCounterSet::SlTransmitData);
        let wanted = flow.bit() | sl.bit();
        let mut optional = OptionalAttributes::default();
        assert_eq!(optional.worth(wanted, now), wanted, "nothing is known: tried");
        assert!(optional.lacks(sl, now) && !optional.lacks(sl, now));
        assert!(!optional.is_silent_about(flow, now), "it may have been lost");
        assert_eq!(optional.worth(wanted, now), flow.bit());
        assert!(optional.is_silent_about(flow, now));
        assert_eq!(optional.worth(wanted, now), 0);
        optional.answered(flow);
        assert_eq!(optional.worth(wanted, now), flow.bit());
        assert!(optional.is_present(flow) && !optional.is_present(sl));
        assert_eq!(optional.worth(wanted, now + RETRY_OPTIONAL), wanted, "tried again, rarely");
    }

    #[test]
    fn a_mask_is_believed_unless_it_is_empty() {
        let now = Instant::now();
        let wanted = PortCounterSet::FlowControl.bit() | PortCounterSet::DiscardDetails.bit();
        let mut optional = OptionalAttributes::default();
        optional.learn(SamplesControl { tick: 7, options: 0 });
        assert_eq!(optional.worth(wanted, now), wanted);
        optional.learn(SamplesControl { tick: 7, options: 0xF << 12 });
        assert_eq!(optional.worth(wanted, now), PortCounterSet::DiscardDetails.bit());
    }
}
