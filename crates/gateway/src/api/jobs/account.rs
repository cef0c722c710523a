//! `/jobs/{job}/account`: where the time of its ranks went.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_query::waits::{Depth, cells, of_job};
use throughline_query::{account, as_of};

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
