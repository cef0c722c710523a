//! Moments and ranges of queries, steps of a range, and the database's clock. Times are milliseconds since 1970.

use crate::Horizons;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

/// The moment for which something is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryTime {
    /// What holds now, whatever the clocks of nodes say.
    Latest,
    /// What held then, in milliseconds.
    Time(i64),
}

impl QueryTime {
    /// The time as SQL, later than all others where it is the present.
    pub(crate) fn moment(self) -> String {
        match self {
            QueryTime::Latest => "'infinity'::timestamptz".to_owned(),
            QueryTime::Time(time) => moment(time),
        }
    }

    /// SQL that holds for the rows of `alias` that were valid then.
    pub(crate) fn valid(self, alias: &str) -> String {
        match self {
            QueryTime::Latest => format!("{alias}.valid_to IS NULL"),
            QueryTime::Time(time) => {
                let at = moment(time);
                format!(
                    "{alias}.valid_from <= {at} AND ({alias}.valid_to IS NULL OR {alias}.valid_to > {at})"
                )
            }
        }
    }
}

/// Milliseconds since 1970 of a time of the database.
pub(crate) fn milliseconds(time: SystemTime) -> i64 {
    let whole = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => -whole(before.duration()),
    }
}

/// Seconds from one time to another; negative where it is the other way round.
pub(crate) fn seconds_between(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(span) => span.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// Clocks of crawlers may be ahead of the database's by so much; their rows are the newest all the same.
pub(crate) const CLOCK_AHEAD_MS: i64 = 60_000;

/// Milliseconds of a minute.
pub(crate) const MINUTE_MS: i64 = 60_000;

/// Lengths of steps, seconds: what people divide hours and days by.
const STEPS: [i64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800, 2_592_000, 31_536_000,
];

/// Steps of one length, aligned to it: the same for all requests of the same range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Begin of the first step, milliseconds since 1970.
    pub from: i64,
    /// Length of a step, milliseconds.
    pub step: i64,
    /// How many.
    pub steps: usize,
}

/// When rows of a series come, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTimes {
    /// From one to the next.
    pub distance: i64,
    /// Of any of them since 1970.
    pub phase: i64,
    /// The last of them, where that may be out of turn.
    pub newest: Option<i64>,
}

/// So long after the end of an interval its rows are there: ranks report at its end, and what they report takes a moment.
const ARRIVAL_MS: i64 = 4_000;

impl RowTimes {
    /// Until when there are rows at a time.
    #[must_use]
    pub fn made_until(self, now: i64) -> i64 {
        let in_turn = (now - ARRIVAL_MS - self.phase).div_euclid(self.distance) * self.distance + self.phase;
        in_turn.max(self.newest.unwrap_or(i64::MIN))
    }
}

/// Steps within a second, milliseconds: ranks report bins of 100 ms.
const FINE_STEPS_MS: [i64; 3] = [100, 200, 500];

impl Grid {
    /// The shortest steps with which a range has no more than so many.
    #[must_use]
    pub fn new(from: i64, to: i64, points: usize) -> Grid {
        let most = i64::try_from(points).unwrap_or(i64::MAX).max(1);
        let of = |seconds: i64| {
            let step = seconds * 1000;
            let begin = from.div_euclid(step) * step;
            let steps = (to - begin + step - 1).div_euclid(step).max(1);
            (begin, step, steps)
        };
        let fitting = STEPS.into_iter().map(of).find(|(_, _, steps)| *steps <= most);
        let (from, step, steps) = fitting.unwrap_or((from, (to - from).max(1), 1));
        Grid { from, step, steps: usize::try_from(steps).unwrap_or(1) }
    }

    /// As [`Grid::new`], with steps of a tenth of a second and more where these are no more than so many: for a time that has
    /// detail, in bins of so many milliseconds.
    #[must_use]
    pub fn fine(from: i64, to: i64, points: usize, bin: i64) -> Grid {
        let bins = RowTimes { distance: bin.max(1), phase: 0, newest: None };
        let fitting = FINE_STEPS_MS.into_iter().filter(|step| step % bins.distance == 0);
        let fitting = fitting.map(|step| Grid::aligned(from, to, step, 0)).find(|grid| grid.steps <= points);
        fitting.unwrap_or_else(|| Grid::of_rows(from, to, points, bins))
    }

    /// The shortest steps of whole distances of rows with which a range has no more than so many: none is finer than what there is, and
    /// each begins where a row ends.
    #[must_use]
    pub fn of_rows(from: i64, to: i64, points: usize, rows: RowTimes) -> Grid {
        let listed = STEPS.into_iter().map(|seconds| seconds * 1000);
        let fitting = listed.filter(|step| step % rows.distance == 0);
        let fitting =
            fitting.map(|step| Grid::aligned(from, to, step, rows.phase)).find(|grid| grid.steps <= points);
        fitting.unwrap_or_else(|| {
            let most = i64::try_from(points).unwrap_or(i64::MAX).max(2) - 1;
            let rows_of_step = (to - from).div_euclid(rows.distance * most) + 1;
            Grid::aligned(from, to, rows_of_step * rows.distance, rows.phase)
        })
    }

    /// Steps of one length that begin where a multiple of it, and the phase more, does.
    fn aligned(from: i64, to: i64, step: i64, phase: i64) -> Grid {
        let begin = from - (from - phase).rem_euclid(step);
        let steps = usize::try_from((to - begin + step - 1).div_euclid(step).max(1)).unwrap_or(usize::MAX);
        Grid { from: begin, step, steps }
    }

