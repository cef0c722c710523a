//! Rows of what ranks did, as the server returns them step by step, or summed.

use crate::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use throughline_api::jobs::JobRanks;
use throughline_api::operation_steps::{OperationStepColumns, OperationSteps};
use throughline_sample::to_rfc3339;

/// Step that is requested where all of the time is one row: the longest of the server.
const WHOLE_MS: i64 = 86_400_000;

/// From when to when, milliseconds since 1970, and in which steps.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The job's start unless given.
    pub from_ms: Option<i64>,
    /// Its end unless given.
    pub to_ms: Option<i64>,
    /// Length of a step; all of it in one row unless given.
    pub step_ms: Option<i64>,
}

/// Where rows come from.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub server: &'a Server,
    pub key: &'a str,
    pub all: &'a JobRanks,
    pub range: Range,
}

/// What a row is about, in the order in which rows are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub rank: i32,
    /// End of the step.
    pub time_ms: Option<i64>,
    /// Begin of the step.
    pub since_ms: Option<i64>,
    pub region: String,
    pub operation: String,
    pub size_class_bytes: i64,
    pub algorithm: String,
    pub algorithm_source: String,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub calls: i64,
    pub bytes: i64,
    pub elapsed_seconds: f64,
    /// None where nothing completed later.
    pub wait_seconds: Option<f64>,
    /// None where nothing was received.
    pub received_bytes: Option<i64>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub host: Option<String>,
    pub cell: Cell,
    pub counts: Counts,
}

impl Row {
    /// Names of its columns.
    pub const NAMES: [&'static str; 14] = [
        "rank",
        "host",
        "since",
        "time",
        "region",
        "operation",
        "size_class_bytes",
        "algorithm",
        "algorithm_source",
        "calls",
        "bytes",
        "elapsed_seconds",
        "wait_seconds",
        "received_bytes",
    ];

    /// Its values, in the order of the names.
    pub fn cells(&self) -> [Value; 14] {
        let Row { host, cell, counts } = self;
        let seconds = |seconds: f64| (seconds * 1e9).round() / 1e9;
        let time = |time: i64| to_rfc3339(time.saturating_mul(1_000_000));
        [
            json!(cell.rank),
            json!(host),
            json!(cell.since_ms.map(time)),
            json!(cell.time_ms.map(time)),
            json!(cell.region),
            json!(cell.operation),
            json!(cell.size_class_bytes),
            json!(cell.algorithm),
            json!(cell.algorithm_source),
            json!(counts.calls),
            json!(counts.bytes),
            json!(seconds(counts.elapsed_seconds)),
            json!(counts.wait_seconds.map(seconds)),
            json!(counts.received_bytes),
        ]
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.elapsed_seconds += other.elapsed_seconds;
        self.wait_seconds = both(self.wait_seconds, other.wait_seconds, |one, other| one + other);
        self.received_bytes = both(self.received_bytes, other.received_bytes, i64::saturating_add);
    }
}

/// Absent and absent stay so.
fn both<T>(one: Option<T>, other: Option<T>, sum: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(sum(one, other)),
        (one, other) => one.or(other),
    }
}

impl Rows<'_> {
    /// Calls `take` with each row of the wanted ranks, by rank and time.
    ///
    /// # Errors
    /// The server's, and those of `take`.
    pub fn each(
        &self,
        is_wanted: impl Fn(i32) -> bool,
        mut take: impl FnMut(&Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let ranks = &self.all.ranks;
        for (place, rank) in ranks.rank.iter().enumerate().filter(|(_, rank)| is_wanted(**rank)) {
            let host = ranks.host.get(place).and_then(|host| self.all.hosts.get(*host)).cloned();
            let mut sums: BTreeMap<Cell, Counts> = BTreeMap::new();
            let mut from = self.range.from_ms;
            loop {
                let page = self.page(*rank, from)?;
                for (cell, counts) in cells(&page.steps, *rank, self.range.step_ms.is_some()) {
                    sums.entry(cell).or_default().add(counts);
                }
                // Steps of a page are whole: none of them goes on in the next one.
                if self.range.step_ms.is_some() {
                    hand_over(&mut sums, host.as_ref(), &mut take)?;
                }
                match page.next_ms {
                    Some(next) if from.is_none_or(|from| next > from) => from = Some(next),
                    _ => break,
                }
            }
            hand_over(&mut sums, host.as_ref(), &mut take)?;
        }
        Ok(())
    }

    fn page(&self, rank: i32, from: Option<i64>) -> Result<OperationSteps, crate::Error> {
        let step = self.range.step_ms.unwrap_or(WHOLE_MS);
        let mut query = vec![("rank", i64::from(rank)), ("step_ms", step)];
        query.extend(from.map(|from| ("from", from)));
        query.extend(self.range.to_ms.map(|to| ("to", to)));
        let query: Vec<(&str, String)> =
            query.into_iter().map(|(name, number)| (name, number.to_string())).collect();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.server.get(&["jobs", self.key, "operation-steps"], &query)
    }
}

