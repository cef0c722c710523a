//! The quarantine of a daemon: entries that the collector refuses because its configuration forbids to store them (the
//! node's name and its certificate differ, the sender is no crawler of the subnet, the spool is another sender's).
//!
//! They leave the spool, so that the entries behind them are delivered, and are sent again from time to time: they are
//! stored once the configuration is corrected. Bounded in bytes, number and age; the oldest are dropped first and counted.
//!
//! The quarantine is a spool of its own (`refused` beside `spool` in the state folder of an agent), with its own spool id: the ledger of
//! the database knows the highest sequence of each spool only, and would take an entry that is stored after a later one of
//! its spool for a repetition. Each entry is wrapped in an envelope: magic `TLREFUS1`, spool id 16 bytes, sequence u64, time
//! of the refusal i64 (UTC nanoseconds), length of the reason u16, the reason, then the payload; little-endian.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use throughline_daemon::Condition;
use throughline_spool::{ENVELOPE_BYTES_MAX, Entry, ReadError, Spool, Stats};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::sink::{Reason, Refusal, SinkError};

/// Entries in the quarantine: a day of a daemon that sends one each second.
pub const QUARANTINE_ENTRIES_MAX: u64 = 86_400;

/// From one line in the log with the same reason to the next.
const LOG_INTERVAL: Duration = Duration::from_secs(3600);

const MAGIC: &[u8; 8] = b"TLREFUS1";
/// Of an envelope without its reason.
const HEAD_BYTES: usize = 8 + 16 + 8 + 8 + 2;
/// Longest reason in an envelope.
const REASON_BYTES_MAX: usize = ENVELOPE_BYTES_MAX - HEAD_BYTES;

/// Entries that were refused; clones are the same quarantine.
#[derive(Clone)]
pub struct Quarantine {
    parts: Arc<Parts>,
}

struct Parts {
    spool: Spool,
    /// `None` in memory.
    folder: Option<PathBuf>,
    keep: Duration,
    /// Entries that are here and not yet acknowledged in the main spool.
    moved: Mutex<HashSet<(Uuid, u64)>>,
    report: Mutex<Report>,
    taken: AtomicU64,
    /// Dropped because of their number or age.
    dropped: AtomicU64,
    wake: Notify,
}

/// What people read.
#[derive(Default)]
struct Report {
    /// Of the last refusal, if there was one.
    reason: Option<String>,
    /// Nothing was stored since the last refusal.
    is_refusing: bool,
    logged: Option<(String, Instant)>,
}

/// A refused entry, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEntry {
    /// Its identity when it was refused.
    pub spool_id: Uuid,
    /// Its sequence when it was refused.
    pub sequence: u64,
    /// UTC nanoseconds of its last refusal on its first way.
    pub refused_ns: i64,
    /// What has to be corrected.
    pub reason: String,
    /// The encoded batch.
    pub payload: Bytes,
}

impl Quarantine {
    /// The quarantine in this spool, which lies in `folder`, of entries that come from `from`. They are kept for `keep`.
    ///
    /// # Errors
    /// What is there can't be read.
    pub fn new(
        spool: Spool,
        folder: Option<PathBuf>,
        keep: Duration,
        from: &Spool,
    ) -> Result<Self, ReadError> {
        let (mut moved, mut report) = (HashSet::new(), Report::default());
        let (mut reader, mut after) = (spool.reader(), 0);
        while let Some(entry) = reader.next_after(after)? {
            after = entry.sequence;
            let Some(refused) = RefusedEntry::read(&entry.payload) else { continue };
            if refused.sequence > from.acked() {
                moved.insert((refused.spool_id, refused.sequence));
            }
            report.reason = Some(refused.reason);
        }
        let parts = Parts {
            spool,
            folder,
            keep,
            moved: Mutex::new(moved),
            report: Mutex::new(report),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            wake: Notify::new(),
        };
        Ok(Self { parts: Arc::new(parts) })
    }

    /// Copies these entries of a spool and syncs them: they may leave the spool afterwards. For a thread that may block.
    ///
    /// # Errors
    /// The spool can't be read.
    pub(crate) fn take(&mut self, from: &Spool, refusals: &[Refusal]) -> Result<(), ReadError> {
        let parts = &self.parts;
        let mut reader = from.reader();
        let acked = from.acked();
        lock(&parts.moved).retain(|(_, sequence)| *sequence > acked);
        for refusal in refusals {
            let entry = reader.next_after(refusal.sequence.saturating_sub(1))?;
            // A full spool may have dropped it meanwhile, and counted that.
            let is_it =
                |entry: &Entry| entry.sequence == refusal.sequence && entry.spool_id == refusal.spool_id;
            let Some(entry) = entry.filter(is_it) else { continue };
            let envelope = envelope(&entry, &refusal.reason, now_ns());
            if let Err(error) = parts.spool.append(envelope, entry.class) {
                parts.dropped.fetch_add(1, Relaxed);
                tracing::warn!(%error, "a refused entry is dropped");
                continue;
            }
            parts.taken.fetch_add(1, Relaxed);
            lock(&parts.moved).insert((entry.spool_id, entry.sequence));
        }
        if let Err(error) = parts.spool.flush() {
            // They are in memory, as entries of a spool are whose disk fails.
            tracing::warn!(%error, "refused entries can't be written");
        }
        self.trim()
    }

