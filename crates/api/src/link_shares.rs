//! Whose bytes were on a link, and a job's part of its links.
//!
//! Shares are of windows of 10 s, of what was sent in one direction. The bytes of all contributors of a direction, `other` and
//! `rest` included, add up to what its port counted. Each figure has a kind and bounds.

use serde::{Deserialize, Serialize};

/// `GET /fabric/{subnet}/links/{link}/shares`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkShares {
    /// Name of the fabric.
    pub subnet: String,
    /// GUID.PORT of end a.
    pub link: String,
    /// Both ends: `leaf1[5] - spine1[1]`.
    pub name: String,
    /// Begin of the first step.
    pub from_ms: i64,
    /// End of the last step.
    pub to_ms: i64,
    /// Length of a step: one or several windows; whole minutes where windows are no longer retained.
    pub step_seconds: f64,
    /// Ends of the steps.
    pub times_ms: Vec<i64>,
    /// Windows until then are made; null where none is yet.
    pub computed_until_ms: Option<i64>,
    /// How the subnet routes by what its switches report: adaptive where any does (the bounds are what is known), static where
    /// all do, null where not all report it.
    pub routing: Option<String>,
    /// From end a to end b.
    pub ab: DirectionShares,
    /// From end b to end a.
    pub ba: DirectionShares,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionShares {
    /// The end that sends.
    pub from: LinkEnd,
    /// The end that receives.
    pub to: LinkEnd,
    /// Speed of the direction; 0 where it is not known.
    pub bytes_per_second: i64,
    /// Windows of the range that are made and in which the link carried traffic.
    pub windows: u64,
    /// Those of them in which the port was read.
    pub counted_windows: u64,
    /// What the port counted in these; null where it was not read.
    pub counted_bytes: Option<i64>,
    /// Counted bytes as a share of the speed, in the windows in which the port was read; at most 1.
    pub utilisation: Option<f64>,
    /// The largest of a window; at most 1.
    pub peak_utilisation: Option<f64>,
    /// More was counted than the link can carry, because counters were not read exactly at their times.
    pub is_above_speed: bool,
    /// Counted bytes per second in each step, the mean of its windows; null where there are none.
    pub counted_bytes_per_second: Vec<Option<f64>>,
    /// The largest first, then `other`, then `rest`. A contributor with less than a hundredth of the counted bytes is in
    /// `other`.
    pub contributors: Vec<LinkContributor>,
}

/// One end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// Node GUID.
    pub guid: String,
    /// Description of the node.
    pub name: String,
    /// The host that has it, where an agent runs.
    pub host: Option<String>,
    /// Port on the node.
    pub port: i32,
}

/// Bytes of one contributor on a direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareFigures {
    /// Bytes, fitted to the counters.
    pub bytes: i64,
    /// At least so many.
    pub low_bytes: i64,
    /// At most so many.
    pub high_bytes: i64,
    /// The bytes as a share of what was counted; null where the port was not read.
    pub share: Option<f64>,
    /// The same of the least.
    pub low_share: Option<f64>,
    /// The same of the most; at most 1.
    pub high_share: Option<f64>,
    /// How they are known, by the least certain part: measured, modelled, logical or unreported.
    pub kind: String,
    /// Some of it may have taken other links: only the bounds are known.
    pub is_bound: bool,
}

/// Who has a part of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkContributor {
    /// job, group, host, other or rest.
    pub contributor: String,
    /// For people: `alltoall of job 4711 (alice)`, `unmonitored host n07`.
    pub label: String,
    /// Of a job.
    pub job_key: Option<String>,
    /// The scheduler's name for it.
    pub job_name: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// Of a job: MPI name without the prefix.
    pub operation: Option<String>,
    /// Of a group or host.
    pub name: Option<String>,
    /// Its bytes in the whole range.
    #[serde(flatten)]
    pub figures: ShareFigures,
    /// Bytes per second in each step, as those counted; empty where no series was requested.
    #[serde(default)]
    pub series: Vec<Option<f64>>,
}

/// `GET /jobs/{job}/link-shares`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLinkShares {
    /// The job's key.
    pub job_key: String,
    /// Begin of the range.
    pub from_ms: i64,
    /// End of the range.
    pub to_ms: i64,
    /// Windows until then are made; null where none is yet.
    pub computed_until_ms: Option<i64>,
    /// Directions of links on which it has a share in all.
    pub count: u64,
    /// The most utilised first.
    pub links: Vec<JobLink>,
}

/// One direction of a link on which a job has a share, over the windows in which it has one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLink {
    /// Name of the fabric.
    pub subnet: String,
    /// How that routes at the end of the range, as in [`LinkShares::routing`].
    pub routing: Option<String>,
    /// GUID.PORT of the end that sends.
    pub link: String,
    /// `leaf1[5] → spine1[1]`.
    pub name: String,
    /// The end that sends.
    pub from: LinkEnd,
    /// The end that receives; null where the cable is gone.
    pub to: Option<LinkEnd>,
    /// Speed of the direction; 0 where it is not known.
    pub bytes_per_second: i64,
    /// Windows in which the job has a share.
    pub windows: u64,
    /// Those of them in which the port was read.
    pub counted_windows: u64,
    /// What the port counted in these.
    pub counted_bytes: Option<i64>,
    /// As a share of the speed; at most 1.
    pub utilisation: Option<f64>,
    /// The largest of a window; at most 1.
    pub peak_utilisation: Option<f64>,
    /// More was counted than the link can carry.
    pub is_above_speed: bool,
    /// The job's own part, all operations.
    pub own: ShareFigures,
    /// What everybody else has of it: jobs, hosts, `other` and `rest`.
    pub others: ShareFigures,
    /// All, without series: the largest first.
    pub contributors: Vec<LinkContributor>,
}

/// `GET /link-names/{name}`: the link that a name means which a person typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkName {
    /// Name of its fabric.
    pub subnet: String,
    /// GUID.PORT of the end that was named, or of the first of two.
    pub link: String,
    /// `leaf1[5] - spine1[1]`, that end first.
    pub name: String,
}
