//! `/jobs/{job}/link-shares`: a job's busiest links, its own part of them, and the others'.

use super::super::fabric::{end_name, labels};
use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_api::link_shares::{JobLink, JobLinkShares, LinkEnd};
use throughline_query::fabric;
use throughline_query::link_shares::{self, JobLabel, JobPort, Part, PortPlace, PortTraffic, utilisation};
use throughline_query::time::{QueryTime, now};

/// Range unless the request has another, milliseconds: the last minutes of the job.
const RANGE_MS: i64 = 600_000;

/// Links that are listed, unless the request has another number.
const LISTED: usize = 10;

/// `GET /jobs/{job}/link-shares`.
pub async fn link_shares(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let limit = request.number("limit", LISTED, 1, 1000)?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            // The window in which it ended ends later.
            let end = match job.end {
                Some(end) => end + RANGE_MS / 10,
                None => now(client).await?,
            };
            let (from, to) = request.range(|to| {
                let to = to.unwrap_or(end);
                (to.saturating_sub(RANGE_MS), to)
            })?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let source = link_shares::Source::read(client).await?;
            let (from, to) = source.of_life((from, to), (job.start, job.end));
            let (count, ports) = link_shares::of_job(client, job.id, from, to, limit, &source).await?;
            let ids: Vec<i64> = ports.iter().map(|port| port.port).collect();
            let sent = link_shares::beside_job(client, job.id, &ids, from, to, &source).await?;
            let mut places = link_shares::places(client, &ids).await?;
            let remote: Vec<i64> = places.values().filter_map(|place| place.remote).collect();
            places.extend(link_shares::places(client, &remote).await?);
            let labels = labels(client, sent.values()).await?;
            let routings = fabric::routings(client, QueryTime::Time(to)).await?;
            let link = |port: &JobPort| {
                let link = of_port(port, &sent, &places, &labels)?;
                let routing = routings.get(&link.subnet).copied().flatten().map(str::to_owned);
                Some(JobLink { routing, ..link })
            };
            Ok(JobLinkShares {
                from_ms: from,
                to_ms: to,
                computed_until_ms: link_shares::computed_until(client).await?,
                count,
                links: ports.iter().filter_map(link).collect(),
                job_key: job.key,
            })
        })
        .await?;
    answer::json(&response, &request.headers)
}

fn of_port(
    port: &JobPort,
    sent: &HashMap<i64, PortTraffic>,
    places: &HashMap<i64, PortPlace>,
    labels: &HashMap<i64, JobLabel>,
) -> Option<JobLink> {
    let place = places.get(&port.port)?;
    let from = end(place);
    let to = place.remote.and_then(|remote| places.get(&remote)).map(end);
    let sent = sent.get(&port.port)?;
    let all = sent.parts.values().fold(Part::default(), |sum, (part, _)| sum.with(*part));
    // What the job does not have; it is at least what is beyond the job's most.
    let others = Part {
        bytes: (all.bytes - port.own.bytes).max(0),
        low: (all.bytes - port.own.high).max(0),
        high: (all.bytes - port.own.low).max(0),
        ..all
    };
    let (is_above, mean) = utilisation(port.counted, port.counted_windows, port.bytes_per_second);
    let (is_peak_above, peak) = utilisation(port.peak, 1, port.bytes_per_second);
    let name = match &to {
        Some(to) => format!("{} → {}", end_name(&from), end_name(to)),
        None => end_name(&from),
    };
    Some(JobLink {
        subnet: place.subnet.clone(),
        routing: None,
        link: format!("{}.{}", from.guid, from.port),
        name,
        from,
        to,
        bytes_per_second: port.bytes_per_second,
        windows: port.windows,
        counted_windows: port.counted_windows,
        counted_bytes: port.counted,
        utilisation: mean,
        peak_utilisation: peak,
        is_above_speed: is_above || is_peak_above,
        own: port.own.figures(sent.whole()),
        others: others.figures(sent.whole()),
        contributors: link_shares::contributors(sent, labels, false),
    })
}

/// The end of a link as answers name it.
pub fn end(place: &PortPlace) -> LinkEnd {
    LinkEnd { guid: place.guid.clone(), name: place.name.clone(), host: place.host.clone(), port: place.port }
}
