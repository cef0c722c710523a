//! One task that takes records from all sources and appends about one batch a second to the spool.
//!
//! It waits for no sink and no disk. It ends when every source has closed its channel, after the last batch.

use crate::batch::{GatheredEntries, Gathering, PreparedEntry, RECORD_BYTES_MAX, records};
use crate::fold::{Folder, Intervals};
use crate::latest::LastValues;
use crate::live::{LiveJobs, LiveSeconds};
use crate::rounds::Rounds;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{Clock, ClockSpans, SelfMetrics, boot_id};
use throughline_delivery::SpoolSection;
use throughline_recorder::Recorder;
use throughline_sample::Message;
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::{RECORDS, RECORDS_DISCARDED, RECORDS_REJECTED};
use throughline_sample::wire::{Batch, RowRules};
use throughline_spool::Spool;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{StreamExt, StreamMap};

/// Name of the agent's own channel and part.
pub const NAME: &str = "agent";

/// Fragments that wait in one source's channel while the batcher is busy for a moment; at 10 readings a
/// second, three seconds.
pub const CHANNEL_FRAGMENTS: usize = 32;

/// Who sends, and in which order.
#[derive(Debug)]
pub struct Sender {
    node: String,
    boot_id: String,
    /// Number of the last batch. Begins at the microseconds since boot, so that it also rises over a restart
    /// of the agent within one boot.
    order: u64,
    /// Spans of this node's clock; without them nobody moves its times.
    spans: Option<Arc<ClockSpans>>,
}

impl Sender {
    /// The sender of this boot.
    pub fn new(node: &str) -> Self {
        Self { node: node.to_owned(), boot_id: boot_id(), order: microseconds_since_boot(), spans: None }
    }

    /// Reports by which span of the clock its times were made.
    #[must_use]
    pub fn with_spans(self, spans: Arc<ClockSpans>) -> Self {
        Self { spans: Some(spans), ..self }
    }

    /// The spans of the clock.
    pub fn spans(&self) -> Option<&Arc<ClockSpans>> {
        self.spans.as_ref()
    }

    /// Signs a batch of the present span of the clock.
    pub fn sign(&mut self, batch: &mut Batch) {
        self.sign_of(batch, None);
    }

    /// Signs a batch of a span of the clock that has ended, or of the present one.
    fn sign_of(&mut self, batch: &mut Batch, ended: Option<u64>) {
        if let Some(spans) = &self.spans {
            spans.sign(batch, ended);
        }
        self.order += 1;
        batch.node.clone_from(&self.node);
        batch.boot_id.clone_from(&self.boot_id);
        batch.order = self.order;
        batch.clock_error_nanoseconds = Clock::error_nanoseconds();
    }
}

fn microseconds_since_boot() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    // Linux always has this clock, and it is never negative.
    time.map_or(0, |t| u64::try_from(t.tv_sec() * 1_000_000 + t.tv_nsec() / 1000).unwrap_or(0))
}

/// Source and reason in metrics of records of trace mode that the spool does not get because it fills up.
const TRACES: &str = "trace";
const SPOOL_FULL: &str = "spool_full";

/// The reason in metrics of records that fit into no entry, as [`Rejection::Size`] names it.
const SIZE: &str = Rejection::Size.reason();

/// Above these the spool gets no more records of trace mode: the rest of it is for what is sent always.
#[derive(Clone, Copy, Debug)]
pub struct TraceSpace {
    /// Bytes of the spool on disk.
    pub disk_bytes: u64,
    /// Bytes of the spool in memory.
    pub memory_bytes: u64,
}

impl TraceSpace {
    /// Half of what the spool may hold.
    pub fn of(spool: &SpoolSection) -> Self {
        Self { disk_bytes: spool.bytes_max / 2, memory_bytes: spool.memory_bytes_max / 2 }
    }

    fn is_left(self, spool: &Spool) -> bool {
        let stats = spool.stats();
        stats.disk_bytes <= self.disk_bytes && stats.memory_bytes <= self.memory_bytes
    }
}

/// The batcher; see [`Batcher::run`].
pub struct Batcher {
    sender: Sender,
    last: Arc<LastValues>,
    metrics: SelfMetrics,
    inputs: StreamMap<&'static str, ReceiverStream<Batch>>,
    row_rules: BTreeMap<&'static str, RowRules>,
    recorder: Option<Recorder>,
    folder: Option<Folder>,
    live: LiveJobs,
    /// By which records have their times.
    clock: Arc<Clock>,
}

