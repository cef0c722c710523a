//! The epoch of a group of counters, and which of their values are believed. Pure.
//!
//! A counter that fell has begun anew. One that rose by more than its link can carry has not counted that: the value is absent, and the
//! counter goes on as before, or from there on where it stays there. Nothing that was not believed is ever part of what is sent.

use std::collections::{BTreeMap, HashMap};

/// No link and no slot of a GPU carries as much in one direction, bytes per second: the bound where its own speed is not known.
pub(super) const FASTEST: u64 = 1_000_000_000_000;
/// A counter is believed up to so many times its speed: drivers take readings of a call one after the other.
const DISBELIEVED_FROM: u64 = 2;
/// How much later or earlier than its call a driver may have read a counter, nanoseconds.
const READING_NANOSECONDS: u64 = 100_000_000;
/// The reason under which a value that cannot be right is counted.
pub(super) const IMPLAUSIBLE: &str = "implausible";

/// A link and the number of its metric, or what a group has in their place.
pub(super) type Key = (u32, u32);

/// A counter as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// In the unit that it is read in.
    pub value: u64,
    /// Most of that unit that its link carries in a second.
    pub per_second: u64,
}

impl Reading {
    /// Of a link of this speed; `unit` is how many bytes one of the counter's is.
    pub fn new(value: u64, speed_bytes_per_second: Option<u64>, unit: u64) -> Self {
        let speed = speed_bytes_per_second.filter(|speed| *speed > 0).unwrap_or(FASTEST);
        Self { value, per_second: speed.div_ceil(unit.max(1)) }
    }

    /// The most that it can have counted in a time.
    fn most_within(self, nanoseconds: i64) -> u64 {
        let nanoseconds = u128::from(nanoseconds.unsigned_abs() + READING_NANOSECONDS);
        let most = u128::from(DISBELIEVED_FROM * self.per_second) * nanoseconds / 1_000_000_000;
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

/// A value and when it was read.
#[derive(Clone, Copy, Debug)]
struct Past {
    at: i64,
    value: u64,
}

/// A counter that is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The last value that was believed.
    last: Past,
    /// What is taken off: a counter that was found at a height that it cannot have counted begins at 0 there.
    base: u64,
    /// A value that was not believed, in the reading before.
    doubted: Option<Past>,
}

/// What a reading of a group came to.
#[derive(Debug, Default)]
pub(super) struct Advance {
    /// What the counters say, or [`IMPLAUSIBLE`].
    pub values: BTreeMap<Key, Result<u64, &'static str>>,
    /// They have begun anew.
    pub began: bool,
    /// The first value that is not believed, where those of the reading before were.
    pub doubts: Option<(Key, Doubt)>,
}

/// Why a value is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// How much it rose, in its unit; `None` of a value that is no count.
    pub rise: Option<u64>,
    /// Within so many nanoseconds.
    pub nanoseconds: i64,
}

/// The epoch of a group of counters and their last values.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub epoch: Option<i64>,
    known: HashMap<Key, Known>,
    is_doubting: bool,
}

/// What one counter came to.
enum Step {
    Goes(u64),
    /// It has begun anew; whether the doubt before has reported that.
    Begins(u64, bool),
    Doubted(Doubt),
}

impl Counting {
    /// Takes the counters in that were read at `monotonic`; `time` is the same by the clock of records.
    pub fn advance(
        &mut self,
        time: i64,
        monotonic: i64,
        readings: impl Iterator<Item = (Key, Reading)>,
    ) -> Advance {
        let mut advance = Advance::default();
        let (mut begins, mut first) = (false, None);
        for (key, reading) in readings {
            let value = match self.step(key, reading, monotonic) {
                Step::Goes(value) => Ok(value),
                Step::Begins(value, is_reported) => {
                    begins = true;
                    advance.began |= !is_reported;
                    Ok(value)
                }
                Step::Doubted(doubt) => {
                    first.get_or_insert((key, doubt));
                    Err(IMPLAUSIBLE)
                }
            };
            advance.values.insert(key, value);
        }
        let was_doubting = std::mem::replace(&mut self.is_doubting, first.is_some());
        advance.doubts = first.filter(|_| !was_doubting);
        if begins || self.epoch.is_none() {
            self.epoch = Some(time);
        }
        advance
    }

