//! Surveys of GPUs that are finished: what a node had by the same source and the survey lacks is gone, or lost, and each change is an
//! event. An agent knows nothing of the time before its start: only here a GPU that was exchanged while the node was down is seen.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{Batch, Event, GpuSurveyMark};
use tokio_postgres::{Row, Transaction};

use super::keys::Keys;
use super::lost_gpus::{LOST, RETURNED};
use super::{WriteError, failed};

/// Sources that read the same GPUs. One of them reports what there is, and another one after a change of the configuration.
const OF_NVIDIA: [&str; 2] = ["nvml", "dcgm"];

/// A finished survey, the newest of its node and vendor.
pub(super) struct Survey {
    node: String,
    /// The newest time of its batch, UTC nanoseconds.
    newest: i64,
    mark: GpuSurveyMark,
    /// GPUs whose loss or return the batch has as an event.
    reported: BTreeSet<String>,
}

/// Those of some batches, by node and source; of NVIDIA's libraries it is one.
#[derive(Default)]
pub(super) struct Surveys(BTreeMap<(i64, String), Survey>);

/// A row of `gpu` that is current when the survey comes.
struct Current {
    id: i64,
    uuid: String,
    index: i32,
    parent: Option<i64>,
    is_lost: bool,
    /// As the writer of the table takes it, without its time.
    row: Value,
}

/// What a survey changes.
#[derive(Default)]
pub(super) struct Changes {
    /// GPUs and partitions that end: number and time.
    pub gone: Vec<Value>,
    /// Those that are lost, as rows.
    pub lost: Vec<(i64, Value)>,
    /// Links that a GPU has by the survey: all others of it end.
    pub links: Vec<Value>,
    /// By the name of the node.
    pub events: Vec<(String, Event)>,
}

impl Surveys {
    /// Adds those of a batch, which has nothing newer than `newest`.
    pub fn add(&mut self, batch: &Batch, keys: &Keys, newest: i64) -> Result<(), String> {
        for mark in &batch.gpu_survey_marks {
            let reported =
                batch.events.iter().filter(|event| [LOST, RETURNED].contains(&event.kind.as_str()));
            let reported = reported.map(|event| event.gpu_uuid.clone()).collect();
            let survey = Survey { node: batch.node.clone(), newest, mark: mark.clone(), reported };
            self.0.insert((keys.node(&batch.node)?, family(&mark.source)[0].to_owned()), survey);
        }
        Ok(())
    }

    /// The survey of a node by a source, where there is one.
    pub fn of(&self, node: i64, source: &str) -> Option<&GpuSurveyMark> {
        self.0.get(&(node, family(source)[0].to_owned())).map(|survey| &survey.mark)
    }

    /// What they change. `rows` are the GPUs that the same batches have, by number.
    pub async fn changes(
        &self,
        transaction: &Transaction<'_>,
        rows: &BTreeMap<i64, Value>,
    ) -> Result<Changes, WriteError> {
        let mut changes = Changes::default();
        for ((node, source), survey) in &self.0 {
            let found = transaction
                .query(CURRENT, &[node, &family(source), &to_rfc3339(survey.newest)])
                .await
                .map_err(failed("inventory: current GPUs"))?;
            let had_any = found.first().is_some_and(|row| row.get(0));
            // A message that arrives late changes nothing.
            if found.first().is_some_and(|row| row.get(1)) {
                continue;
            }
            let current = found.iter().filter_map(current).collect::<Result<Vec<_>, _>>()?;
            let new: Vec<_> = rows.iter().filter(|(_, row)| row["node_id"] == json!(node)).collect();
            survey.compare(&current, &new, had_any, &mut changes);
        }
        Ok(changes)
    }
}

/// A source and those that read the same GPUs; the first stands for all.
fn family(source: &str) -> Vec<&str> {
    if OF_NVIDIA.contains(&source) { OF_NVIDIA.to_vec() } else { vec![source] }
}

/// A row of [`CURRENT`]; without a GPU it has only its first two columns.
fn current(row: &Row) -> Option<Result<Current, WriteError>> {
    let id: Option<i64> = row.get(2);
    let read = |id| {
        let text: String = row.get(7);
        let row_of_table =
            serde_json::from_str(&text).map_err(|error| WriteError::Data(error.to_string()))?;
        Ok(Current {
            id,
            uuid: row.get(3),
            index: row.get(4),
            parent: row.get(5),
            is_lost: row.get(6),
            row: row_of_table,
        })
    };
    id.map(read)
}