impl Batcher {
    /// A batcher without inputs.
    pub fn new(sender: Sender, last: Arc<LastValues>, metrics: SelfMetrics) -> Self {
        let (inputs, row_rules) = (StreamMap::new(), BTreeMap::new());
        let clock = sender.spans().map_or_else(Arc::default, |spans| spans.clock().clone());
        Self {
            sender,
            clock,
            last,
            metrics,
            inputs,
            row_rules,
            recorder: None,
            folder: None,
            live: LiveJobs::default(),
        }
    }

    /// What MPI ranks report is folded to rows at these intervals.
    #[must_use]
    pub fn with_folding(self, intervals: Intervals) -> Self {
        Self { folder: Some(Folder::new(intervals)), ..self }
    }

    /// Which jobs have their rows each second.
    #[must_use]
    pub fn with_live(self, live: LiveJobs) -> Self {
        Self { live, ..self }
    }

    /// By which rules each source's readings become rows; its rounds report them.
    #[must_use]
    pub fn with_row_rules(self, row_rules: BTreeMap<&'static str, RowRules>) -> Self {
        Self { row_rules, ..self }
    }

    /// What sources send is recorded as they send it.
    #[must_use]
    pub fn with_recorder(self, recorder: Option<Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Adds a source's channel.
    pub fn input(&mut self, source: &'static str, receiver: mpsc::Receiver<Batch>) {
        self.inputs.insert(source, ReceiverStream::new(receiver));
    }

    /// Gathers and appends until all inputs are closed.
    pub async fn run(mut self, spool: Spool, batch_interval: Duration, space: TraceSpace) {
        let mut tick = interval(batch_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut gathering, mut rounds) = (Gathering::default(), Rounds::default());
        let mut seconds = LiveSeconds::new(&self.sender.node);
        loop {
            let due = tokio::select! {
                fragment = self.inputs.next() => match fragment {
                    Some((source, mut fragment)) => {
                        if let Some(spans) = self.sender.spans() {
                            spans.adopt(&mut fragment);
                        }
                        for round in &mut fragment.coverage {
                            round.row_rules = self.row_rules.get(source).copied();
                        }
                        self.metrics.add(source, &RECORDS, records(&fragment) as u64);
                        self.last.observe(&fragment);
                        // Before anything is left out or folded: it has what sources sent.
                        if let Some(recorder) = &self.recorder {
                            recorder.append(&mut fragment);
                        }
                        if let Some(folder) = &mut self.folder {
                            folder.take(&mut fragment, self.clock.now());
                        }
                        rounds.take(&mut fragment);
                        gathering.add(fragment);
                        gathering.is_large()
                    }
                    None => break,
                },
                _ = tick.tick() => {
                    self.follow_clock(&spool, &mut gathering, &mut rounds, space);
                    let now = self.clock.now();
                    gathering.add(rounds.due(now));
                    if let Some(folder) = &mut self.folder {
                        gathering.add(folder.due(now));
                    }
                    true
                }
                second = self.live.due(&seconds, &self.clock) => {
                    seconds.last = second;
                    self.follow_clock(&spool, &mut gathering, &mut rounds, space);
                    let now = self.clock.now();
                    if let Some(folder) = &mut self.folder {
                        gathering.add(folder.due(now));
                        gathering.add(folder.live(&self.live.now(now), second));
                    }
                    true
                }
            };
            if due {
                self.append(&spool, gathering.take(), space, None);
            }
        }
        gathering.add(rounds.finish());
        if let Some(folder) = &mut self.folder {
            gathering.add(folder.finish());
        }
        self.append(&spool, gathering.take(), space, None);
    }

    /// Where the clock was set, what was gathered before is of the span that ended, and what goes on has the clock's new times.
    fn follow_clock(
        &mut self,
        spool: &Spool,
        gathering: &mut Gathering,
        rounds: &mut Rounds,
        space: TraceSpace,
    ) {
        let Some((step, ended)) = self.sender.spans().and_then(|spans| spans.follow()) else { return };
        // A step of centuries loses digits that nobody reads.
        #[allow(clippy::cast_precision_loss)]
        let seconds = step as f64 / 1e9;
        tracing::warn!(seconds, "the system's clock was set");
        gathering.add(rounds.finish());
        self.append(spool, gathering.take(), space, Some(ended));
        if let Some(folder) = &mut self.folder {
            folder.step(step);
        }
    }

    fn append(&mut self, spool: &Spool, taken: GatheredEntries, space: TraceSpace, ended: Option<u64>) {
        if taken.too_large > 0 {
            if self.metrics.get((NAME, SIZE), &RECORDS_REJECTED).is_none() {
                tracing::warn!(
                    records = taken.too_large,
                    "records larger than {RECORD_BYTES_MAX} bytes are rejected, each alone; counted from now on in records_rejected"
                );
            }
            self.metrics.add((NAME, SIZE), &RECORDS_REJECTED, taken.too_large);
        }
        for ready in taken.ready {
            if ready.is_trace() && !space.is_left(spool) {
                self.metrics.add((TRACES, SPOOL_FULL), &RECORDS_DISCARDED, records(&ready.batch) as u64);
                continue;
            }
            let PreparedEntry { mut batch, class } = ready;
            self.sender.sign_of(&mut batch, ended);
            if let Err(error) = spool.append(batch.encode_to_vec(), class) {
                // The spool has counted it.
                tracing::warn!(%error, "a batch is lost");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use throughline_sample::wire::{GpuLinksSample, Job, JobRank, MpiOpCell, MpiRankBin};

    const SPACE: TraceSpace = TraceSpace { disk_bytes: 1 << 20, memory_bytes: 1000 };

    fn sample(time: i64) -> Batch {
        Batch { gpu_links: vec![GpuLinksSample { time, ..Default::default() }], ..Batch::default() }
    }

    #[tokio::test]
    async fn records_of_all_sources_reach_the_spool_in_order() {
        let spool = Spool::in_memory(throughline_spool::Config::default()).unwrap();
        let metrics = SelfMetrics::default();
        let mut batcher = Batcher::new(Sender::new("n1"), Arc::default(), metrics.clone());
        let (one, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
        batcher.input("one", receiver);
        let (two, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
        batcher.input("two", receiver);
        let task = tokio::spawn(batcher.run(spool.clone(), Duration::from_millis(5), SPACE));
        for time in 0..20 {
            one.send(sample(time)).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(one); // One source ends: the other goes on.
        two.send(Batch { jobs: vec![Job::default()], ..sample(99) }).await.unwrap();
        drop(two);
        task.await.unwrap();

        let (mut times, mut orders, mut jobs) = (Vec::new(), Vec::new(), 0);
        for entry in spool.reader().next_batch(0, 100, 1 << 20).unwrap() {
            let batch = Batch::decode(entry.payload).unwrap();
            assert_eq!(batch.node, "n1");
            assert!(!batch.boot_id.is_empty());
            orders.push(batch.order);
            times.extend(batch.gpu_links.iter().map(|sample| sample.time).filter(|time| *time != 99));
            jobs += batch.jobs.len();
        }
        assert_eq!(times, (0..20).collect::<Vec<i64>>());
        assert_eq!(jobs, 1);
        assert!(orders.windows(2).all(|pair| pair[0] < pair[1]), "{orders:?}");
        assert_eq!(metrics.get("one", &RECORDS), Some(20.0));
        assert_eq!(metrics.get("two", &RECORDS), Some(2.0));
    }

    #[tokio::test]
    async fn a_spool_that_fills_up_gets_no_traces() {
        let spool = Spool::in_memory(throughline_spool::Config::default()).unwrap();
        let metrics = SelfMetrics::default();
        let mut batcher = Batcher::new(Sender::new("n1"), Arc::default(), metrics.clone());
        let ready = || {
            let mut gathering = Gathering::default();
            gathering.add(Batch { mpi_traces: vec![Default::default(); 300], ..sample(1) });
            gathering.take()
        };
        batcher.append(&spool, ready(), SPACE, None);
        assert_eq!(spool.stats().appended_entries, 2);
        batcher.append(&spool, ready(), SPACE, None);
        assert_eq!(
            (spool.stats().appended_entries, metrics.get((TRACES, SPOOL_FULL), &RECORDS_DISCARDED)),
            (3, Some(300.0))
        );
    }

    /// Calls of the job's rank, as far as its rows have an owner in the same entry or one before.
    fn owned_calls(spool: &Spool) -> u64 {
        let (mut jobs, mut ranks, mut calls) = (BTreeSet::new(), BTreeSet::new(), 0);
        for entry in spool.reader().next_batch(0, 100, 1 << 20).unwrap() {
            let batch = Batch::decode(entry.payload).unwrap();
            jobs.extend(batch.jobs.into_iter().map(|job| job.key));
            ranks.extend(batch.job_ranks.into_iter().map(|rank| (rank.job_key, rank.rank)));
            for row in batch.mpi_rank_rows {
                if jobs.contains(&row.job_key) && ranks.contains(&(row.job_key, row.rank)) {
                    calls = row.cells.iter().map(|cell| cell.calls).sum::<u64>().max(calls);
                }
            }
        }
        calls
    }

    /// A rank that lived for less than an interval of rows: whichever entry is damaged, its totals are there and have an owner.
    #[tokio::test]
    async fn any_one_damaged_entry_leaves_a_young_jobs_totals() {
        const CALLS: u64 = 7;
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| Spool::open(path, throughline_spool::Config::default()).unwrap();
        let spool = open(folder.path());
        let second = 1_000_000_000;
        let intervals =
            Intervals { fold: 10 * second, rank: 60 * second, later: 300 * second, repeat: 86_400 * second };
        let mut batcher = Batcher::new(Sender::new("n1"), Arc::default(), SelfMetrics::default());
        let (mpi, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
        batcher.input("mpi", receiver);
        let batcher = batcher.with_folding(intervals);
        let task = tokio::spawn(batcher.run(spool.clone(), Duration::from_millis(5), SPACE));
        let start = Clock::new().now();
        let of_rank = |end| Batch {
            jobs: vec![Job { key: "job".into(), start, end, ..Job::default() }],
            job_ranks: vec![JobRank { job_key: "job".into(), start, end, ..JobRank::default() }],
            ..Batch::default()
        };
        let appended = async |count| {
            while spool.stats().appended_entries < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        mpi.send(of_rank(0)).await.unwrap();
        appended(1).await;
        let cell = MpiOpCell { operation: "allreduce".into(), calls: CALLS, ..MpiOpCell::default() };
        let bin = MpiRankBin {
            job_key: "job".into(),
            epoch: start,
            time: start + 1,
            cells: vec![cell],
            ..Default::default()
        };
        mpi.send(Batch { mpi_ops: vec![bin], ..Batch::default() }).await.unwrap();
        mpi.send(of_rank(start + 2)).await.unwrap();
        // The beginning; the end; the last rows; and these once more, in two entries.
        appended(5).await;
        drop(mpi);
        task.await.unwrap();
        assert_eq!(owned_calls(&spool), CALLS);
        let entries = spool.reader().next_batch(0, 100, 1 << 20).unwrap();
        let lengths: Vec<usize> = entries.iter().map(|entry| entry.payload.len()).collect();
        drop(spool);
        let segment = |folder: &std::path::Path| {
            let mut names = std::fs::read_dir(folder).unwrap().map(|name| name.unwrap().path());
            names.find(|name| name.extension().is_some_and(|end| end == "seg")).unwrap()
        };
        let whole = std::fs::read(segment(folder.path())).unwrap();
        let mut at = 64;
        for (number, length) in lengths.iter().enumerate() {
            let mut bytes = whole.clone();
            bytes[at + 40..at + 48].fill(0xa5);
            std::fs::write(segment(folder.path()), bytes).unwrap();
            let copy = tempfile::tempdir().unwrap();
            for name in ["meta", "tail"] {
                std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
            }
            let name = segment(folder.path());
            std::fs::copy(&name, copy.path().join(name.file_name().unwrap())).unwrap();
            let damaged = open(copy.path());
            assert_eq!(damaged.stats().damaged_entries, 1, "entry {number} of {lengths:?}");
            assert_eq!(owned_calls(&damaged), CALLS, "without entry {number} of {lengths:?}");
            at += 32 + length;
        }
    }

    #[test]
    fn orders_rise_over_a_restart() {
        let mut first = Sender::new("n1");
        let mut batch = Batch::default();
        first.sign(&mut batch);
        assert!(Sender::new("n1").order + 1_000_000 > batch.order);
        assert!(microseconds_since_boot() > 0);
    }
}
