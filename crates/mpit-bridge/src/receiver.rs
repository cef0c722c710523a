//! The receiver as the agent has it: one socket, many ranks, one channel of records.
//!
//! Each connection is a task of its own, so that none can hold up another; none ever waits for the agent.

use crate::accept::Registry;
use crate::frame::{FRAME_BYTES, Frame, Header, Welcome, decode};
use crate::identity::{Hello, identify};
use crate::kernel::Kernel;
use crate::outbox::Outbox;
use crate::process::{Process, peer};
use crate::rank::{Member, Moment, Rank};
use crate::socket::{BindError, Listening, accept, listen_at, receive, refuse_more, send, watch};
use crate::status::{Counters, Malformed, Reason, Status, add};
use crate::throttle::Throttle;
use crate::trace_box::{TraceBox, TraceLimits};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::wire::Batch;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Turns CLOCK_MONOTONIC nanoseconds into UTC nanoseconds.
pub type Clock = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// How often gathered records are handed to the agent: below its own second, above each frame.
const HAND_OVER: Duration = Duration::from_millis(50);
/// Messages read from one connection before others get their turn.
const TURN: u32 = 16;
/// Pause after a failed accept: mostly descriptors have run out, and that passes when ranks end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the last records may wait for the agent when it stops.
const LAST_HAND_OVER: Duration = Duration::from_secs(2);

/// How the receiver works. The defaults suit an agent; `socket` and `node` have to be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub socket: PathBuf,
    /// Mode of the socket: who may write to it may connect.
    pub mode: u32,
    /// Name of this node, for records.
    pub node: String,
    /// What shims are told.
    pub welcome: Welcome,
    /// Bounds.
    pub limits: Limits,
    /// `/proc`, or a test's folder.
    pub proc: PathBuf,
    /// What the kernel says about jobs.
    pub kernel: Kernel,
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
            kernel: Kernel::default(),
        }
    }
}

/// Bounds of the receiver, each against one way in which ranks could use up the node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ranks connected: a few jobs of one rank per hardware thread on the largest nodes.
    pub connections: usize,
    /// Of one user, so that nobody shuts others out.
    pub connections_per_user: usize,
    /// Malformed messages before a connection is closed.
    pub malformed_messages: u32,
    /// Frames read from one rank in a second; a shim sends about four.
    pub frames_per_second: u32,
    /// Time until HELLO.
    pub hello: Duration,
    /// Cells, peers and variables that wait for the agent: about 100 bytes each.
    pub pending_samples: usize,
    /// Trace mode.
    pub trace: TraceLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_user: 3072,
            malformed_messages: 16,
            frames_per_second: 100,
            hello: Duration::from_secs(10),
            pending_samples: 200_000,
            trace: TraceLimits::default(),
        }
    }
}

/// The running receiver.
#[derive(Debug)]
pub struct Receiver {
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// What all connections share.
struct Shared {
    config: Config,
    welcome: Mutex<u32>,
    clock: Clock,
    counters: Arc<Counters>,
    registry: Mutex<Registry>,
    outbox: Outbox,
    traces: TraceBox,
    stop: CancellationToken,
}

impl Receiver {
    /// Binds the socket and serves ranks until [`Receiver::stop`]. Call within a tokio runtime.
    ///
    /// # Errors
    /// The socket can't be bound.
    pub fn start(config: Config, clock: Clock, records: mpsc::Sender<Batch>) -> Result<Self, BindError> {
        let listening = listen_at(&config.socket, config.mode)?;
        allow_descriptors(config.limits.connections);
        let counters = Arc::new(Counters::default());
        let stop = CancellationToken::new();
        let limits = config.limits;
        let shared = Arc::new(Shared {
            welcome: Mutex::new(0),
            clock,
            counters: counters.clone(),
            registry: Mutex::new(Registry::new(limits.connections, limits.connections_per_user)),
            outbox: Outbox::new(limits.pending_samples, counters.clone()),
            traces: TraceBox::new(limits.trace, counters.clone(), Instant::now()),
            stop: stop.clone(),
            config,
        });
        let task = tokio::spawn(run(shared, listening, records));
        Ok(Self { counters, stop, task })
    }

    /// Its figures now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.counters.status()
    }

    /// Closes all connections, hands over what is left and closes the channel. Ranks go on and look for the
    /// next agent; their end is not recorded.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the MPI receiver ended abnormally");
        }
    }
}

/// Each rank takes a descriptor, and the usual soft limit of 1,024 would refuse a large node's ranks. Where the
/// hard limit is too low as well, accepting fails, is counted, and goes on when ranks have ended.
fn allow_descriptors(connections: usize) {
    const OTHERS: u64 = 512; // the agent's own files, sockets and libraries
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = (connections as u64 + OTHERS).min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
        tracing::debug!(soft, wanted, "the limit of open files can't be raised");
    }
}

