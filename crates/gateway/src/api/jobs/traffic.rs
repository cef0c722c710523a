//! `/jobs/{job}/matrix` and `/jobs/{job}/operations`: who sent how much to whom, and operations over time.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::detail::places;
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_api::jobs::NodePairs;
use throughline_query::as_of::{self, AsOf};
use throughline_query::detail;
use throughline_query::jobs::{Job, ranks};
use throughline_query::time::{Grid, QueryTime, now};
use throughline_query::traffic::{self, Measure, Pair, Step, StepGrouping, TrafficFilter};
use tokio_postgres::Client;

/// Cells of a matrix: all of 1,024 ranks with each other.
const CELLS_MAX: usize = 1024 * 1024;

/// A row stands for the bin that ends with it, and the last ones come after the end.
const AFTER_END_MS: i64 = 1_000;

/// Numbers in an answer of operations over time, of each kind: 1,024 ranks in 300 steps and some more.
const STEPS_MAX: usize = 400_000;

#[derive(Serialize)]
struct Matrix {
    job_key: String,
    as_of: Option<throughline_api::as_of::AsOf>,
    kind: &'static str,
    measure: &'static str,
    fold: &'static str,
    /// Until when pairs of ranks were kept, where they are no more.
    ranks_until_ms: Option<i64>,
    size: usize,
    names: Vec<String>,
    host_of: Vec<Option<usize>>,
    total: i64,
    largest: i64,
    cells: Cells,
}

#[derive(Default, Serialize)]
struct Cells {
    gap: Vec<i64>,
    value: Vec<i64>,
}

/// `GET /jobs/{job}/matrix`.
pub async fn matrix(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let kind = request.word("kind", &[("logical", "logical"), ("wire", "wire")])?;
    let measures = [("bytes", (Measure::Bytes, "bytes")), ("messages", (Measure::Messages, "messages"))];
    let (measure, measure_name) = request.word("measure", &measures)?;
    let fold = request.word("fold", &[("rank", "rank"), ("node", "node")])?;
    let at = request.at()?;
    request.done()?;
    let (job, as_of, ranks, pairs) = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            if let Some(nodes) = traffic::node_pairs(client, job.id, kind).await? {
                return Ok((job, None, Vec::new(), Err(nodes)));
            }
            // A past time is its own.
            let as_of = match at {
                QueryTime::Latest => as_of::ranks(client, job.id).await?.as_ref().map(AsOf::described),
                QueryTime::Time(_) => None,
            };
            let ranks = ranks(client, job.id).await?;
            let pairs = traffic::pairs(client, job.id, kind, measure, at, CELLS_MAX as i64 + 1).await?;
            Ok((job, as_of, ranks, Ok(pairs)))
        })
        .await?;
    let pairs = match pairs {
        Ok(pairs) => pairs,
        Err(nodes) => {
            let matrix = of_nodes(job.key, kind, (measure, measure_name), nodes);
            return answer::json(&matrix, &request.headers);
        }
    };
    if pairs.len() > CELLS_MAX {
        let message = format!("the matrix of {} has more than {CELLS_MAX} cells", job.key);
        let remedy =
            "only worlds of up to 1024 ranks can be returned; `throughline job matrix` draws larger ones";
        return Err(ApiError::over_limit("1048576 cells", message, remedy));
    }
    let (names, places) = places(&ranks);
    let host_of_rank: HashMap<i32, usize> =
        ranks.iter().map(|rank| rank.rank).zip(places.iter().copied()).collect();
    let seen = pairs.iter().map(|pair| pair.rank.max(pair.peer)).chain(ranks.iter().map(|rank| rank.rank));
    let world = seen.map(|rank| rank + 1).max().unwrap_or(0).max(job.world_size.unwrap_or(0));
    let (size, host_of, sums) = if fold == "node" {
        (names.len(), (0..names.len()).map(Some).collect(), by_node(&pairs, &host_of_rank))
    } else {
        let host_of = (0..world).map(|rank| host_of_rank.get(&rank).copied()).collect();
        let place = |rank: i32| usize::try_from(rank).unwrap_or(0);
        let cells = pairs.iter().map(|pair| ((place(pair.rank), place(pair.peer)), pair.value)).collect();
        (place(world), host_of, cells)
    };
    let matrix = Matrix {
        job_key: job.key,
        as_of,
        kind,
        measure: measure_name,
        fold,
        ranks_until_ms: None,
        size,
        names,
        host_of,
        total: sums.iter().fold(0, |sum, (_, value)| sum.saturating_add(*value)),
        largest: sums.iter().map(|(_, value)| *value).max().unwrap_or(0),
        cells: cells(&sums, size),
    };
    let size_hint = matrix.cells.gap.len() * 12;
    Ok(answer::body_aside(matrix, size_hint).await?.response(&request.headers, None))
}

