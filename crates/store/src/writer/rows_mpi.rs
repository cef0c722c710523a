//! Records of MPI ranks to rows. Columns of figures follow the catalogue's order (a test of the schema compares).

use throughline_sample::wire::{Batch, MpiNodeCells, MpiOpCell, MpiPeerCell, MpiSampledCall};

use super::keys::{Keys, small};
use super::rows::Rows;
use crate::copy::{RowBuffer, stored};
use crate::packed_account;
use crate::packed_rows::{self, SampledCall};
use crate::tables::index;

/// What rows of a rank begin with.
pub(super) fn begin(row: &mut RowBuffer, time: i64, job: i64, rank: i32) {
    row.row();
    row.time(time);
    row.int8(job);
    row.int4(rank);
}

/// What rows of a job on a node begin with.
fn begin_of_node(row: &mut RowBuffer, time: i64, job: i64, node: i64) {
    row.row();
    row.time(time);
    row.int8(job);
    row.int8(node);
}

/// What rows of a rank begin with that have the node that reports them.
fn begin_of_rank(row: &mut RowBuffer, time: i64, (job, rank, node): (i64, i32, i64)) {
    begin(row, time, job, rank);
    row.int8(node);
}

impl Rows {
    /// Adds a batch's samples of MPI ranks.
    pub(super) fn add_mpi(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        self.add_mpi_ranks(batch, keys)?;
        self.add_mpi_node_cells(batch, keys)?;
        self.add_mpi_regions(batch, keys)?;
        self.add_mpi_traffic(batch, keys)?;
        self.add_mpi_sampled_calls(batch, keys)?;
        self.add_mpi_traces(batch, keys)?;
        self.add_mpi_peers(batch, keys)?;
        for pvar in &batch.mpi_pvars {
            let of = (keys.job(&pvar.job_key)?, small(pvar.rank, "rank")?, keys.node(&batch.node)?);
            let element = small(pvar.element, "element")?;
            let row = &mut self.buffers[const { index("mpi_pvars") }];
            begin_of_rank(row, pvar.time, of);
            row.text(&pvar.name);
            row.int4(element);
            row.text(&pvar.source);
            row.text(&pvar.variable_class);
            row.float8(pvar.value);
        }
        Ok(())
    }

    fn add_mpi_peers(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for peers in batch.mpi_peers.iter().filter(|peers| !peers.cells.is_empty()) {
            let of = (keys.job(&peers.job_key)?, small(peers.rank, "rank")?, keys.node(&batch.node)?);
            let row = &mut self.buffers[const { index("mpi_rank_peers") }];
            begin_of_rank(row, peers.time, of);
            row.text(&peers.kind);
            row.time(peers.epoch);
            row.text(&peers.source);
            row.boolean(peers.is_whole);
            peer_arrays(row, &peers.cells)?;
        }
        Ok(())
    }

    /// Cells of ranks, those that their agents fold and those that they do not.
    fn add_mpi_ranks(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        let folded = batch.mpi_rank_rows.iter().map(|all| (all, true));
        let overflow = batch.mpi_ops.iter().map(|some| (some, false));
        for (bin, is_folded) in folded.chain(overflow).filter(|(bin, _)| !bin.cells.is_empty()) {
            let of = (keys.job(&bin.job_key)?, small(bin.rank, "rank")?, keys.node(&batch.node)?);
            let row = &mut self.buffers[const { index("mpi_rank_rows") }];
            begin_of_rank(row, bin.time, of);
            row.time(bin.epoch);
            row.text(&bin.source);
            row.boolean(is_folded);
            row.bits(packed_rows::cells(&numbered(bin.cells.iter(), keys)?));
        }
        Ok(())
    }

    fn add_mpi_node_cells(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        let is_stored = |all: &&MpiNodeCells| !all.cells.is_empty() || all.account.is_some();
        for all in batch.mpi_node_cells.iter().filter(is_stored) {
            let (job, node) = (keys.job(&all.job_key)?, keys.node(&batch.node)?);
            let row = &mut self.buffers[const { index("mpi_node_rows") }];
            begin_of_node(row, all.time, job, node);
            row.time(all.epoch);
            row.time(all.since);
            row.text(&all.source);
            row.boolean(all.is_whole);
            // The collector rejects records with a cell without sums.
            let cells: Vec<_> = all.cells.iter().filter(|cell| cell.sums.is_some()).collect();
            let sums = cells.iter().filter_map(|cell| cell.sums.as_ref());
            row.bits(packed_rows::cells(&numbered(sums, keys)?));
            row.bits(packed_rows::rounds(&cells));
            row.bits(all.account.as_ref().map(packed_account::pack).unwrap_or_default());
        }
        Ok(())
    }

