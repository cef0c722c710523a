//! Finds the records of one entry that the database refuses: by halves, in savepoints of one transaction, so that all
//! others of the entry are stored with its place in the ledger.

use std::time::{Duration, Instant};

use throughline_sample::admission::Rejection;
use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;

use super::keys::Keys;
use super::ledger::{Ledger, Place};
use super::quarantine::RejectedRows;
use super::rows::Rows;
use super::statements::Statements;
use super::transaction::write_rows;
use super::{Content, Entry, RecordRejection, Session, TOO_SLOW, WriteError, WriteMethod, WriteOutcome};
use super::{failed, fence, inventory, late_arrivals};
use crate::error::Error;

/// Halves that are tried for one entry: a dozen records at fault among thousands. What remains together after these is
/// rejected together.
const TRIES: usize = 256;

/// How long the search may take: others wait meanwhile.
const SEARCH_LIMIT: Duration = Duration::from_secs(15);

/// How long one statement of it may take: much longer than the rows of an entry need.
const SEARCH_STATEMENT_LIMIT: Duration = Duration::from_secs(4);

/// A search for records at fault.
struct Search {
    /// What is to be tried; the last is the next.
    parts: Vec<Batch>,
    rejected: Vec<RecordRejection>,
    tries: usize,
    until: Instant,
}

impl Search {
    fn new(batch: Batch) -> Self {
        Self { parts: vec![batch], rejected: Vec::new(), tries: TRIES, until: Instant::now() + SEARCH_LIMIT }
    }

    /// This part was refused: its halves are next, or its record is at fault.
    fn refused(&mut self, part: Batch) {
        self.tries = self.tries.saturating_sub(1);
        if count(&part) > 1 && self.tries > 0 && Instant::now() < self.until {
            let (first, second) = halves(part);
            self.parts.push(second);
            self.parts.push(first);
            return;
        }
        let rejected = &mut self.rejected;
        macro_rules! note {
            ($($kind:ident),+) => {
                $(part.$kind.iter().for_each(|record| {
                    RecordRejection::note(rejected, Rejection::Database, stringify!($kind), record);
                });)+
            };
        }
        throughline_sample::record_kinds!(note);
    }
}

fn count(batch: &Batch) -> usize {
    macro_rules! sum {
        ($($kind:ident),+) => { 0 $(+ batch.$kind.len())+ };
    }
    throughline_sample::record_kinds!(sum)
}

/// The first half of a batch's records, and the others.
fn halves(mut batch: Batch) -> (Batch, Batch) {
    let mut left = count(&batch) / 2;
    let mut second = Batch { node: batch.node.clone(), fabric: batch.fabric.clone(), ..Batch::default() };
    macro_rules! split {
        ($($kind:ident),+) => {
            $({
                let stay = left.min(batch.$kind.len());
                second.$kind = batch.$kind.split_off(stay);
                left -= stay;
            })+
        };
    }
    throughline_sample::record_kinds!(split);
    _ = left;
    // The clock's error stands beside what a process reports of itself.
    if batch.self_stats.is_empty() {
        second.clock_error_nanoseconds = batch.clock_error_nanoseconds.take();
    }
    (batch, second)
}

/// Parts of one batch together again.
fn joined(parts: Vec<Batch>) -> Batch {
    let mut all = parts.into_iter();
    let mut batch = all.next().unwrap_or_default();
    for mut part in all {
        batch.clock_error_nanoseconds = batch.clock_error_nanoseconds.or(part.clock_error_nanoseconds);
        macro_rules! append {
            ($($kind:ident),+) => { $(batch.$kind.append(&mut part.$kind);)+ };
        }
        throughline_sample::record_kinds!(append);
    }
    batch
}

impl Session {
    /// Stores an entry but for its records at fault; one that isn't judged, or that can't be stored even so, is set
    /// aside whole.
    pub(super) async fn isolate_for(&mut self, entry: &Entry, reason: &str) -> Result<WriteOutcome, Error> {
        let Content::Batch(batch) = &entry.content else { return self.set_aside(entry, reason).await };
        // What was requested can be requested again: it is not searched.
        if entry.sender.owners.is_empty() || batch.detail.is_some() {
            return self.set_aside(entry, reason).await;
        }
        match self.isolate(entry, batch).await {
            Ok(outcome) => Ok(outcome),
            Err(WriteError::Data(reason)) => self.set_aside(entry, &reason).await,
            Err(WriteError::Database(error) | WriteError::Race(error)) => Err(error),
        }
    }

    /// For an entry that the database refused again and again.
    pub(super) async fn isolate_or_set_aside(&mut self, entry: &Entry) -> Result<WriteOutcome, Error> {
        self.isolate_for(entry, "refused again and again").await
    }

