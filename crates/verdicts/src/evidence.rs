//! What is known of a job, as verdicts need it. What is not known is absent, never 0: a verdict that needs it stays silent.

use crate::SECONDS_MIN;
use crate::account::RankTimes;
use crate::statistics::median;

/// A job over the time that is judged.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Its name for people: the scheduler's id, or its key.
    pub job: String,
    /// Whether it runs.
    pub is_running: bool,
    /// How long it has run, seconds.
    pub seconds: f64,
    /// Ranks by its own account, those without any report included.
    pub world_size: u32,
    /// In the order of their numbers.
    pub ranks: Vec<Rank>,
    /// By operation and size class.
    pub operations: Vec<Operation>,
    /// By operation, where links are known.
    pub ideals: Vec<IdealTime>,
    /// By region and rank.
    pub regions: Vec<Region>,
    /// Calls that go on, or in which their ranks ended.
    pub open_calls: Vec<OpenCall>,
    /// What of the time in MPI was waiting for other ranks; absent where it was not measured.
    pub waiting: Option<Waiting>,
    /// Directions of links on its way, with who else is there.
    pub links: Vec<Link>,
    /// Bytes between ranks, and where these are; absent where either is not known.
    pub traffic: Option<Traffic>,
    /// Links between GPUs of its hosts.
    pub gpu_links: Vec<GpuLink>,
    /// The last run before of the same command, by the same user, with as many ranks.
    pub before: Option<EarlierRun>,
}

/// A rank of MPI_COMM_WORLD.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Where it runs.
    pub host: String,
    /// It has ended; how, if it did not by itself: lost, silent or unseen.
    pub ending: Option<String>,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Seconds from MPI_Init to its end or last report.
    pub observed_seconds: f64,
    /// Of these, seconds in MPI; at most all of them, whatever threads it has.
    pub mpi_seconds: f64,
    /// Of these in receives and probes that wait.
    pub receive_seconds: f64,
    /// What its thread did in the observed time; absent where its shim does not report it.
    pub times: Option<RankTimes>,
    /// It is stopped by a signal, for so many seconds.
    pub stopped_seconds: Option<f64>,
    /// When it ended, milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// CPUs that it may run on, by number.
    pub cpus: Vec<u32>,
    /// What the kernel counted of it.
    pub scheduling: Option<Scheduling>,
    /// Part of a core that it used in the last minute.
    pub recent_cpu_share: Option<f64>,
    /// Clock of its CPUs, hertz.
    pub cpu_hertz: Option<f64>,
    /// Its CPUs and its adapter are on different sockets.
    pub is_far_from_adapter: Option<bool>,
    /// Speed of its host's adapter port, bytes per second.
    pub port_bytes_per_second: Option<f64>,
    /// Errors of that port's link in the time that is judged.
    pub port_errors: Option<u64>,
    /// Speed of its GPU's active links, all together, bytes per second; of several GPUs the least.
    pub gpu_link_bytes_per_second: Option<f64>,
    /// Errors of these links in the time that is judged, those of all its GPUs.
    pub gpu_link_errors: Option<u64>,
    /// The last report in the time that is judged that heat or a limit of its board slows its GPU down.
    pub gpu_slowed: Option<String>,
    /// Ranks, of other jobs too, that are bound to each of its CPUs, in the mean; one that may run on several CPUs counts as a
    /// part of one on each.
    pub ranks_a_cpu: Option<f64>,
    /// Other jobs with ranks that are bound to its CPUs; some of them where they are many.
    pub cpus_shared_with: Vec<String>,
}

/// What the kernel counted of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduling {
    /// Seconds in which it ran.
    pub cpu_seconds: f64,
    /// Seconds in which it could have run and waited for a core.
    pub runqueue_wait_seconds: f64,
}

/// An operation's calls of one size class, summed over ranks.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// MPI name without the prefix.
    pub operation: String,
    /// Largest message of the class, bytes.
    pub size_class_bytes: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes handed over.
    pub bytes: u64,
    /// Time in it.
    pub seconds: f64,
}

/// How long an operation's bytes take at best.
#[derive(Clone, Debug, Default)]
pub struct IdealTime {
    /// MPI name without the prefix.
    pub operation: String,
    /// Seconds that what it put on the ports of its hosts takes at these ports' speed, summed over ranks.
    pub seconds: f64,
}

/// A region's time on one rank.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Its name.
    pub region: String,
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Time in it without regions inside and without MPI.
    pub compute_seconds: f64,
}

