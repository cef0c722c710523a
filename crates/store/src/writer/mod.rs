//! Batches to rows, exactly once.
//!
//! One call of [`Writer::write`] is one transaction: the ledger's rows of the spools are locked, what is
//! committed already is left out, the rest becomes one binary COPY per table, the ledger is advanced, commit.
//! A call that returns `Ok` may be acknowledged as a whole.
//!
//! A batch never blocks its spool. When a COPY hits a row that is there already, the transaction is done
//! again through staging tables and `ON CONFLICT DO NOTHING`; when the data itself cannot be stored, each
//! batch gets a transaction of its own, and the one at fault goes to `batch_quarantine` with the reason.
//! Only a database that is away, or that refuses for a reason of its own, is an error to the caller, who
//! keeps the batches and tries again.

pub(crate) mod copy;
mod fence;
mod inventory;
mod job_facts;
mod jobs;
mod keys;
mod late;
mod rows;
mod rows_mpi;
mod rows_trace;
mod statements;

use std::time::Duration;

use throughline_sample::Message;
use throughline_sample::wire::Batch;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use crate::{Database, Error};
pub(crate) use jobs::SETTLE_JOBS;
use keys::Keys;
use rows::{Rows, TABLES};

/// How long one transaction may take before its connection is given up. A batch takes milliseconds; a server
/// that needs a minute is stuck, and the batches are safe in their spools.
const WRITE_LIMIT: Duration = Duration::from_secs(60);

/// Times a transaction is begun again after a lost race with another writer (deadlock).
const RACE_RETRIES: usize = 3;

/// Batches kept in the quarantine, the newest: enough to find the cause, and a bound on its size.
const QUARANTINED_BATCHES: i64 = 1000;

/// Size of one message of a COPY.
const COPY_CHUNK_BYTES: usize = 256 * 1024;

/// One entry of a spool.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The spool's identity.
    pub spool_id: Uuid,
    /// Its number; within a spool numbers grow, and entries come in their order.
    pub sequence: u64,
    /// What it holds.
    pub content: Content,
}

/// What an entry of a spool holds.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // Nearly all are batches, moved once each.
pub enum Content {
    /// A batch of records.
    Batch(Batch),
    /// Bytes that are no batch; they go to the quarantine.
    Undecodable {
        /// The bytes.
        bytes: Vec<u8>,
        /// Why they are no batch.
        reason: String,
    },
}

impl Entry {
    /// An entry from the bytes of the wire; bytes that are no batch are kept for the quarantine.
    pub fn decode(spool_id: Uuid, sequence: u64, bytes: &[u8]) -> Self {
        let content = match Batch::decode(bytes) {
            Ok(batch) => Content::Batch(batch),
            Err(error) => Content::Undecodable { bytes: bytes.to_vec(), reason: error.to_string() },
        };
        Self { spool_id, sequence, content }
    }
}

/// What became of the entries of one call; all of them may be acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Rows of samples committed (inventory not counted).
    pub rows: u64,
    /// Entries that were committed before, and left out.
    pub duplicates: u64,
    /// Entries set aside in `batch_quarantine`.
    pub quarantined: u64,
    /// Values of metrics that this build does not know, left out.
    pub unknown_values: u64,
    /// Entries of a crawler left out because another one had the term of their subnet.
    pub fenced: u64,
}

/// Writes batches through one connection, opened when needed and opened again after it was lost.
pub struct Writer {
    database: Database,
    session: Option<Session>,
}

/// A connection and what is only true for it.
struct Session {
    client: Client,
    keys: Keys,
    statements: statements::Statements,
}

/// How rows reach their tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// COPY into the hypertable.
    Direct,
    /// COPY into a staging table, then the rows that are not there yet.
    Staged,
}

/// Why a transaction did not commit.
enum Failed {
    /// The database was away or refused for a reason of its own.
    Database(Error),
    /// The data cannot be stored as it is.
    Data(String),
    /// Another writer was first; the same again may succeed.
    Race(Error),
}

impl Writer {
    /// A writer to the database; connects with the first write.
    pub fn new(database: Database) -> Self {
        Self { database, session: None }
    }

    /// Commits the entries, in the order given. On `Ok` all of them may be acknowledged.
    ///
    /// # Errors
    /// The database is away ([`Error::is_temporary`]) or refused a statement; nothing of what was not
    /// committed before is acknowledged, and the caller tries the same entries again.
    pub async fn write(&mut self, entries: &[Entry]) -> Result<WriteOutcome, Error> {
        let result = tokio::time::timeout(WRITE_LIMIT, self.write_all(entries)).await;
        let result =
            result.unwrap_or_else(|_| Err(Error::late("writing to the database", WRITE_LIMIT.as_secs())));
        if result.is_err() {
            // A transaction may be open on it, and after a failover the server may be another one.
            self.session = None;
        }
        result.map_err(|error| error.not_the_entries_fault().at(&self.database))
    }

