//! Clearing counters: PerformanceSet of PortCounters and PortCountersExtended with a CounterSelect (16.1.3.5,
//! 16.1.4.11). Only what somebody requested by name is built here; no reader of counters uses it.

use super::ClassPortInfo;
use super::fields::PortCounterSet;
use throughline_sample::catalogue::{self as metric, Metric};

/// The counters that can be cleared, in the order of PortCounters' CounterSelect: bits 0 to 15 of it, and 16
/// and 17 of CounterSelect2 (PortXmitWait, QP1Dropped).
pub static CLEARABLE: [&Metric; 18] = [
    &metric::SYMBOL_ERROR,
    &metric::LINK_ERROR_RECOVERY,
    &metric::LINK_DOWNED,
    &metric::RECEIVE_ERRORS,
    &metric::RECEIVE_REMOTE_PHYSICAL_ERRORS,
    &metric::RECEIVE_SWITCH_RELAY_ERRORS,
    &metric::TRANSMIT_DISCARDS,
    &metric::TRANSMIT_CONSTRAINT_ERRORS,
    &metric::RECEIVE_CONSTRAINT_ERRORS,
    &metric::LOCAL_LINK_INTEGRITY_ERRORS,
    &metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS,
    &metric::VL15_DROPPED,
    &metric::TRANSMIT_DATA_BYTES,
    &metric::RECEIVE_DATA_BYTES,
    &metric::TRANSMIT_PACKETS,
    &metric::RECEIVE_PACKETS,
    &metric::TRANSMIT_WAIT,
    &metric::QP1_DROPPED,
];

/// Which counters to clear: bit i is entry i of [`CLEARABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSelection(pub u32);

impl CounterSelection {
    /// All error counters, and no data, packets or wait.
    pub const ERRORS: CounterSelection = CounterSelection(0x2_0FFF);
    /// Everything.
    pub const ALL: CounterSelection = CounterSelection(0x3_FFFF);
    /// Data and packets: bits 12 to 15.
    const TRAFFIC: u32 = 0xF000;

    /// The attributes to set and their CounterSelect and CounterSelect2, for an agent of these capabilities.
    #[must_use]
    pub fn requests(self, capabilities: &ClassPortInfo) -> Vec<(PortCounterSet, u16, u32)> {
        let (errors, traffic) = (self.0 & 0x0FFF, self.0 & Self::TRAFFIC);
        let (wait, qp1) = (self.0 >> 16 & 1, self.0 >> 17 & 1);
        let mut requests = Vec::new();
        // The classic counters are always cleared as well: other tools read them.
        let extra = (wait & u32::from(capabilities.has_transmit_wait()))
            | (qp1 & u32::from(capabilities.has_qp1_dropped())) << 1;
        if self.0 & 0xFFFF != 0 || extra != 0 {
            requests.push((PortCounterSet::Classic, (self.0 & 0xFFFF) as u16, extra));
        }
        if capabilities.has_extended() {
            // Bits 0 to 3 are data and packets; 4 to 7 their unicast and multicast parts, which go with packets.
            let mut first = traffic >> 12;
            if traffic & 0xC000 != 0 && capabilities.has_casts() {
                first |= 0xF0;
            }
            // CounterSelect2: 0 to 11 the errors in the order of PortCounters, 12 wait, 13 QP1Dropped.
            let second = if capabilities.has_extended_errors() {
                errors
                    | (wait & u32::from(capabilities.has_transmit_wait())) << 12
                    | (qp1 & u32::from(capabilities.has_qp1_dropped())) << 13
            } else {
                0
            };
            if first != 0 || second != 0 {
                requests.push((PortCounterSet::Extended, first as u16, second));
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_become_masks() {
        let count = |selection: CounterSelection| selection.0.count_ones() as usize;
        assert_eq!((count(CounterSelection::ERRORS), count(CounterSelection::ALL)), (13, CLEARABLE.len()));
        let of =
            |capabilities, capabilities_2| ClassPortInfo { capabilities, capabilities_2, redirection: None };
        let errors = CounterSelection::ERRORS;
        assert_eq!(errors.requests(&of(0, 0)), [(PortCounterSet::Classic, 0x0FFF, 0)]);
        assert_eq!(errors.requests(&of(0x9200, 0)), [(PortCounterSet::Classic, 0x0FFF, 2)]);
        let all = CounterSelection::ALL.requests(&of(0x9200, 2));
        let extended = (PortCounterSet::Extended, 0xFF, 0x3FFF);
        assert_eq!(all, [(PortCounterSet::Classic, 0xFFFF, 3), extended]);
        let one = CounterSelection(1).requests(&of(0x0400, 2));
        assert_eq!(one, [(PortCounterSet::Classic, 1, 0), (PortCounterSet::Extended, 0, 1)]);
    }
}
