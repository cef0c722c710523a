//! Jobs that somebody looks at: their sums on this node, and some of their ranks, have rows each second until the request for that has
//! expired.
//!
//! Rows are as of whole seconds of UTC, the same on all nodes: ranks report at them. They are made a moment later, once what ranks
//! report has come, and on each node at another one, so that a job's nodes do not send all at once.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_daemon::Clock;
use tokio::sync::Notify;

/// Jobs that are shown live at once on a node; others stay at the usual interval.
const JOBS_MAX: usize = 64;
/// So long after a whole second what ranks report at it has come. Intervals of the folder that end at it are closed by then one second
/// later ([`crate::fold`]).
const ARRIVED_NANOSECONDS: i64 = 550_000_000;
/// Nodes make their rows within so much after that.
const SPREAD_NANOSECONDS: u64 = 250_000_000;
/// Later than this after a whole second its rows are left to the next one: ranks may report that already.
const TOO_LATE_NANOSECONDS: i64 = 950_000_000;
const SECOND: i64 = 1_000_000_000;

/// What is shown of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveJob {
    /// Until then, UTC nanoseconds.
    pub until: i64,
    /// Those of these ranks that are here have rows as well.
    pub ranks: Arc<[u32]>,
    /// All ranks here have.
    pub is_all_ranks: bool,
}

/// Which jobs are shown live. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LiveJobs {
    jobs: Arc<Mutex<BTreeMap<String, LiveJob>>>,
    added: Arc<Notify>,
}

impl LiveJobs {
    /// Shows a job; `now` and its end are UTC nanoseconds.
    pub fn lift(&self, job_key: &str, job: LiveJob, now: i64) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|_, job| job.until > now);
        if jobs.len() < JOBS_MAX || jobs.contains_key(job_key) {
            jobs.insert(job_key.to_owned(), job);
            self.added.notify_one();
        }
    }

    /// Those that are shown at this time.
    pub fn now(&self, now: i64) -> Vec<(String, LiveJob)> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().filter(|(_, job)| job.until > now).map(|(key, job)| (key.clone(), job.clone())).collect()
    }

    /// Waits until rows of a whole second are due, and returns it.
    pub async fn due(&self, seconds: &LiveSeconds, clock: &Clock) -> i64 {
        loop {
            let now = clock.now();
            if self.now(now).is_empty() {
                self.added.notified().await;
                continue;
            }
            match seconds.next(now) {
                Ok(second) => return second,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }
}

/// The whole seconds as of whose ends rows are made on this node.
#[derive(Clone, Copy, Debug)]
pub struct LiveSeconds {
    /// So long after each.
    after: i64,
    /// The last one.
    pub last: i64,
}

impl LiveSeconds {
    /// Of the node with this name.
    pub fn new(node: &str) -> Self {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(node);
        let spread = i64::try_from(hash % SPREAD_NANOSECONDS).unwrap_or(0);
        Self { after: ARRIVED_NANOSECONDS + spread, last: i64::MIN }
    }

    /// The whole second whose rows are due, or how long to wait.
    fn next(self, now: i64) -> Result<i64, Duration> {
        let second = now.div_euclid(SECOND) * SECOND;
        let passed = now - second;
        // A last one that lies ahead is from before the clock was set back.
        let is_made = self.last >= second && self.last < second.saturating_add(2 * SECOND);
        if !is_made && (self.after..TOO_LATE_NANOSECONDS).contains(&passed) {
            return Ok(second);
        }
        let until = if passed < self.after && !is_made { self.after } else { SECOND + self.after };
        Err(Duration::from_nanos((until - passed).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(until: i64) -> LiveJob {
        LiveJob { until, ranks: Arc::default(), is_all_ranks: false }
    }

    fn keys(jobs: &LiveJobs, now: i64) -> Vec<String> {
        jobs.now(now).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_job_is_live_until_its_request_expires_and_is_renewed() {
        let jobs = LiveJobs::default();
        jobs.lift("a", until(10), 0);
        jobs.lift("b", until(20), 0);
        assert_eq!(keys(&jobs, 5), ["a", "b"]);
        assert_eq!(keys(&jobs, 10), ["b"]);
        jobs.lift("b", LiveJob { ranks: Arc::new([3]), ..until(40) }, 15);
        assert_eq!((keys(&jobs, 30), keys(&jobs, 40)), (vec!["b".to_owned()], Vec::new()));
        assert_eq!(*jobs.now(30)[0].1.ranks, [3]);
        for number in 0..2 * JOBS_MAX {
            jobs.lift(&number.to_string(), until(100), 50);
        }
        assert_eq!(jobs.now(60).len(), JOBS_MAX);
    }

    #[test]
    fn rows_of_each_whole_second_are_due_once_and_a_moment_after_it() {
        let mut seconds = LiveSeconds::new("n1");
        assert!((ARRIVED_NANOSECONDS..ARRIVED_NANOSECONDS + 250_000_000).contains(&seconds.after));
        seconds.after = 600_000_000;
        let at = |milliseconds: i64| milliseconds * 1_000_000;
        let wait = |milliseconds| Err(Duration::from_millis(milliseconds));
        assert_eq!(seconds.next(at(5100)), wait(500));
        assert_eq!(seconds.next(at(5600)), Ok(at(5000)));
        seconds.last = at(5000);
        assert_eq!(seconds.next(at(5601)), wait(999));
        assert_eq!(seconds.next(at(6000)), wait(600));
        assert_eq!(seconds.next(at(6970)), wait(630), "left to the next one");
        assert_eq!(seconds.next(at(9700)), Ok(at(9000)), "after a pause");
        assert_eq!(seconds.next(at(2700)), Ok(at(2000)), "the clock was set back");
        assert_ne!(LiveSeconds::new("n1").after, LiveSeconds::new("n2").after);
    }

    #[tokio::test]
    async fn a_job_that_is_lifted_is_noticed_at_once() {
        let (jobs, clock) = (LiveJobs::default(), Clock::new());
        let waiting = {
            let (jobs, seconds) = (jobs.clone(), LiveSeconds::new("n1"));
            tokio::spawn(async move { jobs.due(&seconds, &Clock::new()).await })
        };
        tokio::task::yield_now().await;
        let now = clock.now();
        jobs.lift("a", until(now + 60 * SECOND), now);
        let second = waiting.await.unwrap();
        assert!(second % SECOND == 0 && second >= now - SECOND, "{second} {now}");
    }
}
