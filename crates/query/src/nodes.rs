//! Hosts: what is in them and what runs there.

use crate::Horizons;
use crate::row_rules::{look_back_ms, rules};
use crate::time::{QueryTime, milliseconds};
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A host in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSummary {
    /// Its name.
    pub name: String,
    /// GPUs, partitions not counted, and those that are lost.
    pub gpus: i64,
    /// GPUs that are there and do not answer.
    pub lost_gpus: i64,
    /// Adapters of InfiniBand.
    pub adapters: i64,
    /// When it booted, milliseconds.
    pub boot: Option<i64>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its number in the tables.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// When it booted, milliseconds.
    pub boot: Option<i64>,
}

/// A GPU or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number in the tables.
    pub id: i64,
    /// Its host's.
    pub host: i64,
    /// UUID.
    pub uuid: String,
    /// Number on the host.
    pub index: i32,
    /// Product.
    pub name: String,
    /// PCI address.
    pub pci: String,
    /// NUMA node.
    pub numa_node: Option<i32>,
    /// Adapters with the shortest way to it.
    pub nearest_adapters: Option<Vec<String>>,
    /// The GPU that it is a partition of.
    pub parent: Option<String>,
    /// It is there and does not answer.
    pub is_lost: bool,
    /// NVLink domain over several nodes: UUID of the cluster, a dot and the clique.
    pub nvlink_domain: Option<String>,
    /// How far its registration in a fabric of NVLinks is.
    pub fabric_state: Option<String>,
    /// The most that its PCIe slot carries in one direction.
    pub pcie_bytes_per_second: Option<i64>,
}

/// What a host has in an NVLink domain over several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDomain {
    /// The domain's name.
    pub domain: String,
    /// The host's.
    pub host: String,
    /// GPUs there, partitions not counted.
    pub gpus: i64,
}

/// An NVLink, by its end at a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuLink {
    /// The GPU's number in the tables.
    pub gpu: i64,
    /// Its number there.
    pub link: i32,
    /// Whether it is up.
    pub is_active: bool,
    /// Version of NVLink.
    pub version: Option<i32>,
    /// Of one direction.
    pub bytes_per_second: Option<i64>,
    /// gpu, switch, cpu or unknown.
    pub remote_kind: String,
    /// PCI address of what is there, where that is no GPU.
    pub remote_pci: String,
    /// Number in the tables of the GPU there.
    pub remote_gpu: Option<i64>,
    /// Number of the link there.
    pub remote_link: Option<i32>,
}

/// A port of a host's own adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number in the tables.
    pub id: i64,
    /// Its host's.
    pub host: i64,
    /// As sysfs names the adapter.
    pub device: String,
    /// Port on it.
    pub port: i32,
    /// Node GUID of the adapter.
    pub guid: Option<String>,
    /// State by the fabric's word.
    pub state: Option<String>,
    /// Speed of one direction by the fabric's word.
    pub bytes_per_second: Option<i64>,
    /// The subnet that knows it.
    pub subnet: Option<String>,
    /// Name of the switch at the other end.
    pub leaf: Option<String>,
    /// Its GUID.
    pub leaf_guid: Option<String>,
}

/// A job on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobThere {
    /// Its key.
    pub key: String,
    /// Whose it is.
    pub user: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Ranks there.
    pub ranks: i64,
}

/// Hosts behind a name, by name; of those whose name has `text` in it.
///
/// # Errors
/// The database's.
pub async fn list(
    client: &Client,
    text: Option<&str>,
    behind: Option<&str>,
    limit: i64,
) -> Result<Vec<HostSummary>, Error> {
    let sql = "SELECT k.name,
                      o.gpus, (SELECT count(DISTINCT device) FROM internal.host_port_key p WHERE p.node_id = k.id), n.boot_time, o.lost
               FROM internal.node_key k LEFT JOIN internal.node n ON n.node_id = k.id AND n.valid_to IS NULL
               CROSS JOIN LATERAL (SELECT count(*) AS gpus, count(*) FILTER (WHERE g.is_lost) AS lost FROM internal.gpu g
                                   WHERE g.node_id = k.id AND g.valid_to IS NULL AND g.parent_gpu_id IS NULL) o
               WHERE (n.node_id IS NOT NULL OR EXISTS (SELECT FROM internal.gpu g WHERE g.node_id = k.id)
                      OR EXISTS (SELECT FROM internal.host_port_key p WHERE p.node_id = k.id))
                 AND ($1::text IS NULL OR strpos(lower(k.name), lower($1)) > 0) AND ($2::text IS NULL OR k.name > $2)
               ORDER BY k.name LIMIT $3";
    let rows = client.query(sql, &[&text, &behind, &limit]).await.map_err(Error::sql("reading the hosts"))?;
    let listed = |row: &Row| HostSummary {
        name: row.get(0),
        gpus: row.get(1),
        adapters: row.get(2),
        boot: row.get::<_, Option<SystemTime>>(3).map(milliseconds),
        lost_gpus: row.get(4),
    };
    Ok(rows.iter().map(listed).collect())
}

