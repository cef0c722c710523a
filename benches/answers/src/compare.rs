//! Finds what differs between the answers of two builds.

use crate::answers::{Answer, Answers};
use crate::renames::{Excluded, Renames};
use serde_json::Value;
use std::collections::BTreeMap;

/// Differences of one answer that are listed.
const DIFFERENCES_MAX: usize = 100;

/// Relative error of a sum of fractions: sums of seconds less sums of seconds, each exact to 1e-16 of itself.
const SUM_ERROR: f64 = 1e-10;

/// One difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// routes, views, promql or commands.
    pub surface: String,
    /// The request, by its old name.
    pub request: String,
    /// Where in the answer.
    pub path: String,
    /// What the old build answers.
    pub old: String,
    /// What the new one does.
    pub new: String,
}

/// Answers that were compared, by surface: all, and those that differ.
pub type Counts = BTreeMap<String, (usize, usize)>;

/// Rules by which answers are compared.
pub struct Rules<'a> {
    /// New names.
    pub renames: &'a Renames,
    /// What is left out.
    pub excluded: &'a Excluded,
    /// The server's own name: rows about itself depend on when it was started.
    pub host: &'a str,
}

/// The name of an answer in the new build's own words: metrics and views are called by their names.
fn new_request(surface: &str, request: &str, renames: &Renames) -> String {
    match surface {
        "promql" => renames.text("metric", request),
        "views" => renames.name("view", request).to_owned(),
        _ => request.to_owned(),
    }
}

/// Compares all answers; adds to counts and differences.
pub fn compare(
    old: &Answers,
    new: &Answers,
    rules: &Rules,
    counts: &mut Counts,
    found: &mut Vec<Difference>,
) {
    let mut expected: Answers = Answers::new();
    let mut old_names = BTreeMap::new();
    for ((surface, request), answer) in old {
        let key = (surface.clone(), new_request(surface, request, rules.renames));
        old_names.insert(key.clone(), request.clone());
        expected.insert(key, rules.renamed(surface, answer.clone()));
    }
    let keys: std::collections::BTreeSet<_> = expected.keys().chain(new.keys()).collect();
    for key in keys {
        let (surface, request) = (&key.0, old_names.get(key).unwrap_or(&key.1));
        let mut differences = Vec::new();
        match (expected.get(key), new.get(key)) {
            (Some(Answer::Json(old)), Some(Answer::Json(new))) => {
                let (mut old, mut new) = (old.clone(), new.clone());
                rules.leave_out(surface, request, &mut old);
                rules.leave_out(surface, request, &mut new);
                if surface == "views" || surface == "functions" {
                    (old, new) = (without(&old, &new), without(&new, &old));
                }
                walk(&old, &new, &mut String::new(), &mut differences);
            }
            (Some(Answer::Text(old)), Some(Answer::Text(new))) => {
                let lines = |text: &str| rules.lines(surface, request, text);
                let (old, new) = (lines(old), lines(new));
                for at in 0..old.len().max(new.len()) {
                    let line =
                        |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "no line".to_owned());
                    if old.get(at) != new.get(at) {
                        differences.push((format!("line {}", at + 1), line(&old), line(&new)));
                    }
                }
            }
            (None, Some(_)) => {} // a surface may grow
            (Some(Answer::Json(old)), None) if surface == "promql" && rules.has_no_series(request, old) => {}
            (old, new) => differences.push((String::new(), format!("{old:.200?}"), format!("{new:.200?}"))),
        }
        let count = counts.entry(surface.clone()).or_default();
        count.0 += 1;
        count.1 += usize::from(!differences.is_empty());
        found.extend(differences.into_iter().take(DIFFERENCES_MAX).map(|(path, old, new)| Difference {
            surface: surface.clone(),
            request: request.clone(),
            path,
            old,
            new,
        }));
    }
}

