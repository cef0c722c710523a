//! The whole file: calls and messages, or operations by steps of a job that was not traced, and under them what stands on the same
//! time axis: counters of nodes, links, events, calls that go on.

use super::chrome::Writer;
use super::clocks::{Axis, line_up};
use super::known::TracedJob;
use super::lanes::Lanes;
use super::summary::{Summary, untraced};
use super::{LaneKind, Options, bins, calls, events, nanoseconds};
use crate::Server;
use crate::job::finer::{self, Fetched, Wanted};
use crate::job::output::Output;
use anyhow::Context;
use serde_json::json;
use throughline_api::JobState;
use throughline_sample::to_rfc3339;

const WRITING: &str = "writing the trace";

/// Writes the whole trace.
pub fn export(
    server: &Server,
    mut known: TracedJob,
    options: &Options,
    output: Output,
) -> anyhow::Result<Summary> {
    let is_wanted = |rank: i32| options.ranks.as_ref().is_none_or(|wanted| wanted.has(rank));
    let is_traced = !known.traced.is_empty();
    let (start_ms, end_ms) = known.span_ms();
    let untraced = if is_traced { untraced(&known.traced, &known.all, is_wanted) } else { Vec::new() };
    let (ranks, reference) = line_up(std::mem::take(&mut known.traced), options.raw_clocks);
    let first = ranks.iter().map(|rank| rank.align(rank.traced.first).time).min();
    let axis = match first {
        Some(zero) => Axis { ranks, zero, reference },
        None => Axis { ranks, zero: start_ms.saturating_mul(1_000_000), reference: 0 },
    };
    let last = axis.ranks.iter().map(|rank| rank.align(rank.traced.last).time - axis.zero).max();
    let end = last.unwrap_or_else(|| axis.clock("").at(end_ms));
    let from = options.from.or_else(|| options.last.map(|last| (end - nanoseconds(last)).max(0)));
    let mut summary = Summary {
        job_key: known.detail.job.job_key.clone(),
        start_ns: axis.utc(0),
        is_traced,
        ranks: axis.ranks.iter().map(|rank| rank.summary(axis.zero, &known.all)).collect(),
        untraced,
        ..Summary::default()
    };
    let about = json!({
        "program": format!("throughline {}", env!("CARGO_PKG_VERSION")),
        "job": summary.job_key, "start": to_rfc3339(summary.start_ns), "ranks": summary.ranks,
        "operations": if is_traced { "calls" } else { "shares of steps, as the job was not traced" },
    });
    let mut writer = Writer::begin(output, &about).context(WRITING)?;
    if options.has(LaneKind::Ranks) {
        let each = options.limit / (known.all.ranks.rank.len().max(1) as u64);
        if is_traced {
            calls::write(server, &axis, (from, options.to), each, &mut writer, &mut summary)?;
        } else {
            let range = (from.unwrap_or(0), options.to.unwrap_or(end).min(end));
            let fetched = fetched(server, options, &known, &axis, range);
            summary.fetched.clone_from(&fetched.text);
            let runs = known.detail.job.state == JobState::Running;
            let runs_known_until_ms = runs.then(|| fetched.until_ms.unwrap_or(start_ms));
            let bins =
                bins::Bins { axis: &axis, all: &known.all, range, most: options.limit, runs_known_until_ms };
            bins.write(server, is_wanted, &mut writer, &mut summary)?;
        }
    }
    let range = (from.unwrap_or(0).max(0), options.to.unwrap_or(end).min(end).max(1));
    let mut lanes = Lanes::new(server, &axis, &known, range, &mut writer, &mut summary);
    if options.has(LaneKind::Nodes) {
        lanes.nodes()?;
    }
    if options.has(LaneKind::Links) {
        lanes.links()?;
    }
    let process = lanes.next_process();
    events::write(server, &axis, &known, options, range, process, &mut writer, &mut summary)?;
    summary.events = writer.events();
    writer.end().context(WRITING)?.finish()?;
    Ok(summary)
}

/// Fetches what steps are made of.
fn fetched(server: &Server, options: &Options, known: &TracedJob, axis: &Axis, range: (i64, i64)) -> Fetched {
    if options.no_fetch {
        return Fetched::default();
    }
    let is_wanted = |rank: &&i32| options.ranks.as_ref().is_none_or(|wanted| wanted.has(**rank));
    let ranks = known.all.ranks.rank.iter().filter(is_wanted).count();
    let utc_ms = |time: i64| axis.utc(time).div_euclid(1_000_000);
    let step_ms = bins::step_ms(range, ranks, options.limit);
    let wanted = Wanted {
        from_ms: utc_ms(range.0),
        to_ms: utc_ms(range.1) + step_ms,
        step_ms,
        start_ms: known.detail.job.start_ms,
    };
    finer::fetch(server, &known.detail.job.job_key, wanted)
}
