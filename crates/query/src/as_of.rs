//! As of when figures of a running job are: one rule for all that read them.
//!
//! Sums of a job are of the newest whole ten seconds that ended at least 4 s ago, from the rows of its nodes, which come each ten seconds.
//! A node that is behind does not hold the time back: its newest figures are in the sums, and it is named. What needs rows of single
//! ranks, which come less often, is as of those, and says so. Of a job that has ended figures are final and have no such time.

use crate::time::milliseconds;
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_sample::to_rfc3339;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// Most nodes that are behind and named in a sentence.
const NODES_NAMED: usize = 3;

/// As of when all figures of an answer on a job are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsOf {
    /// The time that is stated.
    pub until: SystemTime,
    /// Sums are from rows of nodes, else from those of ranks.
    pub(crate) is_of_nodes: bool,
    pub(crate) nodes: Vec<NodeTime>,
}

/// A node of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeTime {
    pub id: i64,
    name: String,
    /// As of when its figures are; `None` where nothing is known of it.
    pub time: Option<SystemTime>,
}

impl AsOf {
    /// Rows after this are left out.
    pub(crate) fn latest(&self) -> SystemTime {
        self.nodes.iter().filter_map(|node| node.time).chain([self.until]).max().unwrap_or(self.until)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn milliseconds(&self) -> i64 {
        milliseconds(self.until)
    }

    /// `as of 2026-11-28 14:02:30 UTC`, with what is behind.
    #[must_use]
    pub fn words(&self) -> String {
        let second = |time: SystemTime| {
            let text = to_rfc3339(milliseconds(time).saturating_mul(1_000_000));
            text.get(..19).map_or_else(String::new, |text| text.replace('T', " ") + " UTC")
        };
        let behind = |node: &&NodeTime| node.time.is_none_or(|time| time < self.until);
        let node = |node: &NodeTime| {
            node.time.map_or_else(
                || format!(", nothing of {} yet", node.name),
                |time| format!(", {} as of {}", node.name, second(time)),
            )
        };
        let (named, count) = (self.nodes.iter().filter(behind), self.nodes.iter().filter(behind).count());
        let mut words = format!("as of {}", second(self.until));
        words.extend(named.take(NODES_NAMED).map(node));
        if count > NODES_NAMED {
            words.push_str(&format!(", {} more nodes behind", count - NODES_NAMED));
        }
        words
    }

    /// As the API has it.
    #[must_use]
    pub fn described(&self) -> throughline_api::jobs::AsOf {
        let behind = self.nodes.iter().filter(|node| node.time.is_none_or(|time| time < self.until));
        let behind = behind.map(|node| throughline_api::jobs::NodeBehind {
            node: node.name.clone(),
            time_ms: node.time.map(milliseconds),
        });
        throughline_api::jobs::AsOf { time_ms: self.milliseconds(), behind: behind.collect() }
    }
}

/// Of the sums of these jobs; those that have ended, and those that nothing is known of, are left out. Read once for an answer.
///
/// # Errors
/// The database's.
pub async fn sums(client: &Client, ids: &[i64]) -> Result<HashMap<i64, AsOf>, Error> {
    of_sums(client, ids, false).await
}

/// The same of one job, which somebody looks at: as of the newest second that all its nodes have sent, where that is newer.
///
/// # Errors
/// The database's.
pub async fn sums_of(client: &Client, id: i64) -> Result<HashMap<i64, AsOf>, Error> {
    of_sums(client, &[id], true).await
}

async fn of_sums(client: &Client, ids: &[i64], is_finest: bool) -> Result<HashMap<i64, AsOf>, Error> {
    let sql = "SELECT i.id, a.as_of, a.is_of_nodes, a.node_id, coalesce(k.name, ''), a.node_as_of
               FROM unnest($1::bigint[]) i (id) CROSS JOIN LATERAL internal.job_as_of(i.id, $2) a
               LEFT JOIN internal.node_key k ON k.id = a.node_id ORDER BY i.id, k.name";
    let rows = client
        .query(sql, &[&ids, &is_finest])
        .await
        .map_err(Error::sql("reading as of when jobs are known"))?;
    Ok(gathered(&rows))
}

/// Of what is known of the ranks of a job; `None` where it has ended, or nothing of them is known.
///
/// # Errors
/// The database's.
pub async fn ranks(client: &Client, id: i64) -> Result<Option<AsOf>, Error> {
    let sql = "SELECT j.id, a.as_of, false, a.node_id, coalesce(k.name, ''), a.node_as_of
               FROM internal.run j CROSS JOIN LATERAL internal.job_ranks_as_of(j.id) a
               LEFT JOIN internal.node_key k ON k.id = a.node_id WHERE j.id = $1 AND j.end_time IS NULL ORDER BY k.name";
    let rows = client.query(sql, &[&id]).await.map_err(Error::sql("reading as of when ranks are known"))?;
    Ok(gathered(&rows).remove(&id))
}

fn gathered(rows: &[Row]) -> HashMap<i64, AsOf> {
    let mut all = HashMap::new();
    for row in rows {
        let Some(until) = row.get::<_, Option<SystemTime>>(1) else { continue };
        let of_job = all.entry(row.get(0)).or_insert_with(|| AsOf {
            until,
            is_of_nodes: row.get(2),
            nodes: Vec::new(),
        });
        if let Some(id) = row.get(3) {
            of_job.nodes.push(NodeTime { id, name: row.get(4), time: row.get(5) });
        }
    }
    all
}
