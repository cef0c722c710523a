//! The ledger: how far each spool is committed, and whose it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Transaction;
use uuid::Uuid;

use super::{Content, Entry, WriteError, failed};

/// One spool as this transaction has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spool {
    sequence: i64,
    owner: Option<String>,
}

/// The locked rows of some spools.
pub(super) struct Ledger {
    before: BTreeMap<Uuid, Spool>,
    after: BTreeMap<Uuid, Spool>,
}

/// An entry's place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the next one, and noted.
    New,
    /// It is committed already.
    Duplicate,
    /// The spool belongs to somebody else.
    Denied,
}

pub(super) fn sequence_number(entry: &Entry) -> Result<i64, WriteError> {
    i64::try_from(entry.sequence)
        .map_err(|_| WriteError::Data(format!("sequence {} out of range", entry.sequence)))
}

/// Whether a spool with this owner takes entries of one of these senders.
fn belongs(owner: Option<&String>, senders: &Arc<[String]>) -> bool {
    senders.is_empty() || owner.is_none_or(|owner| senders.contains(owner))
}

impl Ledger {
    /// Locks the ledger's rows of the entries' spools, making those that are missing.
    pub async fn lock(transaction: &Transaction<'_>, entries: &[&Entry]) -> Result<Ledger, WriteError> {
        let spools: Vec<Uuid> = entries
            .iter()
            .map(|entry| entry.spool_id)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        let what = "locking the batch ledger";
        // In one order, so that two writers with the same spools cannot wait for each other.
        let lock = "SELECT spool_id, sequence, owner FROM internal.batch_ledger WHERE spool_id = ANY($1) ORDER BY spool_id \
                    FOR UPDATE";
        let mut rows = transaction.query(lock, &[&spools]).await.map_err(failed(what))?;
        if rows.len() < spools.len() {
            let insert = "INSERT INTO internal.batch_ledger (spool_id, sequence) SELECT s, -1 FROM unnest($1::uuid[]) s \
                          ORDER BY s ON CONFLICT DO NOTHING";
            transaction.execute(insert, &[&spools]).await.map_err(failed(what))?;
            rows = transaction.query(lock, &[&spools]).await.map_err(failed(what))?;
        }
        let before: BTreeMap<Uuid, Spool> =
            rows.iter().map(|row| (row.get(0), Spool { sequence: row.get(1), owner: row.get(2) })).collect();
        Ok(Ledger { after: before.clone(), before })
    }

    /// Whether an entry belongs to the spool's owner and is not committed yet.
    pub fn place(&self, entry: &Entry) -> Result<Place, WriteError> {
        let Some(spool) = self.after.get(&entry.spool_id) else { return Ok(Place::New) };
        if !belongs(spool.owner.as_ref(), &entry.sender.owners) {
            return Ok(Place::Denied);
        }
        Ok(if sequence_number(entry)? <= spool.sequence { Place::Duplicate } else { Place::New })
    }

    /// The entry is stored or set aside: its spool is as far.
    pub fn advance(&mut self, entry: &Entry) -> Result<(), WriteError> {
        let sequence = sequence_number(entry)?;
        let spool = self.after.entry(entry.spool_id).or_insert(Spool { sequence: -1, owner: None });
        spool.sequence = spool.sequence.max(sequence);
        // Bytes that are no batch do not name which of the sender's names they use.
        if spool.owner.is_none() && matches!(entry.content, Content::Batch(_)) {
            spool.owner = entry.sender.owners.first().cloned();
        }
        Ok(())
    }

    /// Writes what has changed.
    pub async fn write(&self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        let changed: Vec<(&Uuid, &Spool)> =
            self.after.iter().filter(|(id, spool)| self.before.get(id) != Some(spool)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let spools: Vec<&Uuid> = changed.iter().map(|(id, _)| *id).collect();
        let sequences: Vec<i64> = changed.iter().map(|(_, spool)| spool.sequence).collect();
        let owners: Vec<Option<&str>> = changed.iter().map(|(_, spool)| spool.owner.as_deref()).collect();
        let update = "UPDATE internal.batch_ledger l SET sequence = n.sequence, owner = n.owner, changed_at = now() \
                      FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS n(spool_id, sequence, owner) \
                      WHERE l.spool_id = n.spool_id";
        transaction
            .execute(update, &[&spools, &sequences, &owners])
            .await
            .map_err(failed("advancing the batch ledger"))?;
        Ok(())
    }
}