/// A call that goes on, or in which its rank ended.
#[derive(Clone, Debug, Default)]
pub struct OpenCall {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI name without the prefix.
    pub operation: String,
    /// `MPI_COMM_WORLD`, or the name that the program gave.
    pub comm: Option<String>,
    /// Members of the communicator.
    pub comm_size: Option<u32>,
    /// Rank that the call names.
    pub peer: Option<u32>,
    /// It takes a message of any source.
    pub is_from_any: bool,
    /// Tag of its message; `None`: any, or it has none.
    pub tag: Option<u32>,
    /// Requests that it waits for or tests.
    pub requests: u32,
    /// Requests of its thread that are pending.
    pub pending_requests: u32,
    /// What began the one that it waits for, of several the thread's oldest.
    pub oldest_request: Option<String>,
    /// Rank that this one names.
    pub oldest_peer: Option<u32>,
    /// Tag that this one names.
    pub oldest_tag: Option<u32>,
    /// It is a row of tests or probes that find nothing, so that the thread may do something else between two of them.
    pub is_counted: bool,
    /// Threads of its rank that have called MPI and are in none of these calls.
    pub threads_elsewhere: u32,
    /// Threads of its rank that may call MPI and have not.
    pub threads_to_come: u32,
    /// How long it goes on.
    pub seconds: f64,
    /// Its rank has ended in it.
    pub has_ended: bool,
}

impl OpenCall {
    /// It waits for requests.
    pub(crate) fn is_wait(&self) -> bool {
        ["wait", "test", "start"].iter().any(|prefix| self.operation.starts_with(prefix))
    }
}

/// Time in MPI that was waiting for other ranks.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// By operation, seconds summed over ranks.
    pub operations: Vec<OperationWaiting>,
    /// Who arrived last at collectives.
    pub last_arrivals: Vec<LastArrival>,
}

/// Waiting within an operation.
#[derive(Clone, Debug, Default)]
pub struct OperationWaiting {
    /// MPI name without the prefix.
    pub operation: String,
    /// Seconds, all kinds of waiting.
    pub seconds: f64,
    /// At least.
    pub low_seconds: f64,
    /// At most.
    pub high_seconds: f64,
}

/// How often a rank was the last one at a communicator's collectives.
#[derive(Clone, Debug, Default)]
pub struct LastArrival {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Part of the calls in which it was the last.
    pub share: f64,
    /// Seconds that the others waited for it, summed over them.
    pub waited_seconds: f64,
}

/// One direction of a link on the job's way.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// `leaf1[5] → spine1[1]`.
    pub name: String,
    /// Bytes per second that it carries.
    pub bytes_per_second: f64,
    /// The links between the same kinds of nodes at its switch; absent where there are fewer than two others.
    pub peers: Option<Peers>,
    /// Errors in the time that is judged that make data be sent again or be lost.
    pub errors: Option<u64>,
    /// What all together were sent over it in the time that is judged.
    pub packets: Option<u64>,
    /// Windows in which the job has a share.
    pub windows: Vec<LinkWindow>,
}

/// Links that a link is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peers {
    /// Bytes per second that the middle one carries, the link itself among them.
    pub bytes_per_second: f64,
    /// How many others are as slow as the link or slower.
    pub as_slow: usize,
}

impl Peers {
    /// The peers of a link of this speed; `speeds` has all of its kind, the link among them, bytes per second. `None` with
    /// fewer than three.
    #[must_use]
    pub fn of(own: f64, speeds: &[f64]) -> Option<Self> {
        if speeds.len() < 3 {
            return None;
        }
        let as_slow = speeds.iter().filter(|speed| **speed <= own).count().saturating_sub(1);
        Some(Self { bytes_per_second: median(speeds.iter().copied())?, as_slow })
    }
}

/// A window of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkWindow {
    /// Begin, milliseconds since 1970.
    pub from_ms: i64,
    /// Its length, seconds.
    pub seconds: f64,
    /// Bytes that the port counted.
    pub counted: f64,
    /// Part of the time in which the port had data and could not send; absent where it was not read.
    pub wait_ratio: Option<f64>,
    /// The job's own parts, by operation.
    pub own: Vec<Contribution>,
    /// What others have, the largest first.
    pub others: Vec<Contribution>,
}

