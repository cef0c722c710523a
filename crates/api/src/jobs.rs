//! Jobs: lists, one job with its parts, and what a name means.

mod contests;
mod gpus;
mod traffic;

pub use crate::as_of::{AsOf, NodeBehind};
pub use contests::{ContestedFact, ContestedRanks, FactVersion, JobContests};
pub use gpus::{JobGpu, JobGpus};
pub use traffic::{JobLinkPeaks, JobPairs, JobTraffic, LinkPeak, NodePairs, Pair, PairColumns, Traffic};

use crate::JobState;
use crate::verdicts::JobVerdict;
use serde::{Deserialize, Serialize};

/// `GET /job-names/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobName {
    /// Key of the job that the name means.
    pub job_key: String,
}

/// A job in a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// `scheduler:[cluster:]id[.step]@uid`, or `local:…`.
    pub job_key: String,
    /// slurm, pbs, lsf, flux or local.
    pub scheduler: Option<String>,
    /// The Slurm cluster, where it is known: another one numbers its jobs alike.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The scheduler's own id.
    pub native_id: Option<String>,
    /// The step in it.
    pub step: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// Its name, as the scheduler has it.
    pub name: Option<String>,
    /// Account or project.
    pub account: Option<String>,
    /// Partition or queue.
    pub queue: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// Its state.
    pub state: JobState,
    /// When it began, milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// When its last rank ended.
    pub end_ms: Option<i64>,
    /// When one of its nodes last reported on it, by the database's clock.
    pub reported_ms: Option<i64>,
    /// To its end or now.
    pub duration_seconds: Option<f64>,
    /// Ranks observed.
    pub ranks: u64,
    /// Ranks that it has by its own account.
    pub world_size: Option<u64>,
    /// Nodes on which ranks were observed.
    pub nodes: u64,
    /// Ranks that run.
    pub ranks_running: u64,
    /// Ranks that ended without MPI_Finalize.
    pub ranks_lost: u64,
    /// Ranks whose nodes went away.
    pub ranks_silent: u64,
    /// Ranks that several nodes say they run: in no other count, total or verdict until it is known which one does.
    #[serde(default)]
    pub ranks_contested: u64,
    /// Facts of it that are null because its nodes disagree: user_name, command, world_size, name, account, queue, array_id.
    #[serde(default)]
    pub contested_facts: Vec<String>,
    /// The node that alone reports it; null where several do.
    #[serde(default)]
    pub only_node: Option<String>,
    /// The most important thing that is said of it now, a kind of [`crate::verdicts::JobVerdict`]; null before it is judged.
    #[serde(default)]
    pub verdict: Option<String>,
    /// Sums of its MPI operations; null where they were not requested or there are no rows.
    pub totals: Option<Totals>,
    /// As of when sums and operations of a running job are; null of one that has ended, where they are final, and where they were not
    /// requested or nothing is known yet.
    #[serde(default)]
    pub as_of: Option<AsOf>,
}

impl Job {
    /// The scheduler's name for it, then what runs; `None` where neither is known.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        match (self.name.as_deref().filter(|name| !name.is_empty()), self.command.as_deref()) {
            (Some(name), Some(command)) => Some(format!("{name}: {command}")),
            (name, command) => name.or(command).map(str::to_owned),
        }
    }

    /// How long it is known to have run: of a silent job until its nodes reported last, not until now.
    #[must_use]
    pub fn lasted_seconds(&self) -> Option<f64> {
        let silent_since =
            self.reported_ms.filter(|_| self.state == JobState::Silent && self.end_ms.is_none());
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let until_silent =
            self.start_ms.zip(silent_since).map(|(start, last)| (last - start).max(0) as f64 / 1e3);
        until_silent.or(self.duration_seconds)
    }

    /// Time inside MPI, summed over ranks.
    #[must_use]
    pub fn mpi_seconds(&self) -> Option<f64> {
        self.totals.map(|totals| totals.mpi_seconds)
    }

    /// Time that the ranks were observed, summed.
    #[must_use]
    pub fn observed_seconds(&self) -> Option<f64> {
        self.totals.and_then(|totals| totals.observed_seconds)
    }

    /// The share of the ranks' time that was inside MPI, see [`mpi_time_share`].
    #[must_use]
    pub fn mpi_time_share(&self) -> Option<f64> {
        mpi_time_share(self.mpi_seconds()?, self.observed_seconds()?)
    }

    /// Whether threads of one rank were inside MPI at the same time: its seconds are those of threads, not of ranks.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.observed_seconds().is_some_and(|all| all > 0.0) && self.mpi_time_share().is_none()
    }
}

