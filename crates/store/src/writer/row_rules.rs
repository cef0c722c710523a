//! By which rules senders leave out rows: what rounds report, as rows of `row_rules` with a validity range.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{Batch, RowRules};
use tokio_postgres::Transaction;

use super::keys::Keys;
use super::rows::instance_of;
use super::{WriteError, failed};

/// Rules in memory, at most: a source of each of very many nodes.
const CACHED: usize = 100_000;

/// The reporter and the source.
type Key = (String, String);

/// The rules that the table has, as far as this session has written them.
#[derive(Default)]
pub(super) struct KnownRules {
    rules: HashMap<Key, RowRules>,
    /// The largest gap of each instance, in seconds.
    gaps: HashMap<String, f64>,
}

/// Rules that may be new, to be cached once they are committed.
#[derive(Default)]
pub(super) struct NewRules(BTreeMap<Key, (i64, RowRules)>);

impl KnownRules {
    /// The rules of these batches that the table may not have. Of several rounds the newest counts.
    pub fn changed(&self, batches: &[&Batch], keys: &Keys) -> NewRules {
        let mut new = NewRules::default();
        for batch in batches {
            for round in &batch.coverage {
                let Some(rules) = round.row_rules.filter(RowRules::are_plausible) else { continue };
                let key = (instance_of(batch, keys), round.source.clone());
                if self.rules.get(&key) == Some(&rules) {
                    continue;
                }
                let newest = new.0.entry(key).or_insert((round.time, rules));
                if newest.0 <= round.time {
                    *newest = (round.time, rules);
                }
            }
        }
        new
    }

    /// The largest gap between two readings of this sender that are one time: of all its sources, as far as this session
    /// knows them, and at least that of senders that do not report theirs.
    pub fn largest_gap(&self, batch: &Batch, keys: &Keys) -> Duration {
        let reported =
            batch.coverage.iter().filter_map(|round| round.row_rules).filter(RowRules::are_plausible);
        let known = self.gaps.get(&instance_of(batch, keys)).copied();
        let all = reported.map(|rules| rules.largest_gap_seconds).chain(known);
        Duration::from_secs_f64(all.fold(DEFAULT.largest_gap_seconds, f64::max))
    }

    pub fn committed(&mut self, new: NewRules) {
        if self.rules.len() > CACHED {
            *self = Self::default();
        }
        for (key, (_, rules)) in new.0 {
            let gap = self.gaps.entry(key.0.clone()).or_default();
            *gap = gap.max(rules.largest_gap_seconds);
            self.rules.insert(key, rules);
        }
    }
}

impl NewRules {
    /// Ends and begins rows for what is new or changed. Rules of rounds that arrive late change nothing.
    pub async fn write(&self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let row = |((instance, source), (time, rules)): (&Key, &(i64, RowRules))| {
            json!({
                "instance": instance, "source": source, "at": to_rfc3339(*time),
                "heartbeat": rules.heartbeat_seconds, "gap": rules.largest_gap_seconds,
                "quiet": i64::try_from(rules.quiet_bytes).unwrap_or(i64::MAX),
            })
        };
        let rows = Value::Array(self.0.iter().map(row).collect());
        for statement in [END, BEGIN] {
            transaction.execute(statement, &[&rows]).await.map_err(failed("writing rules of rows"))?;
        }
        Ok(())
    }
}

/// Ends rows whose rules are others now.
const END: &str = "
UPDATE internal.row_rules r SET valid_to = n.at
FROM jsonb_to_recordset($1) AS n (instance text, source text, at timestamptz, heartbeat float8, gap float8, quiet bigint)
WHERE r.instance = n.instance AND r.source = n.source AND r.valid_to IS NULL AND r.valid_from < n.at
  AND (r.heartbeat_seconds, r.largest_gap_seconds, r.quiet_bytes) <> (n.heartbeat, n.gap, n.quiet)";

/// Begins rows where none is current. Another writer may have been first.
const BEGIN: &str = "
INSERT INTO internal.row_rules (instance, source, valid_from, heartbeat_seconds, largest_gap_seconds, quiet_bytes)
SELECT n.instance, n.source, n.at, n.heartbeat, n.gap, n.quiet
FROM jsonb_to_recordset($1) AS n (instance text, source text, at timestamptz, heartbeat float8, gap float8, quiet bigint)
WHERE NOT EXISTS (SELECT FROM internal.row_rules r WHERE r.instance = n.instance AND r.source = n.source AND r.valid_to IS NULL)
ON CONFLICT DO NOTHING";
