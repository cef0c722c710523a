//! Compares what surfaces said with what the ranks called.

use crate::log::{Log, Sums};
use crate::looks::{Look, Step};
use std::collections::BTreeMap;

/// Clocks are read around a call by the program and within it by the shim, and steps end at whole milliseconds.
const SLACK: i64 = 20_000_000;
/// Largest difference of a step from the program's own, as a share.
const STEP_SHARE: f64 = 0.02;
/// Time inside by two clocks around the same call: a share, and the time from one clock to the other, nanoseconds a call.
const ELAPSED_SHARE: f64 = 0.03;
const ELAPSED_CALL: f64 = 2_000.0;
/// How old figures may be, seconds: the promise of the database's rows. One second more for the ways between.
const OLDEST: f64 = 16.0;

/// What one surface said in one run.
#[derive(Default)]
pub struct Said {
    pub answers: usize,
    /// With the sums of the time that is stated.
    pub exact: usize,
    /// With more than those, and not more than was when they were read: parts are newer.
    pub newer: usize,
    /// With less than what was at the time that is stated.
    pub older: usize,
    /// With more than there was.
    pub more: usize,
    /// With figures and without a time.
    pub timeless: usize,
    /// With neither.
    pub unknown: usize,
    /// The oldest time that was stated, seconds before the answer.
    pub oldest: f64,
    /// The first that was wrong.
    pub first: Option<String>,
}

impl Said {
    /// Whether nothing was false. Sums are of one time; rows of ranks may be newer than stated.
    pub fn is_right(&self, surface: &str) -> bool {
        let has_one_time = ["list", "show", "operations"].contains(&surface);
        self.older + self.more + self.timeless == 0
            && !(has_one_time && (self.newer > 0 || self.oldest > OLDEST))
    }

    fn add(&mut self, look: &Look, log: &Log) {
        let figures = [
            (look.calls, (|sums| sums.calls) as fn(Sums) -> i64, 0.0),
            (look.bytes, |sums| sums.bytes, 0.0),
            (look.moved, |sums| sums.moved, 0.0),
            (look.elapsed, |sums| sums.elapsed, ELAPSED_SHARE),
        ];
        if figures.iter().all(|(said, ..)| said.is_none()) {
            return;
        }
        self.answers += 1;
        let Some(time) = look.as_of else {
            // Nothing is known yet, or it has just ended, or there is a figure without a time.
            let last = log.last();
            let is_last = |(said, of, share): &(Option<i64>, fn(Sums) -> i64, f64)| {
                *share > 0.0 || said.is_none_or(|said| said == of(last))
            };
            if figures.iter().all(is_last) {
                self.exact += 1;
                return;
            }
            let has_figure = figures.iter().any(|(said, ..)| said.is_some_and(|said| said > 0));
            self.unknown += usize::from(!has_figure);
            if has_figure {
                self.timeless += 1;
                self.first.get_or_insert_with(|| "no time is stated".to_owned());
            }
            return;
        };
        if !look.is_behind {
            self.oldest = self.oldest.max((look.answered - time) as f64 / 1e9);
        }
        let (least, most, now) = (log.at(time - SLACK), log.at(time + SLACK), log.at(look.answered));
        let (mut is_older, mut is_newer, mut is_more) = (false, false, false);
        for (said, of, share) in figures {
            let Some(said) = said else { continue };
            // A rank may have lost its processor between the two clocks.
            let between =
                log.at(look.answered).calls as f64 * ELAPSED_CALL + (log.0.len() as i64 * SLACK) as f64;
            let around = |figure: i64| if share > 0.0 { (figure as f64 * share + between) as i64 } else { 0 };
            let is_less = said < of(least) - around(of(least)) && !look.is_behind;
            let is_beyond = said > of(now) + around(of(now));
            is_newer |= said > of(most) + around(of(most));
            if is_less || is_beyond {
                let text = || {
                    format!(
                        "{said} as of {time}, where {} to {} were, {} at the answer",
                        of(least),
                        of(most),
                        of(now)
                    )
                };
                self.first.get_or_insert_with(text);
            }
            is_older |= is_less;
            is_more |= is_beyond;
        }
        match (is_older, is_more, is_newer) {
            (_, true, _) => self.more += 1,
            (true, ..) => self.older += 1,
            (.., true) => self.newer += 1,
            _ => self.exact += 1,
        }
    }
}

