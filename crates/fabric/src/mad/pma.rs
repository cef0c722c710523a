//! Attributes of performance management (IBTA volume 1, 16.1). Pure decoding.

use super::{TooShort, be16, expect, field};
use throughline_sample::catalogue::{self as metric, Metric, Table};

/// What is used of the performance class's ClassPortInfo (13.4.8.1, 16.1.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// CapabilityMask.
    pub capabilities: u16,
    /// CapabilityMask2, 27 bits.
    pub capabilities_2: u32,
    /// RedirectLID; 0 where there is no redirection.
    pub redirect_lid: u16,
}

impl ClassPortInfo {
    /// PortCountersExtended with unicast and multicast counters.
    const EXTENDED: u16 = 0x0200;
    /// PortCountersExtended without unicast and multicast counters.
    const EXTENDED_WITHOUT_CASTS: u16 = 0x0400;
    /// PortXmitWait.
    const XMIT_WAIT: u16 = 0x1000;
    /// QP1Dropped.
    const QP1_DROPPED: u16 = 0x8000;

    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 72 bytes.
    pub fn decode(data: &[u8]) -> Result<ClassPortInfo, TooShort> {
        expect(data, "ClassPortInfo", 72)?;
        Ok(ClassPortInfo {
            capabilities: be16(data, 2),
            capabilities_2: field(data, 32, 27) as u32,
            redirect_lid: be16(data, 28),
        })
    }

    /// Whether PortCountersExtended can be read.
    #[must_use]
    pub const fn has_extended(&self) -> bool {
        self.capabilities & (Self::EXTENDED | Self::EXTENDED_WITHOUT_CASTS) != 0
    }

    /// Whether PortCountersExtended has unicast and multicast packets.
    #[must_use]
    pub const fn has_casts(&self) -> bool {
        self.capabilities & Self::EXTENDED != 0
    }

    /// Whether PortCounters has PortXmitWait.
    #[must_use]
    pub const fn has_transmit_wait(&self) -> bool {
        self.capabilities & Self::XMIT_WAIT != 0
    }

    /// Whether PortCounters has QP1Dropped.
    #[must_use]
    pub const fn has_qp1_dropped(&self) -> bool {
        self.capabilities & Self::QP1_DROPPED != 0
    }
}

/// The counters of a port, in the catalogue's order: index i of [`Counters`] is entry i of this list.
#[must_use]
pub fn counter_metrics() -> &'static [&'static Metric] {
    &Table::IbPortCounters.metrics()[..METRICS]
}

/// Counters of a port; a test holds it against the catalogue.
const METRICS: usize = 22;

/// One field of a counter attribute: which metric, where, how wide.
struct CounterField {
    metric: &'static Metric,
    /// Offset in bits, as the specification's tables count.
    bit: usize,
    bits: usize,
}

const fn at(metric: &'static Metric, bit: usize, bits: usize) -> CounterField {
    CounterField { metric, bit, bits }
}

/// PortCounters (16.1.3.5): error counters, which all stick at their largest value.
static ERRORS: [CounterField; 12] = [
    at(&metric::SYMBOL_ERROR, 32, 16),
    at(&metric::LINK_ERROR_RECOVERY, 48, 8),
    at(&metric::LINK_DOWNED, 56, 8),
    at(&metric::RECEIVE_ERRORS, 64, 16),
    at(&metric::RECEIVE_REMOTE_PHYSICAL_ERRORS, 80, 16),
    at(&metric::RECEIVE_SWITCH_RELAY_ERRORS, 96, 16),
    at(&metric::TRANSMIT_DISCARDS, 112, 16),
    at(&metric::TRANSMIT_CONSTRAINT_ERRORS, 128, 8),
    at(&metric::RECEIVE_CONSTRAINT_ERRORS, 136, 8),
    at(&metric::LOCAL_LINK_INTEGRITY_ERRORS, 152, 4),
    at(&metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS, 156, 4),
    at(&metric::VL15_DROPPED, 176, 16),
];
/// PortCounters: QP1Dropped, where ClassPortInfo has it.
static QP1_DROPPED: [CounterField; 1] = [at(&metric::QP1_DROPPED, 160, 16)];
/// PortCounters: PortXmitWait, where ClassPortInfo has it.
static TRANSMIT_WAIT: [CounterField; 1] = [at(&metric::TRANSMIT_WAIT, 320, 32)];
/// PortCounters: data and packets in 32 bits, used where there is no PortCountersExtended.
static CLASSIC_TRAFFIC: [CounterField; 4] = [
    at(&metric::TRANSMIT_DATA_BYTES, 192, 32),
    at(&metric::RECEIVE_DATA_BYTES, 224, 32),
    at(&metric::TRANSMIT_PACKETS, 256, 32),
    at(&metric::RECEIVE_PACKETS, 288, 32),
];
/// PortCountersExtended (16.1.4.11): data and packets in 64 bits.
static EXTENDED_TRAFFIC: [CounterField; 4] = [
    at(&metric::TRANSMIT_DATA_BYTES, 64, 64),
    at(&metric::RECEIVE_DATA_BYTES, 128, 64),
    at(&metric::TRANSMIT_PACKETS, 192, 64),
    at(&metric::RECEIVE_PACKETS, 256, 64),
];
/// PortCountersExtended: unicast and multicast packets, where ClassPortInfo has them.
static EXTENDED_CASTS: [CounterField; 4] = [
    at(&metric::UNICAST_TRANSMIT_PACKETS, 320, 64),
    at(&metric::UNICAST_RECEIVE_PACKETS, 384, 64),
    at(&metric::MULTICAST_TRANSMIT_PACKETS, 448, 64),
    at(&metric::MULTICAST_RECEIVE_PACKETS, 512, 64),
];

