//! Records of trace mode on their way to the agent, apart from all others: they are many, and whatever is too
//! much of them is left out before it could take the place of anything else.
//!
//! Three bounds, each counted: records a second of the node, records of a job, records that wait. What was left
//! out shows as a gap in the numbers of the records that stay.

use crate::status::{Counters, add};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use throughline_sample::wire::{Batch, MpiRankClock, MpiRankTrace};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Records handed over in one fragment: some 500 KiB, so that it fits an entry of the spool.
const FRAGMENT: usize = 4096;
/// Records that wait for the agent.
const PENDING: usize = 131_072;
/// Jobs whose records are counted; further ones share one count.
const JOBS: usize = 4096;

/// Bounds of trace mode on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Records taken in a second, of all jobs together.
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
    limits: TraceLimits,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Item>,
    records: usize,
    /// Records that may be taken now.
    allowance: f64,
    filled: Instant,
    jobs: HashMap<String, u64>,
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

    fn job(&self) -> &str {
        match self {
            Self::Trace(trace) => &trace.job_key,
            Self::Clock(clock) => &clock.job_key,
        }
    }

    fn truncate(&mut self, records: usize) {
        match self {
            Self::Trace(trace) => trace.records.truncate(records),
            Self::Clock(clock) => clock.points.truncate(records),
        }
    }
}

impl Inner {
    /// How many of `wanted` records of a job may be taken, and counts them.
    fn admit(&mut self, job: &str, wanted: usize, limits: TraceLimits, now: Instant) -> usize {
        let rate = f64::from(limits.records_per_second);
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.allowance = (self.allowance + since * rate).min(rate);
        // Beyond the limit of jobs the count without a name stands for all others.
        let name = if self.jobs.len() < JOBS || self.jobs.contains_key(job) { job } else { "" };
        let of_job = self.jobs.entry(name.to_owned()).or_default();
        let left = usize::try_from(limits.records_of_job.saturating_sub(*of_job)).unwrap_or(usize::MAX);
        // Never negative, and at most a second's worth.
        let taken = wanted.min(self.allowance as usize).min(left).min(PENDING - self.records.min(PENDING));
        self.allowance -= taken as f64;
        *of_job += taken as u64;
        self.records += taken;
        taken
    }

    /// The next fragment; empty when nothing waits.
    fn fragment(&mut self) -> Vec<Item> {
        let (mut items, mut records) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            if records > 0 && records + next.records() > FRAGMENT {
                break;
            }
            records += next.records();
            items.extend(self.waiting.pop_front());
        }
        self.records -= records;
        items
    }
}

impl TraceBox {
    pub(crate) fn new(limits: TraceLimits, counters: Arc<Counters>, now: Instant) -> Self {
        let allowance = f64::from(limits.records_per_second);
        let inner =
            Inner { waiting: VecDeque::new(), records: 0, allowance, filled: now, jobs: HashMap::new() };
        Self { inner: Mutex::new(inner), limits, counters }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code holding the lock can panic halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the trace records out of a fragment.
    pub(crate) fn take(&self, fragment: &mut Batch, now: Instant) {
        let traces = std::mem::take(&mut fragment.mpi_traces).into_iter().map(Item::Trace);
        let clocks = std::mem::take(&mut fragment.mpi_clocks).into_iter().map(Item::Clock);
        for mut item in clocks.chain(traces) {
            let wanted = item.records();
            let mut inner = self.lock();
            let taken = inner.admit(item.job(), wanted, self.limits, now);
            item.truncate(taken);
            if taken > 0 {
                inner.waiting.push_back(item);
            }
            drop(inner);
            add(&self.counters.dropped_traces, (wanted - taken) as u64);
        }
    }

    /// A job has ended on this node.
    pub(crate) fn forget(&self, job: &str) {
        self.lock().jobs.remove(job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Hands over what the channel has room for. Returns false once the agent's end is closed.
    pub(crate) fn flush(&self, to: &mpsc::Sender<Batch>) -> bool {
        loop {
            let items = self.lock().fragment();
            let records = items.iter().map(Item::records).sum::<usize>();
            if items.is_empty() {
                return !to.is_closed();
            }
            match to.try_send(batch(items)) {
                Ok(()) => add(&self.counters.records, records as u64),
                Err(TrySendError::Full(back)) => {
                    self.put_back(back, records);
                    return true;
                }
                Err(TrySendError::Closed(_)) => {
                    add(&self.counters.dropped_traces, records as u64);
                    return false;
                }
            }
        }
    }

    fn put_back(&self, back: Batch, records: usize) {
        let traces = back.mpi_traces.into_iter().map(Item::Trace);
        let clocks = back.mpi_clocks.into_iter().map(Item::Clock);
        let mut inner = self.lock();
        inner.records += records;
        for item in clocks.chain(traces).rev() {
            inner.waiting.push_front(item);
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
    use std::time::Duration;
    use throughline_sample::wire::{MpiClockPoint, MpiTraceRecord};

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
        let traces = TraceBox::new(limits, counters.clone(), start);
        let (to, mut from) = mpsc::channel(8);
        traces.take(&mut fragment("a", 0, 80), start);
        traces.take(&mut fragment("a", 80, 80), start);
        assert!(traces.flush(&to));
        assert_eq!(handed(&mut from), [(0, 80), (80, 20)]);
        traces.take(&mut fragment("a", 160, 80), start + Duration::from_secs(9));
        traces.take(&mut fragment("b", 0, 80), start + Duration::from_secs(9));
        assert!(traces.flush(&to));
        assert_eq!(handed(&mut from), [(160, 50), (0, 50)]);
        assert_eq!(counters.status().dropped_trace_records, 60 + 30 + 30);
        traces.forget("a");
        traces.take(&mut fragment("a", 240, 80), start + Duration::from_secs(99));
        assert!(traces.flush(&to) && traces.is_empty());
        assert_eq!(handed(&mut from), [(240, 80)]);
    }

    #[test]
    fn fragments_are_small_and_keep_their_order_while_the_channel_is_full() {
        let limits = TraceLimits { records_per_second: 1_000_000, records_of_job: u64::MAX };
        let (counters, start) = (Arc::new(Counters::default()), Instant::now());
        let traces = TraceBox::new(limits, counters.clone(), start);
        let (to, mut from) = mpsc::channel(1);
        let mut first = fragment("a", 0, FRAGMENT - 1);
        first.mpi_clocks =
            vec![MpiRankClock { points: vec![MpiClockPoint::default()], ..MpiRankClock::default() }];
        first.jobs = vec![throughline_sample::wire::Job::default()];
        traces.take(&mut first, start);
        assert_eq!((first.jobs.len(), first.mpi_traces.len()), (1, 0), "others are left alone");
        traces.take(&mut fragment("a", 5000, 10), start);
        assert!(traces.flush(&to) && !traces.is_empty());
        assert_eq!(handed(&mut from), [(0, FRAGMENT - 1)]);
        assert!(traces.flush(&to) && traces.is_empty());
        assert_eq!(handed(&mut from), [(5000, 10)]);
        traces.take(&mut fragment("a", 6000, PENDING + 10), start);
        drop(from);
        assert!(!traces.flush(&to));
        assert_eq!(counters.status().dropped_trace_records, PENDING as u64 + 10);
    }
}
