//! MPI_T performance variables of a job over time, by rank, by element, or of all ranks together.
//!
//! A row is written when a value changed: until the next one it holds. Classes that only grow become rates.

use crate::contests::OF_COUNTED_RANK;
use crate::time::Grid;
use std::collections::BTreeMap;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// How far before the range a value is looked for that still holds, milliseconds. A bound of what that costs, and no judgement: a value
/// holds until a rank reports another one, however old it is.
const EARLIER_VALUE_MS: i64 = 3_600_000;

/// A variable that ranks of a job reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// As the MPI library names it.
    pub name: String,
    /// Who read it: `mpi_t`.
    pub source: String,
    /// Class by MPI_T (MPI 4.0, 15.3.7): state, level, size, percentage, highwatermark, lowwatermark, counter, aggregate,
    /// timer, generic.
    pub class: String,
    /// Ranks that reported it.
    pub ranks: i64,
    /// Elements; more than one where it is an array, as of queue lengths by peer.
    pub elements: i64,
}

/// What the series of an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PvarGrouping {
    /// Ranks of MPI_COMM_WORLD, all elements of each together.
    Rank,
    /// Elements, of all ranks together.
    Element,
    /// One: all ranks and elements together.
    All,
}

/// How values of several ranks or elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The sum: queue lengths, bytes, calls, seconds.
    Sum,
    /// The largest: high watermarks, percentages, states.
    Largest,
    /// The least: low watermarks.
    Least,
}

impl Fold {
    /// What fits a class of variables.
    #[must_use]
    pub fn of(class: &str) -> Fold {
        match class {
            "highwatermark" | "percentage" | "state" => Fold::Largest,
            "lowwatermark" => Fold::Least,
            _ => Fold::Sum,
        }
    }

    fn put(self, one: f64, other: f64) -> f64 {
        match self {
            Fold::Sum => one + other,
            Fold::Largest => one.max(other),
            Fold::Least => one.min(other),
        }
    }
}

/// Whether a class only grows: its increase in a second is what says something.
#[must_use]
pub fn is_cumulative(class: &str) -> bool {
    matches!(class, "counter" | "aggregate" | "timer")
}

/// A series: the rank or element (0 of [`PvarGrouping::All`]), and its values in each step.
pub type Series = BTreeMap<i32, Vec<Option<f64>>>;

/// Variables that ranks of a job reported in a range, by name.
///
/// # Errors
/// The database's.
pub async fn variables(client: &Client, job: i64, from: i64, to: i64) -> Result<Vec<Variable>, Error> {
    let sql = format!(
        "SELECT name, min(source), min(variable_class), count(DISTINCT rank), count(DISTINCT element)
         FROM internal.mpi_pvars m WHERE job_id = $1 AND time > {} AND time <= {} AND {OF_COUNTED_RANK} GROUP BY name ORDER BY name",
        moment(from - EARLIER_VALUE_MS),
        moment(to)
    );
    let rows =
        client.query(&sql, &[&job]).await.map_err(Error::sql("listing the MPI_T variables of a job"))?;
    let variable = |row: &Row| Variable {
        name: row.get(0),
        source: row.get(1),
        class: row.get(2),
        ranks: row.get(3),
        elements: row.get(4),
    };
    Ok(rows.iter().map(variable).collect())
}

/// A variable's value of one rank and element at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    rank: i32,
    element: i32,
    /// -1 before the grid.
    step: i32,
    value: f64,
}

/// Series of one variable; `None` where it has more than `most` values in the steps of the grid.
///
/// # Errors
/// The database's.
pub async fn series(
    client: &Client,
    job: i64,
    variable: &Variable,
    by: PvarGrouping,
    grid: &Grid,
    most: usize,
) -> Result<Option<Series>, Error> {
    let sql = format!(
        "SELECT DISTINCT ON (rank, element, step) rank, element, step, value FROM (
             SELECT rank, element, time, value, greatest({step}, -1) AS step FROM internal.mpi_pvars m
             WHERE job_id = $1 AND name = $2 AND time > {oldest} AND time <= {to} AND {OF_COUNTED_RANK}) r
         ORDER BY rank, element, step, time DESC LIMIT $3",
        step = grid.step_of("time"),
        oldest = moment(grid.from - EARLIER_VALUE_MS),
        to = moment(grid.to()),
    );
    let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    let rows = client.query(&sql, &[&job, &variable.name, &limit]).await;
    let rows = rows.map_err(Error::sql("reading an MPI_T variable of a job"))?;
    if rows.len() > most {
        return Ok(None);
    }
    let value =
        |row: &Row| Value { rank: row.get(0), element: row.get(1), step: row.get(2), value: row.get(3) };
    let values: Vec<Value> = rows.iter().map(value).collect();
    Ok(Some(folded(&values, &variable.class, by, grid)))
}