/// The two attributes that hold a port's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortCounterSet {
    /// PortCounters: errors and wait; data and packets only where there is no extended set.
    Classic,
    /// PortCountersExtended: data and packets in 64 bits.
    Extended,
}

/// Counters of one port as read: values in the unit of the device (4-byte words for data), by metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    raw: [u64; METRICS],
    /// Bit i: metric i was read.
    present: u32,
    /// Bit i: metric i stood at its largest value, where it sticks: its value is not known.
    saturated: u32,
}

impl Counters {
    /// Takes the values of one attribute's data over; the others stay.
    ///
    /// # Errors
    /// [`TooShort`]; nothing was taken then.
    pub fn decode(
        &mut self,
        set: PortCounterSet,
        data: &[u8],
        capabilities: &ClassPortInfo,
    ) -> Result<(), TooShort> {
        match set {
            PortCounterSet::Classic => {
                expect(data, "PortCounters", 44)?;
                self.take(&ERRORS, data);
                if capabilities.has_transmit_wait() {
                    self.take(&TRANSMIT_WAIT, data);
                }
                if capabilities.has_qp1_dropped() {
                    self.take(&QP1_DROPPED, data);
                }
                if !capabilities.has_extended() {
                    self.take(&CLASSIC_TRAFFIC, data);
                }
            }
            PortCounterSet::Extended => {
                expect(data, "PortCountersExtended", 72)?;
                self.take(&EXTENDED_TRAFFIC, data);
                if capabilities.has_casts() {
                    self.take(&EXTENDED_CASTS, data);
                }
            }
        }
        Ok(())
    }

    /// Takes over fields. All ones is a counter that stands at its end: classic ones stick there, and a 64-bit
    /// one gets there only by a defect, where its value means nothing.
    fn take(&mut self, fields: &[CounterField], data: &[u8]) {
        for entry in fields {
            let index = index_of(entry.metric);
            let value = field(data, entry.bit, entry.bits);
            self.raw[index] = value;
            self.present |= 1 << index;
            if value == u64::MAX >> (64 - entry.bits) {
                self.saturated |= 1 << index;
            }
        }
    }

    /// The value of metric `index` in the catalogue's unit: exact, so bytes of a 64-bit counter of words need
    /// up to 66 bits. `None` where it was not read or is saturated.
    #[must_use]
    pub fn exact(&self, index: usize) -> Option<u128> {
        let known = self.present & !self.saturated & (1 << index) != 0;
        known.then(|| u128::from(self.raw[index]) * u128::from(scale(index)))
    }

    /// The value of metric `index` in the catalogue's unit, modulo 2^64. `None` as in [`Counters::exact`].
    #[must_use]
    pub fn wrapped(&self, index: usize) -> Option<u64> {
        self.exact(index).map(|value| value as u64)
    }

    /// The value of metric `index` as the device counts it; `None` as in [`Counters::exact`].
    #[must_use]
    pub fn raw(&self, index: usize) -> Option<u64> {
        let known = self.present & !self.saturated & (1 << index) != 0;
        known.then(|| self.raw[index])
    }

    /// Whether metric `index` stood at its largest value.
    #[must_use]
    pub fn is_saturated(&self, index: usize) -> bool {
        self.saturated & (1 << index) != 0
    }

