//! The counters of one port, as they were last read. Knows no clock, no epoch and no node.

use super::capability::ClassPortInfo;
use super::counter_index::{METRICS, counter_metrics};
use super::fields::{self, CounterField, FieldData, LANE_FEC, PortCounterSet, RS_FEC};
use crate::mad::{PMA_DATA_BYTES, TooShort, expect, field};

/// Data counters count 4-byte words (16.1.3.5); the catalogue has bytes. They are the first two metrics.
const fn scale(index: usize) -> u64 {
    if index < 2 { 4 } else { 1 }
}

impl PortCounterSet {
    /// The metrics that this attribute has on a device, by bit.
    #[must_use]
    pub fn metrics(self, capabilities: &ClassPortInfo) -> u64 {
        let mut metrics = 0;
        fields::fields(self, capabilities, |table| {
            metrics |= table.iter().fold(0, |bits, entry| bits | 1 << entry.index);
        });
        if self == PortCounterSet::ExtendedSpeeds {
            metrics |= LANE_FEC.iter().fold(0, |bits, (index, _)| bits | 1 << index);
        }
        metrics
    }
}

/// Counters of one port as read: values in the unit of the device (4-byte words for data), by metric. A value
/// stays until it is read again or [forgotten](Counters::discard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    raw: [u64; METRICS],
    /// Bit i: metric i was read, and holds.
    present: u64,
    /// Bit i: metric i stood at its largest value, where it sticks: its value is not known.
    saturated: u64,
    /// Bit i: metric i was read some time: what the next reading is held against.
    known: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { raw: [0; METRICS], present: 0, saturated: 0, known: 0 }
    }
}

/// What a reply brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterUpdate {
    /// Bit i: metric i was in it.
    pub metrics: u64,
    /// One of them is lower than before, or not saturated any more: it was cleared, or the device was reset.
    pub went_back: bool,
}