    async fn write_all(&mut self, entries: &[Entry]) -> Result<WriteOutcome, Error> {
        let mut session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session {
                client: self.database.connect().await?,
                keys: Keys::default(),
                statements: statements::Statements::default(),
            },
        };
        let outcome = session.write(entries).await?;
        self.session = Some(session);
        Ok(outcome)
    }
}

impl Session {
    async fn write(&mut self, entries: &[Entry]) -> Result<WriteOutcome, Error> {
        let entries: Vec<&Entry> = entries.iter().collect();
        match self.with_retries(&entries, Way::Direct).await {
            Ok(outcome) => return Ok(outcome),
            Err(Failed::Data(reason)) => {
                tracing::debug!(reason, "rows refused, trying again row by row through staging tables");
            }
            Err(Failed::Database(error) | Failed::Race(error)) => return Err(error),
        }
        // One bad batch must not cost the others their place: each on its own from here.
        let mut total = WriteOutcome::default();
        for entry in entries {
            // What was set aside before must not fail again before the ledger is asked.
            if self.is_committed(entry).await? {
                total.duplicates += 1;
                continue;
            }
            let outcome = match self.with_retries(&[entry], Way::Staged).await {
                Ok(outcome) => outcome,
                Err(Failed::Data(reason)) => self.set_aside(entry, &reason).await?,
                Err(Failed::Database(error) | Failed::Race(error)) => return Err(error),
            };
            total.rows += outcome.rows;
            total.duplicates += outcome.duplicates;
            total.quarantined += outcome.quarantined;
            total.unknown_values += outcome.unknown_values;
            total.fenced += outcome.fenced;
        }
        Ok(total)
    }

    async fn is_committed(&self, entry: &Entry) -> Result<bool, Error> {
        let query = "SELECT 1 FROM batch_ledger WHERE spool_id = $1 AND sequence >= $2";
        let Ok(sequence) = i64::try_from(entry.sequence) else { return Ok(false) };
        let row = self.client.query_opt(query, &[&entry.spool_id, &sequence]).await;
        Ok(row.map_err(Error::sql("reading the batch ledger"))?.is_some())
    }

    async fn with_retries(&mut self, entries: &[&Entry], way: Way) -> Result<WriteOutcome, Failed> {
        let mut tries = 0;
        loop {
            match self.transaction(entries, way).await {
                Err(Failed::Race(error)) if tries < RACE_RETRIES => {
                    tries += 1;
                    tracing::debug!(%error, tries, "lost a race with another writer, trying again");
                }
                other => return other,
            }
        }
    }

    async fn transaction(&mut self, entries: &[&Entry], way: Way) -> Result<WriteOutcome, Failed> {
        let batches = entries.iter().filter_map(|entry| match &entry.content {
            Content::Batch(batch) => Some(batch),
            Content::Undecodable { .. } => None,
        });
        // Outside the transaction: an identifier that is cached must be committed.
        self.keys.resolve(&self.client, batches).await?;
        let Self { client, keys, statements } = self;
        let writes = fence::Writes::claim(client, entries, keys).await?;
        let transaction = client.transaction().await.map_err(failed("beginning a transaction"))?;
        let committed = lock_ledger(&transaction, entries).await?;
        let fence = writes.fence(&transaction).await?;
        let mut outcome = WriteOutcome::default();
        let mut rows = Rows::new();
        let mut stock = inventory::Inventory::default();
        let mut newest = committed.clone();
        let mut written = Vec::new();
        for entry in entries {
            // The lock above made a row for each spool.
            let last = newest.entry(entry.spool_id).or_insert(-1);
            let sequence = sequence_number(entry)?;
            if sequence <= *last {
                outcome.duplicates += 1;
                continue;
            }
            *last = sequence;
            match &entry.content {
                Content::Batch(batch) if fence.leaves_out(entry.spool_id, batch, keys) => {
                    outcome.fenced += 1;
                }
                Content::Batch(batch) => {
                    outcome.unknown_values += rows.add(batch, keys).map_err(Failed::Data)?;
                    stock.add(batch, keys).map_err(Failed::Data)?;
                    written.push(batch);
                }
                Content::Undecodable { reason, .. } => {
                    quarantine(&transaction, entry, reason).await?;
                    outcome.quarantined += 1;
                }
            }
        }
        stock.apply(&transaction).await?;
        for (table, buffer) in TABLES.iter().zip(rows.into_buffers()) {
            if buffer.rows() > 0 {
                outcome.rows += match way {
                    Way::Direct => statements.copy(&transaction, table, buffer).await?,
                    Way::Staged => statements.copy_staged(&transaction, table, buffer).await?,
                };
            }
        }
        // Last, behind every wait for other writers: upkeep waits for whoever got so far.
        late::note(&transaction, &written, keys).await?;
        advance_ledger(&transaction, &committed, &newest).await?;
        transaction.commit().await.map_err(failed("committing"))?;
        Ok(outcome)
    }

