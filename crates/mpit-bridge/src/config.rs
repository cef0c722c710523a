//! How the receiver works: what the agent sets, and the bounds that hold whatever ranks do.

use crate::kernel::Kernel;
use crate::quota::QuotaLimits;
use crate::trace_box::TraceLimits;
use crate::welcome::Welcome;
use crate::window::WindowLimits;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Called when the first rank of a job is there, and when the last one has gone: quick, and from any thread.
#[derive(Clone)]
pub struct JobEdge(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl JobEdge {
    /// Calls this function.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl Default for JobEdge {
    /// Notifies nobody.
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl fmt::Debug for JobEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobEdge")
    }
}

/// How the receiver works. The defaults suit an agent; `socket` and `node` have to be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub socket: PathBuf,
    /// Mode of the socket: who may write to it may connect.
    pub mode: u32,
    /// Name of this node, for records.
    pub node: String,
    /// What shims receive.
    pub welcome: Welcome,
    /// Bounds.
    pub limits: Limits,
    /// `/proc`, or a test's folder.
    pub proc: PathBuf,
    /// `/sys`, or a test's folder.
    pub sys: PathBuf,
    /// Which users have ids of their own to hand out: all of one range count as one user. Read at the start.
    pub subuid: PathBuf,
    /// What the kernel reports about jobs.
    pub kernel: Kernel,
    /// Where what is known of ranks waits for the next agent; nowhere if `None`.
    pub state: Option<PathBuf>,
    /// Identity of this boot: ranks of an earlier one are gone.
    pub boot_id: String,
    /// Reported when a job begins or ends here.
    pub job_edge: JobEdge,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/run/throughline/mpi.sock"),
            mode: 0o666,
            node: String::new(),
            welcome: Welcome::default(),
            limits: Limits::default(),
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            subuid: PathBuf::from("/etc/subuid"),
            kernel: Kernel::default(),
            state: None,
            boot_id: String::new(),
            job_edge: JobEdge::default(),
        }
    }
}

/// Bounds of the receiver, each against one way in which ranks could use up the node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ranks connected: a few jobs of one rank per hardware thread on the largest nodes. One user has at most as many
    /// as are still free, so half of them where he is alone, and nobody shuts others out.
    pub connections: usize,
    /// Malformed messages before a connection is closed.
    pub malformed_messages: u32,
    /// Frames read from one rank in a second; a shim sends about four.
    pub frames_per_second: u32,
    /// Time until HELLO.
    pub hello: Duration,
    /// How long a rank that lost its connection and runs may take to connect anew: longer than a shim's longest
    /// pause of 30 s.
    pub reconnect: Duration,
    /// Of users and jobs.
    pub quota: QuotaLimits,
    /// Times of records.
    pub window: WindowLimits,
    /// Trace mode.
    pub trace: TraceLimits,
    /// Cells in records of traffic by operation, of all jobs together in a second; more come at longer intervals.
    pub traffic_cells_per_second: u32,
    /// Shortest time between two sets of such records of a job, seconds; they come at its whole multiples in UTC.
    pub traffic_seconds: u32,
    /// After so many seconds records have all cells of a job, whether they changed or not.
    pub repeat_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            malformed_messages: 16,
            frames_per_second: 100,
            hello: Duration::from_secs(10),
            reconnect: Duration::from_secs(45),
            quota: QuotaLimits::default(),
            window: WindowLimits::default(),
            trace: TraceLimits::default(),
            traffic_cells_per_second: 200,
            traffic_seconds: 1,
            repeat_seconds: 86_400,
        }
    }
}
