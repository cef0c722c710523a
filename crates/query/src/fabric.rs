//! Subnets, their nodes and cables at a time, and how long these are as they are.

use crate::time::{QueryTime, milliseconds};
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its number in the tables.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its subnet prefix now: `0x` and 16 digits.
    pub prefix: Option<String>,
    /// GUID of the port of its master subnet manager now.
    pub subnet_manager: Option<String>,
}

/// What a subnet has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Switches.
    pub switches: i64,
    /// Channel adapters.
    pub adapters: i64,
    /// Cables.
    pub links: i64,
    /// End of the crawler's last round of counters within a day.
    pub swept: Option<i64>,
}

/// Which state of the inventory holds at a time: equal versions are equal topologies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The last change before, microseconds since 1970.
    pub changed: Option<i64>,
    /// Changes until then.
    pub changes: i64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number in the tables.
    pub id: i64,
    /// `0x` and 16 digits.
    pub guid: String,
    /// `switch`, `ca` or `router`.
    pub kind: String,
    /// Its description, or the GUID of one without.
    pub name: String,
    /// Of a switch its port 0's, else the first port's.
    pub lid: i32,
    /// Its device.
    pub device_id: i32,
    /// Of a switch: how it routes, `static` or `adaptive`, as it reported last.
    pub routing: Option<String>,
    /// The host that has it, where an agent runs.
    pub host: Option<String>,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The port's number in the tables.
    pub port_id: i64,
    /// The node's.
    pub node: i64,
    /// The port on the node.
    pub port: i32,
    /// Its LID; 0 where it is not known. A switch has one for all of its ports.
    pub lid: i32,
}

/// A cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Both ends, in the order of the tables.
    pub ends: [End; 2],
    /// Speed of one direction, 0 while it is down.
    pub bytes_per_second: i64,
    /// As ibnetdiscover prints it.
    pub width: String,
    /// As ibnetdiscover prints it.
    pub speed: String,
    /// Active, Armed, Initialize, Down.
    pub state: String,
}

/// All fabrics, by name.
///
/// # Errors
/// The database's.
pub async fn subnets(client: &Client) -> Result<Vec<Subnet>, Error> {
    let query = "SELECT f.id, f.name, a.prefix, a.subnet_manager FROM internal.fabric f
                 LEFT JOIN internal.fabric_attribute a ON a.fabric_id = f.id AND a.valid_to IS NULL ORDER BY f.name";
    let rows = client.query(query, &[]).await.map_err(Error::sql("reading the fabrics"))?;
    let subnet = |row: &Row| Subnet {
        id: row.get(0),
        name: row.get(1),
        prefix: row.get(2),
        subnet_manager: row.get(3),
    };
    Ok(rows.iter().map(subnet).collect())
}

const COUNT: &str = "
    SELECT count(*) FILTER (WHERE n.type = 'switch'), count(*) FILTER (WHERE n.type = 'ca'),
           (SELECT count(*) FROM internal.ib_link l JOIN internal.ib_port_key p ON p.id = l.port_a_id
            JOIN internal.ib_node_key a ON a.id = p.ib_node_id WHERE a.fabric_id = $1 AND l.valid_to IS NULL),
           (SELECT max(c.time) FROM internal.coverage c
            WHERE c.instance = 'fabric:' || $1::bigint AND c.source = 'mad' AND c.time > now() - INTERVAL '1 day')
    FROM internal.ib_node_key k JOIN internal.ib_node n ON n.ib_node_id = k.id AND n.valid_to IS NULL
    WHERE k.fabric_id = $1";

/// What a subnet has now.
///
/// # Errors
/// The database's.
pub async fn count(client: &Client, subnet: i64) -> Result<Count, Error> {
    let row = client.query_one(COUNT, &[&subnet]).await.map_err(Error::sql("counting a subnet's nodes"))?;
    let swept: Option<SystemTime> = row.get(3);
    Ok(Count {
        switches: row.get(0),
        adapters: row.get(1),
        links: row.get(2),
        swept: swept.map(milliseconds),
    })
}

/// Which state of a subnet's inventory holds at a time.
///
/// # Errors
/// The database's.
pub async fn version(client: &Client, subnet: i64, at: QueryTime) -> Result<Version, Error> {
    let until = match at {
        QueryTime::Latest => String::new(),
        QueryTime::Time(time) => format!("WHERE t <= {}", moment(time)),
    };
    // Rows of a node's agent count too: they name its adapters' host.
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
             SELECT unnest(ARRAY[n.valid_from, n.valid_to]) FROM internal.node n
             WHERE EXISTS (SELECT FROM internal.ib_node_key k WHERE k.fabric_id = $1 AND k.guid = ANY (n.hca_guids))
         ) changes {until}{and} t IS NOT NULL",
        and = if until.is_empty() { "WHERE" } else { " AND" },
    );
    let row =
        client.query_one(&sql, &[&subnet]).await.map_err(Error::sql("reading a subnet's last change"))?;
    Ok(Version { changed: row.get(0), changes: row.get(1) })
}

