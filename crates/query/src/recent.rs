//! What has just been stored: rows of a table, traffic between ranks, the busiest links, the newest job. For programs
//! that follow the database from second to second, such as the demo; what is older is [`crate::history`]'s.

use crate::jobs::Job;
use std::collections::BTreeMap;
use std::time::SystemTime;
use throughline_sample::Guid;
use throughline_store::Error;

pub use tokio_postgres::Client;

/// Rows of one table since some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rows {
    /// Number of rows.
    pub count: i64,
    /// Age of the newest in seconds; `None` without rows.
    pub age_seconds: Option<f64>,
}

/// What one rank has sent to another one: its newest row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTotal {
    /// Job key.
    pub job: String,
    /// Sending rank.
    pub rank: usize,
    /// Receiving rank.
    pub peer: usize,
    /// UTC nanoseconds.
    pub time: i64,
    /// When this counting began, UTC nanoseconds.
    pub epoch: i64,
    /// Bytes sent since the epoch.
    pub bytes: u64,
}

/// A link with its utilisation in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyLink {
    /// Node GUID of the sending port.
    pub guid: Guid,
    /// Its number.
    pub port: u8,
    /// Name of the link that leaves it.
    pub name: String,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Share of the link's speed, 0 to 1.
    pub utilisation: f64,
    /// Share of time in which the port had data and could not send, where its tick is known.
    pub waiting: Option<f64>,
}

/// Rows of each of some hypertables that are newer than `since`, in their order. Names of tables are the caller's own
/// text, never a user's.
///
/// # Errors
/// The database does not answer, or has no such table.
pub async fn rows_since(
    client: &Client,
    tables: &[&'static str],
    since: SystemTime,
) -> Result<Vec<Rows>, Error> {
    let parts = tables.iter().enumerate().map(|(index, table)| {
        format!(
            "SELECT {index}, count(*), extract(epoch FROM now() - max(time))::double precision \
             FROM internal.{table} WHERE time > $1"
        )
    });
    let query = format!("{} ORDER BY 1", parts.collect::<Vec<_>>().join(" UNION ALL "));
    let rows = client.query(&query, &[&since]).await.map_err(Error::sql("counting new rows"))?;
    Ok(rows.iter().map(|row| Rows { count: row.get(1), age_seconds: row.get(2) }).collect())
}

/// The newest row of each pair of ranks of the last 10 seconds: messages that were really sent (`wire`) where the MPI
/// library reports them, else what callers passed.
///
/// # Errors
/// The database's.
pub async fn peer_totals(client: &Client) -> Result<Vec<PeerTotal>, Error> {
    let query = "SELECT DISTINCT ON (p.rank, p.peer, p.kind) j.key, p.rank, p.peer, \
                 (extract(epoch FROM p.time) * 1000000000)::bigint, \
                 (extract(epoch FROM p.epoch) * 1000000000)::bigint, p.bytes, p.kind \
                 FROM internal.mpi_peer_rows p JOIN internal.run_visible j ON j.id = p.job_id \
                 WHERE p.time > now() - interval '10 seconds' AND p.bytes IS NOT NULL AND p.kind IN ('logical', 'wire') \
                 ORDER BY p.rank, p.peer, p.kind, p.time DESC";
    let rows = client.query(query, &[]).await.map_err(Error::sql("reading traffic between ranks"))?;
    let mut found: BTreeMap<(i32, i32), PeerTotal> = BTreeMap::new();
    // In the order of kinds: wire comes after logical and replaces it.
    for row in &rows {
        let (rank, peer, bytes): (i32, i32, i64) = (row.get(1), row.get(2), row.get(5));
        let (Ok(from), Ok(to), Ok(bytes)) = (rank.try_into(), peer.try_into(), bytes.try_into()) else {
            continue;
        };
        found.insert(
            (rank, peer),
            PeerTotal { job: row.get(0), rank: from, peer: to, time: row.get(3), epoch: row.get(4), bytes },
        );
    }
    Ok(found.into_values().collect())
}

/// The links with the highest utilisation over the last `seconds`, busiest first.
///
/// # Errors
/// The database's.
pub async fn busy_links(client: &Client, seconds: f64, limit: i64) -> Result<Vec<BusyLink>, Error> {
    let query = "SELECT guid, port, link_name, \
                 sum(transmit_bytes_per_second * interval_seconds) / sum(interval_seconds), \
                 sum(transmit_utilisation * interval_seconds) / sum(interval_seconds) AS utilisation, \
                 sum(transmit_wait_ratio * interval_seconds) \
                     / sum(interval_seconds) FILTER (WHERE transmit_wait_ratio IS NOT NULL) \
                 FROM public.ib_port_rates(now() - make_interval(secs => $1)) \
                 WHERE transmit_utilisation IS NOT NULL AND interval_seconds > 0 \
                 GROUP BY guid, port, link_name ORDER BY utilisation DESC, guid, port LIMIT $2";
    let rows = client.query(query, &[&seconds, &limit]).await.map_err(Error::sql("reading busy links"))?;
    let link = |row: &tokio_postgres::Row| {
        let guid: Guid = row.get::<_, &str>(0).parse().ok()?;
        let port = row.get::<_, i32>(1).try_into().ok()?;
        Some(BusyLink {
            guid,
            port,
            name: row.get(2),
            bytes_per_second: row.get(3),
            utilisation: row.get(4),
            waiting: row.get(5),
        })
    };
    Ok(rows.iter().filter_map(link).collect())
}

/// The job that was first seen last; `None` where there is none.
///
/// # Errors
/// The database's.
pub async fn newest_job(client: &Client) -> Result<Option<Job>, Error> {
    let query = "SELECT key FROM internal.run_visible ORDER BY id DESC LIMIT 1";
    let row = client.query_opt(query, &[]).await.map_err(Error::sql("reading the newest job"))?;
    match row {
        Some(row) => crate::jobs::one(client, row.get(0)).await,
        None => Ok(None),
    }
}
