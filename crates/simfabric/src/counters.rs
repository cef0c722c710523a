//! Counters of a port: pure functions of time. A counter is a value at a moment and a rate from then on.
//!
//! The classic and the extended attribute count the same events and are cleared each by itself, as IBTA volume
//! 1, 16.1.4.11 has it, so each has its own starting point.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    XmitData,
    RcvData,
    XmitPackets,
    RcvPackets,
    UnicastXmitPackets,
    UnicastRcvPackets,
    MulticastXmitPackets,
    MulticastRcvPackets,
    XmitWait,
    SymbolErrors,
    LinkErrorRecovery,
    LinkDowned,
    RcvErrors,
    RcvRemotePhysicalErrors,
    RcvSwitchRelayErrors,
    XmitDiscards,
    XmitConstraintErrors,
    RcvConstraintErrors,
    LocalLinkIntegrityErrors,
    ExcessiveBufferOverrunErrors,
    Vl15Dropped,
    Qp1Dropped,
    LocalPhysicalErrors,
    MalformedPacketErrors,
    BufferOverrunErrors,
    DlidMappingErrors,
    VlMappingErrors,
    LoopingErrors,
    InactiveDiscards,
    NeighborMtuDiscards,
    SwLifetimeLimitDiscards,
    SwHoqLifetimeLimitDiscards,
    XmitFlowPackets,
    RcvFlowPackets,
    OpRcvPackets,
    OpRcvData,
    SyncHeaderErrors,
    UnknownBlocks,
    FecCorrectableBlocks,
    FecUncorrectableBlocks,
    FecCorrectedSymbols,
}

/// Number of counters.
pub(crate) const COUNTERS: usize = Counter::FecCorrectedSymbols as usize + 1;

use Counter as C;

/// Names for commands, as `perfquery` writes them, in the order of [`Counter`].
pub(crate) const NAMES: [(&str, Counter); COUNTERS] = [
    ("PortXmitData", C::XmitData),
    ("PortRcvData", C::RcvData),
    ("PortXmitPkts", C::XmitPackets),
    ("PortRcvPkts", C::RcvPackets),
    ("PortUnicastXmitPkts", C::UnicastXmitPackets),
    ("PortUnicastRcvPkts", C::UnicastRcvPackets),
    ("PortMulticastXmitPkts", C::MulticastXmitPackets),
    ("PortMulticastRcvPkts", C::MulticastRcvPackets),
    ("PortXmitWait", C::XmitWait),
    ("SymbolErrorCounter", C::SymbolErrors),
    ("LinkErrorRecoveryCounter", C::LinkErrorRecovery),
    ("LinkDownedCounter", C::LinkDowned),
    ("PortRcvErrors", C::RcvErrors),
    ("PortRcvRemotePhysicalErrors", C::RcvRemotePhysicalErrors),
    ("PortRcvSwitchRelayErrors", C::RcvSwitchRelayErrors),
    ("PortXmitDiscards", C::XmitDiscards),
    ("PortXmitConstraintErrors", C::XmitConstraintErrors),
    ("PortRcvConstraintErrors", C::RcvConstraintErrors),
    ("LocalLinkIntegrityErrors", C::LocalLinkIntegrityErrors),
    ("ExcessiveBufferOverrunErrors", C::ExcessiveBufferOverrunErrors),
    ("VL15Dropped", C::Vl15Dropped),
    ("QP1Dropped", C::Qp1Dropped),
    ("PortLocalPhysicalErrors", C::LocalPhysicalErrors),
    ("PortMalformedPktErrors", C::MalformedPacketErrors),
    ("PortBufferOverrunErrors", C::BufferOverrunErrors),
    ("PortDLIDMappingErrors", C::DlidMappingErrors),
    ("PortVLMappingErrors", C::VlMappingErrors),
    ("PortLoopingErrors", C::LoopingErrors),
    ("PortInactiveDiscards", C::InactiveDiscards),
    ("PortNeighborMTUDiscards", C::NeighborMtuDiscards),
    ("PortSwLifetimeLimitDiscards", C::SwLifetimeLimitDiscards),
    ("PortSwHOQLifetimeLimitDiscards", C::SwHoqLifetimeLimitDiscards),
    ("PortXmitFlowPkts", C::XmitFlowPackets),
    ("PortRcvFlowPkts", C::RcvFlowPackets),
    ("PortOpRcvPkts", C::OpRcvPackets),
    ("PortOpRcvData", C::OpRcvData),
    ("SyncHeaderErrorCounter", C::SyncHeaderErrors),
    ("UnknownBlockCounter", C::UnknownBlocks),
    ("PortFECCorrectableBlockCtr", C::FecCorrectableBlocks),
    ("PortFECUncorrectableBlockCtr", C::FecUncorrectableBlocks),
    ("PortFECCorrectedSymbolCtr", C::FecCorrectedSymbols),
];

