//! `/jobs/{job}/regions`, `/traffic` and `/link-peaks`: parts of a job that are read on request only.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::jobs::{JobLinkPeaks, JobRegions, JobTraffic};
use throughline_query::as_of::{self, AsOf};
use throughline_query::{job_parts, region_paths};

/// Longest time that links are read, unless the request gives another, seconds.
const LINKS_SECONDS: u64 = 10;

/// `GET /jobs/{job}/regions`.
pub async fn regions(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let regions = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?.as_ref().map(AsOf::described);
            let regions = job_parts::regions(client, job.id).await?;
            let (paths, paths_left_out) = region_paths::of_job(client, job.id).await?;
            Ok(JobRegions { regions, paths, paths_left_out, as_of, job_key: job.key })
        })
        .await?;
    answer::json(&regions, &request.headers)
}

/// `GET /jobs/{job}/traffic`.
pub async fn traffic(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let traffic = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?.as_ref().map(AsOf::described);
            Ok(JobTraffic { traffic: job_parts::traffic(client, job.id).await?, as_of, job_key: job.key })
        })
        .await?;
    answer::json(&traffic, &request.headers)
}

/// `GET /jobs/{job}/link-peaks`.
pub async fn link_peaks(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let seconds = request.number("seconds", LINKS_SECONDS, 1, 86_400)?.min(api.limits.time.as_secs().max(1));
    request.done()?;
    let links = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            Ok(JobLinkPeaks {
                links: job_parts::link_peaks(client, job.id, seconds).await?,
                job_key: job.key,
            })
        })
        .await?;
    answer::json(&links, &request.headers)
}
