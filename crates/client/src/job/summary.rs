//! What is known of jobs in one line each: identity, ranks and how they ended, and the sums of their MPI operations.

use serde::Serialize;
use throughline_api::JobState;
use throughline_api::jobs::{Job, mpi_time_share};
use throughline_sample::to_rfc3339;

/// One job, as `--json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// `scheduler:id[.step]@uid`, or `local:…`.
    pub job_key: String,
    /// slurm, pbs, lsf, flux or local.
    pub scheduler: Option<String>,
    /// The scheduler's own id.
    pub native_id: Option<String>,
    /// The step in it.
    pub step: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// Its name, as the scheduler has it.
    pub name: Option<String>,
    /// Account or project.
    pub account: Option<String>,
    /// Partition or queue.
    pub queue: Option<String>,
    /// `running`, `ended`, `lost` (ended, and ranks of it without MPI_Finalize) or `silent`: no node reports on it any more,
    /// or its nodes went away before its end was observed.
    pub state: JobState,
    /// When it began, RFC 3339.
    pub start: Option<String>,
    /// When its last rank ended, RFC 3339.
    pub end: Option<String>,
    /// From its start to its end, now, or the last report of a silent one.
    pub duration_seconds: Option<f64>,
    /// Ranks observed.
    pub ranks: u64,
    /// Ranks that it has by its own account.
    pub world_size: Option<u64>,
    /// Nodes on which ranks were observed.
    pub nodes: u64,
    /// Ranks that run now.
    pub ranks_running: u64,
    /// Ranks that ended without MPI_Finalize.
    pub ranks_lost: u64,
    /// Ranks whose nodes went away.
    pub ranks_silent: u64,
    /// Calls of all operations.
    pub calls: Option<u64>,
    /// What callers passed to send.
    pub bytes: Option<u64>,
    /// Time inside MPI, summed over ranks.
    pub mpi_seconds: Option<f64>,
    /// Time that the ranks were observed, summed.
    pub observed_seconds: Option<f64>,
    /// The first divided by the second; null where threads of one rank were inside at the same time.
    pub mpi_time_share: Option<f64>,
    /// The most important thing that is said of it: `link_bound`, `nothing_found` and so on.
    pub verdict: Option<String>,
    /// When a node last reported on it, RFC 3339.
    #[serde(skip)]
    pub reported: Option<String>,
}

/// An RFC 3339 time of milliseconds since 1970.
#[must_use]
pub fn time(milliseconds: i64) -> String {
    to_rfc3339(milliseconds.saturating_mul(1_000_000))
}

/// Counts are never negative.
fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

/// Time inside MPI divided by time observed, see [`mpi_time_share`].
#[must_use]
pub fn share(inside: Option<f64>, observed: Option<f64>) -> Option<f64> {
    mpi_time_share(inside?, observed?)
}

/// What times inside MPI are shares of, on the whole of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    /// All of it.
    pub seconds: f64,
    /// `of the ranks' time` or `of the MPI time`.
    pub name: &'static str,
    /// Of a column, to the right, beside one of times: `<OF RANKS'` or `<OF MPI`.
    pub heading: &'static str,
}

impl Whole {
    /// The time of the ranks; time inside MPI where that of the ranks is not known or threads were inside at the same time.
    /// `None` where nothing was inside.
    #[must_use]
    pub fn of(summary: &Summary) -> Option<Self> {
        match (summary.observed_seconds, summary.mpi_seconds) {
            (Some(seconds), Some(_)) if summary.mpi_time_share.is_some() => {
                Some(Self { seconds, name: "of the ranks' time", heading: "<OF RANKS'" })
            }
            (_, Some(seconds)) if seconds > 0.0 => {
                Some(Self { seconds, name: "of the MPI time", heading: "<OF MPI" })
            }
            _ => None,
        }
    }
}