    /// Sets one entry aside and advances its spool, so that what is behind it goes on.
    async fn set_aside(&mut self, entry: &Entry, reason: &str) -> Result<WriteOutcome, Error> {
        tracing::warn!(spool = %entry.spool_id, sequence = entry.sequence, reason, "batch set aside in batch_quarantine");
        let what = "setting a batch aside";
        let work = async {
            let transaction = self.client.transaction().await.map_err(failed(what))?;
            let committed = lock_ledger(&transaction, &[entry]).await?;
            quarantine(&transaction, entry, reason).await?;
            let mut newest = committed.clone();
            // A number beyond the column's range cannot be noted, and such an entry is set aside each time.
            if let Ok(sequence) = sequence_number(entry) {
                newest.insert(
                    entry.spool_id,
                    sequence.max(committed.get(&entry.spool_id).copied().unwrap_or(-1)),
                );
            }
            advance_ledger(&transaction, &committed, &newest).await?;
            transaction.commit().await.map_err(failed(what))
        };
        match work.await {
            Ok(()) => Ok(WriteOutcome { quarantined: 1, ..WriteOutcome::default() }),
            Err(Failed::Database(error) | Failed::Race(error)) => Err(error),
            Err(Failed::Data(cause)) => {
                Err(Error::Refused { what: what.to_owned(), cause, state: String::new() })
            }
        }
    }
}

type Ledger = std::collections::BTreeMap<Uuid, i64>;

fn sequence_number(entry: &Entry) -> Result<i64, Failed> {
    i64::try_from(entry.sequence)
        .map_err(|_| Failed::Data(format!("sequence {} out of range", entry.sequence)))
}

/// Locks the ledger's rows of the entries' spools, making those that are missing; returns what is committed.
async fn lock_ledger(transaction: &Transaction<'_>, entries: &[&Entry]) -> Result<Ledger, Failed> {
    let spools: Vec<Uuid> = entries
        .iter()
        .map(|entry| entry.spool_id)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let what = "locking the batch ledger";
    // In one order, so that two writers with the same spools cannot wait for each other.
    let lock =
        "SELECT spool_id, sequence FROM batch_ledger WHERE spool_id = ANY($1) ORDER BY spool_id FOR UPDATE";
    let mut rows = transaction.query(lock, &[&spools]).await.map_err(failed(what))?;
    if rows.len() < spools.len() {
        let insert = "INSERT INTO batch_ledger (spool_id, sequence) SELECT s, -1 FROM unnest($1::uuid[]) s \
                      ORDER BY s ON CONFLICT DO NOTHING";
        transaction.execute(insert, &[&spools]).await.map_err(failed(what))?;
        rows = transaction.query(lock, &[&spools]).await.map_err(failed(what))?;
    }
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn advance_ledger(
    transaction: &Transaction<'_>,
    before: &Ledger,
    after: &Ledger,
) -> Result<(), Failed> {
    let changed: Vec<(&Uuid, &i64)> =
        after.iter().filter(|(spool, sequence)| before.get(spool) != Some(sequence)).collect();
    let spools: Vec<&Uuid> = changed.iter().map(|(spool, _)| *spool).collect();
    let sequences: Vec<i64> = changed.iter().map(|(_, sequence)| **sequence).collect();
    let update = "UPDATE batch_ledger l SET sequence = n.sequence, changed_at = now() \
                  FROM unnest($1::uuid[], $2::bigint[]) AS n(spool_id, sequence) WHERE l.spool_id = n.spool_id";
    transaction
        .execute(update, &[&spools, &sequences])
        .await
        .map_err(failed("advancing the batch ledger"))?;
    Ok(())
}

async fn quarantine(transaction: &Transaction<'_>, entry: &Entry, reason: &str) -> Result<(), Failed> {
    let bytes = match &entry.content {
        Content::Batch(batch) => batch.encode_to_vec(),
        Content::Undecodable { bytes, .. } => bytes.clone(),
    };
    let insert = "INSERT INTO batch_quarantine (spool_id, sequence, reason, batch) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT DO NOTHING";
    // The number is a key for people here; its bits are kept even when they are no positive number.
    let sequence = entry.sequence.cast_signed();
    let reason = reason.replace('\0', "\u{fffd}");
    transaction
        .execute(insert, &[&entry.spool_id, &sequence, &reason, &bytes])
        .await
        .map_err(failed("setting a batch aside"))?;
    let bound = "DELETE FROM batch_quarantine WHERE (spool_id, sequence) IN \
                 (SELECT spool_id, sequence FROM batch_quarantine ORDER BY quarantined_at DESC OFFSET $1)";
    transaction.execute(bound, &[&QUARANTINED_BATCHES]).await.map_err(failed("bounding the quarantine"))?;
    Ok(())
}

/// For `map_err`: tells the data's fault from the database's and from a lost race.
fn failed(what: &str) -> impl FnOnce(tokio_postgres::Error) -> Failed + '_ {
    move |error| {
        let state = error.code().map(|state| state.code().to_owned()).unwrap_or_default();
        let error = Error::from_postgres(what, &error);
        match state.get(..2) {
            // Data exceptions, broken constraints, a row twice in one statement, a text too long for an index.
            Some("21" | "22" | "23" | "54") => Failed::Data(error.to_string()),
            // Serialisation failures and deadlocks.
            Some("40") => Failed::Race(error),
            _ => Failed::Database(error),
        }
    }
}
