//! What happened while a job ran: events of the fabric, of its nodes and of itself, calls that have not returned, verdicts.

use super::chrome::{Track, Writer};
use super::clocks::Axis;
use super::known::TracedJob;
use super::summary::Summary;
use super::{LaneKind, Options};
use crate::Server;
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use throughline_api::verdicts::{JobVerdict, JobVerdicts};
use throughline_daemon::Failure;

const WRITING: &str = "writing the trace";

/// Events of a file; the newest.
const EVENTS_MAX: usize = 5_000;
/// Events of a page, the most that the server returns.
const PAGE: &str = "1000";

/// `GET /events`, as far as it is used.
#[derive(Deserialize)]
struct Page {
    events: Vec<Event>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    time_ms: i64,
    instance: String,
    source: String,
    kind: String,
    severity: String,
    text: String,
    guid: Option<String>,
    job_key: Option<String>,
}

/// Rows of events. What lasts has a row of its own each, as viewers take overlapping slices of one row to be nested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Job = 1,
    Nodes = 2,
    Fabric = 3,
}

impl Row {
    fn name(self) -> &'static str {
        match self {
            Row::Job => "events of the job",
            Row::Nodes => "events of its nodes",
            Row::Fabric => "events of the fabric",
        }
    }
}

/// First rows of what lasts.
const VERDICT_ROWS: u32 = 10;
const OPEN_ROWS: u32 = 1_000;

/// Writes them as one process, for a range of nanoseconds on the axis.
#[allow(clippy::too_many_arguments)] // what a file is made of
pub fn write<W: Write>(
    server: &Server,
    axis: &Axis,
    known: &TracedJob,
    options: &Options,
    range: (i64, i64),
    process: u32,
    writer: &mut Writer<W>,
    totals: &mut Summary,
) -> anyhow::Result<()> {
    let mut marks = Vec::new();
    if options.has(LaneKind::Events) {
        let utc_ms = |time: i64| axis.utc(time).div_euclid(1_000_000);
        let events = read(server, (utc_ms(range.0), utc_ms(range.1) + 1), known, totals)?;
        marks.extend(events.into_iter().map(|(row, event)| Mark::of_event(axis, row, &event)));
    }
    if options.has(LaneKind::Verdicts) {
        marks.extend(verdicts(server, axis, &totals.job_key, range.1)?);
    }
    if options.has(LaneKind::Open) {
        marks.extend(open_calls(axis, known));
    }
    if marks.is_empty() {
        return Ok(());
    }
    let title = "what happened, and what is said of it";
    writer.process(process, title, process).context(WRITING)?;
    let mut named = BTreeSet::new();
    for mark in marks {
        if named.insert(mark.thread) {
            writer.thread(Track { process, thread: mark.thread }, &mark.row).context(WRITING)?;
        }
        mark.write(process, writer).context(WRITING)?;
    }
    Ok(())
}

/// Something to be written.
struct Mark {
    thread: u32,
    /// Name of the thread.
    row: String,
    name: String,
    start: i64,
    /// 0: a moment.
    length: i64,
    arguments: Value,
}

impl Mark {
    fn of_event(axis: &Axis, row: Row, event: &Event) -> Self {
        let Event { instance, source, kind, severity, text, guid, .. } = event;
        let arguments = json!({ "text": text, "severity": severity, "reported by": instance, "source": source, "guid": guid });
        let start = axis.clock(instance).at(event.time_ms).max(0);
        let (thread, row) = (row as u32, row.name().to_owned());
        Self { thread, row, name: format!("{kind}: {text}"), start, length: 0, arguments }
    }

