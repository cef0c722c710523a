//! `/fabric/{subnet}/links/{link}`: one link, its ends, counters, rates, events, contributors, jobs and routes.

use super::super::events::EventResponse;
use super::super::request::ApiRequest;
use super::super::{Api, answer, jobs};
use super::link_place::{parse, place_of};
use super::load::share;
use super::routes::Routes;
use super::shares::last_contributors;
use super::subnet;
use super::topology::{Port, Topology};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_api::link_shares::LinkContributor;
use throughline_query::events::{self, EventFilter};
use throughline_query::links::{self, Counters, JobPort, PortFacts, Ranks, Series};
use throughline_query::long_range::LongRange;
use throughline_query::time::{Grid, QueryTime, now};
use tokio_postgres::Client;

/// Events, jobs and destinations that are listed.
const LISTED: usize = 100;

/// A range that ends no longer ago than this ends now, milliseconds.
const NOW_MS: i64 = 5_000;

#[derive(Serialize)]
struct LinkResponse {
    subnet: String,
    link: String,
    name: String,
    from_ms: i64,
    to_ms: i64,
    since_ms: i64,
    bytes_per_second: i64,
    width: String,
    speed: String,
    ends: BothEnds<EndResponse>,
    step_seconds: f64,
    times_ms: Vec<i64>,
    series: Directions<SeriesResponse>,
    errors: BothEnds<Vec<Option<f64>>>,
    events: Vec<EventResponse>,
    jobs: Jobs,
    contributors: ContributorsResponse,
    routes: Directions<Option<RoutesResponse>>,
}

#[derive(Serialize)]
struct BothEnds<T> {
    a: T,
    b: T,
}

#[derive(Serialize)]
struct Directions<T> {
    ab: T,
    ba: T,
}

#[derive(Serialize)]
struct EndResponse {
    guid: String,
    name: String,
    kind: &'static str,
    host: Option<String>,
    lid: i32,
    routing: Option<String>,
    port: i32,
    port_guid: Option<String>,
    state: Option<String>,
    physical_state: Option<String>,
    counters: Option<CountersResponse>,
}

#[derive(Serialize)]
struct CountersResponse {
    time_ms: i64,
    epoch_ms: i64,
    values: BTreeMap<&'static str, i64>,
    saturated: Vec<String>,
}

#[derive(Serialize)]
struct SeriesResponse {
    bytes_per_second: Vec<Option<f64>>,
    utilisation: Vec<Option<f64>>,
    peak: Vec<Option<f64>>,
    waiting: Vec<Option<f64>>,
}

#[derive(Default, Serialize)]
struct Jobs {
    is_complete: bool,
    jobs: Vec<JobResponse>,
}

#[derive(Serialize)]
struct JobResponse {
    job_key: String,
    user: Option<String>,
    name: Option<String>,
    ab: bool,
    ba: bool,
}

/// Whose bytes were on it in the last window before the end of the range.
#[derive(Serialize)]
struct ContributorsResponse {
    time_ms: Option<i64>,
    ab: Vec<LinkContributor>,
    ba: Vec<LinkContributor>,
}

#[derive(Serialize)]
struct RoutesResponse {
    destinations: usize,
    is_complete: bool,
    nodes: Vec<Destination>,
}

#[derive(Serialize)]
struct Destination {
    lid: usize,
    guid: Option<String>,
    name: Option<String>,
}

/// What the database has of a link.
struct LinkRecords {
    facts: HashMap<i64, PortFacts>,
    since: Option<i64>,
    counters: [Option<Counters>; 2],
    series: HashMap<i64, Series>,
    events: Vec<events::Event>,
    tables: HashMap<i64, Vec<u8>>,
    job_ports: Vec<JobPort>,
    contributors: (Option<i64>, [Vec<LinkContributor>; 2]),
}

