//! The one transaction that writes entries: keys before it, caches after it, and all between is committed or nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;

use crate::database::NO_DECOMPRESSION_LIMIT;
use crate::tables::TABLES;

use super::details::Details;
use super::hypertable_chunks::LateAdmission;
use super::ledger::{Ledger, Place};
use super::rows::{Rows, now_nanoseconds};
use super::work::Work;
use super::{
    Content, Entry, Session, WriteError, WriteMethod, WriteOutcome, batch_of, claims, failed, fence, folded,
    inventory, late_arrivals, late_jobs, limits, quarantine, statements,
};

impl Session {
    /// One transaction with entries; the first of them has this place in the call.
    ///
    /// The order of its steps matters:
    /// 1. Keys, owners and chunks are looked up, and writes are claimed at the fence, each committed by itself.
    /// 2. The transaction begins. It locks the ledger, then reads the fence, then locks details.
    /// 3. Each entry is judged: deferred, denied, a duplicate, fenced, set aside, or written, and its spool advances.
    /// 4. Rows and the inventory are made of what is written.
    /// 5. Rows, rejected records and details are written; then rules of rows and series of self-metrics.
    /// 6. Late arrivals are noted, behind every wait for other writers: upkeep waits for a transaction that got so far.
    /// 7. The ledger is written, and all is committed.
    /// 8. Only then the caches have what was committed.
    pub(super) async fn transaction(
        &mut self,
        entries: &[&Entry],
        first: usize,
        way: WriteMethod,
    ) -> Result<WriteOutcome, WriteError> {
        // 1. Outside the transaction: an identifier that is cached must be committed.
        self.resolve_keys(entries).await?;
        let now = now_nanoseconds();
        self.chunks.load(&self.client, entries, now).await?;
        let Self {
            client, keys, claims, chunks, row_rules, stat_series, statements, deferred, reports, ..
        } = self;
        let (is_pooled, statement_limit) = (&self.is_pooled, &self.statement_limit);
        let writes = fence::Writes::claim(client, entries, keys).await?;
        // 2.
        let transaction = client.transaction().await.map_err(failed("beginning a transaction"))?;
        if *is_pooled {
            let settings =
                format!("{}; SET LOCAL {NO_DECOMPRESSION_LIMIT}", limits("SET LOCAL", *statement_limit));
            transaction.batch_execute(&settings).await.map_err(failed("limiting the time of statements"))?;
        }
        let mut ledger = Ledger::lock(&transaction, entries).await?;
        let fence = writes.fence(&transaction).await?;
        let mut details = Details::lock(&transaction, entries, keys).await?;
        let mut work = Work::default();
        let mut rows = Rows::new();
        // 3.
        for (at, entry) in entries.iter().enumerate() {
            if deferred.contains(&entry.spool_id) {
                work.outcome.deferred.push(first + at);
                continue;
            }
            match ledger.place(entry)? {
                Place::Denied => {
                    match &entry.content {
                        Content::Batch(_) => work.deny(entry, first + at),
                        // Bytes that are no batch do not name their sender, and sending them again makes them no
                        // better: they go to the quarantine, and the spool stays where it is.
                        Content::Undecodable { reason, .. } => {
                            quarantine::batch(&transaction, entry, reason).await?;
                            work.outcome.quarantined += 1;
                            work.reject(entry, &entry.sender.rejected);
                        }
                    }
                    continue;
                }
                Place::Duplicate => {
                    work.outcome.duplicates += 1;
                    continue;
                }
                Place::New => {}
            }
            if let Some(reason) = batch_of(entry).and_then(|batch| keys.denial(entry, batch)) {
                work.outcome.held_back.push((first + at, reason));
                continue;
            }
            match &entry.content {
                Content::Batch(batch) if fence.leaves_out(entry.spool_id, batch, keys) => {
                    work.outcome.fenced += 1;
                }
                Content::Batch(batch) if batch.detail.is_some() => {
                    let (admitted, rejected) = details.admit(batch, keys);
                    work.reject(entry, &rejected);
                    work.add(entry, admitted, claims, keys);
                    work.written.last().into_iter().for_each(|written| details.note(written, keys));
                }
                Content::Batch(batch) => match chunks.admit(entry, batch, now, &mut work.chunks) {
                    LateAdmission::Deferred => {
                        deferred.insert(entry.spool_id);
                        work.outcome.deferred.push(first + at);
                        continue;
                    }
                    LateAdmission::Fits => work.add(entry, Cow::Borrowed(batch), claims, keys),
                    LateAdmission::Less(batch, rejected) => {
                        work.reject(entry, &rejected);
                        work.add(entry, Cow::Owned(*batch), claims, keys);
                    }
                },
                Content::Undecodable { reason, .. } => {
                    quarantine::batch(&transaction, entry, reason).await?;
                    work.outcome.quarantined += 1;
                }
            }
            work.reject(entry, &entry.sender.rejected);
            ledger.advance(entry)?;
        }
        // 4.
        let mut stock = inventory::Inventory::default();
        for batch in &work.written {
            work.outcome.unknown_values += rows.add(batch, keys).map_err(WriteError::Data)?;
            if batch.detail.is_none() {
                stock.add(batch, keys).map_err(WriteError::Data)?;
            }
        }
        let due = reports.due_now(&work);
        // 5.
        work.outcome.rows += write_rows(&transaction, stock, rows, statements, way).await?;
        std::mem::take(&mut work.rejected).write(&transaction).await?;
        details.write(&transaction).await?;
        // What was requested is there for a while beside what is stored of the same time: nothing is made of it.
        let written: Vec<&Batch> =
            work.written.iter().map(Cow::as_ref).filter(|batch| batch.detail.is_none()).collect();
        let new_rules = row_rules.changed(&written, keys);
        new_rules.write(&transaction).await?;
        let new_series = stat_series.changed(&written, keys);
        new_series.write(&transaction).await?;
        late_jobs::note(&transaction, &written, keys, now).await?;
        folded::note(&transaction, &written, keys).await?;
        // 6.
        late_arrivals::note(&transaction, &written, keys, row_rules).await?;
        // 7.
        ledger.write(&transaction).await?;
        transaction.commit().await.map_err(failed("committing"))?;
        // 8.
        claims.committed();
        chunks.committed(work.chunks);
        row_rules.committed(new_rules);
        stat_series.committed(new_series);
        reports.committed(due);
        Ok(work.outcome)
    }

