//! Detail on demand: requests for what the recorders of agents and crawlers have, and what became of them.

use serde::{Deserialize, Serialize};

/// `POST /jobs/{job}/detail`, `/nodes/{host}/detail` and `/fabric/{subnet}/links/{link}/detail`: the request that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailRequested {
    /// Its number.
    pub id: i64,
    /// Records from then.
    pub from_ms: i64,
    /// To before then.
    pub to_ms: i64,
}

/// `GET /jobs/{job}/detail`, `/nodes/{host}/detail` and `/fabric/{subnet}/links/{link}/detail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailRequests {
    /// The newest first.
    pub requests: Vec<DetailRequest>,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailRequest {
    /// Its number.
    pub id: i64,
    /// When it was made.
    pub requested_ms: i64,
    /// By whom: `local:UID`, `proxy:USER`, `address:IP`, `server`. Null where it was another reader, unless an administrator reads.
    pub requested_by: Option<String>,
    /// Why: person, live, job_end, verdict, alert.
    pub reason: String,
    /// Records from then.
    pub from_ms: i64,
    /// To before then.
    pub to_ms: i64,
    /// Of cumulative records within so many seconds the last; 0 for all. Of a live one the seconds between rows.
    pub resolution_seconds: f64,
    /// What has not arrived by then is given up.
    pub expires_ms: i64,
    /// A node may still answer.
    pub is_open: bool,
    /// Records that have arrived.
    pub records: i64,
    /// By name.
    pub nodes: Vec<DetailNode>,
}

/// `POST /alerts`: what became of the alerts that fire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertsTaken {
    /// Requests that were made.
    pub requested: Vec<DetailRequested>,
    /// Why others were not, by quotas.
    pub refused: Vec<String>,
    /// Jobs, nodes and links of alerts that were requested already in the last ten minutes.
    pub repeated: u64,
    /// Alerts that name no job, node or link that is known.
    pub unknown: u64,
}

/// What became of a request on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailNode {
    /// The node; `crawler` for that of a link's subnet.
    pub host: String,
    /// waiting (no collector has its agent), sent, receiving, done, incomplete, refused, expired.
    pub state: String,
    /// Records that have arrived.
    pub records: i64,
    /// The recorder begins then: null where that is not known.
    pub recorded_from_ms: Option<i64>,
    /// Spots of the recorder that could not be read; each costs up to a minute.
    pub damaged: i64,
    /// Why not all came: off, failed, agent, limit, expired; null where all did.
    pub refusal: Option<String>,
    /// The same for people, with what to do.
    pub remark: Option<String>,
    /// When it was finished.
    pub done_ms: Option<i64>,
}
