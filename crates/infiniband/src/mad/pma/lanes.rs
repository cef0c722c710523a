//! Counters of a port that there are 16 of: by service level, or by virtual lane. Pure decoding.

use super::fields::PortCounterSet;
use super::{CounterUpdate, capability::ClassPortInfo};
use crate::mad::{TooShort, expect, field};
use throughline_sample::catalogue::{Metric, Table};

/// Service levels, and virtual lanes.
pub const LANES: usize = 16;
/// Metrics by lane; a test holds it against the catalogue.
const METRICS: usize = 7;

/// The counters by lane: index i of [`LaneCounters`] is entry i of this list.
#[must_use]
pub fn lane_metrics() -> &'static [&'static Metric] {
    Table::IbPortLaneCounters.metrics()
}

/// Counters of one port by lane, as last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    raw: [[u64; LANES]; METRICS],
    present: u8,
    known: u8,
    /// Bit n of entry i: metric i stood at its largest value in lane n.
    saturated: [u16; METRICS],
}

/// Metric, bits of a lane's counter, and by what its unit is multiplied. All begin at bit 32 of the data.
const fn layout(set: PortCounterSet) -> Option<(usize, usize, u64)> {
    match set {
        // 4-byte words, as PortXmitData has them.
        PortCounterSet::SlTransmitData => Some((0, 32, 4)),
        PortCounterSet::SlReceiveData => Some((1, 32, 4)),
        PortCounterSet::VlTransmitWait => Some((2, 16, 1)),
        PortCounterSet::VlFlowControlErrors => Some((3, 2, 1)),
        PortCounterSet::VlCongestion => Some((4, 16, 1)),
        PortCounterSet::VlOperationPackets => Some((5, 16, 1)),
        PortCounterSet::VlOperationData => Some((6, 32, 1)),
        _ => None,
    }
}

impl LaneCounters {
    /// Takes the values of one attribute's data over; the others stay. Bits of what was taken are positions in
    /// [`lane_metrics`].
    ///
    /// # Errors
    /// [`TooShort`]; nothing was taken then.
    pub fn decode(&mut self, set: PortCounterSet, data: &[u8]) -> Result<CounterUpdate, TooShort> {
        expect(data, set.name(), set.bytes(&ClassPortInfo::default()))?;
        let Some((index, bits, scale)) = layout(set) else { return Ok(CounterUpdate::default()) };
        let mut taken = CounterUpdate { metrics: 1 << index, went_back: false };
        let was_known = self.known & (1 << index) != 0;
        let mut saturated = 0;
        for lane in 0..LANES {
            let raw = field(data, 32 + lane * bits, bits);
            let sticks = raw == u64::MAX >> (64 - bits);
            let value = raw * scale;
            let stuck = self.saturated[index] & (1 << lane) != 0;
            if was_known && !sticks && (stuck || value < self.raw[index][lane]) {
                taken.went_back = true;
            }
            self.raw[index][lane] = value;
            saturated |= u16::from(sticks) << lane;
        }
        self.saturated[index] = saturated;
        self.present |= 1 << index;
        self.known |= 1 << index;
        Ok(taken)
    }

    /// The attribute's values do not hold any more.
    pub fn discard(&mut self, set: PortCounterSet) {
        if let Some((index, _, _)) = layout(set) {
            self.present &= !(1 << index);
        }
    }

    /// The value of metric `index` in a lane, in the catalogue's unit. `None` where it was not read or is
    /// saturated.
    #[must_use]
    pub fn value(&self, index: usize, lane: usize) -> Option<u64> {
        let is_there = index < METRICS && lane < LANES && self.present & (1 << index) != 0;
        (is_there && self.saturated[index] & (1 << lane) == 0).then(|| self.raw[index][lane])
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::PMA_DATA_BYTES;

    #[test]
    fn each_lane_has_its_own_value() {
        assert_eq!(lane_metrics().len(), METRICS);
        let mut data = [0; PMA_DATA_BYTES];
        for lane in 0..LANES {
            data[4 + lane * 4..8 + lane * 4].copy_from_slice(&(lane as u32 + 1).to_be_bytes());
        }
        let mut lanes = LaneCounters::default();
        lanes.decode(PortCounterSet::SlReceiveData, &data).unwrap();
        assert_eq!((lanes.value(1, 0), lanes.value(1, 15)), (Some(4), Some(64)), "words become bytes");
        assert_eq!(lanes.value(0, 0), None, "not read: absent");
        // 2 bits each: 0b01_11_10_00
        data[4] = 0x78;
        lanes.decode(PortCounterSet::VlFlowControlErrors, &data).unwrap();
        let values: Vec<_> = (0..4).map(|lane| lanes.value(3, lane)).collect();
        assert_eq!(values, [Some(1), None, Some(2), Some(0)], "3 is saturated");
        data[4] = 0x38;
        assert!(lanes.decode(PortCounterSet::VlFlowControlErrors, &data).unwrap().went_back);
        assert!(lanes.decode(PortCounterSet::VlCongestion, &data[..35]).is_err());
    }

    #[test]
    fn every_set_by_lane_has_a_metric_of_its_own() {
        let mut seen: Vec<usize> =
            PortCounterSet::ALL.iter().filter_map(|set| layout(*set)).map(|(index, _, _)| index).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..METRICS).collect::<Vec<_>>());
        for set in PortCounterSet::ALL {
            assert_eq!(set.is_by_lane(), layout(set).is_some(), "{set:?}");
        }
    }
}