/// Sums of MPI operations over the ranks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls of all operations.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Inside MPI, summed over ranks.
    pub mpi_seconds: f64,
    /// Time that the ranks were observed, summed.
    pub observed_seconds: Option<f64>,
    /// The first divided by the second, at most 1; null where threads of one rank were inside at the same time, see
    /// [`mpi_time_share`].
    pub mpi_time_share: Option<f64>,
}

/// Up to here time inside MPI may exceed the time of the ranks by what their readings are apart; beyond it several
/// threads of a rank were inside at the same time.
const SINGLE_THREAD_MAX: f64 = 1.05;
/// Ranks push each second.
const BIN_SECONDS: f64 = 1.0;

/// The share of the ranks' time that was inside MPI, from seconds of both: at most 1. `None` where nothing was observed, and
/// where threads of one rank were inside at the same time: seconds of threads are no part of seconds of ranks.
#[must_use]
pub fn mpi_time_share(mpi_seconds: f64, observed_seconds: f64) -> Option<f64> {
    let is_share = observed_seconds > 0.0 && mpi_seconds <= observed_seconds * SINGLE_THREAD_MAX;
    is_share.then(|| (mpi_seconds / observed_seconds).min(1.0))
}

/// As [`mpi_time_share`], from rates: `mpi_seconds_per_second` of so many ranks over a window of so many seconds. The edges of a
/// window are known to a bin of a second, so that a rank with one thread may have been inside for that much more than the window.
#[must_use]
pub fn mpi_rate_share(mpi_seconds_per_second: f64, ranks: f64, window_seconds: f64) -> Option<f64> {
    let single_thread_max = SINGLE_THREAD_MAX.max(1.0 + BIN_SECONDS / window_seconds.max(BIN_SECONDS));
    let is_share = ranks > 0.0 && mpi_seconds_per_second <= ranks * single_thread_max;
    is_share.then(|| (mpi_seconds_per_second / ranks).min(1.0))
}

/// `GET /jobs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Jobs {
    /// Time of the list.
    pub as_of_ms: i64,
    /// Jobs that fit, of all pages; null but for live ones.
    pub total: Option<usize>,
    /// One page of them.
    pub jobs: Vec<Job>,
    /// Parameter `next` of the following request; null in the last page.
    pub next: Option<String>,
}

/// `GET /jobs/{job}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDetail {
    /// The job, with totals.
    pub job: Job,
    /// First lines of what its MPI libraries say of themselves.
    pub libraries: Vec<String>,
    /// By the smallest rank on them.
    pub hosts: Vec<JobHost>,
    /// How many starts of ranks ended in which way.
    pub endings: Vec<Ending>,
    /// The rank that ended first without MPI_Finalize; null where none did.
    #[serde(default)]
    pub first_lost: Option<LostRank>,
    /// Settings of its MPI libraries that decide what they do, by name.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// What its nodes report against each other.
    #[serde(default)]
    pub contests: JobContests,
    /// Kinds of matrices that there are: logical, wire.
    pub matrices: Vec<String>,
    /// Over all ranks, those with the most time first.
    pub operations: Vec<Operation>,
    /// Calls that go on for a second or more, or in which ranks were killed, those with most ranks first; not part of
    /// `operations`.
    #[serde(default)]
    pub open_calls: Vec<OpenCalls>,
    /// What is said of it now, the most important one first; empty before it is judged.
    #[serde(default)]
    pub verdicts: Vec<JobVerdict>,
}

/// Ranks of a job that are in the same MPI call, or were killed in it: one that has not returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenCalls {
    /// MPI name without the prefix.
    pub operation: String,
    /// `MPI_COMM_WORLD`, or the name that the program gave the communicator; null where it has none, or none is known.
    pub comm: Option<String>,
    /// Members of the communicator; null where they are not known.
    pub comm_size: Option<i32>,
    /// Ranks that are in it.
    pub ranks: u64,
    /// The smallest of them.
    pub examples: Vec<i32>,
    /// The largest of them.
    pub last_rank: Option<i32>,
    /// Ranks in MPI_COMM_WORLD that their calls name: destinations, sources or roots; a few of them.
    pub peers: Vec<i32>,
    /// The longest goes on for so long, or went on until the last report of a rank that has ended.
    pub longest_seconds: f64,
    /// The shortest.
    pub shortest_seconds: f64,
    /// Pending requests of a rank, at most.
    pub pending_requests: i32,
    /// The operation that began the request that one waits for, of several its oldest; null where there is none.
    pub oldest_request: Option<String>,
    /// Rank in MPI_COMM_WORLD that this request names.
    pub oldest_peer: Option<i32>,
    /// Tag that it names; null: any, or it has none.
    pub oldest_tag: Option<i32>,
    /// Tags of their messages; a few of them.
    pub tags: Vec<i32>,
    /// They call it again and again, and it finds nothing: each call has returned, and is counted.
    pub is_counted: bool,
    /// These ranks have ended in it.
    pub have_ended: bool,
}

