//! Texts with `{names}`, in the syntax of each system; lines of YAML; the table of the documentation.

use crate::definition::{Rule, Set, Unit};
use std::fmt::Write;

/// Longest line of a folded text.
const COLUMNS: usize = 116;

/// Replaces each `{name}` by what `value` makes of it.
pub fn filled(text: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        out.push_str(&value(name));
        rest = behind;
    }
    out + rest
}

/// A number as a person writes it in the unit.
pub fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Percent => format!("{} %", trimmed(value * 100.0)),
        Unit::Number => trimmed(value),
        Unit::Ratio => format!("{value:e}"),
        Unit::Seconds if value >= 60.0 && value % 60.0 == 0.0 => format!("{} minutes", trimmed(value / 60.0)),
        Unit::Seconds => format!("{} seconds", trimmed(value)),
        Unit::Bytes => format!("{} GB", trimmed(value / 1e9)),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The meaning with its thresholds, which do not depend on the system.
pub fn meaning(rule: &Rule) -> String {
    let minutes = rule.threshold.pending.trim_end_matches('m');
    let pending = if minutes == "1" { String::from("a minute") } else { format!("{minutes} minutes") };
    filled(&rule.meaning, |name| match name {
        "fires" => written(rule.threshold.fires_above, rule.unit),
        "holds" => written(rule.holds_above(), rule.unit),
        _ => pending.clone(),
    })
}

/// A number as YAML and PromQL write it.
pub fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e6) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}

/// Lines at an indentation.
pub fn indented(text: &str, spaces: usize) -> String {
    let pad = " ".repeat(spaces);
    text.trim()
        .lines()
        .map(|line| if line.is_empty() { String::from("\n") } else { format!("{pad}{line}\n") })
        .collect()
}

/// The same without the last line's end.
pub fn pad_lines(text: &str, spaces: usize) -> String {
    indented(text, spaces).trim_end().to_owned()
}

/// A key with a literal block.
pub fn block(key: &str, text: &str, spaces: usize) -> String {
    format!("{}{key}: |\n{}", " ".repeat(spaces), indented(text, spaces + 2))
}

/// A key with a text that YAML folds into one line.
pub fn folded(key: &str, text: &str, spaces: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, String::len);
        if line > 0 && line + 1 + word.len() + spaces > COLUMNS {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    format!("{}{key}: >-\n{}", " ".repeat(spaces), indented(&lines.join("\n"), spaces + 2))
}

/// The table of docs/ALERTS.md: a section for each alert, by group.
#[must_use]
pub fn table(set: &Set) -> String {
    let mut out = String::new();
    for (group, rules) in &set.groups {
        let heading = match *group {
            "infiniband" => "InfiniBand",
            "gpu" => "GPUs and NVLinks",
            _ => "The monitoring itself",
        };
        // Writing to a String can't fail.
        let _ = writeln!(out, "## {heading}\n");
        let _ = writeln!(
            out,
            "| alert | severity | fires over | held over | after | goes on without data |\n| --- | --- | --- | --- | --- | --- |"
        );
        for rule in rules {
            let held = rule.threshold.holds_above.map_or(String::new(), |value| written(value, rule.unit));
            let _ = writeln!(
                out,
                "| [{}](#{}) | {} | {} | {held} | {} | {} |",
                rule.title,
                rule.name.to_lowercase(),
                rule.severity,
                written(rule.threshold.fires_above, rule.unit),
                rule.threshold.pending,
                rule.keep.as_deref().unwrap_or_default(),
            );
        }
        for rule in rules {
            let _ = writeln!(
                out,
                "\n### {}\n\nPrometheus `{}`, Grafana `{}`. {} {}",
                rule.name,
                rule.name,
                rule.uid,
                meaning(rule),
                rule.remedy
            );
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}
