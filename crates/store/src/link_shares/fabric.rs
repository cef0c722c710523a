//! A subnet's cables, ways and hosts as of a time, kept while nothing of them changes.

use std::collections::HashMap;
use std::sync::Arc;

use throughline_shares::forwarding::{End, Forwarding, Host, HostRoutes, Switch};
use tokio_postgres::Client;

use super::{Micros, moment};
use crate::error::Error;

const WHAT: &str = "reading a fabric for shares of links";

/// Which state of a fabric holds: equal ones are equal fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    changed: Option<i64>,
    changes: i64,
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direction {
    /// The port that sends: `ib_port_key.id`.
    pub sender: i64,
    /// The port that receives.
    pub receiver: i64,
}

/// A subnet.
#[derive(Debug)]
pub(super) struct Fabric {
    pub routes: HostRoutes,
    /// By link: two of each cable.
    pub directions: Vec<Direction>,
    /// Index among the ports of hosts, by `ib_port_key.id`.
    pub port_of: HashMap<i64, usize>,
    /// Names of hosts by that index.
    pub hosts: Vec<String>,
    /// All ports of cables.
    pub ports: Vec<i64>,
}

/// Fabrics that have cables at a time, by id.
pub(super) async fn fabrics(client: &Client, at: Micros) -> Result<Vec<i64>, Error> {
    let sql = format!(
        "SELECT s.id FROM internal.fabric s WHERE EXISTS (
             SELECT FROM internal.ib_node_key k JOIN internal.ib_port_key p ON p.ib_node_id = k.id JOIN internal.ib_link l ON l.port_a_id = p.id
             WHERE k.fabric_id = s.id AND {}) ORDER BY s.id",
        valid("l", at)
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn valid(alias: &str, at: Micros) -> String {
    let at = moment(at);
    format!("{alias}.valid_from <= {at} AND ({alias}.valid_to IS NULL OR {alias}.valid_to > {at})")
}

/// The state of a subnet at a time.
async fn version(client: &Client, subnet: i64, at: Micros) -> Result<Version, Error> {
    let sql = format!(
        "SELECT (extract(epoch FROM max(t)) * 1000000)::bigint, count(*) FROM (
             SELECT unnest(ARRAY[n.valid_from, n.valid_to]) AS t FROM internal.ib_node_key k
             JOIN internal.ib_node n ON n.ib_node_id = k.id WHERE k.fabric_id = $1
             UNION ALL
             SELECT unnest(ARRAY[p.valid_from, p.valid_to]) FROM internal.ib_node_key k
             JOIN internal.ib_port p ON p.ib_node_id = k.id WHERE k.fabric_id = $1
             UNION ALL
             SELECT unnest(ARRAY[l.valid_from, l.valid_to]) FROM internal.ib_node_key k
             JOIN internal.ib_port_key p ON p.ib_node_id = k.id JOIN internal.ib_link l ON l.port_a_id = p.id WHERE k.fabric_id = $1
             UNION ALL
             SELECT unnest(ARRAY[t.valid_from, t.valid_to]) FROM internal.ib_node_key k
             JOIN internal.ib_lft t ON t.ib_node_id = k.id WHERE k.fabric_id = $1
             UNION ALL
             SELECT unnest(ARRAY[n.valid_from, n.valid_to]) FROM internal.node n WHERE n.hca_guids <> '{{}}'
         ) changes WHERE t <= {}",
        moment(at)
    );
    let row = client.query_one(&sql, &[&subnet]).await.map_err(Error::sql(WHAT))?;
    Ok(Version { changed: row.get(0), changes: row.get(1) })
}

/// Fabrics of the last windows, by subnet.
#[derive(Debug, Default)]
pub(super) struct Fabrics(HashMap<i64, (Version, Arc<Fabric>)>);

impl Fabrics {
    /// The subnet as it was at a time.
    pub async fn get(&mut self, client: &Client, subnet: i64, at: Micros) -> Result<Arc<Fabric>, Error> {
        let version = version(client, subnet, at).await?;
        match self.0.get(&subnet) {
            Some((known, fabric)) if *known == version => Ok(fabric.clone()),
            _ => {
                let fabric = Arc::new(read(client, subnet, at).await?);
                self.0.insert(subnet, (version, fabric.clone()));
                Ok(fabric)
            }
        }
    }
}

/// A node of the tables.
struct Node {
    is_switch: bool,
    /// Of a switch: whether it reported so. One that does not report is taken to follow its table.
    is_adaptive: bool,
    lid: i32,
    host: String,
}