/// Counters of one table as bits, while they are taken.
#[derive(Default)]
struct CounterBits {
    metrics: u64,
    /// At their largest value.
    sticking: u64,
    /// Lower than before.
    lower: u64,
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
    ) -> Result<CounterUpdate, TooShort> {
        expect(data, set.name(), set.bytes(capabilities))?;
        let mut padded = [0; PMA_DATA_BYTES];
        let whole: &FieldData = match data.first_chunk() {
            Some(whole) => whole,
            // Shorter than a MAD has it, and long enough for the attribute.
            None => {
                padded[..data.len()].copy_from_slice(data);
                &padded
            }
        };
        let mut taken = CounterUpdate::default();
        let is_rs = set == PortCounterSet::ExtendedSpeeds
            && capabilities.has_rs_fec()
            && RS_FEC.iter().any(|entry| entry.value(whole) != 0);
        fields::fields(set, capabilities, |table| {
            // The totals of Reed-Solomon are 0 as well where another kind is at work: then lanes report.
            if is_rs || !std::ptr::eq(table, RS_FEC.as_slice()) {
                self.take_fields(table, whole, &mut taken);
            }
        });
        if set == PortCounterSet::ExtendedSpeeds && !is_rs {
            for (index, first_bit) in LANE_FEC {
                let lanes = (0..12).map(|lane| field(data, first_bit + lane * 32, 32));
                let sticks = lanes.clone().any(|value| value == u64::from(u32::MAX));
                let mut seen = CounterBits::default();
                self.see(index, lanes.sum(), sticks, &mut seen);
                self.note(&seen, &mut taken);
            }
        }
        Ok(taken)
    }

    /// All ones is a counter that stands at its end: classic ones stick there, and a 64-bit one gets there only
    /// by a defect, where its value means nothing.
    #[inline]
    fn take_fields(&mut self, table: &[CounterField], data: &FieldData, taken: &mut CounterUpdate) {
        let mut seen = CounterBits::default();
        for entry in table {
            let value = entry.value(data);
            self.see(entry.index, value, value == entry.largest(), &mut seen);
        }
        self.note(&seen, taken);
    }

    #[inline]
    fn see(&mut self, index: usize, value: u64, sticks: bool, seen: &mut CounterBits) {
        let former = std::mem::replace(&mut self.raw[index], value);
        seen.metrics |= 1 << index;
        seen.sticking |= u64::from(sticks) << index;
        seen.lower |= u64::from(value < former) << index;
    }

    /// Whole words of bits at once: that spares a sweep some branches for each counter.
    #[inline]
    fn note(&mut self, seen: &CounterBits, taken: &mut CounterUpdate) {
        let back = self.known & seen.metrics & !seen.sticking & (self.saturated | seen.lower);
        taken.went_back |= back != 0;
        taken.metrics |= seen.metrics;
        self.present |= seen.metrics;
        self.known |= seen.metrics;
        self.saturated = self.saturated & !seen.metrics | seen.sticking;
    }

    /// The values of an attribute do not hold any more: it could not be read. The next reading is held against
    /// them all the same.
    pub fn discard(&mut self, set: PortCounterSet, capabilities: &ClassPortInfo) {
        self.present &= !set.metrics(capabilities);
    }

    /// No value holds any more, and the next reading is still held against all.
    pub fn discard_all(&mut self) {
        self.present = 0;
    }

    /// The same with only some metrics, by bit.
    #[must_use]
    pub fn only(&self, metrics: u64) -> Counters {
        Counters { present: self.present & metrics, ..*self }
    }

    /// Which metrics were read, by bit; saturated ones are among them.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// The value of metric `index` in the catalogue's unit: exact, so bytes of a 64-bit counter of words need
    /// up to 66 bits. `None` where it was not read or is saturated.
    #[must_use]
    pub fn exact(&self, index: usize) -> Option<u128> {
        self.raw(index).map(|raw| u128::from(raw) * u128::from(scale(index)))
    }

    /// The value of metric `index` in the catalogue's unit, modulo 2^64. `None` as in [`Counters::exact`].
    #[must_use]
    pub fn wrapped(&self, index: usize) -> Option<u64> {
        self.raw(index).map(|raw| raw.wrapping_mul(scale(index)))
    }

    /// The value of metric `index` as the device counts it; `None` as in [`Counters::exact`].
    #[must_use]
    pub fn raw(&self, index: usize) -> Option<u64> {
        let known = index < METRICS && self.present & !self.saturated & (1 << index) != 0;
        known.then(|| self.raw[index])
    }

    /// Whether metric `index` stood at its largest value.
    #[must_use]
    pub fn is_saturated(&self, index: usize) -> bool {
        index < METRICS && self.present & self.saturated & (1 << index) != 0
    }

    /// Whether metric `index` stood at an end that devices have: a 64-bit counter of errors gets to its own end only by
    /// a defect, and is as good as not read there.
    #[must_use]
    pub fn is_at_end(&self, index: usize) -> bool {
        let end = || counter_metrics().get(index).and_then(|metric| metric.end());
        self.is_saturated(index) && end().is_none_or(|end| end == self.raw[index])
    }

    /// The largest value of metric `index`, at which it stands.
    #[must_use]
    pub fn end(&self, index: usize) -> Option<u64> {
        self.is_at_end(index).then(|| counter_metrics()[index].end()).flatten()
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Everything as numbers, for a file: known, saturated, and the values of the known ones in order.
    pub fn parts(&self) -> (u64, u64, impl Iterator<Item = u64> + '_) {
        let values = (0..METRICS).filter(|index| self.known & (1 << index) != 0).map(|index| self.raw[index]);
        (self.known, self.saturated & self.known, values)
    }

    /// The reverse of [`Counters::parts`]: nothing is present, the next reading is held against it. `None`
    /// where the numbers do not fit.
    pub fn from_parts(
        known: u64,
        saturated: u64,
        mut value: impl FnMut() -> Option<u64>,
    ) -> Option<Counters> {
        if (known | saturated) >> METRICS != 0 {
            return None;
        }
        let mut counters = Counters { known, saturated, ..Counters::default() };
        for index in (0..METRICS).filter(|index| known & (1 << index) != 0) {
            counters.raw[index] = value()?;
        }
        Some(counters)
    }
}

#[cfg(test)]
mod tests;
