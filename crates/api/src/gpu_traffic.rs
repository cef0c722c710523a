//! NVLinks of a job's GPUs beside the messages of its ranks in the same time.

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/gpu-traffic`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuTraffic {
    /// The job's key.
    pub job_key: String,
    /// Begin of the first step.
    pub from_ms: i64,
    /// End of the last step; of a job that runs no later than its sums of MPI are known.
    pub to_ms: i64,
    /// Length of a step.
    pub step_seconds: f64,
    /// Ends of the steps.
    pub times_ms: Vec<i64>,
    /// Hosts whose GPUs the job uses.
    pub hosts: Vec<HostGpuTraffic>,
    /// Hosts beyond the limit.
    pub left_out: u64,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostGpuTraffic {
    /// Its name.
    pub host: String,
    /// Why nothing is said of its bytes: null where something is.
    pub unknown: Option<String>,
    /// Indices of the job's own GPUs.
    pub gpus: Vec<i32>,
    /// Their NVLink domain over several nodes: messages from its other hosts count, too.
    pub domain: Option<String>,
    /// Bytes a second that NVLinks brought into these GPUs, by step; null where one of their links was not read.
    pub received: Vec<Option<f64>>,
    /// Bytes a second that these GPUs sent over NVLinks.
    pub sent: Vec<Option<f64>>,
    /// What the job's ranks sent to ranks on these GPUs from this host or domain, the operation with most first.
    pub operations: Vec<OperationTraffic>,
    /// Of the steps in which all links were read.
    pub totals: Option<GpuTrafficTotals>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationTraffic {
    /// Lower-case MPI name without the prefix; other: messages within no wrapped operation.
    pub operation: String,
    /// Bytes in all steps.
    pub bytes: f64,
    /// Bytes a second, by step.
    pub values: Vec<f64>,
}

/// Sums over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuTrafficTotals {
    /// Seconds that they are of.
    pub seconds: f64,
    /// Bytes that NVLinks brought into the job's GPUs.
    pub nvlink_bytes: f64,
    /// Bytes that MPI meant for ranks on them, from ranks of this host or domain.
    pub mpi_bytes: f64,
    /// The part of the NVLink bytes that can be MPI's, at most: of each GPU no more than MPI meant for it.
    pub explained_bytes: f64,
    /// The part that cannot: other libraries (NCCL, for one), the program's own copies, other processes. At least.
    pub residual_bytes: f64,
    /// `explained_bytes` of `nvlink_bytes`; null where nothing was carried.
    pub explained_share: Option<f64>,
    /// Ranks share a GPU: some of `mpi_bytes` never left it.
    pub ranks_share_gpus: bool,
}
