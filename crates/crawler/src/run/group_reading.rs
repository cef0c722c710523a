//! Reads multicast groups and their members from the subnet administrator after a whole discovery, and publishes them.
//!
//! It runs on the thread of the administrator, so that discovery does not wait for it. What could not be read is counted
//! with its reason, and what was known before stays.

use super::shared::SharedState;
use super::thread_names::ADMINISTRATION;
use crate::sa::{self, Client, SaError};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throughline_infiniband::key::Key;
use throughline_infiniband::multicast::Groups;
use throughline_infiniband::records;
use throughline_sample::catalogue::{RECORDS, UNREAD_MULTICAST_GROUPS};
use throughline_spool::Class;

/// Records of groups and members that are read in a second on average, at most: 3 fit a MAD, so some 500 MADs, as for
/// multicast tables.
const RECORDS_PER_SECOND: f64 = 1_500.0;
/// Queries for single records in a second on average, at most, where tables can't pass.
const QUERIES_PER_SECOND: f64 = 500.0;

/// What discovery requests.
pub struct GroupsRequest {
    /// When the discovery began, nanoseconds.
    pub began: i64,
    /// Multicast LIDs in the switches' tables.
    pub mlids: BTreeSet<u16>,
}

/// The reader, with what it learned about the administrator.
pub struct GroupReading {
    /// From when on groups may be read again.
    after: Instant,
    /// LID of the manager that does not take the SM_Key: another attempt would be as vain, and fill its log.
    distrusting: Option<u16>,
}

impl Default for GroupReading {
    fn default() -> GroupReading {
        GroupReading { after: Instant::now(), distrusting: None }
    }
}

impl GroupReading {
    /// Reads and publishes, unless it is too early for it.
    ///
    /// # Errors
    /// [`SaError::Stopped`] and [`SaError::Transport`]; all others are counted.
    pub fn read(
        &mut self,
        client: &mut Client,
        request: &GroupsRequest,
        shared: &SharedState,
        stop: &AtomicBool,
    ) -> Result<(), SaError> {
        let Some(found) = shared.found().filter(|_| Instant::now() >= self.after) else { return Ok(()) };
        let sent = client.stats().sent;
        // The key with repeats: a lost answer would be taken for a manager that does not take it. Tables that do not come
        // now are queried again after the next discovery.
        let reported = self.key(client, stop).and_then(|key| {
            let ports = found.topology.end_guids();
            client.without_repeats(|client| sa::all_groups(client, key, &request.mlids, &ports, stop))
        });
        let count = |reason: &'static str, groups: usize| {
            shared.publisher.metrics.add((ADMINISTRATION, reason), &UNREAD_MULTICAST_GROUPS, groups as u64);
        };
        let queries = client.stats().sent.saturating_sub(sent);
        let records = reported.as_ref().map_or(0, |groups| groups.members.len());
        self.after = Instant::now() + pause(records, queries);
        match reported {
            Ok(groups) => publish(&groups, request.began, shared, count),
            Err(error @ (SaError::Stopped | SaError::Transport(_))) => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "multicast groups are not read");
                count(reason(&error), 1);
            }
        }
        Ok(())
    }

    /// The key to request members with; none where the manager is known not to take it.
    fn key(&mut self, client: &mut Client, stop: &AtomicBool) -> Result<Key, SaError> {
        let manager = client.manager_lid();
        if self.distrusting == Some(manager) {
            return Ok(Key::default());
        }
        let key = client.member_key();
        if sa::is_trusting(client, key, stop)? {
            self.distrusting = None;
            return Ok(key);
        }
        tracing::info!(
            lid = manager,
            "the subnet administrator does not take the SM_Key: members of multicast groups stay unknown"
        );
        self.distrusting = Some(manager);
        Ok(Key::default())
    }
}

/// Until groups may be read again.
// Below 2^53.
#[allow(clippy::cast_precision_loss)]
fn pause(records: usize, queries: u64) -> Duration {
    Duration::from_secs_f64((records as f64 / RECORDS_PER_SECOND).max(queries as f64 / QUERIES_PER_SECOND))
}

fn publish(groups: &Groups, began: i64, shared: &SharedState, count: impl Fn(&'static str, usize)) {
    let made = records::multicast_groups(groups, began);
    if !groups.is_trusted {
        count("members_not_reported", made.groups);
    }
    if groups.is_cut {
        count("shared_mlid", 1);
    }
    count("group_bound", made.left_out_groups);
    count("member_bound", made.unlisted_groups);
    for batch in made.batches {
        shared.publisher.metrics.add(ADMINISTRATION, &RECORDS, batch.ib_multicast_groups.len() as u64);
        shared.publisher.append(batch, Class::Precious);
    }
}

/// Why nothing was read, in a word.
const fn reason(error: &SaError) -> &'static str {
    match error {
        SaError::NoManager => "no_manager",
        SaError::Silent { .. } => "silent",
        SaError::Refused { .. } => "refused",
        SaError::Cut { .. } => "cut",
        SaError::Broken { .. } => "broken",
        SaError::Stopped | SaError::Transport(_) => "transport",
    }
}