impl Counter {
    pub fn by_name(name: &str) -> Option<Counter> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, counter)| *counter)
    }
}

/// Which attribute shows a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Classic,
    Extended,
}

/// All counters of a port.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// Events until `since`, beyond all bounds of fields.
    events: [u64; COUNTERS],
    /// Events per second from then on.
    rates: [f64; COUNTERS],
    since: u64,
    /// Events not shown, by view: those before the last clear.
    hidden: [[u64; COUNTERS]; 2],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { events: [0; COUNTERS], rates: [0.0; COUNTERS], since: 0, hidden: [[0; COUNTERS]; 2] }
    }
}

impl Counters {
    fn events_at(&self, counter: Counter, now: u64) -> u64 {
        let index = counter as usize;
        let seconds = now.saturating_sub(self.since) as f64 / 1e9;
        self.events[index].wrapping_add((self.rates[index] * seconds) as u64)
    }

    /// What a view shows at a moment in nanoseconds, before it is cut to its field.
    pub fn value(&self, view: View, counter: Counter, now: u64) -> u64 {
        self.events_at(counter, now).wrapping_sub(self.hidden[view as usize][counter as usize])
    }

    /// Makes both views show a value.
    pub fn set(&mut self, counter: Counter, value: u64, now: u64) {
        self.show(View::Classic, counter, value, now);
        self.show(View::Extended, counter, value, now);
    }

    /// Makes one view show a value.
    pub fn show(&mut self, view: View, counter: Counter, value: u64, now: u64) {
        self.hidden[view as usize][counter as usize] = self.events_at(counter, now).wrapping_sub(value);
    }

    /// Adds events.
    pub fn add(&mut self, counter: Counter, count: u64) {
        let events = &mut self.events[counter as usize];
        *events = events.wrapping_add(count);
    }

    /// Sets a rate in events per second; what was counted stays.
    pub fn set_rate(&mut self, counter: Counter, rate: f64, now: u64) {
        self.settle(now);
        self.rates[counter as usize] = rate;
    }

    pub fn rate(&self, counter: Counter) -> f64 {
        self.rates[counter as usize]
    }

    fn settle(&mut self, now: u64) {
        for (_, counter) in NAMES {
            self.events[counter as usize] = self.events_at(counter, now);
        }
        self.since = self.since.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn counters_are_functions_of_time() {
        let mut counters = Counters::default();
        counters.set_rate(C::XmitData, 100.0, 0);
        assert_eq!(counters.value(View::Extended, C::XmitData, 2 * SECOND), 200);
        counters.set_rate(C::XmitData, 10.0, 2 * SECOND);
        assert_eq!(counters.value(View::Extended, C::XmitData, 3 * SECOND), 210);
        counters.show(View::Classic, C::XmitData, 0, 3 * SECOND);
        assert_eq!(counters.value(View::Classic, C::XmitData, 4 * SECOND), 10);
        assert_eq!(counters.value(View::Extended, C::XmitData, 4 * SECOND), 220, "cleared by itself");
        counters.add(C::SymbolErrors, 7);
        assert_eq!(counters.value(View::Classic, C::SymbolErrors, 4 * SECOND), 7);
    }

    #[test]
    fn names_are_in_order() {
        for (index, (name, counter)) in NAMES.iter().enumerate() {
            assert_eq!(*counter as usize, index, "{name}");
        }
        assert_eq!(Counter::by_name("vl15dropped"), Some(C::Vl15Dropped));
    }
}
