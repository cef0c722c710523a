//! MADs on their way through a simulated fabric, handed out in the order and at the time of their arrival. No I/O.
//!
//! The simulator says of each MAD when it arrives and hands it over ahead of that time, so that neither its
//! scheduling nor that of the socket adds to the latency that it simulates.

use super::wire::Kind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// MADs on their way at once; a window is at most 128, the rest are late ones. More are dropped, as a receive queue
/// would.
const MAX_UNDERWAY: usize = 1 << 16;

/// MADs that will arrive.
#[derive(Default)]
pub(super) struct OnTheWay {
    /// When, in what order, where in `mads`.
    arrivals: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sequence: u64,
    mads: Vec<(Option<Kind>, Vec<u8>)>,
    free: Vec<usize>,
}

impl OnTheWay {
    /// Takes a MAD that arrives `at` a time of the simulator's clock.
    pub fn put(&mut self, at: u64, kind: Kind, body: &[u8]) {
        if self.arrivals.len() >= MAX_UNDERWAY {
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.mads.push((None, Vec::new()));
            self.mads.len() - 1
        });
        let (of_kind, bytes) = &mut self.mads[place];
        *of_kind = Some(kind);
        bytes.clear();
        bytes.extend_from_slice(body);
        self.sequence += 1;
        self.arrivals.push(Reverse((at, self.sequence, place)));
    }

    /// When the next one arrives.
    pub fn next_at(&self) -> Option<u64> {
        self.arrivals.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether one has arrived by now.
    pub fn has_arrived(&self, now: u64) -> bool {
        self.next_at().is_some_and(|at| at <= now)
    }

    /// The next one that has arrived by now.
    pub fn take(&mut self, now: u64) -> Option<(Kind, &[u8])> {
        let Reverse((at, _, place)) = *self.arrivals.peek()?;
        if at > now {
            return None;
        }
        self.arrivals.pop();
        self.free.push(place);
        let (kind, bytes) = &mut self.mads[place];
        Some((kind.take()?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mads_arrive_when_they_are_due_and_in_order() {
        let mut way = OnTheWay::default();
        for (at, body) in [(30, [3]), (10, [1]), (30, [4]), (20, [2])] {
            way.put(at, Kind::Mad, &body);
        }
        assert_eq!((way.next_at(), way.take(9)), (Some(10), None));
        assert_eq!(way.take(25), Some((Kind::Mad, &[1][..])));
        way.put(0, Kind::GivenUp, &[7, 7]);
        assert_eq!(way.take(25), Some((Kind::GivenUp, &[7, 7][..])));
        assert_eq!(way.take(25), Some((Kind::Mad, &[2][..])));
        assert_eq!(way.take(25), None);
        assert_eq!(way.take(30), Some((Kind::Mad, &[3][..])));
        assert_eq!(way.take(30), Some((Kind::Mad, &[4][..])));
        assert_eq!((way.next_at(), way.take(u64::MAX)), (None, None));
    }

    #[test]
    fn what_is_beyond_the_limit_is_dropped() {
        let mut way = OnTheWay::default();
        (0..=MAX_UNDERWAY as u64).for_each(|at| way.put(at, Kind::Mad, &[]));
        assert_eq!((0..=MAX_UNDERWAY).filter(|_| way.take(u64::MAX).is_some()).count(), MAX_UNDERWAY);
    }
}