    /// Drops what is too old, or too many.
    pub(crate) fn trim(&self) -> Result<(), ReadError> {
        let mut reader = self.parts.spool.reader();
        let keep = i64::try_from(self.parts.keep.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now_ns().saturating_sub(keep);
        while let Some(first) = reader.next_after(0)? {
            let is_old = RefusedEntry::read(&first.payload).is_some_and(|entry| entry.refused_ns < oldest);
            if !is_old && self.parts.spool.stats().backlog_entries <= QUARANTINE_ENTRIES_MAX {
                return Ok(());
            }
            self.parts.spool.ack(first.sequence);
            self.parts.dropped.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Whether this entry of the main spool is here already.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        lock(&self.parts.moved).contains(&(entry.spool_id, entry.sequence))
    }

    /// These entries were refused. Logged once, and once an hour while it lasts.
    pub(crate) fn note_refused(&self, refusals: &[Refusal], to: &str) {
        let mut report = lock(&self.parts.report);
        report.is_refusing = true;
        for refusal in refusals {
            report.reason = Some(refusal.reason.clone());
            let is_due = report
                .logged
                .as_ref()
                .is_none_or(|(reason, at)| *reason != refusal.reason || at.elapsed() >= LOG_INTERVAL);
            if is_due {
                report.logged = Some((refusal.reason.clone(), Instant::now()));
                tracing::error!(
                    reason = refusal.reason,
                    to,
                    kept = self.place(),
                    "the collector refuses batches; they are kept, and sent again once this is corrected; batches that \
                     it accepts are delivered; the command `rejected-batches` of this program lists them"
                );
            }
        }
    }

    /// An entry of the main spool was stored.
    pub(crate) fn note_stored(&self, to: &str) {
        let mut report = lock(&self.parts.report);
        if std::mem::take(&mut report.is_refusing) {
            let waiting = self.stats().backlog_entries;
            tracing::info!(
                to,
                waiting,
                "the collector accepts batches again; refused ones are sent again now"
            );
            self.parts.wake.notify_one();
        }
    }

    /// The spool that holds the entries.
    pub(crate) fn spool(&self) -> &Spool {
        &self.parts.spool
    }

    /// Waits until the main delivery stored an entry after a refusal: what is here may be accepted, too.
    pub(crate) async fn accepted_again(&self) {
        self.parts.wake.notified().await;
    }

    /// An attempt to send what is here failed.
    pub(crate) fn note_refused_again(&self, error: SinkError) {
        if error.reason == Reason::Refused {
            lock(&self.parts.report).reason = Some(error.detail);
        }
    }

    /// Where refused entries are, for people.
    fn place(&self) -> String {
        let folder = self.parts.folder.as_ref().filter(|_| self.parts.spool.is_on_disk());
        folder.map_or_else(|| "memory".to_owned(), |folder| folder.display().to_string())
    }

    /// Fill and counts of the spool.
    pub fn stats(&self) -> Stats {
        self.parts.spool.stats()
    }

    /// Entries that were taken since the start.
    pub fn taken(&self) -> u64 {
        self.parts.taken.load(Relaxed)
    }

    /// Entries that were dropped since the start because a bound was reached.
    pub fn dropped(&self) -> u64 {
        let stats = self.stats();
        self.parts.dropped.load(Relaxed)
            + stats.dropped_memory_entries
            + stats.dropped_disk_entries
            + stats.damaged_entries
    }

    /// What `/healthz` reports.
    pub fn conditions(&self) -> Vec<Condition> {
        let (is_refusing, reason) = {
            let report = lock(&self.parts.report);
            (report.is_refusing, report.reason.clone().unwrap_or_default())
        };
        let waiting = self.stats().backlog_entries;
        let place = self.place();
        let mut conditions = Vec::new();
        if is_refusing {
            conditions.push(Condition::failing(format!(
                "delivery: the collector refuses batches: {reason}; {waiting} are kept in {place} and sent again once this is corrected"
            )));
        } else if waiting > 0 {
            conditions.push(Condition::degraded(format!(
                "delivery: {waiting} batches that the collector refused are kept in {place}: {reason}"
            )));
        }
        if self.dropped() > 0 {
            conditions.push(Condition::degraded(format!(
                "delivery: {} refused batches were dropped since the start, as more than spool.refused_bytes_max waited, or for longer than spool.refused_retention_seconds",
                self.dropped()
            )));
        }
        conditions
    }

    /// Writes and syncs what is here.
    pub(crate) fn flush(&self) {
        if let Err(error) = self.parts.spool.flush() {
            tracing::warn!(%error, "refused entries can't be written");
        }
    }
}

/// Passes each refused entry in this folder to `each`, the oldest first, while a daemon may use it.
///
/// # Errors
/// The folder can't be read.
pub fn refused_entries(folder: &Path, mut each: impl FnMut(RefusedEntry)) -> std::io::Result<()> {
    throughline_spool::inspect(folder, |entry| {
        if let Some(refused) = RefusedEntry::read(&entry.payload) {
            each(refused);
        }
    })
}

/// An entry as it was before it was refused, but with the quarantine's identity.
pub(crate) fn open_envelope(entry: &mut Entry) {
    // What is no envelope is sent as it is: the collector keeps what it can't decode.
    if let Some(refused) = RefusedEntry::read(&entry.payload) {
        entry.payload = refused.payload;
    }
}

impl RefusedEntry {
    /// From an envelope.
    fn read(bytes: &Bytes) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        if &head[..8] != MAGIC {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let reason_bytes = usize::from(u16::from_le_bytes(head[40..].try_into().ok()?));
        let reason = bytes.get(HEAD_BYTES..HEAD_BYTES + reason_bytes)?;
        Some(Self {
            spool_id: Uuid::from_slice(&head[8..24]).ok()?,
            sequence: number(24)?,
            refused_ns: number(32)?.cast_signed(),
            reason: String::from_utf8_lossy(reason).into_owned(),
            payload: bytes.slice(HEAD_BYTES + reason_bytes..),
        })
    }
}

fn envelope(entry: &Entry, reason: &str, now_ns: i64) -> Bytes {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = BytesMut::with_capacity(HEAD_BYTES + end + entry.payload.len());
    out.put_slice(MAGIC);
    out.put_slice(entry.spool_id.as_bytes());
    out.put_u64_le(entry.sequence);
    out.put_i64_le(now_ns);
    // At most ENVELOPE_BYTES_MAX.
    out.put_u16_le(u16::try_from(end).unwrap_or(0));
    out.put_slice(&reason.as_bytes()[..end]);
    out.put_slice(&entry.payload);
    out.freeze()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves at worst an old reason behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_spool::Class;

    #[test]
    fn what_was_moved_before_a_crash_is_known_afterwards() {
        let config = throughline_spool::Config::default;
        let spool = Spool::in_memory(config()).unwrap();
        for byte in 1..=3 {
            spool.append(vec![byte], Class::Precious).unwrap();
        }
        let kept = Spool::in_memory(config()).unwrap();
        let open = || Quarantine::new(kept.clone(), None, Duration::from_secs(60), &spool).unwrap();
        let refusal = Refusal { spool_id: spool.id(), sequence: 2, reason: "no".into() };
        open().take(&spool, &[refusal]).unwrap();
        let entries = spool.reader().next_batch(0, 9, 9).unwrap();
        let again = open();
        assert_eq!(entries.iter().map(|entry| again.has(entry)).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(again.stats().backlog_entries, 1);
    }

    #[test]
    fn what_is_too_old_is_dropped_and_counted() {
        let spool = Spool::in_memory(throughline_spool::Config::default()).unwrap();
        spool.append(vec![1], Class::Precious).unwrap();
        let kept = Spool::in_memory(throughline_spool::Config::default()).unwrap();
        let mut refused = Quarantine::new(kept, None, Duration::ZERO, &spool).unwrap();
        let refusal = Refusal { spool_id: spool.id(), sequence: 1, reason: "no".into() };
        refused.take(&spool, &[refusal]).unwrap();
        refused.trim().unwrap();
        assert_eq!((refused.taken(), refused.dropped(), refused.stats().backlog_entries), (1, 1, 0));
        assert!(refused.conditions()[0].text.contains("refused_retention_seconds"));
    }

    #[test]
    fn an_envelope_carries_the_largest_entry_and_the_longest_reason() {
        let payload = Bytes::from(vec![7; throughline_spool::ENTRY_BYTES_MAX]);
        let entry = Entry {
            spool_id: Uuid::from_u128(5),
            sequence: 9,
            class: Class::Precious,
            appended_ns: 1,
            payload: payload.clone(),
        };
        let wrapped = envelope(&entry, &"ä".repeat(2000), -3);
        assert!(wrapped.len() <= throughline_spool::ENTRY_BYTES_MAX + ENVELOPE_BYTES_MAX);
        let read = RefusedEntry::read(&wrapped).unwrap();
        assert_eq!((read.spool_id, read.sequence, read.refused_ns), (entry.spool_id, 9, -3));
        assert!(read.reason.len() > 900 && read.reason.chars().all(|c| c == 'ä'));
        assert_eq!(read.payload, payload);
        for end in 0..HEAD_BYTES {
            assert_eq!(RefusedEntry::read(&wrapped.slice(..end)), None);
        }
        assert_eq!(RefusedEntry::read(&payload), None);
    }
}
