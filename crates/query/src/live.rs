//! Figures of now of a job that somebody looks at: which of its nodes have sent them, and as of when.

use crate::time::milliseconds;
use std::time::SystemTime;
use throughline_api::as_of::NodeBehind;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// A node's newest row that is older does not count as of now, milliseconds: a row each second is in the database after one.
pub const FRESH_MS: i64 = 3000;

/// A job as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownJob {
    /// Its number in the tables.
    pub id: i64,
    /// All of its ranks have ended.
    pub has_ended: bool,
}

/// The job with this key, without all that a page has of it.
///
/// # Errors
/// The database's.
pub async fn job(client: &Client, key: &str) -> Result<Option<ShownJob>, Error> {
    let sql = "SELECT id, end_time IS NOT NULL FROM internal.run_visible WHERE key = $1";
    let row = client.query_opt(sql, &[&key]).await.map_err(Error::sql("looking for a job"))?;
    Ok(row.map(|row| ShownJob { id: row.get(0), has_ended: row.get(1) }))
}

/// What the nodes of a job have sent of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveNodes {
    /// Nodes that were requested.
    pub nodes: u64,
    /// All nodes that answer have sent their sums up to this time, a whole second; `None` while none has.
    pub as_of: Option<i64>,
    /// Those that do not answer, with the time of their newest sums.
    pub absent: Vec<NodeBehind>,
}

/// A node's name, and up to when the database has what it counted of the job, in milliseconds.
type NodeRow = (String, Option<i64>);

impl LiveNodes {
    fn new(rows: Vec<NodeRow>, now: i64) -> Self {
        let mut all = LiveNodes { nodes: rows.len() as u64, ..LiveNodes::default() };
        for (node, newest) in rows {
            match newest {
                Some(time) if time >= now - FRESH_MS => {
                    all.as_of = Some(all.as_of.map_or(time, |as_of| as_of.min(time)));
                }
                time_ms => all.absent.push(NodeBehind { node, time_ms }),
            }
        }
        all.as_of = all.as_of.map(|time| time.min(now).div_euclid(1000) * 1000);
        all.absent.sort_by(|one, other| (one.time_ms, &one.node).cmp(&(other.time_ms, &other.node)));
        all
    }
}

/// What the nodes of a live request have sent.
///
/// # Errors
/// The database's.
pub async fn nodes(client: &Client, job: i64, request: i64) -> Result<LiveNodes, Error> {
    let what = "reading which nodes of a job answer";
    let sql = "SELECT k.name, n.node_id, c.folded_until, clock_timestamp()
               FROM internal.detail_request_node n JOIN internal.node_key k ON k.id = n.node_id
               LEFT JOIN internal.run_claim c ON c.job_id = $1 AND c.node_id = n.node_id
               WHERE n.request_id = $2 AND n.state <> 'done'";
    let rows = client.query(sql, &[&job, &request]).await.map_err(Error::sql(what))?;
    let Some(now) = rows.last().map(|row| milliseconds(row.get(3))) else { return Ok(LiveNodes::default()) };
    let newest = |row: &Row| (row.get(0), row.get::<_, Option<SystemTime>>(2).map(milliseconds));
    let mut all = LiveNodes::new(rows.iter().map(newest).collect(), now);
    if !all.absent.is_empty() {
        let is_absent = |row: &&Row| all.absent.iter().any(|one| one.node == row.get::<_, &str>(0));
        let absent: Vec<i64> = rows.iter().filter(is_absent).map(|row| row.get(1)).collect();
        let running = running(client, job, absent).await?;
        let is_running = |host: &str| {
            rows.iter().any(|row| row.get::<_, &str>(0) == host && running.contains(&row.get(1)))
        };
        let before = all.absent.len();
        all.absent.retain(|one| is_running(&one.node));
        all.nodes -= (before - all.absent.len()) as u64;
    }
    Ok(all)
}

/// Those of some nodes on which ranks of the job run: where they have just ended nothing more is sent.
async fn running(client: &Client, job: i64, nodes: Vec<i64>) -> Result<Vec<i64>, Error> {
    let sql = "SELECT DISTINCT node_id FROM internal.rank_claim WHERE job_id = $1 AND node_id = ANY($2) AND end_time IS NULL";
    let rows = client.query(sql, &[&job, &nodes]).await;
    let rows = rows.map_err(Error::sql("looking for the nodes of a job that runs"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_all_nodes_that_answer_and_others_are_named_with_theirs() {
        let now = 100_000;
        let row = |host: &str, newest| (host.to_owned(), newest);
        let absent = |node: &str, time_ms| NodeBehind { node: node.to_owned(), time_ms };
        assert_eq!(LiveNodes::new(Vec::new(), now), LiveNodes::default());
        let rows = vec![
            row("n1", Some(98_900)),
            row("n2", Some(98_100)),
            row("n3", Some(90_000)),
            row("n4", None),
            row("n5", Some(100_700)),
        ];
        let all = LiveNodes::new(rows, now);
        assert_eq!((all.nodes, all.as_of), (5, Some(98_000)));
        assert_eq!(all.absent, [absent("n4", None), absent("n3", Some(90_000))]);
        let none = LiveNodes::new(vec![row("n1", Some(96_999))], now);
        assert_eq!((none.as_of, none.absent.len()), (None, 1));
        assert_eq!(LiveNodes::new(vec![row("ahead", Some(170_500))], now).as_of, Some(now));
    }
}
