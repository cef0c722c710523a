//! What collectors do with requests: they send those that are open to the agents and crawlers that they are connected to, and end those
//! that have expired.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use throughline_sample::Guid;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::Database;
use crate::error::Error;
use crate::lazy_connection::LazyConnection;

/// Time for one statement.
const LIMIT: Duration = Duration::from_secs(5);

/// What is done, for errors.
const WHAT: &str = "reading requests for detail";

/// Open requests that are read at once: the quota of nodes is far below.
const ORDERS_MAX: i64 = 100_000;

/// Who has what is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetailPlace {
    /// The agent of a node.
    Node(String),
    /// The crawler that has the term of the ports' fabric, by its spool.
    Crawler(Uuid),
}

/// A request that is open on a node or with a crawler.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailOrder {
    /// The request.
    pub id: i64,
    /// The node, as the database numbers them.
    pub node: i64,
    /// Who is to answer.
    pub place: DetailPlace,
    /// Of this job; `None` for the node's ports and GPUs, or ports of the fabric.
    pub job_key: Option<String>,
    /// Of these ports of the fabric: the node's GUID and the number.
    pub ports: Vec<(u64, u32)>,
    /// From then.
    pub from: SystemTime,
    /// To before then.
    pub to: SystemTime,
    /// Seconds; 0 for all records.
    pub resolution: f64,
    /// Most records of this node.
    pub records_max: u64,
    /// Given up then.
    pub expires: SystemTime,
    /// The job is shown live: nothing of the recorder.
    pub is_live: bool,
    /// Then these ranks have rows of their own.
    pub ranks: Arc<[u32]>,
    /// And all of the node have.
    pub is_all_ranks: bool,
    /// No collector has sent it.
    pub is_new: bool,
}

/// The requests, through one connection.
pub struct DetailQueue {
    connection: LazyConnection,
}

