//! Calls that a rank's threads are in for long: which of a rank's reports are handed on. Pure; times come from the caller.
//!
//! A shim reports them with each push, a second apart. They are handed on when they begin, at intervals that grow with their
//! age, and when they end, so that one that hangs for a day is no row a second.

use std::collections::BTreeMap;
use throughline_sample::wire::MpiOpenCall;

/// Most of one rank: a shim's most threads.
const CALLS_MAX: usize = 1024;
/// What is handed on is behind by at most this part of a call's age, and by at most the limit.
const AGE_PARTS: i64 = 64;
const BEHIND_MAX_NANOSECONDS: i64 = 10_000_000_000;
/// Two reports of one call may differ by so much in its start, as the shim measures its clock's rate: less than the shortest
/// call that is reported.
const SAME_START_NANOSECONDS: i64 = 100_000_000;

/// What is open in one rank.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    /// By thread: as reported last, and when it was handed on.
    known: BTreeMap<u32, (MpiOpenCall, i64)>,
}

impl OpenCalls {
    /// Takes all that is open at a time; gives what is to be handed on.
    pub fn take(&mut self, time: i64, calls: Vec<MpiOpenCall>) -> Vec<MpiOpenCall> {
        let before = std::mem::take(&mut self.known);
        let mut handed_on = Vec::new();
        for call in calls.into_iter().take(CALLS_MAX) {
            let same = before.get(&call.thread).filter(|(earlier, _)| is_same(earlier, &call));
            let due =
                same.is_none_or(|(earlier, then)| is_due(*then, &call) || threads(earlier) != threads(&call));
            let then = if due { call.time } else { same.map_or(call.time, |(_, then)| *then) };
            if due {
                handed_on.push(call.clone());
            }
            self.known.insert(call.thread, (call, then));
        }
        let returned = before.into_iter().filter(|(thread, _)| !self.known.contains_key(thread));
        handed_on.extend(returned.map(|(_, (call, _))| returned_at(time, call)));
        handed_on
    }

    /// The rank has ended by itself: nothing is open.
    pub fn end(&mut self, time: i64) -> Vec<MpiOpenCall> {
        std::mem::take(&mut self.known).into_values().map(|(call, _)| returned_at(time, call)).collect()
    }

    /// The rank is gone, perhaps killed: what it was in as it reported last.
    pub fn lose(&mut self) -> Vec<MpiOpenCall> {
        let known = std::mem::take(&mut self.known).into_values();
        known.filter(|(call, then)| call.time > *then).map(|(call, _)| call).collect()
    }
}

fn is_same(earlier: &MpiOpenCall, later: &MpiOpenCall) -> bool {
    earlier.operation == later.operation
        && earlier.start.abs_diff(later.start) < SAME_START_NANOSECONDS.unsigned_abs()
}

/// Where these change, the rank may have begun or ceased to hang.
fn threads(call: &MpiOpenCall) -> (u32, u32) {
    (call.threads_elsewhere, call.threads_to_come)
}

fn is_due(then: i64, call: &MpiOpenCall) -> bool {
    let age = call.time.saturating_sub(call.start);
    call.time.saturating_sub(then) >= (age / AGE_PARTS).min(BEHIND_MAX_NANOSECONDS)
}

fn returned_at(time: i64, call: MpiOpenCall) -> MpiOpenCall {
    MpiOpenCall { time: time.max(call.time), has_returned: true, ..call }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn call(thread: u32, operation: &str, start: i64, time: i64) -> MpiOpenCall {
        let (start, time) = (start * SECOND, time * SECOND);
        MpiOpenCall { thread, operation: operation.into(), start, time, ..MpiOpenCall::default() }
    }

    #[test]
    fn a_call_is_handed_on_more_and_more_rarely_and_at_its_end() {
        let mut open = OpenCalls::default();
        let mut times = Vec::new();
        for time in 1..=1000 {
            let mut one = call(0, "barrier", 0, time);
            one.start += time * 1000; // as the rate of the clock is measured better
            times.extend(open.take(time * SECOND, vec![one]).iter().map(|call| call.time / SECOND));
        }
        assert_eq!(times[..64], (1..=64).collect::<Vec<i64>>(), "a second apart at first");
        assert!(times.windows(2).all(|two| two[1] - two[0] <= 2 + two[0] / 64), "little behind");
        assert!(times.windows(2).all(|two| two[1] - two[0] <= 10), "and 10 s");
        assert!(times.len() < 300, "{}", times.len());
        let over = open.take(1001 * SECOND, vec![]);
        assert_eq!((over.len(), over[0].has_returned, over[0].time), (1, true, 1001 * SECOND));
        assert!(open.take(1002 * SECOND, vec![]).is_empty());
    }

    #[test]
    fn another_call_takes_the_place_of_the_one_before() {
        let mut open = OpenCalls::default();
        open.take(SECOND, vec![call(0, "recv", 0, 1), call(3, "barrier", 0, 1)]);
        let next = open.take(2 * SECOND, vec![call(0, "recv", 1, 2)]);
        let of: Vec<_> = next.iter().map(|call| (call.thread, call.has_returned, call.start)).collect();
        assert_eq!(of, [(0, false, SECOND), (3, true, 0)]);
        assert!(open.end(3 * SECOND).iter().all(|call| call.has_returned && call.time == 3 * SECOND));
        assert!(open.lose().is_empty());
    }

    #[test]
    fn threads_that_come_and_go_are_handed_on_at_once() {
        let mut open = OpenCalls::default();
        open.take(500 * SECOND, vec![call(0, "recv", 0, 500)]);
        assert!(open.take(501 * SECOND, vec![call(0, "recv", 0, 501)]).is_empty());
        let beside = MpiOpenCall { threads_elsewhere: 1, ..call(0, "recv", 0, 502) };
        assert_eq!(open.take(502 * SECOND, vec![beside.clone()]), [beside]);
    }

    #[test]
    fn who_is_killed_was_in_it_until_the_last_report() {
        let mut open = OpenCalls::default();
        for time in [500, 501, 502] {
            open.take(time * SECOND, vec![call(0, "barrier", 0, time)]);
        }
        let last = open.lose();
        assert_eq!((last.len(), last[0].has_returned, last[0].time), (1, false, 502 * SECOND));
    }
}
