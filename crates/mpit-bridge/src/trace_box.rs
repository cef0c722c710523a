//! Records of trace mode on their way to the agent, apart from all others: they are many, and whatever is too
//! much of them is left out before it could take the place of anything else.
//!
//! Three bounds, each counted: records a second of the node, records of a job, bytes that wait. Users share the first
//! and the last. What was left out shows as a gap in the numbers of the records that stay. The last record of a rank,
//! which reports how many there were, passes them all: it is one for each connection.

use crate::pipe::Pipe;
use crate::quota::fits;
use crate::status::{Counters, add};
use crate::trace::Kind;
use crate::weigh::Weigh;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::throttle::Throttle;
use throughline_sample::wire::{Batch, MpiRankClock, MpiRankTrace};
use tokio::sync::Notify;

/// What is handed over in one fragment, unless a single frame is larger, so that it fits an entry of the spool.
const FRAGMENT_BYTES: usize = 256 << 10;
/// Bytes that wait for the agent; one user has at most as many of them as are free.
const WAITING_BYTES: usize = 3 << 20;
/// Bytes beyond these for last records: those of thousands of ranks.
const ENDS_BYTES: usize = 1 << 20;
/// Jobs whose records are counted; further ones share one count.
const JOBS: usize = 4096;
/// Users whose rates are known; further ones share one.
const USERS: usize = 256;
/// A user who traced so long ago has no part in the rate.
const ACTIVE: Duration = Duration::from_secs(2);

/// Bounds of trace mode on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Records taken in a second, of all jobs together; users who trace at the same time share them evenly.
    pub records_per_second: u32,
    /// Records taken of one job.
    pub records_of_job: u64,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self { records_per_second: 50_000, records_of_job: 20_000_000 }
    }
}

/// The way of trace records through the receiver.
#[derive(Debug)]
pub(crate) struct TraceBox {
    inner: Mutex<Inner>,
    filled: Notify,
    limits: TraceLimits,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    users: HashMap<u32, Tracer>,
    jobs: HashMap<String, u64>,
}

#[derive(Debug)]
struct Waiting {
    item: Item,
    uid: u32,
    bytes: usize,
}

/// A user who traces.
#[derive(Debug)]
struct Tracer {
    rate: Throttle,
    bytes: usize,
    last: Instant,
}

#[derive(Debug)]
enum Item {
    Trace(MpiRankTrace),
    Clock(MpiRankClock),
}

impl Item {
    fn records(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.records.len(),
            Self::Clock(clock) => clock.points.len(),
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.weight(),
            Self::Clock(clock) => clock.weight(),
        }
    }

    fn job(&self) -> &str {
        match self {
            Self::Trace(trace) => &trace.job_key,
            Self::Clock(clock) => &clock.job_key,
        }
    }

    /// The record after which nothing follows, apart from those before it.
    fn split_end(&mut self) -> Option<Self> {
        let Self::Trace(trace) = self else { return None };
        trace.records.last().filter(|last| last.kind == Kind::End.name())?;
        let end = trace.records.pop()?;
        let number = trace.number.saturating_add(trace.records.len() as u64);
        let job_key = trace.job_key.clone();
        Some(Self::Trace(MpiRankTrace { number, job_key, records: vec![end], ..*trace }))
    }

    /// Leaves so many, and gives the memory of the others back.
    fn truncate(&mut self, records: usize) {
        match self {
            Self::Trace(trace) => {
                trace.records.truncate(records);
                trace.records.shrink_to_fit();
            }
            Self::Clock(clock) => {
                clock.points.truncate(records);
                clock.points.shrink_to_fit();
            }
        }
    }
}

impl Inner {
    /// How many of `wanted` records of a user's job may be taken, and counts them.
    fn admit(&mut self, uid: u32, item: &Item, limits: TraceLimits, now: Instant) -> usize {
        let since = |last| now.saturating_duration_since(last);
        if self.users.len() >= USERS {
            self.users.retain(|_, user| user.bytes > 0 || since(user.last) < ACTIVE);
        }
        let uid = if self.users.len() < USERS || self.users.contains_key(&uid) { uid } else { u32::MAX };
        let others =
            self.users.iter().filter(|(other, user)| **other != uid && since(user.last) < ACTIVE).count();
        let tracer = self.users.entry(uid).or_insert_with(|| Tracer {
            rate: Throttle::new(limits.records_per_second, 1, now),
            bytes: 0,
            last: now,
        });
        tracer.last = now;
        tracer.rate.set_rate(f64::from(limits.records_per_second) / (others + 1) as f64, now);
        if fits(tracer.bytes, self.bytes, WAITING_BYTES, item.weight()).is_err() {
            return 0;
        }
        // Beyond the limit of jobs the count without a name stands for all others.
        let job = item.job();
        let name = if self.jobs.len() < JOBS || self.jobs.contains_key(job) { job } else { "" };
        let of_job = self.jobs.entry(name.to_owned()).or_default();
        let left = usize::try_from(limits.records_of_job.saturating_sub(*of_job)).unwrap_or(usize::MAX);
        let taken = tracer.rate.take_up_to(item.records().min(left), now);
        *of_job += taken as u64;
        taken
    }

