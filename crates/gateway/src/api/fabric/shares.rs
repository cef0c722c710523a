//! `/fabric/{subnet}/links/{link}/shares`: whose bytes were on a link, in both directions.

use super::super::request::ApiRequest;
use super::super::{Api, answer, jobs};
use super::link_place::{parse, place_of};
use super::subnet;
use super::topology::{Port, Topology};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_api::link_shares::{DirectionShares, LinkContributor, LinkEnd, LinkShares};
use throughline_query::link_shares::{self, JobLabel, PortTraffic, contributors, rate, utilisation};
use throughline_query::time::{Grid, QueryTime, now};
use tokio_postgres::Client;

/// A range that ends no longer ago than this is about the present, milliseconds.
const NOW_MS: i64 = 5_000;

/// How far back the last window of a link is looked for, milliseconds: it is made less than a minute after its end.
const LAST_MS: i64 = 120_000;

/// `GET /fabric/{subnet}/links/{link}/shares`.
pub async fn shares(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let points = request.points()?;
    let end = parse(request.path("link"))?;
    request.done()?;
    let response = api
        .query(async |client| {
            let subnet = subnet(client, request.path("subnet")).await?;
            let at = if to >= now(client).await? - NOW_MS { QueryTime::Latest } else { QueryTime::Time(to) };
            let topology = api.topology(client, &subnet, at).await?;
            let place = place_of(&topology, &subnet.name, &end)?;
            let source = link_shares::Source::read(client).await?;
            let grid = link_shares::grid(from, to, points, &source);
            let ends = topology.ends[place];
            let mut sent = link_shares::sent(client, &ends.map(|end| end.id), &grid, &source).await?;
            let labels = labels(client, sent.values()).await?;
            let mut direction = |from: Port, to: Port| {
                let sent = sent.remove(&from.id).unwrap_or_default();
                of_direction(&topology, place, [from, to], &sent, &labels, &grid)
            };
            let (ab, ba) = (direction(ends[0], ends[1]), direction(ends[1], ends[0]));
            Ok(LinkShares {
                subnet: subnet.name,
                link: format!("{}.{}", ab.from.guid, ab.from.port),
                name: format!("{} - {}", end_name(&ab.from), end_name(&ab.to)),
                from_ms: grid.from,
                to_ms: grid.to(),
                step_seconds: jobs::step_seconds(&grid),
                times_ms: grid.ends(),
                computed_until_ms: link_shares::computed_until(client).await?,
                routing: topology.columns.routing.map(str::to_owned),
                ab,
                ba,
            })
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// Contributors of both directions in the last window before a time, or in the last minute where windows are gone; empty where the
/// link carried nothing then.
///
/// # Errors
/// The database's.
pub async fn last_contributors(
    client: &Client,
    ends: [Port; 2],
    to: i64,
) -> Result<(Option<i64>, [Vec<LinkContributor>; 2]), ApiError> {
    let ports = ends.map(|end| end.id);
    let source = link_shares::Source::read(client).await?;
    let Some(grid) = link_shares::last_window(client, &ports, to - LAST_MS, to, &source).await? else {
        return Ok((None, [Vec::new(), Vec::new()]));
    };
    let sent = link_shares::sent(client, &ports, &grid, &source).await?;
    let labels = labels(client, sent.values()).await?;
    let of = |port: i64| sent.get(&port).map_or_else(Vec::new, |sent| contributors(sent, &labels, false));
    Ok((Some(grid.to()), ports.map(of)))
}

/// Labels of the jobs that have a part.
///
/// # Errors
/// The database's.
pub async fn labels<'a>(
    client: &Client,
    sent: impl Iterator<Item = &'a PortTraffic>,
) -> Result<HashMap<i64, JobLabel>, ApiError> {
    let mut ids: Vec<i64> = sent.flat_map(|sent| sent.parts.keys().filter_map(|who| who.job)).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(link_shares::job_labels(client, &ids).await?)
}

fn of_direction(
    topology: &Topology,
    place: usize,
    [from, to]: [Port; 2],
    sent: &PortTraffic,
    labels: &HashMap<i64, JobLabel>,
    grid: &Grid,
) -> DirectionShares {
    let speed = topology.speeds[place];
    let (is_above, mean) = utilisation(sent.counted, sent.counted_windows, speed);
    let (is_peak_above, peak) = utilisation(sent.peak, 1, speed);
    let mut counted: Vec<Option<f64>> =
        sent.steps.iter().map(|step| rate(step.counted?, step.counted_windows)).collect();
    counted.resize(grid.steps, None);
    DirectionShares {
        from: link_end(topology, from),
        to: link_end(topology, to),
        bytes_per_second: speed,
        windows: sent.windows,
        counted_windows: sent.counted_windows,
        counted_bytes: sent.counted,
        utilisation: mean,
        peak_utilisation: peak,
        is_above_speed: is_above || is_peak_above,
        counted_bytes_per_second: counted,
        contributors: contributors(sent, labels, true),
    }
}

fn link_end(topology: &Topology, port: Port) -> LinkEnd {
    let nodes = &topology.columns.nodes;
    LinkEnd {
        guid: nodes.guid[port.node].clone(),
        name: nodes.name[port.node].clone(),
        host: nodes.host[port.node].clone(),
        port: port.number,
    }
}

/// `leaf1[5]`.
pub fn end_name(end: &LinkEnd) -> String {
    format!("{}[{}]", end.name, end.port)
}
