//! A job's traffic between its ranks, and on the links of its nodes.

use super::AsOf;
use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/traffic`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobTraffic {
    /// The job's key.
    pub job_key: String,
    /// One for each kind that there is.
    pub traffic: Vec<Traffic>,
    /// As of when it is while the job runs: rows of ranks come less often than sums of nodes. Null of one that has ended.
    #[serde(default)]
    pub as_of: Option<AsOf>,
}

/// Traffic of one kind between the ranks of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub busiest: Vec<Pair>,
}

/// Traffic from one rank to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
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

/// `GET /jobs/{job}/link-peaks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLinkPeaks {
    /// The job's key.
    pub job_key: String,
    /// The most utilised first; null where reading them took longer than it may.
    pub links: Option<Vec<LinkPeak>>,
}

/// One direction of a link of a job's nodes while the job ran; what else ran there is in its figures, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkPeak {
    /// host (read in sysfs), fabric (the same or another adapter read with MADs) or nvlink.
    pub kind: String,
    /// The job's node.
    pub node: String,
    /// Its name.
    pub link: String,
    /// out of the node or GPU, or in.
    pub direction: String,
    /// Speed of one direction.
    pub rate_bytes_per_second: Option<u64>,
    /// Bytes while the job ran.
    pub bytes: f64,
    /// Rate that was not exceeded in 95 % of the time.
    pub p95_bytes_per_second: Option<f64>,
    /// Highest rate between two readings.
    pub max_bytes_per_second: Option<f64>,
    /// The first as a share of the link's speed.
    pub p95_utilisation: Option<f64>,
    /// The second as a share of the link's speed.
    pub max_utilisation: Option<f64>,
    /// Readings that this is made of.
    pub readings: u64,
    /// An NVLink whose GPU others use as well, or on a partition of whose GPU the job is.
    #[serde(default)]
    pub is_shared: bool,
}

/// `GET /jobs/{job}/pairs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobPairs {
    /// The job's key.
    pub job_key: String,
    /// As of when the figures of a running job are, at least; null where they are final.
    pub as_of: Option<AsOf>,
    /// Ranks that the job has by its own account.
    pub world_size: Option<i32>,
    /// logical or wire.
    pub kind: String,
    /// Pairs of ranks with traffic, by sender and receiver.
    pub pairs: PairColumns,
    /// Pairs of nodes, where those of ranks are kept no longer; null where they are.
    pub nodes: Option<NodePairs>,
    /// Parameter `next` of the following request; null in the last page.
    pub next: Option<String>,
}

/// Traffic from node to node of a job that ended longer ago than its rows are kept; columns of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePairs {
    /// Nodes by their first ranks.
    pub hosts: Vec<String>,
    /// Who sent: a place in `hosts`.
    pub from: Vec<usize>,
    /// To whom.
    pub to: Vec<usize>,
    /// Bytes.
    pub bytes: Vec<i64>,
    /// Messages.
    pub messages: Vec<i64>,
    /// Bytes of all other pairs: the 10,000 with the most are listed.
    pub others_bytes: i64,
    /// Messages of all other pairs.
    pub others_messages: i64,
    /// Pairs of ranks in these.
    pub others_rank_pairs: i64,
    /// Until when pairs of ranks were kept.
    pub ranks_until_ms: i64,
}

/// Traffic from rank to rank so far; columns of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairColumns {
    /// Who sent.
    pub from: Vec<i32>,
    /// To whom.
    pub to: Vec<i32>,
    /// Bytes.
    pub bytes: Vec<i64>,
    /// Messages.
    pub messages: Vec<i64>,
}
