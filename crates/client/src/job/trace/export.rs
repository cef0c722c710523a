//! Records to events: one process a rank, one thread a thread, arrows from sends to receives.
//!
//! Holds one record at a time. An arrow needs no look at the other side: both ends work out the same number of it
//! from the message's identity.

use super::Options;
use super::align::{Aligned, Alignment, Step};
use super::chrome::{Arrow, Track, Writer};
use super::output::Output;
use super::read::{Range, Record, TracedRank, records};
use super::summary::{RankSummary, StepSummary, Summary, counted_calls, ending, untraced};
use crate::Server;
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use throughline_api::jobs::JobRanks;
use throughline_sample::to_rfc3339;

/// A rank with its clock.
struct Lined {
    traced: TracedRank,
    alignment: Alignment,
    by: &'static str,
    /// Added after alignment: only for clocks that were never compared.
    shift: i64,
    process: u32,
}

impl Lined {
    fn align(&self, clock: i64) -> Aligned {
        let aligned = self.alignment.align(clock);
        Aligned { time: aligned.time.saturating_add(self.shift), ..aligned }
    }

    /// A range on rank 0's clock as one of the rank's own, with room for what the offset does in it.
    fn range(&self, from: Option<i64>, until: Option<i64>) -> Range {
        const ROOM: i64 = 1_000_000_000;
        let own = |time: i64| time.saturating_sub(self.align(time).time.saturating_sub(time));
        Range {
            from: from.map_or(i64::MIN, |from| own(from).saturating_sub(ROOM)),
            until: until.map_or(i64::MAX, |until| own(until).saturating_add(ROOM)),
        }
    }

    fn summary(&self, zero: i64, all: &JobRanks) -> RankSummary {
        let is_compared = self.alignment.comparisons() > 0;
        let seconds = |clock: i64| (self.align(clock).time - zero) as f64 / 1e9;
        let step = |step: &Step| StepSummary {
            from: seconds(step.from),
            until: seconds(step.to),
            seconds: step.jump as f64 / 1e9,
        };
        RankSummary {
            rank: self.traced.rank,
            host: self.traced.host.clone(),
            records: self.traced.records,
            calls: self.traced.calls,
            counted_calls: counted_calls(self.traced.rank, all),
            lost: self.traced.lost,
            ending: ending(&self.traced, all),
            clock: self.by,
            comparisons: self.alignment.comparisons(),
            error_seconds: is_compared.then(|| self.alignment.error() as f64 / 1e9),
            drift_ppm: is_compared.then(|| self.alignment.drift_ppm()),
            steps: self.alignment.steps.iter().map(step).collect(),
        }
    }
}

/// Lines up all clocks. Ranks that compared theirs with rank 0's have what they need; one on rank 0's node shares
/// its clock; others are put where their node's UTC says.
fn line_up(ranks: Vec<TracedRank>, raw: bool) -> (Vec<Lined>, i64) {
    let zero_rank = ranks.iter().find(|rank| rank.rank == 0).cloned();
    // Where rank 0 has no records, a comparison tells its clock as well.
    let from_comparison = |rank: &TracedRank| rank.points.first().map(|point| rank.utc_offset - point.offset);
    let reference = zero_rank.as_ref().map(|rank| rank.utc_offset);
    let reference = reference.or_else(|| ranks.iter().find_map(from_comparison));
    let reference = reference.or_else(|| ranks.first().map(|rank| rank.utc_offset)).unwrap_or(0);
    let lined = ranks.into_iter().zip(1..).map(|(mut traced, process)| {
        let points = std::mem::take(&mut traced.points);
        let same_node =
            zero_rank.as_ref().is_some_and(|zero| zero.host.is_some() && zero.host == traced.host);
        let (by, shift) = match traced.rank {
            _ if raw => ("nothing", 0),
            0 => ("rank 0 itself", 0),
            _ if !points.is_empty() => ("comparisons", 0),
            _ if same_node => ("same node", 0),
            _ => ("the node's UTC", traced.utc_offset - reference),
        };
        let alignment = Alignment::new(if by == "comparisons" { points } else { Vec::new() });
        Lined { traced, alignment, by, shift, process }
    });
    (lined.collect(), reference)
}

/// Writes the whole trace.
pub fn export(
    server: &Server,
    key: &str,
    (ranks, all): (Vec<TracedRank>, &JobRanks),
    options: &Options,
    output: Output,
) -> anyhow::Result<Summary> {
    let is_wanted = |rank: i32| options.ranks.as_ref().is_none_or(|wanted| wanted.has(rank));
    let untraced = untraced(&ranks, all, is_wanted);
    let (ranks, reference) = line_up(ranks, options.raw_clocks);
    let zero = ranks.iter().map(|rank| rank.align(rank.traced.first).time).min().unwrap_or(0);
    let mut summary = Summary {
        job: key.to_owned(),
        start: to_rfc3339(zero.saturating_add(reference)),
        ranks: ranks.iter().map(|rank| rank.summary(zero, all)).collect(),
        untraced,
        ..Summary::default()
    };
    let about = json!({
        "program": format!("throughline {}", env!("CARGO_PKG_VERSION")),
        "job": summary.job, "start": summary.start, "ranks": summary.ranks,
    });
    let mut writer = Writer::begin(output, &about).context(WRITING)?;
    let range = (options.from.map(|from| from + zero), options.until.map(|until| until + zero));
    for rank in &ranks {
        let mut process =
            Process { rank, zero, range, next_number: 0, threads: BTreeSet::new(), totals: &mut summary };
        process.begin(&mut writer).context(WRITING)?;
        let own = rank.range(range.0, range.1);
        process.next_number = if options.from.is_some() { i64::MAX } else { 0 };
        for record in records(server, key, &rank.traced, own) {
            process.record(&record?, &mut writer).context(WRITING)?;
        }
    }
    writer.end().context(WRITING)?.finish()?;
    Ok(summary)
}

