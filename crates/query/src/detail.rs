//! Detail on demand: requests for what the recorders of agents and crawlers have, and what became of them.

use crate::time::milliseconds;
use std::time::SystemTime;
use throughline_api::detail::{DetailNode, DetailRequest};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// Which detail requests are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestScope {
    /// A job.
    Job(i64),
    /// A node's ports and GPUs.
    Node(i64),
    /// A link, by the ports at its ends.
    Link([i64; 2]),
    /// Whatever alerts named.
    Alerts,
}

/// The node with this name.
///
/// # Errors
/// The database's.
pub async fn node(client: &Client, host: &str) -> Result<Option<i64>, Error> {
    let row = client.query_opt("SELECT id FROM internal.node_key WHERE name = $1", &[&host]).await;
    Ok(row.map_err(Error::sql("looking for a node"))?.map(|row| row.get(0)))
}

/// How finely a job's detail of this time, milliseconds since 1970 from begin to end, was fetched: milliseconds of a bin. None where
/// none of all of it was.
///
/// # Errors
/// The database's.
pub async fn covers(client: &Client, job: i64, from: i64, to: i64) -> Result<Option<i64>, Error> {
    let sql = format!(
        "SELECT min(greatest(r.resolution_seconds, 0.1) * 1000)::bigint FROM internal.detail_request r \
         WHERE r.job_id = $1 AND r.reason <> 'live' AND r.since <= {from} AND r.until >= {to} \
           AND EXISTS (SELECT 1 FROM internal.detail_request_node n WHERE n.request_id = r.id AND n.records > 0)",
        from = moment(from),
        to = moment(to),
    );
    let row = client.query_one(&sql, &[&job]).await.map_err(Error::sql("looking for detail of a job"))?;
    Ok(row.get(0))
}

/// Requests, the newest first; only the one with this number where it is given.
///
/// # Errors
/// The database's.
pub async fn requests(
    client: &Client,
    of: RequestScope,
    id: Option<i64>,
    limit: usize,
) -> Result<Vec<DetailRequest>, Error> {
    const SQL: &str = "
        WITH wanted AS (
            SELECT r.* FROM internal.detail_request r
            WHERE ($3::bigint IS NULL OR r.id = $3)
              AND (($1::bigint IS NOT NULL AND r.job_id = $1)
                OR ($5::bigint[] IS NOT NULL AND r.ib_port_ids && $5)
                OR ($1::bigint IS NULL AND $2::bigint IS NULL AND $5::bigint[] IS NULL AND r.reason = 'alert')
                OR ($2::bigint IS NOT NULL AND r.job_id IS NULL AND EXISTS (
                        SELECT 1 FROM internal.detail_request_node m WHERE m.request_id = r.id AND m.node_id = $2)))
            ORDER BY r.id DESC LIMIT $4
        )
        SELECT r.id, r.requested_at, r.requested_by, r.reason, r.since, r.until, r.resolution_seconds, r.expires_at,
               r.expires_at <= now(), CASE WHEN n.node_id = 0 THEN 'crawler' ELSE k.name END, n.state, n.records, n.recorded_from, n.damaged, n.refusal, n.remark, n.done_at
        FROM wanted r LEFT JOIN internal.detail_request_node n ON n.request_id = r.id LEFT JOIN internal.node_key k ON k.id = n.node_id
        ORDER BY r.id DESC, k.name";
    let (job, node) = match of {
        RequestScope::Job(job) => (Some(job), None),
        RequestScope::Node(node) => (None, Some(node)),
        RequestScope::Link(_) | RequestScope::Alerts => (None, None),
    };
    let ports = if let RequestScope::Link(ports) = of { Some(ports.to_vec()) } else { None };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = client.query(SQL, &[&job, &node, &id, &limit, &ports]).await;
    let rows = rows.map_err(Error::sql("listing requests for detail"))?;
    let mut requests: Vec<DetailRequest> = Vec::new();
    for row in &rows {
        let id: i64 = row.get(0);
        if requests.last().is_none_or(|last| last.id != id) {
            requests.push(request(row));
        }
        if let (Some(last), Some(host)) = (requests.last_mut(), row.get::<_, Option<String>>(9)) {
            let one = of_node(row, host);
            last.is_open |= matches!(one.state.as_str(), "waiting" | "sent" | "receiving");
            last.records += one.records;
            last.nodes.push(one);
        }
    }
    Ok(requests)
}

fn request(row: &Row) -> DetailRequest {
    DetailRequest {
        id: row.get(0),
        requested_ms: milliseconds(row.get(1)),
        requested_by: row.get(2),
        reason: row.get(3),
        from_ms: milliseconds(row.get(4)),
        to_ms: milliseconds(row.get(5)),
        resolution_seconds: row.get(6),
        expires_ms: milliseconds(row.get(7)),
        is_open: false,
        records: 0,
        nodes: Vec::new(),
    }
}

fn of_node(row: &Row, host: String) -> DetailNode {
    let time = |column: usize| row.get::<_, Option<SystemTime>>(column).map(milliseconds);
    let (state, is_over): (String, bool) = (row.get(10), row.get(8));
    // A collector notes it within a few seconds.
    let state = match state.as_str() {
        "waiting" | "sent" | "receiving" if is_over => "expired".to_owned(),
        _ => state,
    };
    DetailNode {
        host,
        state,
        records: row.get(11),
        recorded_from_ms: time(12),
        damaged: row.get(13),
        refusal: row.get(14),
        remark: row.get(15),
        done_ms: time(16),
    }
}
