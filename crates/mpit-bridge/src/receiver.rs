//! The receiver as the agent has it: one socket, many ranks, one channel of records.
//!
//! Each connection is a task of its own, so that none can hold up another; none ever waits for the agent.

use crate::accounts::Accounts;
use crate::bypass::Bypasses;
use crate::config::Config;
use crate::cpus::Topology;
use crate::jobs::{AwaitedRank, UNSEEN};
use crate::last_totals::Folder;
use crate::ledger::{Ledger, until_round};
use crate::member::RankKey;
use crate::outbox::Outbox;
use crate::pipe::Pipe;
use crate::process::{handle, opener, start_of};
use crate::quota::Quotas;
use crate::rank_gpus::Look;
use crate::scheduling;
use crate::session;
use crate::shared::{Clock, ClockOf, End, ReceiverState};
use crate::socket::{BindError, Listening, accept, listen_at, watch};
use crate::status::{Counters, Quota, Reason, Status, add};
use crate::trace_box::TraceBox;
use crate::variables::AllowList;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use throughline_sample::row_rules::HEARTBEAT;
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The user id that no process has (credentials(7)).
const NOBODY: u32 = u32::MAX;
/// Users over quota that a status names.
const OVER_QUOTA_NAMED: usize = 8;

/// How long records are gathered before they are handed to the agent: below its own second, above each frame.
const HAND_OVER: Duration = Duration::from_millis(50);
/// How soon after a change what is known of ranks is saved for the next agent.
const SAVE: Duration = Duration::from_secs(1);
/// How often what ranks wait for outside of MPI is looked at.
const STATE_LOOK: Duration = Duration::from_secs(1);
/// How often a process is looked for where the kernel has no descriptors of processes.
const LOOK: Duration = Duration::from_secs(5);
/// Pause after a failed accept: mostly descriptors have run out, and that passes when ranks end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections accepted before all else that this task does gets its turn: with its own descriptor always ready,
/// `AsyncFd` never lets go by itself, and while two users connected and closed no record was handed over.
const TURN: u32 = 16;
/// How long the last records may wait for the agent when it stops.
const LAST_HAND_OVER: Duration = Duration::from_secs(2);

/// The running receiver.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<ReceiverState>,
    task: tokio::task::JoinHandle<()>,
}

impl Receiver {
    /// Binds the socket and serves ranks until [`Receiver::stop`]. Call within a tokio runtime.
    pub fn start(config: Config, clock: Clock, records: mpsc::Sender<Batch>) -> Result<Self, BindError> {
        let listening = listen_at(&config.socket, config.mode)?;
        let limits = config.limits;
        let connections = allow_descriptors(limits.connections);
        let counters = Arc::new(Counters::default());
        let accounts = Accounts::read(&config.subuid);
        let quotas = Quotas::new(limits.quota, connections, accounts, counters.clone());
        let shared = Arc::new(ReceiverState {
            topology: Topology::read(&config.sys),
            welcomes: Mutex::new(0),
            connections: AtomicU64::new(0),
            clock: ClockOf(clock),
            counters: counters.clone(),
            jobs: Mutex::default(),
            rank_accounts: Mutex::default(),
            throttling: Mutex::default(),
            traffic: Mutex::new(Ledger::new(
                limits.traffic_cells_per_second,
                limits.traffic_seconds,
                limits.repeat_seconds,
            )),
            last_totals: Folder::of(&config.socket),
            due: Mutex::default(),
            outbox: Outbox::new(limits.quota.waiting_bytes, counters.clone()),
            traces: TraceBox::new(limits.trace, counters),
            variables: AllowList::new(config.welcome.variables.as_deref()),
            own: quotas.user(NOBODY, Instant::now()),
            quotas,
            bypasses: Bypasses::default(),
            stop: CancellationToken::new(),
            config,
        });
        let watched = shared.restore();
        let task = tokio::spawn(run(shared.clone(), listening, records, watched));
        Ok(Self { shared, task })
    }

    /// Its figures now.
    #[must_use]
    pub fn status(&self) -> Status {
        let (users, over_quota) = self.shared.quotas.over(OVER_QUOTA_NAMED);
        Status {
            running_jobs: self.shared.jobs().counts().0 as u64,
            over_quota_users: users as u64,
            over_quota,
            bypassed: self.shared.bypasses.lines(Instant::now()),
            waiting_bytes: self.shared.outbox.bytes() as u64,
            ..self.shared.counters.status()
        }
    }

    /// Process ids of the ranks that run here.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.shared.jobs().processes()
    }

    /// Notes where processes compute; of those that are ranks it is reported.
    pub fn place(&self, look: &Look) {
        let job_ranks = self.shared.jobs().place(look, &self.shared.topology);
        self.shared.outbox.put(&self.shared.own, Batch { job_ranks, ..Batch::default() });
    }

    /// Closes all connections, hands over what is left and closes the channel. Ranks go on and look for the
    /// next agent; their end is not recorded.
    pub async fn stop(self) {
        self.shared.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the MPI receiver ended abnormally");
        }
    }
}