/// `GET /fabric/{subnet}/links/{link}`.
pub async fn link(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let points = request.points()?;
    let end = parse(request.path("link"))?;
    request.done()?;
    let response = api
        .query(async |client| {
            let subnet = subnet(client, request.path("subnet")).await?;
            let is_now = to >= now(client).await? - NOW_MS;
            let at = if is_now { QueryTime::Latest } else { QueryTime::Time(to) };
            let topology = api.topology(client, &subnet, at).await?;
            let place = place_of(&topology, &subnet.name, &end)?;
            let grid = Grid::new(from, to, points);
            let mut read =
                read(client, &api.long_range, &topology, subnet.id, place, &grid, (from, to), at).await?;
            // All pairs of ports of all running jobs: not on a thread that polls sockets.
            let (tables, ports) = (std::mem::take(&mut read.tables), std::mem::take(&mut read.job_ports));
            let of = Arc::clone(&topology);
            let made = tokio::task::spawn_blocking(move || crossing(&of, place, tables, &ports));
            let (crossing, routes) = made.await.map_err(|error| ApiError::internal(error.to_string()))?;
            let jobs = name(client, crossing).await?;
            Ok(tell(&subnet.name, &topology, place, &grid, read, jobs, routes))
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// The ports at both ends of the link that a request's path names, as it is now.
///
/// # Errors
/// There is no such link.
pub async fn ports_of(api: &Api, client: &Client, request: &ApiRequest) -> Result<[i64; 2], ApiError> {
    let end = parse(request.path("link"))?;
    let subnet = subnet(client, request.path("subnet")).await?;
    let topology = api.topology(client, &subnet, QueryTime::Latest).await?;
    let place = place_of(&topology, &subnet.name, &end)?;
    Ok(topology.ends[place].map(|end| end.id))
}

#[allow(clippy::too_many_arguments)] // all of a link
async fn read(
    client: &Client,
    long_range: &LongRange,
    topology: &Topology,
    subnet: i64,
    place: usize,
    grid: &Grid,
    (from, to): (i64, i64),
    at: QueryTime,
) -> Result<LinkRecords, ApiError> {
    let ends = topology.ends[place];
    let ports = ends.map(|end| end.id);
    let events = async |end: Port| {
        let which = EventFilter {
            from,
            to,
            guid: Some(&topology.columns.nodes.guid[end.node]),
            port: Some(end.number),
            limit: LISTED as i64,
            ..EventFilter::default()
        };
        events::events(client, &which).await
    };
    let mut all_events = events(ends[0]).await?;
    for event in events(ends[1]).await? {
        // One of a cable names both ends.
        if !all_events.contains(&event) {
            all_events.push(event);
        }
    }
    all_events.sort_by_key(|event| std::cmp::Reverse(event.time));
    all_events.truncate(LISTED);
    let ranks = match at {
        QueryTime::Latest => Ranks::Running,
        QueryTime::Time(time) => Ranks::RunningAt(time),
    };
    Ok(LinkRecords {
        facts: links::facts(client, &ports, at).await?,
        since: links::since(client, ports, at).await?,
        counters: [
            links::counters(client, ports[0], to).await?,
            links::counters(client, ports[1], to).await?,
        ],
        series: long_range.port_series(client, &ports, grid).await?,
        events: all_events,
        tables: links::tables(client, subnet, at).await?,
        job_ports: links::job_ports(client, ranks).await?,
        contributors: last_contributors(client, ends, to).await?,
    })
}

/// Jobs that cross a link in either direction, by number, and where its switches send by it.
type LinkCrossings = (Vec<(i64, [bool; 2])>, [Option<RoutesResponse>; 2]);

fn crossing(
    topology: &Topology,
    place: usize,
    tables: HashMap<i64, Vec<u8>>,
    ports: &[JobPort],
) -> LinkCrossings {
    let routes = Routes::new(topology, tables);
    let of_link = [true, false].map(|from_a| {
        let lids = routes.destinations(place, from_a)?;
        let nodes = lids.iter().take(LISTED).map(|lid| {
            let node = topology.node_of_lid.get(lid);
            Destination {
                lid: *lid,
                guid: node.map(|node| topology.columns.nodes.guid[*node].clone()),
                name: node.map(|node| topology.columns.nodes.name[*node].clone()),
            }
        });
        Some(RoutesResponse {
            destinations: lids.len(),
            is_complete: lids.len() <= LISTED,
            nodes: nodes.collect(),
        })
    });
    let by_job = ports.chunk_by(|one, other| one.job == other.job);
    let crossing = by_job.filter_map(|ports| {
        let ids: Vec<i64> = ports.iter().map(|port| port.port_id).collect();
        let pairs = routes.crossed(&ids).pairs.get(&place).copied()?;
        Some((ports.first()?.job, pairs.map(|pairs| pairs > 0)))
    });
    (crossing.collect(), of_link)
}

async fn name(client: &Client, mut crossing: Vec<(i64, [bool; 2])>) -> Result<Jobs, ApiError> {
    let is_complete = crossing.len() <= LISTED;
    crossing.truncate(LISTED);
    let ids: Vec<i64> = crossing.iter().map(|(id, _)| *id).collect();
    let mut names = links::job_names(client, &ids).await?;
    let response = crossing.into_iter().filter_map(|(id, [ab, ba])| {
        let (job_key, user, name) = names.remove(&id)?;
        Some(JobResponse { job_key, user, name, ab, ba })
    });
    Ok(Jobs { is_complete, jobs: response.collect() })
}

fn tell(
    subnet: &str,
    topology: &Topology,
    place: usize,
    grid: &Grid,
    mut read: LinkRecords,
    jobs: Jobs,
    [ab, ba]: [Option<RoutesResponse>; 2],
) -> LinkResponse {
    let [a, b] = topology.ends[place];
    let nodes = &topology.columns.nodes;
    let (width, speed) = topology.words(place);
    let names = [a, b].map(|end| format!("{}[{}]", nodes.name[end.node], end.number));
    let bytes_per_second = topology.speeds[place];
    let series = |sender: &Port, receiver: &Port| {
        tell_series(read.series.get(&sender.id), read.series.get(&receiver.id), bytes_per_second, grid.steps)
    };
    let directions = Directions { ab: series(&a, &b), ba: series(&b, &a) };
    let errors = |end: &Port| {
        read.series.get(&end.id).map_or_else(|| vec![None; grid.steps], |series| series.errors.clone())
    };
    let errors = BothEnds { a: errors(&a), b: errors(&b) };
    let [counters_a, counters_b] = read.counters;
    let (time_ms, [from_a, from_b]) = read.contributors;
    let mut end = |end: &Port, counters: Option<Counters>| {
        let facts = read.facts.remove(&end.id);
        EndResponse {
            guid: nodes.guid[end.node].clone(),
            name: nodes.name[end.node].clone(),
            kind: topology.kind(end.node),
            host: nodes.host[end.node].clone(),
            lid: facts.as_ref().map_or(nodes.lid[end.node], |facts| facts.lid),
            routing: nodes.routing[end.node].clone(),
            port: end.number,
            port_guid: facts.as_ref().map(|facts| facts.guid.clone()),
            state: facts.as_ref().map(|facts| facts.state.clone()),
            physical_state: facts.map(|facts| facts.physical_state),
            counters: counters.map(|counters| CountersResponse {
                time_ms: counters.time,
                epoch_ms: counters.epoch,
                values: counters.values,
                saturated: counters.saturated,
            }),
        }
    };
    LinkResponse {
        subnet: subnet.to_owned(),
        link: format!("{}.{}", nodes.guid[a.node], a.number),
        name: names.join(" - "),
        from_ms: grid.from,
        to_ms: grid.to(),
        since_ms: read.since.unwrap_or_default(),
        bytes_per_second,
        width: width.to_owned(),
        speed: speed.to_owned(),
        ends: BothEnds { a: end(&a, counters_a), b: end(&b, counters_b) },
        step_seconds: jobs::step_seconds(grid),
        times_ms: grid.ends(),
        series: directions,
        errors,
        events: read.events.into_iter().map(EventResponse::from).collect(),
        jobs,
        contributors: ContributorsResponse { time_ms, ab: from_a, ba: from_b },
        routes: Directions { ab, ba },
    }
}

/// One direction: by the sender's word, or where nobody read that by the receiver's.
fn tell_series(
    sender: Option<&Series>,
    receiver: Option<&Series>,
    speed: i64,
    steps: usize,
) -> SeriesResponse {
    let value = |series: Option<&Series>, of: fn(&Series) -> &Vec<Option<f64>>, step: usize| {
        series.and_then(|series| of(series)[step])
    };
    let own = |series: Option<&Series>, step: usize| series.and_then(|series| series.speed[step]);
    let mut response = SeriesResponse {
        bytes_per_second: Vec::with_capacity(steps),
        utilisation: Vec::with_capacity(steps),
        peak: Vec::with_capacity(steps),
        waiting: Vec::with_capacity(steps),
    };
    for step in 0..steps {
        let sent = value(sender, |series| &series.out, step);
        let (rate, peak, own_speed) = match sent {
            Some(_) => (sent, value(sender, |series| &series.out_peak, step), own(sender, step)),
            None => (
                value(receiver, |series| &series.received, step),
                value(receiver, |series| &series.received_peak, step),
                own(receiver, step),
            ),
        };
        response.bytes_per_second.push(rate.map(f64::round));
        response.utilisation.push(rate.and_then(|rate| share(rate, own_speed, speed)));
        response.peak.push(peak.and_then(|peak| share(peak, own_speed, speed)));
        let waiting = value(sender, |series| &series.waiting, step);
        response.waiting.push(waiting.and_then(|waiting| share(waiting, own(sender, step), speed)));
    }
    response
}