impl Rules<'_> {
    fn renamed(&self, surface: &str, answer: Answer) -> Answer {
        match answer {
            Answer::Text(text) => Answer::Text(self.renames.text("text", &text)),
            Answer::Json(document) if surface == "promql" => {
                let labels = self.renames.json("label", document);
                Answer::Json(metric_names(labels, self.renames))
            }
            Answer::Json(document) => Answer::Json(self.renames.json("json", document)),
        }
    }

    /// Removes keys that are not compared, and rows about the server itself.
    pub(crate) fn leave_out(&self, surface: &str, request: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !self.excluded.has(surface, request, key));
                fields.values_mut().for_each(|value| self.leave_out(surface, request, value));
            }
            Value::Array(items) => {
                items.retain(|item| !self.is_own(item));
                items.iter_mut().for_each(|item| self.leave_out(surface, request, item));
            }
            _ => {}
        }
    }

    /// Whether an answer to PromQL has nothing to compare: only the server itself counts it.
    fn has_no_series(&self, request: &str, document: &Value) -> bool {
        let mut document = document.clone();
        self.leave_out("promql", request, &mut document);
        document["data"]["result"].as_array().is_some_and(Vec::is_empty)
    }

    /// Whether a row is of the server itself.
    fn is_own(&self, item: &Value) -> bool {
        let labels = item.get("metric").unwrap_or(item);
        ["instance", "node", "host"]
            .iter()
            .any(|key| labels.get(key).and_then(Value::as_str) == Some(self.host))
    }

    /// Lines without those that are not compared, by their first word, and those with the server's own name.
    fn lines(&self, surface: &str, request: &str, text: &str) -> Vec<String> {
        let is_left_out = |line: &str| {
            let first = line.split_whitespace().next();
            let is_excluded = first.is_some_and(|word| self.excluded.has(surface, request, word));
            let is_host = |word: &str| word.trim_matches([',', ':', '.']) == self.host;
            is_excluded || line.split_whitespace().any(is_host)
        };
        text.lines().filter(|line| !is_left_out(line)).map(str::to_owned).collect()
    }
}

/// Rows without those that another list has as well: a view has no order.
fn without(rows: &Value, others: &Value) -> Value {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    others.as_array().into_iter().flatten().for_each(|row| *counts.entry(row.to_string()).or_default() += 1);
    let is_alone = |row: &&Value| match counts.get_mut(&row.to_string()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    rows.as_array().into_iter().flatten().filter(is_alone).cloned().collect()
}

/// Names of metrics are values of a label.
fn metric_names(mut document: Value, renames: &Renames) -> Value {
    for series in document["data"]["result"].as_array_mut().into_iter().flatten() {
        if let Some(name) = series["metric"]["__name__"].as_str() {
            series["metric"]["__name__"] = renames.name("metric", name).into();
        }
    }
    document
}

pub(crate) fn walk(old: &Value, new: &Value, path: &mut String, found: &mut Vec<(String, String, String)>) {
    let length = path.len();
    match (old, new) {
        (Value::Object(olds), Value::Object(news)) => {
            for (key, old) in olds {
                path.push('.');
                path.push_str(key);
                match news.get(key) {
                    Some(new) => walk(old, new, path, found),
                    None => found.push((path.clone(), shown(old), "nothing".into())),
                }
                path.truncate(length);
            }
            // A key that the new build alone has is no loss.
        }
        (Value::Array(olds), Value::Array(news)) => {
            if olds.len() != news.len() {
                found.push((
                    path.clone(),
                    format!("{} elements", olds.len()),
                    format!("{} elements", news.len()),
                ));
            }
            for (at, (old, new)) in olds.iter().zip(news).enumerate() {
                path.push_str(&format!("[{at}]"));
                walk(old, new, path, found);
                path.truncate(length);
            }
        }
        _ if old == new || is_same_sum(old, new) => {}
        _ => found.push((path.clone(), shown(old), shown(new))),
    }
}

/// Whether two fractions differ only by the order in which a database summed them up.
fn is_same_sum(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) if old.is_f64() && new.is_f64() => {
            let (old, new) = (old.as_f64().unwrap_or_default(), new.as_f64().unwrap_or_default());
            (old - new).abs() <= SUM_ERROR * old.abs().max(new.abs()) + SUM_ERROR * SUM_ERROR
        }
        _ => false,
    }
}

fn shown(value: &Value) -> String {
    format!("{value:.200}")
}
