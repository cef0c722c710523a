//! The only row of a rank that ended before it had another, once more in a later entry of the spool: what damages one entry
//! does not take all that is known of a young rank.
//!
//! A row is a rank's sums, so that the same ones twice change no total.

use throughline_sample::wire::{Batch, Job, JobRank, MpiRankBin};

/// Most cells of rows that wait to be sent again, of 200 bytes each: the end of a large node's short job. Beyond, rows are sent
/// once.
const CELLS_MAX: usize = 16_384;

/// Rows that go once more, with the records of their job and rank, which damage may have taken as well.
#[derive(Debug, Default)]
pub(super) struct RepeatedRows {
    /// Of the entry that is gathered now.
    fresh: Batch,
    /// Of the entry before.
    ready: Batch,
    cells: usize,
}

impl RepeatedRows {
    /// Takes a row that is sent now for the first time.
    pub fn add(&mut self, row: MpiRankBin, rank: &JobRank, job: Option<&Job>) {
        if self.cells + row.cells.len() > CELLS_MAX {
            return;
        }
        self.cells += row.cells.len();
        let jobs = &mut self.fresh.jobs;
        jobs.extend(job.filter(|job| !jobs.iter().any(|known| known.key == job.key)).cloned());
        self.fresh.job_ranks.push(rank.clone());
        self.fresh.mpi_rank_rows.push(row);
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        for row in [&mut self.fresh, &mut self.ready].into_iter().flat_map(|batch| &mut batch.mpi_rank_rows) {
            row.time = row.time.saturating_add(step);
        }
    }

    /// What was sent with the entry before. To be called once for each entry.
    pub fn due(&mut self) -> Batch {
        let due = std::mem::replace(&mut self.ready, std::mem::take(&mut self.fresh));
        self.cells -= due.mpi_rank_rows.iter().map(|row| row.cells.len()).sum::<usize>();
        due
    }
}
