//! What one certificate may send in a second, and its share of the memory between arrival and commit.
//!
//! A sender of more rows is read later: its entries wait in its own spool, so nothing is lost. Of its events those beyond the
//! quota are rejected, as no backlog of true ones is that long. Senders of this machine have no quota: they are known users.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use throughline_daemon::{Failure, SelfMetrics};
use throughline_sample::Message;
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::{OVER_QUOTA_SENDERS, QUOTA_LIMITED};
use throughline_sample::throttle::Throttle;
use throughline_sample::wire::{Batch, Event};
use throughline_store::{EXAMPLE_BYTES_MAX, RecordRejection};
use tokio::sync::Semaphore;

use crate::SOURCE;
use crate::identity::Identity;
use crate::queue::QUEUE_UNITS;

/// Rows of a node in a second: more than all its ranks and GPUs make by far, less than a collector stores.
pub const ROWS_PER_SECOND_OF_SENDER: u32 = 20_000;

/// Events of a node in a second.
pub const EVENTS_PER_SECOND_OF_SENDER: u32 = 10;

/// Rows of a crawler in a second: ten sweeps of 10,000 ports, as it may have to make up for hours at a sweep a second.
pub const ROWS_PER_SECOND_OF_CRAWLER: u32 = 100_000;

/// Events of a crawler in a second.
pub const EVENTS_PER_SECOND_OF_CRAWLER: u32 = 100;

/// Seconds' worth that may come at once: of a node the 20 million trace records that a job may have and what a full spool
/// holds after an outage of hours, of a crawler the events of a fabric of 60,000 links that goes down and comes back.
pub const BURST_SECONDS: u32 = 1200;

/// Rows that an event costs which is rejected for the quota: who goes on sending them is soon read later, as decoding them for
/// nothing takes processor from others.
const ROWS_OF_REJECTED_EVENT: usize = 100;

/// Memory of the queue that one certificate may take, in units: a quarter, so that a sender that fills its own leaves others
/// theirs. A larger entry takes all of it.
const SENDER_UNITS: usize = QUEUE_UNITS / 4;

/// Certificates whose use is known; those beyond share one quota. An idle one is forgotten once its buckets are full again.
const SENDERS_MAX: usize = 64 * 1024;

/// Shortest and longest pause of a sender over its quota.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long a sender has to stay within its quotas until it counts as over no more.
const CALM: Duration = Duration::from_secs(60);

/// The same sender over the same quota is an event once in this time.
const EVENT_INTERVAL: Duration = Duration::from_secs(3600);

/// Quotas of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Rows of a node's certificate in a second.
    pub rows_per_second_of_sender: u32,
    /// Its events.
    pub events_per_second_of_sender: u32,
    /// Rows of a crawler's certificate in a second.
    pub rows_per_second_of_crawler: u32,
    /// Its events.
    pub events_per_second_of_crawler: u32,
    /// Seconds' worth that may come at once.
    pub burst_seconds: u32,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            rows_per_second_of_sender: ROWS_PER_SECOND_OF_SENDER,
            events_per_second_of_sender: EVENTS_PER_SECOND_OF_SENDER,
            rows_per_second_of_crawler: ROWS_PER_SECOND_OF_CRAWLER,
            events_per_second_of_crawler: EVENTS_PER_SECOND_OF_CRAWLER,
            burst_seconds: BURST_SECONDS,
        }
    }
}

impl QuotaLimits {
    /// Refuses quotas by which nothing would be stored.
    ///
    /// # Errors
    /// One is 0 (64); the message names its key.
    pub fn check(&self) -> Result<(), Failure> {
        let all = [
            ("rows_per_second_of_sender", self.rows_per_second_of_sender),
            ("events_per_second_of_sender", self.events_per_second_of_sender),
            ("rows_per_second_of_crawler", self.rows_per_second_of_crawler),
            ("events_per_second_of_crawler", self.events_per_second_of_crawler),
        ];
        match all.iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => Err(Failure::usage(format!("collect.{key} = 0: must be at least 1"))),
            None => Ok(()),
        }
    }
}

/// What is limited, as metrics and events call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SenderQuota {
    Rows,
    Events,
}

impl SenderQuota {
    const ALL: [SenderQuota; 2] = [SenderQuota::Rows, SenderQuota::Events];

