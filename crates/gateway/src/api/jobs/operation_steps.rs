//! `/jobs/{job}/operation-steps`: what one rank did with MPI, step by step.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::{find, span};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::operation_steps::OperationSteps;
use throughline_query::operation_steps;
use throughline_query::time::Grid;

/// Rows of an answer: 5 MB of JSON.
const ROWS_MAX: usize = 50_000;

/// Longest time whose rows are read for one answer: a busy rank has 77 a second.
const READ_MS: i64 = 1_800_000;

/// Longer steps begin where the range does, and end with it: what is wanted is one sum of it.
const WHOLE_MS: i64 = 3_600_000;

/// Shortest, usual and longest step. Agents report bins of 100 ms unless configured otherwise.
const STEP_MS: (i64, i64, i64) = (10, 100, 86_400_000);

/// `GET /jobs/{job}/operation-steps`.
pub async fn operation_steps(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let rank = request.number("rank", 0, 0, i32::MAX)?;
    let step = request.number("step_ms", STEP_MS.1, STEP_MS.0, STEP_MS.2)?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let steps = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            // Of a step that is longer than a range of times only the range.
            let (from, step) = match step {
                step if step > WHOLE_MS => (from, step.min(to - from).max(1)),
                step => (from.div_euclid(step) * step, step),
            };
            // Whole steps, at least one.
            let read = (to - from).min(READ_MS.max(step));
            let count = (read + step - 1).div_euclid(step).max(1);
            let grid = Grid { from, step, steps: usize::try_from(count).unwrap_or(1) };
            let is_last = grid.to() >= to;
            let steps = operation_steps::steps(client, job.id, rank, &grid, is_last, ROWS_MAX).await?;
            let next_ms = steps.next_ms.or(Some(grid.to())).filter(|next| *next < to);
            Ok(OperationSteps { job_key: job.key, rank, from_ms: from, step_ms: step, next_ms, ..steps })
        })
        .await?;
    let size_hint = steps.steps.time_ms.len() * 100;
    Ok(answer::body_aside(steps, size_hint).await?.response(&request.headers, None))
}
