//! What the demo reads from its database, with the read-only role: counts, ages, traffic, busy links.

use super::flows::PortId;
use super::meter::PeerRow;
use anyhow::Context;
use std::collections::BTreeMap;
use std::time::SystemTime;
use throughline_sample::Guid;
use tokio_postgres::Client;

/// A source as people know it, its table and the column of `coverage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// For people.
    pub name: &'static str,
    /// The hypertable of its rows.
    pub table: &'static str,
    /// The child that delivers them.
    pub child: &'static str,
}

/// Everything that the demo shows, in the order of the layers.
pub const SOURCES: [Source; 6] = [
    Source { name: "fabric ports (MADs)", table: "ib_port_counters", child: "fabric" },
    Source { name: "host ports (sysfs)", table: "host_port_counters", child: "agent-0" },
    Source { name: "NVLink (NVML)", table: "nvlink_counters", child: "agent-0" },
    Source { name: "MPI operations", table: "mpi_ops", child: "mpi" },
    Source { name: "MPI peers", table: "mpi_peers", child: "mpi" },
    Source { name: "MPI variables (PVARs)", table: "mpi_pvars", child: "mpi" },
];

/// Rows of one source since some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rows {
    /// How many.
    pub count: i64,
    /// Age of the newest in seconds.
    pub age_seconds: Option<f64>,
}

/// A job as the demo shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// Job key.
    pub key: String,
    /// Ranks seen.
    pub ranks: i64,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// A link with its utilisation.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyLink {
    /// The sending port.
    pub port: PortId,
    /// Name of the link that leaves it.
    pub name: String,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Share of the link's speed.
    pub utilisation: f64,
    /// Share of time in which the port had data and could not send.
    pub waiting: Option<f64>,
}

/// Rows of each of [`SOURCES`] that are newer than `since`.
///
/// # Errors
/// The database does not answer, or its schema is another one.
pub async fn rows_since(client: &Client, since: SystemTime) -> anyhow::Result<Vec<Rows>> {
    let parts: Vec<String> = SOURCES
        .iter()
        .enumerate()
        .map(|(index, source)| {
            format!(
                "SELECT {index}, count(*), extract(epoch FROM now() - max(time))::double precision \
                 FROM {} WHERE time > $1",
                source.table
            )
        })
        .collect();
    let query = format!("{} ORDER BY 1", parts.join(" UNION ALL "));
    let rows = client.query(&query, &[&since]).await.context("counting rows")?;
    Ok(rows.iter().map(|row| Rows { count: row.get(1), age_seconds: row.get(2) }).collect())
}

/// The newest row of each pair of ranks of the last seconds: messages that really went (`wire`) where the MPI
/// library shows them, else what callers asked for.
///
/// # Errors
/// As [`rows_since`].
pub async fn peers(client: &Client) -> anyhow::Result<Vec<PeerRow>> {
    let query = "SELECT DISTINCT ON (p.rank, p.peer, p.kind) j.key, p.rank, p.peer, \
                 (extract(epoch FROM p.time) * 1000000000)::bigint, \
                 (extract(epoch FROM p.epoch) * 1000000000)::bigint, p.bytes, p.kind \
                 FROM mpi_peers p JOIN job j ON j.id = p.job_id \
                 WHERE p.time > now() - interval '10 seconds' AND p.bytes IS NOT NULL \
                 ORDER BY p.rank, p.peer, p.kind, p.time DESC";
    let rows = client.query(query, &[]).await.context("reading traffic between ranks")?;
    let mut found: BTreeMap<(i32, i32), PeerRow> = BTreeMap::new();
    // In the order of kinds: wire comes after logical and takes its place.
    for row in &rows {
        let (rank, peer, bytes): (i32, i32, i64) = (row.get(1), row.get(2), row.get(5));
        let (Ok(from), Ok(to), Ok(bytes)) = (rank.try_into(), peer.try_into(), bytes.try_into()) else {
            continue;
        };
        found.insert(
            (rank, peer),
            PeerRow { job: row.get(0), rank: from, peer: to, time: row.get(3), epoch: row.get(4), bytes },
        );
    }
    Ok(found.into_values().collect())
}

/// The newest jobs, newest first.
///
/// # Errors
/// As [`rows_since`].
pub async fn jobs(client: &Client, limit: i64) -> anyhow::Result<Vec<JobRow>> {
    let query = "SELECT j.key, (SELECT count(DISTINCT r.rank) FROM job_rank r WHERE r.job_id = j.id), \
                 j.end_time IS NOT NULL OR NOT EXISTS \
                     (SELECT 1 FROM job_rank r WHERE r.job_id = j.id AND r.end_time IS NULL) \
                 FROM job j ORDER BY j.id DESC LIMIT $1";
    let rows = client.query(query, &[&limit]).await.context("reading jobs")?;
    Ok(rows.iter().map(|row| JobRow { key: row.get(0), ranks: row.get(1), has_ended: row.get(2) }).collect())
}

/// The links with the highest utilisation over the last `seconds`, busiest first.
///
/// # Errors
/// As [`rows_since`].
pub async fn busy_links(client: &Client, seconds: f64, limit: i64) -> anyhow::Result<Vec<BusyLink>> {
    let query = "SELECT guid, port, link_name, \
                 sum(transmit_bytes_per_second * interval_seconds) / sum(interval_seconds), \
                 sum(transmit_utilisation * interval_seconds) / sum(interval_seconds) AS utilisation, \
                 sum(transmit_wait_ratio * interval_seconds) \
                     / sum(interval_seconds) FILTER (WHERE transmit_wait_ratio IS NOT NULL) \
                 FROM ib_port_rates(now() - make_interval(secs => $1)) \
                 WHERE transmit_utilisation IS NOT NULL AND interval_seconds > 0 \
                 GROUP BY guid, port, link_name ORDER BY utilisation DESC, guid, port LIMIT $2";
    let rows = client.query(query, &[&seconds, &limit]).await.context("reading busy links")?;
    let link = |row: &tokio_postgres::Row| {
        let guid: Guid = row.get::<_, &str>(0).parse().ok()?;
        let port = PortId { guid, port: row.get::<_, i32>(1).try_into().ok()? };
        Some(BusyLink {
            port,
            name: row.get(2),
            bytes_per_second: row.get(3),
            utilisation: row.get(4),
            waiting: row.get(5),
        })
    };
    Ok(rows.iter().filter_map(link).collect())
}