/// Values in the order of rank, element and step, as series.
fn folded(values: &[Value], class: &str, by: PvarGrouping, grid: &Grid) -> Series {
    let fold = if is_cumulative(class) { Fold::Sum } else { Fold::of(class) };
    let mut all = Series::new();
    for cell in values.chunk_by(|one, other| (one.rank, one.element) == (other.rank, other.element)) {
        let Some(first) = cell.first() else { continue };
        let key = match by {
            PvarGrouping::Rank => first.rank,
            PvarGrouping::Element => first.element,
            PvarGrouping::All => 0,
        };
        let held = if is_cumulative(class) { increases(cell, grid) } else { held(cell, grid) };
        let series = all.entry(key).or_insert_with(|| vec![None; grid.steps]);
        for (slot, value) in series.iter_mut().zip(held) {
            *slot = match (*slot, value) {
                (Some(one), Some(other)) => Some(fold.put(one, other)),
                (one, other) => one.or(other),
            };
        }
    }
    all
}

/// The value of a cell at the end of each step: from its first row to the step of its last one in the range. What is behind
/// that is not known to hold: a rank that ended reports no more.
fn held(cell: &[Value], grid: &Grid) -> Vec<Option<f64>> {
    let mut values = vec![None; grid.steps];
    for (place, one) in cell.iter().enumerate() {
        let first = usize::try_from(one.step).unwrap_or(0);
        let behind = cell.get(place + 1).map_or(one.step + 1, |next| next.step);
        let behind = usize::try_from(behind).unwrap_or(0);
        values.iter_mut().take(behind).skip(first).for_each(|slot| *slot = Some(one.value));
    }
    values
}

/// The increase of a cell in a second, spread over the steps between two rows. A value that is lower than the one before began
/// anew: nothing is known of that step.
#[allow(clippy::cast_precision_loss)] // milliseconds
fn increases(cell: &[Value], grid: &Grid) -> Vec<Option<f64>> {
    let mut values = vec![None; grid.steps];
    for pair in cell.windows(2) {
        let [before, after] = pair else { continue };
        let seconds = f64::from(after.step - before.step) * grid.step as f64 / 1e3;
        let rate = (after.value >= before.value).then(|| (after.value - before.value) / seconds);
        let first = usize::try_from(before.step + 1).unwrap_or(0);
        let last = usize::try_from(after.step).map_or(0, |step| step + 1);
        values.iter_mut().take(last).skip(first).for_each(|slot| *slot = rate);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { from: 0, step: 2_000, steps: 5 };

    fn value(rank: i32, element: i32, step: i32, value: f64) -> Value {
        Value { rank, element, step, value }
    }

    #[test]
    fn a_level_holds_until_the_next_row_and_not_behind_the_last() {
        let values = [
            value(0, 0, -1, 3.0),
            value(0, 0, 2, 5.0),
            value(0, 1, 1, 1.0),
            value(0, 1, 3, 2.0),
            value(1, 0, 4, 9.0),
        ];
        let by_rank = folded(&values, "size", PvarGrouping::Rank, &GRID);
        assert_eq!(by_rank[&0], [Some(3.0), Some(4.0), Some(6.0), Some(2.0), None]);
        assert_eq!(by_rank[&1], [None, None, None, None, Some(9.0)]);
        let by_element = folded(&values, "size", PvarGrouping::Element, &GRID);
        assert_eq!(by_element[&1], [None, Some(1.0), Some(1.0), Some(2.0), None]);
        let all = folded(&values, "highwatermark", PvarGrouping::All, &GRID);
        assert_eq!(all[&0], [Some(3.0), Some(3.0), Some(5.0), Some(2.0), Some(9.0)], "the largest, no sum");
    }

    #[test]
    fn what_only_grows_is_a_rate() {
        let values = [value(0, 0, 0, 10.0), value(0, 0, 2, 30.0), value(0, 0, 3, 4.0), value(0, 0, 4, 6.0)];
        let series = folded(&values, "counter", PvarGrouping::All, &GRID);
        assert_eq!(series[&0], [None, Some(5.0), Some(5.0), None, Some(1.0)]);
    }
}
