//! The API on seeded databases: exact values, every answer held against `openapi.yaml`, and what is refused.

mod account;
mod alerts;
mod broadcast;
mod contract;
mod courses;
mod events;
mod fabric;
mod folded;
mod gpu_traffic;
mod gpus;
mod groups;
mod intervals;
mod job_parts;
mod jobs;
mod lanes;
mod link_shares;
mod link_shares_scale;
mod links;
mod live;
mod long_jobs;
mod nodes;
mod now;
mod pvars;
mod refusals;
mod report_posts;
mod schema;
mod seed;
mod states;
mod trace;
mod verdicts;
mod waits;

use super::*;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use serde_json::Value;
use throughline_store::Database;
use tower::ServiceExt;

/// An answer.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

/// Sends a request with headers; the answer is held against the document.
async fn request_with(router: &Router, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    if status != 304 {
        let wrong = schema::check(path.split('?').next().unwrap(), status, &body);
        assert!(wrong.is_empty(), "{path}: {status}: {wrong:#?}\n{body:#}");
    }
    Answer { status, headers, body }
}

/// The body of an answer to a request that is answered.
async fn get(router: &Router, path: &str) -> Value {
    let answer = request_with(router, path, &[]).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// Status and what the error says, in one line.
async fn refused(router: &Router, path: &str) -> String {
    let answer = request_with(router, path, &[]).await;
    let error = &answer.body["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {}: {}; {}; {}{}",
        answer.status,
        text("code"),
        text("message"),
        text("remedy"),
        text("parameter"),
        text("limit")
    )
}

/// The API on a database.
fn api_on(database: Database) -> Router {
    super::router(Arc::new(Api::new(database, Limits::default())))
}
