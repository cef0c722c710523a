//! Counters beside the ranks: NVLinks, PCIe and ports of each node, and links on the job's way through the fabric.

use super::chrome::{Track, Writer};
use super::clocks::Axis;
use super::known::TracedJob;
use super::summary::{LaneSummary, Summary};
use crate::Server;
use crate::job::progress::Progress;
use anyhow::Context;
use serde_json::Map;
use std::collections::BTreeMap;
use std::io::Write;
use throughline_api::lanes::{JobLanes, Lane, LaneClock};

const WRITING: &str = "writing the trace";

/// Nodes whose counters are written.
const NODES_MAX: usize = 64;
/// Directions of links that are written: those that were most utilised.
const LINKS_MAX: &str = "16";
/// Values of a lane.
const VALUES_MAX: i64 = 7_200;
/// Values of all lanes: a node with 8 GPUs and 8 ports has 48 lanes.
const ALL_VALUES_MAX: i64 = 2_000_000;
const LANES_OF_NODE: i64 = 48;
/// Steps of a request; the server returns 2,000 at most, and aligns them.
const REQUEST_STEPS: i64 = 1_900;
/// Steps at the end without a value that need no mention.
const LAST_STEPS: i64 = 3;
/// Lengths of the server's steps, seconds.
const STEPS_S: [i64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400];

/// Writes lanes, a process for each node and one for the links of each subnet.
pub struct Lanes<'a, W: Write> {
    server: &'a Server,
    axis: &'a Axis,
    known: &'a TracedJob,
    /// UTC, milliseconds.
    range: (i64, i64),
    writer: &'a mut Writer<W>,
    totals: &'a mut Summary,
    process: u32,
}

/// One counter of the file.
#[derive(Debug)]
struct Counter {
    process: u32,
    name: String,
    unit: &'static str,
    last: Option<f64>,
    /// Since when it was not read, on the axis.
    gap: Option<i64>,
    /// Of the slices that say so.
    thread: u32,
    has_thread: bool,
}

/// What a route's lanes have in common.
struct Group<'a> {
    title: String,
    route: &'a str,
    query: Vec<(&'a str, &'a str)>,
    step_ms: i64,
}

impl<'a, W: Write> Lanes<'a, W> {
    /// For a range of nanoseconds on the axis.
    pub fn new(
        server: &'a Server,
        axis: &'a Axis,
        known: &'a TracedJob,
        range: (i64, i64),
        writer: &'a mut Writer<W>,
        totals: &'a mut Summary,
    ) -> Self {
        let utc_ms = |time: i64| axis.utc(time).div_euclid(1_000_000);
        // Behind all processes of ranks, whichever way these are numbered.
        let largest = known.all.ranks.rank.iter().max().map_or(0, |rank| rank.unsigned_abs());
        let traced = u32::try_from(axis.ranks.len()).unwrap_or(0);
        let process = largest.max(traced) + 2;
        Self { server, axis, known, range: (utc_ms(range.0), utc_ms(range.1) + 1), writer, totals, process }
    }

    /// The number of the next process.
    pub fn next_process(&self) -> u32 {
        self.process
    }

    /// Length of steps, milliseconds, for so many lanes.
    fn step_ms(&self, lanes: i64) -> i64 {
        let most = (ALL_VALUES_MAX / lanes.max(1)).clamp(300, VALUES_MAX);
        let length = self.range.1 - self.range.0;
        let fits = |step: &i64| length <= most * step * 1_000;
        STEPS_S.into_iter().find(fits).unwrap_or(STEPS_S[STEPS_S.len() - 1]) * 1_000
    }

    /// Counters of the job's nodes, those of the smallest ranks first.
    pub fn nodes(&mut self) -> anyhow::Result<()> {
        let hosts = &self.known.all.hosts;
        let shown = hosts.len().min(NODES_MAX);
        if shown < hosts.len() {
            let left = hosts.len() - shown;
            self.totals.left_out.push(format!("counters of {left} nodes, as {NODES_MAX} are written"));
        }
        let step_ms = self.step_ms(shown as i64 * LANES_OF_NODE);
        let mut progress = Progress::new("node", shown);
        for host in &hosts[..shown] {
            progress.step();
            let title = format!("the node {host}");
            self.group(&Group { title, route: "lanes", query: vec![("host", host)], step_ms })?;
        }
        Ok(())
    }

    /// Links on the job's way.
    pub fn links(&mut self) -> anyhow::Result<()> {
        let step_ms = self.step_ms(LANES_OF_NODE);
        let title = "the links on its way".to_owned();
        self.group(&Group { title, route: "link-lanes", query: vec![("limit", LINKS_MAX)], step_ms })
    }

