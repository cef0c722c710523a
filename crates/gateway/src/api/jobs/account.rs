//! `/jobs/{job}/account`: where the time of its ranks went; `/jobs/{job}/account-steps`: over time.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use super::traffic::span;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_query::time::Grid;
use throughline_query::waits::{Depth, cells, of_job};
use throughline_query::{account, as_of, node_accounts};

/// Usual and longest step. None is shorter than nodes have rows.
const STEP_MS: (i64, i64) = (node_accounts::STEP_MS, 86_400_000);
/// Steps of an answer.
const STEPS_MAX: usize = 1000;

/// `GET /jobs/{job}/account`.
pub async fn account(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?;
            let cells = cells(client, job.id, as_of.as_ref()).await?;
            let waits = of_job(client, &job, &cells, Depth::Quick).await?;
            Ok(account::of_job(client, &job, &cells, &waits).await?)
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// `GET /jobs/{job}/account-steps`.
pub async fn steps(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let step = request.number("step_ms", STEP_MS.0, STEP_MS.0, STEP_MS.1)?;
    let node = request.text("node")?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            // Of one that runs as far as its nodes have reported.
            let known = as_of::sums(client, &[job.id]).await?.remove(&job.id);
            let to = known.map_or(to, |as_of| to.min(as_of.milliseconds())).max(from + 1);
            let grid: Grid = node_accounts::grid(client, (from, to), step, job.nodes, STEPS_MAX).await?;
            Ok(account::steps(client, &job, &grid, node).await?)
        })
        .await?;
    answer::json(&response, &request.headers)
}
