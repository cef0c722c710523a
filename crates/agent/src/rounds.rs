//! Equal rounds of a source become one record: the first one after a change at once, those that follow half a minute at a time.
//!
//! What waits here is lost with the agent, so that a record never stands for a round that was not made. Pure: the present time
//! comes from the caller.

use std::collections::BTreeMap;
use std::time::Duration;
use throughline_sample::rounds::ROUNDS_MAX;
use throughline_sample::wire::{Batch, Coverage};

/// From one record of a source to the next, at most: two are within the gap after which a source is silent.
const RECORD_INTERVAL: Duration = Duration::from_secs(30);
/// How late a round may come to its record, in nanoseconds: it waits for the batcher.
const GRACE_NANOSECONDS: i64 = 1_000_000_000;

struct Run {
    /// The last round that came, as a record of its own.
    last: Coverage,
    /// When the last record ended that was sent.
    sent: i64,
    /// What was not sent yet.
    waiting: Option<Coverage>,
}

/// What the sources' rounds were.
#[derive(Default)]
pub struct Rounds {
    runs: BTreeMap<String, Run>,
}

/// Seconds from one round to the next, as a source reports its rules: it writes a row for each reading.
fn interval_seconds(round: &Coverage) -> f64 {
    round.row_rules.map_or(0.0, |rules| rules.heartbeat_seconds)
}

#[allow(clippy::cast_possible_truncation)] // at most a day
fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

impl Rounds {
    /// Takes the rounds of a fragment, and leaves those in it that are to be sent.
    pub fn take(&mut self, fragment: &mut Batch) {
        for round in std::mem::take(&mut fragment.coverage) {
            self.add(round, &mut fragment.coverage);
        }
    }

    fn add(&mut self, round: Coverage, due: &mut Vec<Coverage>) {
        let interval = interval_seconds(&round);
        let Some(run) = self.runs.get_mut(&round.source) else {
            due.push(round.clone());
            let run = Run { sent: round.time, last: round.clone(), waiting: None };
            self.runs.insert(round.source, run);
            return;
        };
        if !(run.last.is_equal_round(&round) && run.last.is_followed_by(&round, interval)) {
            due.extend(run.waiting.take());
            due.push(round.clone());
            (run.sent, run.last) = (round.time, round);
            return;
        }
        run.last = round.clone();
        match &mut run.waiting {
            Some(waiting) => waiting.extend(&round),
            None => run.waiting = Some(round),
        }
        // Before the next one comes too late.
        let limit = RECORD_INTERVAL.as_nanos().try_into().unwrap_or(i64::MAX);
        let next = run.last.time.saturating_add(nanoseconds(interval));
        if next.saturating_sub(run.sent) > limit || run.rounds() >= ROUNDS_MAX {
            run.send(due);
        }
    }

    /// What can't grow any more, because its next round is overdue.
    pub fn due(&mut self, now: i64) -> Batch {
        let mut batch = Batch::default();
        for run in self.runs.values_mut() {
            let overdue = nanoseconds(interval_seconds(&run.last) * 2.0).saturating_add(GRACE_NANOSECONDS);
            if now.saturating_sub(run.last.time) > overdue {
                run.send(&mut batch.coverage);
            }
        }
        batch
    }

    /// All that waits: there will be no more.
    pub fn finish(&mut self) -> Batch {
        let mut batch = Batch::default();
        self.runs.values_mut().for_each(|run| run.send(&mut batch.coverage));
        batch
    }
}

impl Run {
    fn rounds(&self) -> u32 {
        self.waiting.as_ref().map_or(0, Coverage::rounds)
    }