    /// Writes what a route returns, chunk by chunk.
    fn group(&mut self, group: &Group<'_>) -> anyhow::Result<()> {
        let step = group.step_ms;
        let mut processes: BTreeMap<String, u32> = BTreeMap::new();
        let mut counters: BTreeMap<(String, String), Counter> = BTreeMap::new();
        let (mut from, to) = (self.range.0.div_euclid(step) * step, self.range.1);
        let mut left_out = 0;
        while from < to {
            let until = (from + step * REQUEST_STEPS).min((to + step - 1).div_euclid(step) * step);
            let texts = [from.to_string(), until.to_string(), ((until - from) / step).to_string()];
            let mut query = group.query.clone();
            query.extend([("from", texts[0].as_str()), ("to", &texts[1]), ("points", &texts[2])]);
            let page: JobLanes = self.server.get(&["jobs", &self.totals.job_key, group.route], &query)?;
            left_out = left_out.max(page.left_out);
            for lane in &page.lanes {
                let process = match processes.get(&lane.instance) {
                    Some(process) => *process,
                    None => {
                        let process = self.begin(group, lane, &page)?;
                        processes.insert(lane.instance.clone(), process);
                        process
                    }
                };
                self.lane(process, lane, &page, &mut counters)?;
            }
            from = until;
        }
        let clock = self.axis.clock("");
        for counter in counters.values_mut() {
            let end = clock.at(self.range.1);
            // The last steps lack a reading after them.
            let is_short = |since: &i64| end - since <= LAST_STEPS * step * 1_000_000;
            counter.gap = counter.gap.take().filter(|since| !is_short(since));
            close(self.writer, counter, end).context(WRITING)?;
        }
        if !counters.is_empty() {
            self.totals.lanes.push(LaneSummary {
                name: group.title.clone(),
                lanes: counters.len(),
                step_seconds: step as f64 / 1e3,
            });
        }
        if left_out > 0 {
            self.totals.left_out.push(format!("{}: {left_out} that were utilised less", group.title));
        }
        Ok(())
    }

    /// Begins the process of an instance, whose name says how well its times are aligned: the bound of the clock, and how far
    /// apart readings are.
    fn begin(&mut self, group: &Group<'_>, lane: &Lane, page: &JobLanes) -> anyhow::Result<u32> {
        let process = self.process;
        self.process += 1;
        let clock = page.clocks.iter().find(|clock| clock.instance == lane.instance);
        let own = page.lanes.iter().filter(|other| other.instance == lane.instance);
        let read = apart(own.filter_map(|lane| interval(lane, &page.clocks)));
        let bound = self.axis.clock(&lane.instance).bound(clock);
        let windows =
            page.window_seconds.map_or_else(String::new, |window| format!(", own part each {window} s"));
        // Short, as viewers cut names, and behind those of ranks where viewers sort by names.
        let name = format!("{} ({bound}{read}{windows})", group.title);
        self.writer.process(process, &name, process).context(WRITING)?;
        Ok(process)
    }

    fn lane(
        &mut self,
        process: u32,
        lane: &Lane,
        page: &JobLanes,
        counters: &mut BTreeMap<(String, String), Counter>,
    ) -> anyhow::Result<()> {
        let clock = self.axis.clock(&lane.instance);
        let short = lane.name.strip_prefix(&format!("{} ", lane.instance)).unwrap_or(&lane.name);
        for series in &lane.series {
            let of_windows = series.name == "own";
            let (times, step) = match page.window_seconds {
                Some(window) if of_windows => (&page.window_times_ms, (window * 1e3) as i64),
                _ => (&page.times_ms, (page.step_seconds * 1e3) as i64),
            };
            let what = match series.name.as_str() {
                "own" => " own part".to_owned(),
                "waiting" => " waits".to_owned(),
                way => format!(" {way}"),
            };
            let thread = u32::try_from(counters.len()).unwrap_or(0) + 1;
            let counter =
                counters.entry((lane.name.clone(), series.name.clone())).or_insert_with(|| Counter {
                    process,
                    name: format!("{short}{what}"),
                    unit: if series.unit == "share" { "share" } else { "bytes/s" },
                    last: None,
                    gap: None,
                    thread,
                    has_thread: false,
                });
            for (end_ms, value) in times.iter().zip(&series.values) {
                put(self.writer, counter, clock.at(end_ms - step), *value).context(WRITING)?;
            }
        }
        Ok(())
    }
}

