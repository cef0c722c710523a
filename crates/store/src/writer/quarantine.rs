//! What is not stored: entries set aside with their bytes, and rejected records, counted with an example.

use std::collections::BTreeMap;

use throughline_sample::Message;
use tokio_postgres::Transaction;

use super::{Content, Entry, RecordRejection, WriteError, failed};

/// Batches in the quarantine, the newest: enough to find the cause, and a bound on its size.
const QUARANTINED_BATCHES: i64 = 1000;

/// Bytes of batches in the quarantine: sixty of the largest entries.
const QUARANTINED_BYTES: i64 = 256 << 20;

/// Batches of one spool in the quarantine: one sender can't push out what others have there.
const QUARANTINED_OF_SPOOL: i64 = 100;

/// Rows of rejected records: senders, reasons and kinds of a site are some thousands; names beyond that are invented,
/// and stand together as `other`.
const REJECTED_ROWS_MAX: i64 = 10_000;

/// Days for which rejected records are listed.
const REJECTED_DAYS: i32 = 30;

/// Sets an entry aside.
pub(super) async fn batch(
    transaction: &Transaction<'_>,
    entry: &Entry,
    reason: &str,
) -> Result<(), WriteError> {
    let bytes = match &entry.content {
        Content::Batch(batch) => batch.encode_to_vec(),
        Content::Undecodable { bytes, .. } => bytes.clone(),
    };
    let insert = "INSERT INTO internal.batch_quarantine (spool_id, sequence, reason, batch) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT DO NOTHING";
    // The number is a key for people here; its bits are stored even when they are no positive number.
    let sequence = entry.sequence.cast_signed();
    let reason = reason.replace('\0', "\u{fffd}");
    transaction
        .execute(insert, &[&entry.spool_id, &sequence, &reason, &bytes])
        .await
        .map_err(failed("setting a batch aside"))?;
    let bound = "DELETE FROM internal.batch_quarantine WHERE (spool_id, sequence) IN (SELECT spool_id, sequence FROM \
                 (SELECT spool_id, sequence, row_number() OVER newest AS number, \
                         sum(octet_length(batch)) OVER newest AS bytes, \
                         row_number() OVER (PARTITION BY spool_id ORDER BY quarantined_at DESC, sequence DESC) AS own \
                  FROM internal.batch_quarantine WINDOW newest AS (ORDER BY quarantined_at DESC, spool_id, sequence DESC)) q \
                 WHERE number > $1 OR bytes > $2 OR own > $3)";
    transaction
        .execute(bound, &[&QUARANTINED_BATCHES, &QUARANTINED_BYTES, &QUARANTINED_OF_SPOOL])
        .await
        .map_err(failed("bounding the quarantine"))?;
    Ok(())
}

/// Rejected records of one transaction.
#[derive(Default)]
pub(super) struct RejectedRows(BTreeMap<(String, &'static str, &'static str), (i64, Vec<u8>)>);

impl RejectedRows {
    /// Adds what was rejected of an entry.
    pub fn add(&mut self, entry: &Entry, rejected: &[RecordRejection]) {
        for one in rejected {
            let key = (entry.sender_of(one).into_owned(), one.reason.reason(), one.kind);
            let row = self.0.entry(key).or_insert_with(|| (0, one.example.clone()));
            row.0 = row.0.saturating_add(i64::try_from(one.records).unwrap_or(i64::MAX));
        }
    }

    /// Senders and reasons.
    pub fn senders(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().map(|(sender, reason, _)| (sender.as_str(), *reason))
    }

    /// Writes them.
    pub async fn write(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let what = "counting rejected records";
        let (mut senders, mut reasons, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        let (mut records, mut examples) = (Vec::new(), Vec::new());
        for ((sender, reason, kind), (count, example)) in self.0 {
            senders.push(sender);
            reasons.push(reason);
            kinds.push(kind);
            records.push(count);
            examples.push(example);
        }
        let insert = "INSERT INTO internal.record_quarantine AS q (sender, reason, kind, records, example) \
             SELECT n.sender, n.reason, n.kind, sum(n.records)::bigint, (array_agg(n.example))[1] FROM ( \
                 SELECT CASE WHEN full_up.it AND NOT EXISTS (SELECT FROM internal.record_quarantine k WHERE k.day = current_date \
                     AND k.sender = s.sender AND k.reason = s.reason AND k.kind = s.kind) THEN 'other' \
                     ELSE s.sender END AS sender, s.reason, s.kind, s.records, s.example \
                 FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[]) \
                     AS s(sender, reason, kind, records, example), \
                     (SELECT count(*) >= $6 AS it FROM internal.record_quarantine) full_up) n \
             GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 \
             ON CONFLICT (day, sender, reason, kind) DO UPDATE SET records = q.records + excluded.records, \
                 last_at = now()";
        transaction
            .execute(insert, &[&senders, &reasons, &kinds, &records, &examples, &REJECTED_ROWS_MAX])
            .await
            .map_err(failed(what))?;
        let old = "DELETE FROM internal.record_quarantine WHERE day < current_date - $1::integer";
        transaction.execute(old, &[&REJECTED_DAYS]).await.map_err(failed(what))?;
        Ok(())
    }
}
