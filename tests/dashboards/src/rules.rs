//! Prometheus' rule files. Recording rules are put into the expressions that use them, so that a Prometheus
//! without these rules, or with data from before them, answers the same.

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;

/// All rules of some files.
#[derive(Clone, Debug, Default)]
pub struct PrometheusRules {
    records: BTreeMap<String, String>,
    alerts: BTreeMap<String, PrometheusAlert>,
}

/// One alerting rule.
#[derive(Clone, Debug, Deserialize)]
pub struct PrometheusAlert {
    /// When it holds.
    pub expr: String,
    /// For how long, before it fires.
    #[serde(default, rename = "for")]
    pub pending: String,
}

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    record: Option<String>,
    alert: Option<String>,
    expr: String,
    #[serde(default, rename = "for")]
    pending: String,
}

impl PrometheusRules {
    /// Reads rule files.
    ///
    /// # Errors
    /// [`Error::Form`].
    pub fn parse(files: &[(String, String)]) -> Result<Self, Error> {
        let mut rules = Self::default();
        for (name, text) in files {
            let file: File = serde_yaml_ng::from_str(text)
                .map_err(|error| Error::Form { path: name.clone(), cause: error.to_string() })?;
            for rule in file.groups.into_iter().flat_map(|group| group.rules) {
                if let Some(record) = rule.record {
                    rules.records.insert(record, rule.expr);
                } else if let Some(alert) = rule.alert {
                    rules.alerts.insert(alert, PrometheusAlert { expr: rule.expr, pending: rule.pending });
                }
            }
        }
        Ok(rules)
    }

    /// Names of the alerts.
    pub fn alert_names(&self) -> impl Iterator<Item = &str> {
        self.alerts.keys().map(String::as_str)
    }

    /// An alert by name.
    #[must_use]
    pub fn alert(&self, name: &str) -> Option<&PrometheusAlert> {
        self.alerts.get(name)
    }

    /// The expressions of recording rules by the name that they record.
    pub fn records(&self) -> impl Iterator<Item = (&str, &str)> {
        self.records.iter().map(|(name, expression)| (name.as_str(), expression.as_str()))
    }

    /// The expression with each recorded name replaced by what it records.
    #[must_use]
    pub fn expanded(&self, expression: &str) -> String {
        let mut text = expression.to_owned();
        // A recording rule may use others; one pass for each is enough, and ends also if they form a circle.
        for _ in 0..self.records.len() {
            for (name, recorded) in &self.records {
                text = replace_name(&text, name, &format!("({recorded})"));
            }
        }
        text
    }
}

/// Words of PromQL that are no metric.
const WORDS: [&str; 8] = ["and", "or", "unless", "bool", "offset", "start", "end", "inf"];
/// Words that a list of labels in parentheses may follow, with or without a space.
const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Series that Prometheus makes itself.
const OWN_SERIES: [&str; 3] = ["up", "ALERTS", "ALERTS_FOR_STATE"];

/// The selectors of an expression (`name` or `name{label="x"}`), without those of series that Prometheus makes
/// itself.
#[must_use]
pub fn selectors(expression: &str) -> Vec<String> {
    let bytes = expression.as_bytes();
    let name_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b':';
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'{' => end_of(bytes, at, b'}'),
            b'[' => end_of(bytes, at, b']'),
            quote @ (b'"' | b'\'') => end_of(bytes, at + 1, quote),
            b if name_byte(b) => {
                let end = at + bytes[at..].iter().take_while(|b| name_byte(**b)).count();
                let word = &expression[at..end];
                let rest = expression[end..].trim_start();
                let aggregates = ["by", "without"].iter().any(|word| {
                    rest.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with('('))
                });
                let called = rest.starts_with('(') || aggregates;
                if LABEL_LISTS.contains(&word) {
                    if called { end_of(bytes, end, b')') } else { end }
                } else {
                    if !called && !b.is_ascii_digit() && !WORDS.contains(&word) && !OWN_SERIES.contains(&word)
                    {
                        let braces = expression[end..].starts_with('{');
                        let end = if braces { end_of(bytes, end, b'}') } else { end };
                        found.push(expression[at..end].to_owned());
                    }
                    end
                }
            }
            _ => at + 1,
        };
        at = end;
    }
    found.sort();
    found.dedup();
    found
}

/// The place behind the next `closing` byte.
fn end_of(bytes: &[u8], from: usize, closing: u8) -> usize {
    bytes.iter().skip(from).position(|b| *b == closing).map_or(bytes.len(), |found| from + found + 1)
}

/// Replaces a metric's name where it stands alone, not inside a longer name.
fn replace_name(text: &str, name: &str, by: &str) -> String {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        out.push_str(before);
        rest = after;
        if before.ends_with(part_of_name) || after.starts_with(part_of_name) {
            out.push_str(name);
            continue;
        }
        // An expression has no offset, but a range of its values has.
        let Some(offset) = after.strip_prefix(" offset ") else {
            out.push_str(by);
            continue;
        };
        let end = offset.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(offset.len());
        out.push_str(&format!("last_over_time({by}[1m:15s] offset {})", &offset[..end]));
        rest = &offset[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_names_are_replaced_whole_and_through() {
        let text = "groups:\n- name: a\n  rules:\n  - {record: 'a:b:c', expr: 'rate(x[1m])'}\n  - {record: 'a:b:cd', expr: 'a:b:c / 2'}\n  - {alert: A, expr: 'a:b:cd > 1', for: 5m}\n";
        let rules = PrometheusRules::parse(&[(String::from("f"), text.to_owned())]).unwrap();
        let alert = rules.alert("A").unwrap();
        assert_eq!(rules.expanded(&alert.expr), "((rate(x[1m])) / 2) > 1");
        assert_eq!(alert.pending, "5m");
        assert_eq!(
            rules.expanded("a:b:c offset 5m > 0"),
            "last_over_time((rate(x[1m]))[1m:15s] offset 5m) > 0"
        );
    }

    #[test]
    fn selectors_of_an_expression() {
        let expression = "max by (guid, port) (label_replace(a_info{x=\"b(\"}, \"n\", \"$1\", \"s\", \"(.*)\")) * on(guid) \
             group_left (node) rate(b:c_total[5m]) > 0.80 and on (guid) ALERTS{alertname=\"A\"} or absent(d) unless e";
        assert_eq!(selectors(expression), ["a_info{x=\"b(\"}", "b:c_total", "d", "e"]);
    }
}
