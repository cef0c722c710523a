//! The catalogue as a document: `docs/METRICS.md`.

use super::{Kind, Table, Width};
use std::fmt::Write;

const HEADING: &str = "# Metrics

Every metric of Throughline, from the catalogue in `crates/sample/src/catalogue`. This file is written by
`cargo xtask metrics`; a test compares it with the catalogue.

A metric's short name is its SQL column and JSON key; its Prometheus name is prefix + name, with `_total` for a
counter. A value that could not be read is NULL or absent, never 0. *Wraps at 63 bits* means that the stored
value starts again at 0 there; *saturates* means that the device's counter stops at its largest value, which is
stored as NULL and named in `saturated`.
";

/// The whole catalogue as Markdown.
#[must_use]
pub fn to_markdown() -> String {
    let mut text = String::from(HEADING);
    for table in Table::ALL {
        let labels = table.labels().join("`, `");
        // Writing to a String can't fail.
        let _ = writeln!(text, "\n## `{}`\n", table.name());
        let _ = match table.prometheus_prefixes() {
            [] => writeln!(text, "Not exposed to Prometheus.\n"),
            prefixes => writeln!(text, "Prometheus: `{}…` with labels `{labels}`.\n", prefixes.join("…`, `")),
        };
        text.push_str("| name | number | kind | unit | width | meaning | origin |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
        for metric in table.metrics() {
            let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
            let width = match (metric.kind, metric.width) {
                (Kind::Gauge, _) => String::from("-"),
                (Kind::Counter, Width::Wraps(bits)) => format!("wraps at {bits} bits"),
                (Kind::Counter, Width::Saturates) => String::from("saturates"),
            };
            let (name, id, unit) = (metric.name, metric.id, metric.unit.name());
            let (help, origin) = (metric.help, metric.origin);
            let _ = writeln!(text, "| `{name}` | {id} | {kind} | {unit} | {width} | {help} | {origin} |");
        }
    }
    text
}
