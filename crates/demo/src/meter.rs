//! How fast each rank sends to each other rank, from cumulative `mpi_peers` rows.
//!
//! Rows come as a query finds them: cumulative per job, rank and peer, with an epoch. Pure; reads no database.

use super::flows::TrafficMatrix;
use std::collections::{BTreeMap, VecDeque};
use throughline_query::recent::PeerTotal;

/// Over how long a rate is taken: a few of the rows that a rank pushes each second, so that one late row does
/// not look like a pause.
const WINDOW_NANOSECONDS: i64 = 3_000_000_000;

/// A pair whose newest row is older than this has stopped sending.
const SILENT_NANOSECONDS: i64 = 4_000_000_000;

/// Points kept per pair at most; a rank pushes one a second.
const POINTS: usize = 64;

/// Rates between ranks.
#[derive(Debug, Default)]
pub struct Meter {
    pairs: BTreeMap<(usize, usize), Pair>,
}

#[derive(Debug, Default)]
struct Pair {
    job: String,
    epoch: i64,
    points: VecDeque<(i64, u64)>,
}

impl Meter {
    /// Takes rows in; older than known, or known already, changes nothing. A newer job takes the place of the
    /// one before.
    pub fn take(&mut self, rows: impl IntoIterator<Item = PeerTotal>) {
        for row in rows {
            let pair = self.pairs.entry((row.rank, row.peer)).or_default();
            let newest = pair.points.back().map_or(i64::MIN, |(time, _)| *time);
            if row.time <= newest {
                continue;
            }
            if pair.job != row.job || pair.epoch != row.epoch {
                // Not from the epoch on, when the counting began at 0: starting up is no traffic.
                *pair = Pair { job: row.job, epoch: row.epoch, points: VecDeque::new() };
            }
            pair.points.push_back((row.time, row.bytes));
            let old = |pair: &Pair| {
                // Keep one point at or before the window's begin, and never fewer than two.
                pair.points.len() > POINTS
                    || (pair.points.len() > 2 && pair.points[1].0 <= row.time - WINDOW_NANOSECONDS)
            };
            while old(pair) {
                pair.points.pop_front();
            }
        }
    }

    /// Rates in bytes per second between the first `ranks` ranks as of `now` (UTC nanoseconds).
    pub fn demand(&self, ranks: usize, now: i64) -> TrafficMatrix {
        let rate = |from: usize, to: usize| {
            let points = &self.pairs.get(&(from, to))?.points;
            let ((begin, first), (end, last)) = (points.front()?, points.back()?);
            if now - end > SILENT_NANOSECONDS || end <= begin {
                return None;
            }
            Some(last.saturating_sub(*first) as f64 / ((end - begin) as f64 / 1e9))
        };
        (0..ranks)
            .map(|from| {
                (0..ranks).map(|to| if from == to { 0.0 } else { rate(from, to).unwrap_or(0.0) }).collect()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn row(job: &str, time: i64, bytes: u64) -> PeerTotal {
        let epoch = if job == "a" { 0 } else { 100 * SECOND };
        PeerTotal { job: job.into(), rank: 0, peer: 1, time, epoch, bytes }
    }

    #[test]
    fn a_steady_flow_has_its_rate() {
        let mut meter = Meter::default();
        for second in 1..20_u8 {
            meter.take([row("a", i64::from(second) * SECOND, u64::from(second) * 500)]);
        }
        let demand = meter.demand(2, 19 * SECOND);
        assert!((demand[0][1] - 500.0).abs() < 1e-9);
        assert_eq!(demand[1][0], 0.0);
    }

    #[test]
    fn a_change_shows_within_the_window_and_silence_is_no_traffic() {
        let mut meter = Meter::default();
        let bytes = [100_u64, 200, 300, 1300, 2300, 3300, 4300];
        for (second, bytes) in bytes.iter().enumerate() {
            meter.take([row("a", i64::try_from(second + 1).unwrap() * SECOND, *bytes)]);
        }
        assert!((meter.demand(2, 7 * SECOND)[0][1] - 1000.0).abs() < 1e-9);
        assert_eq!(meter.demand(2, 12 * SECOND)[0][1], 0.0);
    }

    #[test]
    fn a_new_job_has_a_rate_from_its_second_row_on_and_repeated_rows_change_nothing() {
        let mut meter = Meter::default();
        meter.take([row("a", 5 * SECOND, 1_000_000)]);
        meter.take([row("b", 102 * SECOND, 600), row("b", 102 * SECOND, 600), row("a", 6 * SECOND, 9)]);
        assert_eq!(meter.demand(2, 102 * SECOND)[0][1], 0.0);
        meter.take([row("b", 104 * SECOND, 1200)]);
        assert!((meter.demand(2, 104 * SECOND)[0][1] - 300.0).abs() < 1e-9);
    }
}
