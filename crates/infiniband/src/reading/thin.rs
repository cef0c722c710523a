//! Which readings become rows. A port that did not change needs none, and still nothing is lost: a heartbeat
//! row a minute says that it was read, and when it changes the last unchanged reading is written before the
//! changed one, so that a burst is not smeared over the gap. Pure: no clock, no records.
//!
//! Reading a port's counters moves its data counters a little, so that on a port that is read over its own link
//! they never stand still. Up to a bound, data and packets therefore count as unchanged: they are cumulative, so
//! what is left out is in the next row. Every other counter counts as changed when it moves by one.
//!
//! Rates are taken between rows. Where a reply took long, its counters are of any moment of that time, and rates over a
//! second would be wrong by as much: such a reading is held back until it is far enough from the row before
//! ([`is_rate`]), and a later one has all of it.

use super::{FRESH_LANES, PortReading};
use crate::mad::{Counters, counter_index};
use std::collections::HashMap;
use std::time::Duration;
use throughline_sample::Guid;
use throughline_sample::catalogue as metric;
pub use throughline_sample::row_rules::HEARTBEAT;
use throughline_sample::row_rules::is_rate;

/// Data of either direction since the last row that count as unchanged, unless configured: about what the
/// crawler's own requests move on a host's link in a minute at 4 sweeps a second.
pub const DEFAULT_QUIET_BYTES: u64 = 1 << 16;
/// The first metrics are data and packets.
const TRAFFIC: u64 = 0xFF;
/// Times are stored in microseconds, and are part of a row's key.
const MICROSECOND: i64 = 1000;

/// One row to write.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The port, as of now.
    pub port: &'a PortReading,
    /// UTC nanoseconds.
    pub time: i64,
    /// Since when it counts.
    pub epoch: i64,
    /// What was read at that time.
    pub counters: Counters,
    /// Whether this is the last unchanged reading before a change.
    pub is_before: bool,
}

/// A port over rows.
#[derive(Clone, Copy)]
struct State {
    key: (Guid, u8),
    /// Time of the last row; 0 before the first.
    written: i64,
    written_took: Duration,
    /// Data as of the last row, in words.
    written_data: [Option<u64>; 2],
    /// The last reading, time and what was in it.
    last: Counters,
    last_time: i64,
    last_took: Duration,
    last_fresh: u64,
    epoch: i64,
    speed: Option<u64>,
    left_out: LeftOut,
    has_failed: bool,
}

/// Whether the last reading was left out, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    No,
    /// It changed nothing.
    Unchanged,
    /// It is too near to the last row.
    Near,
}

/// Why there is a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowReason {
    /// There is none.
    None,
    /// To say that the port was read.
    Presence,
    /// Something changed.
    Change,
}

/// Leaves out what did not change.
pub struct Thinner {
    states: Vec<State>,
    quiet_bytes: u64,
    heartbeat: i64,
    is_on: bool,
}

impl Thinner {
    /// With `is_on` false every reading becomes a row.
    #[must_use]
    pub fn new(is_on: bool, quiet_bytes: u64) -> Thinner {
        let heartbeat = i64::try_from(HEARTBEAT.as_nanos()).unwrap_or(i64::MAX);
        Thinner { states: Vec::new(), quiet_bytes, heartbeat, is_on }
    }

    /// The rows of a sweep with the positions of their readings, in order; how many readings were left out.
    pub fn rows<'a>(&mut self, readings: &'a [PortReading], mut each: impl FnMut(usize, Row<'a>)) -> usize {
        self.fit(readings);
        let mut left_out = 0;
        for (position, (port, state)) in readings.iter().zip(&mut self.states).enumerate() {
            if !port.was_requested {
                continue;
            }
            let is_read = port.fresh != 0;
            let is_new_epoch = is_read && port.epoch != state.epoch;
            let need = match (is_read, self.is_on) {
                (false, _) => RowReason::None,
                (true, false) => RowReason::Presence,
                (true, true) => state.need(port, self.quiet_bytes, self.heartbeat),
            };
            // Nothing read: what was left out last is the last that is known before the gap. What is held back waits for a row that is
            // far enough, unless counting begins anew or the port seems to be gone.
            let is_last = match state.left_out {
                LeftOut::No => false,
                LeftOut::Unchanged => need == RowReason::Change || !is_read,
                LeftOut::Near => is_new_epoch || !is_read && state.has_failed,
            };
            if is_last {
                let (time, epoch, counters) = (state.last_time, state.epoch, state.last);
                each(position, Row { port, time, epoch, counters, is_before: true });
                state.has_written(time, state.last_took, &counters);
            }
            state.has_failed = !is_read;
            if !is_read {
                continue;
            }
            let counters = port.fresh_counters();
            let row = |time, counters| Row { port, time, epoch: port.epoch, counters, is_before: false };
            if need == RowReason::None {
                left_out += 1;
                state.left_out = LeftOut::Unchanged;
            } else if is_new_epoch || state.is_far(port) {
                each(position, row(port.time, counters));
                state.has_written(port.time, port.took, &counters);
            } else {
                left_out += 1;
                state.left_out = LeftOut::Near;
                // What is read more rarely is not in the next one. It was read after the data, whose time the reading has.
                let rare = port.fresh & !state.last_fresh & !TRAFFIC & !FRESH_LANES;
                if rare != 0 {
                    each(position, row(port.time + MICROSECOND, port.counters.only(rare)));
                }
            }
            state.last = counters;
            state.last_time = port.time;
            state.last_took = port.took;
            state.last_fresh = port.fresh;
            state.epoch = port.epoch;
            state.speed = port.rate_bytes_per_second;
        }
        left_out
    }

