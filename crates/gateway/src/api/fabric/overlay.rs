//! `/fabric/{subnet}/jobs/{job}`: a job over the map: its adapters and the links between them.

use super::super::request::ApiRequest;
use super::super::{Api, answer, jobs};
use super::routes::Routes;
use super::subnet;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use throughline_query::links::{self, Ranks};
use throughline_query::time::QueryTime;

#[derive(Serialize)]
struct Overlay {
    subnet: String,
    topology: String,
    job_key: String,
    nodes: Vec<usize>,
    links: Links,
    is_complete: bool,
}

#[derive(Default, Serialize)]
struct Links {
    link: Vec<usize>,
    ab: Vec<u64>,
    ba: Vec<u64>,
}

/// `GET /fabric/{subnet}/jobs/{job}`.
pub async fn job(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let is_given = request.text("at")?.is_some();
    let filter = request.at()?;
    request.done()?;
    let (subnet, topology, job_key, ports, tables) = api
        .query(async |client| {
            let job = jobs::find(client, request.path("job")).await?;
            let subnet = subnet(client, request.path("subnet")).await?;
            // Unless the request has a time, as it was when the job ended.
            let at = if is_given { filter } else { job.end.map_or(QueryTime::Latest, QueryTime::Time) };
            let topology = api.topology(client, &subnet, at).await?;
            let ports: Vec<i64> = links::job_ports(client, Ranks::Of(job.id))
                .await?
                .into_iter()
                .map(|port| port.port_id)
                .filter(|port| topology.link_of_port.contains_key(port))
                .collect();
            let tables = links::tables(client, subnet.id, at).await?;
            Ok((subnet, topology, job.key, ports, tables))
        })
        .await?;
    let made = tokio::task::spawn_blocking(move || {
        let crossed = Routes::new(&topology, tables).crossed(&ports);
        let mut nodes: Vec<usize> = ports
            .iter()
            .filter_map(|port| topology.link_of_port.get(port))
            .map(|(link, is_a)| topology.ends[*link][usize::from(!is_a)].node)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut links = Links::default();
        for (link, [ab, ba]) in crossed.pairs {
            links.link.push(link);
            links.ab.push(ab);
            links.ba.push(ba);
        }
        Overlay {
            subnet: subnet.name,
            topology: topology.version.clone(),
            job_key,
            nodes,
            links,
            is_complete: crossed.is_complete,
        }
    });
    let response = made.await.map_err(|error| ApiError::internal(error.to_string()))?;
    answer::json(&response, &request.headers)
}
