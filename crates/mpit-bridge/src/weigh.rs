//! What records weigh in memory, so that bounds are bytes and not counts: a cell may have names of 255 bytes or none.

use std::mem::size_of;
use throughline_sample::wire::{
    Batch, Event, Job, JobComm, JobRank, JobSetting, MpiOpCell, MpiPeerCell, MpiPvarSample, MpiRankBin,
    MpiRankClock, MpiRankPeers, MpiRankRegions, MpiRankTrace, MpiRegionCell, MpiTraceRecord,
};

/// What the allocator adds to each allocation, on average.
const OVERHEAD: usize = 16;

fn text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + OVERHEAD }
}

/// Weight of one record.
pub(crate) trait Weigh {
    /// Bytes with all that it owns.
    fn weight(&self) -> usize;
}

impl Weigh for MpiOpCell {
    fn weight(&self) -> usize {
        let texts =
            text(&self.operation) + text(&self.region) + text(&self.algorithm) + text(&self.algorithm_source);
        size_of::<Self>() + texts
    }
}

impl Weigh for MpiRankBin {
    fn weight(&self) -> usize {
        let cells: usize = self.cells.iter().map(Weigh::weight).sum();
        size_of::<Self>() + OVERHEAD + text(&self.job_key) + text(&self.source) + cells
    }
}

impl Weigh for MpiRankPeers {
    fn weight(&self) -> usize {
        let cells = self.cells.len() * size_of::<MpiPeerCell>();
        size_of::<Self>() + OVERHEAD + text(&self.job_key) + text(&self.kind) + text(&self.source) + cells
    }
}

impl Weigh for MpiPvarSample {
    fn weight(&self) -> usize {
        let texts = text(&self.job_key) + text(&self.name) + text(&self.source) + text(&self.variable_class);
        size_of::<Self>() + texts
    }
}

impl Weigh for MpiRankRegions {
    fn weight(&self) -> usize {
        let cells = self.cells.iter().map(|cell| size_of::<MpiRegionCell>() + text(&cell.region));
        size_of::<Self>() + OVERHEAD + text(&self.job_key) + text(&self.source) + cells.sum::<usize>()
    }
}

impl Weigh for MpiRankTrace {
    fn weight(&self) -> usize {
        let records = self.records.iter().map(|record| {
            let texts = text(&record.kind) + text(&record.operation) + text(&record.region);
            size_of::<MpiTraceRecord>() + texts
        });
        size_of::<Self>() + OVERHEAD + text(&self.job_key) + records.sum::<usize>()
    }
}

impl Weigh for MpiRankClock {
    fn weight(&self) -> usize {
        size_of::<Self>() + OVERHEAD + text(&self.job_key) + self.points.len() * 32
    }
}

impl Weigh for Job {
    fn weight(&self) -> usize {
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
        size_of::<Self>() + texts.into_iter().map(|one| text(one)).sum::<usize>()
    }
}

impl Weigh for JobRank {
    fn weight(&self) -> usize {
        let texts = [&self.job_key, &self.mpi_library, &self.ending, &self.host, &self.cpus];
        let lists = [&self.gpus, &self.hca_ports].into_iter().flatten().flat_map(|names| &names.name);
        let lists = lists.map(|name| size_of::<String>() + text(name)).sum::<usize>();
        let texts = texts.into_iter().map(|one| text(one)).sum::<usize>();
        size_of::<Self>() + texts + lists + 4 * self.numa_nodes.len() + OVERHEAD
    }
}

impl Weigh for JobComm {
    fn weight(&self) -> usize {
        size_of::<Self>() + text(&self.job_key) + text(&self.name)
    }
}

impl Weigh for JobSetting {
    fn weight(&self) -> usize {
        size_of::<Self>() + text(&self.job_key) + text(&self.name) + text(&self.value)
    }
}

impl Weigh for Event {
    fn weight(&self) -> usize {
        size_of::<Self>() + text(&self.source) + text(&self.kind) + text(&self.text) + 8 * OVERHEAD
    }
}

fn all<T: Weigh>(records: &[T]) -> usize {
    records.iter().map(Weigh::weight).sum()
}

/// Bytes of the records of a fragment but those of trace mode, which go another way.
pub(crate) fn weight(batch: &Batch) -> usize {
    let inventory = all(&batch.jobs) + all(&batch.job_ranks) + all(&batch.job_comms);
    let samples = all(&batch.mpi_ops) + all(&batch.mpi_peers) + all(&batch.mpi_pvars);
    inventory + samples + all(&batch.mpi_regions) + all(&batch.job_settings) + all(&batch.events)
}

/// Rows that a fragment becomes.
pub(crate) fn rows(batch: &Batch) -> usize {
    let ops: usize = batch.mpi_ops.iter().map(|bin| bin.cells.len()).sum();
    let peers: usize = batch.mpi_peers.iter().map(|peers| peers.cells.len()).sum();
    let regions: usize = batch.mpi_regions.iter().map(|regions| regions.cells.len()).sum();
    let inventory = batch.jobs.len() + batch.job_ranks.len() + batch.job_comms.len();
    ops + peers + regions + inventory + batch.job_settings.len() + batch.mpi_pvars.len() + batch.events.len()
}