/// Each rank takes two descriptors, connection and process, three while it sends its HELLO, and the usual soft limit of 1,024
/// would refuse a large node's ranks. Gives how many connections there may be: where the hard limit is too low as well,
/// as many as leave the agent its own descriptors.
fn allow_descriptors(connections: usize) -> usize {
    const OTHERS: u64 = 512; // the agent's own files, sockets and libraries
    const OF_RANK: u64 = 3;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let wanted = (OF_RANK * connections as u64 + OTHERS).min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
        tracing::debug!(soft, wanted, "the limit of open files can't be raised");
    }
    let has = getrlimit(Resource::RLIMIT_NOFILE).map_or(soft, |(soft, _)| soft);
    let possible = usize::try_from(has.saturating_sub(OTHERS) / OF_RANK).unwrap_or(usize::MAX).max(1);
    if possible < connections {
        tracing::warn!(
            possible,
            connections,
            "fewer MPI ranks than configured: raise the limit of open files"
        );
    }
    possible.min(connections)
}

async fn run(
    shared: Arc<ReceiverState>,
    listening: Listening,
    records: mpsc::Sender<Batch>,
    watched: Vec<AwaitedRank>,
) {
    let mut connections = JoinSet::new();
    for rank in watched {
        connections.spawn(watch_process(shared.clone(), rank));
    }
    let pipe = Pipe::new(records);
    let hand_over = hand_over(&shared, &pipe);
    let accepting = accept_all(&shared, &listening, &mut connections);
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = accepting => {}
        () = hand_over => {}
        () = keep(&shared) => {}
        () = count_traffic(&shared) => {}
        () = read_scheduling(&shared) => {}
        () = look_at_states(&shared) => {}
        () = shared.sweep() => {}
    }
    shared.stop.cancel();
    while connections.join_next().await.is_some() {}
    let last = {
        let (mut traffic, now) = shared.traffic_now();
        traffic.finish_all(now)
    };
    for (user, batch) in last {
        shared.outbox.put(&user, batch);
    }
    shared.save(true).await;
    let last = async {
        // The channel may be full of what the agent is still writing.
        while !(shared.outbox.is_empty() && shared.traces.is_empty()) && shared.hand_over(&pipe) {
            sleep(HAND_OVER / 10).await;
        }
    };
    if timeout(LAST_HAND_OVER, last).await.is_err() {
        tracing::warn!("the last records of MPI ranks were not taken within {LAST_HAND_OVER:?}");
    }
}

