//! What one user or job may use of the receiver, so that others always find space.
//!
//! Who sends too much is read later: what he sent waits in his own sockets, his shim counts on, and as all counts are
//! sums nothing of them is lost but resolution. What is held (connections, names, bytes that wait) is shared by one
//! rule: nobody gets more than what is still free. One user alone has half, two have a third each, and a new one finds
//! as much as the greediest has.

use crate::accounts::Accounts;
use crate::known_names::KnownNames;
use crate::over::QuotaExcess;
use crate::status::{Counters, OverQuota, Quota, add};
use crate::window::PastHours;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::admission::Rejection;
use throughline_sample::throttle::Throttle;
use throughline_sample::wire::Event;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::time::sleep;

/// Bytes of a frame that cost as much as a row, whatever comes of them: those of a cell.
pub(crate) const BYTES_OF_ROW: usize = 64;
/// Seconds' worth of rows that may come at once: the last peers of all ranks of a large job.
const BURST_SECONDS: u32 = 4;
/// Seconds' worth of ranks that may come at once: a large job on a large node.
const RANKS_BURST_SECONDS: u32 = 10;
/// Seconds' worth of new names that may come at once: those of several large jobs, a shim having some 1,300.
const NAMES_BURST_SECONDS: u32 = 100;
/// HELLOs of one user looked into at once: names of users may come over a slow network.
const GREETINGS: usize = 8;
/// Users known at once; beyond, all others share one set of quotas.
const USERS_MAX: usize = 1024;
/// The user id that stands for all others: no process has it (credentials(7)).
const OTHERS: u32 = u32::MAX;
/// How long a user of whom nothing is here is known on: his buckets must not be full again at once.
const USER_IDLE: Duration = Duration::from_secs(60);
/// Shortest pause of a user over a quota.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// How long space may be wanting until it counts as excess.
const SPACE_GRACE: Duration = Duration::from_secs(1);
/// Longest one: then it is looked again.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Quotas of users and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Rows that a user's ranks send in a second: 600 ranks with 80 each.
    pub rows_per_second_of_user: u32,
    /// Of these, of one job.
    pub rows_per_second_of_job: u32,
    /// Readings of performance variables of a user in a second; more are left out, as the next ones come soon.
    pub pvars_per_second_of_user: u32,
    /// Names of regions, paths and algorithms of a user in a second that are new on the node, a hundred seconds' worth at
    /// once; more have their numbers in place of names. Each is a key of the database.
    pub names_per_second_of_user: u32,
    /// HELLOs of a user in a second, ten seconds' worth at once; more wait.
    pub ranks_per_second_of_user: u32,
    /// Connections of a user that are taken in a second, four seconds' worth at once; more are closed.
    pub connects_per_second_of_user: u32,
    /// Bytes of records that wait for the agent, of all users.
    pub waiting_bytes: usize,
    /// Bytes of names of regions and algorithms, of all ranks.
    pub name_bytes: usize,
    /// Bytes of what is known of traffic by operation and peer, of all jobs.
    pub traffic_bytes: usize,
    /// Ranks without a connection that may come back, of all users.
    pub ghosts: usize,
    /// How long a user has to stay within his quotas until it counts as over.
    pub calm: Duration,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            rows_per_second_of_user: 50_000,
            rows_per_second_of_job: 40_000,
            pvars_per_second_of_user: 10_000,
            names_per_second_of_user: 20,
            ranks_per_second_of_user: 100,
            connects_per_second_of_user: 500,
            waiting_bytes: 4 << 20,
            name_bytes: 8 << 20,
            traffic_bytes: 64 << 20,
            ghosts: 1024,
            calm: Duration::from_secs(30),
        }
    }
}

/// What is held and shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Connections,
    Ghosts,
    NameBytes,
    TrafficBytes,
}

/// How many kinds of [`Resource`] there are.
const RESOURCES: usize = 4;

