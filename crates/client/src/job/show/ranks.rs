//! The sums of each rank: the findings are made from them.

use throughline_api::jobs::{JobRanks, mpi_time_share};

/// One rank's MPI over all operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTotal {
    /// Its number.
    pub rank: i32,
    /// The node of its newest start.
    pub host: Option<String>,
    /// Calls.
    pub calls: u64,
    /// What it passed to send.
    pub bytes: u64,
    /// Time inside MPI.
    pub mpi_seconds: f64,
    /// From MPI_Init to its end or its newest row.
    pub observed_seconds: Option<f64>,
    /// The first divided by the second; null where threads of it were inside at the same time.
    pub mpi_time_share: Option<f64>,
}

/// Ranks that sent anything, in their order.
pub fn of(ranks: &JobRanks) -> Vec<RankTotal> {
    let columns = &ranks.ranks;
    let whole = |count: &Option<i64>| count.and_then(|count| u64::try_from(count).ok());
    let one = |(place, rank): (usize, &i32)| {
        let mpi_seconds = columns.mpi_seconds.get(place).copied().flatten()?;
        let observed_seconds = columns.observed_seconds.get(place).copied().flatten();
        Some(RankTotal {
            rank: *rank,
            host: columns.host.get(place).and_then(|host| ranks.hosts.get(*host)).cloned(),
            calls: columns.calls.get(place).and_then(whole).unwrap_or_default(),
            bytes: columns.bytes.get(place).and_then(whole).unwrap_or_default(),
            mpi_seconds,
            observed_seconds,
            mpi_time_share: observed_seconds.and_then(|observed| mpi_time_share(mpi_seconds, observed)),
        })
    };
    columns.rank.iter().enumerate().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::RankColumns;

    #[test]
    fn ranks_that_sent_something_with_their_hosts() {
        let columns = RankColumns {
            rank: vec![0, 1, 2],
            host: vec![0, 1, 1],
            calls: vec![Some(5), None, Some(1)],
            bytes: vec![Some(80), None, Some(0)],
            mpi_seconds: vec![Some(0.5), None, Some(3.0)],
            observed_seconds: vec![Some(2.0), None, None],
            ..RankColumns::default()
        };
        let ranks = of(&JobRanks {
            job_key: "j".into(),
            hosts: vec!["n1".into(), "n2".into()],
            ranks: columns,
            as_of: None,
        });
        let facts: Vec<_> =
            ranks.iter().map(|rank| (rank.rank, rank.host.as_deref(), rank.mpi_time_share)).collect();
        assert_eq!(facts, [(0, Some("n1"), Some(0.25)), (2, Some("n2"), None)]);
        assert_eq!((ranks[0].calls, ranks[0].bytes), (5, 80));
    }
}
