//! What records weigh in memory, so that bounds are bytes and not counts: a cell may have names of 255 bytes or none.

use std::mem::size_of;
use throughline_sample::wire::{
    Batch, Event, Job, JobComm, JobRank, JobSetting, MpiNodeTraffic, MpiOpCell, MpiOpenCall, MpiPvarSample,
    MpiRankBin, MpiRankClock, MpiRankPeers, MpiRankRegions, MpiRankScheduling, MpiRankTrace, MpiSampledCalls,
    MpiTraceRecord, RankGpu,
};

/// What the allocator adds to each allocation, on average.
const OVERHEAD: usize = 16;

/// By what is allocated, not by what is used of it.
#[allow(clippy::ptr_arg)] // a slice has no capacity
fn text(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { text.capacity() + OVERHEAD }
}

/// The memory of a list, without what its elements own.
#[allow(clippy::ptr_arg)] // a slice has no capacity
fn list<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>() + OVERHEAD
}

/// Weight of one record.
pub(crate) trait Weigh: Sized {
    /// Bytes of what it owns.
    fn owned(&self) -> usize;

    /// Bytes with all that it owns.
    fn weight(&self) -> usize {
        size_of::<Self>() + self.owned()
    }
}

impl Weigh for MpiOpCell {
    fn owned(&self) -> usize {
        text(&self.operation) + text(&self.region) + text(&self.algorithm) + text(&self.algorithm_source)
    }
}

impl Weigh for MpiRankBin {
    fn owned(&self) -> usize {
        let cells: usize = self.cells.iter().map(Weigh::owned).sum();
        text(&self.job_key) + text(&self.source) + list(&self.cells) + cells
    }
}

impl Weigh for MpiRankPeers {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.kind) + text(&self.source) + list(&self.cells)
    }
}

impl Weigh for MpiPvarSample {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.name) + text(&self.source) + text(&self.variable_class)
    }
}

impl Weigh for MpiRankRegions {
    fn owned(&self) -> usize {
        let cells: usize = self.cells.iter().map(|cell| text(&cell.region)).sum();
        let paths: usize = self.paths.iter().map(|cell| text(&cell.path)).sum();
        let lists = list(&self.cells) + list(&self.paths);
        text(&self.job_key) + text(&self.source) + lists + cells + paths
    }
}

impl Weigh for MpiNodeTraffic {
    fn owned(&self) -> usize {
        let texts = [&self.job_key, &self.operation, &self.kind, &self.direction, &self.source];
        texts.into_iter().map(text).sum::<usize>() + list(&self.cells)
    }
}

impl Weigh for MpiSampledCalls {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.operation) + text(&self.members) + list(&self.calls)
    }
}

impl Weigh for MpiRankTrace {
    fn owned(&self) -> usize {
        let texts =
            |record: &MpiTraceRecord| text(&record.kind) + text(&record.operation) + text(&record.region);
        text(&self.job_key) + list(&self.records) + self.records.iter().map(texts).sum::<usize>()
    }
}

impl Weigh for MpiRankClock {
    fn owned(&self) -> usize {
        text(&self.job_key) + list(&self.points)
    }
}

impl Weigh for Job {
    fn owned(&self) -> usize {
        let texts = [
            &self.key,
            &self.scheduler,
            &self.native_id,
            &self.step,
            &self.user,
            &self.command,
            &self.name,
            &self.account,
            &self.queue,
            &self.array_id,
            &self.evidence,
        ];
        texts.into_iter().map(text).sum()
    }
}

impl Weigh for JobRank {
    fn owned(&self) -> usize {
        let texts = [&self.job_key, &self.mpi_library, &self.ending, &self.host, &self.cpus];
        let ports = self.hca_ports.iter().map(|names| &names.name);
        let ports: usize = ports.map(|names| list(names) + names.iter().map(text).sum::<usize>()).sum();
        let gpu = |gpu: &RankGpu| {
            let texts = [&gpu.gpu_uuid, &gpu.partition_uuid, &gpu.evidence, &gpu.nearest_distance];
            texts.into_iter().map(text).sum::<usize>()
        };
        let gpus = list(&self.gpus) + self.gpus.iter().map(gpu).sum::<usize>();
        texts.into_iter().map(text).sum::<usize>()
            + ports
            + gpus
            + text(&self.gpu_evidence)
            + self.visible_devices.as_ref().map_or(0, text)
            + list(&self.numa_nodes)
            + list(&self.hca_numa_nodes)
    }
}

impl Weigh for MpiOpenCall {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.operation) + text(&self.oldest_request)
    }
}

impl Weigh for MpiRankScheduling {
    fn owned(&self) -> usize {
        text(&self.job_key)
    }
}

impl Weigh for JobComm {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.name)
    }
}

impl Weigh for JobSetting {
    fn owned(&self) -> usize {
        text(&self.job_key) + text(&self.name) + text(&self.value)
    }
}

impl Weigh for Event {
    fn owned(&self) -> usize {
        text(&self.source) + text(&self.kind) + text(&self.text) + text(&self.before) + text(&self.after)
    }
}

fn all<T: Weigh>(records: &[T]) -> usize {
    records.iter().map(Weigh::weight).sum()
}

/// Bytes of the records of a fragment but those of trace mode, which go another way.
pub(crate) fn weight(batch: &Batch) -> usize {
    let inventory = all(&batch.jobs) + all(&batch.job_ranks) + all(&batch.job_comms);
    let samples = all(&batch.mpi_ops) + all(&batch.mpi_peers) + all(&batch.mpi_pvars);
    let samples = samples + all(&batch.mpi_regions) + all(&batch.mpi_traffic) + all(&batch.mpi_open_calls);
    let samples = samples + all(&batch.mpi_scheduling);
    let samples = samples + all(&batch.mpi_sampled_calls);
    inventory + samples + all(&batch.job_settings) + all(&batch.events)
}

/// Rows that a fragment becomes.
pub(crate) fn rows(batch: &Batch) -> usize {
    let ops: usize = batch.mpi_ops.iter().map(|bin| bin.cells.len()).sum();
    let peers: usize = batch.mpi_peers.iter().map(|peers| peers.cells.len()).sum();
    let regions: usize =
        batch.mpi_regions.iter().map(|regions| regions.cells.len() + regions.paths.len()).sum();
    let traffic: usize = batch.mpi_traffic.iter().map(|traffic| traffic.cells.len()).sum();
    let inventory = batch.jobs.len() + batch.job_ranks.len() + batch.job_comms.len();
    ops + peers
        + regions
        + traffic
        + inventory
        + batch.job_settings.len()
        + batch.mpi_pvars.len()
        + batch.mpi_open_calls.len()
        + batch.mpi_scheduling.len()
        + batch.mpi_sampled_calls.len()
        + batch.events.len()
}
