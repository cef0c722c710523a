//! Plain text tables and numbers for people.

/// Columns divided by two blanks; a column whose cells all look like numbers is set to the right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let columns: Vec<(usize, bool)> = (0..header.len()).map(|c| (width(c), is_numeric(rows, c))).collect();
    let mut text = String::new();
    let heading: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, (width, right)) in row.iter().zip(&columns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if *right { (fill.as_str(), "") } else { ("", fill.as_str()) };
            line.extend([before, cell, after]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    // A number, perhaps with a unit; a sentence may begin with one.
    let number = |cell: &String| {
        let mut words = cell.split(' ');
        cell == "-" || words.next().is_some_and(|first| first.parse::<f64>().is_ok()) && words.count() < 2
    };
    !rows.is_empty() && rows.iter().filter_map(|row| row.get(column)).all(number)
}

/// `12.1 GB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    let units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    let mut value = bytes_per_second;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

/// `97 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let sentences = [vec!["62 % of job 1".into()], vec!["8 % of job 27".into()]];
        assert!(table(&["whose"], &sentences).contains("\n8 % of"));
        let rows = [vec!["mad".into(), "12".into()], vec!["nvml".into(), "-".into()]];
        let text = table(&["source", "rows"], &rows);
        assert_eq!(text, "source  rows\nmad       12\nnvml       -\n");
    }

    #[test]
    fn rates_have_three_figures() {
        assert_eq!(rate(12.0), "12 B/s");
        assert_eq!(rate(12_121_212_121.0), "12.1 GB/s");
        assert_eq!(rate(999_900_000.0), "1.0 GB/s");
        assert_eq!(rate(0.0), "0 B/s");
    }
}
