//! Records of detail on demand to rows: a record is a row, with its cells as arrays.

use throughline_sample::Message;
use throughline_sample::wire::{Batch, MpiRegionCell};

use super::keys::{Keys, small};
use super::rows::{DETAIL_MPI_OPS, DETAIL_MPI_PEERS, DETAIL_MPI_PVARS, DETAIL_MPI_REGIONS, Rows, stored};
use super::rows_mpi::{begin, cell_arrays};

impl Rows {
    /// Adds a batch's records of MPI ranks that were requested.
    pub(super) fn add_detail_mpi(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for bin in batch.mpi_ops.iter().filter(|bin| !bin.cells.is_empty()) {
            let (job, rank) = (keys.job(&bin.job_key)?, small(bin.rank, "rank")?);
            let row = &mut self.buffers[DETAIL_MPI_OPS];
            begin(row, bin.time, job, rank);
            row.time(bin.epoch);
            row.text(&bin.source);
            cell_arrays(row, bin.cells.iter());
            row.int8(digest(bin));
        }
        for peers in batch.mpi_peers.iter().filter(|peers| !peers.cells.is_empty()) {
            let (job, rank) = (keys.job(&peers.job_key)?, small(peers.rank, "rank")?);
            let row = &mut self.buffers[DETAIL_MPI_PEERS];
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
            let row = &mut self.buffers[DETAIL_MPI_REGIONS];
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
            let row = &mut self.buffers[DETAIL_MPI_PVARS];
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
