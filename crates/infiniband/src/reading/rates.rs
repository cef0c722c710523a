//! Differences of two readings of a port as rates. Pure: what is saturated, absent or of another epoch has no
//! rate, and nothing is guessed.

use super::PortReading;
use crate::mad::counter_index;
use std::collections::{HashMap, VecDeque};
use throughline_sample::Guid;
use throughline_sample::catalogue::{self as metric, Metric};
use throughline_sample::row_rules::is_rate;

/// What became of a counter between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It grew by so much, in the catalogue's unit (bytes, not words).
    Grew(u128),
    /// It stands at its largest value now: at least one more happened than it can report.
    Saturated,
    /// It was not read in one of the two.
    Absent,
    /// It was cleared, or its device was reset, in between.
    Cleared,
}

impl Change {
    /// By how much it grew, where that is known.
    #[must_use]
    pub fn grew(self) -> Option<u128> {
        match self {
            Change::Grew(increase) => Some(increase),
            _ => None,
        }
    }
}

/// What became of metric `index` (see [`counter_metrics`](crate::mad::counter_metrics)).
#[must_use]
pub fn change(before: &PortReading, after: &PortReading, index: usize) -> Change {
    let bit = 1_u64.checked_shl(index as u32).unwrap_or_default();
    // A value of an earlier sweep has another time than the reading says.
    if before.fresh & after.fresh & bit == 0 {
        return Change::Absent;
    }
    if after.counters.is_saturated(index) {
        return Change::Saturated;
    }
    if before.epoch != after.epoch || before.counters.is_saturated(index) {
        return Change::Cleared;
    }
    match (before.counters.exact(index), after.counters.exact(index)) {
        (Some(before), Some(after)) => after.checked_sub(before).map_or(Change::Cleared, Change::Grew),
        _ => Change::Absent,
    }
}

/// Seconds from one reading to the next; `None` where they have no order, or are nearer than a rate needs ([`is_rate`]).
#[must_use]
pub fn seconds(before: &PortReading, after: &PortReading) -> Option<f64> {
    let nanoseconds = after.time.checked_sub(before.time)?;
    let is_far = is_rate((before.time, before.took), (after.time, after.took));
    (before.time > 0 && nanoseconds > 0 && is_far).then(|| nanoseconds as f64 / 1e9)
}

/// Sweeps that are kept at most to take rates from: ten times as many ports' readings.
const SWEEPS_MAX: usize = 10;

/// The last sweeps of one topology, as many as are needed: rates are taken from the newest readings that are far enough from the present ones.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<Vec<PortReading>>);

impl Recent {
    /// Of each port of the present sweep the reading before; the oldest where none is far enough.
    #[must_use]
    pub fn before(&mut self, after: &[PortReading]) -> Vec<PortReading> {
        let mut oldest = self.0.len().saturating_sub(1);
        let mut all = Vec::with_capacity(after.len());
        for (place, after) in after.iter().enumerate() {
            let of = |sweep: usize| self.0.get(sweep).and_then(|sweep| sweep.get(place));
            let is_far = |sweep: &usize| of(*sweep).is_some_and(|before| seconds(before, after).is_some());
            let sweep = (0..self.0.len()).rev().find(is_far).unwrap_or(0);
            if after.fresh != 0 {
                oldest = oldest.min(sweep);
            }
            all.extend(of(sweep));
        }
        self.0.drain(..oldest);
        all
    }

    /// Takes a sweep.
    pub fn add(&mut self, sweep: &[PortReading]) {
        if self.0.len() == SWEEPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(sweep.to_vec());
    }
}

/// Increase per second of a metric, in the catalogue's unit.
#[must_use]
pub fn per_second(before: &PortReading, after: &PortReading, metric: &Metric) -> Option<f64> {
    let increase = change(before, after, counter_index(metric)?).grew()?;
    Some(increase as f64 / seconds(before, after)?)
}