    /// The same with only some metrics, by bit.
    #[must_use]
    pub fn only(&self, metrics: u64) -> Counters {
        Counters { present: self.present & metrics as u32, ..*self }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Whether a counter of this reading is lower than in the reading before, so that it was cleared or the
    /// device was reset in between. Values that are known in both readings are compared; one that was
    /// saturated and is not any more was cleared as well.
    #[must_use]
    pub fn went_back_since(&self, before: &Counters) -> bool {
        let known = self.present & !self.saturated;
        if known & before.saturated != 0 {
            return true;
        }
        let both = known & before.present & !before.saturated;
        (0..METRICS).any(|index| both & (1 << index) != 0 && self.raw[index] < before.raw[index])
    }
}

/// Position of a metric in [`counter_metrics`]: numbers begin at 1 and have no gaps (a test checks it).
fn index_of(metric: &Metric) -> usize {
    (metric.id as usize - 1).min(METRICS - 1)
}

/// Data counters count 4-byte words (16.1.3.5); the catalogue has bytes.
fn scale(index: usize) -> u64 {
    let is_bytes =
        index == index_of(&metric::TRANSMIT_DATA_BYTES) || index == index_of(&metric::RECEIVE_DATA_BYTES);
    if is_bytes { 4 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::PMA_DATA_BYTES;

    #[test]
    fn the_catalogue_fits() {
        for gauge in &Table::IbPortCounters.metrics()[METRICS..] {
            assert_eq!(gauge.kind, metric::Kind::Gauge, "{}", gauge.name);
        }
        for (index, metric) in counter_metrics().iter().enumerate() {
            assert_eq!(index_of(metric), index, "{}", metric.name);
        }
    }

    #[test]
    fn words_become_bytes_exactly() {
        let mut data = [0; PMA_DATA_BYTES];
        data[8..16].copy_from_slice(&(u64::MAX - 1).to_be_bytes());
        data[16..24].copy_from_slice(&u64::MAX.to_be_bytes());
        let mut counters = Counters::default();
        let capabilities = ClassPortInfo { capabilities: 0x0200, ..ClassPortInfo::default() };
        counters.decode(PortCounterSet::Extended, &data, &capabilities).unwrap();
        assert_eq!(counters.exact(0), Some(u128::from(u64::MAX - 1) * 4));
        assert_eq!(counters.wrapped(0), Some(u64::MAX - 7));
        assert_eq!(counters.exact(1), None);
        assert!(counters.is_saturated(1));
        assert_eq!(counters.exact(4), Some(0), "unicast packets are there");
        assert_eq!(counters.exact(8), None, "PortXmitWait is in the other set");
    }

    #[test]
    fn a_saturated_counter_has_no_value() {
        let mut data = [0; PMA_DATA_BYTES];
        data[4..6].copy_from_slice(&0xFFFFu16.to_be_bytes()); // SymbolErrorCounter
        data[6] = 254; // LinkErrorRecoveryCounter
        data[19] = 0xF3; // LocalLinkIntegrityErrors 15, ExcessiveBufferOverrunErrors 3
        data[40..44].copy_from_slice(&777u32.to_be_bytes());
        let mut counters = Counters::default();
        let capabilities = ClassPortInfo { capabilities: 0x1000, ..ClassPortInfo::default() };
        counters.decode(PortCounterSet::Classic, &data, &capabilities).unwrap();
        let value = |metric: &Metric| counters.exact(index_of(metric));
        assert_eq!(value(&metric::SYMBOL_ERROR), None);
        assert!(counters.is_saturated(index_of(&metric::SYMBOL_ERROR)));
        assert_eq!(value(&metric::LINK_ERROR_RECOVERY), Some(254));
        assert_eq!(value(&metric::LOCAL_LINK_INTEGRITY_ERRORS), None);
        assert_eq!(value(&metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS), Some(3));
        assert_eq!(value(&metric::TRANSMIT_WAIT), Some(777));
        assert_eq!(value(&metric::QP1_DROPPED), None, "not supported: absent");
        assert_eq!(value(&metric::TRANSMIT_DATA_BYTES), Some(0), "no extended set: the classic one counts");
    }

    #[test]
    fn a_clear_is_seen() {
        let mut before = Counters::default();
        before.raw[0] = 10;
        before.present = 3;
        let mut after = before;
        assert!(!after.went_back_since(&before));
        after.raw[0] = 9;
        assert!(after.went_back_since(&before));
        before.saturated = 2;
        after.raw[0] = 11;
        assert!(after.went_back_since(&before), "a saturated counter that counts again was cleared");
    }
}
