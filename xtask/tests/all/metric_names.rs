//! Names of Throughline's metrics, and their labels, wherever people copy them from: dashboards, alert rules and their tests,
//! documentation. Each is in the catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use throughline_sample::catalogue::{Table, to_markdown};

/// Folders and files, and whether each name there that begins like a metric is one. Documentation names crates, too.
const PLACES: [(&str, bool); 8] = [
    ("alerts/rules", true),
    ("dashboards/src", true),
    ("dashboards", true),
    ("deploy/prometheus", true),
    ("docs", false),
    ("README.md", false),
    ("SECURITY.md", false),
    ("deploy/config", false),
];

/// Labels that scrapes and rules add, and the sender that the collector adds to what it rejects.
const ADDED: [&str; 7] = ["instance", "job", "exported_job", "node", "uplink", "direction", "sender"];

/// Labels by name: of the catalogue, and of the series that are listed in its document only.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for table in Table::ALL {
        for prefix in table.prometheus_prefixes() {
            for metric in table.metrics() {
                let labels = metric.labels().map(str::to_owned).collect();
                all.insert(metric.prometheus_name(prefix), labels);
            }
        }
    }
    for line in to_markdown().lines().filter_map(|line| line.strip_prefix("| `throughline_")) {
        let mut cells = line.split(" | ");
        let (name, labels) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let labels = labels.split(", ").map(|label| label.trim_matches('`').to_owned());
        all.insert(format!("throughline_{}", name.trim_end_matches('`')), labels.collect());
    }
    all
}

fn files(path: &Path, all: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            // Decisions are of their day, and the document is the catalogue's.
            if !path.ends_with("decisions")
                && !path.ends_with("METRICS.md")
                && !path.ends_with("BENCHMARKS.md")
            {
                files(&path, all);
            }
        }
    } else {
        all.push(path.to_owned());
    }
}

/// Names in a text with what follows them. Parts of longer words and names of recording rules are no names.
fn names(text: &str) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for (at, _) in text.match_indices("throughline_") {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let after = &rest[end..];
        let is_rule = before == ':' || after.starts_with(':');
        if !is_rule && !before.is_ascii_alphanumeric() && before != '_' && !rest[..end].ends_with('_') {
            all.push((&rest[..end], after));
        }
    }
    all
}

/// Labels of a matcher behind a name.
fn labels(after: &str) -> Vec<&str> {
    let Some((matcher, _)) = after.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return Vec::new();
    };
    let parts = matcher.split(',').filter_map(|part| part.split_once('='));
    let labels = parts.map(|(label, _)| label.trim().trim_end_matches('!'));
    labels.filter(|label| label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')).collect()
}

#[test]
fn names_and_labels_of_metrics_are_those_of_the_catalogue() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = known();
    let suffixes = ["_total", "_seconds", "_bytes", "_info", "_up", "_mads", "_entries", "_users"];
    let (mut wrong, mut found) = (Vec::new(), 0);
    for (place, all_are_metrics) in PLACES {
        let mut paths = Vec::new();
        files(&root.join(place), &mut paths);
        for path in paths {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            for (name, after) in names(&text) {
                let is_metric = all_are_metrics
                    || after.starts_with('{')
                    || suffixes.iter().any(|end| name.ends_with(end));
                if !is_metric || ["throughline_read", "throughline_query"].contains(&name) {
                    continue;
                }
                found += 1;
                match known.get(name) {
                    None => wrong.push(format!("{}: {name}", path.display())),
                    Some(of_name) => {
                        let others = labels(after)
                            .into_iter()
                            .filter(|label| !of_name.contains(*label) && !ADDED.contains(label));
                        wrong.extend(others.map(|label| format!("{}: {name}{{{label}}}", path.display())));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "not in the catalogue:\n{}", wrong.join("\n"));
    assert!(found > 100, "only {found} names: where are dashboards and rules?");
}
