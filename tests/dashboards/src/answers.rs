//! The result of a query, and what is wrong with it for its panel.

/// The problem of an answer without rows.
pub const EMPTY: &str = "the answer is empty";

/// What Grafana makes of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A value to draw.
    Number,
    /// A time.
    Time,
    /// A label or a cell.
    Text,
    /// Arrays, JSON and others, which panels can't draw.
    Other,
}

/// Name and kind of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As the panel sees it.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// Columns and rows as text; a `None` cell is NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Answer {
    /// Place of a column.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The text in a row's column, `None` for NULL or a column that is not there.
    #[must_use]
    pub fn cell<'a>(&'a self, row: &'a [Option<String>], name: &str) -> Option<&'a str> {
        row.get(self.position(name)?)?.as_deref()
    }

    /// What any panel would show wrongly: no rows, twice the same column, a column of numbers that are all NULL,
    /// a type that can't be drawn.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        if self.rows.is_empty() {
            return vec![String::from(EMPTY)];
        }
        let mut problems = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let name = &column.name;
            if self.columns[..at].iter().any(|before| before.name == *name) {
                problems.push(format!("column '{name}' is there twice"));
            }
            let empty = self.rows.iter().all(|row| row[at].is_none());
            match column.kind {
                ColumnKind::Number if empty => problems.push(format!("column '{name}' is NULL in every row")),
                ColumnKind::Other => problems.push(format!("column '{name}' has a type that no panel draws")),
                _ => {}
            }
        }
        problems
    }

    /// What is wrong with it as a time series: `time` missing or not ascending, no number.
    #[must_use]
    pub fn problems_as_series(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let time =
            self.columns.iter().position(|column| column.name == "time" && column.kind == ColumnKind::Time);
        if let Some(time) = time {
            // UTC text of one format and width sorts as the times do.
            let times: Vec<&str> = self.rows.iter().filter_map(|row| row[time].as_deref()).collect();
            if times.len() < self.rows.len() {
                problems.push(String::from("column 'time' has NULLs"));
            }
            if !times.is_sorted_by_key(|text| text.trim_end_matches("+00")) {
                problems.push(String::from("rows are not in the order of 'time'"));
            }
        } else {
            problems.push(String::from("a time series needs a column 'time' of a time type"));
        }
        if !self.columns.iter().any(|column| column.kind == ColumnKind::Number) {
            problems.push(String::from("a time series needs a column of numbers"));
        }
        problems
    }

    /// Columns of this list that the answer lacks, each as a problem.
    #[must_use]
    pub fn missing(&self, names: &[String]) -> Vec<String> {
        names
            .iter()
            .filter(|name| self.position(name).is_none())
            .map(|name| format!("the panel names column '{name}', which the answer lacks"))
            .collect()
    }

    /// Patterns (`/.../`) that match no column, each as a problem.
    #[must_use]
    pub fn unmatched(&self, patterns: &[&str]) -> Vec<String> {
        let matches = |pattern: &str| {
            let inner = pattern.trim_start_matches('/').trim_end_matches('/');
            regex::Regex::new(inner).is_ok_and(|found| self.columns.iter().any(|c| found.is_match(&c.name)))
        };
        let unmatched = patterns.iter().filter(|pattern| !matches(pattern));
        unmatched.map(|pattern| format!("the panel's pattern {pattern} matches no column")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[[Option<&str>; 3]]) -> Answer {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        Answer {
            columns: vec![
                column("time", ColumnKind::Time),
                column("metric", ColumnKind::Text),
                column("value", ColumnKind::Number),
            ],
            rows: rows.iter().map(|row| row.iter().map(|cell| cell.map(str::to_owned)).collect()).collect(),
        }
    }

    #[test]
    fn empty_and_null_answers_are_problems() {
        assert_eq!(answer(&[]).problems(), ["the answer is empty"]);
        let null = answer(&[[Some("2026-01-01 00:00:00+00"), Some("a"), None]]);
        assert_eq!(null.problems(), ["column 'value' is NULL in every row"]);
    }

    #[test]
    fn series_are_in_order_and_have_a_number() {
        let one = [Some("2026-01-01 00:00:00+00"), Some("a"), Some("1")];
        let two = [Some("2026-01-01 00:00:00.5+00"), Some("a"), Some("1")];
        assert!(answer(&[one, two]).problems_as_series().is_empty());
        assert_eq!(answer(&[two, one]).problems_as_series(), ["rows are not in the order of 'time'"]);
        assert_eq!(answer(&[one]).missing(&[String::from("metric"), String::from("guid")]).len(), 1);
    }
}
