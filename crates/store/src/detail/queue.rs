//! What collectors do with requests: they send those that are open to the agents that they are connected to, and end those
//! that have expired.

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, Row};

use crate::{Database, Error};

/// Time for one statement.
const LIMIT: Duration = Duration::from_secs(5);

/// Open requests that are read at once: the quota of nodes is far below.
const ORDERS_MAX: i64 = 100_000;

/// A request that is open on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailOrder {
    /// The request.
    pub id: i64,
    /// The node.
    pub node: String,
    /// Of this job; `None` for the node's ports and GPUs.
    pub job_key: Option<String>,
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
    /// No collector has sent it.
    pub is_new: bool,
}

/// The requests, through one connection.
pub struct DetailQueue {
    database: Database,
    client: Option<Client>,
}

impl DetailQueue {
    /// Connects with the first call.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database, client: None }
    }

    /// All requests that are open.
    ///
    /// # Errors
    /// The database is away, or refuses.
    pub async fn open(&mut self) -> Result<Vec<DetailOrder>, Error> {
        const SQL: &str = "
            SELECT r.id, k.name, j.key, r.since, r.until, r.resolution_seconds, r.records_max, r.expires_at, r.reason = 'live',
                   n.state = 'waiting'
            FROM detail_request_node n JOIN detail_request r ON r.id = n.request_id
            JOIN node_key k ON k.id = n.node_id LEFT JOIN job j ON j.id = r.job_id
            WHERE n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at > now() ORDER BY r.id LIMIT $1";
        let rows = self.with(async |client| client.query(SQL, &[&ORDERS_MAX]).await).await?;
        Ok(rows.iter().map(order).collect())
    }

    /// Notes that requests were sent to nodes.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn note_sent(&mut self, sent: &[(i64, String)]) -> Result<(), Error> {
        const SQL: &str = "
            UPDATE detail_request_node n SET state = 'sent', sent_at = clock_timestamp()
            FROM unnest($1::bigint[], $2::text[]) w (id, node) JOIN node_key k ON k.name = w.node
            WHERE n.request_id = w.id AND n.node_id = k.id AND n.state = 'waiting'";
        let (ids, nodes): (Vec<i64>, Vec<&str>) = sent.iter().map(|(id, node)| (*id, node.as_str())).unzip();
        self.with(async |client| client.execute(SQL, &[&ids, &nodes]).await).await.map(drop)
    }

    /// Notes that agents do not understand requests.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn refuse(&mut self, refused: &[(i64, String)]) -> Result<(), Error> {
        const SQL: &str = "
            UPDATE detail_request_node n SET state = 'refused', refusal = 'agent', done_at = clock_timestamp(),
                   remark = 'the agent of this node has no recorder: upgrade throughline-agent there'
            FROM unnest($1::bigint[], $2::text[]) w (id, node) JOIN node_key k ON k.name = w.node
            WHERE n.request_id = w.id AND n.node_id = k.id AND n.state = 'waiting'";
        let (ids, nodes): (Vec<i64>, Vec<&str>) =
            refused.iter().map(|(id, node)| (*id, node.as_str())).unzip();
        self.with(async |client| client.execute(SQL, &[&ids, &nodes]).await).await.map(drop)
    }

    /// Ends requests that have expired.
    ///
    /// # Errors
    /// As [`DetailQueue::open`].
    pub async fn expire(&mut self) -> Result<u64, Error> {
        const SQL: &str = "
            UPDATE detail_request_node n SET done_at = clock_timestamp(),
                state = CASE WHEN r.reason = 'live' THEN 'done' WHEN n.state = 'receiving' THEN 'incomplete' ELSE 'expired' END,
                refusal = CASE WHEN r.reason = 'live' THEN NULL ELSE 'expired' END,
                remark = CASE WHEN r.reason = 'live' THEN NULL
                              WHEN n.state = 'waiting' THEN 'no collector was connected to an agent of this node'
                              ELSE 'the agent did not answer in time' END
            FROM detail_request r
            WHERE r.id = n.request_id AND n.state IN ('waiting', 'sent', 'receiving') AND r.expires_at <= now() - interval '5 s'";
        self.with(async |client| client.execute(SQL, &[]).await).await
    }

    async fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let what = "reading requests for detail";
        let all = async {
            let client = match self.client.take() {
                Some(client) if !client.is_closed() => client,
                _ => self.database.connect().await?,
            };
            let done = work(&client).await.map_err(Error::sql(what))?;
            self.client = Some(client);
            Ok(done)
        };
        let answer = tokio::time::timeout(LIMIT, all).await;
        answer.unwrap_or_else(|_| Err(Error::late(what, LIMIT.as_secs())))
    }
}

fn order(row: &Row) -> DetailOrder {
    DetailOrder {
        id: row.get(0),
        node: row.get(1),
        job_key: row.get(2),
        from: row.get(3),
        to: row.get(4),
        resolution: row.get(5),
        records_max: u64::try_from(row.get::<_, i64>(6)).unwrap_or(0),
        expires: row.get(7),
        is_live: row.get(8),
        is_new: row.get(9),
    }
}
