//! Aligned tables and short numbers for people, the same in every subcommand.
//!
//! Texts come from other people's programs: what moves a terminal's cursor, or turns the direction of the text around it
//! (U+202E), never reaches it. [`clean`] is the one way, and a [`Table`] cleans its cells by itself.
//!
//! Widths are columns of a terminal, not characters: a Chinese character takes two, a combining accent none.

use std::time::{SystemTime, UNIX_EPOCH};
use throughline_sample::admission::is_deceptive;
use throughline_sample::to_rfc3339;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands for a value that is not known.
pub const ABSENT: &str = "-";

/// Width of lines where there is no terminal: a file, a pipe.
const USUAL_COLUMNS: usize = 100;
/// Narrower than this nothing can be laid out.
const COLUMNS_MIN: usize = 40;

/// Widest cell of a table, columns: a job's name may have a megabyte.
const CELL_COLUMNS_MAX: usize = 400;

/// Most characters of a text for each column that it may take: what takes no column, as combining accents do, has to end
/// as well.
const CHARACTERS_OF_COLUMN: usize = 4;

/// Longest sentence that is folded: what programs say of themselves has no bound.
const LONGEST_SENTENCE: usize = 4000;

/// How wide lines may be.
pub fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(COLUMNS_MIN),
        _ => USUAL_COLUMNS,
    }
}

/// Rows of cells, each column as wide as its widest cell. A heading or cell that begins with `<` is aligned
/// to the right.
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings; none, no line of them.
    pub fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('<')).collect();
        let heading = |heading: &&str| heading.trim_start_matches('<').to_owned();
        let rows =
            if headings.is_empty() { Vec::new() } else { vec![headings.iter().map(heading).collect()] };
        Self { right, rows }
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        let mut plain = Vec::with_capacity(cells.len());
        for (column, cell) in cells.into_iter().enumerate() {
            if column >= self.right.len() {
                self.right.push(cell.starts_with('<'));
            }
            plain.push(clean(cell.strip_prefix('<').unwrap_or(&cell), CELL_COLUMNS_MAX));
        }
        self.rows.push(plain);
    }

    /// The lines, indented by two.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let fill = " ".repeat(width.saturating_sub(cell.width()));
                let (before, behind) = if *right { (fill.as_str(), "") } else { ("", fill.as_str()) };
                line.extend(["  ", before, cell, behind]);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A text without characters that control a terminal or turn directions, cut to a number of columns. White space
/// becomes a blank, the rest U+FFFD, so that two names that differ in such look different from those that don't.
pub fn clean(text: &str, columns: usize) -> String {
    let plain = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if is_deceptive(c) => '\u{fffd}',
        c => c,
    };
    let most = columns.saturating_mul(CHARACTERS_OF_COLUMN);
    let plain: String = text.chars().take(most.saturating_add(1)).map(plain).collect();
    if plain.width() <= columns && plain.chars().count() <= most {
        return plain;
    }
    let mut clean = head(&plain, columns.saturating_sub(1), most.saturating_sub(1));
    clean.extend((columns > 0).then_some('…'));
    clean
}

/// The beginning of a text, of at most so many columns and characters.
fn head(text: &str, columns: usize, characters: usize) -> String {
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken <= columns
    };
    text.chars().take(characters).take_while(fits).collect()
}

/// A text cut in the middle: a job's key begins with its kind and ends with what distinguishes it from others.
pub fn middle_cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (first, last) = (columns / 2, columns.saturating_sub(columns / 2 + 1));
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    let last = backwards(&head(&backwards(text), last, usize::MAX));
    format!("{}…{last}", head(text, first, usize::MAX))
}

