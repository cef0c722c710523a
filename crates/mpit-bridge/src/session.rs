//! One connection: from HELLO to its end, and to the end of the process behind it.
//!
//! A rank has ended when it said so, or when its process has. A connection alone may end because the agent or the
//! shim closed it, and a forked child may hold one open behind its parent's end: then the process is queried.

use crate::bypass::Bypass;
use crate::frame::{FRAME_BYTES, Frame, Header, decode};
use crate::hello::Hello;
use crate::identity::{Refusal, identify};
use crate::jobs::target;
use crate::last_totals::FileName;
use crate::ledger::World;
use crate::member::{Member, RankKey};
use crate::moment::Moment;
use crate::process::{Opener, Process};
use crate::quota::{BYTES_OF_ROW, Gate, HeldResource, Resource, User};
use crate::rank::Rank;
use crate::scheduling::{self, Target, task_of};
use crate::shared::{End, ReceiverState};
use crate::socket::{ReceivedMessage, receive, refuse_more, send, watch};
use crate::status::{Malformed, Quota, Reason, add};
use crate::weigh::rows;
use nix::sys::socket::UnixCredentials;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_sample::throttle::Throttle;
use throughline_sample::wire::{Batch, MpiRankScheduling};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{sleep, timeout_at};

/// Messages read from one connection before others get their turn.
const TURN: u32 = 16;
/// Seconds' worth of frames that one connection may send at once.
const BURST_SECONDS: u32 = 2;

thread_local! {
    /// Buffers for each worker thread, not for each rank: a message is decoded before the next await.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> =
        RefCell::new((vec![0; FRAME_BYTES + 1], nix::cmsg_space!(UnixCredentials)));
}

/// Why there may be something to read.
#[derive(Clone, Copy)]
enum WakeReason {
    /// The connection says so.
    Message,
    /// The rank's process has ended.
    Ended,
}

/// Between two looks whether there is space again.
const SPACE_PAUSE: Duration = Duration::from_millis(50);

/// What one readiness of a connection led to.
#[derive(Debug)]
enum ReadOutcome {
    /// A message was read and this came of it.
    Message(Result<(), Malformed>),
    /// The peer has closed.
    Closed,
}

/// Serves one connection, which holds a slot of its user.
pub(crate) async fn serve(
    shared: &Arc<ReceiverState>,
    connection: OwnedFd,
    mut opener: Opener,
    user: Arc<User>,
    slot: HeldResource,
) -> std::io::Result<()> {
    // Without a descriptor of it the process is not watched, and the connection's end is the rank's.
    let process = opener.handle.as_ref().and_then(|handle| watch(handle.try_clone().ok()?).ok());
    let mut session = Session::new(shared.clone(), opener.pid, user.clone());
    let connection = watch(connection)?;
    let outcome = tokio::select! {
        () = shared.stop.cancelled() => {
            session.disconnected();
            return Ok(()); // the rank lives on: no end of it is recorded
        }
        outcome = session.read_all(&connection, &mut opener, process.as_ref()) => outcome,
    };
    drop(connection);
    session.disconnected();
    // What it knew is given back now: a rank here without a connection is a few words, and a slot or a ghost's place
    // until its end has been reported, so that also those who leave faster than that are bounded.
    let Some(gone) = session.gone(opener.uid) else { return outcome };
    let ended_at = shared.moment().utc;
    let Some(process) = process.filter(|_| !gone.has_ended) else {
        leave(shared, &user, &gone, ended_at).await;
        return outcome;
    };
    let (patience, _place) = match shared.quotas.hold(&user, Resource::Ghosts, 1) {
        Ok(ghost) => {
            drop(slot);
            (shared.config.limits.reconnect, ghost)
        }
        Err(_) => {
            user.exceeds(Quota::Ghosts, 1);
            (Duration::ZERO, slot)
        }
    };
    let end = tokio::select! {
        biased;
        () = shared.stop.cancelled() => return Ok(()),
        () = ended(Some(&process)) => shared.moment().utc,
        // It runs, and no shim in it speaks any more: it may have become another program.
        () = sleep(patience) => ended_at,
    };
    leave(shared, &user, &gone, end).await;
    outcome
}

