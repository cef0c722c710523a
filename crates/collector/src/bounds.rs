//! Bounds of what one sender may cause over time: lines in the log, and spools in the ledger.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Status;
use uuid::Uuid;

use crate::identity::Identity;

/// From one line in the log about a refused sender to the next about the same one: a refused sender comes again each
/// second.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Senders whose last line is known; with more, one line an interval is for all others together.
const LOGGED_MAX: usize = 1024;

/// Whether it is time for a line in the log about a sender.
#[derive(Default)]
pub(crate) struct LogLimit(Mutex<HashMap<String, Instant>>);

impl LogLimit {
    /// True once an interval for each sender.
    pub fn is_due(&self, sender: &str) -> bool {
        self.is_due_at(sender, Instant::now())
    }

    fn is_due_at(&self, sender: &str, now: Instant) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < LOG_INTERVAL;
        if logged.len() >= LOGGED_MAX && !logged.contains_key(sender) {
            logged.retain(|_, at| is_recent(at));
        }
        let sender = if logged.len() >= LOGGED_MAX && !logged.contains_key(sender) { "" } else { sender };
        if logged.get(sender).is_some_and(is_recent) {
            return false;
        }
        logged.insert(sender.to_owned(), now);
        true
    }
}

/// Spools of one certificate within [`SPOOL_INTERVAL`]. A daemon has two (with its quarantine), and new ones where it
/// starts with a damaged or without a folder; each leaves a row in the ledger, which is never trimmed.
pub const SPOOLS_PER_SENDER: usize = 64;

/// See [`SPOOLS_PER_SENDER`].
pub(crate) const SPOOL_INTERVAL: Duration = Duration::from_secs(3600);

/// Certificates whose spools are counted; those beyond it wait for the next interval of others.
const SENDERS_MAX: usize = 64 * 1024;

/// The spools that certificates have used lately.
#[derive(Default)]
pub(crate) struct SpoolBudget(Mutex<HashMap<String, (Instant, HashSet<Uuid>)>>);

impl SpoolBudget {
    /// Whether this sender may use this spool now. Senders of this machine are not counted: they are known users.
    ///
    /// # Errors
    /// It used too many others within the interval.
    pub fn admit(&self, identity: &Identity, spool_id: Uuid) -> Result<(), Status> {
        match identity {
            Identity::Local { .. } => Ok(()),
            Identity::Certified { .. } => self.admit_at(identity.name(), spool_id, Instant::now()),
        }
    }

    fn admit_at(&self, sender: String, spool_id: Uuid, now: Instant) -> Result<(), Status> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |began: &Instant| now.saturating_duration_since(*began) >= SPOOL_INTERVAL;
        if senders.len() >= SENDERS_MAX && !senders.contains_key(&sender) {
            senders.retain(|_, (began, _)| !is_over(began));
        }
        let is_full = senders.len() >= SENDERS_MAX && !senders.contains_key(&sender);
        let (began, spools) = senders.entry(sender).or_insert_with(|| (now, HashSet::new()));
        if is_over(began) {
            (*began, *spools) = (now, HashSet::new());
        }
        if spools.contains(&spool_id) {
            return Ok(());
        }
        if is_full || spools.len() >= SPOOLS_PER_SENDER {
            return Err(Status::resource_exhausted(format!(
                "this sender used {SPOOLS_PER_SENDER} spools within an hour: does its daemon start again and again?"
            )));
        }
        spools.insert(spool_id);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn attack_16_one_sender_has_a_line_a_minute_and_all_unknown_ones_share_one() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let lines = |sender: &str, second| limit.is_due_at(sender, start + Duration::from_secs(second));
        assert!(lines("node:a", 0) && !lines("node:a", 59) && lines("node:b", 59) && lines("node:a", 60));
        let many = (0..5000).filter(|n| lines(&format!("node:{n}"), 61)).count();
        assert!(many <= LOGGED_MAX + 1, "{many}");
        assert!(limit.0.lock().unwrap().len() <= LOGGED_MAX + 1);
        assert!(lines("node:0", 200));
    }

    #[test]
    fn a_sender_keeps_its_spools_and_gets_new_ones_with_the_next_hour() {
        let (budget, start) = (SpoolBudget::default(), Instant::now());
        let admit = |sender: &str, spool: u128, second| {
            budget
                .admit_at(sender.into(), Uuid::from_u128(spool), start + Duration::from_secs(second))
                .is_ok()
        };
        let taken = (0..1000).filter(|n| admit("node:evil", *n, 0)).count();
        assert_eq!(taken, SPOOLS_PER_SENDER);
        assert!(admit("node:evil", 3, 3599) && !admit("node:evil", 999, 3599) && admit("node:good", 1, 3599));
        assert!(admit("node:evil", 999, 3600));
    }
}
