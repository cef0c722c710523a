//! What follows the end of a sampler: how long the next one waits, and whether the end is an event. Pure: times are arguments.
//!
//! Healthy is a sampler that gave readings for a while, not one that lived. Every other end makes the next pause longer, in
//! whichever phase it came, and one without a reading also pays for the processor time that it used.

use std::time::{Duration, Instant};

use super::Pace;
use crate::status::End;

/// A sampler that gave no reading is followed by a pause of at least so many times the processor time that it used: what
/// spins in its start takes a tenth of a core at most.
const PAUSE_PER_PROCESSOR_TIME: u32 = 9;
/// That pause is no longer than this.
const LONGEST_PROCESSOR_PAUSE: Duration = Duration::from_secs(600);

/// What one sampler's life was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// When its first and its last reading came, if one did.
    pub readings: Option<(Instant, Instant)>,
    /// Processor time that it used, as last looked at.
    pub processor: Duration,
}

impl Life {
    pub(super) fn begin() -> Self {
        Self { readings: None, processor: Duration::ZERO }
    }

    /// A reading has come.
    pub(super) fn read(&mut self, now: Instant) {
        self.readings = Some((self.readings.map_or(now, |(first, _)| first), now));
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Until the next sampler is started.
    pub pause: Duration,
    /// Whether it goes on from the end before: the same one, and nothing was read in between.
    pub is_repeated: bool,
    /// Whether it is an incident of its own, and so an event.
    pub is_incident: bool,
    /// Samplers in a row that ended without a reading.
    pub fruitless: u32,
}

/// The ends so far.
pub(super) struct Incidents {
    pause: Duration,
    last: Option<End>,
    fruitless: u32,
}

impl Incidents {
    pub(super) fn new(pace: &Pace) -> Self {
        Self { pause: pace.first_pause, last: None, fruitless: 0 }
    }

    /// A sampler has ended.
    pub(super) fn ended(&mut self, pace: &Pace, end: End, life: &Life) -> Next {
        let has_read = life.readings.is_some();
        let read_for = life.readings.map_or(Duration::ZERO, |(first, last)| last - first);
        if has_read && read_for >= pace.healthy_after {
            self.pause = pace.first_pause;
        }
        self.fruitless = if has_read { 0 } else { self.fruitless.saturating_add(1) };
        // One that read again and then failed again is a new incident, whatever the last one was.
        let is_repeated = !has_read && self.last == Some(end);
        self.last = Some(end);
        let pause = if end.is_nothing_to_read() { pace.recheck } else { self.lengthen(pace) };
        let owed = life.processor.saturating_mul(PAUSE_PER_PROCESSOR_TIME).min(LONGEST_PROCESSOR_PAUSE);
        Next {
            pause: if has_read { pause } else { pause.max(owed) },
            is_repeated,
            is_incident: !is_repeated && end != End::Stopped && !end.is_nothing_to_read(),
            fruitless: self.fruitless,
        }
    }

    fn lengthen(&mut self, pace: &Pace) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(pace.longest_pause);
        pause
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// An end, seconds from the start to the first reading and the last, and those of processor time.
    type Ended = (End, Option<(u64, u64)>, u64);

    /// Ends one after another on a clock of the test's own. Gives the pauses and which ends are incidents.
    fn run(ends: &[Ended]) -> Vec<(u64, bool)> {
        let (pace, mut now) = (Pace::default(), Instant::now());
        let mut incidents = Incidents::new(&pace);
        let each = ends.iter().map(|(end, readings, processor)| {
            let mut life = Life { processor: SECOND * u32::try_from(*processor).unwrap(), ..Life::begin() };
            if let Some((first, last)) = readings {
                life.read(now + Duration::from_secs(*first));
                life.read(now + Duration::from_secs(*last));
                now += Duration::from_secs(*last);
            }
            let next = incidents.ended(&pace, *end, &life);
            now += next.pause;
            (next.pause.as_secs(), next.is_incident)
        });
        each.collect()
    }

    #[test]
    fn five_crashes_an_hour_apart_are_five_events_with_a_short_pause_each() {
        assert_eq!(run(&[(End::Crashed, Some((1, 3600)), 4); 5]), [(1, true); 5]);
        assert_eq!(run(&[(End::Killed, Some((1, 3600)), 4); 5]), [(1, true); 5]);
    }

    #[test]
    fn a_start_that_hangs_is_never_healthy_and_one_incident() {
        // Each lives for the minute that a start may take, and uses no processor time.
        let pauses = run(&[(End::Silent, None, 0); 9]);
        assert_eq!(pauses.iter().map(|next| next.0).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses.iter().filter(|next| next.1).count(), 1);
    }

    #[test]
    fn a_start_that_spins_gets_a_tenth_of_a_core() {
        let pauses = run(&[(End::ProcessorTime, None, 20); 30]);
        let (used, all) = (30.0 * 20.0, pauses.iter().map(|next| next.0 as f64 + 20.0).sum::<f64>());
        assert!(used / all <= 0.1, "{}", used / all);
        assert!(pauses.iter().all(|next| next.0 <= 600));
        assert_eq!(run(&[(End::NoGpu, None, 20)]), [(180, false)], "also where it finds nothing");
    }

    #[test]
    fn a_crash_after_each_first_reading_is_an_event_each_and_the_pause_grows() {
        let pauses = run(&[(End::Crashed, Some((1, 2)), 1); 8]);
        assert_eq!(pauses.iter().map(|next| next.0).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses.iter().all(|next| next.1));
    }

    #[test]
    fn another_end_is_another_incident_and_a_node_without_gpu_is_none() {
        let ends = [
            (End::Silent, None, 0),
            (End::Crashed, None, 0),
            (End::Crashed, None, 0),
            (End::LibraryMissing, None, 0),
            (End::Crashed, None, 0),
            (End::Stopped, None, 0),
        ];
        let incidents: Vec<bool> = run(&ends).iter().map(|next| next.1).collect();
        assert_eq!(incidents, [true, true, false, false, true, false]);
    }
}
