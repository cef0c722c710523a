//! `/jobs/{job}/verdicts` and `/jobs/{job}/report`: what slows a job down.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::verdicts::{JobReport, JobVerdicts};
use throughline_query::as_of::AsOf;
use throughline_query::evidence::{self, Cache};
use throughline_query::link_shares::Source;
use throughline_query::verdicts;
use throughline_verdicts::{judge, report};

/// `GET /jobs/{job}/verdicts`.
pub async fn verdicts(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let judged = verdicts::judged(client, job.id).await?;
            let verdicts = verdicts::of_job(client, job.id, true).await?;
            Ok(JobVerdicts { job_key: job.key, judged_ms: judged.at, is_final: judged.is_final, verdicts })
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// `GET /jobs/{job}/report`: as it was written at the job's end, or as of now.
pub async fn report(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let judged = verdicts::judged(client, job.id).await?;
            if let Some(text) = judged.report.filter(|_| judged.is_final) {
                return Ok(JobReport { job_key: job.key, is_final: true, report: text, as_of: None });
            }
            let source = Source::read(client).await?;
            let found = evidence::of_job(client, &job, &source, &mut Cache::default()).await?;
            let text = report::text(&found.heading, &found.evidence, &judge(&found.evidence));
            let as_of = found.as_of.as_ref().map(AsOf::described);
            Ok(JobReport { job_key: job.key, is_final: false, report: text, as_of })
        })
        .await?;
    answer::json(&response, &request.headers)
}