impl Survey {
    fn compare(&self, current: &[Current], rows: &[(&i64, &Value)], had_any: bool, changes: &mut Changes) {
        let (at, mut events) = (to_rfc3339(self.mark.time), Vec::new());
        let here: BTreeMap<&str, bool> =
            self.mark.gpus.iter().map(|gpu| (gpu.uuid.as_str(), gpu.has_unread_parts)).collect();
        let uuid_of: BTreeMap<i64, &str> = current.iter().map(|gpu| (gpu.id, gpu.uuid.as_str())).collect();
        let is_lost =
            |uuid: &str| self.mark.lost.iter().any(|lost| lost == uuid) || self.mark.unidentified > 0;
        for gpu in current.iter().filter(|gpu| !here.contains_key(gpu.uuid.as_str())) {
            let parent = gpu.parent.and_then(|parent| uuid_of.get(&parent).copied());
            if parent.and_then(|parent| here.get(parent)) == Some(&true) {
                continue;
            }
            // Partitions go where their GPU goes.
            let is_lost = match parent {
                Some(parent) => !here.contains_key(parent) && is_lost(parent),
                None => is_lost(&gpu.uuid),
            };
            if !is_lost {
                changes.gone.push(json!({"gpu_id": gpu.id, "at": at}));
            } else if !gpu.is_lost {
                let mut row = gpu.row.clone();
                (row["is_lost"], row["at"]) = (json!(true), json!(at));
                changes.lost.push((gpu.id, row));
                changes.links.push(json!({"gpu_id": gpu.id, "links": [], "at": at}));
            }
            if gpu.parent.is_none() {
                let event = match (is_lost, gpu.is_lost) {
                    (true, true) => None,
                    (true, false) => self.lost(gpu),
                    (false, _) => Some(self.gone(gpu)),
                };
                events.extend(event);
            }
        }
        for gpu in &self.mark.gpus {
            if let Some(known) = current.iter().find(|known| known.uuid == gpu.uuid && known.parent.is_none())
            {
                changes.links.push(json!({"gpu_id": known.id, "links": gpu.links, "at": at}));
            }
        }
        if had_any {
            let found = rows.iter().filter(|(_, row)| here.contains_key(text(row, "uuid")));
            let found: Vec<_> = found.copied().collect();
            events.extend(self.arrivals(current, &found));
            events.extend(self.repartitions(current, &found));
        }
        changes.events.extend(events.into_iter().map(|event| (self.node.clone(), event)));
    }

    fn event(&self, kind: &str, severity: &str, uuid: &str, text: String) -> Event {
        Event {
            time: self.mark.time,
            source: self.mark.source.clone(),
            kind: kind.to_owned(),
            severity: severity.to_owned(),
            text,
            gpu_uuid: uuid.to_owned(),
            ..Event::default()
        }
    }

    fn gone(&self, gpu: &Current) -> Event {
        let text = format!("{} is not listed any more", named(gpu.index, &gpu.row));
        let before = format!("GPU {}", gpu.index);
        Event { before, ..self.event("gpu.gone", "warning", &gpu.uuid, text) }
    }

    /// Where its agent, which was started since, does not know that it was there.
    fn lost(&self, gpu: &Current) -> Option<Event> {
        if self.reported.contains(&gpu.uuid) {
            return None;
        }
        let text = format!(
            "{} does not answer: see its events gpu.xid, or Xid in the kernel's log; drain the node, and reset the GPU or reboot",
            named(gpu.index, &gpu.row)
        );
        Some(self.event(LOST, "error", &gpu.uuid, text))
    }

    /// GPUs that are new, that have returned, and that have another index.
    fn arrivals(&self, current: &[Current], rows: &[(&i64, &Value)]) -> Vec<Event> {
        let of = |(id, row): &(&i64, &Value)| {
            let (uuid, index) = (text(row, "uuid"), number(row, "index"));
            if !row["parent_gpu_id"].is_null() {
                return Vec::new();
            }
            let Some(known) = current.iter().find(|known| known.id == **id) else {
                let text = format!("{} is there since now", named(index, row));
                let after = format!("GPU {index}");
                return vec![Event { after, ..self.event("gpu.new", "info", uuid, text) }];
            };
            let mut events = Vec::new();
            if known.is_lost && !self.reported.contains(uuid) {
                let text = format!("GPU {index} ({uuid}) answers again");
                events.push(self.event(RETURNED, "info", uuid, text));
            }
            if known.index != index {
                let text = format!("GPU {} ({uuid}) is GPU {index} now", known.index);
                let (before, after) = (format!("GPU {}", known.index), format!("GPU {index}"));
                events.push(Event { before, after, ..self.event("gpu.renumbered", "info", uuid, text) });
            }
            events
        };
        rows.iter().flat_map(of).collect()
    }

