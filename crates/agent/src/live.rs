//! Jobs that somebody looks at: their rows are made each second until the request for that has expired.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Jobs that are shown live at once on a node; others stay at the usual interval.
const JOBS_MAX: usize = 64;

/// Which jobs are shown live. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LiveJobs(Arc<Mutex<BTreeMap<String, i64>>>);

impl LiveJobs {
    /// Until this time (UTC nanoseconds).
    pub fn lift(&self, job_key: &str, until: i64, now: i64) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|_, until| *until > now);
        if jobs.len() < JOBS_MAX || jobs.contains_key(job_key) {
            jobs.insert(job_key.to_owned(), until);
        }
    }

    /// Their keys.
    pub fn now(&self, now: i64) -> Vec<String> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().filter(|(_, until)| **until > now).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_live_until_its_request_expires_and_is_renewed() {
        let jobs = LiveJobs::default();
        jobs.lift("a", 10, 0);
        jobs.lift("b", 20, 0);
        assert_eq!(jobs.now(5), ["a", "b"]);
        assert_eq!(jobs.now(10), ["b"]);
        jobs.lift("b", 40, 15);
        assert_eq!((jobs.now(30), jobs.now(40)), (vec!["b".to_owned()], Vec::new()));
        for number in 0..2 * JOBS_MAX {
            jobs.lift(&number.to_string(), 100, 50);
        }
        assert_eq!(jobs.now(60).len(), JOBS_MAX);
    }
}
