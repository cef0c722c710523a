//! Which GPUs a rank has to do with: by what evidence, and from when to when. Pure: times come from the caller.
//!
//! The driver's list of processes says which GPUs a rank uses. Which device files it has open says which it may use at most, and
//! so does CUDA_VISIBLE_DEVICES, where that names GPUs by UUID. Its numbers are no evidence: in a job that is confined to some
//! devices they count these, in another one all of the node.

use crate::devices_frame::Devices;
use std::collections::{BTreeMap, BTreeSet};
use throughline_sample::wire::{JobRank, RankGpu};

/// Most rows of one rank: eight GPUs with seven partitions each, by each kind of evidence. What is beyond is left out.
const ROWS_MAX: usize = 192;

/// The driver lists the rank's process on the GPU.
const DRIVER: &str = "driver";
/// The rank has the GPU's device file open.
const DEVICE: &str = "device";
/// CUDA_VISIBLE_DEVICES of the rank names the GPU.
const VISIBLE: &str = "visible";

/// A GPU of the node, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGpu {
    /// UUID of the whole GPU.
    pub gpu_uuid: String,
    /// UUID of the partition; empty for the whole.
    pub partition_uuid: String,
    /// N of the GPU's device file `/dev/nvidiaN`, where it is known.
    pub minor: Option<u32>,
    /// How far the nearest adapters are from the GPU, as `gpu topo` names distances; empty where that is not known.
    pub nearest_distance: String,
    /// Processes that the driver lists there, or why it does not.
    pub processes: Result<Vec<u32>, &'static str>,
}

/// What one look at the node found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// When it was, UTC nanoseconds.
    pub time: i64,
    /// Processes of ranks that were there before it.
    pub ranks: BTreeSet<u32>,
    /// The node's GPUs and their partitions, or why they are not known.
    pub gpus: Result<Vec<NodeGpu>, &'static str>,
    /// Adapter ports on which each process has queue pairs, as DEVICE/PORT, the one with most first.
    pub hca_ports: Result<BTreeMap<u32, Vec<String>>, &'static str>,
}

/// What one kind of evidence says of a GPU; `None`: nothing this time.
type Says<'a> = &'a dyn Fn(&NodeGpu) -> Option<bool>;

/// What is known of a rank beside its record.
#[derive(Debug, Default)]
pub(crate) struct GpuUse {
    /// What the rank reported last of its device files.
    reported: Devices,
    /// When the driver's list was read last.
    looked_at: i64,
}

impl GpuUse {
    /// Notes in a rank's record what a look found. Whether that is another than before, and why the GPUs that it uses are not known
    /// by the driver, where they are not. `job`: processes of the job's ranks here.
    pub fn note(
        &mut self,
        record: &mut JobRank,
        gpus: &Result<Vec<NodeGpu>, &'static str>,
        job: &BTreeSet<u32>,
        time: i64,
    ) -> (bool, Option<&'static str>) {
        let gpus = match gpus {
            Ok(gpus) => gpus,
            Err(why) => return (false, Some(*why)),
        };
        let (pid, before) = (record.pid, std::mem::replace(&mut self.looked_at, time));
        let listed = |gpu: &NodeGpu| gpu.processes.as_ref().ok().map(|all| all.contains(&pid));
        let mut changed = by(&mut record.gpus, DRIVER, gpus, (time, before), &listed);
        changed |= note_others(&mut record.gpus, gpus, job);
        let unlisted = gpus.iter().find_map(|gpu| gpu.processes.as_ref().err().copied());
        if unlisted.is_none() && record.gpu_evidence != DRIVER {
            DRIVER.clone_into(&mut record.gpu_evidence);
            changed = true;
        }
        changed |= self.note_devices(record, gpus);
        (changed, unlisted)
    }

    /// Takes the rank's own report of its device files. Whether its record is another than before.
    pub fn report(&mut self, record: &mut JobRank, reported: Devices, gpus: &[NodeGpu]) -> bool {
        let is_set = record.visible_devices != reported.visible;
        record.visible_devices.clone_from(&reported.visible);
        self.reported = reported;
        // Before the first look it is not known which GPU a device file is.
        self.note_devices(record, gpus) | is_set
    }

