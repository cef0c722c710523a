//! Where the time of a job's ranks went over its run.

use crate::as_of::AsOf;
use crate::jobs::Job;
use crate::node_accounts::{self, NodeTimes};
use crate::time::{Grid, now};
use throughline_api::account as api;
use throughline_store::Error;
use throughline_verdicts::account::{AccountLine, step_lines};
use throughline_verdicts::course::{Trend, trend};
use tokio_postgres::Client;

/// Steps of a whole run.
const RUN_STEPS: usize = 120;
/// Of a run on many nodes, or of many days, so few steps are read that they would say nothing.
const RUN_STEPS_MIN: usize = 8;

/// What a job's ranks, of one node where one is named, did in each step.
///
/// # Errors
/// The database's.
pub async fn steps(
    client: &Client,
    job: &Job,
    grid: &Grid,
    node: Option<&str>,
) -> Result<api::AccountSteps, Error> {
    let course = node_accounts::course(client, job.id, grid, node).await?;
    let of = |of: fn(&NodeTimes) -> f64| course.iter().map(of).collect::<Vec<f64>>();
    let line = |(line, seconds): (AccountLine, Vec<f64>)| api::AccountLineSteps {
        line: line.name().to_owned(),
        group: line.group().name().to_owned(),
        seconds,
    };
    Ok(api::AccountSteps {
        job_key: job.key.clone(),
        node: node.map(ToOwned::to_owned),
        from_ms: grid.from,
        step_ms: grid.step,
        time_ms: grid.ends(),
        elapsed_seconds: of(|step| step.times.elapsed),
        lines: by_line(&course).into_iter().map(line).collect(),
        off_in_mpi_seconds: of(|step| step.times.off_in_mpi),
        waiting_for_core_in_mpi_seconds: of(|step| step.times.queued_in_mpi),
    })
}

/// The lines that have any time.
fn by_line(course: &[NodeTimes]) -> Vec<(AccountLine, Vec<f64>)> {
    let mut lines: Vec<(AccountLine, Vec<f64>)> = Vec::new();
    for step in course {
        for (at, (line, seconds)) in step_lines(&step.times, step.reasons).into_iter().enumerate() {
            match lines.get_mut(at) {
                Some((_, steps)) => steps.push(seconds),
                None => lines.push((line, vec![seconds])),
            }
        }
    }
    lines.retain(|(_, steps)| steps.iter().any(|seconds| *seconds > 0.0));
    lines
}

/// What changed over a job's run, where that is sure; `as_of` of one that runs.
pub(super) async fn trends(
    client: &Client,
    job: &Job,
    as_of: Option<&AsOf>,
) -> Result<Vec<api::AccountTrend>, Error> {
    let begin = job.start.unwrap_or(job.first_seen);
    let end = match job.end {
        Some(end) => end,
        None => as_of.map_or(now(client).await?, AsOf::milliseconds),
    };
    if end <= begin {
        return Ok(Vec::new());
    }
    let grid =
        node_accounts::grid(client, (begin, end), node_accounts::STEP_MS, job.nodes, RUN_STEPS).await?;
    if grid.steps < RUN_STEPS_MIN {
        return Ok(Vec::new());
    }
    let course = node_accounts::course(client, job.id, &grid, None).await?;
    let elapsed: Vec<f64> = course.iter().map(|step| step.times.elapsed).collect();
    let losses = by_line(&course).into_iter().filter(|(line, _)| *line != AccountLine::Computing);
    let found = losses.filter_map(|(line, seconds)| {
        let (trend, steps, before, since) = match trend(&seconds, &elapsed)? {
            Trend::GrowsSince(step, before, since) => ("grows", step, before, since),
            Trend::OnlyAtStart(step, during, after) => ("only_at_start", step + 1, during, after),
        };
        let time_ms = grid.from + grid.step * i64::try_from(steps).unwrap_or(0);
        Some(api::AccountTrend {
            line: line.name().to_owned(),
            trend: trend.to_owned(),
            time_ms,
            before,
            since,
        })
    });
    Ok(found.collect())
}
