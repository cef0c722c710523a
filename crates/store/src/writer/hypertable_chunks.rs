//! How many chunks of TimescaleDB's, of the past, one transaction and one sender may make.
//!
//! A chunk is a table of its own: making one takes locks and some ten milliseconds. Records of the last hours need
//! none but the present ones. Older records, of a spool that waited, come through a bucket of their sender, so that
//! nobody can make a site wait for thousands of chunks.

use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use throughline_sample::admission::Rejection;
use throughline_sample::wire::Batch;
use throughline_sample::{RecordTimes, timed_kinds};
use tokio_postgres::Client;

use super::{Content, Entry, RecordRejection, WriteError, failed};
use crate::tables::{hypertable, hypertables};

/// Records older than this are late: they may need a chunk that does not exist. Twice the length of a chunk of readings.
const LATE_AFTER: i64 = 2 * HOUR;

/// Late chunks that one entry may need: an entry holds a second of a node, or a few minutes that were thinned.
const CHUNKS_OF_ENTRY: usize = 48;

/// Late chunks that one transaction may make: about a second's work of the database.
const CHUNKS_OF_TRANSACTION: usize = 64;

/// Late chunks that one sender may make at once, and in a minute from then on.
const CHUNKS_AT_ONCE: f64 = 64.0;
const CHUNKS_A_MINUTE: f64 = 60.0;

/// Known chunks and senders in memory, at most.
const CACHED: usize = 100_000;

const HOUR: i64 = 3600 * 1_000_000_000;

