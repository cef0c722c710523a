//! Series of self-metrics whose name, source or label changed: several old metrics may be one new one with a label, so that
//! an answer has its equal in a part of another answer. They are compared series by series.

use crate::answers::{Answer, Answers};
use crate::compare::{Difference, Rules, walk};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "throughline_";

/// Labels of every self-metric; any other one is its own.
const COMMON: [&str; 3] = ["__name__", "instance", "source"];

/// A series in the new build's words: the query, and its labels as JSON, its own one called `label`.
type Key = (String, String);

/// Compares the series of these metrics; takes their answers from both. Counts queries of the old build, and those that differ.
pub fn compare(
    (old, new): (&mut Answers, &mut Answers),
    rules: &Rules,
    found: &mut Vec<Difference>,
) -> (usize, usize) {
    let mut queries = BTreeSet::new();
    let mut expected: BTreeMap<Key, (String, Value)> = BTreeMap::new();
    for (query, metric, series) in taken(old, rules, |name| rules.renames.has_stat(name)) {
        queries.insert(query.clone());
        for (labels, values) in series {
            let (name, labels) = renamed(&metric, labels, rules);
            let key = (query.replace(&metric, &name), Value::Object(labels).to_string());
            expected.insert(key, (query.clone(), values));
        }
    }
    let mut answered: BTreeMap<Key, Value> = BTreeMap::new();
    for (query, _, series) in taken(new, rules, |name| rules.renames.makes_stat(name)) {
        for (labels, values) in series {
            answered.insert((query.clone(), Value::Object(own_label(labels)).to_string()), values);
        }
    }
    let mut differing = BTreeSet::new();
    for (key, (query, old)) in expected {
        let mut differences = Vec::new();
        match answered.get(&key) {
            Some(new) => walk(&old, new, &mut String::new(), &mut differences),
            None => differences.push((String::new(), "a series".to_owned(), "nothing".to_owned())),
        }
        differing.extend((!differences.is_empty()).then(|| query.clone()));
        found.extend(differences.into_iter().map(|(path, old, new)| Difference {
            surface: "promql".to_owned(),
            request: query.clone(),
            path: format!("{}{path}", key.1),
            old,
            new,
        }));
    }
    (queries.len(), differing.len())
}

/// Takes the answers of metrics whose short name is as given: query, metric, and its series' labels and values.
#[allow(clippy::type_complexity)] // read once, above
fn taken(
    answers: &mut Answers,
    rules: &Rules,
    is_one: impl Fn(&str) -> bool,
) -> Vec<(String, String, Vec<(Map<String, Value>, Value)>)> {
    let mut all = Vec::new();
    answers.retain(|(surface, query), answer| {
        let Some((metric, _)) = metric_of(query).filter(|(_, short)| surface == "promql" && is_one(short))
        else {
            return true;
        };
        let Answer::Json(document) = answer else { return true };
        // Of ranks: with other labels, in both builds.
        if has_no_source(document) {
            return true;
        }
        rules.leave_out("promql", query, document);
        let series = document["data"]["result"].as_array().cloned().unwrap_or_default();
        let series = series.into_iter().map(|mut one| {
            let labels = one["metric"].as_object().cloned().unwrap_or_default();
            (labels, one["values"].take())
        });
        all.push((query.clone(), metric.to_owned(), series.collect()));
        false
    });
    all
}

/// The metric that a query names, and its name in `self_stats`.
fn metric_of(query: &str) -> Option<(&str, &str)> {
    let from = query.find(PREFIX)?;
    let rest = &query[from..];
    let metric =
        &rest[..rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len())];
    let short = metric.strip_prefix(PREFIX)?;
    Some((metric, short.strip_suffix("_total").unwrap_or(short)))
}

fn has_no_source(document: &Value) -> bool {
    let series = document["data"]["result"].as_array();
    series.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one["metric"].get("source").is_none()))
}

/// The new name and labels of an old series.
fn renamed(metric: &str, mut labels: Map<String, Value>, rules: &Rules) -> (String, Map<String, Value>) {
    let short = metric.trim_start_matches(PREFIX);
    let (short, end) = short.strip_suffix("_total").map_or((short, ""), |short| (short, "_total"));
    labels.remove("__name__");
    let source = labels.get("source").and_then(Value::as_str).unwrap_or_default();
    let Some([name, part, label]) = rules.renames.stat(short, source) else {
        return (rules.renames.text("metric", metric), labels);
    };
    labels.insert("source".to_owned(), json!(part));
    if !label.is_empty() {
        labels.insert("label".to_owned(), json!(label));
    }
    (format!("{PREFIX}{name}{end}"), labels)
}

/// Labels of a new series, its own one under one key.
fn own_label(labels: Map<String, Value>) -> Map<String, Value> {
    let named = labels.into_iter().filter(|(key, _)| key != "__name__");
    named
        .map(
            |(key, value)| {
                if COMMON.contains(&key.as_str()) { (key, value) } else { ("label".to_owned(), value) }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renames::{Excluded, Renames};

    fn answers(metric: &str, series: &Value) -> Answers {
        let document = json!({ "data": { "result": series } });
        Answers::from([(
            ("promql".to_owned(), format!("running: rate({metric}[5m])")),
            Answer::Json(document),
        )])
    }

    #[test]
    fn an_old_metric_is_found_as_a_series_of_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let map =
            "stat lost spool entries_discarded spool full\nstat thinned * entries_discarded spool evicted\n";
        std::fs::write(folder.path().join("renames.txt"), map).unwrap();
        let renames = Renames::read(folder.path()).unwrap();
        let rules = Rules { renames: &renames, excluded: &Excluded::default(), host: "db" };
        let new = json!([
            { "metric": { "instance": "a", "source": "spool", "reason": "full" }, "values": [[1, "2"]] },
            { "metric": { "instance": "a", "source": "spool", "reason": "evicted" }, "values": [[1, "3"]] },
        ]);
        let of = |value: &str| json!([{ "metric": { "instance": "a", "source": "spool" }, "values": [[1, value]] }]);
        for (metric, value, differing) in [("lost", "2", 0), ("thinned", "3", 0), ("lost", "3", 1)] {
            let mut old = answers(&format!("throughline_{metric}_total"), &of(value));
            let mut new = answers("throughline_entries_discarded_total", &new);
            let mut found = Vec::new();
            assert_eq!(compare((&mut old, &mut new), &rules, &mut found), (1, differing), "{metric} {value}");
            assert_eq!(found.len(), differing);
            assert!(old.is_empty() && new.is_empty());
        }
    }
}