/// The matrix of nodes of a job whose pairs of ranks are kept no longer.
fn of_nodes(
    job_key: String,
    kind: &'static str,
    (measure, measure_name): (Measure, &'static str),
    nodes: NodePairs,
) -> Matrix {
    let (values, others) = match measure {
        Measure::Bytes => (&nodes.bytes, nodes.others_bytes),
        Measure::Messages => (&nodes.messages, nodes.others_messages),
    };
    let places = nodes.from.iter().copied().zip(nodes.to.iter().copied());
    let sums: Sums = places.zip(values.iter().copied()).filter(|(_, value)| *value > 0).collect();
    let size = nodes.hosts.len();
    Matrix {
        job_key,
        as_of: None,
        kind,
        measure: measure_name,
        fold: "node",
        ranks_until_ms: Some(nodes.ranks_until_ms),
        size,
        host_of: (0..size).map(Some).collect(),
        names: nodes.hosts,
        total: sums.iter().fold(others, |sum, (_, value)| sum.saturating_add(*value)),
        largest: sums.iter().map(|(_, value)| *value).max().unwrap_or(0),
        cells: cells(&sums, size),
    }
}

/// Row, column and value, in order.
type Sums = Vec<((usize, usize), i64)>;

/// Sums over the ranks of each host. Ranks whose host is not known are left out.
fn by_node(pairs: &[Pair], host_of: &HashMap<i32, usize>) -> Sums {
    let mut sums: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for pair in pairs {
        if let (Some(from), Some(to)) = (host_of.get(&pair.rank), host_of.get(&pair.peer)) {
            let sum = sums.entry((*from, *to)).or_default();
            *sum = sum.saturating_add(pair.value);
        }
    }
    sums.into_iter().collect()
}

fn cells(sums: &Sums, size: usize) -> Cells {
    let mut cells = Cells::default();
    let mut before = -1;
    for ((row, column), value) in sums {
        let place = i64::try_from(row * size + column).unwrap_or(i64::MAX);
        cells.gap.push(place - before);
        cells.value.push(*value);
        before = place;
    }
    cells
}

#[derive(Serialize)]
struct Operations {
    job_key: String,
    from_ms: i64,
    to_ms: i64,
    step_seconds: f64,
    times_ms: Vec<i64>,
    /// What of each step the job ran, as far as there are rows.
    spans_seconds: Vec<f64>,
    by: &'static str,
    series: Vec<Series>,
}

#[derive(Serialize)]
struct Series {
    operation: Option<String>,
    rank: Option<i32>,
    calls: Vec<i64>,
    bytes: Vec<i64>,
    elapsed_seconds: Vec<f64>,
}

/// `GET /jobs/{job}/operations`.
pub async fn operations(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let by = request.word(
        "by",
        &[("operation", (StepGrouping::Operation, "operation")), ("rank", (StepGrouping::Rank, "rank"))],
    )?;
    let only = TrafficFilter {
        operation: request.text("operation")?,
        rank: request.text("rank")?.is_some().then(|| request.number("rank", 0, 0, i32::MAX)).transpose()?,
    };
    let points = request.points()?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let (job, grid, until, steps) = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            let life = (job.start.unwrap_or(from), job.end.map_or(to, |end| end + AFTER_END_MS));
            let bin = detail::covers(client, job.id, from.max(life.0), to.min(life.1)).await?;
            let (grid, until) = match bin {
                Some(bin) => (Grid::fine(from, to, points, bin), to),
                None => {
                    let rows = traffic::row_times(client, job.id, (from, to), by.0, only).await?;
                    // What ranks do now is in no row yet: a step that has begun is none of zero.
                    let to = if job.end.is_none() { to.min(rows.made_until(now(client).await?)) } else { to };
                    (Grid::of_rows(from.min(to - 1), to, points, rows), to)
                }
            };
            let limit = STEPS_MAX as i64 + 1;
            let steps = traffic::operations(client, job.id, &grid, by.0, only, bin.is_some(), limit).await?;
            Ok((job, grid, until, steps))
        })
        .await?;
    let series = series(steps, &grid)?;
    let spans_seconds = spans_seconds(&job, &grid, until);
    let response = Operations {
        job_key: job.key,
        from_ms: grid.from,
        to_ms: grid.to(),
        step_seconds: step_seconds(&grid),
        times_ms: grid.ends(),
        spans_seconds,
        by: by.1,
        series,
    };
    let size_hint = response.series.len() * grid.steps * 20;
    Ok(answer::body_aside(response, size_hint).await?.response(&request.headers, None))
}

