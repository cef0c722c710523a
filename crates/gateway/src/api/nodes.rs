//! `/nodes…`: hosts, what is in them, and the links between that.

use super::pcie::{Pcie, PortOf, pcie_of};
use super::request::ApiRequest;
use super::{Api, answer, fabric, page};
use crate::api_error::ApiError;
use crate::thresholds::{OfNode, Thresholds};
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_query::fabric_hosts;
use throughline_query::nodes::{self, Gpu, GpuLink, Port};
use throughline_query::rates::{self, ByElement, CountedLink};
use throughline_query::sender_clocks;
use throughline_query::time::{Grid, QueryTime, now};
use tokio_postgres::Client;

#[derive(Serialize)]
struct Nodes {
    nodes: Vec<NodeListed>,
    next: Option<String>,
}

#[derive(Serialize)]
struct NodeListed {
    host: String,
    gpus: i64,
    lost_gpus: i64,
    adapters: i64,
    boot_ms: Option<i64>,
}

/// `GET /nodes`.
pub async fn nodes(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (text, limit) = (request.text("q")?, request.limit()?);
    let behind: Option<String> = page::next(&request)?;
    request.done()?;
    let query =
        async |client: &Client| Ok(nodes::list(client, text, behind.as_deref(), limit as i64 + 1).await?);
    let mut found = api.query(query).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|host| page::cursor(&host.name));
    let listed = |host: nodes::HostSummary| NodeListed {
        host: host.name,
        gpus: host.gpus,
        lost_gpus: host.lost_gpus,
        adapters: host.adapters,
        boot_ms: host.boot,
    };
    answer::json(&Nodes { nodes: found.into_iter().map(listed).collect(), next }, &request.headers)
}

#[derive(Serialize)]
struct Node {
    host: String,
    at_ms: i64,
    window_seconds: f64,
    /// Without an agent there is only what the fabric knows.
    has_agent: bool,
    boot_ms: Option<i64>,
    /// Where it is off now.
    clock_offset_seconds: Option<f64>,
    numa_nodes: Vec<i32>,
    gpus: Vec<GpuResponse>,
    nvlink_domains: Vec<Domain>,
    nv_switches: Vec<Switch>,
    adapters: Vec<Adapter>,
    links: Links,
    logical: Vec<Logical>,
    jobs: Vec<JobThere>,
    thresholds: OfNode,
}

#[derive(Serialize)]
struct GpuResponse {
    uuid: String,
    index: i32,
    name: String,
    pci: String,
    numa_node: Option<i32>,
    nearest_adapters: Option<Vec<String>>,
    is_lost: bool,
    nvlink_domain: Option<String>,
    fabric_state: Option<String>,
    pcie_bytes_per_second: Option<i64>,
    partitions: Vec<PartitionResponse>,
}

#[derive(Serialize)]
struct Domain {
    domain: String,
    nodes: Vec<DomainNode>,
}

#[derive(Serialize)]
struct DomainNode {
    host: String,
    gpus: i64,
}

#[derive(Serialize)]
struct PartitionResponse {
    uuid: String,
    index: i32,
    name: String,
}

#[derive(Serialize)]
struct Switch {
    pci: String,
}

#[derive(Serialize)]
struct Adapter {
    device: String,
    port: i32,
    guid: Option<String>,
    state: Option<String>,
    bytes_per_second: Option<i64>,
    subnet: Option<String>,
    link: Option<String>,
    leaf: Option<String>,
    leaf_guid: Option<String>,
    out_bytes_per_second: Option<f64>,
    in_bytes_per_second: Option<f64>,
    age_seconds: Option<f64>,
    pcie: Option<Pcie>,
}