fn hand_over(
    sums: &mut BTreeMap<Cell, Counts>,
    host: Option<&String>,
    take: &mut impl FnMut(&Row) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for (cell, counts) in std::mem::take(sums) {
        // A row of the tables says that nothing changed as well.
        if counts.calls > 0 || counts.elapsed_seconds > 0.0 || counts.bytes > 0 {
            take(&Row { host: host.cloned(), cell, counts })?;
        }
    }
    Ok(())
}

/// Columns to cells.
fn cells(steps: &OperationStepColumns, rank: i32, with_time: bool) -> impl Iterator<Item = (Cell, Counts)> {
    let cell = move |at: usize| {
        let text = |column: &[String]| column.get(at).cloned().unwrap_or_default();
        let number = |column: &[i64]| column.get(at).copied().unwrap_or_default();
        let cell = Cell {
            rank,
            time_ms: steps.time_ms.get(at).copied().filter(|_| with_time),
            since_ms: steps.since_ms.get(at).copied().filter(|_| with_time),
            region: text(&steps.region),
            operation: text(&steps.operation),
            size_class_bytes: number(&steps.size_class_bytes),
            algorithm: text(&steps.algorithm),
            algorithm_source: text(&steps.algorithm_source),
        };
        let counts = Counts {
            calls: number(&steps.calls),
            bytes: number(&steps.bytes),
            elapsed_seconds: steps.elapsed_seconds.get(at).copied().unwrap_or_default(),
            wait_seconds: steps.wait_seconds.get(at).copied().flatten(),
            received_bytes: steps.received_bytes.get(at).copied().flatten(),
        };
        (cell, counts)
    };
    (0..steps.time_ms.len()).map(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_zero_in_sums_and_rows() {
        let mut sum = Counts { calls: 1, ..Counts::default() };
        sum.add(Counts {
            calls: 2,
            bytes: 8,
            elapsed_seconds: 0.5,
            wait_seconds: None,
            received_bytes: Some(3),
        });
        assert_eq!((sum.calls, sum.wait_seconds, sum.received_bytes), (3, None, Some(3)));
        let cell = Cell { rank: 4, time_ms: Some(1_500), region: "solve".into(), ..Cell::default() };
        let row = Row { host: None, cell, counts: sum };
        let cells = row.cells();
        let of = |name: &str| &cells[Row::NAMES.iter().position(|known| *known == name).unwrap()];
        assert_eq!(
            (of("host"), of("wait_seconds"), of("received_bytes")),
            (&Value::Null, &Value::Null, &json!(3))
        );
        assert_eq!(of("time"), &json!("1970-01-01T00:00:01.500000Z"));
    }

    #[test]
    fn rows_of_a_page_are_summed_unless_steps_are_wanted() {
        let steps = OperationStepColumns {
            since_ms: vec![0, 100],
            time_ms: vec![100, 200],
            operation: vec!["send".into(), "send".into()],
            size_class_bytes: vec![8, 8],
            region: vec![String::new(), String::new()],
            algorithm: vec![String::new(), String::new()],
            algorithm_source: vec![String::new(), String::new()],
            calls: vec![1, 2],
            bytes: vec![8, 16],
            elapsed_seconds: vec![0.1, 0.2],
            wait_seconds: vec![None, None],
            received_bytes: vec![None, None],
        };
        for (with_time, expected) in [(false, 1), (true, 2)] {
            let mut sums: BTreeMap<Cell, Counts> = BTreeMap::new();
            for (cell, counts) in cells(&steps, 0, with_time) {
                sums.entry(cell).or_default().add(counts);
            }
            assert_eq!(sums.len(), expected);
            assert_eq!(sums.values().map(|counts| counts.calls).sum::<i64>(), 3);
        }
    }
}
