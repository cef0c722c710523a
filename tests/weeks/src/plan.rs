//! What happens when, in seconds of the world, and which jobs run.

use crate::jobs::JobPlan;
use crate::send::Feed;
use crate::truth::{DAY, HOUR, LATE_HOST, Link, MINUTE, Reader, links};

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// All is read until then, and the clock jumps by so much at a time.
    Feed { to: i64, jump: i64, what: Feed },
    /// The clock jumps, and nothing is read meanwhile.
    Skip { to: i64 },
    /// Readings of the late host come.
    Late { from: i64, to: i64 },
    /// The server and its database are off until then, and nothing is read.
    Off { to: i64 },
    /// Programs that were quiet call MPI again.
    CallAgain,
    /// Programs end.
    EndPrograms,
    /// Ranks push nothing new until the next check.
    Hold,
    /// Upkeep does what is due.
    Settle,
    /// All is compared.
    Check,
    /// Sizes of tables are compared with what is predicted.
    Sizes,
}

/// A plan.
pub struct Plan {
    pub steps: Vec<Step>,
    pub links: Vec<Link>,
    pub jobs: Vec<JobPlan>,
    /// Times that are compared at each check once they are over.
    pub windows: Vec<(i64, i64)>,
    /// Whether totals of jobs are compared that ended more than a week ago.
    pub has_past_jobs: bool,
}

/// So long before a check rollups are made, and ranks' rows are there.
pub const SETTLED: i64 = 7 * MINUTE;
/// The day on which series start, stop, pause and begin anew.
const EVENTS: i64 = DAY;

impl Plan {
    /// Ten days.
    pub fn short() -> Self {
        let mut plan = Self::new(9 * DAY);
        plan.feed(2 * HOUR, 10 * MINUTE);
        plan.skip(EVENTS - 40 * MINUTE);
        plan.feed(EVENTS + HOUR, 10 * MINUTE);
        plan.late_hour(EVENTS + HOUR, EVENTS + 2 * HOUR);
        plan.skip(EVENTS + 5 * HOUR);
        plan.steps.push(Step::Late { from: EVENTS + HOUR, to: EVENTS + 2 * HOUR });
        plan.feed(EVENTS + 6 * HOUR, HOUR);
        plan.check();
        let late = 2 * DAY;
        plan.skip(late);
        plan.late_hour(late, late + HOUR);
        plan.skip(late + 2 * HOUR);
        let too_late = late + 2 * HOUR;
        plan.late_hour(too_late, too_late + HOUR);
        plan.lose(too_late, too_late + HOUR);
        for day in 3..=4 {
            plan.skip(day * DAY);
            plan.feed(day * DAY + HOUR, HOUR);
        }
        plan.skip(5 * DAY);
        plan.steps.push(Step::Late { from: late, to: late + HOUR });
        plan.feed(5 * DAY + HOUR, HOUR);
        plan.steps.push(Step::Off { to: 6 * DAY });
        plan.feed(6 * DAY + HOUR, HOUR);
        plan.skip(8 * DAY + 6 * HOUR);
        plan.feed(8 * DAY + 7 * HOUR, HOUR);
        plan.check();
        plan.steps.push(Step::CallAgain);
        plan.skip(9 * DAY);
        plan.steps.push(Step::EndPrograms);
        plan.feed(9 * DAY + HOUR, HOUR);
        plan.skip(10 * DAY + 3 * HOUR);
        plan.steps.push(Step::Late { from: too_late, to: too_late + HOUR });
        plan.feed(10 * DAY + 4 * HOUR, HOUR);
        plan.check();
        plan.windows(&[
            (0, HOUR),
            (EVENTS, EVENTS + 30 * MINUTE),
            (EVENTS, EVENTS + HOUR),
            (late, late + HOUR),
            (8 * DAY + 6 * HOUR, 8 * DAY + 7 * HOUR),
        ]);
        plan
    }