/// Why something is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// All of it is in use.
    All,
    /// The user has his share.
    OfUser,
}

/// Whether `more` may be added to `own`, where `used` of `limit` are in use by all.
pub(crate) fn fits(own: usize, used: usize, limit: usize, more: usize) -> Result<(), Shortage> {
    let free = limit.saturating_sub(used);
    if more > free {
        Err(Shortage::All)
    } else if own + more > free {
        Err(Shortage::OfUser)
    } else {
        Ok(())
    }
}

/// The way of one user's or job's frames: a rate, and a queue for when it is exceeded, in which the first comes first.
#[derive(Debug)]
pub(crate) struct Gate {
    rate: Mutex<Throttle>,
    turn: Arc<tokio::sync::Mutex<()>>,
    queued: AtomicUsize,
}

/// Somebody who waits in a queue; counted as long as this lives.
struct QueueGuard<'a>(&'a AtomicUsize);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    fn new(per_second: u32, now: Instant) -> Self {
        let rate = Mutex::new(Throttle::new(per_second, BURST_SECONDS, now));
        Self { rate, turn: Arc::default(), queued: AtomicUsize::new(0) }
    }

    fn ready(&self) -> Result<(), Duration> {
        locked(&self.rate).ready(Instant::now())
    }

    /// Counts what went through.
    pub fn charge(&self, rows: usize) {
        locked(&self.rate).charge(rows);
    }

    /// Waits until the rate allows more and `else_ready` does. Gives the turn, where there is a queue: it lasts until
    /// the frame has been read and charged.
    async fn pass(
        &self,
        else_ready: impl Fn() -> Result<(), Quota>,
        over: impl Fn(Option<Quota>),
    ) -> Option<OwnedMutexGuard<()>> {
        let pause = || {
            self.ready().map_err(|pause| (None, pause))?;
            else_ready().map_err(|why| (Some(why), PAUSE_MAX / 10))
        };
        if self.queued.load(Ordering::Relaxed) == 0 && pause().is_ok() {
            return None;
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        let _queued = QueueGuard(&self.queued);
        let turn = self.turn.clone().lock_owned().await;
        let began = Instant::now();
        while let Err((why, pause)) = pause() {
            // All ranks of a large node push at the same moment: that they wait a little for space is nobody's excess.
            if why.is_none() || began.elapsed() >= SPACE_GRACE {
                over(why);
            }
            sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
        Some(turn)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code holding one of these locks can panic halfway: it only counts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One user of this node, as far as the receiver is concerned.
#[derive(Debug)]
pub(crate) struct User {
    pub uid: u32,
    /// His name, once it is known.
    pub name: OnceLock<String>,
    /// Bytes of his records in the outbox.
    pub waiting: AtomicUsize,
    pub over: QuotaExcess,
    rows: Gate,
    pub greetings: Semaphore,
    /// Whose files of last totals are read: one at a time.
    pub files: Semaphore,
    buckets: Mutex<Buckets>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Buckets {
    connects: Throttle,
    ranks: Throttle,
    pvars: Throttle,
    names: Throttle,
    past: PastHours,
    jobs: HashMap<String, Arc<Gate>>,
    last: Instant,
}

impl User {
    fn new(uid: u32, limits: &QuotaLimits, counters: Arc<Counters>, now: Instant) -> Self {
        let buckets = Buckets {
            connects: Throttle::new(limits.connects_per_second_of_user, BURST_SECONDS, now),
            ranks: Throttle::new(limits.ranks_per_second_of_user, RANKS_BURST_SECONDS, now),
            pvars: Throttle::new(limits.pvars_per_second_of_user, BURST_SECONDS, now),
            names: Throttle::new(limits.names_per_second_of_user, NAMES_BURST_SECONDS, now),
            past: PastHours::new(now),
            jobs: HashMap::new(),
            last: now,
        };
        Self {
            uid,
            name: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            over: QuotaExcess::default(),
            rows: Gate::new(limits.rows_per_second_of_user, now),
            greetings: Semaphore::new(GREETINGS),
            files: Semaphore::new(1),
            buckets: Mutex::new(buckets),
            counters,
        }
    }

    /// Counts that a quota of his held something up.
    pub fn exceeds(&self, quota: Quota, amount: u64) {
        self.counters.quota(quota, amount);
        self.over.note(quota, Instant::now());
    }

    /// Whether one more reading of a performance variable may be taken.
    pub fn pvars(&self, wanted: usize) -> usize {
        locked(&self.buckets).pvars.take_up_to(wanted, Instant::now())
    }

    /// Whether one more name may be new on the node.
    fn take_name(&self) -> bool {
        locked(&self.buckets).names.take(Instant::now()).is_ok()
    }

    /// Whether a time before the last hour may be named.
    pub fn past(&self, time: i64) -> Result<(), Rejection> {
        locked(&self.buckets).past.admit(time, Instant::now())
    }

    /// Waits until another HELLO of his may be looked into.
    pub async fn greet(&self) {
        loop {
            let taken = locked(&self.buckets).ranks.take(Instant::now());
            let Err(pause) = taken else { return };
            self.exceeds(Quota::Ranks, 1);
            sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
    }

    /// Waits until a frame of this job may be read. `space` says whether there is space for what comes of it.
    pub async fn pass(
        &self,
        job: &Gate,
        space: impl Fn() -> Result<(), Quota>,
    ) -> [Option<OwnedMutexGuard<()>>; 2] {
        let of_job = job.pass(|| Ok(()), |_| self.exceeds(Quota::JobRows, 1)).await;
        let of_user = self.rows.pass(space, |why| self.exceeds(why.unwrap_or(Quota::Rows), 1)).await;
        [of_job, of_user]
    }

    /// Counts what was read.
    pub fn charge(&self, job: &Gate, rows: usize) {
        job.charge(rows);
        self.rows.charge(rows);
    }

    /// What a job of his is counted by.
    pub fn job(&self, key: &str, limits: &QuotaLimits) -> Arc<Gate> {
        let jobs = &mut locked(&self.buckets).jobs;
        if let Some(gate) = jobs.get(key) {
            return gate.clone();
        }
        jobs.retain(|_, gate| Arc::strong_count(gate) > 1);
        let gate = Arc::new(Gate::new(limits.rows_per_second_of_job, Instant::now()));
        jobs.insert(key.to_owned(), gate.clone());
        gate
    }
}

/// All users of the node.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub limits: QuotaLimits,
    most: [usize; RESOURCES],
    totals: Mutex<Totals>,
    accounts: Accounts,
    names: KnownNames,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Totals {
    users: HashMap<u32, Entry>,
    used: [usize; RESOURCES],
}

#[derive(Debug)]
struct Entry {
    user: Arc<User>,
    held: [usize; RESOURCES],
}

/// Something that a user holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldResource {
    quotas: Arc<Quotas>,
    uid: u32,
    resource: Resource,
    amount: usize,
}

impl HeldResource {
    /// Whether a name of its user may be a key of the database.
    pub fn admit_name(&self, user: &User, name: &str) -> bool {
        self.quotas.names.admit(user.uid, name, || user.take_name())
    }

    /// Holds more of it, if there is so much.
    pub fn grow(&mut self, more: usize) -> Result<(), Shortage> {
        self.quotas.change(self.uid, self.resource, more)?;
        self.amount += more;
        Ok(())
    }
}

impl Drop for HeldResource {
    fn drop(&mut self) {
        let totals = &mut *self.quotas.lock();
        let at = self.resource as usize;
        totals.used[at] -= self.amount;
        if let Some(entry) = totals.users.get_mut(&self.uid) {
            entry.held[at] -= self.amount;
        }
    }
}

impl Quotas {
    /// For so many connections.
    pub fn new(
        limits: QuotaLimits,
        connections: usize,
        accounts: Accounts,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        let most = [connections, limits.ghosts, limits.name_bytes, limits.traffic_bytes];
        let (totals, names) = (Mutex::default(), KnownNames::default());
        Arc::new(Self { limits, most, totals, accounts, names, counters })
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        locked(&self.totals)
    }

    /// A user, known from now on.
    pub fn user(&self, uid: u32, now: Instant) -> Arc<User> {
        let uid = self.accounts.of(uid);
        let totals = &mut *self.lock();
        let is_known = totals.users.contains_key(&uid) || totals.users.len() < USERS_MAX;
        let uid = if is_known { uid } else { OTHERS };
        let entry = totals.users.entry(uid).or_insert_with(|| Entry {
            user: Arc::new(User::new(uid, &self.limits, self.counters.clone(), now)),
            held: [0; RESOURCES],
        });
        locked(&entry.user.buckets).last = now;
        entry.user.clone()
    }

    /// Whether a connection of a user may be taken; it is his until the slot is dropped.
    pub fn connect(self: &Arc<Self>, user: &User, now: Instant) -> Result<HeldResource, Quota> {
        if locked(&user.buckets).connects.take(now).is_err() {
            user.exceeds(Quota::Connects, 1);
            return Err(Quota::Connects);
        }
        self.hold(user, Resource::Connections, 1).map_err(|why| {
            if why == Shortage::All {
                self.counters.quota(Quota::AllConnections, 1);
                return Quota::AllConnections;
            }
            user.exceeds(Quota::Connections, 1);
            Quota::Connections
        })
    }

    /// Holds something for a user.
    pub fn hold(
        self: &Arc<Self>,
        user: &User,
        resource: Resource,
        amount: usize,
    ) -> Result<HeldResource, Shortage> {
        self.change(user.uid, resource, amount)?;
        Ok(HeldResource { quotas: self.clone(), uid: user.uid, resource, amount })
    }

    fn change(&self, uid: u32, resource: Resource, more: usize) -> Result<(), Shortage> {
        let totals = &mut *self.lock();
        let at = resource as usize;
        let own = totals.users.get(&uid).map_or(0, |entry| entry.held[at]);
        fits(own, totals.used[at], self.most[at], more)?;
        if let Some(entry) = totals.users.get_mut(&uid) {
            entry.held[at] += more;
            totals.used[at] += more;
        }
        Ok(())
    }

    /// Once a second: notices to users are sent, and users of whom nothing is here are dropped.
    pub fn tick(&self, now: Instant, utc: i64) -> Vec<Event> {
        let totals = &mut *self.lock();
        let mut events = Vec::new();
        for Entry { user, .. } in totals.users.values() {
            let name = user.name.get().map(String::as_str);
            events.extend(user.over.event(user.uid, name, now, utc, self.limits.calm));
        }
        totals.users.retain(|_, Entry { user, held }| {
            let is_idle = now.saturating_duration_since(locked(&user.buckets).last) >= USER_IDLE;
            let is_unused = held.iter().all(|held| *held == 0) && Arc::strong_count(user) == 1;
            !(is_idle && is_unused && !user.over.is_over())
        });
        add(&self.counters.quota_events, events.len() as u64);
        events
    }

    /// Users who are over a quota now: their number, and the first of them with what they exceed.
    pub fn over(&self, most: usize) -> (usize, Vec<OverQuota>) {
        let totals = self.lock();
        let over = totals.users.values().filter(|entry| entry.user.over.is_over());
        let mut all: Vec<_> = over.map(|entry| &entry.user).collect();
        all.sort_unstable_by_key(|user| user.uid);
        let named = all.iter().take(most).map(|user| {
            let name = user.name.get().cloned().unwrap_or_default();
            user.over.line(user.uid, name)
        });
        (all.len(), named.collect())
    }
}

#[cfg(test)]
mod tests;
