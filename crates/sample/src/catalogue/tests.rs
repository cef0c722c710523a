//! The catalogue's own rules, and its document.

use super::*;
use std::collections::HashSet;

fn all() -> impl Iterator<Item = &'static Metric> {
    Table::ALL.iter().flat_map(|table| table.metrics()).copied()
}

#[test]
fn numbers_and_names_are_unique() {
    let mut ids = HashSet::new();
    let mut series = HashSet::new();
    for metric in all() {
        assert!(ids.insert(metric.id), "number {} twice", metric.id);
        assert_eq!(by_id(metric.id), Some(metric));
        for prefix in metric.table.prometheus_prefixes() {
            let name = metric.prometheus_name(prefix);
            assert!(series.insert(name.clone()), "{name} twice");
        }
    }
    assert_eq!(by_id(u32::MAX), None);
}

#[test]
fn names_are_valid_and_end_in_their_unit() {
    for metric in all() {
        let valid = metric.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert!(valid, "{}", metric.name);
        assert!(!metric.name.ends_with("_total"), "{}: the suffix is added", metric.name);
        let ending = match metric.unit {
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
            Unit::Packets | Unit::Count | Unit::Ticks | Unit::Own => "",
        };
        assert!(metric.name.ends_with(ending), "{} is in {}", metric.name, metric.unit.name());
        assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{}: {}", metric.name, metric.help);
    }
}

#[test]
fn losses_have_two_names_and_a_reason() {
    for metric in Table::SelfStats.metrics() {
        let words: Vec<&str> = metric.name.split('_').collect();
        let is_loss = words.contains(&"discarded") || words.contains(&"rejected");
        // Those of a receiver have one reason each, which their help has.
        assert!(!is_loss || matches!(metric.label, Some("reason" | "receiver")), "{}", metric.name);
        for other in ["dropped", "left", "refused", "fenced", "quarantined", "thinned", "skipped", "lost"] {
            assert!(!words.contains(&other), "{}: {other} is discarded or rejected", metric.name);
        }
    }
}

#[test]
fn the_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METRICS.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == to_markdown(), "docs/METRICS.md is out of date: run `cargo xtask metrics`");
}
