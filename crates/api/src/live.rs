//! The live request: figures of now of a job that somebody looks at.

use crate::as_of::NodeBehind;
use serde::{Deserialize, Serialize};

/// `POST /jobs/{job}/live` and `GET` of the same: the request that the job's nodes have, and what they have sent by now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLive {
    /// Its key.
    pub job_key: String,
    /// It has ended: its figures are final.
    pub has_ended: bool,
    /// The request's number, the same for all who look. Null while nobody does.
    pub id: Option<i64>,
    /// The job's nodes make a row each second for so long, unless somebody looks again.
    pub live_seconds: u64,
    /// Figures of all nodes that answer are there up to this time, a whole second. Null while there are none.
    pub as_of_ms: Option<i64>,
    /// Nodes on which its ranks run.
    pub nodes: u64,
    /// Those of them without figures of the last seconds.
    pub absent_nodes: u64,
    /// The first of those, with the time of the figures that they have in the job's sums.
    pub absent: Vec<NodeBehind>,
}