    async fn isolate(&mut self, entry: &Entry, batch: &Batch) -> Result<WriteOutcome, WriteError> {
        let mut outcome = WriteOutcome::default();
        let mut search = Search::new(batch.clone());
        let mut resolved = Vec::new();
        while let Some(part) = search.parts.pop() {
            let of_part = Entry { content: Content::Batch(part.clone()), ..entry.clone() };
            match self.resolve_keys(&[&of_part]).await {
                Ok(()) => resolved.push(part),
                Err(error) if is_of_the_data(&error) => search.refused(part),
                Err(error) => return Err(error),
            }
        }
        let rest = Entry { content: Content::Batch(joined(resolved)), ..entry.clone() };
        let Content::Batch(batch) = &rest.content else { return Ok(outcome) };
        self.resolve_keys(&[&rest]).await?;
        let Self { client, keys, claims, row_rules, statements, statement_limit, .. } = self;
        let writes = fence::Writes::claim(client, &[&rest], keys).await?;
        let mut transaction = client.transaction().await.map_err(failed("beginning a transaction"))?;
        let limit = SEARCH_STATEMENT_LIMIT.min(*statement_limit).as_millis();
        let limit = format!("SET LOCAL statement_timeout = {limit}");
        transaction.batch_execute(&limit).await.map_err(failed("limiting the time of statements"))?;
        let mut ledger = Ledger::lock(&transaction, &[&rest]).await?;
        match ledger.place(&rest)? {
            Place::New => {}
            Place::Duplicate => return Ok(WriteOutcome { duplicates: 1, ..outcome }),
            Place::Denied => return Ok(WriteOutcome { denied: vec![0], ..outcome }),
        }
        if writes.fence(&transaction).await?.leaves_out(rest.spool_id, batch, keys) {
            outcome.fenced += 1;
        } else {
            let judged = claims.judge(&rest, batch, keys);
            let (batch, mut rejected) = judged.unwrap_or_else(|| (batch.clone(), Vec::new()));
            search.rejected.append(&mut rejected);
            search.parts.push(batch);
            let mut written = Vec::new();
            while let Some(part) = search.parts.pop() {
                let savepoint = transaction.savepoint("part").await.map_err(failed("setting a savepoint"))?;
                match write_part(&savepoint, &part, keys, statements).await {
                    Ok(done) => {
                        savepoint.commit().await.map_err(failed("releasing a savepoint"))?;
                        outcome.rows += done.rows;
                        outcome.unknown_values += done.unknown_values;
                        written.push(part);
                    }
                    Err(error) if is_of_the_data(&error) => {
                        savepoint.rollback().await.map_err(failed("going back to a savepoint"))?;
                        search.refused(part);
                    }
                    Err(error) => return Err(error),
                }
            }
            late_arrivals::note(&transaction, &written.iter().collect::<Vec<_>>(), keys, row_rules).await?;
        }
        search.rejected.extend(rest.sender.rejected.iter().cloned());
        outcome.reject(&rest, &search.rejected);
        let mut rejected = RejectedRows::default();
        rejected.add(&rest, &search.rejected);
        rejected.write(&transaction).await?;
        ledger.advance(&rest)?;
        ledger.write(&transaction).await?;
        transaction.commit().await.map_err(failed("committing"))?;
        claims.committed();
        Ok(outcome)
    }
}

async fn write_part(
    transaction: &Transaction<'_>,
    part: &Batch,
    keys: &Keys,
    statements: &mut Statements,
) -> Result<WriteOutcome, WriteError> {
    let mut rows = Rows::new();
    let mut stock = inventory::Inventory::default();
    let unknown_values = rows.add(part, keys).map_err(WriteError::Data)?;
    stock.add(part, keys).map_err(WriteError::Data)?;
    let rows = write_rows(transaction, stock, rows, statements, WriteMethod::Staged).await?;
    Ok(WriteOutcome { rows, unknown_values, ..WriteOutcome::default() })
}

/// Whether fewer records may succeed.
fn is_of_the_data(error: &WriteError) -> bool {
    match error {
        WriteError::Data(_) => true,
        WriteError::Database(error) => error.state() == TOO_SLOW,
        WriteError::Race(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Event, SelfStat};

    #[test]
    fn halves_hold_all_records_in_order() {
        let event = |text: &str| Event { text: text.into(), ..Event::default() };
        let batch = Batch {
            node: "n".into(),
            clock_error_nanoseconds: Some(1),
            events: vec![event("a"), event("b"), event("c")],
            self_stats: vec![SelfStat::default()],
            ..Batch::default()
        };
        let (first, second) = halves(batch.clone());
        assert_eq!((count(&first), count(&second)), (2, 2));
        assert_eq!((second.node.as_str(), first.clock_error_nanoseconds), ("n", None));
        assert_eq!(second.clock_error_nanoseconds, Some(1));
        assert_eq!(joined(vec![first, second]), batch);
    }

    #[test]
    fn a_record_at_fault_is_found_and_the_search_ends() {
        let stats = (0..100).map(|n| SelfStat { value: f64::from(n), ..SelfStat::default() }).collect();
        let mut search = Search::new(Batch { self_stats: stats, ..Batch::default() });
        let mut stored = 0;
        while let Some(part) = search.parts.pop() {
            if part.self_stats.iter().any(|stat| stat.value == 37.0) {
                search.refused(part);
            } else {
                stored += count(&part);
            }
        }
        assert_eq!((stored, search.rejected.len(), search.rejected[0].records), (99, 1, 1));
    }
}
