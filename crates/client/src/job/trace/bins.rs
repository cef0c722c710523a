//! Operations of a job that was not traced: of each rank the share of time inside each operation, and bytes a second, as counters.
//!
//! A value lasts for the time in which it was counted, a step where there are bins as short, else the time of a row. A call is counted
//! when it returns, so that one step has all the time of a call of five seconds: it is spread over the time before, back to the last
//! call of the same operation at most.

use super::chrome::{Track, Writer};
use super::clocks::Axis;
use super::summary::Summary;
use crate::Server;
use crate::job::progress::Progress;
use anyhow::Context;
use serde_json::Map;
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
    /// The job runs, and all is known up to then, milliseconds since 1970; else as far as there are rows.
    pub runs_known_until_ms: Option<i64>,
}

/// The shortest step with which so many nanoseconds of so many ranks fit.
pub fn step_ms((from, to): (i64, i64), ranks: usize, most: u64) -> i64 {
    let length_ms = (to - from).max(0) / 1_000_000;
    let events = |step: i64| (length_ms / step).unsigned_abs() * ranks as u64 * EVENTS_OF_STEP;
    STEPS_MS.into_iter().find(|step| events(*step) <= most).unwrap_or(STEPS_MS[STEPS_MS.len() - 1])
}

/// What was counted of an operation, and in which time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    from_ms: i64,
    to_ms: i64,
    elapsed_seconds: f64,
    bytes: f64,
}

/// Values from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    time_ms: i64,
    /// Of the time; above 1 where several threads are inside.
    share: f64,
    bytes_per_second: f64,
}

/// What is known of one rank.
#[derive(Debug, Default)]
struct RankCourse {
    operations: BTreeMap<String, Vec<Counted>>,
    counted: usize,
    /// Shortest and longest time of a value, milliseconds.
    spans_ms: Option<(i64, i64)>,
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
        let step_ms = step_ms(self.range, ranks.len(), self.most);
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
        let clock = self.axis.clock(host.map_or("", String::as_str));
        let utc_ms = |time: i64| self.axis.utc(time).div_euclid(1_000_000);
        let (from, to) = (utc_ms(self.range.0), utc_ms(self.range.1) + step_ms);
        let course = self.read(server, rank, (from, to), step_ms, each, totals)?;
        let on = host.map(|host| format!(" on {host}")).unwrap_or_default();
        let (shortest, longest) = course.spans_ms.unwrap_or((step_ms, step_ms));
        let longest_seconds = longest as f64 / 1e3;
        totals.longest_step_seconds = Some(totals.longest_step_seconds.unwrap_or(0.0).max(longest_seconds));
        // The step in which a rank began is a part of one.
        let shortest = shortest.max(step_ms.min(longest));
        let name = format!("rank {rank}{on}, in steps of {}", lengths(shortest, longest));
        writer.process(process, &name, process - 1).context(WRITING)?;
        let mut last_ms = from;
        for (operation, counted) in course.operations {
            last_ms = counted.iter().map(|one| one.to_ms).max().unwrap_or(from).max(last_ms);
            let edges = curve(counted, (from, to));
            put(writer, process, &operation, &edges, &|ms| clock.at(ms)).context(WRITING)?;
        }
        let has_ended = self.all.ranks.end_ms.get(place).is_some_and(Option::is_some);
        if let (Some(known), false) = (self.runs_known_until_ms, has_ended) {
            let since = known.max(last_ms);
            if since + 2 * step_ms < to {
                let track = Track { process, thread: 1 };
                writer.thread(track, "no value: no row yet").context(WRITING)?;
                let (since, end) = (clock.at(since), clock.at(to));
                writer.span(track, "no value", since, end - since, Map::new()).context(WRITING)?;
            }
        }
        Ok(())
    }

    /// Reads what a rank did, page by page.
    fn read(
        &self,
        server: &Server,
        rank: i32,
        (mut from, to): (i64, i64),
        step_ms: i64,
        each: u64,
        totals: &mut Summary,
    ) -> anyhow::Result<RankCourse> {
        let mut course = RankCourse::default();
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
            course.add(&page.steps);
            // Each has two counters.
            if course.counted as u64 * 2 >= each {
                totals.cut_off.push(rank);
                return Ok(course);
            }
            match page.next_ms {
                Some(next) if next > from => from = next,
                _ => return Ok(course),
            }
        }
    }
}