/// A node of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHost {
    /// Its name.
    pub host: String,
    /// Ranks on it.
    pub ranks: usize,
    /// The smallest of them.
    pub first_rank: i32,
    /// The largest of them.
    pub last_rank: i32,
}

/// The rank that ended first without MPI_Finalize. Others mostly follow, as their launcher ends them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostRank {
    /// Its number.
    pub rank: i32,
    /// Its node.
    pub host: String,
    /// When it ended, milliseconds since 1970, by the clock of its node.
    pub end_ms: i64,
    /// MPI call of half a second or more in which it ended; null where none is known.
    pub operation: Option<String>,
    /// How long it was in that call.
    pub operation_seconds: Option<f64>,
    /// Ranks that ended without MPI_Finalize, itself included.
    pub ranks: u64,
    /// When the next of them ended after it; null where it is the only one.
    pub next_after_seconds: Option<f64>,
}

/// A setting of an MPI library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As the library names it.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Starts of ranks that ended in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// clean, lost, unseen, silent (`job_rank.ending`) or running.
    pub ending: String,
    /// How many.
    pub ranks: u64,
    /// The smallest of them.
    pub examples: Vec<i32>,
}

/// One MPI operation of a job over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// MPI name without the prefix.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// What receives got; null where nothing was received.
    pub received_bytes: Option<u64>,
    /// Inside it, summed over ranks.
    pub elapsed_seconds: f64,
    /// Its part of all time inside MPI.
    pub time_share: Option<f64>,
    /// From the return of the call that began it to its completion, summed.
    pub wait_seconds: Option<f64>,
    /// Longest single call.
    pub longest_seconds: Option<f64>,
    /// By size class, the smallest first.
    pub sizes: Vec<OperationSize>,
    /// By what the library did inside, most time first.
    pub algorithms: Vec<OperationAlgorithm>,
}

/// One size class of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationSize {
    /// Largest message of the class, bytes.
    pub size_class_bytes: u64,
    /// Calls.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Inside.
    pub elapsed_seconds: f64,
    /// Names of what the library did inside, where it is known.
    #[serde(default)]
    pub algorithms: Vec<String>,
}

/// One algorithm of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationAlgorithm {
    /// As the MPI library names it; empty where it is not known.
    pub algorithm: String,
    /// observed, pvar, forced or unknown.
    pub source: String,
    /// Calls.
    pub calls: u64,
    /// Inside.
    pub elapsed_seconds: f64,
}

/// `GET /jobs/{job}/ranks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRanks {
    /// The job's key.
    pub job_key: String,
    /// By the smallest rank on them.
    pub hosts: Vec<String>,
    /// Columns of one length, one element a rank.
    pub ranks: RankColumns,
    /// As of when its figures are while the job runs: rows of ranks come less often than sums of nodes. Null of one that has ended.
    #[serde(default)]
    pub as_of: Option<AsOf>,
}

/// The ranks of a job in columns; of a rank that was started again the last start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankColumns {
    /// In MPI_COMM_WORLD.
    pub rank: Vec<i32>,
    /// Place in `hosts`.
    pub host: Vec<usize>,
    /// When MPI_Init ended.
    pub start_ms: Vec<i64>,
    /// When it ended.
    pub end_ms: Vec<Option<i64>>,
    /// clean, lost, unseen or silent.
    pub ending: Vec<Option<String>>,
    /// UUIDs of its GPUs.
    pub gpus: Vec<Option<Vec<String>>>,
    /// DEVICE/PORT of its adapter ports.
    pub ports: Vec<Option<Vec<String>>>,
    /// CPUs that it might run on.
    pub cpus: Vec<Option<String>>,
    /// Calls; null where it sent nothing.
    pub calls: Vec<Option<i64>>,
    /// What it passed to send.
    pub bytes: Vec<Option<i64>>,
    /// Inside MPI.
    pub mpi_seconds: Vec<Option<f64>>,
    /// From MPI_Init to its end, or to the time that its figures are as of.
    pub observed_seconds: Vec<Option<f64>>,
    /// The operation that it has been in for a second or more, or was killed in; null where there is none.
    #[serde(default)]
    pub open_operation: Vec<Option<String>>,
    /// How long.
    #[serde(default)]
    pub open_seconds: Vec<Option<f64>>,
}

