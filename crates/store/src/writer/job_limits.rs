//! How many jobs a node may report. A node has as many as it has processes; beyond that it is broken or in the wrong hands, and what it
//! makes up would be searched, judged and stored with everybody's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use throughline_sample::row_rules::MINUTELY;
use tokio_postgres::Client;

use super::{WriteError, failed};

/// How much of its own a node may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Jobs that run at a time, half of them of one user.
    pub jobs_max: u32,
    /// Jobs that it begins to report in an hour, half of them of one user.
    pub jobs_per_hour: u32,
    /// GPUs, partitions of them left out.
    pub gpus_max: u32,
    /// Ports of adapters.
    pub ports_max: u32,
}

impl Default for NodeLimits {
    /// No node has as many: 4,096 connected ranks are an agent's limit, and a job a second of each of 10 users is 36,000 an hour.
    fn default() -> Self {
        Self { jobs_max: 4096, jobs_per_hour: 50_000, gpus_max: 64, ports_max: 64 }
    }
}

/// In which jobs that a node begins to report are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// Nodes whose hours are known at once; beyond it all hours begin anew.
const NODES_MAX: usize = 100_000;

/// What a node began to report since a moment.
struct NodeHour {
    since: Instant,
    jobs: u32,
    jobs_of_user: HashMap<u32, u32>,
}

/// Counts new jobs by node, and by user within it.
pub(super) struct JobLimits {
    limits: NodeLimits,
    hours: HashMap<i64, NodeHour>,
}

impl JobLimits {
    pub fn new(limits: NodeLimits) -> Self {
        Self { limits, hours: HashMap::new() }
    }

    /// Of jobs (node, key) that nodes begin to report those that are beyond their limits; the others count from now on.
    pub async fn beyond<'a>(
        &mut self,
        client: &Client,
        begun: &BTreeMap<(i64, &'a str), u32>,
    ) -> Result<HashSet<(i64, &'a str)>, WriteError> {
        let nodes: Vec<i64> =
            begun.keys().map(|(node, _)| *node).collect::<HashSet<_>>().into_iter().collect();
        // An agent reports each job that runs there once a minute.
        let query = "SELECT c.node_id, coalesce(c.uid, -1), count(*) FROM internal.run_claim c \
                     WHERE c.node_id = ANY($1) AND c.end_time IS NULL AND c.reported_at > now() - make_interval(secs => $2) \
                     GROUP BY 1, 2";
        let rows = client.query(query, &[&nodes, &MINUTELY.largest_gap_seconds]).await;
        let rows = rows.map_err(failed("counting the jobs of nodes"))?;
        let mut running: HashMap<i64, i64> = HashMap::new();
        let mut running_of_user: HashMap<(i64, i64), i64> = HashMap::new();
        for row in &rows {
            let (node, uid, jobs): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            *running.entry(node).or_default() += jobs;
            running_of_user.insert((node, uid), jobs);
        }
        if self.hours.len() > NODES_MAX {
            self.hours.clear();
        }
        self.hours.retain(|_, hour| hour.since.elapsed() < HOUR);
        let limits = self.limits;
        let mut beyond = HashSet::new();
        for ((node, key), uid) in begun {
            let hour = self.hours.entry(*node).or_insert_with(|| NodeHour {
                since: Instant::now(),
                jobs: 0,
                jobs_of_user: HashMap::new(),
            });
            let of_user = hour.jobs_of_user.entry(*uid).or_default();
            let running = running.entry(*node).or_default();
            let running_of_user = running_of_user.entry((*node, i64::from(*uid))).or_default();
            let jobs_max = i64::from(limits.jobs_max);
            // One user leaves half of each to the others.
            let is_beyond = *running >= jobs_max
                || *running_of_user >= jobs_max / 2
                || hour.jobs >= limits.jobs_per_hour
                || *of_user >= limits.jobs_per_hour / 2;
            if is_beyond {
                beyond.insert((*node, *key));
                continue;
            }
            *running_of_user += 1;
            *running += 1;
            *of_user += 1;
            hour.jobs += 1;
        }
        Ok(beyond)
    }
}
