//! Hosts that no agent reports anything about, as the fabric knows them: adapters whose node description begins with the
//! host's name, which is what the kernel writes there (`n17 mlx5_0`), and what their ports carry.

use crate::links::Series;
use crate::long_range::{LongRange, RangeError};
use crate::nodes::Port;
use crate::rates::Rates;
use crate::time::{Grid, QueryTime};
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// Ports of adapters whose description begins with this name, by GUID and number; an adapter without a description has its
/// GUID as a name. [`Port::id`] is that of the fabric's port, and [`Port::host`] is 0.
///
/// # Errors
/// The database's.
pub async fn ports(client: &Client, name: &str, at: QueryTime) -> Result<Vec<Port>, Error> {
    let sql = format!(
        "SELECT p.port_id, coalesce(nullif(btrim(substr(n.description, length($1) + 1)), ''), k.guid), q.port, k.guid, p.state,
                p.rate_bytes_per_second, s.name, coalesce(nullif(r.description, ''), rk.guid), rk.guid
         FROM internal.ib_node n
         JOIN internal.ib_node_key k ON k.id = n.ib_node_id
         JOIN internal.fabric s ON s.id = k.fabric_id
         JOIN internal.ib_port_key q ON q.ib_node_id = k.id
         JOIN internal.ib_port p ON p.port_id = q.id AND {port}
         LEFT JOIN internal.ib_port_key o ON o.id = p.remote_port_id
         LEFT JOIN internal.ib_node_key rk ON rk.id = o.ib_node_id
         LEFT JOIN internal.ib_node r ON r.ib_node_id = rk.id AND {remote}
         WHERE n.type = 'ca' AND {node} AND (split_part(n.description, ' ', 1) = $1 OR n.description = '' AND k.guid = $1)
         ORDER BY s.name, k.guid, q.port",
        port = at.valid("p"),
        remote = at.valid("r"),
        node = at.valid("n"),
    );
    let rows = client
        .query(&sql, &[&name])
        .await
        .map_err(Error::sql("reading the adapters of a host without an agent"))?;
    let port = |row: &Row| Port {
        id: row.get(0),
        host: 0,
        device: row.get(1),
        port: row.get(2),
        guid: row.get(3),
        state: row.get(4),
        bytes_per_second: row.get(5),
        subnet: row.get(6),
        leaf: row.get(7),
        leaf_guid: row.get(8),
    };
    Ok(rows.iter().map(port).collect())
}

/// What these ports carried by the fabric's counters, for each of them.
///
/// # Errors
/// [`RangeError`].
pub async fn rates(
    client: &Client,
    long_range: &LongRange,
    ports: &[Port],
    grid: &Grid,
) -> Result<Vec<Rates>, RangeError> {
    let ids: Vec<i64> = ports.iter().map(|port| port.id).collect();
    let mut all = long_range.port_series(client, &ids, grid).await?;
    let rates = |port: &Port| {
        let found: Option<Series> = all.remove(&port.id);
        let nothing = || vec![None; grid.steps];
        let (out, received) = found.map_or_else(|| (nothing(), nothing()), |one| (one.out, one.received));
        Rates { out, received, bytes_per_second: port.bytes_per_second, ..Rates::default() }
    };
    Ok(ports.iter().map(rates).collect())
}
