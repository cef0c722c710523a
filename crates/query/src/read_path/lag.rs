//! How far a replica is behind, by positions of the primary's write-ahead log and the times at which it had them. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Positions in memory: with one each 2 s more than two hours. A replica that is farther behind is at least so far.
const POSITIONS_MAX: usize = 4096;

/// Positions of the primary, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Positions(VecDeque<(u64, Instant)>);

impl Positions {
    /// The primary was so far at this time. After a failover to another primary positions may be smaller: they begin anew.
    pub fn note(&mut self, position: u64, at: Instant) {
        match self.0.back() {
            Some((last, _)) if *last > position => self.0.clear(),
            // Nothing was written since: the first time counts.
            Some((last, _)) if *last == position => return,
            _ => {}
        }
        if self.0.len() == POSITIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((position, at));
    }

    /// Age of the oldest change that a replica does not have which has replayed so far.
    pub fn lag(&self, replayed: u64, now: Instant) -> Duration {
        let missing = self.0.partition_point(|(position, _)| *position <= replayed);
        self.0.get(missing).map_or(Duration::ZERO, |(_, at)| now.saturating_duration_since(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_position_that_is_missing_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut positions = Positions::default();
        assert_eq!(positions.lag(0, at(5)), Duration::ZERO, "nothing is known");
        for (position, seconds) in [(10, 0), (20, 2), (20, 4), (30, 6)] {
            positions.note(position, at(seconds));
        }
        let lag = |replayed| positions.lag(replayed, at(8)).as_secs();
        assert_eq!([lag(35), lag(30), lag(29), lag(20), lag(10), lag(9)], [0, 0, 2, 2, 6, 8]);
    }

    #[test]
    fn an_idle_primary_makes_no_lag_and_another_one_begins_anew() {
        let start = Instant::now();
        let mut positions = Positions::default();
        positions.note(10, start);
        for seconds in 1..10_000 {
            positions.note(10, start + Duration::from_secs(seconds));
        }
        assert_eq!(positions.lag(10, start + Duration::from_secs(10_000)), Duration::ZERO);
        positions.note(5, start);
        assert_eq!(positions.0.len(), 1);
        for position in 6..10_000 {
            positions.note(position, start);
        }
        assert_eq!(positions.0.len(), POSITIONS_MAX);
    }
}
