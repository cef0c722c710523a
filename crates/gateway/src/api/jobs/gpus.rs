//! `/jobs/{job}/gpus`: the GPUs of a job's ranks.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::jobs::{JobGpu, JobGpus};
use throughline_query::job_gpus::{self, RankGpu};

/// Entries of an answer, unless the request has another number; and the most.
const ENTRIES: (usize, usize) = (1_024, 65_536);

/// `GET /jobs/{job}/gpus`.
pub async fn gpus(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let host = request.text("host")?;
    let limit = request.number("limit", ENTRIES.0, 1, ENTRIES.1)?;
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let mut all = job_gpus::of_job(client, job.id).await?;
            all.retain(|one| host.is_none_or(|host| one.host == host));
            let left_out = all.len().saturating_sub(limit) as u64;
            Ok(JobGpus { job_key: job.key, gpus: all.into_iter().take(limit).map(entry).collect(), left_out })
        })
        .await?;
    answer::json(&response, &request.headers)
}

fn entry(one: RankGpu) -> JobGpu {
    let RankGpu { rank, host, known_by, visible_devices, gpu } = one;
    let of_rank = JobGpu { rank, host, known_by, visible_devices, ..JobGpu::default() };
    let Some(gpu) = gpu else { return of_rank };
    JobGpu {
        gpu: Some(gpu.uuid),
        index: gpu.index,
        partition: gpu.partition_uuid,
        partition_index: gpu.partition_index,
        partition_name: gpu.partition_name,
        evidence: Some(gpu.evidence),
        is_own: gpu.is_own,
        is_shared: gpu.is_shared,
        minor: gpu.minor,
        first_seen_ms: gpu.first_seen,
        last_seen_ms: gpu.last_seen,
        port: gpu.port,
        distance: gpu.distance,
        has_queue_pairs: gpu.has_queue_pairs,
        switch: gpu.switch,
        switch_guid: gpu.switch_guid,
        switch_port: gpu.switch_port,
        ..of_rank
    }
}
