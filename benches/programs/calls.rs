//! How many MPI calls a program made, as the shim reported. Time says little on a machine that others use too; calls times
//! what one may cost bounds what the shim adds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_sample::wire::Batch;

/// A cell of one rank of one run: epoch, rank, operation, size class, region, algorithm.
type Cell = (i64, u32, String, u64, String, String);

/// Newest count of each cell.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<HashMap<Cell, u64>>>);

impl Calls {
    /// Takes in what ranks reported.
    pub fn take(&self, batch: Batch) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bin in batch.mpi_ops {
            for cell in bin.cells {
                let of =
                    (bin.epoch, bin.rank, cell.operation, cell.size_class_bytes, cell.region, cell.algorithm);
                let count = counts.entry(of).or_default();
                *count = cell.calls.max(*count);
            }
        }
    }

    /// The most that a rank of any run called since this was called before.
    pub fn most_of_a_rank(&self) -> u64 {
        let mut ranks: HashMap<(i64, u32), u64> = HashMap::new();
        for ((epoch, rank, ..), calls) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            *ranks.entry((epoch, rank)).or_default() += calls;
        }
        ranks.into_values().max().unwrap_or(0)
    }
}
