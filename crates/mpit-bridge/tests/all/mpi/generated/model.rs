//! What the generated program is to be counted as, reckoned from the rules of protocol/README.md alone: nothing
//! here knows how the shim counts.

use std::collections::BTreeMap;

/// Sums of one rank, operation and size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub calls: u64,
    pub bytes: u64,
    pub received: u64,
}

/// What all ranks do together.
#[derive(Clone, Debug)]
pub struct Model {
    /// By rank, operation and upper bound of the size class.
    pub cells: BTreeMap<(u32, String, u64), Sums>,
    /// Bytes and messages, by sending and receiving rank.
    pub matrix: Vec<Vec<(u64, u64)>>,
    /// Messages whose receivers can't be known.
    pub unknown: u64,
}

/// Upper bound of the size class of so many bytes.
fn class(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.next_power_of_two() }
}

impl Model {
    pub fn new(ranks: usize) -> Self {
        Self { cells: BTreeMap::new(), matrix: vec![vec![(0, 0); ranks]; ranks], unknown: 0 }
    }

    fn cell(&mut self, rank: usize, operation: &str, of: u64) -> &mut Sums {
        let rank = u32::try_from(rank).unwrap();
        self.cells.entry((rank, operation.to_lowercase(), class(of))).or_default()
    }

    /// One call with a size class of `of` bytes that hands over `bytes`.
    pub fn call(&mut self, rank: usize, operation: &str, of: u64, bytes: u64) {
        let cell = self.cell(rank, operation, of);
        cell.calls += 1;
        cell.bytes += bytes;
    }

    /// Calls without bytes.
    pub fn timed(&mut self, rank: usize, operation: &str, calls: u64) {
        if calls > 0 {
            self.cell(rank, operation, 0).calls += calls;
        }
    }

    /// A call in the class of `of` bytes got `bytes`.
    pub fn received(&mut self, rank: usize, operation: &str, of: u64, bytes: u64) {
        self.cell(rank, operation, of).received += bytes;
    }

    pub fn message(&mut self, from: usize, to: usize, bytes: u64) {
        self.matrix[from][to].0 += bytes;
        self.matrix[from][to].1 += 1;
    }

    /// This and the other one.
    pub fn add(&mut self, other: &Self) {
        self.unknown += other.unknown;
        for (key, more) in &other.cells {
            let sums = self.cells.entry(key.clone()).or_default();
            sums.calls += more.calls;
            sums.bytes += more.bytes;
            sums.received += more.received;
        }
        for (cell, more) in self.matrix.iter_mut().flatten().zip(other.matrix.iter().flatten()) {
            *cell = (cell.0 + more.0, cell.1 + more.1);
        }
    }

    /// The same done by so many threads of each rank.
    pub fn times(&self, threads: u64) -> Self {
        let mut all = self.clone();
        all.unknown *= threads;
        for sums in all.cells.values_mut() {
            sums.calls *= threads;
            sums.bytes *= threads;
            sums.received *= threads;
        }
        for cell in all.matrix.iter_mut().flatten() {
            *cell = (cell.0 * threads, cell.1 * threads);
        }
        all
    }
}
