//! `/jobs/{job}/detail`, `/nodes/{host}/detail` and `/fabric/{subnet}/links/{link}/detail`: requests for what the recorders of agents
//! and crawlers have.

use super::fabric::ports_of;
use super::jobs::find;
use super::request::ApiRequest;
use super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::detail::{DetailRequest, DetailRequested, DetailRequests};
use throughline_query::at_primary;
use throughline_query::detail::{self, RequestScope};
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::{DetailReason, DetailRefusal, DetailSubject, Error, NewDetail, request_detail};
use tokio_postgres::Client;

/// Seconds back from now, or from the job's end, unless the request has a time.
const LAST_SECONDS: i64 = 600;

/// Most seconds back: quotas are below.
const LAST_SECONDS_MAX: i64 = 7 * 86_400;

/// Coarsest resolution, milliseconds: as rows are made anyway.
const RESOLUTION_MS_MAX: u32 = 60_000;

/// What ranks report after their end still is the job's.
const AFTER_END_MS: i64 = 2000;

/// Who requests without a person.
const SERVER: &str = "server";

/// `GET /jobs/{job}/detail`.
pub async fn of_job(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (id, limit) = (number(&request)?, request.limit()?);
    request.done()?;
    // A replica may not have the request that was just made.
    let requests = at_primary(api.query(async |client| {
        let job = find(client, request.path("job")).await?;
        Ok(detail::requests(client, RequestScope::Job(job.id), id, limit).await?)
    }))
    .await?;
    let requests = visible(requests, &request);
    answer::json(&DetailRequests { requests }, &request.headers)
}

/// Requests as their reader may see them: who made them are they themselves, the server, or for administrators everybody.
pub fn visible(mut requests: Vec<DetailRequest>, request: &ApiRequest) -> Vec<DetailRequest> {
    if !request.is_administrator() {
        let user = request.user();
        for one in &mut requests {
            one.requested_by = one.requested_by.take().filter(|by| *by == user || by == SERVER);
        }
    }
    requests
}

/// `GET /nodes/{host}/detail`.
pub async fn of_node(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (id, limit) = (number(&request)?, request.limit()?);
    request.done()?;
    let requests = at_primary(api.query(async |client| {
        let node = node(client, request.path("host")).await?;
        Ok(detail::requests(client, RequestScope::Node(node), id, limit).await?)
    }))
    .await?;
    let requests = visible(requests, &request);
    answer::json(&DetailRequests { requests }, &request.headers)
}

/// `GET /fabric/{subnet}/links/{link}/detail`.
pub async fn of_link(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (id, limit) = (number(&request)?, request.limit()?);
    request.done()?;
    let requests = at_primary(api.query(async |client| {
        let ports = ports_of(&api, client, &request).await?;
        Ok(detail::requests(client, RequestScope::Link(ports), id, limit).await?)
    }))
    .await?;
    let requests = visible(requests, &request);
    answer::json(&DetailRequests { requests }, &request.headers)
}

/// `POST /jobs/{job}/detail`: its ranks' records.
pub async fn request_job(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let wanted = DetailWindow::of(&request)?;
    request.done()?;
    let job = api.query(async |client| find(client, request.path("job")).await).await?;
    let end = job.end.map_or(request.now, |end| (end + AFTER_END_MS).min(request.now));
    let (from, to) = wanted.range(end);
    let from = job.start.map_or(from, |start| from.max(start));
    if from >= to {
        let message = "the job did not run at that time";
        return Err(ApiError::parameter("from", message, "request a time between its start and its end"));
    }
    make(&api, &request, DetailSubject::Job(job.id), (from, to), wanted.resolution).await
}

/// `POST /nodes/{host}/detail`: readings of its ports and GPUs.
pub async fn request_node(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let wanted = DetailWindow::of(&request)?;
    request.done()?;
    let node = api.query(async |client| node(client, request.path("host")).await).await?;
    let range = wanted.range(request.now);
    make(&api, &request, DetailSubject::Node(node), range, wanted.resolution).await
}