impl DetailQueue {
    /// Connects with the first call.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { connection: LazyConnection::new(database) }
    }

    /// All requests that are open.
    ///
    /// # Errors
    /// The database is away, or refuses.
    pub async fn open(&mut self) -> Result<Vec<DetailOrder>, Error> {
        const SQL: &str = "
            SELECT r.id, n.node_id, j.key, r.since, r.until, r.resolution_seconds, r.records_max, r.expires_at, r.reason = 'live',
                   n.state = 'waiting', k.name, p.crawler, p.guids, p.ports, coalesce(n.ranks_until > now(), false)
            FROM internal.detail_request_node n JOIN internal.detail_request r ON r.id = n.request_id
            LEFT JOIN internal.node_key k ON k.id = n.node_id LEFT JOIN internal.run j ON j.id = r.job_id
            LEFT JOIN LATERAL (
                SELECT (SELECT t.crawler FROM internal.crawler_term t WHERE t.fabric_id = min(i.fabric_id) AND t.ended_at IS NULL) AS crawler,
                       array_agg(i.guid ORDER BY q.id) AS guids, array_agg(q.port ORDER BY q.id) AS ports
                FROM internal.ib_port_key q JOIN internal.ib_node_key i ON i.id = q.ib_node_id
                WHERE q.id = ANY(r.ib_port_ids)
            ) p ON r.ib_port_ids IS NOT NULL
            WHERE n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at > now() ORDER BY r.id LIMIT $1";
        // The ranks of a live request are the same on all of its nodes.
        const RANKS: &str = "
            SELECT id, ranks FROM internal.detail_request WHERE reason = 'live' AND expires_at > now() AND ranks IS NOT NULL";
        let (rows, ranks) = self
            .connection
            .with(WHAT, LIMIT, async |client| {
                Ok((client.query(SQL, &[&ORDERS_MAX]).await?, client.query(RANKS, &[]).await?))
            })
            .await?;
        let of_request = |row: &Row| {
            let ranks: Vec<i32> = row.get(1);
            (row.get(0), ranks.into_iter().filter_map(|rank| u32::try_from(rank).ok()).collect())
        };
        let ranks: HashMap<i64, Arc<[u32]>> = ranks.iter().map(of_request).collect();
        Ok(rows.iter().filter_map(|row| order(row, &ranks)).collect())
    }

    /// Notes that requests were sent to nodes.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn note_sent(&mut self, sent: &[(i64, i64)]) -> Result<(), Error> {
        const SQL: &str = "
            UPDATE internal.detail_request_node n SET state = 'sent', sent_at = clock_timestamp()
            FROM unnest($1::bigint[], $2::bigint[]) w (id, node)
            WHERE n.request_id = w.id AND n.node_id = w.node AND n.state = 'waiting'";
        let (ids, nodes): (Vec<i64>, Vec<i64>) = sent.iter().copied().unzip();
        self.connection
            .with(WHAT, LIMIT, async |client| client.execute(SQL, &[&ids, &nodes]).await)
            .await
            .map(drop)
    }

    /// Notes that agents or crawlers do not understand requests.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn refuse(&mut self, refused: &[(i64, i64)]) -> Result<(), Error> {
        const SQL: &str = "
            UPDATE internal.detail_request_node n SET state = 'refused', refusal = 'agent', done_at = clock_timestamp(),
                   remark = CASE WHEN n.node_id = 0 THEN 'the crawler of this fabric has no recorder: upgrade throughline-fabric there'
                                 ELSE 'the agent of this node has no recorder: upgrade throughline-agent there' END
            FROM unnest($1::bigint[], $2::bigint[]) w (id, node)
            WHERE n.request_id = w.id AND n.node_id = w.node AND n.state = 'waiting'";
        let (ids, nodes): (Vec<i64>, Vec<i64>) = refused.iter().copied().unzip();
        self.connection
            .with(WHAT, LIMIT, async |client| client.execute(SQL, &[&ids, &nodes]).await)
            .await
            .map(drop)
    }

    /// Ends requests that have expired.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn expire(&mut self) -> Result<u64, Error> {
        const SQL: &str = "
            UPDATE internal.detail_request_node n SET done_at = clock_timestamp(),
                state = CASE WHEN r.reason = 'live' THEN 'done' WHEN n.state = 'receiving' THEN 'incomplete' ELSE 'expired' END,
                refusal = CASE WHEN r.reason = 'live' THEN NULL ELSE 'expired' END,
                remark = CASE WHEN r.reason = 'live' THEN NULL
                              WHEN n.state = 'waiting' AND n.node_id = 0 THEN 'no collector was connected to a crawler of this fabric'
                              WHEN n.state = 'waiting' THEN 'no collector was connected to an agent of this node'
                              WHEN n.node_id = 0 THEN 'the crawler did not answer in time'
                              ELSE 'the agent did not answer in time' END
            FROM internal.detail_request r
            WHERE r.id = n.request_id AND n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at <= now() - interval '5 s'";
        self.connection.with(WHAT, LIMIT, async |client| client.execute(SQL, &[]).await).await
    }
}

/// `None` where nobody can be found who has it: the node or the ports are gone from the database.
fn order(row: &Row, ranks: &HashMap<i64, Arc<[u32]>>) -> Option<DetailOrder> {
    let node: Option<String> = row.get(10);
    let crawler = || row.get::<_, Option<Uuid>>(11).map(DetailPlace::Crawler);
    let place = node.map(DetailPlace::Node).or_else(crawler)?;
    let guids = row.get::<_, Option<Vec<String>>>(12).unwrap_or_default();
    let numbers = row.get::<_, Option<Vec<i32>>>(13).unwrap_or_default();
    let port =
        |(guid, number): (String, i32)| Some((guid.parse::<Guid>().ok()?.0, u32::try_from(number).ok()?));
    Some(DetailOrder {
        id: row.get(0),
        node: row.get(1),
        place,
        job_key: row.get(2),
        ports: guids.into_iter().zip(numbers).filter_map(port).collect(),
        from: row.get(3),
        to: row.get(4),
        resolution: row.get(5),
        records_max: u64::try_from(row.get::<_, i64>(6)).unwrap_or(0),
        expires: row.get(7),
        is_live: row.get(8),
        ranks: ranks.get(&row.get(0)).cloned().unwrap_or_default(),
        is_all_ranks: row.get(14),
        is_new: row.get(9),
    })
}
