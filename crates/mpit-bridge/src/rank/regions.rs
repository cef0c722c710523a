//! Regions and paths of regions in one rank's frames, with the names of what they number.

use super::{Rank, SOURCE};
use crate::frame::Region;
use crate::status::add;
use throughline_sample::catalogue::MPI_CALLS;
use throughline_sample::wire::{MpiPathCell, MpiRankRegions, MpiRegionCell};

impl Rank {
    /// The record of the regions that have names; `None` without any.
    pub(super) fn regions(&self, time: i64, regions: &[Region]) -> Option<MpiRankRegions> {
        let cells = regions.iter().filter_map(|region| {
            let name = self.names.region(region.number).or_else(|| self.unknown_name())?;
            let Region { visits, elapsed_nanoseconds, own_nanoseconds, mpi_calls, mpi_nanoseconds, .. } =
                reduced(region);
            Some(MpiRegionCell {
                region: name,
                visits,
                elapsed_nanoseconds,
                own_nanoseconds,
                mpi_calls,
                mpi_nanoseconds,
            })
        });
        let record = MpiRankRegions { cells: cells.collect(), ..self.record(time) };
        (!record.cells.is_empty()).then_some(record)
    }

    /// The record of the paths whose regions have names; `None` without any.
    pub(super) fn paths(&self, time: i64, paths: &[Region]) -> Option<MpiRankRegions> {
        let cells = paths.iter().filter_map(|path| {
            let text = self.names.path(path.number).or_else(|| self.unknown_name())?;
            let Region { visits, elapsed_nanoseconds, own_nanoseconds, mpi_calls, mpi_nanoseconds, .. } =
                reduced(path);
            Some(MpiPathCell {
                path: text,
                visits,
                elapsed_nanoseconds,
                own_nanoseconds,
                mpi_calls,
                mpi_nanoseconds,
            })
        });
        let record = MpiRankRegions { paths: cells.collect(), ..self.record(time) };
        (!record.paths.is_empty()).then_some(record)
    }

    fn record(&self, time: i64) -> MpiRankRegions {
        MpiRankRegions {
            time,
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            source: SOURCE.to_owned(),
            ..MpiRankRegions::default()
        }
    }

    fn unknown_name(&self) -> Option<String> {
        add(&self.counters.unknown_names, 1);
        None
    }
}

/// As they are stored: no sum may leave the range of the database's integers.
fn reduced(sums: &Region) -> Region {
    let reduce = |value| MPI_CALLS.width.reduce(value);
    Region {
        number: sums.number,
        visits: reduce(sums.visits),
        elapsed_nanoseconds: reduce(sums.elapsed_nanoseconds),
        own_nanoseconds: reduce(sums.own_nanoseconds),
        mpi_calls: reduce(sums.mpi_calls),
        mpi_nanoseconds: reduce(sums.mpi_nanoseconds),
    }
}
