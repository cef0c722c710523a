//! `/jobs/{job}/live`: the live request of a job that somebody looks at. However many look, its nodes have one request, and the database
//! is read once for what they have sent.

use super::detail_requests::{counted, node};
use super::fresh::CachedValue;
use super::request::ApiRequest;
use super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_api::live::JobLive;
use throughline_query::at_primary;
use throughline_query::live::{self, LiveNodes, ShownJob};
use throughline_store::{LIVE_SECONDS, LiveRequest, lift_job, live_request};
use tokio_postgres::Client;

/// How old what is known of a job may be: who waits for its figures asks several times a second.
const FRESH: Duration = Duration::from_millis(200);

/// Jobs whose state is held.
const HELD_MAX: usize = 256;

/// Nodes without figures that are named.
const NAMED_MAX: usize = 16;

/// What was read of a job.
#[derive(Clone, Debug)]
struct Shown {
    job: ShownJob,
    request: Option<LiveRequest>,
    nodes: LiveNodes,
}

/// What is known of jobs that somebody looks at, by key.
#[derive(Debug, Default)]
pub struct ShownJobs(Mutex<HashMap<String, Arc<CachedValue<Shown>>>>);

impl ShownJobs {
    fn of(&self, key: &str) -> Arc<CachedValue<Shown>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= HELD_MAX && !held.contains_key(key) {
            held.clear();
        }
        held.entry(key.to_owned()).or_insert_with(|| Arc::new(CachedValue::new(FRESH))).clone()
    }
}

/// `GET /jobs/{job}/live`.
pub async fn state(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let key = request.path("job");
    let shown = api.shown_jobs.of(key).get(async || read(&api, key, None).await).await?;
    answer::json(&described(key, &shown), &request.headers)
}

/// `POST /jobs/{job}/live`.
pub async fn request(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let host = request.text("node")?;
    request.done()?;
    let (key, user) = (request.path("job"), request.user());
    // Of those who look at once one makes the request, and the others wait for it. One that is of a node is made for itself.
    let shown = match host {
        None => api.shown_jobs.of(key).get(async || requested(&api, key, &user, None).await).await?,
        Some(host) => {
            let node = api.query(async |client| node(client, host).await).await?;
            Arc::new(requested(&api, key, &user, Some(node)).await?)
        }
    };
    // What was read for a GET just before may have none.
    let is_current = shown.job.has_ended || shown.request.is_some_and(|request| !request.is_due);
    let shown = if is_current { shown } else { Arc::new(requested(&api, key, &user, None).await?) };
    let mut response = answer::json(&described(key, &shown), &request.headers)?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// What is known of a job after its live request was made or renewed, where that is due.
async fn requested(api: &Api, key: &str, user: &str, node: Option<i64>) -> Result<Shown, ApiError> {
    let shown = read(api, key, node).await?;
    if shown.job.has_ended || shown.request.is_some_and(|request| !request.is_due) {
        return Ok(shown);
    }
    let (job, limits) = (shown.job, api.detail.triggers.limits);
    let id = counted(api, async |client| lift_job(client, job.id, user, &limits, node).await).await?;
    let request = LiveRequest { id, is_due: false };
    // A request that was there has rows already.
    let nodes = at_primary(api.query(async |client| Ok(live::nodes(client, job.id, id).await?))).await?;
    Ok(Shown { request: Some(request), nodes, ..shown })
}

async fn read(api: &Api, key: &str, node: Option<i64>) -> Result<Shown, ApiError> {
    // A replica may not have the request that was just made.
    at_primary(api.query(async |client| shown(client, key, node).await)).await
}

async fn shown(client: &Client, key: &str, node: Option<i64>) -> Result<Shown, ApiError> {
    let Some(job) = live::job(client, key).await? else {
        let remedy = "give a whole key, percent-encoded, as /api/v1/jobs or /api/v1/search?q= list them";
        return Err(ApiError::not_found(format!("no job {key}"), remedy));
    };
    let request = if job.has_ended { None } else { live_request(client, job.id, node).await? };
    let nodes = match request {
        Some(request) => live::nodes(client, job.id, request.id).await?,
        None => LiveNodes::default(),
    };
    Ok(Shown { job, request, nodes })
}

fn described(key: &str, shown: &Shown) -> JobLive {
    let nodes = &shown.nodes;
    JobLive {
        job_key: key.to_owned(),
        has_ended: shown.job.has_ended,
        id: shown.request.map(|request| request.id),
        live_seconds: LIVE_SECONDS,
        as_of_ms: nodes.as_of,
        nodes: nodes.nodes,
        absent_nodes: nodes.absent.len() as u64,
        absent: nodes.absent.iter().take(NAMED_MAX).cloned().collect(),
    }
}
