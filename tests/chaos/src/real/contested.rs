//! For how long ranks did not count because a hostile node claims them, too.

use super::site::{JOB, RANKS_OF_AGENT};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// A rank of a job that exchanges bytes between two nodes counts again so long after one hostile node claimed it. Only time without
/// faults counts.
pub const CONTESTED_MAX: Duration = Duration::from_secs(30);

/// A job's key, and a rank of it.
pub type RankName = (String, i32);

/// Contests of ranks with the nodes that do run them.
#[derive(Default)]
pub struct Contested {
    open: BTreeMap<RankName, Instant>,
    /// Those that are over.
    over: Vec<(RankName, Instant, Instant)>,
}

impl Contested {
    /// Takes note of those that are contested now.
    pub fn note(&mut self, contested: &[RankName]) {
        let now = Instant::now();
        for name in contested {
            self.open.entry(name.clone()).or_insert(now);
        }
        self.open.retain(|name, begun| {
            let is_open = contested.contains(name);
            if !is_open {
                self.over.push((name.clone(), *begun, now));
            }
            is_open
        });
    }

    /// All so far, those that are open until now.
    pub fn all(&self) -> impl Iterator<Item = (&RankName, Instant, Instant)> {
        let now = Instant::now();
        let over = self.over.iter().map(|(name, begun, end)| (name, *begun, *end));
        over.chain(self.open.iter().map(move |(name, begun)| (name, *begun, now)))
    }
}

/// Ranks whose own node's claim counts in no total. Ranks of the long job are two to a node, those of short ones one.
pub async fn look(client: &Client) -> Option<Vec<RankName>> {
    let sql = format!(
        "SELECT j.key, r.rank FROM internal.rank_claim r JOIN internal.run j ON j.id = r.job_id JOIN internal.node_key n ON n.id = r.node_id
         WHERE r.contest IS NOT NULL AND j.key LIKE 'slurm:7___.0@' || $1
           AND n.name = 'agent-' || CASE WHEN j.key LIKE 'slurm:{JOB}.%' THEN r.rank / {RANKS_OF_AGENT} ELSE r.rank END"
    );
    let rows = client.query(&sql, &[&nix::unistd::geteuid().to_string()]).await.ok()?;
    Some(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
