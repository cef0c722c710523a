//! What a reader would see of an answer that ran: identifiers as texts, units, shares that no link can have, steps of time
//! that are not over. It follows what Grafana's `@grafana/data` does with fields; it draws nothing.

use crate::answers::{Answer, Column, ColumnKind};
use crate::dashboard::Panel;
use crate::expand::Window;
use serde_json::Value;

/// The only unit in which Grafana does not read a text as a number.
const TEXT: &str = "string";
/// The unit of shares.
const SHARE: &str = "percentunit";
/// A share above this is shown as more than 100.0 %.
const OVER_FULL: f64 = 1.0005;
/// Columns of numbers that name a thing and count nothing.
const IDENTIFIERS: [&str; 10] =
    ["guid", "lid", "uuid", "port", "to port", "switch port", "rank", "gpu", "link", "pid"];
/// Words in the name of a column or panel, and the units that it may have.
const UNITS: [(&[&str], &[&str]); 2] = [
    (&["bytes", "capacity", "link speed", "mean rate", "sent", "received"], &["bytes", "Bps", "pps", SHARE]),
    (&["duration", "mean call", "longest call", "elapsed"], &["s"]),
];
/// Words of changes from one thing to another, which may be more than 100 %, and of time of several threads.
const MAY_BE_OVER_FULL: [&str; 2] = ["against", "in MPI"];

impl Panel {
    /// A property of a column's field: that of the last override that fits, or of the defaults.
    fn property(&self, column: &Column, name: &str) -> Option<&Value> {
        let fits = |matcher: &Value| {
            let option = matcher.get("options").and_then(Value::as_str).unwrap_or_default();
            match matcher.get("id").and_then(Value::as_str) {
                Some("byName") => option == column.name,
                Some("byType") => option == type_name(column.kind),
                Some("byRegexp") => regex::Regex::new(option.trim_matches('/'))
                    .is_ok_and(|pattern| pattern.is_match(&column.name)),
                _ => false,
            }
        };
        let of_overrides = self.field_config.overrides.iter().rev().filter(|entry| fits(&entry.matcher));
        let found = of_overrides
            .flat_map(|entry| entry.properties.iter().rev())
            .find(|property| property.get("id").and_then(Value::as_str) == Some(name));
        match found {
            Some(property) => property.get("value"),
            None => self.field_config.defaults.get(name),
        }
    }

    fn unit_of(&self, column: &Column) -> &str {
        self.property(column, "unit").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Grafana's name of a field's type.
fn type_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "number",
        ColumnKind::Time => "time",
        ColumnKind::Text => "string",
        ColumnKind::Other => "other",
    }
}

/// Whether mappings replace a share above 1 by a text.
#[must_use]
pub fn marks_over_full(mappings: Option<&Value>) -> bool {
    let reaches = |mapping: &Value| {
        let end = |name: &str| mapping.pointer(&format!("/options/{name}")).and_then(Value::as_f64);
        // Grafana takes a missing end for 0.
        mapping.get("type").and_then(Value::as_str) == Some("range")
            && end("from").is_some_and(|from| (1.0..=OVER_FULL).contains(&from))
            && end("to").is_some_and(|to| to >= 1000.0)
    };
    mappings.and_then(Value::as_array).is_some_and(|list| list.iter().any(reaches))
}

/// What a reader would misread in an answer.
#[must_use]
pub fn problems(panel: &Panel, answer: &Answer) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, column) in answer.columns.iter().enumerate() {
        let cells = || answer.rows.iter().filter_map(|row| row.get(at)?.as_deref());
        match column.kind {
            ColumnKind::Text => problems.extend(of_texts(panel, column, cells())),
            ColumnKind::Number => problems.extend(of_numbers(panel, column, cells())),
            _ => {}
        }
    }
    problems
}

fn of_texts<'a>(panel: &Panel, column: &Column, mut cells: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = &column.name;
    if panel.kind == "stat" {
        return Some(format!("'{name}' is a text, which a stat shrinks until it fits: a table"));
    }
    let has_units = ["table", "barchart"].contains(&panel.kind.as_str());
    let is_shown_as_text = panel.unit_of(column) == TEXT;
    cells.find_map(|cell| {
        if has_units && !is_shown_as_text && is_read_as_number(cell) {
            return Some(format!(
                "'{name}' has the text '{cell}', which Grafana shows as a number: unit '{TEXT}'"
            ));
        }
        let percent = cell.split(" %").next().filter(|_| cell.contains(" %") && !cell.contains("> "))?;
        let share = percent.rsplit([' ', ',']).next()?.parse::<f64>().ok()?;
        (share > 100.0).then(|| format!("'{name}' has '{cell}', which no link can carry, without a mark"))
    })
}

