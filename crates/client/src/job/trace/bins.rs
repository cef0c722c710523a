//! Operations of a job that was not traced: of each rank the share of time inside each operation, and bytes a second, as counters.
//!
//! A call is counted when it returns, so that one step has all the time of a call of five seconds: it is spread over the
//! time before, back to the last call of the same operation at most.

use super::chrome::Writer;
use super::clocks::Axis;
use super::progress::Progress;
use super::summary::Summary;
use crate::Server;
use anyhow::Context;
use std::collections::BTreeMap;
use std::io::Write;
use throughline_api::jobs::JobRanks;
use throughline_api::operation_steps::{OperationStepColumns, OperationSteps};

const WRITING: &str = "writing the trace";

/// Units of counters.
const SHARE: &str = "share of time";
const BYTES: &str = "bytes/s";

/// Lengths of steps, milliseconds, the shortest first: agents report bins of 0.1 s.
const STEPS_MS: [i64; 5] = [100, 1_000, 10_000, 60_000, 600_000];

/// Events that a step of a rank has, as far as one can know: a handful of operations with two counters each.
const EVENTS_OF_STEP: u64 = 8;

/// What is written.
pub struct Bins<'a> {
    pub axis: &'a Axis,
    pub all: &'a JobRanks,
    /// Nanoseconds on the axis.
    pub range: (i64, i64),
    /// Most events.
    pub most: u64,
}

/// A stretch of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OperationInterval {
    from_ms: i64,
    to_ms: i64,
    /// Of the time; above 1 where several threads are inside.
    share: f64,
    bytes_per_second: f64,
}

/// What is known of one operation so far.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// End of its last step.
    end_ms: i64,
    /// Whether its counters stand at 0 since then.
    is_zero: bool,
    has_bytes: bool,
}

impl Bins<'_> {
    /// Writes a process for each wanted rank.
    pub fn write<W: Write>(
        &self,
        server: &Server,
        is_wanted: impl Fn(i32) -> bool,
        writer: &mut Writer<W>,
        totals: &mut Summary,
    ) -> anyhow::Result<()> {
        let ranks: Vec<usize> =
            (0..self.all.ranks.rank.len()).filter(|place| is_wanted(self.all.ranks.rank[*place])).collect();
        let step_ms = self.step_ms(ranks.len());
        totals.step_seconds = Some(step_ms as f64 / 1e3);
        totals.seconds = self.range.1 as f64 / 1e9;
        let mut progress = Progress::new("rank", ranks.len());
        let each = self.most / ranks.len().max(1) as u64;
        for place in ranks {
            progress.step();
            self.rank(server, place, step_ms, each, writer, totals)?;
        }
        Ok(())
    }

    /// The shortest step with which all of it fits.
    fn step_ms(&self, ranks: usize) -> i64 {
        let length_ms = (self.range.1 - self.range.0).max(0) / 1_000_000;
        let events = |step: i64| (length_ms / step).unsigned_abs() * ranks as u64 * EVENTS_OF_STEP;
        STEPS_MS.into_iter().find(|step| events(*step) <= self.most).unwrap_or(STEPS_MS[STEPS_MS.len() - 1])
    }

    fn rank<W: Write>(
        &self,
        server: &Server,
        place: usize,
        step_ms: i64,
        each: u64,
        writer: &mut Writer<W>,
        totals: &mut Summary,
    ) -> anyhow::Result<()> {
        let rank = self.all.ranks.rank[place];
        let host = self.all.ranks.host.get(place).and_then(|host| self.all.hosts.get(*host));
        let process = u32::try_from(rank).unwrap_or(0) + 1;
        let on = host.map(|host| format!(" on {host}")).unwrap_or_default();
        let name = format!("rank {rank}{on}, in steps of {} s", step_ms as f64 / 1e3);
        writer.process(process, &name, process - 1).context(WRITING)?;
        let clock = self.axis.clock(host.map_or("", String::as_str));
        let utc_ms = |time: i64| self.axis.utc(time).div_euclid(1_000_000);
        let (mut from, to) = (utc_ms(self.range.0), utc_ms(self.range.1) + step_ms);
        let most = writer.events().saturating_add(each);
        let mut states = BTreeMap::new();
        loop {
            let query = [
                ("rank", rank.to_string()),
                ("step_ms", step_ms.to_string()),
                ("from", from.to_string()),
                ("to", to.to_string()),
            ];
            let query: Vec<(&str, &str)> =
                query.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let page: OperationSteps = server.get(&["jobs", &totals.job_key, "operation-steps"], &query)?;
            totals.calls += page.steps.calls.iter().map(|calls| calls.unsigned_abs()).sum::<u64>();
            for (operation, step) in sums(&page.steps) {
                let state: &mut State = states.entry(operation.to_owned()).or_default();
                let stretch = spread(step, step_ms, state.end_ms);
                put(writer, process, operation, state, stretch, &|ms| clock.at(ms)).context(WRITING)?;
            }
            if writer.events() >= most {
                totals.cut_off.push(rank);
                break;
            }
            match page.next_ms {
                Some(next) if next > from => from = next,
                _ => break,
            }
        }
        for (operation, state) in &mut states {
            end(writer, process, operation, state, &|ms| clock.at(ms)).context(WRITING)?;
        }
        Ok(())
    }
}

