//! What stands on a job's time axis beside its MPI calls: counters of its nodes, links on its way through the fabric, and how
//! well all of it is aligned.

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/lanes`: NVLinks, PCIe and ports of a job's nodes. `GET /jobs/{job}/link-lanes`: links on its way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLanes {
    /// The job's key.
    pub job_key: String,
    /// Begin of the first step.
    pub from_ms: i64,
    /// End of the last step.
    pub to_ms: i64,
    /// Length of a step.
    pub step_seconds: f64,
    /// Ends of the steps.
    pub times_ms: Vec<i64>,
    /// Length of a step of shares: one or several windows of 10 s.
    pub window_seconds: Option<f64>,
    /// Ends of the steps of shares; empty where no lane has any.
    pub window_times_ms: Vec<i64>,
    /// In the order in which they are to be shown.
    pub lanes: Vec<Lane>,
    /// Lanes, or nodes of the job, beyond the limit.
    pub left_out: u64,
    /// How well times are aligned, by who reads.
    pub clocks: Vec<LaneClock>,
}

/// One thing over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// nvlink: all NVLinks of a GPU. pcie: a GPU's PCIe. port: a port of the host's adapter. link: one direction of a cable.
    pub kind: String,
    /// For people: `n1 GPU 0 NVLink`, `leaf1[5] → spine1[1]`.
    pub name: String,
    /// The clock among `clocks` that its times are on: a host, or the subnet of a crawler.
    pub instance: String,
    /// Of a GPU: what is counted may be others' as well, as the job is on a partition of it, or others are on the GPU.
    #[serde(default)]
    pub is_shared: bool,
    /// Of a link: GUID.PORT of the end that sends.
    pub link: Option<String>,
    /// Speed of one direction; null where it is not known.
    pub bytes_per_second: Option<i64>,
    /// What is shown of it.
    pub series: Vec<LaneSeries>,
}

/// Values of a lane, one for each step; null where it was not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneSeries {
    /// out, in: bytes per second. used: share of the link's speed. own: the job's part of that, of windows. waiting: share of the time
    /// in which data waited to be sent.
    pub name: String,
    /// bytes_per_second or share.
    pub unit: String,
    /// By step; of `own` by step of shares.
    pub values: Vec<Option<f64>>,
}

/// A clock, and how far apart the readings are that it stamped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneClock {
    /// A host, or the subnet of a crawler.
    pub instance: String,
    /// The kernel's estimate of how far it is off UTC, the largest of the last two minutes of the range; null where no time daemon
    /// keeps the clock, or none was reported.
    pub clock_error_seconds: Option<f64>,
    /// What reads with this clock.
    pub sources: Vec<LaneSource>,
}

/// Who reads counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneSource {
    /// nvml, sysfs, mad …
    pub source: String,
    /// Usual distance of two readings, in the last two minutes of the range: a change lies within it.
    pub interval_seconds: f64,
}