#[derive(Default, Serialize)]
struct Links {
    gpu: Vec<usize>,
    link: Vec<i32>,
    active: Vec<bool>,
    version: Vec<Option<i32>>,
    bytes_per_second: Vec<Option<i64>>,
    remote_kind: Vec<String>,
    remote: Vec<Option<usize>>,
    remote_link: Vec<Option<i32>>,
    out_bytes_per_second: Vec<Option<f64>>,
    in_bytes_per_second: Vec<Option<f64>>,
    age_seconds: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct Logical {
    gpu: usize,
    remote_kind: String,
    remote: Option<usize>,
    links: Vec<usize>,
    bytes_per_second: Option<i64>,
    out_bytes_per_second: Option<f64>,
    in_bytes_per_second: Option<f64>,
}

#[derive(Serialize)]
struct JobThere {
    job_key: String,
    user: Option<String>,
    name: Option<String>,
    ranks: i64,
}

/// `GET /nodes/{host}`.
pub async fn node(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (requested_at, seconds) = (request.at()?, fabric::window_seconds(&request)?);
    request.done()?;
    let response = api
        .query(async |client| {
            let at = match requested_at {
                QueryTime::Time(time) => time,
                QueryTime::Latest => now(client).await?,
            };
            #[allow(clippy::cast_possible_truncation)] // milliseconds within a day
            let step = (seconds * 1e3) as i64;
            let grid = Grid { from: at - step, step, steps: 1 };
            let name = request.path("host");
            let Some(host) = nodes::hosts(client, &[name], requested_at).await?.pop() else {
                let ports = ports_of_fabric(client, name, requested_at).await?;
                let rates = fabric_hosts::rates(client, &api.long_range, &ports, &grid).await?;
                let node = without_agent(name, at, seconds, ports, &rates);
                return Ok(Node { thresholds: api.thresholds.of_node(), ..node });
            };
            let gpus = nodes::gpus(client, &[host.id], requested_at).await?;
            let (gpus, partitions): (Vec<Gpu>, Vec<Gpu>) =
                gpus.into_iter().partition(|gpu| gpu.parent.is_none());
            let ids: Vec<i64> = gpus.iter().map(|gpu| gpu.id).collect();
            let gpu_links = nodes::gpu_links(client, &ids, requested_at).await?;
            let nvlink_domains = domains(nodes::nvlink_domains(client, host.id, requested_at).await?);
            let ports = nodes::ports(client, &[host.id], requested_at).await?;
            let port_ids: Vec<i64> = ports.iter().map(|port| port.id).collect();
            let nvlinks = rates::rates(client, CountedLink::Nvlinks, &ids, &grid).await?;
            let port_rates = rates::rates(client, CountedLink::Port, &port_ids, &grid).await?;
            let pcie = nodes::pcie(client, &port_ids, at).await?;
            let jobs = nodes::jobs(client, host.id, requested_at).await?;
            let clock_offset_seconds = sender_clocks::offset_of_node(client, name).await?;
            let mut numa_nodes = nodes::numa_nodes(client, host.id).await?;
            numa_nodes.extend(gpus.iter().filter_map(|gpu| gpu.numa_node));
            numa_nodes.sort_unstable();
            numa_nodes.dedup();
            let (links, nv_switches) = links(&gpus, &gpu_links, &nvlinks);
            Ok(Node {
                host: host.name,
                at_ms: at,
                window_seconds: seconds,
                has_agent: true,
                boot_ms: host.boot,
                clock_offset_seconds,
                numa_nodes,
                nvlink_domains,
                logical: logical(&links),
                links,
                nv_switches,
                adapters: adapters(ports, &port_rates, &pcie),
                gpus: gpus.into_iter().map(|one| gpu(one, &partitions)).collect(),
                jobs: jobs
                    .into_iter()
                    .map(|job| JobThere {
                        job_key: job.key,
                        user: job.user,
                        name: job.name,
                        ranks: job.ranks,
                    })
                    .collect(),
                thresholds: api.thresholds.of_node(),
            })
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// Ports of a host without an agent by the fabric.
///
/// # Errors
/// The fabric knows no such host either.
pub async fn ports_of_fabric(client: &Client, name: &str, at: QueryTime) -> Result<Vec<Port>, ApiError> {
    let ports = fabric_hosts::ports(client, name, at).await?;
    if ports.is_empty() {
        let remedy = "/api/v1/nodes lists the hosts that have or had an agent, and /api/v1/search finds adapters of others";
        return Err(ApiError::not_found(format!("no host {name}"), remedy));
    }
    Ok(ports)
}

/// What the fabric knows of a host.
fn without_agent(name: &str, at: i64, seconds: f64, ports: Vec<Port>, rates: &[rates::Rates]) -> Node {
    let adapter = |(port, rates): (Port, &rates::Rates)| {
        let last = |steps: &[Option<f64>]| steps.last().copied().flatten().map(f64::round);
        let (out, received) = (last(&rates.out), last(&rates.received));
        Adapter { out_bytes_per_second: out, in_bytes_per_second: received, ..adapter(port, None) }
    };
    Node {
        host: name.to_owned(),
        at_ms: at,
        window_seconds: seconds,
        has_agent: false,
        boot_ms: None,
        clock_offset_seconds: None,
        numa_nodes: Vec::new(),
        gpus: Vec::new(),
        nvlink_domains: Vec::new(),
        nv_switches: Vec::new(),
        adapters: ports.into_iter().zip(rates).map(adapter).collect(),
        links: Links::default(),
        logical: Vec::new(),
        jobs: Vec::new(),
        thresholds: Thresholds::default().of_node(),
    }
}

fn gpu(gpu: Gpu, partitions: &[Gpu]) -> GpuResponse {
    let own = partitions.iter().filter(|part| part.parent.as_ref() == Some(&gpu.uuid));
    let listed = |part: &Gpu| PartitionResponse {
        uuid: part.uuid.clone(),
        index: part.index,
        name: part.name.clone(),
    };
    GpuResponse {
        partitions: own.map(listed).collect(),
        is_lost: gpu.is_lost,
        nvlink_domain: gpu.nvlink_domain,
        fabric_state: gpu.fabric_state,
        pcie_bytes_per_second: gpu.pcie_bytes_per_second,
        uuid: gpu.uuid,
        index: gpu.index,
        name: gpu.name,
        pci: gpu.pci,
        numa_node: gpu.numa_node,
        nearest_adapters: gpu.nearest_adapters,
    }
}

/// Domains with their hosts, of hosts in the order of their domains.
fn domains(hosts: Vec<nodes::InDomain>) -> Vec<Domain> {
    let mut domains: Vec<Domain> = Vec::new();
    for one in hosts {
        let node = DomainNode { host: one.host, gpus: one.gpus };
        match domains.last_mut().filter(|last| last.domain == one.domain) {
            Some(last) => last.nodes.push(node),
            None => domains.push(Domain { domain: one.domain, nodes: vec![node] }),
        }
    }
    domains
}

/// Bytes per second out and in over the window, and the age of the newest reading.
fn now_of(rates: Option<&rates::Rates>) -> (Option<f64>, Option<f64>, Option<f64>) {
    let Some(rates) = rates else { return (None, None, None) };
    let is_silent = rates.age_seconds.is_none_or(|age| age > rates.largest_gap_seconds);
    let value =
        |steps: &[Option<f64>]| steps.last().copied().flatten().filter(|_| !is_silent).map(f64::round);
    (value(&rates.out), value(&rates.received), rates.age_seconds.map(answer::rounded))
}

fn adapter(port: Port, rates: Option<&rates::Rates>) -> Adapter {
    let (out, received, age_seconds) = now_of(rates);
    Adapter {
        link: port.leaf_guid.as_ref().and_then(|_| Some(format!("{}.{}", port.guid.as_ref()?, port.port))),
        device: port.device,
        port: port.port,
        guid: port.guid,
        state: port.state,
        bytes_per_second: port.bytes_per_second.or(rates.and_then(|rates| rates.bytes_per_second)),
        subnet: port.subnet,
        leaf: port.leaf,
        leaf_guid: port.leaf_guid,
        out_bytes_per_second: out,
        in_bytes_per_second: received,
        age_seconds,
        pcie: None,
    }
}

/// Adapters of a host with an agent, with their PCIe links.
fn adapters(ports: Vec<Port>, rates: &ByElement, pcie: &HashMap<i64, i64>) -> Vec<Adapter> {
    let ids: Vec<i64> = ports.iter().map(|port| port.id).collect();
    let mut adapters: Vec<Adapter> =
        ports.into_iter().map(|port| (rates.get(&(port.id, 0)), port)).map(|(r, p)| adapter(p, r)).collect();
    let ports: Vec<PortOf<'_>> = adapters
        .iter()
        .zip(&ids)
        .map(|(adapter, id)| PortOf {
            device: &adapter.device,
            pcie_bytes_per_second: pcie.get(id).copied(),
            bytes_per_second: adapter.bytes_per_second,
            out: adapter.out_bytes_per_second,
            received: adapter.in_bytes_per_second,
        })
        .collect();
    let of: Vec<Option<Pcie>> = ports.iter().map(|port| pcie_of(&ports, port.device)).collect();
    for (adapter, pcie) in adapters.iter_mut().zip(of) {
        adapter.pcie = pcie;
    }
    adapters
}

/// Columns of links, and the switches that they lead to.
fn links(gpus: &[Gpu], all: &[GpuLink], rates: &ByElement) -> (Links, Vec<Switch>) {
    let place = |id: i64| gpus.iter().position(|gpu| gpu.id == id);
    let (mut columns, mut switches) = (Links::default(), Vec::<Switch>::new());
    let mut sorted: Vec<(usize, &GpuLink)> =
        all.iter().filter_map(|link| Some((place(link.gpu)?, link))).collect();
    sorted.sort_by_key(|(gpu, link)| (*gpu, link.link));
    for (gpu, link) in sorted {
        let mut kind = link.remote_kind.as_str();
        let remote = match (kind, link.remote_gpu) {
            ("switch", _) if !link.remote_pci.is_empty() => {
                let known = switches.iter().position(|switch| switch.pci == link.remote_pci);
                Some(known.unwrap_or_else(|| {
                    switches.push(Switch { pci: link.remote_pci.clone() });
                    switches.len() - 1
                }))
            }
            ("gpu", Some(id)) => place(id),
            _ => None,
        };
        if kind == "gpu" && remote.is_none() {
            kind = "elsewhere";
        }
        let element = usize::try_from(link.link).ok();
        let of_link = element.and_then(|element| rates.get(&(link.gpu, element)));
        let (out, received, age) = now_of(of_link);
        columns.gpu.push(gpu);
        columns.link.push(link.link);
        columns.active.push(link.is_active);
        columns.version.push(link.version);
        columns.bytes_per_second.push(of_link.and_then(|r| r.bytes_per_second).or(link.bytes_per_second));
        columns.remote_kind.push(kind.to_owned());
        columns.remote.push(remote);
        columns.remote_link.push(link.remote_link);
        columns.out_bytes_per_second.push(out);
        columns.in_bytes_per_second.push(received);
        columns.age_seconds.push(age);
    }
    (columns, switches)
}

/// Active links between two things, as one; between two GPUs by the end at the first.
fn logical(links: &Links) -> Vec<Logical> {
    let mut all: Vec<Logical> = Vec::new();
    for place in (0..links.gpu.len()).filter(|place| links.active[*place]) {
        let (gpu, kind, remote) = (links.gpu[place], &links.remote_kind[place], links.remote[place]);
        if kind == "gpu" && remote.is_some_and(|remote| remote < gpu) {
            continue;
        }
        let same = |one: &&mut Logical| one.gpu == gpu && one.remote == remote && one.remote_kind == *kind;
        match all.iter_mut().find(same) {
            Some(one) => one.links.push(place),
            None => all.push(Logical {
                gpu,
                remote_kind: kind.clone(),
                remote,
                links: vec![place],
                bytes_per_second: None,
                out_bytes_per_second: None,
                in_bytes_per_second: None,
            }),
        }
    }
    for one in &mut all {
        let of = |column: &[Option<f64>]| sum(one.links.iter().map(|place| column[*place]));
        one.out_bytes_per_second = of(&links.out_bytes_per_second);
        one.in_bytes_per_second = of(&links.in_bytes_per_second);
        let speeds = one.links.iter().map(|place| links.bytes_per_second[*place]);
        one.bytes_per_second = speeds.flatten().reduce(|one, other| one.saturating_add(other));
    }
    all
}

/// The sum of what is there; absent where nothing is.
pub fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|one, other| one + other)
}
