//! Records of detail on demand to rows. A record is a row with its cells as arrays; operations have the most
//! records, and a row has some seconds of a rank.

use std::collections::{BTreeMap, HashMap};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, MpiOpCell, MpiRankBin, MpiRegionCell};

use super::keys::{Keys, small};
use super::rows::Rows;
use super::rows_mpi::{begin, cell_figures, cell_names};
use crate::copy::{RowBuffer, stored};
use crate::tables::index;

impl Rows {
    /// Adds a batch's records of MPI ranks that were requested.
    pub(super) fn add_detail_mpi(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        self.add_detail_ops(batch, keys)?;
        for peers in batch.mpi_peers.iter().filter(|peers| !peers.cells.is_empty()) {
            let (job, rank) = (keys.job(&peers.job_key)?, small(peers.rank, "rank")?);
            let row = &mut self.buffers[const { index("detail_mpi_peers") }];
            begin(row, peers.time, job, rank);
            row.text(&peers.kind);
            row.time(peers.epoch);
            row.text(&peers.source);
            row.int8_array(&peers.cells.iter().map(|cell| Some(cell.peer.into())).collect::<Vec<_>>());
            row.int8_array(&peers.cells.iter().map(|cell| Some(stored(cell.bytes))).collect::<Vec<_>>());
            row.int8_array(&peers.cells.iter().map(|cell| Some(stored(cell.messages))).collect::<Vec<_>>());
            row.int8(digest(peers));
        }
        for regions in batch.mpi_regions.iter().filter(|regions| !regions.cells.is_empty()) {
            let (job, rank) = (keys.job(&regions.job_key)?, small(regions.rank, "rank")?);
            let row = &mut self.buffers[const { index("detail_mpi_regions") }];
            begin(row, regions.time, job, rank);
            row.time(regions.epoch);
            row.text(&regions.source);
            row.text_array(&regions.cells.iter().map(|cell| cell.region.as_str()).collect::<Vec<_>>());
            let figures: [fn(&MpiRegionCell) -> u64; 5] = [
                |cell| cell.visits,
                |cell| cell.elapsed_nanoseconds,
                |cell| cell.own_nanoseconds,
                |cell| cell.mpi_calls,
                |cell| cell.mpi_nanoseconds,
            ];
            for figure in figures {
                row.int8_array(
                    &regions.cells.iter().map(|cell| Some(stored(figure(cell)))).collect::<Vec<_>>(),
                );
            }
            row.int8(digest(regions));
        }
        for pvar in &batch.mpi_pvars {
            let (job, rank) = (keys.job(&pvar.job_key)?, small(pvar.rank, "rank")?);
            let element = small(pvar.element, "element")?;
            let row = &mut self.buffers[const { index("detail_mpi_pvars") }];
            begin(row, pvar.time, job, rank);
            row.text(&pvar.name);
            row.int4(element);
            row.text(&pvar.source);
            row.text(&pvar.variable_class);
            row.float8(pvar.value);
        }
        Ok(())
    }
}

/// Longest time of the bins in a row, microseconds: a reader that looks for a time finds the row by its last bin not much later.
const ROW_MICROSECONDS: i64 = 60_000_000;

/// Bins of one rank, in the order of their times: the bins of a row.
#[derive(Default)]
struct RankBins<'a>(Vec<(i64, &'a MpiRankBin)>);

impl<'a> RankBins<'a> {
    /// As many rows as it takes.
    fn rows(&self) -> impl Iterator<Item = &[(i64, &'a MpiRankBin)]> {
        self.0.chunk_by(|(one, _), (next, _)| {
            one.div_euclid(ROW_MICROSECONDS) == next.div_euclid(ROW_MICROSECONDS)
        })
    }
}

impl Rows {
    fn add_detail_ops(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        let Some(part) = batch.detail.as_ref().filter(|_| !batch.mpi_ops.is_empty()) else { return Ok(()) };
        let node = keys.node(&batch.node)?;
        let request = i64::try_from(part.request).map_err(|_| "a request without a number".to_owned())?;
        let mut ranks: BTreeMap<_, RankBins<'_>> = BTreeMap::new();
        for bin in batch.mpi_ops.iter().filter(|bin| !bin.cells.is_empty()) {
            let (job, rank) = (keys.job(&bin.job_key)?, small(bin.rank, "rank")?);
            let bins = ranks.entry((job, rank, bin.epoch, bin.source.as_str())).or_default();
            bins.0.push((bin.time.div_euclid(1000), bin));
        }
        for ((job, rank, epoch, source), mut bins) in ranks {
            bins.0.sort_by_key(|(time, _)| *time);
            for bins in bins.rows() {
                let (Some((since, _)), Some((last, _))) = (bins.first(), bins.last()) else { continue };
                let row = &mut self.buffers[const { index("detail_mpi_bins") }];
                begin(row, last * 1000, job, rank);
                row.time(epoch);
                row.text(source);
                row.time(since * 1000);
                row.int8(node);
                row.int8(request);
                row.int8(part.attempt.cast_signed());
                cells_of(row, bins, *since)?;
            }
        }
        Ok(())
    }
}

/// The columns of cells: each cell once with its identity, then of each bin its cells by their places there.
fn cells_of(row: &mut RowBuffer, bins: &[(i64, &MpiRankBin)], since: i64) -> Result<(), String> {
    let all = || bins.iter().flat_map(|(time, bin)| bin.cells.iter().map(move |cell| (time, cell)));
    let mut places = HashMap::new();
    let mut names: Vec<&MpiOpCell> = Vec::new();
    let (mut times, mut cells) = (Vec::new(), Vec::new());
    for (time, cell) in all() {
        let key =
            (&cell.operation, cell.size_class_bytes, &cell.region, &cell.algorithm, &cell.algorithm_source);
        let place = *places.entry(key).or_insert_with(|| {
            names.push(cell);
            names.len()
        });
        let within = |number: i64| i32::try_from(number).map_err(|_| "too many cells in a part".to_owned());
        times.push(within(time - since)?);
        cells.push(within(i64::try_from(place).unwrap_or(i64::MAX))?);
    }
    cell_names(row, names.iter().copied());
    row.int4_array(&times);
    row.int4_array(&cells);
    cell_figures(row, all().map(|(_, cell)| cell));
    Ok(())
}

/// FNV-1a of a record as it is encoded: the same in every version, as the wire schema's fields keep their numbers.
fn digest(record: &impl Message) -> i64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    record.encode_to_vec().iter().fold(OFFSET, hash).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::MpiRankBin;

    #[test]
    fn a_digest_is_the_same_in_every_version() {
        assert_eq!(digest(&MpiRankBin::default()), 0xcbf2_9ce4_8422_2325_u64.cast_signed());
        let bin = MpiRankBin { rank: 3, job_key: "a".into(), ..MpiRankBin::default() };
        // Bytes 1a 01 61 20 03.
        assert_eq!(digest(&bin), 0x5733_521f_b693_15ea_u64.cast_signed());
    }
}