const WRITING: &str = "writing the trace";

/// One rank's way through its records.
struct Process<'a> {
    rank: &'a Lined,
    zero: i64,
    range: (Option<i64>, Option<i64>),
    /// What the next record's number is if none was lost; above all numbers before the first one of a range.
    next_number: i64,
    threads: BTreeSet<i32>,
    totals: &'a mut Summary,
}

impl Process<'_> {
    fn begin<W: Write>(&mut self, writer: &mut Writer<W>) -> std::io::Result<()> {
        let rank = self.rank.traced.rank;
        let host = self.rank.traced.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        // Never negative.
        let place = u32::try_from(rank).unwrap_or(0);
        writer.process(self.rank.process, &format!("rank {rank}{host}"), place)?;
        for step in &self.rank.alignment.steps {
            let name = format!("clock stepped by {:+.3} ms", step.jump as f64 / 1e6);
            for (name, at) in [(name.clone(), step.from), (format!("{name}: reliable again"), step.to)] {
                let arguments = json!({ "step_ms": step.jump as f64 / 1e6 });
                // The comparison before may lie before the first record: viewers leave out what is before zero.
                writer.moment(self.rank.process, &name, self.time(at).max(0), object(arguments))?;
            }
        }
        Ok(())
    }

    /// A time in the trace.
    fn time(&self, clock: i64) -> i64 {
        self.rank.align(clock).time - self.zero
    }

    fn record<W: Write>(&mut self, record: &Record, writer: &mut Writer<W>) -> std::io::Result<()> {
        let (start, end) = (self.time(record.start), self.time(record.end));
        let is_stepped = self.rank.alignment.has_step(record.start, record.end);
        let lost = record.number.saturating_sub(self.next_number);
        self.next_number = record.number + 1;
        if lost > 0 {
            self.totals.lost += lost.unsigned_abs();
            let name = format!("{lost} records lost before here");
            writer.moment(self.rank.process, &name, start, object(json!({ "records": lost })))?;
        }
        let (from, until) = self.range;
        if from.is_some_and(|from| end < from - self.zero)
            || until.is_some_and(|until| start > until - self.zero)
        {
            return Ok(());
        }
        self.totals.seconds = self.totals.seconds.max(end as f64 / 1e9);
        let track = Track {
            process: self.rank.process,
            // Never negative; thread 0 of a process names the process itself in some viewers.
            thread: u32::try_from(record.thread).unwrap_or(0) + 1,
        };
        if self.threads.insert(record.thread) {
            let name =
                if record.thread == 0 { "main".to_owned() } else { format!("thread {}", record.thread) };
            writer.thread(track, &name)?;
        }
        match record.kind.as_str() {
            // Its bytes tell how many records there were.
            "end" if record.bytes.is_some_and(|records| records > 0) => return Ok(()),
            "end" => {
                return writer.moment(
                    self.rank.process,
                    "the limit of records is reached",
                    start,
                    Map::new(),
                );
            }
            "call" | "send" | "receive" => {
                self.totals.calls += 1;
                writer.slice(track, &record.operation, start, end - start, arguments(record, is_stepped))?;
            }
            _ => {}
        }
        match record.kind.as_str() {
            "send" | "departure" => self.arrow(record, track, Arrow::From, start, writer),
            // Within the slice that ends there.
            "receive" | "arrival" => self.arrow(record, track, Arrow::To, (end - 1).max(start), writer),
            _ => Ok(()),
        }
    }

    fn arrow<W: Write>(
        &mut self,
        record: &Record,
        track: Track,
        end: Arrow,
        time: i64,
        writer: &mut Writer<W>,
    ) -> std::io::Result<()> {
        let own = self.rank.traced.rank;
        match (record.peer, record.comm, record.tag, record.sequence) {
            (Some(peer), Some(comm), Some(tag), Some(sequence)) => {
                let (source, destination) = if end == Arrow::From { (own, peer) } else { (peer, own) };
                *(if end == Arrow::From { &mut self.totals.sent } else { &mut self.totals.received }) += 1;
                writer.arrow(
                    track,
                    end,
                    identity([source.into(), destination.into(), comm, tag.into(), sequence]),
                    time,
                )
            }
            _ => {
                self.totals.unnumbered += 1;
                Ok(())
            }
        }
    }
}

/// A number for a message, the same on both sides; never 0. Mixing as in splitmix64.
fn identity(parts: [i64; 5]) -> u64 {
    let mixed = parts.into_iter().fold(0u64, |value, part| {
        let mut value = (value ^ part.cast_unsigned()).wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    });
    mixed | 1
}

fn arguments(record: &Record, is_stepped: bool) -> Map<String, Value> {
    let mut all = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    add("peer", record.peer.map(Value::from));
    add("tag", record.tag.map(Value::from));
    add("bytes", record.bytes.map(Value::from));
    // Too large for a JSON number.
    add("comm", record.comm.map(|comm| Value::from(comm_name(comm))));
    add("message", record.sequence.map(Value::from));
    add("region", Some(record.region.as_str()).filter(|region| !region.is_empty()).map(Value::from));
    add("clock", is_stepped.then(|| Value::from("stepped")));
    all
}

fn comm_name(comm: i64) -> String {
    if comm == 1 { "world".to_owned() } else { format!("{:016x}", comm.cast_unsigned()) }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
