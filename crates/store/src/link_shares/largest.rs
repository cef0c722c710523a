//! The largest contributors of the newest windows, with names: for series in `/metrics`.

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, Row};

use super::{micros, moment};
use crate::error::Error;

/// Windows older than that are not read any more: what made them was away for longer, and counters may have gaps.
const BACK: Duration = Duration::from_secs(120);

/// A contributor with a smaller part of what was counted is no cause.
const LEAST_SHARE: f64 = 0.01;

/// Bytes of a contributor, or of all (`rest`), that a port sent in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkContribution {
    /// End of the window.
    pub time: SystemTime,
    /// GUID of the switch that sends, or of the adapter's port, as series of the fabric have it.
    pub guid: String,
    /// Its port.
    pub port: i32,
    /// job, group or host; rest stands for the port itself.
    pub contributor: String,
    /// Of a job: the scheduler's id, or the key.
    pub job: Option<String>,
    /// Of a job: its key.
    pub job_key: Option<String>,
    /// Of a job.
    pub user: Option<String>,
    /// Of a job.
    pub operation: Option<String>,
    /// Of a group or host.
    pub name: Option<String>,
    /// measured, modelled, logical, unreported or bound.
    pub known: String,
    /// Bytes in the window.
    pub bytes: u64,
    /// What the port counted in the window.
    pub counted: u64,
}

/// How far windows are made.
///
/// # Errors
/// The database's.
pub async fn link_shares_made_until(client: &Client) -> Result<Option<SystemTime>, Error> {
    let row = client.query_one("SELECT computed_until FROM internal.link_share_state", &[]).await;
    Ok(row.map_err(Error::sql(WHAT))?.get(0))
}

const WHAT: &str = "reading the largest contributors of links";

/// Contributions in windows that end after `after` and until `until`, at most two minutes back: of each port and window its
/// `rest` row, and so many of the largest contributors. In the order of time, the largest first.
///
/// # Errors
/// The database's.
pub async fn largest_contributions(
    client: &Client,
    after: SystemTime,
    until: SystemTime,
    contributors: i64,
) -> Result<Vec<LinkContribution>, Error> {
    let after = after.max(until - BACK);
    // `guid` as the crawler's page has it: of an adapter's port its own.
    let sql = format!(
        "SELECT time,
                coalesce((SELECT nullif(b.port_guid, '0x0000000000000000') FROM internal.ib_port b
                          JOIN internal.ib_node n ON n.ib_node_id = b.ib_node_id AND n.valid_to IS NULL AND n.type <> 'switch'
                          WHERE b.port_id = c.port_id AND b.valid_to IS NULL), guid) AS guid,
                port, contributor, job, job_key, user_name, operation, name, known, bytes, counted_bytes
         FROM (SELECT c.*, row_number() OVER (PARTITION BY c.time, c.port_id
                                              ORDER BY c.contributor = 'rest' DESC, c.bytes DESC) AS place
               FROM public.link_contributors c
               WHERE c.time > {} AND c.time <= {} AND c.contributor <> 'other' AND c.counted_bytes > 0
                 AND (c.contributor = 'rest' OR c.bytes >= {LEAST_SHARE} * c.counted_bytes)) c
         WHERE place <= $1::bigint + 1 ORDER BY time, bytes DESC, c.port_id",
        moment(micros(after)),
        moment(micros(until)),
    );
    let rows = client.query(&sql, &[&contributors]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(contribution).collect())
}

fn contribution(row: &Row) -> LinkContribution {
    LinkContribution {
        time: row.get(0),
        guid: row.get(1),
        port: row.get(2),
        contributor: row.get(3),
        // A job that is gone has no key.
        job: row.get(4),
        job_key: row.get(5),
        user: row.get(6),
        operation: row.get(7),
        name: row.get(8),
        known: row.get(9),
        bytes: u64::try_from(row.get::<_, i64>(10)).unwrap_or(0),
        counted: u64::try_from(row.get::<_, i64>(11)).unwrap_or(0),
    }
}
