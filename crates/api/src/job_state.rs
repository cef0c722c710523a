//! The state of a job, the same on all surfaces.
//!
//! The database computes it: the function `job_state` of the schema has the rules, once, and the view `job_summary`, the
//! JSON API, the command line, pages and dashboards show its result. It follows from what agents report about a job each
//! minute (`run_claim`), never from the age of its last MPI row: a job that computes without calling MPI is running.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The state of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Not ended, and a node reported it in the last 3 minutes.
    #[default]
    Running,
    /// No node reported it in the last 3 minutes, or its end was concluded from that.
    Silent,
    /// Ended, and a rank of it without `MPI_Finalize`.
    Lost,
    /// Ended otherwise.
    Ended,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 4] = [JobState::Running, JobState::Silent, JobState::Lost, JobState::Ended];

    /// As the database, the API and the command line write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Silent => "silent",
            JobState::Lost => "lost",
            JobState::Ended => "ended",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The text is no state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoState(pub String);

impl fmt::Display for NoState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is no state of a job", self.0)
    }
}

impl std::error::Error for NoState {}

impl FromStr for JobState {
    type Err = NoState;

    fn from_str(text: &str) -> Result<JobState, NoState> {
        let found = JobState::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| NoState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_written_and_read_alike_everywhere() {
        for state in JobState::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        assert_eq!("asleep".parse::<JobState>(), Err(NoState("asleep".to_owned())));
    }
}