/// Hosts with these names, as they were at a time.
///
/// # Errors
/// The database's.
pub async fn hosts(client: &Client, names: &[&str], at: QueryTime) -> Result<Vec<Host>, Error> {
    let sql = format!(
        "SELECT k.id, k.name, n.boot_time FROM internal.node_key k LEFT JOIN internal.node n ON n.node_id = k.id AND {}
         WHERE k.name = ANY($1) ORDER BY array_position($1, k.name)",
        at.valid("n")
    );
    let rows = client.query(&sql, &[&names]).await.map_err(Error::sql("reading hosts"))?;
    let host = |row: &Row| Host {
        id: row.get(0),
        name: row.get(1),
        boot: row.get::<_, Option<SystemTime>>(2).map(milliseconds),
    };
    Ok(rows.iter().map(host).collect())
}

/// GPUs of hosts at a time, by number.
///
/// # Errors
/// The database's.
pub async fn gpus(client: &Client, hosts: &[i64], at: QueryTime) -> Result<Vec<Gpu>, Error> {
    let sql = format!(
        "SELECT g.gpu_id, g.node_id, g.uuid, g.index, g.name, g.pci_bus_id, g.numa_node, g.nearest_hcas, p.uuid, g.is_lost,
                g.fabric_cluster_uuid || '.' || g.fabric_clique_id, g.fabric_state, g.pcie_bytes_per_second
         FROM internal.gpu g LEFT JOIN internal.gpu_key p ON p.id = g.parent_gpu_id
         WHERE g.node_id = ANY($1) AND {} ORDER BY g.node_id, g.index, g.uuid",
        at.valid("g")
    );
    let rows = client.query(&sql, &[&hosts]).await.map_err(Error::sql("reading the GPUs of hosts"))?;
    let gpu = |row: &Row| Gpu {
        id: row.get(0),
        host: row.get(1),
        uuid: row.get(2),
        index: row.get(3),
        name: row.get(4),
        pci: row.get(5),
        numa_node: row.get(6),
        nearest_adapters: row.get(7),
        parent: row.get(8),
        is_lost: row.get(9),
        nvlink_domain: row.get(10),
        fabric_state: row.get(11),
        pcie_bytes_per_second: row.get(12),
    };
    Ok(rows.iter().map(gpu).collect())
}

/// The hosts of the NVLink domains over several nodes that a host has GPUs in, at a time, by domain and name.
///
/// # Errors
/// The database's.
pub async fn nvlink_domains(client: &Client, host: i64, at: QueryTime) -> Result<Vec<InDomain>, Error> {
    let sql = format!(
        "SELECT g.fabric_cluster_uuid || '.' || g.fabric_clique_id, k.name, count(*)
         FROM (SELECT DISTINCT o.fabric_cluster_uuid, o.fabric_clique_id FROM internal.gpu o
               WHERE o.node_id = $1 AND o.fabric_cluster_uuid IS NOT NULL AND o.parent_gpu_id IS NULL AND {own}) d
         JOIN internal.gpu g ON g.fabric_cluster_uuid = d.fabric_cluster_uuid AND g.fabric_clique_id = d.fabric_clique_id
         JOIN internal.node_key k ON k.id = g.node_id
         WHERE g.parent_gpu_id IS NULL AND {all} GROUP BY 1, 2 ORDER BY 1, 2",
        own = at.valid("o"),
        all = at.valid("g"),
    );
    let rows = client.query(&sql, &[&host]).await.map_err(Error::sql("reading NVLink domains"))?;
    let one = |row: &Row| InDomain { domain: row.get(0), host: row.get(1), gpus: row.get(2) };
    Ok(rows.iter().map(one).collect())
}

/// NVLinks of GPUs at a time, by GPU and number.
///
/// # Errors
/// The database's.
pub async fn gpu_links(client: &Client, gpus: &[i64], at: QueryTime) -> Result<Vec<GpuLink>, Error> {
    let sql = format!(
        "SELECT gpu_id, link, active, version, speed_bytes_per_second, remote_type, remote_pci_bus_id, remote_gpu_id,
                remote_link
         FROM internal.gpu_link l WHERE gpu_id = ANY($1) AND {} ORDER BY gpu_id, link",
        at.valid("l")
    );
    let rows = client.query(&sql, &[&gpus]).await.map_err(Error::sql("reading the links of GPUs"))?;
    let link = |row: &Row| GpuLink {
        gpu: row.get(0),
        link: row.get(1),
        is_active: row.get(2),
        version: row.get(3),
        bytes_per_second: row.get(4),
        remote_kind: row.get(5),
        remote_pci: row.get(6),
        remote_gpu: row.get(7),
        remote_link: row.get(8),
    };
    Ok(rows.iter().map(link).collect())
}