/// `GET /jobs/{job}/regions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRegions {
    /// The job's key.
    pub job_key: String,
    /// Those with the most MPI time first.
    pub regions: Vec<Region>,
    /// The same as a tree: each path after the one around it; beside each other those with the most time first.
    #[serde(default)]
    pub paths: Vec<RegionPath>,
    /// Paths that are left out, with less time than those listed.
    #[serde(default)]
    pub paths_left_out: u64,
    /// As of when these figures are while the job runs, as in [`JobRanks`].
    #[serde(default)]
    pub as_of: Option<AsOf>,
}

/// The regions that threads of a program were in, from the outermost to the innermost one, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionPath {
    /// Their names.
    pub path: Vec<String>,
    /// Ranks that were in it.
    pub ranks: u64,
    /// How often its innermost region was entered from the path around it.
    pub visits: u64,
    /// Inclusive time: in it, paths within included, summed over ranks and threads.
    pub elapsed_seconds: f64,
    /// Exclusive time: in it and in no path within.
    pub own_seconds: f64,
    /// MPI calls in the inclusive time.
    pub mpi_calls: u64,
    /// Time inside them.
    pub mpi_seconds: f64,
    /// MPI calls in the exclusive time.
    pub own_mpi_calls: u64,
    /// Time inside them.
    pub own_mpi_seconds: f64,
}

/// One annotated region of a program over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub region: String,
    /// Ranks that entered it.
    pub ranks: u64,
    /// How often it was entered.
    pub visits: u64,
    /// Time in it, summed over ranks.
    pub elapsed_seconds: f64,
    /// MPI calls in it and in no inner region.
    pub mpi_calls: Option<u64>,
    /// Time inside them.
    pub mpi_seconds: Option<f64>,
}

/// `GET /job-rates`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRates {
    /// When it was read, by the database's clock.
    pub as_of_ms: i64,
    /// Time over which rates are taken, up to each job's newest row.
    pub window_seconds: f64,
    /// Jobs that sent something within the last minute, the newest 1,000.
    pub jobs: Vec<JobRate>,
}

/// What a running job does with MPI now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRate {
    /// `scheduler:[cluster:]id[.step]@uid`, or `local:…`.
    pub job_key: String,
    /// Its name, as the scheduler has it.
    pub name: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// Ranks observed.
    pub ranks: i64,
    /// Nodes on which ranks were observed.
    pub nodes: i64,
    /// Since its start.
    pub running_seconds: Option<f64>,
    /// Age of its newest row.
    pub age_seconds: f64,
    /// Calls.
    pub calls_per_second: f64,
    /// What callers passed to send.
    pub bytes_per_second: f64,
    /// Seconds inside MPI of all ranks in each second.
    pub mpi_seconds_per_second: f64,
    /// The same as a share of the ranks' time, at most 1; null where threads of one rank were inside at the same time, see
    /// [`mpi_rate_share`]: then the seconds of each second are the number of threads that were inside.
    pub mpi_time_share: Option<f64>,
    /// Where most of the MPI time went.
    pub top_operation: Option<String>,
    /// Its part of the MPI time.
    pub top_operation_share: Option<f64>,
    /// The call that has gone on for longest, if for a second or more.
    #[serde(default)]
    pub open_call: Option<OpenCalls>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_job_lasted_until_its_nodes_reported_last() {
        let totals = Totals { mpi_seconds: 3.0, observed_seconds: Some(2.0), calls: 7, ..Totals::default() };
        let silent = Job {
            state: JobState::Silent,
            start_ms: Some(1_767_225_600_000),
            reported_ms: Some(1_767_225_690_500),
            duration_seconds: Some(1e6),
            totals: Some(totals),
            ..Job::default()
        };
        assert_eq!(silent.lasted_seconds(), Some(90.5));
        // Seconds of threads are no share of those of ranks.
        assert_eq!((silent.mpi_time_share(), silent.is_threaded()), (None, true));
        let running = Job { state: JobState::Running, totals: None, ..silent };
        assert_eq!((running.lasted_seconds(), running.mpi_seconds()), (Some(1e6), None));
        assert!(!running.is_threaded(), "nothing is known of it");
    }

    #[test]
    fn the_schedulers_name_comes_first() {
        let title = |name: Option<&str>, command: Option<&str>| {
            let job = Job { name: name.map(Into::into), command: command.map(Into::into), ..Job::default() };
            job.title()
        };
        assert_eq!(title(Some("climate"), Some("./solve")).as_deref(), Some("climate: ./solve"));
        assert_eq!(title(Some(""), Some("./solve")).as_deref(), Some("./solve"));
        assert_eq!((title(Some("climate"), None).as_deref(), title(None, None)), (Some("climate"), None));
    }
}
