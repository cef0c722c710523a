//! Batches to rows, exactly once.
//!
//! One call of [`Writer::write`] is one transaction: the ledger's rows of the spools are locked, what is
//! committed already is left out, the rest becomes one binary COPY per table, the ledger is advanced, commit.
//! A call that returns `Ok` may be acknowledged, but for what it denied or deferred.
//!
//! A record never blocks its batch, nor a batch its spool. What a sender may not report is taken out record by record
//! (`claims`), and counted. When a COPY hits a row that is there already, or the data itself cannot be stored, the
//! entries are halved until the one at fault stands alone; that one goes through staging tables and `ON CONFLICT DO
//! NOTHING`, and where it still cannot be stored its records are halved in turn (`isolate`). Only a database that is
//! away, or that refuses for a reason of its own, is an error to the caller, who retains the batches and tries again.

mod cell_keys;
mod claims;
mod contested_ranks;
mod details;
mod devices;
mod entry;
mod fabric_keys;
mod fence;
mod folded;
mod gpu_surveys;
mod gpus;
mod hypertable_chunks;
mod inventory;
mod isolate;
mod job_facts;
mod job_limits;
mod jobs;
mod key_sql;
mod keys;
mod late_arrivals;
mod late_exports;
mod late_jobs;
mod ledger;
mod lost_gpus;
mod metric_keys;
mod multicast_groups;
mod quarantine;
mod rank_gpus;
mod rank_scheduling;
mod record_times;
mod row_rules;
mod row_values;
mod rows;
mod rows_detail;
mod rows_mpi;
mod rows_trace;
mod stat_series;
mod statements;
mod switch_routing;
mod transaction;
mod versioned;
mod work;

use std::collections::HashSet;
use std::time::Duration;

use throughline_sample::wire::Batch;
use tokio_postgres::{CancelToken, Client};
use uuid::Uuid;

use crate::database::Database;
use crate::error::Error;

use claims::Claims;
pub use entry::{Content, EXAMPLE_BYTES_MAX, Entry, RecordRejection, Sender, WriteOutcome};
use hypertable_chunks::Chunks;
pub use job_limits::NodeLimits;
pub(crate) use jobs::{SETTLE_FACTS, SETTLE_JOBS};
use keys::Keys;
use ledger::Ledger;
use row_rules::KnownRules;
use stat_series::KnownSeries;
use work::ReportLimit;

/// How long one call may take before its connection is given up. A batch takes milliseconds; a server that needs a
/// minute is stuck, and the batches are safe in their spools.
const WRITE_LIMIT: Duration = Duration::from_secs(60);

/// How long one statement may take. Beyond it the entries are at fault, or the server has much else to do: the caller
/// halves them. Longer than [`LOCK_LIMIT`], so that a statement that waits for a lock is not taken for slow.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// How long a statement may wait for a lock: somebody works on a table, and the entries are not at fault.
const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// How long a server that is there takes to answer through another connection.
const PING_LIMIT: Duration = Duration::from_secs(5);

/// Times a transaction is begun again after a lost race with another writer (deadlock).
const RACE_RETRIES: usize = 3;

/// Size of one message of a COPY.
const COPY_CHUNK_BYTES: usize = 256 * 1024;

/// Writes batches through one connection, opened when needed and opened again after it was lost.
pub struct Writer {
    database: Database,
    session: Option<Session>,
    /// Ends what the present connection does.
    cancel: Option<CancelToken>,
    statement_limit: Duration,
    node_limits: NodeLimits,
}

/// A connection and what is only true for it.
struct Session {
    client: Client,
    keys: Keys,
    claims: Claims,
    chunks: Chunks,
    row_rules: KnownRules,
    stat_series: KnownSeries,
    statements: statements::Statements,
    statement_limit: Duration,
    /// Limits of time hold in a session, and behind a pooler in each transaction only.
    is_pooled: bool,
    /// Spools that had an entry deferred in this call: what is behind it must wait as well.
    deferred: HashSet<Uuid>,
    reports: ReportLimit,
}

/// How rows reach their tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteMethod {
    /// COPY into the hypertable.
    Direct,
    /// COPY into a staging table, then the rows that are not there yet.
    Staged,
}