/// Ports of hosts' own adapters, with what the fabric knew of them at a time.
///
/// # Errors
/// The database's.
pub async fn ports(client: &Client, hosts: &[i64], at: QueryTime) -> Result<Vec<Port>, Error> {
    let sql = format!(
        "SELECT DISTINCT ON (h.node_id, h.device, h.port)
                h.id, h.node_id, h.device, h.port, h.guid, p.state, p.rate_bytes_per_second, s.name,
                coalesce(nullif(r.description, ''), rk.guid), rk.guid
         FROM internal.host_port_key h
         LEFT JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port, {time}) f ON true
         LEFT JOIN internal.ib_port p ON p.port_id = f.port_id AND {port}
         LEFT JOIN internal.ib_node_key k ON k.id = p.ib_node_id
         LEFT JOIN internal.fabric s ON s.id = k.fabric_id AND p.port_id IS NOT NULL
         LEFT JOIN internal.ib_port_key o ON o.id = p.remote_port_id
         LEFT JOIN internal.ib_node_key rk ON rk.id = o.ib_node_id
         LEFT JOIN internal.ib_node r ON r.ib_node_id = rk.id AND {remote}
         WHERE h.node_id = ANY($1)
         ORDER BY h.node_id, h.device, h.port, p.port_id IS NULL",
        time = at.moment(),
        port = at.valid("p"),
        remote = at.valid("r"),
    );
    let rows = client.query(&sql, &[&hosts]).await.map_err(Error::sql("reading the adapters of hosts"))?;
    let port = |row: &Row| Port {
        id: row.get(0),
        host: row.get(1),
        device: row.get(2),
        port: row.get(3),
        guid: row.get(4),
        state: row.get(5),
        bytes_per_second: row.get(6),
        subnet: row.get(7),
        leaf: row.get(8),
        leaf_guid: row.get(9),
    };
    Ok(rows.iter().map(port).collect())
}

/// Bytes per second of the PCIe links of hosts' ports in one direction, as read last up to a time (milliseconds), by the
/// port's number in the tables, for ports where it was read. It is looked for as far back as the newest row of a
/// port is.
///
/// # Errors
/// The database's.
pub async fn pcie(client: &Client, ports: &[i64], at: i64) -> Result<HashMap<i64, i64>, Error> {
    let from = at - look_back_ms(&rules(client, Kind::HostPorts, ports, at, at).await?);
    let readings = Horizons::read(client).await?.source(Kind::HostPorts, from, at);
    let sql = format!(
        "SELECT p.id, c.pcie_bytes_per_second FROM unnest($1::bigint[]) AS p (id)
         CROSS JOIN LATERAL (
             SELECT c.pcie_bytes_per_second FROM {readings} c
             WHERE c.host_port_id = p.id AND c.time > {} AND c.time <= {} AND c.pcie_bytes_per_second IS NOT NULL
             ORDER BY c.time DESC LIMIT 1) c",
        moment(from),
        moment(at),
    );
    let rows = client.query(&sql, &[&ports]).await.map_err(Error::sql("reading PCIe links of adapters"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Jobs with ranks on a host at a time, by key.
///
/// # Errors
/// The database's.
pub async fn jobs(client: &Client, host: i64, at: QueryTime) -> Result<Vec<JobThere>, Error> {
    let (there, packed) = match at {
        QueryTime::Latest => ("r.end_time IS NULL".to_owned(), "false".to_owned()),
        QueryTime::Time(time) => {
            let at = moment(time);
            let there = format!("r.start_time <= {at} AND (r.end_time IS NULL OR r.end_time > {at})");
            (there, format!("f.is_released AND p.began_at <= {at} AND p.ended_at > {at}"))
        }
    };
    let sql = format!(
        "SELECT j.key, j.user_name, j.name, count(DISTINCT r.rank) FROM internal.job_rank r JOIN internal.run_visible j ON j.id = r.job_id
         WHERE r.node_id = $1 AND {there} GROUP BY j.key, j.user_name, j.name
         UNION ALL
         SELECT j.key, j.user_name, j.name, sum(p.rank_count) FROM internal.job_node_final p
         JOIN internal.job_final f ON f.job_id = p.job_id JOIN internal.run_visible j ON j.id = p.job_id
         WHERE p.node_id = $1 AND {packed} GROUP BY j.key, j.user_name, j.name
         ORDER BY 1"
    );
    let rows = client.query(&sql, &[&host]).await.map_err(Error::sql("reading the jobs of a host"))?;
    let job = |row: &Row| JobThere { key: row.get(0), user: row.get(1), name: row.get(2), ranks: row.get(3) };
    Ok(rows.iter().map(job).collect())
}

/// NUMA nodes that ranks on a host are on: the newest 256.
///
/// # Errors
/// The database's.
pub async fn numa_nodes(client: &Client, host: i64) -> Result<Vec<i32>, Error> {
    let sql = "SELECT DISTINCT unnest(numa_nodes) AS numa FROM (
                   SELECT numa_nodes FROM internal.job_rank WHERE node_id = $1 AND numa_nodes IS NOT NULL
                   ORDER BY start_time DESC LIMIT 256) ranks ORDER BY numa";
    let rows = client.query(sql, &[&host]).await.map_err(Error::sql("reading a host's NUMA nodes"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
