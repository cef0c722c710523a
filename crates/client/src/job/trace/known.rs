//! What is known of a job before its trace is written.

use super::read::TracedRank;
use throughline_api::JobState;
use throughline_api::jobs::{JobDetail, JobRanks};

/// What is known of the job before anything is written.
pub struct TracedJob {
    /// The job.
    pub detail: JobDetail,
    /// Its ranks.
    pub all: JobRanks,
    /// Those that recorded calls.
    pub traced: Vec<TracedRank>,
}

impl TracedJob {
    /// From when to when it ran, milliseconds since 1970; to now where it runs.
    pub fn span_ms(&self) -> (i64, i64) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let first = self.all.ranks.start_ms.iter().min().copied();
        let start = first.or(self.detail.job.start_ms).unwrap_or(now);
        // Of one whose nodes are silent nothing is known since then.
        let last = match self.detail.job.state {
            JobState::Running => None,
            _ => self.detail.job.reported_ms,
        };
        (start, self.detail.job.end_ms.or(last).unwrap_or(now).max(start))
    }
}
