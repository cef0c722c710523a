//! The GPUs of a job.

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/gpus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGpus {
    /// The job's key.
    pub job_key: String,
    /// One for each rank and GPU that it has to do with, in the order of ranks; a rank without a GPU has one without.
    pub gpus: Vec<JobGpu>,
    /// Entries beyond the limit.
    pub left_out: u64,
}

/// A rank and a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGpu {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Where it runs.
    pub host: String,
    /// By what the GPUs that the rank uses are known: driver (the driver's list of processes), device (the device files that it has
    /// open). Null: they are not known. Where it is known and there is no GPU, the rank uses none.
    pub known_by: Option<String>,
    /// CUDA_VISIBLE_DEVICES as it was at MPI_Init; null where it was not set.
    pub visible_devices: Option<String>,
    /// UUID of the whole GPU; null, as what follows, where there is none.
    pub gpu: Option<String>,
    /// Its number on the host.
    pub index: Option<i32>,
    /// UUID of the partition (MIG) that the rank is on; null for the whole.
    pub partition: Option<String>,
    /// Its number in the GPU.
    pub partition_index: Option<i32>,
    /// Its product.
    pub partition_name: Option<String>,
    /// driver, device or visible: the strongest that there is.
    pub evidence: Option<String>,
    /// The rank uses it, by the best that is known; else it may.
    pub is_own: bool,
    /// What is counted of the GPU (links, PCIe) may be others' as well: the rank is on a partition, or others were on it.
    pub is_shared: bool,
    /// N of /dev/nvidiaN.
    pub minor: Option<i32>,
    /// When it was seen first.
    pub first_seen_ms: Option<i64>,
    /// When it was seen last; null while it goes on.
    pub last_seen_ms: Option<i64>,
    /// Nearest port of an adapter, as DEVICE/PORT.
    pub port: Option<String>,
    /// How far it is: switch, switches, host_bridge, numa_node or system.
    pub distance: Option<String>,
    /// The rank has queue pairs on that port; null where its ports are not known.
    pub has_queue_pairs: Option<bool>,
    /// Name of the switch behind the port.
    pub switch: Option<String>,
    /// GUID of the switch.
    pub switch_guid: Option<String>,
    /// Port of the switch.
    pub switch_port: Option<i32>,
}