/// `POST /fabric/{subnet}/links/{link}/detail`: readings of the ports at both ends.
pub async fn request_link(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let wanted = DetailWindow::of(&request)?;
    request.done()?;
    let ports = api.query(async |client| ports_of(&api, client, &request).await).await?;
    let range = wanted.range(request.now);
    make(&api, &request, DetailSubject::Link(ports), range, wanted.resolution).await
}

/// Which time, and how finely.
struct DetailWindow {
    from: Option<i64>,
    to: Option<i64>,
    last_seconds: i64,
    resolution: f64,
}

impl DetailWindow {
    fn of(request: &ApiRequest) -> Result<Self, ApiError> {
        let (from, to) = (request.time("from")?, request.time("to")?);
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            let message = format!("the range from {from} to {to} ends before it begins");
            return Err(ApiError::parameter("from", message, "give a `from` that is earlier than `to`"));
        }
        let last_seconds = request.number("last_seconds", LAST_SECONDS, 1, LAST_SECONDS_MAX)?;
        let resolution = request.number("resolution_ms", 0, 0, RESOLUTION_MS_MAX)?;
        Ok(Self { from, to, last_seconds, resolution: f64::from(resolution) / 1000.0 })
    }

    /// Begin and end in milliseconds; `end` is the latest that makes sense.
    fn range(&self, end: i64) -> (i64, i64) {
        let to = self.to.unwrap_or(end).min(end);
        (self.from.unwrap_or(to - self.last_seconds * 1000), to)
    }
}

fn number(request: &ApiRequest) -> Result<Option<i64>, ApiError> {
    Ok(Some(request.number("id", 0_i64, 1, i64::MAX)?).filter(|id| *id > 0))
}

pub async fn node(client: &Client, host: &str) -> Result<i64, ApiError> {
    let found = detail::node(client, host).await?;
    found.ok_or_else(|| ApiError::not_found(format!("no node {host}"), "/api/v1/nodes lists them"))
}

async fn make(
    api: &Api,
    request: &ApiRequest,
    subject: DetailSubject,
    (from, to): (i64, i64),
    resolution: f64,
) -> Result<Response, ApiError> {
    let (requested_by, reason) = (request.user(), DetailReason::Person);
    let new = NewDetail { requested_by, turn: None, reason, subject, from, to, resolution };
    let limits = api.detail.triggers.limits;
    let id = counted(api, async |client| request_detail(client, &new, &limits).await).await?;
    accepted(request, &DetailRequested { id, from_ms: from, to_ms: to })
}

fn accepted(request: &ApiRequest, made: &DetailRequested) -> Result<Response, ApiError> {
    let mut response = answer::json(made, &request.headers)?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// Writes a request; what is refused is counted.
pub async fn counted(
    api: &Api,
    work: impl AsyncFnOnce(&mut Client) -> Result<Result<i64, DetailRefusal>, Error>,
) -> Result<i64, ApiError> {
    write(api, work).await?.map_err(|refusal| {
        api.detail.metrics.add((crate::refusals::DETAIL, refusal.reason), &REQUESTS_REJECTED, 1);
        refusal.into()
    })
}

/// Writes a request with a connection of its own.
pub async fn write(
    api: &Api,
    work: impl AsyncFnOnce(&mut Client) -> Result<Result<i64, DetailRefusal>, Error>,
) -> Result<Result<i64, DetailRefusal>, ApiError> {
    let all = async {
        let _place = api.detail.parallel.acquire().await;
        let mut client = api.detail.database.connect().await?;
        work(&mut client).await
    };
    let done = tokio::time::timeout(api.limits.answer_within(), all).await;
    Ok(done.map_err(|_| ApiError::too_slow(api.limits.time.as_secs()))??)
}