/// The rates that are requested most. Absent is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortRates {
    /// Time between the two readings.
    pub seconds: f64,
    /// Data sent.
    pub transmit_bytes_per_second: Option<f64>,
    /// Data received.
    pub receive_bytes_per_second: Option<f64>,
    /// Packets sent.
    pub transmit_packets_per_second: Option<f64>,
    /// Packets received.
    pub receive_packets_per_second: Option<f64>,
    /// Share of the link's own speed, 0 to 1.
    pub transmit_utilisation: Option<f64>,
    /// Share of the link's own speed, 0 to 1.
    pub receive_utilisation: Option<f64>,
    /// Ticks of congestion; their length differs by device.
    pub wait_ticks_per_second: Option<f64>,
    /// Share of the time in which data could not be sent, 0 to 1, where the device reports its tick.
    pub wait_ratio: Option<f64>,
    /// Symbols mended by Reed-Solomon error correction for each bit that the link carried: about the error
    /// rate before correction, as long as errors are single.
    pub raw_bit_error_ratio: Option<f64>,
}

/// The rates between two readings of one port; `None` where they have no order in time.
#[must_use]
pub fn rates(before: &PortReading, after: &PortReading) -> Option<PortRates> {
    let seconds = seconds(before, after)?;
    let of = |metric: &Metric| per_second(before, after, metric);
    let speed = after.rate_bytes_per_second.filter(|speed| *speed > 0).map(|speed| speed as f64);
    let share = |rate: Option<f64>| Some(rate? / speed?);
    let transmit = of(&metric::TRANSMIT_DATA_BYTES);
    let receive = of(&metric::RECEIVE_DATA_BYTES);
    let wait = of(&metric::TRANSMIT_WAIT);
    let tick_bytes = after.tick_bytes.map(|bytes| bytes as f64);
    Some(PortRates {
        seconds,
        transmit_bytes_per_second: transmit,
        receive_bytes_per_second: receive,
        transmit_packets_per_second: of(&metric::TRANSMIT_PACKETS),
        receive_packets_per_second: of(&metric::RECEIVE_PACKETS),
        transmit_utilisation: share(transmit),
        receive_utilisation: share(receive),
        wait_ticks_per_second: wait,
        // A tick is the time in which the link carries so many bytes. Clocks of two readings differ a little.
        wait_ratio: share(tick_bytes.zip(wait).map(|(bytes, ticks)| ticks * bytes))
            .map(|share| share.min(1.0)),
        raw_bit_error_ratio: share(of(&metric::FEC_CORRECTED_SYMBOLS)).map(|per_byte| per_byte / 8.0),
    })
}

