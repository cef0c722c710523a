//! A job's broadcasts by rank, and the PCIe links of its hosts' adapters.

use crate::jobs::AsOf;
use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/broadcast`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobBroadcast {
    /// The job's key.
    pub job_key: String,
    /// As of when figures of ranks are while the job runs; null of one that has ended.
    #[serde(default)]
    pub as_of: Option<AsOf>,
    /// Begin of the time over which adapters' bytes are averaged.
    pub from_ms: i64,
    /// Its end.
    pub to_ms: i64,
    /// Hosts with an agent, 1,024 at most; none where the job has no broadcast.
    pub hosts: Vec<BroadcastHost>,
    /// Ranks without a broadcast are left out.
    pub ranks: BroadcastRanks,
}

/// Columns of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BroadcastRanks {
    /// In MPI_COMM_WORLD.
    pub rank: Vec<i32>,
    /// Its host.
    pub host: Vec<Option<String>>,
    /// Calls of MPI_Bcast.
    pub calls: Vec<i64>,
    /// Bytes that it passed as the root.
    pub sent_bytes: Vec<i64>,
    /// Bytes that it received: at least.
    pub received_low_bytes: Vec<i64>,
    /// At most.
    pub received_high_bytes: Vec<i64>,
    /// `modelled` where broadcasts went to all ranks, as calls and bytes of all fit; else `bound`.
    pub kind: Vec<String>,
    /// Time inside.
    pub elapsed_seconds: Vec<f64>,
    /// Bytes received in a second inside: at least.
    pub low_bytes_per_second: Vec<Option<f64>>,
    /// At most.
    pub high_bytes_per_second: Vec<Option<f64>>,
}

/// Adapters of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BroadcastHost {
    /// Its name.
    pub host: String,
    /// In the order of their names.
    pub adapters: Vec<BroadcastAdapter>,
}

/// An adapter, and what its ports carried on average: all of it, not this job's alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BroadcastAdapter {
    /// As sysfs names it.
    pub device: String,
    /// Sent.
    pub out_bytes_per_second: Option<f64>,
    /// Received.
    pub in_bytes_per_second: Option<f64>,
    /// Its PCIe link.
    pub pcie: Option<Pcie>,
}

/// The PCIe link of an adapter, which all of its ports share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pcie {
    /// What it carries in one direction after line code, headers of PCIe among it.
    pub bytes_per_second: i64,
    /// What the adapter's ports carry in one direction at most: where that is more, the PCIe link is the limit. Null where the
    /// speed of one is not known.
    pub ports_bytes_per_second: Option<i64>,
    /// Bytes that its ports sent, as a share of it: at least, as PCIe's headers come to it.
    pub out_share: Option<f64>,
    /// Bytes that they received.
    pub in_share: Option<f64>,
}