/// Why a transaction did not commit.
enum WriteError {
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
        Self {
            database,
            session: None,
            cancel: None,
            statement_limit: STATEMENT_LIMIT,
            node_limits: NodeLimits::default(),
        }
    }

    /// Other limits of what a node may report.
    #[must_use]
    pub fn with_node_limits(self, node_limits: NodeLimits) -> Self {
        Self { node_limits, ..self }
    }

    /// Another time for a statement, for tests that don't wait.
    #[must_use]
    pub fn with_statement_limit(self, limit: Duration) -> Self {
        Self { statement_limit: limit, ..self }
    }

    /// Commits the entries, in the order given. On `Ok` all of them may be acknowledged but those that are listed as
    /// denied or deferred.
    ///
    /// # Errors
    /// The database is away ([`Error::is_temporary`]) or refused a statement, or took too long for one; nothing of
    /// what was not committed before is acknowledged, and the caller tries the same entries again, or fewer of them.
    pub async fn write(&mut self, entries: &[Entry]) -> Result<WriteOutcome, Error> {
        let entries: Vec<&Entry> = entries.iter().collect();
        self.limited(async |session: &mut Session| session.write(&entries).await).await
    }

    /// Commits one entry that was refused, without the records that are at fault: its records are halved until those
    /// stand alone.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub async fn isolate(&mut self, entry: &Entry) -> Result<WriteOutcome, Error> {
        self.limited(async |session: &mut Session| session.isolate_or_set_aside(entry).await).await
    }

    /// Does work within [`WRITE_LIMIT`].
    async fn limited(
        &mut self,
        work: impl AsyncFnOnce(&mut Session) -> Result<WriteOutcome, Error>,
    ) -> Result<WriteOutcome, Error> {
        let all = async {
            let mut session = match self.session.take() {
                Some(session) if !session.client.is_closed() => session,
                _ => {
                    let client = self.database.connect().await?;
                    self.cancel = Some(client.cancel_token());
                    Session::begin(client, self.statement_limit, self.node_limits, self.database.is_pooled())
                        .await?
                }
            };
            let outcome = work(&mut session).await?;
            self.session = Some(session);
            Ok(outcome)
        };
        let result = match tokio::time::timeout(WRITE_LIMIT, all).await {
            Ok(result) => result,
            Err(_) => Err(self.late().await),
        };
        // After an error nothing is left of the session: a transaction may be open on it, and after a failover the
        // server may be another one.
        result.map_err(|error| error.not_the_entries_fault().at(&self.database))
    }

    /// Why a call took too long: the server is away, or it is there and the entries are too much for it.
    async fn late(&mut self) -> Error {
        let seconds = WRITE_LIMIT.as_secs();
        let what = "writing to the database";
        let ping = async {
            if let Some(cancel) = self.cancel.take() {
                // Without it the server would go on with what nobody waits for, and hold its locks.
                _ = self.database.cancel(cancel).await;
            }
            let client = self.database.connect().await?;
            client.query_typed("SELECT 1", &[]).await.map_err(Error::sql(what))
        };
        match tokio::time::timeout(PING_LIMIT, ping).await {
            Ok(Ok(_)) => Error::Refused {
                what: what.to_owned(),
                cause: format!("no end within {seconds} s, and the server answers others"),
                state: TOO_SLOW.to_owned(),
            },
            _ => Error::late(what, seconds),
        }
    }
}

/// SQLSTATE and message of a statement whose catalogue row another session changed: a hypertable's first chunk is made
/// while somebody grants a right to it (`simple_heap_update` of PostgreSQL's heapam.c; no state of its own).
const INTERNAL_ERROR: &str = "XX000";
const CONCURRENTLY_UPDATED: &str = "tuple concurrently updated";

/// SQLSTATE of a statement that was ended for its time.
const TOO_SLOW: &str = "57014";

impl Session {
    async fn begin(
        client: Client,
        statement_limit: Duration,
        node_limits: NodeLimits,
        is_pooled: bool,
    ) -> Result<Session, Error> {
        if !is_pooled {
            let settings = limits("SET", statement_limit);
            client.batch_execute(&settings).await.map_err(Error::sql("limiting the time of statements"))?;
        }
        Ok(Session {
            client,
            keys: Keys::default(),
            claims: Claims::new(node_limits),
            chunks: Chunks::default(),
            row_rules: KnownRules::default(),
            stat_series: KnownSeries::default(),
            statements: statements::Statements::default(),
            deferred: HashSet::new(),
            statement_limit,
            is_pooled,
            reports: ReportLimit::default(),
        })
    }