    fn step(&mut self, key: Key, reading: Reading, at: i64) -> Step {
        let Reading { value, .. } = reading;
        let now = Past { at, value };
        let Some(known) = self.known.get_mut(&key) else {
            // All bits set is what a bus that nothing answers on reads.
            if value == u64::MAX {
                return Step::Doubted(Doubt { rise: None, nanoseconds: 0 });
            }
            self.known.insert(key, Known { last: now, base: 0, doubted: None });
            return Step::Goes(value);
        };
        let elapsed = at - known.last.at;
        if value == u64::MAX {
            return Step::Doubted(Doubt { rise: None, nanoseconds: elapsed });
        }
        let most = reading.most_within(elapsed);
        let Some(rise) = value.checked_sub(known.last.value) else {
            // What it counted since it began is as read. A greater value is no count from 0.
            let base = if value <= most { 0 } else { value };
            *known = Known { last: now, base, doubted: None };
            return Step::Begins(value - base, false);
        };
        if rise <= most {
            (known.last, known.doubted) = (now, None);
            return Step::Goes(value - known.base);
        }
        let doubted = known.doubted.replace(now);
        let goes_on = doubted.filter(|doubted| {
            value >= doubted.value && value - doubted.value <= reading.most_within(at - doubted.at)
        });
        let Some(doubted) = goes_on else {
            return Step::Doubted(Doubt { rise: Some(rise), nanoseconds: elapsed });
        };
        *known = Known { last: now, base: doubted.value, doubted: None };
        Step::Begins(value - doubted.value, true)
    }

    /// Evicts all that it has.
    pub fn restart(&mut self) {
        *self = Self { is_doubting: self.is_doubting, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    /// Of the link, bytes per second.
    const SPEED: u64 = 1000;

    /// Readings of one counter, a second apart: what each came to, and the epochs and events.
    fn read(values: &[u64]) -> Vec<(Option<u64>, i64, bool, bool)> {
        let mut counting = Counting::default();
        let one = |(at, value): (i64, &u64)| {
            let reading = Reading::new(*value, Some(SPEED), 1);
            let advance = counting.advance(at, at * SECOND, std::iter::once(((0, 0), reading)));
            let value = advance.values[&(0, 0)].ok();
            (value, counting.epoch.unwrap(), advance.began, advance.doubts.is_some())
        };
        (1..).zip(values).map(one).collect()
    }

    #[test]
    fn a_value_beyond_twice_the_speed_is_absent_once_and_the_counter_goes_on_as_before() {
        let read = read(&[5000, 6000, 6000 + 2201, 8000, 9000]);
        let expected = [
            (Some(5000), 1, false, false),
            (Some(6000), 1, false, false),
            (None, 1, false, true),
            (Some(8000), 1, false, false),
            (Some(9000), 1, false, false),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_rise_up_to_the_bound_is_believed() {
        assert_eq!(read(&[0, 2200])[1], (Some(2200), 1, false, false));
    }

    #[test]
    fn a_counter_that_stays_where_it_jumped_to_begins_an_epoch_at_zero_without_a_second_event() {
        let high = 4_400_000_000_000;
        let read = read(&[5000, high, high + 1000, high + 2000, 7, 9]);
        let expected = [
            (Some(5000), 1, false, false),
            (None, 1, false, true),
            (Some(1000), 3, false, false),
            (Some(2000), 3, false, false),
            // A reset is as read.
            (Some(7), 5, true, false),
            (Some(9), 5, false, false),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn all_bits_set_is_no_count_however_long_it_lasts() {
        let read = read(&[u64::MAX, 5000, u64::MAX, u64::MAX, 8000, u64::MAX]);
        let values: Vec<_> = read.iter().map(|(value, ..)| *value).collect();
        assert_eq!(values, [None, Some(5000), None, None, Some(8000), None]);
        let events: Vec<_> = read.iter().map(|(.., doubts)| *doubts).collect();
        assert_eq!(events, [true, false, true, false, false, true], "one for each time that it begins");
    }

    #[test]
    fn a_fall_to_what_it_cannot_have_counted_begins_at_zero() {
        assert_eq!(
            read(&[1 << 40, 1 << 39, (1 << 39) + 500])[1..],
            [(Some(0), 2, true, false), (Some(500), 2, false, false)]
        );
    }

    #[test]
    fn values_that_never_agree_are_never_believed() {
        let wild = [0, 1 << 50, 1 << 40, 1 << 60, 1 << 55, 900];
        let values: Vec<_> = read(&wild).into_iter().map(|(value, ..)| value).collect();
        assert_eq!(values, [Some(0), None, None, None, None, Some(900)]);
    }
}
