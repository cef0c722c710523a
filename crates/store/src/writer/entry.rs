//! What comes into the writer, and what becomes of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use throughline_sample::Message;
use throughline_sample::admission::{NAME_BYTES_MAX, Rejection, clean_text};
use throughline_sample::wire::Batch;
use uuid::Uuid;

/// One entry of a spool.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The spool's identity.
    pub spool_id: Uuid,
    /// Its number; within a spool numbers grow, and entries come in their order.
    pub sequence: u64,
    /// What it holds.
    pub content: Content,
    /// Who sent it, as the collector knows.
    pub sender: Sender,
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

/// Who sent an entry, and what the collector found.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// Names under which a spool may belong to it; a spool without an owner gets the first. None for the server's own
    /// entries and for those of tools, which are not judged.
    pub owners: Arc<[String]>,
    /// Records that the collector rejected and took out.
    pub rejected: Vec<RecordRejection>,
    /// Names of the fabrics that its certificate may report for; none means any.
    pub fabrics: Arc<[String]>,
    /// Time of the oldest record, UTC nanoseconds; 0 where that is not known.
    pub oldest: i64,
}

/// Records of one kind that were rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRejection {
    /// Whose they are, where that is not the entry's sender.
    pub sender: Option<Arc<str>>,
    /// Why.
    pub reason: Rejection,
    /// Which kind: the name of the field in a batch.
    pub kind: &'static str,
    /// How many.
    pub records: u64,
    /// The first of them, encoded and cut.
    pub example: Vec<u8>,
}

/// Longest example of a rejected record that is stored.
pub const EXAMPLE_BYTES_MAX: usize = 1024;

impl Entry {
    /// An entry from the bytes of the wire; bytes that are no batch go to the quarantine.
    pub fn decode(spool_id: Uuid, sequence: u64, bytes: &[u8]) -> Self {
        let content = match Batch::decode(bytes) {
            Ok(batch) => Content::Batch(batch),
            Err(error) => Content::Undecodable { bytes: bytes.to_vec(), reason: error.to_string() },
        };
        Self { spool_id, sequence, content, sender: Sender::default() }
    }

    /// Whose records were rejected, as the table has it.
    pub(super) fn sender_of<'a>(&'a self, rejected: &'a RecordRejection) -> Cow<'a, str> {
        let of_entry = self.sender.owners.first().map_or("", String::as_str);
        clean_text(rejected.sender.as_deref().unwrap_or(of_entry), NAME_BYTES_MAX)
    }
}

impl RecordRejection {
    /// Adds one record to those of its kind and reason.
    pub fn note(
        all: &mut Vec<RecordRejection>,
        reason: Rejection,
        kind: &'static str,
        record: &impl Message,
    ) {
        if let Some(known) = all.iter_mut().find(|known| (known.reason, known.kind) == (reason, kind)) {
            known.records += 1;
            return;
        }
        let mut example = Vec::new();
        // Encoding a large record for its first bytes is worth it once a kind, and not more.
        if record.encoded_len() <= 64 * EXAMPLE_BYTES_MAX {
            example = record.encode_to_vec();
            example.truncate(EXAMPLE_BYTES_MAX);
        }
        all.push(RecordRejection { sender: None, reason, kind, records: 1, example });
    }
}

/// What became of the entries of one call. All but those that were denied or deferred may be acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Rows of samples committed (inventory not counted).
    pub rows: u64,
    /// Entries that were committed before, and left out.
    pub duplicates: u64,
    /// Entries set aside in `batch_quarantine`.
    pub quarantined: u64,
    /// Values of metrics that this build does not know, left out.
    pub unknown_values: u64,
    /// Entries of a crawler left out because another one had the term of their fabric.
    pub fenced: u64,
    /// Records that were rejected, by reason; the rest of their entries is stored.
    pub rejected: BTreeMap<Rejection, u64>,
    /// The same by their sender as in `record_quarantine`.
    pub rejected_of: BTreeMap<(String, Rejection), u64>,
    /// Entries of a spool that belongs to another sender, by their place in the call: nothing of them is stored, and
    /// they must not be acknowledged.
    pub denied: Vec<usize>,
    /// Entries of a crawler that sees a fabric that is not clear, or that it may not report for: by their place in the call,
    /// with the reason. They must not be acknowledged, as those that were denied.
    pub held_back: Vec<(usize, String)>,
    /// Entries that would make too many chunks of the past now, and those of their spools behind them, by their place
    /// in the call: to be sent again later.
    pub deferred: Vec<usize>,
}

impl WriteOutcome {
    pub(super) fn add(&mut self, other: WriteOutcome) {
        self.rows += other.rows;
        self.duplicates += other.duplicates;
        self.quarantined += other.quarantined;
        self.unknown_values += other.unknown_values;
        self.fenced += other.fenced;
        self.denied.extend(other.denied);
        self.held_back.extend(other.held_back);
        self.deferred.extend(other.deferred);
        for (reason, records) in other.rejected {
            *self.rejected.entry(reason).or_default() += records;
        }
        for (of, records) in other.rejected_of {
            *self.rejected_of.entry(of).or_default() += records;
        }
    }

    pub(super) fn reject(&mut self, entry: &Entry, rejected: &[RecordRejection]) {
        for one in rejected {
            *self.rejected.entry(one.reason).or_default() += one.records;
            let of = (entry.sender_of(one).into_owned(), one.reason);
            *self.rejected_of.entry(of).or_default() += one.records;
        }
    }
}