/// A rank without a connection.
struct DisconnectedRank {
    job_key: String,
    key: RankKey,
    connection: u64,
    rank: u32,
    uid: u32,
    ending: &'static str,
    has_ended: bool,
}

/// The rank has gone: its end, and the job's if it was the last.
async fn leave(shared: &Arc<ReceiverState>, user: &Arc<User>, gone: &DisconnectedRank, end: i64) {
    let DisconnectedRank { job_key, key, connection, rank, .. } = gone;
    let mut last = End { time: end, ending: gone.ending };
    if gone.has_ended {
        shared.remove_later(FileName { epoch: key.epoch, rank: *rank }, gone.uid);
    } else {
        // Its goodbye did not arrive; it may have left one.
        tokio::select! {
            () = shared.stop.cancelled() => return,
            left = shared.recover(job_key, key) => last = left.unwrap_or(last),
        }
    }
    // Thousands may end at the same moment.
    while shared.outbox.space(user).is_err() && !shared.stop.is_cancelled() {
        sleep(SPACE_PAUSE).await;
    }
    let reported = shared.jobs().leave(job_key, key, Some(*connection), last.time, last.ending);
    if reported.is_some() {
        // Else it has connected anew.
        shared.rank_accounts().end(key);
        shared.throttling().end(key);
    }
    shared.report(user, reported.unwrap_or_default());
}

/// Waits for the end of a process; for ever where it is not watched.
pub(crate) async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    let watched = match process {
        Some(process) => process.readable().await.is_ok(),
        None => false,
    };
    if !watched {
        std::future::pending::<()>().await;
    }
}

/// The state of one connection.
struct Session {
    shared: Arc<ReceiverState>,
    pid: u32,
    number: u64,
    rank: Option<Rank>,
    key: Option<RankKey>,
    /// Its process, for readings of it.
    target: Option<Target>,
    /// Its process as it sees itself, and the thread that called `MPI_Init` as it is known here, once it was looked up.
    own_pid: u32,
    task: Option<Option<u32>>,
    hello: Option<(Header, Hello, Moment)>,
    user: Arc<User>,
    job: Option<Arc<Gate>>,
    malformed: u32,
    throttle: Throttle,
    is_connected: bool,
}

impl Session {
    fn new(shared: Arc<ReceiverState>, pid: u32, user: Arc<User>) -> Self {
        let throttle = Throttle::new(shared.config.limits.frames_per_second, BURST_SECONDS, Instant::now());
        let number = shared.next_connection();
        Self {
            shared,
            pid,
            number,
            rank: None,
            key: None,
            target: None,
            own_pid: 0,
            task: None,
            hello: None,
            user,
            job: None,
            malformed: 0,
            throttle,
            is_connected: false,
        }
    }