async fn run(shared: Arc<Shared>, listening: Listening, records: mpsc::Sender<Batch>) {
    let mut connections = JoinSet::new();
    let hand_over = hand_over(&shared, &records);
    let accepting = accept_all(&shared, &listening, &mut connections);
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = accepting => {}
        () = hand_over => {}
    }
    shared.stop.cancel();
    while connections.join_next().await.is_some() {}
    let last = async {
        // The channel may be full of what the agent is still writing.
        while !(shared.outbox.is_empty() && shared.traces.is_empty()) && shared.hand_over(&records) {
            sleep(HAND_OVER / 10).await;
        }
    };
    if timeout(LAST_HAND_OVER, last).await.is_err() {
        tracing::warn!("the last records of MPI ranks were not taken within {LAST_HAND_OVER:?}");
    }
}

async fn hand_over(shared: &Shared, records: &mpsc::Sender<Batch>) {
    let mut tick = interval(HAND_OVER);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if !shared.hand_over(records) {
            return;
        }
    }
}

async fn accept_all(shared: &Arc<Shared>, listening: &Listening, connections: &mut JoinSet<()>) {
    let listener = match listening.socket.try_clone().and_then(watch) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the MPI socket can't be watched: no rank is served");
            return;
        }
    };
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(mut ready) = listener.readable().await else { return };
        match ready.try_io(|listener| accept(listener.get_ref())) {
            Ok(Ok(connection)) => admit(shared, connection, connections),
            Ok(Err(error)) => {
                shared.counters.closed(Reason::Accept);
                tracing::debug!(%error, "accepting an MPI rank failed");
                sleep(ACCEPT_PAUSE).await;
            }
            Err(_would_block) => {}
        }
    }
}

fn admit(shared: &Arc<Shared>, connection: OwnedFd, connections: &mut JoinSet<()>) {
    let Some((pid, uid)) = peer(&connection) else {
        shared.counters.closed(Reason::Unknown);
        return;
    };
    if let Err(why) = shared.registry().connect(uid) {
        shared.counters.closed(why);
        return;
    }
    let shared = shared.clone();
    connections.spawn(async move {
        if let Err(error) = serve(&shared, connection, pid, uid).await {
            tracing::debug!(%error, pid, "an MPI rank's connection failed");
        }
        shared.registry().disconnect(uid);
    });
}

thread_local! {
    /// One buffer for each worker thread, not for each rank: a message is decoded before the next await.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; FRAME_BYTES + 1]);
}

/// What one readiness of a connection led to.
enum Read {
    /// A message was read and this came of it.
    Message(Result<(), Malformed>),
    /// The peer has closed.
    Closed,
}

/// One connection, from HELLO to its end.
async fn serve(shared: &Arc<Shared>, connection: OwnedFd, pid: u32, uid: u32) -> std::io::Result<()> {
    let connection = watch(connection)?;
    let mut session = Session::new(shared.clone(), pid, uid);
    let outcome = tokio::select! {
        () = shared.stop.cancelled() => Ok(()), // the rank lives on: no end of it is recorded
        outcome = session.read_all(&connection) => {
            session.left();
            outcome
        }
    };
    session.release();
    outcome
}

/// The state of one connection.
struct Session {
    shared: Arc<Shared>,
    pid: u32,
    uid: u32,
    rank: Option<Rank>,
    hello: Option<(Header, Hello)>,
    malformed: u32,
    throttle: Throttle,
}

impl Session {
    fn new(shared: Arc<Shared>, pid: u32, uid: u32) -> Self {
        let throttle = Throttle::new(shared.config.limits.frames_per_second, Instant::now());
        Self { shared, pid, uid, rank: None, hello: None, malformed: 0, throttle }
    }

    async fn read_all(&mut self, connection: &AsyncFd<OwnedFd>) -> std::io::Result<()> {
        let limits = self.shared.config.limits;
        let patience = Instant::now() + limits.hello;
        let mut turn = 0;
        loop {
            let read = if self.rank.is_some() {
                self.read(connection).await?
            } else {
                match tokio::time::timeout_at(patience.into(), self.read(connection)).await {
                    Ok(read) => read?,
                    Err(_elapsed) => return self.close(Reason::Silent),
                }
            };
            match read {
                Read::Closed => return Ok(()),
                Read::Message(Ok(())) => {}
                Read::Message(Err(why)) => {
                    self.shared.counters.malformed(why);
                    self.malformed += 1;
                    if self.malformed >= limits.malformed_messages {
                        self.count_rest(connection.get_ref());
                        return self.close(Reason::Malformed);
                    }
                }
            }
            if let Some((header, hello)) = self.hello.take()
                && let Err(why) = self.welcome(connection, header, hello).await
            {
                return self.close(why);
            }
            turn += 1;
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
            while let Err(pause) = self.throttle.take(Instant::now()) {
                sleep(pause).await;
            }
        }
    }