/// A span of time in its largest fitting unit.
pub fn age(seconds: f64) -> String {
    match seconds.max(0.0) {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// Bytes in decimal units, as links are rated.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // For people: three digits are enough.
    #[allow(clippy::cast_precision_loss)]
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 rank`, `1,024 ranks`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", thousands(number)) }
}

/// A size class by its largest message, in binary units, as classes are powers of two: `0 B`, `8 KiB`.
pub fn size_class(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = if bytes == 0 { 0 } else { bytes.ilog2() as usize / 10 };
    format!("{} {}", bytes >> (10 * unit), UNITS[unit.min(UNITS.len() - 1)])
}

/// A share as `12.3 %`; three digits are enough.
pub fn percent(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => ABSENT.to_owned(),
        Some(share) if share >= 99.95 => format!("{share:.0} %"),
        Some(share) if share > 0.0 && share < 0.05 => "< 0.1 %".to_owned(),
        Some(share) => format!("{share:.1} %"),
    }
}

/// A share of what a link carries. None is more than all of it: a reading that came late has bytes of the one before.
pub fn used(share: Option<f64>) -> String {
    // From here on it is more than 100 % in every rounding, as on the pages.
    const OVER_FULL: f64 = 1.0005;
    if share.is_some_and(|share| share >= OVER_FULL) { "> 100 %".to_owned() } else { percent(share) }
}

/// An RFC 3339 time of milliseconds since 1970.
#[must_use]
pub fn time(milliseconds: i64) -> String {
    to_rfc3339(milliseconds.saturating_mul(1_000_000))
}

/// The same to the second.
#[must_use]
pub fn whole_second(milliseconds: i64) -> String {
    time(milliseconds).get(..19).map_or_else(String::new, |text| format!("{text}Z"))
}

/// A time from which clocks show the same hour again, milliseconds.
const HALF_A_DAY_MS: u64 = 12 * 3_600_000;

/// `14:02:30 UTC`; with its day where that is not near.
#[must_use]
pub fn clock(milliseconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let distance = i64::try_from(now).unwrap_or(i64::MAX).abs_diff(milliseconds);
    let text = time(milliseconds);
    let (day, second) = (text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default());
    if distance < HALF_A_DAY_MS { format!("{second} UTC") } else { format!("{day} {second} UTC") }
}

/// A number with commas between thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in its largest fitting unit: `1.23 µs`, `45.6 ms`, `12.3 s`, `3,456 s`.
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s >= 0.9995 || s == 0.0 => (seconds, "s"),
        s if s >= 0.999_5e-3 => (seconds * 1e3, "ms"),
        s if s >= 0.999_5e-6 => (seconds * 1e6, "µs"),
        _ => (seconds * 1e9, "ns"),
    };
    match value.abs() {
        0.0 => format!("0 {unit}"),
        v if v < 9.995 => format!("{value:.2} {unit}"),
        v if v < 99.95 => format!("{value:.1} {unit}"),
        v if v < 9999.5 || !v.is_finite() => format!("{value:.0} {unit}"),
        // More seconds than a u64 holds are nobody's.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        v => format!("{}{} {unit}", if value < 0.0 { "-" } else { "" }, thousands(v.round() as u64)),
    }
}

/// A sentence folded into lines of at most `width` columns, indented by two, further ones by four. A number
/// stays with its unit.
pub fn folded(sentence: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in clean(sentence, LONGEST_SENTENCE).split_whitespace() {
        let number = |word: &&mut String| {
            word.len() < 12
                && word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
                && !word.ends_with(',')
        };
        match words.last_mut().filter(number) {
            Some(before) => before.push_str(&format!(" {word}")),
            None => words.push(word.to_owned()),
        }
    }
    let mut lines = vec![String::from(" ")];
    for word in words {
        let line = lines.last().map_or(0, |line| line.width());
        if line > 4 && line + 1 + word.width() > width {
            lines.push(String::from("   "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(&word);
        }
    }
    lines.iter().map(|line| clean(line, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_14_a_table_is_not_turned_nor_as_wide_as_a_name_of_a_megabyte() {
        let mut table = Table::new(&["NAME", "<RANKS"]);
        let name = format!("evil\u{202e}\u{1b}]0;x\u{7}{}", "x".repeat(1 << 20));
        table.row(vec![name.clone(), "<4\u{202e}".into()]);
        let text = table.text();
        assert!(text.len() < 8 * CELL_COLUMNS_MAX, "{}", text.len());
        assert!(!text.chars().any(|c| c != '\n' && is_deceptive(c)), "{text:?}");
        let lines = folded(&name, 80);
        assert!(lines.iter().all(|line| line.width() <= 80 && !line.chars().any(is_deceptive)));
    }

    #[test]
    fn columns_stand_under_each_other_whatever_the_script() {
        let mut table = Table::new(&["NAME", "<RANKS"]);
        for name in ["结构分析", "größe", "cafe\u{301}", "x"] {
            table.row(vec![name.into(), "<4".into()]);
        }
        let text = table.text();
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(widths, [17; 5], "{text}");
        assert_eq!(
            [clean("结构分析", 8), clean("结构分析", 7), clean("结构分析", 6)],
            ["结构分析", "结构分…", "结构…"]
        );
        assert_eq!([middle_cut("结构分析", 8), middle_cut("结构分析", 7)], ["结构分析", "结…析"]);
        assert_eq!(folded("结构 分析", 8), ["  结构", "    分析"]);
        // What takes no column ends as well.
        assert!(clean(&"\u{301}".repeat(1 << 20), 10).chars().count() <= 10 * CHARACTERS_OF_COLUMN);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [bytes(999), bytes(1000), bytes(999_960), bytes(u64::MAX)],
            ["999 B", "1.0 kB", "1.0 MB", "18.4 EB"]
        );
        assert_eq!([thousands(0), thousands(999), thousands(1_000)], ["0", "999", "1,000"]);
        assert_eq!([age(0.04), age(11.0), age(7199.0), age(1e6)], ["0.0 s", "11 s", "120 min", "12 d"]);
        assert_eq!(
            [middle_cut("abcdef", 6), middle_cut("abcdef", 4), middle_cut("abc", 0)],
            ["abcdef", "ab…f", "…"]
        );
        assert_eq!(
            [
                seconds(0.0),
                seconds(1.234e-6),
                seconds(0.000_999_9),
                seconds(12.34),
                seconds(12_345.6),
                seconds(-0.05)
            ],
            ["0 s", "1.23 µs", "1.00 ms", "12.3 s", "12,346 s", "-50.0 ms"]
        );
        assert_eq!([0, 1, 512, 8192, 1 << 30].map(size_class), ["0 B", "1 B", "512 B", "8 KiB", "1 GiB"]);
        assert_eq!(
            [None, Some(0.0), Some(1e-5), Some(0.1234), Some(1.0)].map(percent),
            ["-", "0.0 %", "< 0.1 %", "12.3 %", "100 %"]
        );
        assert_eq!(folded("one two three", 9), ["  one two", "    three"]);
        assert_eq!(folded("it took 12 % or", 13), ["  it took", "    12 % or"]);
        assert_eq!(clean("a\nb", 10), "a b");
        assert_eq!(
            clean("a\u{1b}[2J\u{202e}b\u{2066}c\u{7f}\u{9b}", 20),
            "a\u{fffd}[2J\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"
        );
        assert_eq!(clean("abcdef", 3), "ab…");
    }
}