fn of_numbers<'a>(
    panel: &Panel,
    column: &Column,
    mut cells: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let (name, unit) = (&column.name, panel.unit_of(column));
    let lower = name.to_lowercase();
    if IDENTIFIERS.contains(&lower.as_str()) && panel.kind == "table" && unit != TEXT {
        return Some(format!("'{name}' names a thing and has the unit '{unit}' instead of '{TEXT}'"));
    }
    // The names of series are labels: the panel's title has the word.
    let of_panel = ["value", "traffic"].contains(&lower.as_str());
    let words = if of_panel { panel.title.to_lowercase() } else { lower };
    for (known, units) in UNITS {
        if known.iter().any(|word| words.contains(word)) && !units.contains(&unit) {
            return Some(format!("'{name}' has the unit '{unit}' instead of {}", units.join(" or ")));
        }
    }
    let is_exempt = MAY_BE_OVER_FULL.iter().any(|word| name.contains(word) || panel.title.contains(word));
    if unit != SHARE || is_exempt || marks_over_full(panel.property(column, "mappings")) {
        return None;
    }
    let over = cells.find(|cell| cell.parse::<f64>().is_ok_and(|share| share > OVER_FULL))?;
    Some(format!("'{name}' has the share {over}, which no link can carry, without a mark"))
}

/// Whether JavaScript's `Number` takes the text, by which Grafana decides: digits, also hexadecimal ones.
fn is_read_as_number(text: &str) -> bool {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => {
            text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) && text.parse::<f64>().is_ok()
        }
    }
}

/// A step of time whose end is after the time range: not all of its readings are there.
#[must_use]
pub fn partial_step(answer: &Answer, window: &Window) -> Option<String> {
    let newest = answer.rows.iter().filter_map(|row| answer.cell(row, "time")).max()?;
    let begin = throughline_sample::from_rfc3339(&newest.replace(' ', "T").replace("+00", "Z"))?;
    let step = i64::try_from(window.step.as_nanos()).unwrap_or(i64::MAX);
    (begin.saturating_add(step) > window.to)
        .then(|| format!("the step of {newest} is not over at the end of the time range"))
}

/// Shares of a speed or of waiting, by the panel's queries, that have no mark above 1: found without data.
#[must_use]
pub fn unmarked_shares(panel: &Panel) -> Vec<String> {
    let texts = panel.targets.iter().filter_map(|target| target.sql.as_deref().or(target.expr.as_deref()));
    let words = ["utilisation", "wait_ratio", "rate_bytes_per_second"];
    if !texts.into_iter().any(|text| words.iter().any(|word| text.contains(word))) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let defaults = &panel.field_config.defaults;
    if panel.unit() == SHARE && !marks_over_full(defaults.get("mappings")) {
        problems.push(String::from("its shares above 100 % have no mark"));
    }
    for entry in &panel.field_config.overrides {
        let value = |name: &str| {
            let of_name = |property: &&Value| property.get("id").and_then(Value::as_str) == Some(name);
            entry.properties.iter().find(of_name).and_then(|property| property.get("value"))
        };
        let name = entry.matcher.get("options").and_then(Value::as_str).unwrap_or_default();
        let is_exempt = MAY_BE_OVER_FULL.iter().any(|word| name.contains(word));
        if value("unit").and_then(Value::as_str) == Some(SHARE)
            && !is_exempt
            && !marks_over_full(value("mappings"))
        {
            problems.push(format!("shares above 100 % of '{name}' have no mark"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_javascript_takes_for_numbers() {
        for text in ["0x0002c9030012a4b0", "12", " 7 ", "1e5", "-3.5", "0XFF"] {
            assert!(is_read_as_number(text), "{text}");
        }
        for text in ["leaf1", "0x", "0xg", "", "NaN", "inf", "12.0@1000", "n1"] {
            assert!(!is_read_as_number(text), "{text}");
        }
    }

    #[test]
    fn a_range_without_an_upper_end_marks_nothing() {
        let mapping =
            |to: Value| serde_json::json!([{"type": "range", "options": {"from": 1.0005, "to": to}}]);
        assert!(marks_over_full(Some(&mapping(serde_json::json!(1e9)))));
        assert!(!marks_over_full(Some(&mapping(Value::Null))));
        assert!(!marks_over_full(None));
    }
}