/// Lengths of steps, for people.
fn lengths(shortest_ms: i64, longest_ms: i64) -> String {
    let [shortest, longest] = [shortest_ms, longest_ms].map(|ms| (ms as f64 / 100.0).round() / 10.0);
    if shortest < longest { format!("{shortest} to {longest} s") } else { format!("{longest} s") }
}

impl RankCourse {
    /// Adds a page: sums over all classes of an operation in the same time.
    fn add(&mut self, steps: &OperationStepColumns) {
        let mut sums: BTreeMap<(&str, i64, i64), (f64, f64)> = BTreeMap::new();
        let times = steps.since_ms.iter().zip(&steps.time_ms);
        let rows = times
            .zip(&steps.operation)
            .zip(steps.calls.iter().zip(steps.elapsed_seconds.iter().zip(&steps.bytes)));
        for (((since, time), operation), (calls, (elapsed, bytes))) in rows {
            // A row has operations that stood still, too.
            if *calls > 0 || *bytes > 0 || *elapsed > 0.0 {
                let sum = sums.entry((operation.as_str(), *since, *time)).or_default();
                sum.0 += elapsed;
                sum.1 += *bytes as f64;
            }
        }
        self.counted += sums.len();
        for ((operation, from_ms, to_ms), (elapsed_seconds, bytes)) in sums {
            let length = to_ms - from_ms;
            let (shortest, longest) = self.spans_ms.unwrap_or((length, length));
            self.spans_ms = Some((shortest.min(length), longest.max(length)));
            let counted = Counted { from_ms, to_ms, elapsed_seconds, bytes };
            self.operations.entry(operation.to_owned()).or_default().push(counted);
        }
    }
}

/// The course of an operation within a range: what was counted, evenly over the time in which it was, or where that is shorter than the
/// calls took, over the time before as well, back to the end of what was counted before.
fn curve(mut counted: Vec<Counted>, (begin, end): (i64, i64)) -> Vec<Edge> {
    counted.sort_by_key(|one| (one.to_ms, one.from_ms));
    // Number of values, share and bytes a second that are added then.
    let mut changes: BTreeMap<i64, (i64, f64, f64)> = BTreeMap::new();
    let mut last_ms = i64::MIN;
    for one in counted {
        let long_ms = (one.elapsed_seconds * 1e3).ceil() as i64;
        let from_ms = one.from_ms.min((one.to_ms - long_ms).max(last_ms));
        let seconds = (one.to_ms - from_ms).max(1) as f64 / 1e3;
        let (share, rate) = (one.elapsed_seconds / seconds, one.bytes / seconds);
        for (time, sign) in [(from_ms, 1), (one.to_ms.max(from_ms + 1), -1)] {
            let change = changes.entry(time.clamp(begin, end)).or_default();
            change.0 += sign;
            change.1 += sign as f64 * share;
            change.2 += sign as f64 * rate;
        }
        last_ms = one.to_ms;
    }
    let mut sums = (0, 0.0, 0.0);
    let edge = |(time_ms, change): (i64, (i64, f64, f64))| {
        sums = (sums.0 + change.0, sums.1 + change.1, sums.2 + change.2);
        // What is left of sums is rounding.
        if sums.0 == 0 {
            sums = (0, 0.0, 0.0);
        }
        Edge { time_ms, share: (sums.1 * 1e4).round() / 1e4, bytes_per_second: sums.2.round() }
    };
    changes.into_iter().map(edge).collect()
}