    /// What the rank itself says: which device files it has open, and what its environment names.
    fn note_devices(&self, record: &mut JobRank, gpus: &[NodeGpu]) -> bool {
        let Devices { time, before, open, .. } = &self.reported;
        if gpus.is_empty() || *time == 0 {
            return false;
        }
        let mut changed = false;
        if let Some(open) = open {
            let is_open = |gpu: &NodeGpu| {
                let minor = gpu.minor.filter(|_| gpu.partition_uuid.is_empty())?;
                Some(open.contains(&minor))
            };
            changed |= by(&mut record.gpus, DEVICE, gpus, (*time, *before), &is_open);
            let is_known = |minor: &u32| gpus.iter().any(|gpu| gpu.minor == Some(*minor));
            if record.gpu_evidence.is_empty() && open.iter().all(is_known) {
                DEVICE.clone_into(&mut record.gpu_evidence);
                changed = true;
            }
        }
        let named = record.visible_devices.as_deref().map(|value| visible(value, gpus)).unwrap_or_default();
        let is_named = |gpu: &NodeGpu| Some(named.contains(&uuid(gpu)));
        changed | by(&mut record.gpus, VISIBLE, gpus, (record.start, record.start), &is_named)
    }
}

/// Notes on which GPUs of a rank processes are that are no ranks of its job; whether that is new of one.
fn note_others(rows: &mut [RankGpu], gpus: &[NodeGpu], job: &BTreeSet<u32>) -> bool {
    let mut changed = false;
    for row in rows.iter_mut().filter(|row| row.evidence == DRIVER && row.last_seen == 0 && !row.has_others) {
        // Also those on another partition: links and PCIe are the whole GPU's.
        let there = gpus.iter().filter(|gpu| gpu.gpu_uuid == row.gpu_uuid);
        let mut processes = there.filter_map(|gpu| gpu.processes.as_ref().ok()).flatten();
        row.has_others = processes.any(|pid| !job.contains(pid));
        changed |= row.has_others;
    }
    changed
}

/// Whether it is known which GPUs a rank uses.
pub(crate) fn is_known(record: &JobRank) -> bool {
    let has_open = record.gpus.iter().any(|gpu| gpu.evidence == DEVICE);
    record.gpu_evidence == DRIVER || record.gpu_evidence == DEVICE && !has_open
}

fn uuid(gpu: &NodeGpu) -> &str {
    if gpu.partition_uuid.is_empty() { &gpu.gpu_uuid } else { &gpu.partition_uuid }
}

/// Brings the rows of one kind of evidence up to date; whether one changed. `before`: when the look before was.
fn by(
    rows: &mut Vec<RankGpu>,
    evidence: &str,
    gpus: &[NodeGpu],
    (time, before): (i64, i64),
    says: Says<'_>,
) -> bool {
    let mut changed = false;
    let is_of = |row: &RankGpu, gpu: &NodeGpu| {
        (&row.gpu_uuid, &row.partition_uuid) == (&gpu.gpu_uuid, &gpu.partition_uuid)
    };
    for row in rows.iter_mut().filter(|row| row.evidence == evidence) {
        // What is not there any more is used by nobody.
        let is_so = match gpus.iter().find(|gpu| is_of(row, gpu)) {
            Some(gpu) => says(gpu),
            None => Some(false),
        };
        match (is_so, row.last_seen) {
            (Some(true), 1..) => row.last_seen = 0,
            (Some(false), 0) => row.last_seen = before.max(row.first_seen),
            _ => continue,
        }
        changed = true;
    }
    for gpu in gpus.iter().filter(|gpu| says(gpu) == Some(true)) {
        let is_new = !rows.iter().any(|row| row.evidence == evidence && is_of(row, gpu));
        if is_new && rows.len() < ROWS_MAX {
            rows.push(RankGpu {
                gpu_uuid: gpu.gpu_uuid.clone(),
                partition_uuid: gpu.partition_uuid.clone(),
                evidence: evidence.to_owned(),
                minor: gpu.minor,
                first_seen: time,
                last_seen: 0,
                nearest_distance: gpu.nearest_distance.clone(),
                has_others: false,
            });
            changed = true;
        }
    }
    changed
}

/// UUIDs that CUDA_VISIBLE_DEVICES names, of GPUs or partitions; each may be shortened as long as it fits one only. As CUDA does, what
/// follows a name that fits none is left out.
fn visible<'g>(value: &str, gpus: &'g [NodeGpu]) -> BTreeSet<&'g str> {
    let named = value.split(',').map_while(|name| {
        let name = name.trim();
        let is_uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
        let mut fitting = gpus.iter().map(uuid).filter(|uuid| is_uuid && uuid.starts_with(name));
        fitting.next().filter(|_| fitting.next().is_none())
    });
    named.collect()
}

#[cfg(test)]
mod tests;