/// Time in milliseconds, seconds inside and bytes of a step, over all classes of an operation; by time.
fn sums(steps: &OperationStepColumns) -> Vec<(&str, (i64, f64, i64))> {
    let mut sums: BTreeMap<(i64, &str), (f64, i64)> = BTreeMap::new();
    let rows = steps.time_ms.iter().zip(&steps.operation).zip(steps.elapsed_seconds.iter().zip(&steps.bytes));
    for ((time, operation), (elapsed, bytes)) in rows {
        let sum = sums.entry((*time, operation.as_str())).or_default();
        sum.0 += elapsed;
        sum.1 = sum.1.saturating_add(*bytes);
    }
    sums.into_iter()
        .map(|((time, operation), (elapsed, bytes))| (operation, (time, elapsed, bytes)))
        .collect()
}

/// The time in which a step's calls were inside: the step, or where that is shorter than they took, the time before as well, back to the
/// end of the operation's step before.
fn spread((end_ms, elapsed, bytes): (i64, f64, i64), step_ms: i64, before_ms: i64) -> OperationInterval {
    let long_ms = (elapsed * 1e3).ceil() as i64;
    let from_ms = (end_ms - long_ms.max(step_ms)).max(before_ms.min(end_ms - step_ms));
    let seconds = (end_ms - from_ms) as f64 / 1e3;
    OperationInterval {
        from_ms,
        to_ms: end_ms,
        share: elapsed / seconds,
        bytes_per_second: bytes as f64 / seconds,
    }
}

/// Writes a stretch; before it, zeros where nothing was inside.
fn put<W: Write>(
    writer: &mut Writer<W>,
    process: u32,
    operation: &str,
    state: &mut State,
    stretch: OperationInterval,
    at: &dyn Fn(i64) -> i64,
) -> std::io::Result<()> {
    if stretch.from_ms > state.end_ms {
        end(writer, process, operation, state, at)?;
    }
    writer.counter(process, operation, SHARE, at(stretch.from_ms), rounded(stretch.share))?;
    state.has_bytes |= stretch.bytes_per_second > 0.0;
    if state.has_bytes {
        let rate = stretch.bytes_per_second.round();
        writer.counter(process, operation, BYTES, at(stretch.from_ms), rate)?;
    }
    *state = State { end_ms: stretch.to_ms, is_zero: false, ..*state };
    Ok(())
}

/// The operation's last step has ended, and none follows at once.
fn end<W: Write>(
    writer: &mut Writer<W>,
    process: u32,
    operation: &str,
    state: &mut State,
    at: &dyn Fn(i64) -> i64,
) -> std::io::Result<()> {
    if state.end_ms == 0 || state.is_zero {
        return Ok(());
    }
    state.is_zero = true;
    writer.counter(process, operation, SHARE, at(state.end_ms), 0.0)?;
    if state.has_bytes {
        writer.counter(process, operation, BYTES, at(state.end_ms), 0.0)?;
    }
    Ok(())
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_call_is_spread_over_the_time_before_it_returned() {
        let short = spread((1_000, 0.05, 500), 100, 0);
        assert_eq!(
            (short.from_ms, short.to_ms, short.share, short.bytes_per_second),
            (900, 1_000, 0.5, 5_000.0)
        );
        let long = spread((6_000, 5.0, 500), 100, 900);
        assert_eq!((long.from_ms, long.share, long.bytes_per_second), (1_000, 1.0, 100.0));
        // Two threads: no more time than there is, and more than one of them inside.
        let both = spread((6_000, 10.0, 0), 100, 1_000);
        assert_eq!((both.from_ms, both.share), (1_000, 2.0));
    }

    #[test]
    fn counters_fall_to_zero_where_nothing_is_inside() {
        let mut writer = Writer::begin(Vec::new(), &serde_json::json!({})).unwrap();
        let mut state = State::default();
        for end_ms in [1_000, 1_100, 2_000] {
            let stretch = spread((end_ms, 0.1, 10), 100, state.end_ms);
            put(&mut writer, 1, "send", &mut state, stretch, &|ms| ms * 1_000_000).unwrap();
        }
        end(&mut writer, 1, "send", &mut state, &|ms| ms * 1_000_000).unwrap();
        end(&mut writer, 1, "send", &mut state, &|ms| ms * 1_000_000).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&writer.end().unwrap()).unwrap();
        let shares = document["traceEvents"].as_array().unwrap().iter();
        let shares: Vec<_> = shares
            .filter(|event| event["args"][SHARE].is_number())
            .map(|event| (event["ts"].as_f64().unwrap() / 1e3, event["args"][SHARE].as_f64().unwrap()))
            .collect();
        assert_eq!(shares, [(900.0, 1.0), (1_000.0, 1.0), (1_100.0, 0.0), (1_900.0, 1.0), (2_000.0, 0.0)]);
    }
}
