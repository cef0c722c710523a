//! What all connections of the receiver share, and what they do with it.

use crate::bypass::Bypasses;
use crate::config::Config;
use crate::cpus::Topology;
use crate::identity::local;
use crate::jobs::{AwaitedRank, Jobs, RankChange};
use crate::last_totals::{FileName, Folder, TotalsFile};
use crate::ledger::Ledger;
use crate::member::{Member, RankKey};
use crate::moment::Moment;
use crate::outbox::Outbox;
use crate::pipe::Pipe;
use crate::process::start_of;
use crate::quota::{Quotas, User};
use crate::rank::Judges;
use crate::rank_account::RankAccounts;
use crate::saved::Saved;
use crate::status::{Counters, add};
use crate::throttling::Throttling;
use crate::trace_box::TraceBox;
use crate::variables::AllowList;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use throughline_sample::wire::{Job, JobRank};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

/// Turns CLOCK_MONOTONIC nanoseconds into UTC nanoseconds.
pub type Clock = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct ReceiverState {
    pub config: Config,
    pub topology: Topology,
    pub counters: Arc<Counters>,
    pub outbox: Outbox,
    pub traces: TraceBox,
    pub quotas: Arc<Quotas>,
    pub bypasses: Bypasses,
    pub variables: AllowList,
    /// Who stands for the agent itself, where records are nobody's.
    pub own: Arc<User>,
    pub stop: CancellationToken,
    pub welcomes: Mutex<u32>,
    pub connections: AtomicU64,
    pub clock: ClockOf,
    pub jobs: Mutex<Jobs>,
    pub traffic: Mutex<Ledger>,
    pub rank_accounts: Mutex<RankAccounts>,
    pub throttling: Mutex<Throttling>,
    /// Where ranks leave their totals, and which of these are to be removed.
    pub last_totals: Folder,
    pub due: Mutex<VecDeque<DueRemoval>>,
}

/// A clock that can be shown.
pub(crate) struct ClockOf(pub Clock);

impl fmt::Debug for ClockOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How a rank ended, as its file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// UTC nanoseconds.
    pub time: i64,
    /// As in `job_rank.ending`.
    pub ending: &'static str,
}

/// A file that is to be removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueRemoval {
    pub at: Instant,
    pub file: TotalsFile,
}

impl ReceiverState {
    /// What the frames of a user's rank are judged by.
    pub(crate) fn judges(&self, user: &Arc<User>) -> Judges {
        Judges {
            counters: self.counters.clone(),
            quotas: self.quotas.clone(),
            user: user.clone(),
            variables: self.variables.clone(),
            window: self.config.limits.window,
        }
    }

    pub(crate) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a quota kept a rank from running, at least.
    pub(crate) fn throttled(&self, key: &RankKey) -> Option<u64> {
        self.throttling().part(&self.config.proc, &self.config.sys, key)
    }

    pub(crate) fn throttling(&self) -> MutexGuard<'_, Throttling> {
        self.throttling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rank_accounts(&self) -> MutexGuard<'_, RankAccounts> {
        self.rank_accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn traffic(&self) -> MutexGuard<'_, Ledger> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger, as of now by the clock as it is.
    pub(crate) fn traffic_now(&self) -> (MutexGuard<'_, Ledger>, i64) {
        let mut traffic = self.traffic();
        let now = self.moment();
        traffic.follow(now);
        (traffic, now.utc)
    }

    /// Inventory first, as trace records refer to their job. Returns false once the agent's end is closed.
    pub(crate) fn hand_over(&self, pipe: &Pipe) -> bool {
        self.outbox.flush(pipe) && self.traces.flush(pipe)
    }

    pub(crate) fn due(&self) -> MutexGuard<'_, VecDeque<DueRemoval>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank joins the job that it claims, or one of its own where that is another user's.
    pub(crate) fn enter(&self, user: &Arc<User>, member: &mut Member, connection: u64) {
        let (start, reported) = {
            let mut jobs = self.jobs();
            if jobs.belongs_to_other(&member.identity, member.process.uid) {
                add(&self.counters.contested, 1);
                member.identity = local(&member.hello, &member.process, &self.config.node);
            }
            let joined = jobs.join(member, connection);
            member.status = jobs.status(&member.identity.job_key, &member.key()).unwrap_or_default();
            joined
        };
        member.start = start;
        self.report(user, reported);
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn moment(&self) -> Moment {
        let monotonic = monotonic();
        Moment { monotonic, utc: (self.clock.0)(monotonic) }
    }

    pub(crate) fn answer(&self) -> Vec<u8> {
        let now = self.moment();
        let mut sequence = self.welcomes.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence = sequence.wrapping_add(1);
        self.config.welcome.encode(*sequence, now.monotonic, now.utc)
    }

    /// Passes on what came of a rank's joining or leaving.
    pub(crate) fn report(&self, user: &Arc<User>, reported: RankChange) {
        if reported.edge {
            (self.config.job_edge.0)();
        }
        self.counters.unknown_places(reported.unknown);
        for job in reported.batch.jobs.iter().filter(|job| job.end != 0) {
            self.traces.evict(&job.key);
            let (mut traffic, now) = self.traffic_now();
            let last = traffic.finish(&job.key, now);
            drop(traffic);
            self.outbox.put(user, last);
        }
        self.outbox.put(user, reported.batch);
    }

    /// Takes over what an earlier agent knew; gives the ranks that may connect anew.
    pub(crate) fn restore(&self) -> Vec<AwaitedRank> {
        let Some(path) = &self.config.state else { return Vec::new() };
        let saved = Saved::read(path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "what an earlier agent knew of ranks can't be read");
            Saved::default()
        });
        let same_boot = saved.boot_id == self.config.boot_id;
        let is_open = |key: &RankKey, rank: &JobRank, job: &Job| {
            let runs = same_boot
                && key.start_ticks.is_some()
                && start_of(&self.config.proc, key.pid) == key.start_ticks;
            runs || self.last_totals.has(FileName { epoch: key.epoch, rank: rank.rank }, job.uid)
        };
        let before = saved.ranks.len();
        let (reported, watched) = self.jobs().restore(saved, is_open);
        add(&self.counters.reclaimed, watched.len() as u64);
        add(&self.counters.unseen, (before - watched.len()) as u64);
        if before > 0 {
            tracing::info!(ranks = before, run = watched.len(), "ranks known from an earlier agent");
        }
        self.report(&self.own, reported);
        watched
    }

    /// Saves what has to survive a restart, if it is another than before or `always`.
    pub(crate) async fn save(self: &Arc<Self>, always: bool) {
        let Some(path) = self.config.state.clone() else { return };
        let Some(ranks) = self.jobs().take_unsaved(always) else { return };
        let saved = Saved { boot_id: self.config.boot_id.clone(), time: self.moment().utc, ranks };
        let written = spawn_blocking(move || saved.write(&path)).await;
        let failed = match written {
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
            Ok(Ok(())) => return,
        };
        add(&self.counters.unsaved, 1);
        tracing::debug!(error = failed, "what is known of ranks can't be saved");
    }
}

fn monotonic() -> i64 {
    // Linux always has this clock; 0 would show at once.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}
