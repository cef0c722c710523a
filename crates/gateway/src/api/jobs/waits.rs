//! `/jobs/{job}/waits`: what of the time in MPI was waiting for other ranks.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::waits::JobWaits;
use throughline_query::as_of::{self, AsOf};
use throughline_query::waits::{cells, exact_or_estimated};

/// `GET /jobs/{job}/waits`.
pub async fn waits(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?;
            let cells = cells(client, job.id, as_of.as_ref()).await?;
            let waits = exact_or_estimated(client, &job, &cells).await?;
            Ok(JobWaits { as_of: as_of.as_ref().map(AsOf::described), ..waits.described(job.key) })
        })
        .await?;
    answer::json(&response, &request.headers)
}