    fn add_mpi_regions(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for regions in &batch.mpi_regions {
            let of = (keys.job(&regions.job_key)?, small(regions.rank, "rank")?, keys.node(&batch.node)?);
            for cell in &regions.cells {
                let row = &mut self.buffers[const { index("mpi_regions") }];
                begin_of_rank(row, regions.time, of);
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
                let row = &mut self.buffers[const { index("mpi_region_paths") }];
                begin_of_rank(row, regions.time, of);
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
        for traffic in batch.mpi_traffic.iter().filter(|traffic| !traffic.cells.is_empty()) {
            let (job, node) = (keys.job(&traffic.job_key)?, keys.node(&batch.node)?);
            let row = &mut self.buffers[const { index("mpi_node_traffic") }];
            begin_of_node(row, traffic.time, job, node);
            row.text(&traffic.operation);
            row.text(&traffic.kind);
            row.text(&traffic.direction);
            row.time(traffic.epoch);
            row.time(traffic.since);
            row.text(&traffic.source);
            row.boolean(traffic.is_whole);
            peer_arrays(row, &traffic.cells)?;
        }
        Ok(())
    }

    fn add_mpi_sampled_calls(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for sampled in batch.mpi_sampled_calls.iter().filter(|sampled| !sampled.calls.is_empty()) {
            let (job, node) = (keys.job(&sampled.job_key)?, keys.node(&batch.node)?);
            let size = small(sampled.group_size, "group size")?;
            let row = &mut self.buffers[const { index("mpi_sampled_calls") }];
            begin_of_node(row, sampled.time, job, node);
            row.int8(sampled.comm_group);
            row.text(&sampled.operation);
            row.int8(stored(sampled.size_class_bytes));
            row.int8(sampled.cell);
            row.int4(size);
            row.text(&sampled.members);
            let call = |call: &MpiSampledCall| -> SampledCall {
                [
                    stored(call.call),
                    call.ranks.into(),
                    stored(call.elapsed_nanoseconds),
                    stored(call.least_nanoseconds),
                    call.least_rank.into(),
                    call.level.into(),
                ]
            };
            row.bits(packed_rows::sampled_calls(sampled.calls.iter().map(call)));
        }
        Ok(())
    }
}

/// The columns of peers: who they are, bytes, messages.
fn peer_arrays(row: &mut RowBuffer, cells: &[MpiPeerCell]) -> Result<(), String> {
    let peers: Result<Vec<i32>, String> = cells.iter().map(|cell| small(cell.peer, "peer")).collect();
    let numbers = |of: fn(&MpiPeerCell) -> u64| -> Vec<Option<i64>> {
        cells.iter().map(|cell| Some(stored(of(cell)))).collect()
    };
    row.int4_array(&peers?);
    row.int8_array(&numbers(|cell| cell.bytes));
    row.int8_array(&numbers(|cell| cell.messages));
    Ok(())
}

/// What cells are of, as arrays in step.
pub(super) fn cell_names<'a>(row: &mut RowBuffer, cells: impl Iterator<Item = &'a MpiOpCell> + Clone) {
    let texts = |row: &mut RowBuffer, of: fn(&MpiOpCell) -> &str| {
        row.text_array(&cells.clone().map(of).collect::<Vec<_>>());
    };
    texts(row, |cell| &cell.operation);
    row.int8_array(&cells.clone().map(|cell| Some(stored(cell.size_class_bytes))).collect::<Vec<_>>());
    texts(row, |cell| &cell.region);
    texts(row, |cell| &cell.algorithm);
    texts(row, |cell| &cell.algorithm_source);
}

/// What is counted of cells, as arrays in step.
pub(super) fn cell_figures<'a>(row: &mut RowBuffer, cells: impl Iterator<Item = &'a MpiOpCell> + Clone) {
    let numbers = |row: &mut RowBuffer, of: fn(&MpiOpCell) -> Option<u64>| {
        row.int8_array(&cells.clone().map(|cell| of(cell).map(stored)).collect::<Vec<_>>());
    };
    numbers(row, |cell| Some(cell.calls));
    numbers(row, |cell| Some(cell.bytes));
    numbers(row, |cell| Some(cell.elapsed_nanoseconds));
    numbers(row, |cell| Some(cell.longest_nanoseconds));
    numbers(row, |cell| cell.wait_nanoseconds);
    numbers(row, |cell| cell.received_bytes);
    numbers(row, |cell| cell.least_nanoseconds);
}

/// Cells with their numbers.
fn numbered<'a>(
    cells: impl Iterator<Item = &'a MpiOpCell>,
    keys: &Keys,
) -> Result<Vec<(i64, &'a MpiOpCell)>, String> {
    cells.map(|cell| Ok((keys.cell(cell)?, cell))).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
