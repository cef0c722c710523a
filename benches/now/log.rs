//! What the ranks of a program called, by their own clocks.

use anyhow::Context;
use std::path::Path;

/// Sums up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls that returned.
    pub calls: i64,
    /// Bytes that were passed to send.
    pub bytes: i64,
    /// Bytes that went to other ranks, as the matrix has them: those of the exchange to the next one, of the reduction to all others.
    pub moved: i64,
    /// Nanoseconds inside.
    pub elapsed: i64,
}

impl Sums {
    /// What came after `before`.
    pub fn since(self, before: Sums) -> Sums {
        Sums {
            calls: self.calls - before.calls,
            bytes: self.bytes - before.bytes,
            moved: self.moved - before.moved,
            elapsed: self.elapsed - before.elapsed,
        }
    }
}

/// A rank's calls: when they returned, nanoseconds since 1970, and the sums with each.
pub struct Rank(Vec<(i64, Sums)>);

impl Rank {
    /// At a moment, itself included.
    pub fn at(&self, time: i64) -> Sums {
        let count = self.0.partition_point(|(ended, _)| *ended <= time);
        count.checked_sub(1).map_or_else(Sums::default, |last| self.0[last].1)
    }
}

impl Rank {
    /// When its last call before MPI_Finalize returned.
    pub fn ended(&self) -> i64 {
        self.0.last().map_or(0, |(ended, _)| *ended)
    }
}

/// All ranks of a program.
pub struct Log(pub Vec<Rank>);

impl Log {
    /// Reads a folder that courses.c wrote.
    pub fn read(folder: &Path, ranks: usize) -> anyhow::Result<Self> {
        let others = i64::try_from(ranks)? - 1;
        let rank = |number: usize| {
            let path = folder.join(number.to_string());
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let mut sums = Sums::default();
            let (calls, rest) = bytes.as_chunks::<32>();
            anyhow::ensure!(rest.is_empty(), "{}: no whole calls", path.display());
            Ok(Rank(
                calls
                    .iter()
                    .map(|call| {
                        let (fields, _) = call.as_chunks::<8>();
                        let [ended, elapsed, bytes, is_exchange] =
                            [0, 1, 2, 3].map(|at| i64::from_ne_bytes(fields[at]));
                        sums.calls += 1;
                        sums.bytes += bytes;
                        sums.moved += bytes * if is_exchange == 1 { 1 } else { others };
                        sums.elapsed += elapsed;
                        (ended, sums)
                    })
                    .collect(),
            ))
        };
        Ok(Self((0..ranks).map(rank).collect::<anyhow::Result<_>>()?))
    }

    /// All ranks at a moment.
    pub fn at(&self, time: i64) -> Sums {
        self.0.iter().map(|rank| rank.at(time)).fold(Sums::default(), |all, one| Sums {
            calls: all.calls + one.calls,
            bytes: all.bytes + one.bytes,
            moved: all.moved + one.moved,
            elapsed: all.elapsed + one.elapsed,
        })
    }

    /// At the end, MPI_Finalize of each rank included.
    pub fn last(&self) -> Sums {
        let all = self.at(i64::MAX);
        Sums { calls: all.calls + i64::try_from(self.0.len()).unwrap_or(0), ..all }
    }
}