    fn send(&mut self, due: &mut Vec<Coverage>) {
        if let Some(waiting) = self.waiting.take() {
            self.sent = waiting.time;
            due.push(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::RowRules;

    const SECOND: i64 = 1_000_000_000;

    fn round(source: &str, milliseconds: i64, interval: u64, read: u64) -> Coverage {
        Coverage {
            time: milliseconds * 1_000_000,
            source: source.into(),
            expected: 4,
            read,
            failed: 4 - read,
            row_rules: Some(RowRules::unthinned(Duration::from_secs(interval))),
            ..Coverage::default()
        }
    }

    /// Records of these rounds, each in a fragment of its own, and what is due at the end: rounds, first and last second.
    fn records(rounds: &mut Rounds, of: impl IntoIterator<Item = Coverage>) -> Vec<(u32, i64, i64)> {
        let mut sent = Vec::new();
        for round in of {
            let mut fragment = Batch { coverage: vec![round], ..Batch::default() };
            rounds.take(&mut fragment);
            sent.extend(fragment.coverage);
        }
        sent.iter().map(|run| (run.rounds(), run.begins() / SECOND, run.time / SECOND)).collect()
    }

    #[test]
    fn a_steady_source_has_two_records_a_minute() {
        let mut rounds = Rounds::default();
        let of = (0..=120).map(|second| round("sysfs", second * 1000, 1, 4));
        let expected = [(1, 0, 0), (30, 1, 30), (30, 31, 60), (30, 61, 90), (30, 91, 120)];
        assert_eq!(records(&mut rounds, of), expected);
        assert!(rounds.finish().coverage.is_empty());
        // Ten rounds a second, 300 of them in a record; then a source with less than one round a record.
        let fast = (0..=600).map(|tenth| round("nvml", tenth * 100, 1, 4));
        let mut fast: Vec<Coverage> = fast.collect();
        fast.iter_mut().for_each(|one| one.row_rules = Some(RowRules::unthinned(Duration::from_millis(100))));
        assert_eq!(
            records(&mut Rounds::default(), fast).iter().map(|run| run.0).collect::<Vec<_>>(),
            [1, 300, 300]
        );
        let slow = (0..4).map(|number| round("nvml", number * 20_000, 20, 4));
        assert_eq!(records(&mut Rounds::default(), slow), [(1, 0, 0), (1, 20, 20), (1, 40, 40), (1, 60, 60)]);
    }

    #[test]
    fn what_changes_is_sent_at_once_and_what_was_before_with_it() {
        let mut rounds = Rounds::default();
        let reads = [4, 4, 4, 3, 3, 4, 4];
        let of = (0..).zip(reads).map(|(second, read)| round("sysfs", second * 1000, 1, read));
        assert_eq!(records(&mut rounds, of), [(1, 0, 0), (2, 1, 2), (1, 3, 3), (1, 4, 4), (1, 5, 5)]);
        assert_eq!(rounds.finish().coverage[0].time, 6 * SECOND);
    }

    #[test]
    fn a_missed_round_is_in_no_record() {
        let mut rounds = Rounds::default();
        let of = [0, 1, 2, 3, 10, 11].map(|second| round("sysfs", second * 1000, 1, 4));
        assert_eq!(records(&mut rounds, of), [(1, 0, 0), (3, 1, 3), (1, 10, 10)]);
        assert!(rounds.due(12 * SECOND).coverage.is_empty());
        // It stalls: what it read is known soon, and once.
        let due = rounds.due(15 * SECOND).coverage;
        assert_eq!((due.len(), due[0].time), (1, 11 * SECOND));
        assert!(rounds.due(60 * SECOND).coverage.is_empty() && rounds.finish().coverage.is_empty());
        assert_eq!(records(&mut rounds, [round("sysfs", 12_100, 1, 4)]), []);
        assert_eq!(records(&mut rounds, [round("sysfs", 5_000, 1, 4)]), [(1, 12, 12), (1, 5, 5)]);
    }

    #[test]
    fn sources_without_rules_are_sent_as_they_come() {
        let one = |second: i64| Coverage { row_rules: None, ..round("x", second * 1000, 1, 4) };
        assert_eq!(records(&mut Rounds::default(), (0..3).map(one)), [(1, 0, 0), (1, 1, 1), (1, 2, 2)]);
    }
}
