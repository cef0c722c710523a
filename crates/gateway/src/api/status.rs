//! `/status`: what arrives in the database, and the newest jobs. `/clock`: whether the database's clock is believed.

use super::request::ApiRequest;
use super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_query::{database_clock, status};

/// Most jobs, and unless the request says how many.
const JOBS: (i64, i64) = (1000, 10);

/// `GET /clock`.
pub async fn clock(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let clock = api.query(async |client| Ok(database_clock::read(client).await?)).await?;
    answer::json(&clock, &request.headers)
}

/// `GET /status`.
pub async fn status(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let jobs = request.number("jobs", JOBS.1, 0, JOBS.0)?;
    request.done()?;
    let mut status = api.query(async |client| Ok(status::read(client, jobs).await?)).await?;
    status.database.clone_from(&api.place);
    status.replica = api.pool.path().status();
    answer::json(&status, &request.headers)
}