    async fn write(&mut self, entries: &[&Entry]) -> Result<WriteOutcome, Error> {
        self.deferred.clear();
        let mut total = WriteOutcome::default();
        // The last is the next, so that entries stay in their order.
        let mut parts = vec![(0..entries.len(), WriteMethod::Direct)];
        while let Some((part, way)) = parts.pop() {
            let some = &entries[part.clone()];
            // What was set aside before must not fail again before the ledger is read.
            if let ([entry], WriteMethod::Staged) = (some, way)
                && self.is_committed(entry).await?
            {
                total.duplicates += 1;
                continue;
            }
            match self.with_retries(some, part.start, way).await {
                Ok(outcome) => total.add(outcome),
                Err(WriteError::Data(reason)) if part.len() > 1 => {
                    tracing::debug!(reason, entries = part.len(), "rows refused, trying again in halves");
                    let middle = part.start + part.len() / 2;
                    parts.push((middle..part.end, WriteMethod::Direct));
                    parts.push((part.start..middle, WriteMethod::Direct));
                }
                Err(WriteError::Data(reason)) if way == WriteMethod::Direct => {
                    tracing::debug!(reason, "rows refused, trying again through staging tables");
                    parts.push((part, WriteMethod::Staged));
                }
                Err(WriteError::Data(reason)) => total.add(self.isolate_for(some[0], &reason).await?),
                Err(WriteError::Database(error) | WriteError::Race(error)) => return Err(error),
            }
        }
        Ok(total)
    }

    async fn is_committed(&self, entry: &Entry) -> Result<bool, Error> {
        let query = "SELECT 1 FROM internal.batch_ledger WHERE spool_id = $1 AND sequence >= $2 \
                     AND (owner IS NULL OR owner = ANY($3) OR cardinality($3) = 0)";
        let Ok(sequence) = i64::try_from(entry.sequence) else { return Ok(false) };
        let owners: Vec<&str> = entry.sender.owners.iter().map(String::as_str).collect();
        let row = self.client.query_opt(query, &[&entry.spool_id, &sequence, &owners]).await;
        Ok(row.map_err(Error::sql("reading the batch ledger"))?.is_some())
    }

    async fn with_retries(
        &mut self,
        entries: &[&Entry],
        first: usize,
        way: WriteMethod,
    ) -> Result<WriteOutcome, WriteError> {
        let mut tries = 0;
        loop {
            match self.transaction(entries, first, way).await {
                Err(WriteError::Race(error)) if tries < RACE_RETRIES => {
                    tries += 1;
                    tracing::debug!(%error, tries, "lost a race with another writer, trying again");
                }
                other => return other,
            }
        }
    }

    /// Sets one entry aside and advances its spool, so that what is behind it goes on.
    async fn set_aside(&mut self, entry: &Entry, reason: &str) -> Result<WriteOutcome, Error> {
        tracing::warn!(spool = %entry.spool_id, sequence = entry.sequence, reason, "batch set aside in batch_quarantine");
        let what = "setting a batch aside";
        let work = async {
            let transaction = self.client.transaction().await.map_err(failed(what))?;
            let mut ledger = Ledger::lock(&transaction, &[entry]).await?;
            quarantine::batch(&transaction, entry, reason).await?;
            // A number beyond the column's range cannot be noted, and such an entry is set aside each time.
            _ = ledger.advance(entry);
            ledger.write(&transaction).await?;
            transaction.commit().await.map_err(failed(what))
        };
        match work.await {
            Ok(()) => Ok(WriteOutcome { quarantined: 1, ..WriteOutcome::default() }),
            Err(WriteError::Database(error) | WriteError::Race(error)) => Err(error),
            Err(WriteError::Data(cause)) => {
                Err(Error::Refused { what: what.to_owned(), cause, state: String::new() })
            }
        }
    }
}

/// Limits of the time of statements, `SET` for a session or `SET LOCAL` for a transaction.
fn limits(set: &str, statement: Duration) -> String {
    let (statement, lock) = (statement.as_millis(), LOCK_LIMIT.as_millis());
    format!("{set} statement_timeout = {statement}; {set} lock_timeout = {lock}")
}

fn batch_of(entry: &Entry) -> Option<&Batch> {
    match &entry.content {
        Content::Batch(batch) => Some(batch),
        Content::Undecodable { .. } => None,
    }
}

/// For `map_err`: separates faults of the data from those of the database and from a lost race.
fn failed(what: &str) -> impl FnOnce(tokio_postgres::Error) -> WriteError + '_ {
    move |error| {
        let state = error.code().map(|state| state.code().to_owned()).unwrap_or_default();
        let is_lost_race = state == INTERNAL_ERROR
            && error.as_db_error().is_some_and(|error| error.message() == CONCURRENTLY_UPDATED);
        let error = Error::from_postgres(what, &error);
        if is_lost_race {
            return WriteError::Race(error);
        }
        match (state.as_str(), state.get(..2)) {
            // The server is there, and this was too much for it.
            (TOO_SLOW, _) => WriteError::Database(Error::Refused {
                what: what.to_owned(),
                cause: error.to_string(),
                state,
            }),
            // Data exceptions, broken constraints, a row twice in one statement, a text too long for an index.
            (_, Some("21" | "22" | "23" | "54")) => WriteError::Data(error.to_string()),
            // Serialisation failures and deadlocks.
            (_, Some("40")) => WriteError::Race(error),
            _ => WriteError::Database(error),
        }
    }
}