/// Pairs the readings of the same ports in two sweeps. Where both are of one topology they are in the same
/// places, and nothing is looked up.
pub fn pairs<'a>(
    before: &'a [PortReading],
    after: &'a [PortReading],
) -> impl Iterator<Item = (&'a PortReading, &'a PortReading)> {
    let key = |reading: &PortReading| -> (Guid, u8) { (reading.guid, reading.port) };
    let is_same = before.len() == after.len() && before.iter().zip(after).all(|(a, b)| key(a) == key(b));
    let by_key: HashMap<(Guid, u8), &PortReading> =
        before.iter().filter(|_| !is_same).map(|reading| (key(reading), reading)).collect();
    after.iter().enumerate().filter_map(move |(place, after)| {
        let before = if is_same { before.get(place) } else { by_key.get(&key(after)).copied() };
        Some((before?, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{ClassPortInfo, Counters, NodeKind, PMA_DATA_BYTES, PortCounterSet};
    use std::time::Duration;

    fn reading(time: i64, words: u64, wait: u32, symbol: u16) -> PortReading {
        let info = ClassPortInfo { capabilities: 0x1200, ..ClassPortInfo::default() };
        let mut counters = Counters::default();
        let mut data = [0; PMA_DATA_BYTES];
        data[8..16].copy_from_slice(&words.to_be_bytes());
        let extended = counters.decode(PortCounterSet::Extended, &data, &info).unwrap();
        let mut data = [0; PMA_DATA_BYTES];
        data[4..6].copy_from_slice(&symbol.to_be_bytes());
        data[40..44].copy_from_slice(&wait.to_be_bytes());
        let classic = counters.decode(PortCounterSet::Classic, &data, &info).unwrap();
        PortReading {
            rate_bytes_per_second: Some(1_000_000_000),
            link_lanes: Some(4),
            tick_bytes: Some(8),
            time,
            epoch: 1,
            counters,
            fresh: extended.metrics | classic.metrics,
            was_requested: true,
            ..PortReading::new(0, Guid(7), NodeKind::Switch, 1, 3)
        }
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let before = reading(1_000_000_000, 1000, 100, 1);
        let after = reading(3_000_000_000, 1000 + 250_000_000, 100 + 62_500_000, 1);
        let rates = rates(&before, &after).unwrap();
        assert_eq!(rates.transmit_bytes_per_second, Some(500_000_000.0));
        assert_eq!(rates.transmit_utilisation, Some(0.5));
        assert_eq!(rates.receive_utilisation, Some(0.0));
        assert_eq!(rates.wait_ratio, Some(0.25), "31.25 million ticks of 8 bytes a second on 1 GB/s");
        assert_eq!(rates.raw_bit_error_ratio, None, "not read");
        assert_eq!(super::rates(&after, &before), None);
    }

    #[test]
    fn rates_are_taken_from_readings_that_are_far_enough() {
        let at = |seconds: i64, milliseconds| PortReading {
            took: Duration::from_millis(milliseconds),
            ..reading(seconds * 1_000_000_000, seconds.unsigned_abs() * 1000, 0, 0)
        };
        let mut recent = Recent::default();
        let mut of = |second, milliseconds| {
            let after = [at(second, milliseconds)];
            let before = recent.before(&after);
            recent.add(&after);
            before.first().and_then(|before| rates(before, &after[0])).map(|rates| rates.seconds)
        };
        assert_eq!([1, 2, 3].map(|second| of(second, 20)), [None, None, Some(2.0)]);
        assert_eq!(of(4, 1), Some(2.0), "the newest took 20 ms");
        assert_eq!([of(5, 1), of(6, 500), of(7, 1)], [Some(1.0), None, Some(2.0)]);
        assert_eq!(
            [of(70, 500), of(71, 1)],
            [Some(63.0), Some(64.0)],
            "not from what is a heartbeat old but for the oldest"
        );
    }

    #[test]
    fn what_cannot_be_determined_is_reported() {
        let index = counter_index(&metric::SYMBOL_ERROR).unwrap();
        let before = reading(1, 0, 0, 5);
        assert_eq!(change(&before, &reading(2, 0, 0, 9), index), Change::Grew(4));
        assert_eq!(change(&before, &reading(2, 0, 0, 0xFFFF), index), Change::Saturated);
        assert_eq!(change(&reading(1, 0, 0, 0xFFFF), &reading(2, 0, 0, 9), index), Change::Cleared);
        let mut after = reading(2, 0, 0, 9);
        after.epoch = 2;
        assert_eq!(change(&before, &after, index), Change::Cleared);
        after.fresh = 0;
        assert_eq!(change(&before, &after, index), Change::Absent);
        let details = counter_index(&metric::LOOPING_ERRORS).unwrap();
        assert_eq!(change(&before, &reading(2, 0, 0, 9), details), Change::Absent);
        assert_eq!(change(&before, &before, 64), Change::Absent);
    }

    #[test]
    fn ports_are_paired_by_name() {
        let mut other = reading(1, 0, 0, 0);
        other.port = 2;
        let before = [reading(1, 0, 0, 0), other];
        assert_eq!(pairs(&before, &before).count(), 2);
        assert_eq!(pairs(&before, &[other]).map(|(before, _)| before.port).collect::<Vec<_>>(), [2]);
        assert_eq!(pairs(&[other], &before).count(), 1);
    }
}