/// Writes a course, each counter where it changes; that of bytes from the first on.
fn put<W: Write>(
    writer: &mut Writer<W>,
    process: u32,
    operation: &str,
    edges: &[Edge],
    at: &dyn Fn(i64) -> i64,
) -> std::io::Result<()> {
    let (mut share, mut rate) = (None, None);
    for edge in edges {
        if share != Some(edge.share) {
            share = Some(edge.share);
            writer.counter(process, operation, SHARE, at(edge.time_ms), edge.share)?;
        }
        if rate != Some(edge.bytes_per_second) && (rate.is_some() || edge.bytes_per_second > 0.0) {
            rate = Some(edge.bytes_per_second);
            writer.counter(process, operation, BYTES, at(edge.time_ms), edge.bytes_per_second)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: (i64, i64) = (0, 100_000);

    fn counted(from_ms: i64, to_ms: i64, elapsed_seconds: f64, bytes: f64) -> Counted {
        Counted { from_ms, to_ms, elapsed_seconds, bytes }
    }

    fn edges(all: &[Edge]) -> Vec<(i64, f64, f64)> {
        all.iter().map(|edge| (edge.time_ms, edge.share, edge.bytes_per_second)).collect()
    }

    #[test]
    fn a_long_call_is_spread_over_the_time_before_it_returned() {
        let short = curve(vec![counted(900, 1_000, 0.05, 500.0)], ALL);
        assert_eq!(edges(&short), [(900, 0.5, 5_000.0), (1_000, 0.0, 0.0)]);
        let long = curve(vec![counted(800, 900, 0.1, 0.0), counted(5_900, 6_000, 5.0, 500.0)], ALL);
        assert_eq!(edges(&long), [(800, 1.0, 0.0), (900, 0.0, 0.0), (1_000, 1.0, 100.0), (6_000, 0.0, 0.0)]);
        // Two threads: no more time than there is, and more than one of them inside.
        let both = curve(vec![counted(900, 1_000, 0.1, 0.0), counted(5_900, 6_000, 10.0, 0.0)], ALL);
        assert_eq!(edges(&both)[1..], [(1_000, 2.0, 0.0), (6_000, 0.0, 0.0)]);
    }

    #[test]
    fn what_a_row_of_a_minute_has_lasts_a_minute() {
        let rows = vec![
            counted(0, 5_000, 1.0, 10e6),
            counted(5_000, 65_000, 12.0, 120e6),
            counted(65_000, 65_100, 0.02, 0.2e6),
        ];
        let course = curve(rows, ALL);
        assert_eq!(
            edges(&course),
            [(0, 0.2, 2e6), (5_000, 0.2, 2e6), (65_000, 0.2, 2e6), (65_100, 0.0, 0.0)]
        );
        // A part of it has the same rate.
        let part = curve(vec![counted(5_000, 65_000, 12.0, 120e6)], (20_000, 30_000));
        assert_eq!(edges(&part), [(20_000, 0.2, 2e6), (30_000, 0.0, 0.0)]);
    }

    #[test]
    fn the_integral_of_a_course_is_what_was_counted() {
        let mut state = 1_u64;
        let mut random = |most: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as i64).rem_euclid(most)
        };
        for _ in 0..200 {
            let mut rows = Vec::new();
            for _ in 0..20 {
                let to = 10_000 + random(80_000);
                rows.push(counted(
                    to - 100 * (1 + random(90)),
                    to,
                    random(5_000) as f64 / 1e3,
                    random(1_000_000_000) as f64,
                ));
            }
            let bytes: f64 = rows.iter().map(|row| row.bytes).sum();
            let course = curve(rows, (-100_000, 100_000));
            let area: f64 = course
                .windows(2)
                .map(|pair| pair[0].bytes_per_second * (pair[1].time_ms - pair[0].time_ms) as f64 / 1e3)
                .sum();
            // Rates are rounded to whole bytes a second.
            assert!((area - bytes).abs() < 100.0, "{area} {bytes}");
            assert!(
                course.iter().all(|edge| edge.share >= 0.0 && edge.bytes_per_second >= 0.0),
                "{course:?}"
            );
        }
    }

    #[test]
    fn counters_fall_to_zero_where_nothing_is_inside() {
        let mut writer = Writer::begin(Vec::new(), &serde_json::json!({})).unwrap();
        let rows = [1_000, 1_100, 2_000].map(|end| counted(end - 100, end, 0.1, 10.0));
        put(&mut writer, 1, "send", &curve(rows.to_vec(), ALL), &|ms| ms * 1_000_000).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&writer.end().unwrap()).unwrap();
        let shares = document["traceEvents"].as_array().unwrap().iter();
        let shares: Vec<_> = shares
            .filter(|event| event["args"][SHARE].is_number())
            .map(|event| (event["ts"].as_f64().unwrap() / 1e3, event["args"][SHARE].as_f64().unwrap()))
            .collect();
        assert_eq!(shares, [(900.0, 1.0), (1_100.0, 0.0), (1_900.0, 1.0), (2_000.0, 0.0)]);
    }

    #[test]
    fn names_say_how_long_steps_are() {
        assert_eq!((lengths(100, 100).as_str(), lengths(100, 60_000).as_str()), ("0.1 s", "0.1 to 60 s"));
    }
}
