//! How unevenly a job's time and traffic lie over its ranks and pairs: what the findings are made of.

use crate::job::summary::{share, whole};
use crate::reader::SCHEMA;
use anyhow::Context;
use serde::Serialize;
use tokio_postgres::Client;

/// One rank's MPI over all operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankTotal {
    /// Its number.
    pub rank: i32,
    /// The node of its newest start.
    pub host: Option<String>,
    /// Calls.
    pub calls: u64,
    /// What it passed to send.
    pub bytes: u64,
    /// Time inside MPI.
    pub mpi_seconds: f64,
    /// From MPI_Init to its end or its newest row.
    pub observed_seconds: Option<f64>,
    /// The first divided by the second.
    pub mpi_time_share: Option<f64>,
}

/// Traffic of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// logical or wire.
    pub kind: String,
    /// Bytes of all pairs.
    pub bytes: u64,
    /// Messages of all pairs.
    pub messages: u64,
    /// Pairs with traffic.
    pub pairs: u64,
    /// Bytes between ranks of different nodes.
    pub between_nodes_bytes: u64,
    /// The pairs with most bytes.
    pub busiest: Vec<PairTotal>,
}

/// Traffic from one rank to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PairTotal {
    /// Who sent.
    pub from: i32,
    /// To whom.
    pub to: i32,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Whether both are on one node, as far as their nodes are known.
    pub same_node: Option<bool>,
}

const RANKS: &str = "
    SELECT t.rank, h.host, t.calls, t.bytes, coalesce(t.elapsed_seconds, 0) AS mpi_seconds, t.observed_seconds
    FROM mpi_rank_totals t
    LEFT JOIN (SELECT DISTINCT ON (rank) rank, host FROM job_rank WHERE job_id = $1
               ORDER BY rank, start_time DESC) h ON h.rank = t.rank
    WHERE t.job_id = $1 ORDER BY t.rank";

/// Pairs kept of each kind.
const BUSIEST: i64 = 3;

const TRAFFIC: &str = "
    WITH hosts AS MATERIALIZED (
        SELECT DISTINCT ON (rank) rank, host FROM job_rank WHERE job_id = $1 ORDER BY rank, start_time DESC
    ), pairs AS MATERIALIZED (
        SELECT p.kind, p.rank, p.peer, p.bytes, p.messages, s.host = d.host AS same_node,
               row_number() OVER (PARTITION BY p.kind ORDER BY p.bytes DESC, p.messages DESC, p.rank, p.peer) AS place
        FROM mpi_peer_totals p
        LEFT JOIN hosts s ON s.rank = p.rank
        LEFT JOIN hosts d ON d.rank = p.peer
        WHERE p.job_id = $1
    ), sums AS (
        SELECT kind, stored_total(sum(bytes)) AS all_bytes,
               stored_total(sum(messages)) AS all_messages, count(*) AS all_pairs,
               stored_total(coalesce(sum(bytes) FILTER (WHERE NOT same_node), 0)) AS between_bytes
        FROM pairs GROUP BY kind
    )
    SELECT s.*, p.rank, p.peer, p.bytes, p.messages, p.same_node
    FROM sums s JOIN pairs p ON p.kind = s.kind AND p.place <= $2
    ORDER BY s.kind, p.place";

/// Reads all ranks.
///
/// # Errors
/// The database is gone.
pub async fn ranks(client: &Client, id: i32) -> anyhow::Result<Vec<RankTotal>> {
    let mut ranks = Vec::new();
    for row in client.query(RANKS, &[&id]).await.context(SCHEMA)? {
        let (mpi_seconds, observed_seconds) =
            (row.try_get("mpi_seconds")?, row.try_get::<_, Option<f64>>("observed_seconds")?);
        ranks.push(RankTotal {
            rank: row.try_get("rank")?,
            host: row.try_get("host")?,
            calls: whole(&row, "calls")?.unwrap_or_default(),
            bytes: whole(&row, "bytes")?.unwrap_or_default(),
            mpi_seconds,
            observed_seconds,
            mpi_time_share: share(Some(mpi_seconds), observed_seconds),
        });
    }
    Ok(ranks)
}

/// Reads the traffic of each kind.
///
/// # Errors
/// The database is gone.
pub async fn traffic(client: &Client, id: i32) -> anyhow::Result<Vec<Traffic>> {
    let mut kinds: Vec<Traffic> = Vec::new();
    for row in client.query(TRAFFIC, &[&id, &BUSIEST]).await.context(SCHEMA)? {
        let kind: String = row.try_get("kind")?;
        if kinds.last().is_none_or(|last| last.kind != kind) {
            kinds.push(Traffic {
                kind,
                bytes: whole(&row, "all_bytes")?.unwrap_or_default(),
                messages: whole(&row, "all_messages")?.unwrap_or_default(),
                pairs: whole(&row, "all_pairs")?.unwrap_or_default(),
                between_nodes_bytes: whole(&row, "between_bytes")?.unwrap_or_default(),
                busiest: Vec::new(),
            });
        }
        if let Some(last) = kinds.last_mut() {
            last.busiest.push(PairTotal {
                from: row.try_get("rank")?,
                to: row.try_get("peer")?,
                bytes: whole(&row, "bytes")?.unwrap_or_default(),
                messages: whole(&row, "messages")?.unwrap_or_default(),
                same_node: row.try_get("same_node")?,
            });
        }
    }
    Ok(kinds)
}