/// Usual distance of readings of what a lane shows.
fn interval(lane: &Lane, clocks: &[LaneClock]) -> Option<f64> {
    let clock = clocks.iter().find(|clock| clock.instance == lane.instance)?;
    let reads = |source: &str| match lane.kind.as_str() {
        "link" => source == "mad",
        "port" => source == "sysfs",
        _ => !matches!(source, "mad" | "sysfs" | "mpi" | "proc"),
    };
    let known = clock.sources.iter().filter(|source| reads(&source.source));
    let least = known.map(|source| source.interval_seconds).min_by(f64::total_cmp)?;
    Some((least * 100.0).round() / 100.0)
}

/// Distances of readings, for people; empty where none is known.
fn apart(all: impl Iterator<Item = f64>) -> String {
    let bounds = all.fold(None, |bounds: Option<(f64, f64)>, seconds| {
        let (least, most) = bounds.unwrap_or((seconds, seconds));
        Some((least.min(seconds), most.max(seconds)))
    });
    match bounds {
        Some((least, most)) if least < most => format!(", read each {least} to {most} s"),
        Some((least, _)) => format!(", read each {least} s"),
        None => String::new(),
    }
}

/// Writes a value where it is another one. What was not read is no value: the counter stays as it was, and a slice beside it says so.
fn put<W: Write>(
    writer: &mut Writer<W>,
    counter: &mut Counter,
    time: i64,
    value: Option<f64>,
) -> std::io::Result<()> {
    let Some(value) = value else {
        if counter.last.is_some() {
            counter.gap.get_or_insert(time);
        }
        return Ok(());
    };
    close(writer, counter, time)?;
    if counter.last != Some(value) {
        counter.last = Some(value);
        writer.counter(counter.process, &counter.name, counter.unit, time, value)?;
    }
    Ok(())
}

/// Ends a stretch in which nothing was read.
fn close<W: Write>(writer: &mut Writer<W>, counter: &mut Counter, time: i64) -> std::io::Result<()> {
    let Some(since) = counter.gap.take().filter(|since| *since < time) else { return Ok(()) };
    let track = Track { process: counter.process, thread: counter.thread };
    if !counter.has_thread {
        counter.has_thread = true;
        writer.thread(track, &format!("no value: {}", counter.name))?;
    }
    writer.span(track, "no value", since, time - since, Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_was_not_read_is_marked_and_no_zero() {
        let mut writer = Writer::begin(Vec::new(), &json!({})).unwrap();
        let mut counter = Counter {
            process: 3,
            name: "port out".into(),
            unit: "bytes/s",
            last: None,
            gap: None,
            thread: 1,
            has_thread: false,
        };
        let values = [None, Some(1.0), Some(1.0), None, None, Some(0.0), None];
        for (step, value) in values.into_iter().enumerate() {
            put(&mut writer, &mut counter, step as i64 * 1_000, value).unwrap();
        }
        close(&mut writer, &mut counter, 7_000).unwrap();
        let document: Value = serde_json::from_slice(&writer.end().unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let of = |kind: &str, value: fn(&Value) -> Value| -> Vec<(Value, Value)> {
            let own = events.iter().filter(|event| event["ph"] == kind);
            own.map(|event| (event["ts"].clone(), value(event))).collect()
        };
        assert_eq!(
            of("C", |event| event["args"]["bytes/s"].clone()),
            [(json!(1.0), json!(1.0)), (json!(5.0), json!(0.0))]
        );
        assert_eq!(
            of("X", |event| event["dur"].clone()),
            [(json!(3.0), json!(2.0)), (json!(6.0), json!(1.0))]
        );
    }

    #[test]
    fn the_interval_of_a_lane_is_that_of_who_reads_it() {
        let source = |source: &str, interval_seconds| throughline_api::lanes::LaneSource {
            source: source.into(),
            interval_seconds,
        };
        let sources = vec![source("mpi", 0.1), source("nvml", 1.0004), source("sysfs", 5.0)];
        let clocks = [LaneClock { instance: "n1".into(), clock_error_seconds: None, sources }];
        let lane = |kind: &str| Lane { kind: kind.into(), instance: "n1".into(), ..Lane::default() };
        let all = ["pcie", "nvlink", "port", "link"].map(|kind| interval(&lane(kind), &clocks));
        assert_eq!(all, [Some(1.0), Some(1.0), Some(5.0), None]);
        assert_eq!(apart(all.into_iter().flatten()), ", read each 1 to 5 s");
        assert_eq!(
            (apart([2.0].into_iter()).as_str(), apart([].into_iter()).as_str()),
            (", read each 2 s", "")
        );
    }
}