    /// Makes keys of what these entries name and their senders may report.
    pub(super) async fn resolve_keys(&mut self, entries: &[&Entry]) -> Result<(), WriteError> {
        let batches = || entries.iter().filter_map(|entry| Some((*entry, batch_of(entry)?)));
        self.keys.resolve_names(&self.client, batches().map(|(_, batch)| batch)).await?;
        self.keys.resolve_fabrics(&mut self.client, entries).await?;
        self.keys.add_jobs(&self.client, self.jobs_of_tools(entries)).await?;
        self.claims.load(&self.client, entries, &mut self.keys).await?;
        self.keys.resolve(&self.client, batches(), &self.claims).await
    }

    /// Jobs without a key that entries without a sender name: the server's own and those of tools are not judged.
    fn jobs_of_tools(&self, entries: &[&Entry]) -> BTreeSet<String> {
        let batches = entries
            .iter()
            .filter_map(|entry| batch_of(entry).filter(|batch| !claims::is_judged(entry, batch)));
        batches.flat_map(|batch| self.keys.jobs_without_key(batch)).collect()
    }
}

/// Writes inventory and samples; returns the rows of samples.
pub(super) async fn write_rows(
    transaction: &Transaction<'_>,
    stock: inventory::Inventory,
    mut rows: Rows,
    statements: &mut statements::Statements,
    way: WriteMethod,
) -> Result<u64, WriteError> {
    for (node, event) in stock.apply(transaction).await? {
        rows.add_event(&node, &event);
    }
    let mut written = 0;
    for (table, buffer) in TABLES.iter().zip(rows.into_buffers()) {
        if buffer.rows() > 0 {
            written += match way {
                WriteMethod::Direct if !table.may_be_there() => {
                    statements.copy(transaction, table, buffer).await?
                }
                WriteMethod::Direct | WriteMethod::Staged => {
                    statements.copy_staged(transaction, table, buffer).await?
                }
            };
        }
    }
    Ok(written)
}