    async fn read_all(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        opener: &mut Opener,
        process: Option<&AsyncFd<OwnedFd>>,
    ) -> std::io::Result<()> {
        let limits = self.shared.config.limits;
        let patience = Instant::now() + limits.hello;
        let mut turn = 0;
        loop {
            let Some(ready) = self.ready(connection, process, patience).await? else {
                return self.close(Reason::Silent);
            };
            let read = match (self.read(connection, ready).await, ready) {
                (Err(error), WakeReason::Ended) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                (Err(error), WakeReason::Message) if error.kind() == ErrorKind::WouldBlock => continue,
                (read, _) => read?,
            };
            match read {
                ReadOutcome::Closed => return Ok(()),
                ReadOutcome::Message(Ok(())) => {}
                ReadOutcome::Message(Err(why)) => {
                    self.shared.counters.malformed(why);
                    self.malformed += 1;
                    if self.malformed >= limits.malformed_messages {
                        self.count_rest(connection.get_ref());
                        return self.close(Reason::Malformed);
                    }
                }
            }
            if let Some(hello) = self.hello.take()
                && let Err(why) = self.welcome(connection, opener, hello).await
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
        BUFFERS.with_borrow_mut(|(buffer, control)| {
            while let Ok(ReceivedMessage { length, .. }) = receive(connection, buffer, control) {
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
        tracing::debug!(pid = self.pid, reason = why.name(), "closed an MPI rank's connection");
        Ok(())
    }

    /// Waits until something is to be read, or the rank's process has ended. `None` where it says no HELLO in time.
    async fn ready(
        &self,
        connection: &AsyncFd<OwnedFd>,
        process: Option<&AsyncFd<OwnedFd>>,
        patience: Instant,
    ) -> std::io::Result<Option<WakeReason>> {
        if self.rank.is_none() {
            let ready = timeout_at(patience.into(), connection.readable()).await;
            return ready.map_or(Ok(None), |ready| ready.map(|_| Some(WakeReason::Message)));
        }
        tokio::select! {
            biased;
            ready = connection.readable() => ready.map(|_| Some(WakeReason::Message)),
            // A child of it may hold the connection open; what it has sent is there already.
            () = ended(process) => Ok(Some(WakeReason::Ended)),
        }
    }

    /// Reads one message, in its user's turn. Would block if there is none.
    async fn read(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        ready: WakeReason,
    ) -> std::io::Result<ReadOutcome> {
        let user = self.user.clone();
        let _turns = match &self.job {
            Some(job) => Some(user.pass(job, || self.shared.outbox.space(&user)).await),
            None => None,
        };
        if matches!(ready, WakeReason::Ended) {
            return self.read_now(connection.get_ref());
        }
        connection.try_io(Interest::READABLE, |connection| self.read_now(connection))
    }

    fn read_now(&mut self, connection: &OwnedFd) -> std::io::Result<ReadOutcome> {
        BUFFERS.with_borrow_mut(|(buffer, control)| {
            let ReceivedMessage { length, sender } = receive(connection, buffer, control)?;
            Ok(match length {
                0 => ReadOutcome::Closed,
                _ if sender.is_some_and(|sender| sender != self.pid) => {
                    ReadOutcome::Message(Err(Malformed::Sender))
                }
                _ if length > FRAME_BYTES => ReadOutcome::Message(Err(Malformed::TooLong)),
                _ => ReadOutcome::Message(self.message(&buffer[..length])),
            })
        })
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        // Frames without rows, and those that are refused, are work as well.
        let mut cost = 1 + bytes.len() / BYTES_OF_ROW;
        let outcome = self.take(bytes, &mut cost);
        if let Some(job) = &self.job {
            self.user.charge(job, cost);
        }
        outcome
    }

    fn take(&mut self, bytes: &[u8], cost: &mut usize) -> Result<(), Malformed> {
        let (header, frame) = decode(bytes)?;
        let now = self.shared.moment();
        match (&mut self.rank, frame) {
            (None, Frame::Hello(fields)) => self.hello = Some((header, Hello::read(&fields)?, now)),
            (None, Frame::Bypass(fields)) => {
                let bypass = Bypass::read(&fields)?;
                let name = self.user.name.get().map(String::as_str);
                let event = self.shared.bypasses.take(self.user.uid, name, bypass, Instant::now(), now.utc);
                let events: Vec<_> = event.into_iter().collect();
                for event in &events {
                    tracing::warn!("{}", event.text);
                }
                self.shared.outbox.put(&self.shared.own, Batch { events, ..Batch::default() });
            }
            (None, _) => return Err(Malformed::NoHello),
            (Some(rank), frame) => {
                // Each minute, and before MPI_Finalize: when the goodbye comes its process may have ended.
                let is_status = matches!(frame, Frame::Status(_));
                let mut batch = rank.take(header, frame, now)?;
                *cost = rows(&batch).max(*cost);
                if let Some(report) = rank.take_traffic() {
                    *cost = report.len().max(*cost);
                    self.shared.traffic().take(rank.job_key(), rank.id(), report);
                }
                let devices = rank.take_devices();
                if let Some((devices, key)) = devices.zip(self.key.as_ref()) {
                    let of_rank = self.shared.jobs().devices(rank.job_key(), key, devices);
                    batch.job_ranks.extend(of_rank);
                }
                let left_out = self.shared.traces.take(self.user.uid, &mut batch, Instant::now());
                if left_out > 0 {
                    self.user.exceeds(Quota::Traces, left_out);
                }
                let account = rank.take_account();
                // Its process mostly runs on for a moment after its goodbye.
                let has_ended = rank.ended().is_some();
                if let Some(target) = &self.target {
                    let (config, key) = (&self.shared.config, target.key());
                    let due = account.and_then(|account| {
                        let task = *self.task.get_or_insert_with(|| {
                            task_of(&config.proc, self.pid, self.own_pid, account.tid)
                        });
                        self.shared.rank_accounts().report(&key, account, task, now.utc)
                    });
                    if due.is_some() || is_status || has_ended {
                        let account = due.or_else(|| self.shared.rank_accounts().get(&key));
                        let throttled = account.and_then(|_| self.shared.throttled(&key));
                        let read = scheduling::read(
                            &config.proc,
                            &config.sys,
                            target,
                            now,
                            account.as_ref(),
                            throttled,
                        );
                        batch.mpi_scheduling.extend(read);
                    }
                }
                if has_ended {
                    self.target = None;
                }
                self.shared.outbox.put(&self.user, batch);
            }
        }
        add(&self.shared.counters.frames, 1);
        Ok(())
    }

    /// Finds out whose rank it is and answers it.
    async fn welcome(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        opener: &mut Opener,
        (header, hello, came): (Header, Hello, Moment),
    ) -> Result<(), Reason> {
        let user = self.user.clone();
        user.greet().await;
        let greeting = user.greetings.acquire().await;
        // Names of users may come over the network, and /proc of a dying process may take its time.
        let (shared, pid, uid) = (self.shared.clone(), opener.pid, opener.uid);
        let opener = Opener { pid, uid, handle: opener.handle.take() };
        let found = tokio::task::spawn_blocking(move || {
            let config = &shared.config;
            let process = Process::read(&config.proc, &shared.topology, &opener);
            let identity = identify(&hello, &process, &config.node, &config.kernel)?;
            let now = shared.moment();
            let member = Member::new(identity, hello, process, &config.node, now.utc);
            let target = target(&member.key(), &member.rank());
            let scheduling = scheduling::read(&config.proc, &config.sys, &target, now, None, None);
            Ok((member, scheduling))
        });
        let found: Result<_, Refusal> = found.await.map_err(|_| Reason::Unknown)?;
        let (mut member, scheduling) = found.map_err(|_| Reason::WrongJob)?;
        drop(greeting);
        let shared = &self.shared;
        let _ = user.name.set(member.process.user.clone()); // known already
        shared.enter(&user, &mut member, self.number);
        self.key = Some(member.key());
        // Whose it is and since when may be settled only now.
        let target = target(&member.key(), &member.rank());
        let of_rank =
            |reading| MpiRankScheduling { job_key: target.job_key.clone(), epoch: target.epoch, ..reading };
        let mpi_scheduling = scheduling.into_iter().map(of_rank).collect();
        shared.outbox.put(&user, Batch { mpi_scheduling, ..Batch::default() });
        self.target = Some(target);
        self.own_pid = member.hello.pid;
        self.job = Some(user.job(&member.identity.job_key, &shared.quotas.limits));
        let rank = Rank::new(&member, header, came, shared.judges(&user));
        let world = World { size: member.hello.world_size, library: &member.hello.library };
        let (mut traffic, now) = shared.traffic_now();
        traffic.join(&shared.quotas, &user, rank.job_key(), rank.id(), world, now);
        drop(traffic);
        self.rank = Some(rank);
        add(&shared.counters.connected, 1);
        self.is_connected = true;
        let answer = shared.answer();
        // A shim that can't take it goes on with its own settings.
        let _ = send(connection.get_ref(), &answer);
        Ok(())
    }

    /// What is left of a rank without its connection.
    fn gone(self, uid: u32) -> Option<DisconnectedRank> {
        let (mut rank, key) = (self.rank?, self.key?);
        self.shared.outbox.put(&self.user, rank.lose());
        let (job_key, connection) = (rank.job_key().to_owned(), self.number);
        let (ending, has_ended) = (rank.ended().unwrap_or("lost"), rank.ended().is_some());
        Some(DisconnectedRank { job_key, key, connection, rank: rank.number(), uid, ending, has_ended })
    }

    fn disconnected(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.shared.counters.connected.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