/// By surface.
pub fn answers(looks: &[Look], log: &Log) -> BTreeMap<&'static str, Said> {
    let mut said: BTreeMap<&'static str, Said> = BTreeMap::new();
    for look in looks {
        said.entry(look.surface).or_default().add(look, log);
    }
    said
}

/// Steps of courses beside the program's own.
#[derive(Default)]
pub struct Courses {
    pub steps: usize,
    /// Within 2 % of the program's own.
    pub near: usize,
    /// Others that are within what was called in a moment around their two edges, or are right with those that they overlap.
    pub edges: usize,
    /// Longer than was requested.
    pub long: usize,
    /// The first that is neither.
    pub first: Option<String>,
}

impl Courses {
    /// Judges the steps of one export.
    pub fn add(&mut self, steps: &[Step], log: &Log) {
        for step in steps {
            let Some(own) = log.0.get(step.rank) else { continue };
            let (since, until) = (step.first_since, step.until);
            let between = |since: i64, until: i64| own.at(until).since(own.at(since));
            let truth = between(since, until);
            // MPI_Finalize is in the last one.
            let without_end = |calls: i64, until: i64, truth: Sums| {
                calls - i64::from(until > own.ended() && calls > truth.calls)
            };
            let calls = without_end(step.calls, until, truth);
            let is_near = |said: i64, own: i64| (said - own).abs() as f64 <= STEP_SHARE * own.max(1) as f64;
            let least = between(step.last_since + SLACK, until - SLACK);
            let most = between(since - SLACK, until + SLACK);
            let is_within = |of: fn(Sums) -> i64, said: i64| (of(least)..=of(most)).contains(&said);
            self.steps += 1;
            self.long += usize::from(until - since > 1_000_000_000);
            if is_near(calls, truth.calls) && is_near(step.bytes, truth.bytes) {
                self.near += 1;
            } else if is_within(|sums| sums.calls, calls) && is_within(|sums| sums.bytes, step.bytes) {
                self.edges += 1;
            } else if let (since, until, calls, bytes) = together(steps, step)
                && let truth = between(since, until)
                && is_near(without_end(calls, until, truth), truth.calls)
                && is_near(bytes, truth.bytes)
            {
                self.edges += 1;
            } else {
                self.first.get_or_insert_with(|| {
                    format!(
                        "rank {}, {since} to {until}: {calls} calls, {} bytes; own {truth:?}",
                        step.rank, step.bytes
                    )
                });
            }
        }
    }

    /// Whether all are the program's own.
    pub fn is_right(&self) -> bool {
        self.steps > 0 && self.near + self.edges == self.steps
    }
}

/// A step with those of its rank that it overlaps, and so on: cells whose rows are of different times. From when, until when, calls, bytes.
fn together(steps: &[Step], step: &Step) -> (i64, i64, i64, i64) {
    let mut all = (step.first_since, step.until, step.calls, step.bytes);
    loop {
        let overlaps = |one: &&Step| one.rank == step.rank && one.first_since < all.1 && all.0 < one.until;
        let found: Vec<&Step> = steps.iter().filter(overlaps).collect();
        let sum = |of: fn(&Step) -> i64| found.iter().map(|one| of(one)).sum();
        let since = found.iter().map(|one| one.first_since).min().unwrap_or(all.0);
        let until = found.iter().map(|one| one.until).max().unwrap_or(all.1);
        let more = (since, until, sum(|one| one.calls), sum(|one| one.bytes));
        if more == all {
            return all;
        }
        all = more;
    }
}
