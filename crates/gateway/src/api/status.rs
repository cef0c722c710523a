//! `/status`: what arrives in the database, and the newest jobs.

use super::request::ApiRequest;
use super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_query::status;

/// Most jobs, and unless the request says how many.
const JOBS: (i64, i64) = (1000, 10);

/// `GET /status`.
pub async fn status(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let jobs = request.number("jobs", JOBS.1, 0, JOBS.0)?;
    request.done()?;
    let mut status = api.query(async |client| Ok(status::read(client, jobs).await?)).await?;
    status.database.clone_from(&api.place);
    status.replica = api.pool.path().status();
    answer::json(&status, &request.headers)
}