/// A table, by its name, and a number of its chunk since 1970.
type Slot = (&'static str, i64);

/// What is known of chunks, and what each sender has left.
#[derive(Default)]
pub(super) struct Chunks {
    known: HashSet<Slot>,
    senders: HashMap<String, (f64, Instant)>,
}

/// What becomes of a late entry.
pub(super) enum LateAdmission {
    /// It needs no more chunks than it may.
    Fits,
    /// What is left of it where it needs more than an entry can.
    Less(Box<Batch>, Vec<RecordRejection>),
    /// To be sent again later.
    Deferred,
}

impl Chunks {
    /// Looks up which chunks of late entries are there already.
    pub async fn load(&mut self, client: &Client, entries: &[&Entry], now: i64) -> Result<(), WriteError> {
        if self.known.len() > CACHED || self.senders.len() > CACHED {
            *self = Self::default();
        }
        let mut unknown: HashSet<Slot> = HashSet::new();
        for batch in entries.iter().filter_map(|entry| late_batch(entry, now)) {
            each_slot(batch, |slot| {
                if is_late(slot, now) && !self.known.contains(&slot) && unknown.len() < CACHED {
                    unknown.insert(slot);
                }
            });
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<Slot> = unknown.into_iter().collect();
        let tables: Vec<&str> = unknown.iter().map(|(table, _)| *table).collect();
        let times: Vec<SystemTime> = unknown.iter().map(|slot| middle(*slot)).collect();
        let find = "SELECT w.number FROM unnest($1::text[], $2::timestamptz[]) WITH ORDINALITY AS w(name, at, number) \
                    JOIN timescaledb_information.chunks c ON c.hypertable_name = w.name::name \
                        AND c.range_start <= w.at AND c.range_end > w.at";
        let rows = client.query(find, &[&tables, &times]).await.map_err(failed("looking for chunks"))?;
        for row in &rows {
            let number = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
            self.known.extend(unknown.get(number));
        }
        Ok(())
    }

    /// Judges a late entry; `made` are the chunks that this transaction makes anyway.
    pub fn admit(
        &mut self,
        entry: &Entry,
        batch: &Batch,
        now: i64,
        made: &mut HashSet<Slot>,
    ) -> LateAdmission {
        if late_batch(entry, now).is_none() {
            return LateAdmission::Fits;
        }
        let mut new: HashSet<Slot> = HashSet::new();
        each_slot(batch, |slot| {
            if is_late(slot, now) && !self.known.contains(&slot) && !made.contains(&slot) {
                new.insert(slot);
            }
        });
        if new.is_empty() {
            return LateAdmission::Fits;
        }
        if new.len() > CHUNKS_OF_ENTRY {
            let mut batch = batch.clone();
            let mut rejected = Vec::new();
            retain_slots(&mut batch, &mut rejected, |slot| !new.contains(&slot));
            return LateAdmission::Less(Box::new(batch), rejected);
        }
        let sender = entry.sender.owners.first().cloned().unwrap_or_default();
        let at = Instant::now();
        let (tokens, since) = self.senders.entry(sender).or_insert((CHUNKS_AT_ONCE, at));
        let refill = at.duration_since(*since).as_secs_f64() * CHUNKS_A_MINUTE / 60.0;
        (*tokens, *since) = ((*tokens + refill).min(CHUNKS_AT_ONCE), at);
        let needed = new.len() as f64;
        if *tokens < needed || made.len() + new.len() > CHUNKS_OF_TRANSACTION {
            return LateAdmission::Deferred;
        }
        *tokens -= needed;
        made.extend(new);
        LateAdmission::Fits
    }

    /// The transaction was committed: its chunks are there.
    pub fn committed(&mut self, made: HashSet<Slot>) {
        self.known.extend(made);
    }
}

/// The batch of an entry that has something late in it, of a sender that is judged.
fn late_batch(entry: &Entry, now: i64) -> Option<&Batch> {
    let is_late = !entry.sender.owners.is_empty() && entry.sender.oldest < now.saturating_sub(LATE_AFTER);
    match &entry.content {
        Content::Batch(batch) if is_late => Some(batch),
        _ => None,
    }
}

/// Length of a table's chunks.
fn length(table: &str) -> i64 {
    hypertable(table).map_or(HOUR, |(_, chunks)| i64::from(chunks.hours) * HOUR)
}

/// The tables that records of this kind fill, and the lengths of their chunks.
fn filled(kind: &str) -> Vec<(&'static str, i64)> {
    let tables = hypertables().filter(|(table, _)| table.records.contains(&kind) && !table.is_detail());
    tables.map(|(table, chunks)| (table.name, i64::from(chunks.hours) * HOUR)).collect()
}

/// Whether a chunk ended long ago.
fn is_late((table, number): Slot, now: i64) -> bool {
    number.saturating_add(1).saturating_mul(length(table)) < now.saturating_sub(HOUR)
}

fn middle((table, number): Slot) -> SystemTime {
    let at = number.saturating_mul(length(table)).saturating_add(length(table) / 2);
    UNIX_EPOCH + std::time::Duration::from_nanos(u64::try_from(at).unwrap_or(0))
}

/// The chunks that the records of a batch need.
fn each_slot(batch: &Batch, mut take: impl FnMut(Slot)) {
    macro_rules! all {
        ($($kind:ident),+) => {$({
            let tables = filled(stringify!($kind));
            for time in batch.$kind.iter().flat_map(RecordTimes::times) {
                tables.iter().for_each(|(table, length)| take((table, time.div_euclid(*length))));
            }
        })+};
    }
    timed_kinds!(all);
}

/// Retains the records whose chunks may be made.
fn retain_slots(batch: &mut Batch, rejected: &mut Vec<RecordRejection>, keep: impl Fn(Slot) -> bool) {
    macro_rules! all {
        ($($kind:ident),+) => {$({
            let tables = filled(stringify!($kind));
            batch.$kind.retain(|record| {
                let may = |time: i64| tables.iter().all(|(table, length)| keep((table, time.div_euclid(*length))));
                let stays = record.times().all(may);
                if !stays {
                    RecordRejection::note(rejected, Rejection::Quota, stringify!($kind), record);
                }
                stays
            });
        })+};
    }
    timed_kinds!(all);
}