/// The nodes of a subnet at a time.
///
/// # Errors
/// The database's.
pub async fn nodes(client: &Client, subnet: i64, at: QueryTime) -> Result<Vec<Node>, Error> {
    let what = "reading a subnet's nodes";
    let hosts = format!("SELECT name, unnest(hca_guids) FROM internal.node h WHERE {}", at.valid("h"));
    let hosts = client.query(&hosts, &[]).await.map_err(Error::sql(what))?;
    let hosts: HashMap<String, String> = hosts.iter().map(|row| (row.get(1), row.get(0))).collect();
    let nodes = format!(
        "SELECT k.id, k.guid, n.type, coalesce(nullif(n.description, ''), k.guid), n.lid, n.device_id, n.routing
         FROM internal.ib_node_key k JOIN internal.ib_node n ON n.ib_node_id = k.id AND {}
         WHERE k.fabric_id = $1",
        at.valid("n")
    );
    let rows = client.query(&nodes, &[&subnet]).await.map_err(Error::sql(what))?;
    let node = |row: &Row| {
        let guid: String = row.get(1);
        Node {
            id: row.get(0),
            host: hosts.get(&guid).cloned(),
            guid,
            kind: row.get(2),
            name: row.get(3),
            lid: row.get(4),
            device_id: row.get(5),
            routing: row.get(6),
        }
    };
    Ok(rows.iter().map(node).collect())
}

/// How a subnet routes by what its switches report: `adaptive` where any does, `static` where all do; `None` where one does not
/// report and none is adaptive, or there is no switch. Traffic that passes several switches may take other links by any of them.
pub fn routing<'a>(switches: impl IntoIterator<Item = Option<&'a str>>) -> Option<&'static str> {
    let mut all = None;
    for routing in switches {
        match routing {
            Some("adaptive") => return Some("adaptive"),
            Some(_) => all = all.or(Some(true)),
            None => all = Some(false),
        }
    }
    all.filter(|all| *all).map(|_| "static")
}

/// The same of all fabrics at a time, by name.
///
/// # Errors
/// The database's.
pub async fn routings(
    client: &Client,
    at: QueryTime,
) -> Result<HashMap<String, Option<&'static str>>, Error> {
    let sql = format!(
        "SELECT s.name, array_agg(DISTINCT n.routing) FROM internal.ib_node n JOIN internal.ib_node_key k ON k.id = n.ib_node_id
         JOIN internal.fabric s ON s.id = k.fabric_id WHERE n.type = 'switch' AND {} GROUP BY s.name",
        at.valid("n")
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading how subnets route"))?;
    let of_subnet = |row: &Row| {
        let kinds: Vec<Option<String>> = row.get(1);
        (row.get(0), routing(kinds.iter().map(Option::as_deref)))
    };
    Ok(rows.iter().map(of_subnet).collect())
}

/// Ports that have this GUID (`0x` and 16 digits) at a time, by their number in the tables: of an adapter one of its ports, of
/// a switch all of them.
///
/// # Errors
/// The database's.
pub async fn ports_of_guid(client: &Client, guid: &str, at: QueryTime) -> Result<Vec<i64>, Error> {
    let sql = format!("SELECT port_id FROM internal.ib_port p WHERE port_guid = $1 AND {}", at.valid("p"));
    let rows = client.query(&sql, &[&guid]).await.map_err(Error::sql("looking for a port's GUID"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The cables of a subnet at a time.
///
/// # Errors
/// The database's.
pub async fn links(client: &Client, subnet: i64, at: QueryTime) -> Result<Vec<Link>, Error> {
    // What one end does not have the other may.
    let sql = format!(
        "SELECT l.port_a_id, a.ib_node_id, a.port, l.port_b_id, b.ib_node_id, b.port,
                greatest(pa.rate_bytes_per_second, pb.rate_bytes_per_second, 0),
                coalesce(nullif(pa.width, ''), pb.width, ''), coalesce(nullif(pa.speed, ''), pb.speed, ''),
                coalesce(nullif(pa.state, ''), pb.state, ''), coalesce(pa.lid, 0), coalesce(pb.lid, 0)
         FROM internal.ib_node_key k
         JOIN internal.ib_port_key a ON a.ib_node_id = k.id
         JOIN internal.ib_link l ON l.port_a_id = a.id AND {link}
         JOIN internal.ib_port_key b ON b.id = l.port_b_id
         LEFT JOIN internal.ib_port pa ON pa.port_id = a.id AND {port_a}
         LEFT JOIN internal.ib_port pb ON pb.port_id = b.id AND {port_b}
         WHERE k.fabric_id = $1",
        link = at.valid("l"),
        port_a = at.valid("pa"),
        port_b = at.valid("pb"),
    );
    let rows = client.query(&sql, &[&subnet]).await.map_err(Error::sql("reading a subnet's links"))?;
    let end = |row: &Row, from: usize, lid: usize| End {
        port_id: row.get(from),
        node: row.get(from + 1),
        port: row.get(from + 2),
        lid: row.get(lid),
    };
    let link = |row: &Row| Link {
        ends: [end(row, 0, 10), end(row, 3, 11)],
        bytes_per_second: row.get(6),
        width: row.get(7),
        speed: row.get(8),
        state: row.get(9),
    };
    Ok(rows.iter().map(link).collect())
}

#[cfg(test)]
mod tests {
    use super::routing;

    #[test]
    fn a_subnet_is_static_only_where_each_switch_says_so() {
        assert_eq!(routing([]), None);
        assert_eq!(routing([Some("static"), Some("static")]), Some("static"));
        assert_eq!(routing([Some("static"), None]), None);
        assert_eq!(routing([None, Some("static")]), None);
        assert_eq!(routing([None, Some("static"), Some("adaptive")]), Some("adaptive"));
    }
}