/// Says that jobs still run and who is over quota, and saves what the next agent has to know.
async fn keep(shared: &Arc<ReceiverState>) {
    let mut tick = interval(SAVE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 1_u64.. {
        tick.tick().await;
        // It is reported that a job still runs; the server counts on it (`row_rules::MINUTELY`).
        let is_heartbeat = round.is_multiple_of(HEARTBEAT.as_secs() / SAVE.as_secs());
        shared.save(is_heartbeat).await;
        if is_heartbeat {
            let jobs = shared.jobs().heartbeat(shared.moment().utc);
            shared.outbox.put(&shared.own, Batch { jobs, ..Batch::default() });
        }
        let events = shared.quotas.tick(Instant::now(), shared.moment().utc);
        shared.outbox.put(&shared.own, Batch { events, ..Batch::default() });
    }
}

/// Makes records of traffic by operation. Collectives of large groups take their time, so beside the other tasks.
async fn count_traffic(shared: &Arc<ReceiverState>) {
    loop {
        sleep(until_round(shared.moment().utc)).await;
        let counting = shared.clone();
        let round = spawn_blocking(move || {
            let (mut traffic, now) = counting.traffic_now();
            traffic.round(now)
        });
        for (user, batch) in round.await.unwrap_or_default() {
            shared.outbox.put(&user, batch);
        }
    }
}

/// Reads what the kernel counts of all ranks, beside the other tasks: `/proc` of a dying process may take its time.
async fn read_scheduling(shared: &Arc<ReceiverState>) {
    loop {
        sleep(scheduling::until_reading(shared.moment().utc)).await;
        let reading = shared.clone();
        let read = spawn_blocking(move || {
            let (targets, now) = (reading.jobs().targets(), reading.moment());
            let config = &reading.config;
            let read = targets.iter().filter_map(|target| {
                let account = reading.rank_accounts().get(&target.key());
                // Others have a record with their reports.
                let is_left = account.is_none_or(|account| account.is_silent(now.monotonic));
                let throttled = account.and_then(|_| reading.throttled(&target.key()));
                is_left.then(|| {
                    scheduling::read(&config.proc, &config.sys, target, now, account.as_ref(), throttled)
                })?
            });
            Batch { mpi_scheduling: read.collect(), ..Batch::default() }
        });
        shared.outbox.put(&shared.own, read.await.unwrap_or_default());
    }
}

/// Looks each second at what ranks wait for that are outside of MPI, or silent; one that was stopped, or goes on, is reported at once.
async fn look_at_states(shared: &Arc<ReceiverState>) {
    let mut looks = interval(STATE_LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let outside = shared.rank_accounts().outside(shared.moment().monotonic);
        if outside.is_empty() {
            continue; // no thread for nothing
        }
        let looking = shared.clone();
        let changed = spawn_blocking(move || {
            let (config, now) = (&looking.config, looking.moment());
            let has_changed = |(key, task): &(RankKey, Option<u32>)| {
                let found = scheduling::state(&config.proc, key.pid, *task);
                found.is_some_and(|(state, channel)| looking.rank_accounts().found(key, state, &channel))
            };
            let changed: Vec<RankKey> = outside.into_iter().filter(has_changed).map(|(key, _)| key).collect();
            if changed.is_empty() {
                return Batch::default();
            }
            let targets =
                looking.jobs().targets().into_iter().filter(|target| changed.contains(&target.key()));
            let read = targets.filter_map(|target| {
                let account = looking.rank_accounts().get(&target.key());
                let throttled = looking.throttled(&target.key());
                scheduling::read(&config.proc, &config.sys, &target, now, account.as_ref(), throttled)
            });
            Batch { mpi_scheduling: read.collect(), ..Batch::default() }
        });
        shared.outbox.put(&shared.own, changed.await.unwrap_or_default());
    }
}

/// Waits for the end of a rank that an earlier agent knew and that has not connected to this one. Once it has,
/// its session reports its end.
async fn watch_process(shared: Arc<ReceiverState>, AwaitedRank { job_key, rank }: AwaitedRank) {
    let process = handle(rank.pid).and_then(|handle| watch(handle).ok());
    let runs = || rank.start_ticks.is_some() && start_of(&shared.config.proc, rank.pid) == rank.start_ticks;
    let gone = async {
        // The descriptor may be that of a process that has been given the id.
        match &process {
            Some(process) if runs() => session::ended(Some(process)).await,
            _ => {
                while runs() {
                    sleep(LOOK).await;
                }
            }
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = gone => {
            let end = tokio::select! {
                () = shared.stop.cancelled() => return,
                end = shared.recover(&job_key, &rank) => end,
            };
            let now = shared.moment().utc;
            let End { time, ending } = end.unwrap_or(End { time: now, ending: UNSEEN });
            let reported = shared.jobs().leave(&job_key, &rank, None, time, ending);
            if let Some(reported) = reported {
                add(&shared.counters.unseen, u64::from(ending == UNSEEN));
                shared.report(&shared.own, reported);
            }
        }
    }
}

/// Ranks push at the same moment: what they send is handed over in one go, and no clock ticks while nothing comes.
async fn hand_over(shared: &ReceiverState, pipe: &Pipe) {
    loop {
        tokio::select! {
            () = shared.outbox.filled() => {}
            () = shared.traces.filled() => {}
        }
        loop {
            sleep(HAND_OVER).await;
            if !shared.hand_over(pipe) {
                return;
            }
            if shared.outbox.is_empty() && shared.traces.is_empty() {
                break;
            }
        }
    }
}

async fn accept_all(shared: &Arc<ReceiverState>, listening: &Listening, connections: &mut JoinSet<()>) {
    let listener = match listening.socket.try_clone().and_then(watch) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the MPI socket can't be watched: no rank is served");
            return;
        }
    };
    for turn in 1_u32.. {
        if turn.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
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

/// Takes a connection on its user's account, or closes it at once: a user over his quota costs others nothing.
fn admit(shared: &Arc<ReceiverState>, connection: OwnedFd, connections: &mut JoinSet<()>) {
    let Some(mut opener) = opener(&connection) else {
        shared.counters.closed(Reason::Unknown);
        return;
    };
    let now = Instant::now();
    let user = shared.quotas.user(opener.uid, now);
    let slot = match shared.quotas.connect(&user, now) {
        Ok(slot) => slot,
        Err(quota) => {
            shared.counters.closed(match quota {
                Quota::AllConnections => Reason::TooMany,
                Quota::Connections => Reason::TooManyOfUser,
                _ => Reason::TooFast,
            });
            return;
        }
    };
    opener.hold(&connection);
    let shared = shared.clone();
    connections.spawn(async move {
        let pid = opener.pid;
        if let Err(error) = session::serve(&shared, connection, opener, user, slot).await {
            tracing::debug!(%error, pid, "an MPI rank's connection failed");
        }
    });
}