    fn push(&mut self, uid: u32, item: Item) {
        let uid = if self.users.contains_key(&uid) { uid } else { u32::MAX };
        let bytes = item.weight();
        self.bytes += bytes;
        if let Some(user) = self.users.get_mut(&uid) {
            user.bytes += bytes;
        }
        self.waiting.push_back(Waiting { item, uid, bytes });
    }

    /// The next fragment and its weight; empty when nothing waits.
    fn fragment(&mut self) -> (Vec<Item>, usize) {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            if bytes > 0 && bytes + next.bytes > FRAGMENT_BYTES {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            bytes += next.bytes;
            if let Some(user) = self.users.get_mut(&next.uid) {
                user.bytes -= next.bytes;
            }
            items.push(next.item);
        }
        self.bytes -= bytes;
        (items, bytes)
    }
}

impl TraceBox {
    pub(crate) fn new(limits: TraceLimits, counters: Arc<Counters>) -> Self {
        let inner = Inner { waiting: VecDeque::new(), bytes: 0, users: HashMap::new(), jobs: HashMap::new() };
        Self { inner: Mutex::new(inner), filled: Notify::new(), limits, counters }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code holding the lock can panic halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the trace records out of a user's fragment; gives how many were left out.
    pub(crate) fn take(&self, uid: u32, fragment: &mut Batch, now: Instant) -> u64 {
        if fragment.mpi_traces.is_empty() && fragment.mpi_clocks.is_empty() {
            return 0;
        }
        let traces = std::mem::take(&mut fragment.mpi_traces).into_iter().map(Item::Trace);
        let clocks = std::mem::take(&mut fragment.mpi_clocks).into_iter().map(Item::Clock);
        let mut left_out = 0;
        for mut item in clocks.chain(traces) {
            let end = item.split_end();
            let wanted = item.records();
            let mut inner = self.lock();
            let taken = inner.admit(uid, &item, self.limits, now);
            if taken < wanted {
                item.truncate(taken);
            }
            if taken > 0 {
                inner.push(uid, item);
            }
            left_out += (wanted - taken) as u64;
            match end {
                Some(end) if inner.bytes < WAITING_BYTES + ENDS_BYTES => inner.push(uid, end),
                Some(_) => left_out += 1,
                None => {}
            }
        }
        self.filled.notify_one();
        add(&self.counters.dropped_traces, left_out);
        left_out
    }

    /// A job has ended on this node.
    pub(crate) fn evict(&self, job: &str) {
        self.lock().jobs.remove(job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Waits until something was taken since the last call.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Hands over what the pipe has space for. Returns false once the agent's end is closed.
    pub(crate) fn flush(&self, pipe: &Pipe) -> bool {
        loop {
            let permit = match pipe.permit() {
                Ok(Some(permit)) => Some(permit),
                Ok(None) => return true,
                Err(_closed) => None,
            };
            let (items, bytes) = self.lock().fragment();
            let records = items.iter().map(Item::records).sum::<usize>() as u64;
            match permit {
                None if items.is_empty() => return false,
                None => add(&self.counters.dropped_traces, records),
                Some(_) if items.is_empty() => return true,
                Some(permit) => {
                    add(&self.counters.records, records);
                    permit.send(batch(items), bytes);
                }
            }
        }
    }
}

fn batch(items: Vec<Item>) -> Batch {
    let mut batch = Batch::default();
    for item in items {
        match item {
            Item::Trace(trace) => batch.mpi_traces.push(trace),
            Item::Clock(clock) => batch.mpi_clocks.push(clock),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{MpiClockPoint, MpiTraceRecord};
    use tokio::sync::mpsc;

    fn fragment(job: &str, number: u64, records: usize) -> Batch {
        let records = vec![MpiTraceRecord::default(); records];
        let trace = MpiRankTrace { job_key: job.to_owned(), number, records, ..MpiRankTrace::default() };
        Batch { mpi_traces: vec![trace], ..Batch::default() }
    }

    fn handed(from: &mut mpsc::Receiver<Batch>) -> Vec<(u64, usize)> {
        std::iter::from_fn(|| from.try_recv().ok())
            .flat_map(|batch| batch.mpi_traces)
            .map(|trace| (trace.number, trace.records.len()))
            .collect()
    }

    #[test]
    fn records_a_second_and_of_a_job_are_bounded_and_what_is_left_out_is_counted() {
        let limits = TraceLimits { records_per_second: 100, records_of_job: 150 };
        let (counters, start) = (Arc::new(Counters::default()), Instant::now());
        let traces = TraceBox::new(limits, counters.clone());
        let (to, mut from) = mpsc::channel(8);
        let pipe = Pipe::new(to);
        traces.take(1, &mut fragment("a", 0, 80), start);
        assert_eq!(traces.take(1, &mut fragment("a", 80, 80), start), 60);
        assert!(traces.flush(&pipe));
        assert_eq!(handed(&mut from), [(0, 80), (80, 20)]);
        traces.take(1, &mut fragment("a", 160, 80), start + Duration::from_secs(9));
        traces.take(1, &mut fragment("b", 0, 80), start + Duration::from_secs(9));
        assert!(traces.flush(&pipe));
        assert_eq!(handed(&mut from), [(160, 50), (0, 50)]);
        assert_eq!(counters.status().dropped_trace_records, 60 + 30 + 30);
        traces.evict("a");
        traces.take(1, &mut fragment("a", 240, 80), start + Duration::from_secs(99));
        assert!(traces.flush(&pipe) && traces.is_empty());
        assert_eq!(handed(&mut from), [(240, 80)]);
    }

    #[test]
    fn how_many_records_there_were_is_known_where_most_are_left_out() {
        let limits = TraceLimits { records_per_second: 10, records_of_job: 10 };
        let (counters, start) = (Arc::new(Counters::default()), Instant::now());
        let traces = TraceBox::new(limits, counters.clone());
        let (to, mut from) = mpsc::channel(8);
        let mut whole = fragment("a", 100, 31);
        whole.mpi_traces[0].records[30].kind = "end".to_owned();
        assert_eq!(traces.take(1, &mut whole, start), 20);
        assert!(traces.flush(&Pipe::new(to)));
        assert_eq!(handed(&mut from), [(100, 10), (130, 1)]);
        assert_eq!(counters.status().dropped_trace_records, 20);
    }

    #[test]
    fn users_share_the_rate_and_the_space() {
        let limits = TraceLimits { records_per_second: 1000, records_of_job: u64::MAX };
        let (counters, start) = (Arc::new(Counters::default()), Instant::now());
        let traces = TraceBox::new(limits, counters);
        let (to, mut from) = mpsc::channel(64);
        let pipe = Pipe::new(to);
        assert_eq!(traces.take(1, &mut fragment("flood", 0, 5000), start), 4000);
        assert_eq!(traces.take(2, &mut fragment("other", 0, 400), start), 0, "has his half");
        let later = start + Duration::from_secs(1);
        assert_eq!(traces.take(1, &mut fragment("flood", 5000, 5000), later), 4500);
        assert_eq!(traces.take(2, &mut fragment("other", 400, 400), later), 0);
        assert!(traces.flush(&pipe));
        assert_eq!(handed(&mut from), [(0, 1000), (0, 400), (5000, 500), (400, 400)]);
        // Bytes that wait: a long agent's pause.
        let limits = TraceLimits { records_per_second: 10_000_000, records_of_job: u64::MAX };
        let traces = TraceBox::new(limits, Arc::default());
        let long = |number| {
            let mut fragment = fragment("flood", number, 1000);
            for record in &mut fragment.mpi_traces[0].records {
                record.region = "r".repeat(255);
            }
            fragment
        };
        let left_out: u64 = (0..100).map(|number| traces.take(1, &mut long(number), start)).sum();
        assert!(left_out > 0 && traces.lock().bytes < WAITING_BYTES * 2 / 3);
        assert_eq!(traces.take(2, &mut long(0), start), 0);
        while !traces.is_empty() {
            assert!(traces.flush(&pipe));
            handed(&mut from);
        }
        assert_eq!(traces.lock().users.values().map(|user| user.bytes).sum::<usize>(), 0);
    }

    #[test]
    fn fragments_are_small_and_keep_their_order_while_the_channel_is_full() {
        let limits = TraceLimits { records_per_second: 1_000_000, records_of_job: u64::MAX };
        let (counters, start) = (Arc::new(Counters::default()), Instant::now());
        let traces = TraceBox::new(limits, counters.clone());
        let (to, mut from) = mpsc::channel(1);
        let pipe = Pipe::new(to);
        let mut first = fragment("a", 0, 1200);
        first.mpi_clocks =
            vec![MpiRankClock { points: vec![MpiClockPoint::default()], ..MpiRankClock::default() }];
        first.jobs = vec![throughline_sample::wire::Job::default()];
        traces.take(1, &mut first, start);
        assert_eq!((first.jobs.len(), first.mpi_traces.len()), (1, 0), "others are left alone");
        traces.take(1, &mut fragment("a", 5000, 900), start);
        assert!(traces.flush(&pipe) && !traces.is_empty());
        assert_eq!(handed(&mut from), [(0, 1200)]);
        assert!(traces.flush(&pipe) && traces.is_empty());
        assert_eq!(handed(&mut from), [(5000, 900)]);
        traces.take(1, &mut fragment("a", 6000, 10), start);
        drop(from);
        assert!(!traces.flush(&pipe));
        assert_eq!(counters.status().dropped_trace_records, 10);
    }
}