    /// Makes states stand beside their readings. A port that is gone is forgotten: its next row is its first.
    fn fit(&mut self, readings: &[PortReading]) {
        let key = |port: &PortReading| (port.guid, port.port);
        let fits = self.states.len() == readings.len()
            && self.states.iter().zip(readings).all(|(state, port)| state.key == key(port));
        if fits {
            return;
        }
        let former: HashMap<(Guid, u8), State> =
            self.states.drain(..).map(|state| (state.key, state)).collect();
        self.states = readings
            .iter()
            .map(|port| former.get(&key(port)).copied().unwrap_or_else(|| State::new(key(port))))
            .collect();
    }
}

impl State {
    fn new(key: (Guid, u8)) -> State {
        State {
            key,
            written: 0,
            written_took: Duration::ZERO,
            written_data: [None; 2],
            last: Counters::default(),
            last_time: 0,
            last_took: Duration::ZERO,
            last_fresh: 0,
            epoch: 0,
            speed: None,
            left_out: LeftOut::No,
            has_failed: false,
        }
    }

    fn has_written(&mut self, time: i64, took: Duration, counters: &Counters) {
        (self.written, self.written_took) = (time, took);
        self.written_data = [counters.raw(0), counters.raw(1)];
        self.left_out = LeftOut::No;
    }

    /// Whether a rate may be taken between the last row and a reading.
    fn is_far(&self, port: &PortReading) -> bool {
        self.written == 0 || is_rate((self.written, self.written_took), (port.time, port.took))
    }

    /// Why a reading with something in it becomes a row.
    fn need(&self, port: &PortReading, quiet_bytes: u64, heartbeat: i64) -> RowReason {
        if self.written == 0
            || self.has_failed
            || self.left_out == LeftOut::Near
            || port.epoch != self.epoch
            || port.rate_bytes_per_second != self.speed
            || self.has_moved(port, quiet_bytes)
        {
            return RowReason::Change;
        }
        // A set that the reading before did not have: those that are read more rarely are always written.
        if port.failure.is_some() || port.fresh & !self.last_fresh != 0 {
            return RowReason::Presence;
        }
        // Minutes begin at another time for each port, so that heartbeats do not come all at once.
        let phase = (self.key.0.0 ^ u64::from(self.key.1) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let minute = |time: i64| time.wrapping_add((phase >> 24) as i64 % heartbeat).div_euclid(heartbeat);
        let is_due = minute(port.time) != minute(self.written) || port.time - self.written >= heartbeat;
        if is_due { RowReason::Presence } else { RowReason::None }
    }

    fn has_moved(&self, port: &PortReading, quiet_bytes: u64) -> bool {
        let now = &port.counters;
        let moved = |index: usize| {
            now.raw(index) != self.last.raw(index) || now.is_saturated(index) != self.last.is_saturated(index)
        };
        // A metric that the reading before did not have has nothing to be held against.
        let mut others = port.fresh & self.last_fresh & !TRAFFIC & !FRESH_LANES;
        while others != 0 {
            if moved(others.trailing_zeros() as usize) {
                return true;
            }
            others &= others - 1;
        }
        if quiet_bytes == 0 {
            return (0..8).any(moved);
        }
        let data = [&metric::TRANSMIT_DATA_BYTES, &metric::RECEIVE_DATA_BYTES];
        data.iter().zip(self.written_data).any(|(metric, written)| {
            let index = counter_index(metric).unwrap_or_default();
            let words = now.raw(index).zip(written).map(|(now, written)| now.saturating_sub(written));
            words.map_or(moved(index), |words| words.saturating_mul(4) > quiet_bytes)
        })
    }
}

#[cfg(test)]
mod tests;