    fn name(self) -> &'static str {
        match self {
            SenderQuota::Rows => "sender_rows",
            SenderQuota::Events => "sender_events",
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is under these locks only counts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all streams of one certificate share.
#[derive(Debug)]
pub(crate) struct SenderShare {
    name: Arc<str>,
    rows: Mutex<Throttle>,
    events: Mutex<Throttle>,
    /// Streams that wait for the quota go on in the order in which they came.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    memory: Arc<Semaphore>,
    over: Arc<OverQuota>,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl SenderShare {
    /// Its name as in `record_quarantine`.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its part of the queue's memory.
    pub fn memory(&self) -> &Arc<Semaphore> {
        &self.memory
    }

    /// Of so many units of the queue's memory those that count against its share.
    pub fn units(units: u32) -> u32 {
        units.min(u32::try_from(SENDER_UNITS).unwrap_or(u32::MAX))
    }

    fn ready(&self) -> Result<(), Duration> {
        locked(&self.rows).ready(Instant::now())
    }

    /// Waits until what it sent before is within its quota.
    pub async fn pass(&self) {
        if self.waiting.load(Relaxed) == 0 && self.ready().is_ok() {
            return;
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        let _turn = self.turn.lock().await;
        let mut is_noted = false;
        while let Err(pause) = self.ready() {
            if !std::mem::replace(&mut is_noted, true) {
                self.over.note(&self.name, SenderQuota::Rows, 1);
            }
            tokio::time::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
    }

    /// Counts the rows of an entry. An entry without any costs as much as one row.
    pub fn charge(&self, rows: usize) {
        locked(&self.rows).charge(rows.max(1));
    }

    /// Takes the events out of a batch that are beyond the quota.
    pub fn thin(&self, batch: &mut Batch) -> Option<RecordRejection> {
        if batch.events.is_empty() {
            return None;
        }
        let taken = locked(&self.events).take_up_to(batch.events.len(), Instant::now());
        let first = batch.events.get(taken)?;
        let mut example = first.encode_to_vec();
        example.truncate(EXAMPLE_BYTES_MAX);
        let rejected = batch.events.len() - taken;
        self.charge(rejected.saturating_mul(ROWS_OF_REJECTED_EVENT));
        let records = rejected as u64;
        self.over.note(&self.name, SenderQuota::Events, records);
        batch.events.truncate(taken);
        batch.events.shrink_to_fit();
        Some(RecordRejection { sender: None, reason: Rejection::Quota, kind: "events", records, example })
    }

    /// Whether nothing would be lost if this were made anew.
    fn is_unused(&self, now: Instant) -> bool {
        locked(&self.rows).is_full(now) && locked(&self.events).is_full(now)
    }
}

/// Since when a sender is over a quota, when it last was, and when that was last reported.
#[derive(Debug)]
struct Excess {
    last: Instant,
    reported: Option<Instant>,
}

/// Who is over which quota.
#[derive(Debug, Default)]
struct OverQuota {
    senders: Mutex<BTreeMap<(Arc<str>, SenderQuota), Excess>>,
    metrics: SelfMetrics,
}

impl OverQuota {
    fn note(&self, sender: &Arc<str>, quota: SenderQuota, times: u64) {
        self.metrics.add((SOURCE, quota.name()), &QUOTA_LIMITED, times);
        let mut senders = locked(&self.senders);
        let excess = senders.entry((sender.clone(), quota));
        excess.or_insert_with(|| Excess { last: Instant::now(), reported: None }).last = Instant::now();
    }
}

/// The quotas of all certificates.
#[derive(Clone, Debug)]
pub(crate) struct SenderQuotas {
    limits: QuotaLimits,
    senders: Arc<Mutex<HashMap<String, Arc<SenderShare>>>>,
    over: Arc<OverQuota>,
}

impl SenderQuotas {
    pub fn new(limits: QuotaLimits, metrics: SelfMetrics) -> Self {
        for quota in SenderQuota::ALL {
            metrics.add((SOURCE, quota.name()), &QUOTA_LIMITED, 0);
        }
        metrics.set(SOURCE, &OVER_QUOTA_SENDERS, 0.0);
        let over = Arc::new(OverQuota { senders: Mutex::default(), metrics });
        Self { limits, senders: Arc::default(), over }
    }

    /// What the streams of a certificate share; `None` for senders of this machine.
    pub fn of(&self, identity: &Identity) -> Option<Arc<SenderShare>> {
        let Identity::Certified { crawler, .. } = identity else { return None };
        let now = Instant::now();
        let mut senders = locked(&self.senders);
        let mut name = identity.name();
        if senders.len() >= SENDERS_MAX && !senders.contains_key(&name) {
            senders.retain(|_, share| Arc::strong_count(share) > 1 || !share.is_unused(now));
            if senders.len() >= SENDERS_MAX {
                name = "other".to_owned();
            }
        }
        let share = senders.entry(name).or_insert_with_key(|name| {
            let limits = self.limits;
            let (rows, events) = match crawler {
                Some(_) => (limits.rows_per_second_of_crawler, limits.events_per_second_of_crawler),
                None => (limits.rows_per_second_of_sender, limits.events_per_second_of_sender),
            };
            Arc::new(SenderShare {
                name: name.as_str().into(),
                rows: Mutex::new(Throttle::new(rows, limits.burst_seconds, now)),
                events: Mutex::new(Throttle::new(events, limits.burst_seconds, now)),
                turn: tokio::sync::Mutex::default(),
                waiting: AtomicUsize::new(0),
                memory: Arc::new(Semaphore::new(SENDER_UNITS)),
                over: self.over.clone(),
            })
        });
        Some(share.clone())
    }

    /// Events about senders that are over a quota, and the metric of how many there are. `time` is UTC nanoseconds.
    pub fn report(&self, time: i64) -> Vec<Event> {
        self.report_at(time, Instant::now())
    }

    fn report_at(&self, time: i64, now: Instant) -> Vec<Event> {
        let mut senders = locked(&self.over.senders);
        let is_over = |excess: &Excess| now.saturating_duration_since(excess.last) < CALM;
        senders.retain(|_, excess| {
            is_over(excess)
                || excess.reported.is_some_and(|at| now.saturating_duration_since(at) < EVENT_INTERVAL)
        });
        let over: std::collections::BTreeSet<&Arc<str>> =
            senders.iter().filter(|(_, excess)| is_over(excess)).map(|((sender, _), _)| sender).collect();
        #[allow(clippy::cast_precision_loss)] // At most SENDERS_MAX.
        self.over.metrics.set(SOURCE, &OVER_QUOTA_SENDERS, over.len() as f64);
        let mut events = Vec::new();
        for ((sender, quota), excess) in senders.iter_mut().filter(|(_, excess)| is_over(excess)) {
            if excess.reported.is_some() {
                continue;
            }
            excess.reported = Some(now);
            let text = match quota {
                SenderQuota::Rows => {
                    format!("{sender} sends more rows than its quota allows: its batches wait in its spool")
                }
                SenderQuota::Events => {
                    format!("{sender} sends more events than its quota allows: those beyond are rejected")
                }
            };
            tracing::warn!(sender = &**sender, quota = quota.name(), "a sender is over its quota");
            events.push(Event {
                time,
                source: SOURCE.to_owned(),
                kind: "sender.quota".to_owned(),
                severity: "warning".to_owned(),
                text,
                after: quota.name().to_owned(),
                ..Event::default()
            });
        }
        events
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn certified(name: &str, crawler: bool) -> Identity {
        let crawler = crawler.then(|| (name.to_owned(), Default::default()));
        Identity::Certified { names: vec![name.to_owned()], crawler, serial: "1".to_owned() }
    }

    fn quotas(rows: u32, events: u32) -> (SenderQuotas, SelfMetrics) {
        let limits = QuotaLimits {
            rows_per_second_of_sender: rows,
            events_per_second_of_sender: events,
            burst_seconds: 1,
            ..QuotaLimits::default()
        };
        let metrics = SelfMetrics::default();
        (SenderQuotas::new(limits, metrics.clone()), metrics)
    }

    #[test]
    fn attack_22_events_beyond_the_quota_are_taken_out_and_counted() {
        let (quotas, metrics) = quotas(1000, 10);
        let share = quotas.of(&certified("evil", false)).unwrap();
        let mut batch = Batch { events: vec![Event::default(); 1000], ..Batch::default() };
        let rejected = share.thin(&mut batch).unwrap();
        assert_eq!((batch.events.len(), rejected.records, rejected.reason), (10, 990, Rejection::Quota));
        // A stream more of the same certificate has no bucket of its own.
        let mut more = Batch { events: vec![Event::default(); 5], ..Batch::default() };
        let again = quotas.of(&certified("evil", false)).unwrap();
        assert!(again.thin(&mut more).unwrap().records >= 4);
        assert!(again.ready().is_err(), "it is read later, too");
        let mut honest = Batch { events: vec![Event::default(); 5], ..Batch::default() };
        assert_eq!(quotas.of(&certified("good", false)).unwrap().thin(&mut honest), None);
        assert!(metrics.get((SOURCE, "sender_events"), &QUOTA_LIMITED).unwrap() >= 994.0);
        let events = quotas.report(7);
        assert!(events.len() == 1 && events[0].text.contains("node:evil"), "{events:?}");
        assert_eq!(metrics.get(SOURCE, &OVER_QUOTA_SENDERS), Some(1.0));
        assert!(quotas.report(8).is_empty(), "once an hour");
        quotas.report_at(9, Instant::now() + CALM);
        assert_eq!(metrics.get(SOURCE, &OVER_QUOTA_SENDERS), Some(0.0));
    }

    #[tokio::test(start_paused = true)]
    async fn rows_beyond_the_quota_wait_and_what_comes_at_once_does_not() {
        let (quotas, _) = quotas(100, 10);
        let share = quotas.of(&certified("n1", false)).unwrap();
        // A backlog as large as the burst is read at once.
        for _ in 0..10 {
            share.pass().await;
            share.charge(10);
        }
        assert!(share.ready().is_err());
        let crawler = quotas.of(&certified("fab1", true)).unwrap();
        crawler.charge(90_000);
        assert!(crawler.ready().is_ok(), "a crawler has a quota of its own");
        assert!(quotas.of(&Identity::Local { uid: Some(0) }).is_none());
    }
}
