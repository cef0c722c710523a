//! Records to events: one process a rank, one thread a thread, arrows from sends to receives.
//!
//! Holds one record at a time. An arrow needs no look at the other side: both ends work out the same number of it
//! from the message's identity.

use super::chrome::{Arrow, Track, Writer};
use super::clocks::{AlignedRank, Axis};
use super::read::{Record, records};
use super::summary::Summary;
use crate::Server;
use crate::job::progress::Progress;
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;

const WRITING: &str = "writing the trace";

/// Writes calls and messages of all traced processes that lie within a range on the axis. A process has at most so many events: the
/// file says where it is cut off.
pub fn write<W: Write>(
    server: &Server,
    axis: &Axis,
    range: (Option<i64>, Option<i64>),
    events_each: u64,
    writer: &mut Writer<W>,
    totals: &mut Summary,
) -> anyhow::Result<()> {
    let range = (range.0.map(|from| from + axis.zero), range.1.map(|until| until + axis.zero));
    let mut progress = Progress::new("rank", axis.ranks.len());
    let key = totals.job_key.clone();
    for rank in &axis.ranks {
        progress.step();
        let next_number = if range.0.is_some() { i64::MAX } else { 0 };
        let mut process =
            Process { rank, zero: axis.zero, range, next_number, threads: BTreeSet::new(), totals };
        process.begin(writer).context(WRITING)?;
        let most = writer.events().saturating_add(events_each);
        for record in records(server, &key, &rank.traced, rank.range(range.0, range.1)) {
            let record = record?;
            if writer.events() >= most {
                process.cut_off(&record, writer).context(WRITING)?;
                break;
            }
            process.record(&record, writer).context(WRITING)?;
        }
    }
    Ok(())
}

/// One rank's way through its records.
struct Process<'a> {
    rank: &'a AlignedRank,
    zero: i64,
    /// On rank 0's clock.
    range: (Option<i64>, Option<i64>),
    /// What the next record's number is if none was lost; above all numbers before the first one of a range.
    next_number: i64,
    threads: BTreeSet<i32>,
    totals: &'a mut Summary,
}

impl Process<'_> {
    /// No more events of it fit.
    fn cut_off<W: Write>(&mut self, record: &Record, writer: &mut Writer<W>) -> std::io::Result<()> {
        self.totals.cut_off.push(self.rank.traced.rank);
        let name = "the file has no more of this rank: give --ranks, --from and --to, or a larger --most";
        writer.moment(self.rank.process, name, self.time(record.start), Map::new())
    }

    fn begin<W: Write>(&mut self, writer: &mut Writer<W>) -> std::io::Result<()> {
        let rank = self.rank.traced.rank;
        let host = self.rank.traced.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        // Never negative.
        let place = u32::try_from(rank).unwrap_or(0);
        writer.process(self.rank.process, &format!("rank {rank}{host}{}", self.rank.bound()), place)?;
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

/// A JSON object's members.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
