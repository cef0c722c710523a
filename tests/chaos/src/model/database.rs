//! The database: what `throughline_store::Writer` promises, in memory. One transaction at a time; the ledger's row and the
//! records of an entry commit together or not at all; it may go away before or after a commit.

use super::terms::LeaderTerms;
use super::{Id, POISON, READING, now_nanoseconds};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_collector::{CommitError, Committer};
use throughline_store::{Content, Entry, WriteOutcome};
use uuid::Uuid;

/// What is stored.
#[derive(Default)]
pub struct State {
    ledger: BTreeMap<Uuid, u64>,
    /// How often each record is there.
    pub stored: BTreeMap<Id, u32>,
    /// The same of records that were set aside.
    pub quarantined: BTreeMap<Id, u32>,
    /// The same of readings of a crawler that had no term.
    pub fenced: BTreeMap<Id, u32>,
    /// Readings that were stored: time, crawler. Not those of a clock ahead of the database's, which holds nobody off.
    pub readings: Vec<(i64, Uuid)>,
    pub terms: LeaderTerms,
    pub faults: Faults,
    /// A sum over all that was done, in order and with its times: two plays of a seed have the same.
    pub digest: u64,
}

/// What is wrong with it now.
#[derive(Default)]
pub struct Faults {
    /// It takes nothing.
    pub away: bool,
    /// The chance of a commit whose outcome its client does not learn, and of a refusal without a reason.
    pub unknown: f64,
    pub refuse: f64,
    /// A statement takes this many times as long.
    pub slow: u32,
}

/// The database. Clones are the same one.
#[derive(Clone, Default)]
pub struct Database {
    state: Arc<Mutex<State>>,
    /// Transactions lock the ledger's rows: here one after the other.
    transaction: Arc<tokio::sync::Mutex<()>>,
}

impl Database {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A statement takes its time. Also whether the database is there.
    async fn statement(&self, random: &mut fastrand::Rng) -> Result<(), CommitError> {
        let slow = self.state().faults.slow.max(1);
        tokio::time::sleep(Duration::from_micros(random.u64(300..8000)) * slow).await;
        match self.state().faults.away {
            true => Err(CommitError::Away("it is away".into())),
            false => Ok(()),
        }
    }
}

/// A collector's connection.
pub struct Connection {
    pub database: Database,
    pub random: fastrand::Rng,
}

impl Connection {
    async fn commit_with(&mut self, entries: &[Entry], isolated: bool) -> Result<WriteOutcome, CommitError> {
        let database = self.database.clone();
        let _transaction = database.transaction.lock().await;
        database.statement(&mut self.random).await?;
        let (unknown, refuse) = {
            let faults = &database.state().faults;
            (self.random.f64() < faults.unknown, self.random.f64() < faults.refuse && !isolated)
        };
        if refuse {
            return Err(CommitError::Refused("for no reason".into()));
        }
        let is_poisoned = entries.iter().any(|entry| database.state().is_new(entry) && has_poison(entry));
        if is_poisoned && !isolated {
            return Err(CommitError::Refused("a record is at fault".into()));
        }
        let outcome = database.state().apply(entries);
        if unknown {
            return Err(CommitError::Away("the connection broke during COMMIT".into()));
        }
        database.statement(&mut self.random).await?;
        Ok(outcome)
    }
}

impl Committer for Connection {
    async fn commit(&mut self, entries: &[Entry]) -> Result<WriteOutcome, CommitError> {
        self.commit_with(entries, false).await
    }

    async fn isolate(&mut self, entry: &Entry) -> Result<WriteOutcome, CommitError> {
        self.commit_with(std::slice::from_ref(entry), true).await
    }
}

fn has_poison(entry: &Entry) -> bool {
    let Content::Batch(batch) = &entry.content else { return false };
    batch.events.iter().any(|event| event.kind == POISON)
}

impl State {
    fn is_new(&self, entry: &Entry) -> bool {
        self.ledger.get(&entry.spool_id).is_none_or(|sequence| entry.sequence > *sequence)
    }

    fn apply(&mut self, entries: &[Entry]) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        for entry in entries {
            if !self.is_new(entry) {
                outcome.duplicates += 1;
                continue;
            }
            self.ledger.insert(entry.spool_id, entry.sequence);
            let Content::Batch(batch) = &entry.content else {
                outcome.quarantined += 1;
                continue;
            };
            let now = now_nanoseconds();
            for event in &batch.events {
                let id = Id::of(&event.text);
                let micros = event.time / 1000;
                let place = if event.kind == POISON {
                    &mut self.quarantined
                } else if event.kind == READING {
                    self.terms.claim(entry.spool_id, micros, micros, now / 1000);
                    if self.terms.forbids(entry.spool_id, micros) {
                        &mut self.fenced
                    } else {
                        if event.time <= now {
                            self.readings.push((micros, entry.spool_id));
                        }
                        &mut self.stored
                    }
                } else {
                    &mut self.stored
                };
                *place.entry(id).or_default() += 1;
                self.note([id.node, id.number, now.unsigned_abs()]);
            }
        }
        outcome
    }

    /// Puts numbers into the digest (FNV-1a).
    pub fn note(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.digest = (self.digest ^ number).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
