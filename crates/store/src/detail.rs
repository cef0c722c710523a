//! Requests for detail on demand: made within quotas, handed to the collectors that have the nodes' agents, and what became of
//! them. The records themselves come through the writer.
//!
//! Requests are in the database, so that any server takes one, and the collector that has the agent sends it.

mod alert;
mod live;
mod queue;
mod quota;
mod trigger;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use crate::error::Error;
use crate::turns::Turn;

pub use alert::{AlertLabels, AlertSubject, alert_subjects};
pub use live::{LIVE_SECONDS, LiveRequest, lift_job, live_request};
pub use queue::{DetailOrder, DetailPlace, DetailQueue};
pub use quota::{DetailLimits, DetailRefusal};
pub use trigger::{DetailTrigger, detail_triggers, end_detail_turn};

/// Key of the lock under which quotas are counted: "thrudetl" in ASCII.
const LOCK_KEY: i64 = 0x7468_7275_6465_746c;

/// In the place of a node: the crawler of the subnet that the requested ports are in.
pub(crate) const CRAWLER: i64 = 0;

/// Requests are deleted so long after they were made.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Why detail is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DetailReason {
    /// Somebody wants to look at it.
    Person,
    /// The job ended badly.
    JobEnd,
    /// A verdict was made that it can support.
    Verdict,
    /// An alert fires.
    Alert,
}

impl DetailReason {
    /// As in `detail_request.reason`.
    pub const fn name(self) -> &'static str {
        match self {
            DetailReason::Person => "person",
            DetailReason::JobEnd => "job_end",
            DetailReason::Verdict => "verdict",
            DetailReason::Alert => "alert",
        }
    }
}

/// What detail is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailSubject {
    /// A job's ranks, on all of its nodes.
    Job(i64),
    /// A node's ports and GPUs.
    Node(i64),
    /// The ports at both ends of a link.
    Link([i64; 2]),
}

/// A request to be made.
#[derive(Clone, Debug)]
pub struct NewDetail {
    /// Whose quota it counts against.
    pub requested_by: String,
    /// In whose turn the server requests it by itself: it then counts against what is left for others. `None` for what a person or
    /// an alert requests.
    pub turn: Option<Turn>,
    /// Why.
    pub reason: DetailReason,
    /// Of what.
    pub subject: DetailSubject,
    /// From then, milliseconds since 1970.
    pub from: i64,
    /// To before then.
    pub to: i64,
    /// Of cumulative records within so many seconds the last; 0 for all.
    pub resolution: f64,
}

/// Makes a request, if it is within the quotas. Returns its number.
///
/// # Errors
/// The database's.
pub async fn request_detail(
    client: &mut Client,
    new: &NewDetail,
    limits: &DetailLimits,
) -> Result<Result<i64, DetailRefusal>, Error> {
    let what = "requesting detail";
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    lock(&transaction).await?;
    let nodes = nodes(&transaction, new.subject).await?;
    let new = &NewDetail { turn: quota::best_turn(&transaction, new).await?, ..new.clone() };
    if let Err(refusal) = limits.check(&transaction, new, nodes.len()).await? {
        return Ok(Err(refusal));
    }
    let job = match new.subject {
        DetailSubject::Job(job) => Some(job),
        DetailSubject::Node(_) | DetailSubject::Link(_) => None,
    };
    let wait = limits.wait.as_secs_f64();
    let records_max = i64::try_from(limits.records_of_node()).unwrap_or(i64::MAX);
    let id = insert(&transaction, new, job, records_max, wait).await?;
    add_nodes(&transaction, id, &nodes).await?;
    let old = "DELETE FROM internal.detail_request WHERE requested_at < (SELECT internal.expiry_time()) - make_interval(secs => $1)";
    transaction.execute(old, &[&KEPT.as_secs_f64()]).await.map_err(Error::sql(what))?;
    transaction.commit().await.map_err(Error::sql(what))?;
    Ok(Ok(id))
}

/// Two servers count quotas one after the other.
async fn lock(transaction: &Transaction<'_>) -> Result<(), Error> {
    let locked = transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK_KEY]).await;
    locked.map(drop).map_err(Error::sql("waiting for other requests for detail"))
}

/// Nodes that have it.
async fn nodes(transaction: &Transaction<'_>, subject: DetailSubject) -> Result<Vec<i64>, Error> {
    let job = match subject {
        DetailSubject::Node(node) => return Ok(vec![node]),
        DetailSubject::Link(_) => return Ok(vec![CRAWLER]),
        DetailSubject::Job(job) => job,
    };
    let query =
        "SELECT DISTINCT node_id FROM internal.job_rank WHERE job_id = $1 AND node_id IS NOT NULL ORDER BY 1";
    let rows =
        transaction.query(query, &[&job]).await.map_err(Error::sql("looking for the nodes of a job"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn insert(
    transaction: &Transaction<'_>,
    new: &NewDetail,
    job: Option<i64>,
    records_max: i64,
    wait: f64,
) -> Result<i64, Error> {
    let insert = "INSERT INTO internal.detail_request (requested_by, reason, job_id, since, until, resolution_seconds, records_max, \
                  expires_at, ib_port_ids, node_id, uid) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8), $9, $10, $11) RETURNING id";
    let ports = match new.subject {
        DetailSubject::Link(ports) => Some(ports.to_vec()),
        DetailSubject::Job(_) | DetailSubject::Node(_) => None,
    };
    let (since, until) = (moment(new.from), moment(new.to));
    let reason = new.reason.name();
    let (node, owner) = new.turn.map(|turn| (turn.node_id, turn.uid)).unzip();
    let values: [&(dyn ToSql + Sync); 11] = [
        &new.requested_by,
        &reason,
        &job,
        &since,
        &until,
        &new.resolution,
        &records_max,
        &wait,
        &ports,
        &node,
        &owner,
    ];
    let row = transaction.query_one(insert, &values).await;
    Ok(row.map_err(Error::sql("requesting detail"))?.get(0))
}

async fn add_nodes(transaction: &Transaction<'_>, id: i64, nodes: &[i64]) -> Result<(), Error> {
    let insert = "INSERT INTO internal.detail_request_node (request_id, node_id) SELECT $1, unnest($2::bigint[]) \
                  ON CONFLICT (request_id, node_id) DO NOTHING";
    let added = transaction.execute(insert, &[&id, &nodes]).await;
    added.map(drop).map_err(Error::sql("requesting detail of nodes"))
}

fn moment(milliseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