    /// So many days; all is read for the first ones, then for an hour at times.
    pub fn long(days: i64, dense: i64) -> Self {
        let job_ends = 40 * DAY;
        let mut plan = Self::new(job_ends);
        let (late, too_late) = (3 * DAY, 10 * DAY);
        plan.has_past_jobs = true;
        plan.feed(EVENTS, HOUR);
        plan.feed(EVENTS + HOUR, 10 * MINUTE);
        plan.late_hour(EVENTS + HOUR, EVENTS + 2 * HOUR);
        plan.feed(EVENTS + 4 * HOUR, HOUR);
        plan.steps.push(Step::Late { from: EVENTS + HOUR, to: EVENTS + 2 * HOUR });
        plan.feed(2 * DAY, HOUR);
        plan.check();
        plan.feed(late, HOUR);
        plan.late_hour(late, late + HOUR);
        plan.feed(late + 3 * DAY, HOUR);
        plan.steps.push(Step::Late { from: late, to: late + HOUR });
        plan.feed(late + 3 * DAY + HOUR, HOUR);
        plan.check();
        plan.feed(8 * DAY + 6 * HOUR, HOUR);
        plan.check();
        plan.steps.push(Step::CallAgain);
        plan.feed(too_late, HOUR);
        plan.late_hour(too_late, too_late + HOUR);
        plan.lose(too_late, too_late + HOUR);
        for day in [15, 18, 30].into_iter().filter(|day| *day < dense) {
            plan.feed(day * DAY + HOUR, HOUR);
            if day == 18 {
                plan.steps.push(Step::Late { from: too_late, to: too_late + HOUR });
            }
            plan.check();
            if day == 30 {
                plan.steps.push(Step::Sizes);
            }
        }
        plan.feed(dense * DAY, HOUR);
        // Sparse from here on.
        let mut marks = vec![job_ends - HOUR, job_ends + 2 * HOUR, job_ends + 5 * DAY];
        marks.extend([91, 200, 365, 369, 374, 380].map(|day| day * DAY));
        marks.extend((410..days).step_by(60).map(|day| day * DAY));
        marks.push(days * DAY);
        marks.retain(|mark| *mark > dense * DAY && *mark <= days * DAY);
        let mut is_off = false;
        for mark in marks {
            while plan.end() + 9 * DAY < mark {
                let to = plan.end() + 7 * DAY;
                if is_off || plan.end() < job_ends {
                    plan.skip(to)
                } else {
                    plan.steps.push(Step::Off { to })
                }
                is_off |= plan.end() >= job_ends;
                plan.feed(to + HOUR, HOUR);
            }
            plan.skip(mark - HOUR);
            if mark > job_ends && plan.steps.iter().all(|step| !matches!(step, Step::EndPrograms)) {
                plan.steps.push(Step::EndPrograms);
            }
            plan.feed(mark, HOUR);
            plan.check();
        }
        plan.windows(&[
            (0, HOUR),
            (EVENTS, EVENTS + 30 * MINUTE),
            (EVENTS, EVENTS + HOUR),
            (late, late + HOUR),
            (8 * DAY, 9 * DAY),
            ((dense - 1) * DAY, dense * DAY),
        ]);
        plan
    }

    fn new(job_ends: i64) -> Self {
        let job = |name: &str, number, starts, quiet_from, ends| JobPlan {
            name: name.to_owned(),
            number,
            starts,
            quiet_from,
            ends,
        };
        let jobs = vec![
            job("short", 7001, 10 * MINUTE, 40 * MINUTE, 50 * MINUTE),
            job("quiet", 7002, 5 * MINUTE, 65 * MINUTE, job_ends),
            job("active", 7003, 5 * MINUTE, job_ends, job_ends),
        ];
        Self { steps: Vec::new(), links: links(EVENTS), jobs, windows: Vec::new(), has_past_jobs: false }
    }

    /// The second at which the last step ends.
    fn end(&self) -> i64 {
        let end = |step: &Step| match step {
            Step::Feed { to, .. } | Step::Skip { to } | Step::Off { to } => Some(*to),
            _ => None,
        };
        self.steps.iter().rev().find_map(end).unwrap_or(0)
    }

    fn feed(&mut self, to: i64, jump: i64) {
        if to > self.end() {
            self.steps.push(Step::Feed { to, jump, what: Feed::All });
        }
    }

    fn late_hour(&mut self, from: i64, to: i64) {
        debug_assert_eq!(from, self.end());
        self.steps.push(Step::Feed { to, jump: HOUR, what: Feed::ButLateHost });
    }

    fn skip(&mut self, to: i64) {
        if to > self.end() {
            self.steps.push(Step::Skip { to });
        }
    }

    /// Ranks' rows are due some minutes after they were pushed, and rollups are made then; `status` wants readings that are new.
    fn check(&mut self) {
        let end = self.end();
        self.steps.push(Step::Hold);
        self.feed(end + SETTLED - MINUTE, SETTLED);
        self.steps.push(Step::Settle);
        self.feed(end + SETTLED, MINUTE);
        self.steps.push(Step::Check);
    }

    /// What the late host reads in that time is too old when it comes.
    fn lose(&mut self, from: i64, to: i64) {
        let is_late = |link: &&mut Link| link.reader == Reader::Host && link.number == LATE_HOST;
        for link in self.links.iter_mut().filter(is_late) {
            link.lost.push((from, to));
        }
    }

    fn windows(&mut self, windows: &[(i64, i64)]) {
        self.windows = windows.to_vec();
    }

    /// When something is read: from the first until the second.
    pub fn spans(&self) -> Vec<(i64, i64)> {
        let (mut spans, mut at) = (Vec::<(i64, i64)>::new(), 0);
        for step in &self.steps {
            match step {
                Step::Feed { to, .. } => {
                    match spans.last_mut() {
                        Some(last) if last.1 == at => last.1 = *to,
                        _ => spans.push((at, *to)),
                    }
                    at = *to;
                }
                Step::Skip { to } | Step::Off { to } => at = *to,
                _ => {}
            }
        }
        spans
    }
}