    /// End of the last step.
    #[must_use]
    pub fn to(&self) -> i64 {
        self.from + self.step * i64::try_from(self.steps).unwrap_or(i64::MAX)
    }

    /// Ends of all steps.
    #[must_use]
    pub fn ends(&self) -> Vec<i64> {
        (1..).take(self.steps).map(|place| self.from + place * self.step).collect()
    }

    /// Its steps from one on.
    pub(crate) fn behind(&self, steps: usize) -> Grid {
        let skipped = self.step * i64::try_from(steps).unwrap_or(i64::MAX);
        Grid { from: self.from + skipped, step: self.step, steps: self.steps.saturating_sub(steps) }
    }

    /// SQL for the step that a time is in, from 0; its end belongs to it.
    pub(crate) fn step_of(&self, time: &str) -> String {
        let Grid { from, step, .. } = self;
        format!("(ceil((extract(epoch FROM {time}) * 1000 - {from}) / {step})::integer - 1)")
    }
}

/// How many steps of a grid, from its first, are answered by rows of one minute (the store's rollups): of those that begin
/// where readings are gone, or where `is_enough` says that minutes are as good, those whose minutes are made.
pub(crate) async fn steps_of_minutes(
    client: &Client,
    kind: Kind,
    grid: &Grid,
    is_enough: bool,
) -> Result<usize, Error> {
    if grid.step % MINUTE_MS != 0 || grid.from % MINUTE_MS != 0 {
        return Ok(0);
    }
    let horizons = Horizons::read(client).await?;
    let Some(made) = horizons.made_until() else { return Ok(0) };
    let wanted = if is_enough { Some(made) } else { horizons.no_rows_until(kind) };
    let begun = (wanted.unwrap_or(grid.from) - grid.from + grid.step - 1).div_euclid(grid.step);
    let whole = (made - grid.from).div_euclid(grid.step);
    Ok(usize::try_from(begun.min(whole)).unwrap_or(0).min(grid.steps))
}

/// The database's clock.
///
/// # Errors
/// The database's.
pub async fn now(client: &Client) -> Result<i64, Error> {
    let row =
        client.query_one("SELECT now()", &[]).await.map_err(Error::sql("reading the database's time"))?;
    Ok(milliseconds(row.get(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_has_steps_of_a_tenth_of_a_second() {
        let fine = Grid::fine(1_007, 3_500, 100, 100);
        assert_eq!(fine, Grid { from: 1_000, step: 100, steps: 25 });
        assert_eq!(Grid::fine(0, 60_000, 300, 100).step, 200);
        assert_eq!(Grid::fine(0, 3_600_000, 300, 100), Grid::new(0, 3_600_000, 300));
        assert_eq!(Grid::fine(0, 3_000, 300, 1_000), Grid { from: 0, step: 1_000, steps: 3 });
    }

    #[test]
    fn steps_are_no_finer_than_rows_and_begin_where_these_end() {
        let nodes = RowTimes { distance: 10_000, phase: 0, newest: None };
        assert_eq!(Grid::of_rows(1_007, 42_000, 300, nodes), Grid { from: 0, step: 10_000, steps: 5 });
        // 15 s would have parts of rows.
        assert_eq!(Grid::of_rows(0, 3_600_000, 300, nodes).step, 30_000);
        let ranks = RowTimes { distance: 60_000, phase: 1_000_017_000, newest: Some(1_000_100_000) };
        let grid = Grid::of_rows(1_000_100_000, 1_000_200_000, 300, ranks);
        assert_eq!(grid, Grid { from: 1_000_077_000, step: 60_000, steps: 3 });
        let made = [1_000_110_000, 1_000_140_999, 1_000_141_000].map(|now| ranks.made_until(now));
        assert_eq!(made, [1_000_100_000, 1_000_100_000, 1_000_137_000]);
        let odd = RowTimes { distance: 7_000, phase: 0, newest: None };
        let grid = Grid::of_rows(0, 700_000, 10, odd);
        assert!(grid.step % 7_000 == 0 && grid.steps <= 10 && grid.to() >= 700_000, "{grid:?}");
    }

    #[test]
    fn grids_are_aligned_and_have_no_more_points_than_requested() {
        let hour = Grid::new(1_767_225_600_000, 1_767_229_200_000, 300);
        assert_eq!((hour.step, hour.steps, hour.to()), (15_000, 240, 1_767_229_200_000));
        let odd = Grid::new(1_007, 3_500, 10);
        assert_eq!(odd, Grid { from: 1_000, step: 1_000, steps: 3 });
        assert_eq!(odd.ends(), [2_000, 3_000, 4_000]);
        for points in [1, 2, 7, 300, 2000] {
            for length in [1, 999, 86_400_000, 40_000_000_000] {
                let grid = Grid::new(123_456, 123_456 + length, points);
                assert!(
                    grid.steps <= points && grid.from <= 123_456 && grid.to() >= 123_456 + length,
                    "{grid:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn times_go_there_and_back() {
        let client = throughline_store::testing::database().await.connect_reader().await.unwrap();
        for time in [0, 1, 1_767_225_600_123, -1_000, 9_000_000_000_000] {
            let row = client.query_one(&format!("SELECT {}", moment(time)), &[]).await.unwrap();
            assert_eq!(milliseconds(row.get(0)), time);
        }
        let (one, other) = (UNIX_EPOCH, UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!((seconds_between(one, other), seconds_between(other, one)), (1.5, -1.5));
        assert!(now(&client).await.unwrap() > 1_767_225_600_000);
    }
}