    /// GPUs that were there and have other partitions now.
    fn repartitions(&self, current: &[Current], rows: &[(&i64, &Value)]) -> Vec<Event> {
        let whole = current.iter().filter(|gpu| gpu.parent.is_none());
        let changed = whole.filter_map(|gpu| {
            let surveyed = self.mark.gpus.iter().find(|found| found.uuid == gpu.uuid)?;
            let known = current.iter().filter(|part| part.parent == Some(gpu.id));
            let before: BTreeMap<&str, &Value> = known.map(|part| (part.uuid.as_str(), &part.row)).collect();
            let found = rows.iter().filter(|(_, row)| row["parent_gpu_id"] == json!(gpu.id));
            let after: BTreeMap<&str, &Value> = found.map(|(_, row)| (text(row, "uuid"), *row)).collect();
            if surveyed.has_unread_parts || before.keys().eq(after.keys()) {
                return None;
            }
            let (before, after) = (parts(&before), parts(&after));
            let text =
                format!("GPU {} ({}) is partitioned anew: {after}, before {before}", gpu.index, gpu.uuid);
            Some(Event { before, after, ..self.event("gpu.repartitioned", "info", &gpu.uuid, text) })
        });
        changed.collect()
    }
}

/// A GPU for people.
fn named(index: i32, row: &Value) -> String {
    let place = [text(row, "name"), text(row, "uuid"), text(row, "pci_bus_id")];
    let place: Vec<_> = place.into_iter().filter(|text| !text.is_empty()).collect();
    format!("GPU {index} ({})", place.join(", "))
}

/// Partitions in a few words.
fn parts(parts: &BTreeMap<&str, &Value>) -> String {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    parts.values().for_each(|row| *names.entry(text(row, "name")).or_default() += 1);
    let names: Vec<_> = names
        .into_iter()
        .map(
            |(name, count)| {
                if name.is_empty() { format!("{count} without a name") } else { format!("{count} {name}") }
            },
        )
        .collect();
    if names.is_empty() { "no partition".to_owned() } else { names.join(", ") }
}

fn text<'v>(row: &'v Value, column: &str) -> &'v str {
    row[column].as_str().unwrap_or_default()
}

fn number(row: &Value, column: &str) -> i32 {
    row[column].as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default()
}

/// Whether a node ($1) ever had a GPU by some sources ($2), whether something is known of them after a time ($3), and those that are
/// current.
const CURRENT: &str = "
SELECT a.had_any, a.is_late, g.gpu_id, g.uuid, g.index, g.parent_gpu_id, g.is_lost, (to_jsonb(g) - 'valid_from' - 'valid_to')::text
FROM (SELECT count(*) > 0 AS had_any, coalesce(bool_or(greatest(o.valid_from, o.valid_to) > $3::text::timestamptz), false) AS is_late
      FROM internal.gpu o WHERE o.node_id = $1 AND o.source = ANY ($2)) a
LEFT JOIN internal.gpu g ON g.node_id = $1 AND g.source = ANY ($2) AND g.valid_to IS NULL
ORDER BY g.index, g.uuid";

/// Ends rows of GPUs, and of their links with them.
pub(super) const END_GONE: [&str; 2] = [
    "UPDATE internal.gpu_link l SET valid_to = greatest(s.at, l.valid_from)
FROM jsonb_to_recordset($1) AS s(gpu_id bigint, at timestamptz) WHERE l.gpu_id = s.gpu_id AND l.valid_to IS NULL",
    "UPDATE internal.gpu g SET valid_to = greatest(s.at, g.valid_from)
FROM jsonb_to_recordset($1) AS s(gpu_id bigint, at timestamptz) WHERE g.gpu_id = s.gpu_id AND g.valid_to IS NULL",
];

/// Ends rows of links that a GPU does not have any more.
pub(super) const END_LINKS: &str = "
UPDATE internal.gpu_link l SET valid_to = greatest(s.at, l.valid_from)
FROM jsonb_to_recordset($1) AS s(gpu_id bigint, links integer[], at timestamptz)
WHERE l.gpu_id = s.gpu_id AND l.valid_to IS NULL AND l.valid_from <= s.at AND l.link <> ALL (s.links)";
