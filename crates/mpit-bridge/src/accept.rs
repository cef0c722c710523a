//! Who is connected: limits for all and for each user, and which user's a job is.

use crate::rank::Member;
use crate::status::Reason;
use std::collections::HashMap;
use throughline_sample::wire::Job;

/// Jobs remembered after their last rank here has gone, so that nobody else continues them.
const ENDED_JOBS: usize = 4096;

/// All connections and jobs of the node.
#[derive(Debug)]
pub(crate) struct Registry {
    limit: usize,
    limit_per_user: usize,
    connections: usize,
    per_user: HashMap<u32, usize>,
    jobs: HashMap<String, JobHere>,
}

#[derive(Debug)]
struct JobHere {
    uid: u32,
    ranks: usize,
    start: i64,
}

impl Registry {
    pub(crate) fn new(limit: usize, limit_per_user: usize) -> Self {
        Self { limit, limit_per_user, connections: 0, per_user: HashMap::new(), jobs: HashMap::new() }
    }

    /// Counts a connection in, or says why it may not.
    pub(crate) fn connect(&mut self, uid: u32) -> Result<(), Reason> {
        if self.connections >= self.limit {
            return Err(Reason::TooMany);
        }
        let of_user = self.per_user.entry(uid).or_default();
        if *of_user >= self.limit_per_user {
            return Err(Reason::TooManyOfUser);
        }
        *of_user += 1;
        self.connections += 1;
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, uid: u32) {
        self.connections = self.connections.saturating_sub(1);
        if let Some(of_user) = self.per_user.get_mut(&uid) {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                self.per_user.remove(&uid);
            }
        }
    }

    /// A rank joins its job: the job's record, if it is the first one here.
    pub(crate) fn join(&mut self, member: &Member) -> Result<Option<Job>, Reason> {
        self.forget_some();
        let job = self.jobs.entry(member.identity.job_key.clone()).or_insert(JobHere {
            uid: member.process.uid,
            ranks: 0,
            start: member.start,
        });
        if job.uid != member.process.uid {
            return Err(Reason::OtherUsersJob);
        }
        job.ranks += 1;
        job.start = job.start.min(member.start);
        Ok((job.ranks == 1).then(|| member.job(job.start, 0)))
    }

    /// A rank leaves its job: the job's record, if it was the last one here.
    pub(crate) fn leave(&mut self, member: &Member, now: i64) -> Option<Job> {
        let job = self.jobs.get_mut(&member.identity.job_key)?;
        job.ranks = job.ranks.saturating_sub(1);
        (job.ranks == 0).then(|| member.job(job.start, now))
    }

    fn forget_some(&mut self) {
        if self.jobs.len() >= ENDED_JOBS + self.limit {
            self.jobs.retain(|_, job| job.ranks > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Hello, Identity};
    use crate::process::Process;

    fn member(key: &str, uid: u32, start: i64) -> Member {
        let identity = Identity { job_key: key.into(), ..Identity::default() };
        let hello = Hello { world_size: 2, epoch: start, ..Hello::default() };
        Member::new(identity, hello, Process { uid, ..Process::default() }, "n1", start)
    }

    #[test]
    fn limits_for_all_and_for_each_user() {
        let mut registry = Registry::new(3, 2);
        assert_eq!(registry.connect(1), Ok(()));
        assert_eq!(registry.connect(1), Ok(()));
        assert_eq!(registry.connect(1), Err(Reason::TooManyOfUser));
        assert_eq!(registry.connect(2), Ok(()));
        assert_eq!(registry.connect(3), Err(Reason::TooMany));
        registry.disconnect(1);
        assert_eq!(registry.connect(3), Ok(()));
    }

    #[test]
    fn first_and_last_rank_tell_of_the_job() {
        let mut registry = Registry::new(10, 10);
        let (one, two) = (member("slurm:1", 7, 200), member("slurm:1", 7, 100));
        assert_eq!(registry.join(&one).unwrap().unwrap().end, 0);
        assert_eq!(registry.join(&two), Ok(None));
        assert_eq!(registry.leave(&one, 300), None);
        let end = registry.leave(&two, 400).unwrap();
        assert_eq!((end.start, end.end, end.uid), (100, 400, 7));
    }

    #[test]
    fn a_job_is_one_users() {
        let mut registry = Registry::new(10, 10);
        let own = member("slurm:1", 7, 100);
        registry.join(&own).unwrap();
        assert_eq!(registry.join(&member("slurm:1", 8, 100)), Err(Reason::OtherUsersJob));
        registry.leave(&own, 200);
        assert_eq!(registry.join(&member("slurm:1", 8, 300)), Err(Reason::OtherUsersJob), "nor afterwards");
    }
}
