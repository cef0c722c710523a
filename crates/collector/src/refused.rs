//! Batches that were refused because of the configuration, by sender: counted here, and stored with the server's own
//! metrics among the rejected records, so that `throughline status` and an alert show whose batches wait at their sender.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use throughline_sample::admission::Rejection;
use throughline_store::RecordRejection;

/// Kind of record under which they are counted.
pub(crate) const KIND: &str = "batch";

/// Senders that are counted at once; what others send is counted in metrics only.
const SENDERS_MAX: usize = 4096;

/// Longest reason that is stored.
const REASON_BYTES_MAX: usize = 512;

/// Batches of a sender by why they were refused, each with one reason in words.
type Counts = HashMap<(Arc<str>, Rejection), (u64, String)>;

/// Counts since they were last stored.
#[derive(Debug, Default)]
pub(crate) struct RefusedSenders(Mutex<Counts>);

impl RefusedSenders {
    /// One batch more. `sender` is a name as in `record_quarantine`: node:NAME or crawler:NAME.
    pub fn add(&self, sender: &str, rejection: Rejection, reason: &str) {
        let mut senders = self.lock();
        if senders.len() >= SENDERS_MAX {
            return;
        }
        let of = senders.entry((sender.into(), rejection)).or_insert_with(|| {
            let longest = REASON_BYTES_MAX.min(reason.len());
            let end = (0..=longest).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or_default();
            (0, reason[..end].to_owned())
        });
        of.0 += 1;
    }

    /// What is to be stored now.
    pub fn take(&self) -> Vec<RecordRejection> {
        let rejected = |((sender, reason), (records, text)): ((Arc<str>, Rejection), (u64, String))| {
            RecordRejection { sender: Some(sender), reason, kind: KIND, records, example: text.into_bytes() }
        };
        std::mem::take(&mut *self.lock()).into_iter().map(rejected).collect()
    }

    /// What could not be stored.
    pub fn put_back(&self, rejected: Vec<RecordRejection>) {
        let mut senders = self.lock();
        for one in rejected {
            let Some(sender) = one.sender else { continue };
            let text = String::from_utf8_lossy(&one.example).into_owned();
            senders.entry((sender, one.reason)).or_insert((0, text)).0 += one.records;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A panic elsewhere leaves at worst a count behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
