//! `/jobs/{job}/pvars`: MPI_T performance variables of a job over time.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::{find, span, step_seconds};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use throughline_query::pvars::{self, Fold, PvarGrouping, Variable};
use throughline_query::time::Grid;

/// Values that one request reads: some 50 MB.
const VALUES_MAX: usize = 500_000;
/// Series of an answer: those with the largest values.
const SERIES_MAX: usize = 64;

const BY: [(&str, PvarGrouping); 3] =
    [("all", PvarGrouping::All), ("rank", PvarGrouping::Rank), ("element", PvarGrouping::Element)];

#[derive(Serialize)]
struct Pvars {
    job_key: String,
    variables: Vec<VariableListed>,
    variable: Option<String>,
    by: &'static str,
    from_ms: i64,
    to_ms: i64,
    step_seconds: f64,
    times_ms: Vec<i64>,
    count: usize,
    series: Vec<PvarSeries>,
}

#[derive(Serialize)]
struct VariableListed {
    name: String,
    source: String,
    class: String,
    ranks: i64,
    elements: i64,
    is_rate: bool,
    fold: &'static str,
}

#[derive(Serialize)]
struct PvarSeries {
    rank: Option<i32>,
    element: Option<i32>,
    values: Vec<Option<f64>>,
}

/// `GET /jobs/{job}/pvars`.
pub async fn pvars(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (name, by, points) = (request.text("variable")?, request.word("by", &BY)?, request.points()?);
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            let grid = Grid::new(from, to, points);
            let variables = pvars::variables(client, job.id, grid.from, grid.to()).await?;
            let chosen = match name {
                Some(name) => Some(variables.iter().find(|one| one.name == name).ok_or_else(|| {
                    let known: Vec<&str> = variables.iter().map(|one| one.name.as_str()).take(20).collect();
                    let remedy = format!("give one of {}", known.join(", "));
                    ApiError::parameter("variable", format!("no rank reported {name} in this time"), &remedy)
                })?),
                None => None,
            };
            let mut series = Vec::new();
            if let Some(variable) = chosen {
                let found = pvars::series(client, job.id, variable, by, &grid, VALUES_MAX).await?;
                let too_many = || {
                    let message = format!("more than {VALUES_MAX} values of {}", variable.name);
                    let limit = format!("{VALUES_MAX} values");
                    ApiError::over_limit(&limit, message, "give fewer `points`, or a shorter time")
                };
                series = found
                    .ok_or_else(too_many)?
                    .into_iter()
                    .map(|(key, values)| one(by, key, values))
                    .collect();
            }
            let count = series.len();
            largest(&mut series);
            Ok(Pvars {
                job_key: job.key,
                variable: chosen.map(|variable| variable.name.clone()),
                variables: variables.into_iter().map(listed).collect(),
                by: BY.iter().find(|(_, known)| *known == by).map_or("", |(word, _)| word),
                from_ms: grid.from,
                to_ms: grid.to(),
                step_seconds: step_seconds(&grid),
                times_ms: grid.ends(),
                count,
                series,
            })
        })
        .await?;
    let size_hint = response.series.len() * response.times_ms.len() * 12;
    Ok(answer::body_aside(response, size_hint).await?.response(&request.headers, None))
}

fn one(by: PvarGrouping, key: i32, values: Vec<Option<f64>>) -> PvarSeries {
    let (rank, element) = match by {
        PvarGrouping::Rank => (Some(key), None),
        PvarGrouping::Element => (None, Some(key)),
        PvarGrouping::All => (None, None),
    };
    PvarSeries { rank, element, values: values.into_iter().map(|value| value.map(answer::rounded)).collect() }
}

/// Leaves those with the largest values, in their order.
fn largest(series: &mut Vec<PvarSeries>) {
    if series.len() <= SERIES_MAX {
        return;
    }
    let top = |one: &PvarSeries| one.values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    series.sort_by(|one, other| top(other).total_cmp(&top(one)));
    series.truncate(SERIES_MAX);
    series.sort_by_key(|one| (one.rank, one.element));
}

fn listed(variable: Variable) -> VariableListed {
    let is_rate = pvars::is_cumulative(&variable.class);
    let fold = match Fold::of(&variable.class) {
        Fold::Sum => "sum",
        Fold::Largest => "largest",
        Fold::Least => "least",
    };
    VariableListed {
        name: variable.name,
        source: variable.source,
        class: variable.class,
        ranks: variable.ranks,
        elements: variable.elements,
        is_rate,
        fold,
    }
}