impl Summary {
    /// Whether threads of one rank were inside MPI at the same time: its seconds are those of threads, not of ranks.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        let is_observed = self.mpi_seconds.is_some() && self.observed_seconds.is_some_and(|all| all > 0.0);
        is_observed && self.mpi_time_share.is_none()
    }
}

impl From<Job> for Summary {
    fn from(job: Job) -> Self {
        let totals = job.totals;
        let mpi_seconds = totals.map(|totals| totals.mpi_seconds);
        let observed_seconds = totals.and_then(|totals| totals.observed_seconds);
        // A silent job is not known to have run until now.
        let silent_since = job.reported_ms.filter(|_| job.state == JobState::Silent && job.end_ms.is_none());
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let until_silent =
            job.start_ms.zip(silent_since).map(|(start, last)| (last - start).max(0) as f64 / 1e3);
        Self {
            start: job.start_ms.map(time),
            end: job.end_ms.map(time),
            reported: job.reported_ms.map(time),
            duration_seconds: until_silent.or(job.duration_seconds),
            ranks: whole(job.ranks),
            world_size: job.world_size.map(|size| whole(size.into())),
            nodes: whole(job.nodes),
            ranks_running: whole(job.ranks_running),
            ranks_lost: whole(job.ranks_lost),
            ranks_silent: whole(job.ranks_silent),
            calls: totals.map(|totals| whole(totals.calls)),
            bytes: totals.map(|totals| whole(totals.bytes)),
            mpi_seconds,
            observed_seconds,
            mpi_time_share: share(mpi_seconds, observed_seconds),
            job_key: job.job_key,
            scheduler: job.scheduler,
            native_id: job.native_id,
            step: job.step,
            user: job.user,
            command: job.command,
            name: job.name,
            account: job.account,
            queue: job.queue,
            state: job.state,
            verdict: job.verdict,
        }
    }
}

/// What a job is called: its scheduler's name for it, then what runs; `None` where neither is known.
#[must_use]
pub fn title(name: Option<&str>, command: Option<&str>) -> Option<String> {
    match (name.filter(|name| !name.is_empty()), command) {
        (Some(name), Some(command)) => Some(format!("{name}: {command}")),
        (name, command) => name.or(command).map(str::to_owned),
    }
}

impl Summary {
    /// See [`title`].
    #[must_use]
    pub fn title(&self) -> Option<String> {
        title(self.name.as_deref(), self.command.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::Totals;

    #[test]
    fn a_summary_is_the_job_of_the_api() {
        let totals = Totals { mpi_seconds: 3.0, observed_seconds: Some(2.0), calls: 7, ..Totals::default() };
        let job = Job {
            job_key: "slurm:1@1".into(),
            state: JobState::Silent,
            start_ms: Some(1_767_225_600_000),
            reported_ms: Some(1_767_225_690_500),
            duration_seconds: Some(1e6),
            world_size: Some(4),
            totals: Some(totals),
            ..Job::default()
        };
        let silent = Summary::from(job.clone());
        assert_eq!(silent.start.as_deref(), Some("2026-01-01T00:00:00.000000Z"));
        // Until its nodes reported last, not until now; and seconds of threads are no share of those of ranks.
        assert_eq!((silent.duration_seconds, silent.mpi_time_share), (Some(90.5), None));
        assert!(silent.is_threaded());
        let running = Summary::from(Job { state: JobState::Running, totals: None, ..job });
        assert_eq!((running.duration_seconds, running.calls, running.world_size), (Some(1e6), None, Some(4)));
        assert!(!running.is_threaded(), "nothing is known of it");
    }

    #[test]
    fn the_schedulers_name_comes_first() {
        assert_eq!(title(Some("climate"), Some("./solve")).as_deref(), Some("climate: ./solve"));
        assert_eq!(title(Some(""), Some("./solve")).as_deref(), Some("./solve"));
        assert_eq!((title(Some("climate"), None).as_deref(), title(None, None)), (Some("climate"), None));
    }
}