/// The requested range of a job; its own unless given.
pub async fn span(request: &ApiRequest, client: &Client, job: &Job) -> Result<(i64, i64), ApiError> {
    let now = now(client).await?;
    let start = job.start.unwrap_or(job.first_seen);
    let end = job.end.map_or(now, |end| end + AFTER_END_MS);
    request.range(|to| {
        let to = to.unwrap_or(end.max(start + 1000));
        (start.min(to - 1), to)
    })
}

/// The length of a step.
#[allow(clippy::cast_precision_loss)] // milliseconds
pub fn step_seconds(grid: &Grid) -> f64 {
    grid.step as f64 / 1e3
}

/// What of each step lies in the job's life, as far as there are rows: times inside of operations are shares of it.
#[allow(clippy::cast_precision_loss)] // milliseconds
fn spans_seconds(job: &Job, grid: &Grid, until: i64) -> Vec<f64> {
    let (start, end) = (job.start.unwrap_or(i64::MIN), job.end.unwrap_or(until));
    let span = |until: i64| {
        let of_job = until.min(end) - (until - grid.step).max(start);
        // A step beside its life is one all the same: clocks of nodes differ.
        (if of_job > 0 { of_job } else { grid.step }) as f64 / 1e3
    };
    grid.ends().into_iter().map(span).collect()
}

/// One series for each operation or rank, with a number for each step. Steps come ordered by series.
fn series(steps: Vec<Step>, grid: &Grid) -> Result<Vec<Series>, ApiError> {
    let mut all: Vec<Series> = Vec::new();
    for step in steps {
        let is_next =
            all.last().is_none_or(|last| (&last.operation, last.rank) != (&step.operation, step.rank));
        if is_next {
            if (all.len() + 1) * grid.steps > STEPS_MAX {
                let message = format!("more than {STEPS_MAX} numbers of each kind");
                let remedy = "give fewer `points`, a shorter range, one `rank` or by=operation";
                return Err(ApiError::over_limit(&format!("{STEPS_MAX} numbers"), message, remedy));
            }
            all.push(Series {
                operation: step.operation,
                rank: step.rank,
                calls: vec![0; grid.steps],
                bytes: vec![0; grid.steps],
                elapsed_seconds: vec![0.0; grid.steps],
            });
        }
        let (Some(series), Ok(place)) = (all.last_mut(), usize::try_from(step.step)) else { continue };
        if place < grid.steps {
            series.calls[place] = step.calls;
            series.bytes[place] = step.bytes;
            series.elapsed_seconds[place] = (step.elapsed_seconds * 1e6).round() / 1e6;
        }
    }
    Ok(all)
}
