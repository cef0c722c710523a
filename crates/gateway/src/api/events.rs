//! `/events`, `/health` and `/range`.

use super::request::ApiRequest;
use super::{Api, answer, page};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use throughline_api::status::SourceState;
use throughline_query::events::{self, Event, EventFilter};
use throughline_query::time::now;

/// An event as the API returns it.
#[derive(Clone, Debug, Serialize)]
pub struct EventResponse {
    time_ms: i64,
    instance: String,
    source: String,
    kind: String,
    severity: String,
    text: String,
    guid: Option<String>,
    port: Option<i32>,
    remote_guid: Option<String>,
    remote_port: Option<i32>,
    gpu: Option<String>,
    job_key: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl From<Event> for EventResponse {
    fn from(event: Event) -> EventResponse {
        EventResponse {
            time_ms: event.time.div_euclid(1000),
            instance: event.instance,
            source: event.source,
            kind: event.kind,
            severity: event.severity,
            text: event.text,
            guid: event.guid,
            port: event.port,
            remote_guid: event.remote_guid,
            remote_port: event.remote_port,
            gpu: event.gpu,
            job_key: event.job_key,
            before: event.before,
            after: event.after,
        }
    }
}

#[derive(Serialize)]
struct Events {
    from_ms: i64,
    to_ms: i64,
    events: Vec<EventResponse>,
    next: Option<String>,
}

/// `GET /events`.
pub async fn events(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let port = request.text("port")?.is_some().then(|| request.number("port", 0, 0, i32::MAX)).transpose()?;
    let limit = request.limit()?;
    let behind: Option<(i64, i64)> = page::next(&request)?;
    let which = EventFilter {
        from,
        to,
        kind: request.text("kind")?,
        guid: request.text("guid")?,
        port,
        job: request.text("job")?,
        instance: request.text("instance")?,
        behind: behind.map(|(time, skipped)| (time, skipped.max(0))),
        // One more than fits: then there is a next page.
        limit: limit as i64 + 1,
    };
    request.done()?;
    let mut events = api.query(async |client| Ok(events::events(client, &which).await?)).await?;
    let next = (events.len() > limit).then(|| {
        events.truncate(limit);
        let time = events.last().map_or(0, |event| event.time);
        let of_the_time = events.iter().filter(|event| event.time == time).count() as i64;
        let before = behind.filter(|(newest, _)| *newest == time).map_or(0, |(_, skipped)| skipped);
        page::cursor(&(time, of_the_time + before))
    });
    let events = events.into_iter().map(EventResponse::from).collect();
    answer::json(&Events { from_ms: from, to_ms: to, events, next }, &request.headers)
}

#[derive(Serialize)]
struct Health {
    time_ms: i64,
    sources: Vec<SourceResponse>,
}

#[derive(Serialize)]
struct SourceResponse {
    source: String,
    instance: String,
    newest_ms: Option<i64>,
    age_seconds: Option<f64>,
    largest_gap_seconds: f64,
    is_silent: bool,
    paused: Option<SourceState>,
    reason: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    up: Option<bool>,
    expected: Option<i64>,
    read: Option<i64>,
    failed: Option<i64>,
}

/// `GET /health`.
pub async fn health(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let filter =
        async |client: &tokio_postgres::Client| Ok((now(client).await?, events::sources(client).await?));
    let (time_ms, sources) = api.query(filter).await?;
    let response = |source: events::Source| SourceResponse {
        source: source.source,
        instance: source.instance,
        newest_ms: source.newest,
        age_seconds: source.age_seconds,
        largest_gap_seconds: source.largest_gap_seconds,
        is_silent: source.pause.is_none()
            && source.age_seconds.is_none_or(|age| age > source.largest_gap_seconds),
        paused: source.pause.as_ref().map(|pause| pause.state),
        since_ms: source.pause.as_ref().and_then(|pause| pause.since_ms),
        until_ms: source.pause.as_ref().and_then(|pause| pause.until_ms),
        reason: source.pause.and_then(|pause| pause.reason),
        up: source.is_up,
        expected: source.expected,
        read: source.read,
        failed: source.failed,
    };
    let sources = sources.into_iter().map(response).collect();
    answer::json(&Health { time_ms, sources }, &request.headers)
}

#[derive(Serialize)]
struct Range {
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    tables: Vec<TableResponse>,
}

#[derive(Serialize)]
struct TableResponse {
    table: String,
    from_ms: i64,
    to_ms: i64,
}

/// `GET /range`.
pub async fn range(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let ranges = api.query(async |client| Ok(events::ranges(client).await?)).await?;
    let response = Range {
        from_ms: ranges.iter().map(|(_, from, _)| *from).min(),
        to_ms: ranges.iter().map(|(_, _, to)| *to).max(),
        tables: ranges
            .into_iter()
            .map(|(table, from_ms, to_ms)| TableResponse { table, from_ms, to_ms })
            .collect(),
    };
    answer::json(&response, &request.headers)
}