    fn write<W: Write>(self, process: u32, writer: &mut Writer<W>) -> std::io::Result<()> {
        let track = Track { process, thread: self.thread };
        let arguments: Map<String, Value> = match self.arguments {
            Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        match self.length {
            0 => writer.instant(track, &self.name, self.start, arguments),
            length => writer.span(track, &self.name, self.start, length, arguments),
        }
    }
}

/// What is said of the job, from when it was said first until when it was said last; of one that has ended at its end.
fn verdicts(server: &Server, axis: &Axis, key: &str, end: i64) -> Result<Vec<Mark>, Failure> {
    let all: JobVerdicts = server.get(&["jobs", key, "verdicts"], &[])?;
    let clock = axis.clock("");
    let mark = |(thread, verdict): (u32, JobVerdict)| {
        let start = clock.at(verdict.first_ms).clamp(0, end.max(0));
        let kind = verdict.kind.replace('_', " ");
        let of = if verdict.subject == "job" { String::new() } else { format!(" ({})", verdict.subject) };
        let figures: Map<String, Value> = verdict
            .facts
            .iter()
            .map(|fact| (format!("{}, {}", fact.name, fact.unit), json!(fact.value)))
            .collect();
        Mark {
            thread,
            row: format!("verdict: {kind}{of}"),
            name: verdict.observation,
            start,
            length: (clock.at(verdict.last_ms).min(end) - start).max(1),
            arguments: json!({
                "what to do": verdict.remedy, "confidence": verdict.confidence, "cost, share of time": verdict.cost,
                "other job": verdict.other_job, "said now": verdict.is_now, "evidence": figures,
            }),
        }
    };
    Ok((VERDICT_ROWS..OPEN_ROWS).zip(all.verdicts).map(mark).collect())
}

/// Events of the job, of its nodes and of the fabric, the oldest first. Those of other jobs and nodes are left out.
fn read(
    server: &Server,
    (from, to): (i64, i64),
    known: &TracedJob,
    totals: &mut Summary,
) -> Result<Vec<(Row, Event)>, Failure> {
    let (from, to) = (from.to_string(), to.to_string());
    let mut all: Vec<(Row, Event)> = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut query = vec![("from", from.as_str()), ("to", to.as_str()), ("limit", PAGE)];
        query.extend(next.as_deref().map(|next| ("next", next)));
        let page: Page = server.get(&["events"], &query)?;
        let own = page.events.into_iter().filter_map(|event| Some((row_of(&event, known)?, event)));
        all.extend(own);
        next = page.next;
        if next.is_none() {
            break;
        }
        if all.len() >= EVENTS_MAX {
            totals.left_out.push(format!("events before the newest {}", all.len()));
            break;
        }
    }
    all.reverse();
    Ok(all)
}

fn row_of(event: &Event, known: &TracedJob) -> Option<Row> {
    match &event.job_key {
        Some(job) => return (*job == known.detail.job.job_key).then_some(Row::Job),
        None if known.all.hosts.contains(&event.instance) => return Some(Row::Nodes),
        None => {}
    }
    // A crawler reports by its fabric.
    let is_fabric = event.source == "mad" || event.kind.starts_with("fabric.");
    (event.guid.is_some() || is_fabric).then_some(Row::Fabric)
}

/// The longest call of each rank that has not returned, or in which it was killed, until its last report.
fn open_calls(axis: &Axis, known: &TracedJob) -> Vec<Mark> {
    let columns = &known.all.ranks;
    let (_, end_ms) = known.span_ms();
    let calls = (0..columns.rank.len()).filter_map(|place| {
        let operation = columns.open_operation.get(place)?.as_ref()?;
        let seconds = columns.open_seconds.get(place).copied().flatten()?;
        let host = columns.host.get(place).and_then(|host| known.all.hosts.get(*host));
        let until = columns.end_ms.get(place).copied().flatten().unwrap_or(end_ms);
        let length = (seconds * 1e9) as i64;
        let end = axis.clock(host.map_or("", String::as_str)).at(until);
        let rank = columns.rank[place];
        Some(Mark {
            thread: OPEN_ROWS.saturating_add(rank.unsigned_abs()),
            row: format!("call that has not returned, rank {rank}"),
            name: format!("rank {rank}: {operation} for {seconds:.1} s"),
            start: (end - length).max(0),
            length: length.max(1),
            arguments: json!({ "rank": rank, "operation": operation, "seconds": seconds }),
        })
    });
    calls.collect()
}