    /// Counts what a given-up connection has sent already. It ends: no more can come, and the queue is short.
    fn count_rest(&self, connection: &OwnedFd) {
        refuse_more(connection);
        BUFFER.with_borrow_mut(|buffer| {
            while let Ok(length) = receive(connection, buffer) {
                let why = match buffer.get(..length).map(decode) {
                    Some(Ok(_)) if length > 0 => Malformed::GivenUp,
                    Some(Err(why)) if length > 0 => why,
                    None => Malformed::TooLong,
                    _ => break,
                };
                self.shared.counters.malformed(why);
            }
        });
    }

    fn close(&self, why: Reason) -> std::io::Result<()> {
        self.shared.counters.closed(why);
        tracing::debug!(
            pid = self.pid,
            uid = self.uid,
            reason = why.name(),
            "closed an MPI rank's connection"
        );
        Ok(())
    }

    async fn read(&mut self, connection: &AsyncFd<OwnedFd>) -> std::io::Result<Read> {
        loop {
            let mut ready = connection.readable().await?;
            let read = ready.try_io(|connection| {
                BUFFER.with_borrow_mut(|buffer| {
                    let length = receive(connection.get_ref(), buffer)?;
                    Ok(match length {
                        0 => Read::Closed,
                        _ if length > FRAME_BYTES => Read::Message(Err(Malformed::TooLong)),
                        _ => Read::Message(self.message(&buffer[..length])),
                    })
                })
            });
            match read {
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (header, frame) = decode(bytes)?;
        match (&mut self.rank, frame) {
            (None, Frame::Hello(fields)) => self.hello = Some((header, Hello::read(&fields)?)),
            (None, _) => return Err(Malformed::NoHello),
            (Some(rank), frame) => {
                let mut batch = rank.take(header, frame, self.shared.moment())?;
                self.shared.traces.take(&mut batch, Instant::now());
                self.shared.outbox.put(batch);
            }
        }
        add(&self.shared.counters.frames, 1);
        Ok(())
    }

    /// Finds out whose rank it is and answers it.
    async fn welcome(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        header: Header,
        hello: Hello,
    ) -> Result<(), Reason> {
        // Names of users may come over the network, and /proc of a dying process may take its time.
        let (shared, pid, uid) = (self.shared.clone(), self.pid, self.uid);
        let found = tokio::task::spawn_blocking(move || {
            let config = &shared.config;
            let process = Process::read(&config.proc, pid, uid);
            let identity = identify(&hello, &process, &config.node, &config.kernel);
            identity.map(|identity| Member::new(identity, hello, process, &config.node, shared.moment().utc))
        });
        let member = found.await.map_err(|_| Reason::Unknown)?.map_err(|_| Reason::WrongJob)?;
        let job = self.shared.registry().join(&member)?;
        let rank = Rank::new(member, header, self.shared.counters.clone());
        let ranks = vec![rank.beginning()];
        self.shared.outbox.put(Batch {
            jobs: job.into_iter().collect(),
            job_ranks: ranks,
            ..Batch::default()
        });
        self.rank = Some(rank);
        add(&self.shared.counters.connected, 1);
        let answer = self.shared.answer();
        // A shim that can't take it goes on with its own settings.
        let _ = send(connection.get_ref(), &answer);
        Ok(())
    }

    /// The rank has gone: its end, and the job's if it was the last.
    fn left(&mut self) {
        let Some(rank) = &self.rank else { return };
        let now = self.shared.moment().utc;
        let job = self.shared.registry().leave(rank.member(), now);
        if let Some(job) = &job {
            self.shared.traces.forget(&job.key);
        }
        let ranks = vec![rank.ending(now)];
        self.shared.outbox.put(Batch {
            jobs: job.into_iter().collect(),
            job_ranks: ranks,
            ..Batch::default()
        });
    }

    fn release(&mut self) {
        if self.rank.take().is_some() {
            self.shared.counters.connected.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inventory first, as trace records refer to their job. Returns false once the agent's end is closed.
    fn hand_over(&self, records: &mpsc::Sender<Batch>) -> bool {
        self.outbox.flush(records) && self.traces.flush(records)
    }

    fn moment(&self) -> Moment {
        let monotonic = monotonic();
        Moment { monotonic, utc: (self.clock)(monotonic) }
    }

    fn answer(&self) -> Vec<u8> {
        let now = self.moment();
        let mut sequence = self.welcome.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence = sequence.wrapping_add(1);
        self.config.welcome.encode(*sequence, now.monotonic, now.utc)
    }
}

fn monotonic() -> i64 {
    // Linux always has this clock; 0 would show at once.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}
