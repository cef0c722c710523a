//! The table of links: host ports, NVLinks and fabric ports of a job's nodes while it ran.

use crate::job::summary::whole;
use crate::reader::SCHEMA;
use crate::text::{ABSENT, Table, bytes, clean, middle_cut, percent};
use anyhow::Context;
use serde::Serialize;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Most links on the page, the hottest first; all are in the JSON document.
const LINKS_SHOWN: usize = 10;

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// host (read in sysfs), fabric (the same or another adapter read with MADs) or nvlink.
    pub kind: String,
    /// The job's node.
    pub node: String,
    /// Its name.
    pub link: String,
    /// out of the node or GPU, or in.
    pub direction: String,
    /// Speed of one direction.
    pub rate_bytes_per_second: Option<u64>,
    /// Bytes while the job ran, others' included.
    pub bytes: f64,
    /// Rate that was not exceeded in 95 % of the time.
    pub p95_bytes_per_second: Option<f64>,
    /// Highest rate between two readings.
    pub max_bytes_per_second: Option<f64>,
    /// The first as a share of the link's speed.
    pub p95_utilisation: Option<f64>,
    /// The second as a share of the link's speed.
    pub max_utilisation: Option<f64>,
    /// Readings that this is made of.
    pub readings: u64,
}

const LINKS: &str = "
    SELECT * FROM job_links($1)
    ORDER BY max_utilisation DESC NULLS LAST, max_bytes_per_second DESC, kind, node_name, link, direction";

/// Reads them, the hottest first; `None` where that takes longer than `seconds`: every reading of every link of every
/// node is looked at, and of a large job of many hours those are very many. 0 does not begin.
///
/// # Errors
/// The database is gone.
pub async fn read(client: &Client, id: i32, seconds: u32) -> anyhow::Result<Option<Vec<Link>>> {
    if seconds == 0 {
        return Ok(None);
    }
    client.batch_execute(&format!("SET statement_timeout = '{seconds}s'")).await.context(SCHEMA)?;
    let rows = client.query(LINKS, &[&id]).await;
    client.batch_execute("RESET statement_timeout").await.context(SCHEMA)?;
    let rows = match rows {
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => return Ok(None),
        rows => rows.context(SCHEMA)?,
    };
    let mut links = Vec::new();
    for row in rows {
        links.push(Link {
            kind: row.try_get("kind")?,
            node: row.try_get("node_name")?,
            link: row.try_get("link")?,
            direction: row.try_get("direction")?,
            rate_bytes_per_second: whole(&row, "rate_bytes_per_second")?,
            bytes: row.try_get("bytes")?,
            p95_bytes_per_second: row.try_get("p95_bytes_per_second")?,
            max_bytes_per_second: row.try_get("max_bytes_per_second")?,
            p95_utilisation: row.try_get("p95_utilisation")?,
            max_utilisation: row.try_get("max_utilisation")?,
            readings: whole(&row, "readings")?.unwrap_or_default(),
        });
    }
    Ok(Some(links))
}

/// The table as lines.
pub fn text(links: &[Link], width: usize) -> String {
    let mut table = Table::new(&["LINK", "WAY", "<P95", "<MAX", "<OF SPEED P95", "<MAX", "<BYTES"]);
    let rate =
        |rate: Option<f64>| rate.map_or(ABSENT.to_owned(), |rate| format!("{}/s", bytes(amount(rate))));
    for link in links.iter().take(LINKS_SHOWN) {
        table.row(vec![
            middle_cut(&clean(&name(link), 200), width.saturating_sub(60).max(16)),
            link.direction.clone(),
            rate(link.p95_bytes_per_second),
            rate(link.max_bytes_per_second),
            percent(link.p95_utilisation),
            percent(link.max_utilisation),
            bytes(amount(link.bytes)),
        ]);
    }
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    if links.len() > LINKS_SHOWN {
        text.push_str(&format!("  and {} directions of links with less\n", links.len() - LINKS_SHOWN));
    }
    text
}

/// `n1 mlx5_0 port 1`, `n1 GPU 0 link 3`; a fabric link is named by both of its ends.
pub fn name(link: &Link) -> String {
    match link.kind.as_str() {
        "fabric" => link.link.clone(),
        _ => format!("{} {}", link.node, link.link),
    }
}

/// A sum of bytes that was made of rates.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative, and rounded
pub fn amount(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}