/// A part of what a link carried.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    /// Of the job itself: the operation. Of others: for people, `alltoall of job 4711 (alice)`.
    pub name: String,
    /// The other's job.
    pub job: Option<String>,
    /// Bytes.
    pub bytes: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Who sends how much to whom, and how far apart they are.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Bytes from rank to rank.
    pub pairs: Vec<(u32, u32, f64)>,
    /// Place of each rank's host, by rank: number of the host.
    pub hosts: Vec<u32>,
    /// The switch that each host is connected to, by the number of the host; empty where the fabric is not known.
    pub leaves: Vec<u32>,
}

/// A link of a GPU.
#[derive(Clone, Debug, Default)]
pub struct GpuLink {
    /// The host.
    pub host: String,
    /// The GPU on it.
    pub gpu: u32,
    /// The link of the GPU.
    pub link: u32,
    /// The GPU at its other end; absent for a switch.
    pub peer_gpu: Option<u32>,
    /// Mean bytes per second.
    pub transmit: f64,
    /// Mean bytes per second.
    pub receive: f64,
    /// What it carries in each direction, bytes per second.
    pub bytes_per_second: f64,
}

/// An earlier run.
#[derive(Clone, Debug, Default)]
pub struct EarlierRun {
    /// Its name for people.
    pub job: String,
    /// How long it ran.
    pub seconds: f64,
    /// CPUs of each rank.
    pub cpus: Vec<(u32, Vec<u32>)>,
    /// Its operations.
    pub operations: Vec<Operation>,
}

impl Evidence {
    /// Time of all ranks together, seconds.
    #[must_use]
    pub fn rank_seconds(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.observed_seconds).sum()
    }

    /// Time of all ranks in MPI, seconds.
    #[must_use]
    pub fn mpi_seconds(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.mpi_seconds).sum()
    }

    /// Whether each rank was observed for as long as a verdict that is certain needs.
    #[must_use]
    pub fn has_seen_enough(&self) -> bool {
        self.ranks.iter().all(|rank| rank.has_ended || rank.observed_seconds >= SECONDS_MIN)
    }

    /// Seconds of waiting in an operation; `None` where it was not measured.
    #[must_use]
    pub fn waiting_in(&self, operation: &str) -> Option<f64> {
        let waiting = self.waiting.as_ref()?;
        Some(waiting.operations.iter().filter(|one| one.operation == operation).map(|one| one.seconds).sum())
    }

    /// Seconds in an operation without what is known to be waiting.
    #[must_use]
    pub fn transfer_in(&self, operation: &str) -> f64 {
        (self.seconds_in(operation) - self.waiting_in(operation).unwrap_or(0.0)).max(0.0)
    }

    /// Seconds in an operation, all size classes.
    #[must_use]
    pub fn seconds_in(&self, operation: &str) -> f64 {
        self.operations.iter().filter(|one| one.operation == operation).map(|one| one.seconds).sum()
    }
}

impl Rank {
    /// Time outside of MPI, seconds.
    #[must_use]
    pub fn outside_seconds(&self) -> f64 {
        self.times.map_or((self.observed_seconds - self.mpi_seconds).max(0.0), |times| times.outside())
    }

    /// Seconds that it waited for a core: outside of MPI where that is known, as a rank that waits for others in MPI loses nothing by it.
    #[must_use]
    pub fn queued_seconds(&self) -> Option<f64> {
        self.times.map(|times| times.queued).or_else(|| Some(self.scheduling?.runqueue_wait_seconds))
    }

    /// The least that a CPU quota kept it from running.
    #[must_use]
    pub fn throttled_seconds(&self) -> f64 {
        self.times.map_or(0.0, |times| times.throttled.min(times.queued + times.queued_in_mpi))
    }

    /// Part of its time that it waited for a core. Where a quota made most of that, there is no shortage of cores.
    #[must_use]
    pub fn runqueue_share(&self) -> Option<f64> {
        let queued = self.queued_seconds()?;
        let all = self.times.map_or(queued, |times| times.queued + times.queued_in_mpi);
        let queued = if self.throttled_seconds() > all / 2.0 { 0.0 } else { queued };
        (self.observed_seconds > 0.0).then(|| queued / self.observed_seconds)
    }
}

impl LinkWindow {
    /// What was counted as a part of what the link carries.
    #[must_use]
    pub fn utilisation(&self, bytes_per_second: f64) -> f64 {
        if bytes_per_second > 0.0 && self.seconds > 0.0 {
            self.counted / self.seconds / bytes_per_second
        } else {
            0.0
        }
    }
}
