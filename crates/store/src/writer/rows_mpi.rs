//! Records of MPI ranks to rows. Columns of figures follow the catalogue's order (a test of the schema compares).

use throughline_sample::wire::{Batch, MpiSampledCall};

use super::keys::{Keys, small};
use super::rows::{
    MPI_OPS, MPI_PEERS, MPI_PVARS, MPI_REGION_PATHS, MPI_REGIONS, MPI_SAMPLED_CALLS, MPI_TRAFFIC, Rows,
    stored,
};
use crate::copy::RowBuffer;

/// What rows of a rank, or of a job on a node, begin with.
fn begin(row: &mut RowBuffer, time: i64, job: i32, place: i32) {
    row.row();
    row.time(time);
    row.int4(job);
    row.int4(place);
}

impl Rows {
    /// Adds a batch's samples of MPI ranks.
    pub(super) fn add_mpi(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        self.add_mpi_ops(batch, keys)?;
        self.add_mpi_regions(batch, keys)?;
        self.add_mpi_traffic(batch, keys)?;
        self.add_mpi_sampled_calls(batch, keys)?;
        self.add_mpi_traces(batch, keys)?;
        for peers in &batch.mpi_peers {
            let (job, rank) = (keys.job(&peers.job_key)?, small(peers.rank, "rank")?);
            for cell in &peers.cells {
                let peer = small(cell.peer, "peer")?;
                let row = &mut self.buffers[MPI_PEERS];
                begin(row, peers.time, job, rank);
                row.int4(peer);
                row.text(&peers.kind);
                row.time(peers.epoch);
                row.text(&peers.source);
                row.int8(stored(cell.bytes));
                row.int8(stored(cell.messages));
            }
        }
        for pvar in &batch.mpi_pvars {
            let (job, rank) = (keys.job(&pvar.job_key)?, small(pvar.rank, "rank")?);
            let element = small(pvar.element, "element")?;
            let row = &mut self.buffers[MPI_PVARS];
            begin(row, pvar.time, job, rank);
            row.text(&pvar.name);
            row.int4(element);
            row.text(&pvar.source);
            row.text(&pvar.variable_class);
            row.float8(pvar.value);
        }
        Ok(())
    }

    fn add_mpi_ops(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for bin in &batch.mpi_ops {
            let (job, rank) = (keys.job(&bin.job_key)?, small(bin.rank, "rank")?);
            for cell in &bin.cells {
                let row = &mut self.buffers[MPI_OPS];
                begin(row, bin.time, job, rank);
                row.text(&cell.operation);
                row.int8(stored(cell.size_class_bytes));
                row.text(&cell.region);
                row.text(&cell.algorithm);
                row.text(&cell.algorithm_source);
                row.time(bin.epoch);
                row.text(&bin.source);
                row.int8(stored(cell.calls));
                row.int8(stored(cell.bytes));
                row.float8(seconds(cell.elapsed_nanoseconds));
                row.float8(seconds(cell.longest_nanoseconds));
                match cell.wait_nanoseconds {
                    Some(wait) => row.float8(seconds(wait)),
                    None => row.null(),
                }
                row.optional_int8(cell.received_bytes.map(stored));
                match cell.least_nanoseconds {
                    Some(least) => row.float8(seconds(least)),
                    None => row.null(),
                }
            }
        }
        Ok(())
    }

    fn add_mpi_regions(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for regions in &batch.mpi_regions {
            let (job, rank) = (keys.job(&regions.job_key)?, small(regions.rank, "rank")?);
            for cell in &regions.cells {
                let row = &mut self.buffers[MPI_REGIONS];
                begin(row, regions.time, job, rank);
                row.text(&cell.region);
                row.time(regions.epoch);
                row.text(&regions.source);
                row.int8(stored(cell.visits));
                row.float8(seconds(cell.elapsed_nanoseconds));
                row.float8(seconds(cell.own_nanoseconds));
                row.int8(stored(cell.mpi_calls));
                row.float8(seconds(cell.mpi_nanoseconds));
            }
            for cell in &regions.paths {
                let row = &mut self.buffers[MPI_REGION_PATHS];
                begin(row, regions.time, job, rank);
                row.text(&cell.path);
                row.time(regions.epoch);
                row.text(&regions.source);
                row.int8(stored(cell.visits));
                row.float8(seconds(cell.elapsed_nanoseconds));
                row.float8(seconds(cell.own_nanoseconds));
                row.int8(stored(cell.mpi_calls));
                row.float8(seconds(cell.mpi_nanoseconds));
            }
        }
        Ok(())
    }
}

impl Rows {
    fn add_mpi_traffic(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for traffic in &batch.mpi_traffic {
            let (job, node) = (keys.job(&traffic.job_key)?, keys.node(&batch.node)?);
            for cell in &traffic.cells {
                let peer = small(cell.peer, "peer")?;
                let row = &mut self.buffers[MPI_TRAFFIC];
                begin(row, traffic.time, job, node);
                row.text(&traffic.operation);
                row.text(&traffic.kind);
                row.text(&traffic.direction);
                row.int4(peer);
                row.time(traffic.epoch);
                row.time(traffic.since);
                row.text(&traffic.source);
                row.int8(stored(cell.bytes));
                row.int8(stored(cell.messages));
            }
        }
        Ok(())
    }

    fn add_mpi_sampled_calls(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for sampled in batch.mpi_sampled_calls.iter().filter(|sampled| !sampled.calls.is_empty()) {
            let (job, node) = (keys.job(&sampled.job_key)?, keys.node(&batch.node)?);
            let size = small(sampled.group_size, "group size")?;
            let row = &mut self.buffers[MPI_SAMPLED_CALLS];
            begin(row, sampled.time, job, node);
            row.int8(sampled.comm_group);
            row.text(&sampled.operation);
            row.int8(stored(sampled.size_class_bytes));
            row.int8(sampled.cell);
            row.int4(size);
            row.text(&sampled.members);
            let figures: [fn(&MpiSampledCall) -> u64; 6] = [
                |call| call.call,
                |call| call.ranks.into(),
                |call| call.elapsed_nanoseconds,
                |call| call.least_nanoseconds,
                |call| call.least_rank.into(),
                |call| call.level.into(),
            ];
            for figure in figures {
                let all: Vec<_> = sampled.calls.iter().map(|call| Some(stored(figure(call)))).collect();
                row.int8_array(&all);
            }
        }
        Ok(())
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