async fn read(client: &Client, subnet: i64, at: Micros) -> Result<Fabric, Error> {
    let nodes_sql = format!(
        "SELECT k.id, n.type, n.lid, coalesce(
                (SELECT h.name FROM internal.node h WHERE k.guid = ANY (h.hca_guids) AND {host} LIMIT 1),
                nullif(split_part(n.description, ' ', 1), ''), k.guid), n.routing IS NOT DISTINCT FROM 'adaptive'
         FROM internal.ib_node_key k JOIN internal.ib_node n ON n.ib_node_id = k.id AND {node} WHERE k.fabric_id = $1 ORDER BY k.id",
        host = valid("h", at),
        node = valid("n", at),
    );
    let (mut nodes, mut place_of) = (Vec::new(), HashMap::new());
    for row in client.query(&nodes_sql, &[&subnet]).await.map_err(Error::sql(WHAT))? {
        place_of.insert(row.get::<_, i64>(0), nodes.len());
        nodes.push(Node {
            is_switch: row.get::<_, &str>(1) == "switch",
            is_adaptive: row.get(4),
            lid: row.get(2),
            host: row.get(3),
        });
    }
    let tables_sql = format!(
        "SELECT t.ib_node_id, t.linear_forwarding_table FROM internal.ib_node_key k
         JOIN internal.ib_lft t ON t.ib_node_id = k.id AND {} WHERE k.fabric_id = $1",
        valid("t", at)
    );
    let rows = client.query(&tables_sql, &[&subnet]).await.map_err(Error::sql(WHAT))?;
    let mut tables: HashMap<usize, Vec<u8>> =
        rows.iter().filter_map(|row| Some((*place_of.get(&row.get(0))?, row.get(1)))).collect();
    let switches = nodes.iter().enumerate().filter(|(_, node)| node.is_switch);
    let switches = switches
        .map(|(place, node)| (place, Switch { table: tables.remove(&place), is_adaptive: node.is_adaptive }))
        .collect();
    let links_sql = format!(
        "SELECT a.id, a.ib_node_id, a.port, coalesce(pa.lid, 0), coalesce(pa.lmc, 0),
                b.id, b.ib_node_id, b.port, coalesce(pb.lid, 0), coalesce(pb.lmc, 0)
         FROM internal.ib_node_key k
         JOIN internal.ib_port_key a ON a.ib_node_id = k.id
         JOIN internal.ib_link l ON l.port_a_id = a.id AND {link}
         JOIN internal.ib_port_key b ON b.id = l.port_b_id
         LEFT JOIN internal.ib_port pa ON pa.port_id = a.id AND {port_a}
         LEFT JOIN internal.ib_port pb ON pb.port_id = b.id AND {port_b}
         WHERE k.fabric_id = $1 ORDER BY a.id, b.id",
        link = valid("l", at),
        port_a = valid("pa", at),
        port_b = valid("pb", at),
    );
    let (mut cables, mut directions, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for row in client.query(&links_sql, &[&subnet]).await.map_err(Error::sql(WHAT))? {
        let end = |first: usize| -> Option<(i64, End, i32, i32)> {
            let node = *place_of.get(&row.get(first + 1))?;
            let port = usize::try_from(row.get::<_, i32>(first + 2)).ok()?;
            let lid = Some(row.get::<_, i32>(first + 3)).filter(|lid| *lid > 0).unwrap_or(nodes[node].lid);
            Some((row.get(first), End { node, port }, lid, row.get(first + 4)))
        };
        let (Some(a), Some(b)) = (end(0), end(5)) else { continue };
        directions.push(Direction { sender: a.0, receiver: b.0 });
        directions.push(Direction { sender: b.0, receiver: a.0 });
        cables.push([a.1, b.1]);
        for (id, end, lid, lmc) in [a, b] {
            let lid = usize::try_from(lid).unwrap_or(0);
            if !nodes[end.node].is_switch {
                hosts.push((id, Host { node: end.node, port: end.port, lid, lids: 1 << lmc.clamp(0, 7) }));
            }
        }
    }
    let forwarding = Forwarding::new(nodes.len(), cables, switches);
    let (routes, indices) = HostRoutes::new(forwarding, hosts.iter().map(|(_, host)| *host).collect());
    let known = hosts.iter().zip(indices).filter_map(|((id, host), index)| Some((*id, *host, index?)));
    let (mut port_of, mut names) = (HashMap::new(), Vec::new());
    for (id, host, index) in known {
        port_of.insert(id, index);
        // Indices are given in order.
        names.push(nodes[host.node].host.clone());
    }
    let ports = directions.iter().map(|direction| direction.sender).collect();
    Ok(Fabric { routes, directions, port_of, hosts: names, ports })
}
