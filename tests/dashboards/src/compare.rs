//! The PromQL of all panels and rules on two servers with the same samples: whether names, labels and values agree.

use crate::dashboard::Dashboard;
use crate::expand::{Expander, Language, Window, duration};
use crate::files::Files;
use crate::prometheus::{Prometheus, Series};
use crate::rules::{PrometheusRules, selectors};
use crate::{Error, Finding};
use std::collections::BTreeMap;
use std::time::Duration;

/// Labels of a series.
type Labels = BTreeMap<String, String>;

/// What two servers answered to one expression.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The panel or rule.
    pub place: String,
    /// What was queried, variables replaced.
    pub expression: String,
    /// Series of each answer.
    pub series: [usize; 2],
    /// Points that both have.
    pub points: usize,
    /// Of them those whose values differ by more than the tolerance.
    pub apart: usize,
    /// By how much the means over all common points of all series differ, relative.
    pub mean_apart: f64,
    /// By how much the means of a single series differ at most.
    pub series_apart: f64,
    /// Series of one server that the other has not.
    pub absent: Vec<String>,
    /// Messages of servers.
    pub errors: Vec<String>,
}

impl Comparison {
    /// What is wrong where means may differ by so much.
    #[must_use]
    pub fn findings(&self, tolerance: f64) -> Vec<Finding> {
        let mut all: Vec<Finding> =
            self.errors.iter().map(|error| Finding::new(&self.place, error)).collect();
        if let Some(first) = self.absent.first() {
            let problem =
                format!("{} series on one server alone, as {first}: {}", self.absent.len(), self.expression);
            all.push(Finding::new(&self.place, problem));
        }
        if self.mean_apart > tolerance {
            let problem = format!("means differ by {:.1} %: {}", self.mean_apart * 100.0, self.expression);
            all.push(Finding::new(&self.place, problem));
        }
        all
    }
}

/// Every expression of panels and rules, by its place. Variables match everything, recording rules stand for what they
/// record. Of an alert that does not fire its series are counted besides.
fn expressions(files: &Files, window: Window) -> Result<Vec<(String, String, Window)>, Error> {
    let mut all = Vec::new();
    for (name, text) in &files.dashboards {
        let dashboard = Dashboard::parse(name, text)?;
        let mut expander = Expander::new(window);
        for variable in &dashboard.templating.list {
            expander.multiple.push(variable.name.clone());
            expander.values.insert(variable.name.clone(), vec![".*".to_owned()]);
        }
        for panel in dashboard.query_panels() {
            expander.window = window.for_panel(panel.interval.as_deref(), panel.max_data_points);
            for text in panel.targets.iter().filter_map(|target| target.expr.as_deref()) {
                let place = format!("{name}, panel '{}'", panel.title);
                let expanded = expander
                    .expand(text, Language::PromQl)
                    .map_err(|error| Error::Form { path: place.clone(), cause: error.0 })?;
                all.push((place, expanded, expander.window));
            }
        }
    }
    let rules = PrometheusRules::parse(&files.prometheus_rules)?;
    for (name, expression) in rules.records() {
        all.push((format!("rule {name}"), rules.expanded(expression), window));
    }
    for (name, alert) in rules.alert_names().filter_map(|name| Some((name, rules.alert(name)?))) {
        let expression = rules.expanded(&alert.expr);
        let counted = selectors(&expression).into_iter().map(|selector| format!("count({selector})"));
        for expression in counted.chain([expression.clone()]) {
            all.push((format!("rule {name}"), expression, window));
        }
    }
    Ok(all)
}

/// The longest time back that an expression sees.
fn longest_range(expression: &str) -> Duration {
    let lengths = expression.split(['[', ']']).skip(1).step_by(2);
    let lengths = lengths.filter_map(|text| duration(text.split(':').next().unwrap_or(text)));
    let offsets = expression.split(" offset ").skip(1).filter_map(|rest| {
        duration(rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default())
    });
    lengths.chain(offsets).max().unwrap_or_default()
}

/// Which series are among the first may hang on the last digit: all are compared.
fn without_topk(expression: &str) -> String {
    match expression.split_once("topk(") {
        Some((before, rest)) => {
            format!("{before}({}", rest.split_once(',').map_or(rest, |(_, rest)| rest))
        }
        None => expression.to_owned(),
    }
}

/// Runs every expression over the window on both servers. The window begins for each where its ranges are full; expressions that
/// see farther back than the window's middle are left out. Values are the same where they differ by at most `tolerance`, relative.
///
/// # Errors
/// A file has another form.
pub async fn compare(
    files: &Files,
    servers: [&Prometheus; 2],
    window: Window,
    tolerance: f64,
) -> Result<Vec<Comparison>, Error> {
    let mut all = Vec::new();
    for (place, expression, mut window) in expressions(files, window)? {
        let range = longest_range(&expression);
        if range > window.range() / 2 {
            continue;
        }
        window.from += i64::try_from(range.as_nanos()).unwrap_or(i64::MAX);
        let expression = without_topk(&expression);
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        for (server, which) in servers.iter().zip(["first", "second"]) {
            let answer = server.query_range(&expression, &window).await;
            answers.push(answer.unwrap_or_else(|error| {
                errors.push(format!("the {which} server: {error}: {expression}"));
                Vec::new()
            }));
        }
        let mut comparison = Comparison {
            place,
            expression,
            series: [answers[0].len(), answers[1].len()],
            points: 0,
            apart: 0,
            mean_apart: 0.0,
            series_apart: 0.0,
            absent: Vec::new(),
            errors,
        };
        if comparison.errors.is_empty() {
            add(&mut comparison, &answers[0], &answers[1], tolerance);
        }
        all.push(comparison);
    }
    Ok(all)
}

fn add(comparison: &mut Comparison, first: &[Series], second: &[Series], tolerance: f64) {
    // A name alone says nothing: a function drops it on one server and not on the other.
    let by_labels = |series: &[Series]| -> BTreeMap<Labels, BTreeMap<i64, f64>> {
        let one = |series: &Series| {
            let mut labels = series.metric.clone();
            labels.remove("__name__");
            #[allow(clippy::cast_possible_truncation)] // milliseconds
            let value = |(time, text): &(f64, String)| {
                Some((
                    (time * 1e3).round() as i64,
                    text.parse::<f64>().ok().filter(|value| value.is_finite())?,
                ))
            };
            (labels, series.values.iter().filter_map(value).collect())
        };
        series.iter().map(one).collect()
    };
    let (first, second) = (by_labels(first), by_labels(second));
    let mut all = [0.0, 0.0];
    for (labels, values) in &first {
        let Some(others) = second.get(labels) else {
            comparison.absent.push(format!("on the first {labels:?}"));
            continue;
        };
        let (mut sums, mut common) = ([0.0, 0.0], 0_usize);
        for (time, value) in values {
            let Some(other) = others.get(time) else { continue };
            common += 1;
            comparison.apart += usize::from(apart(*value, *other) > tolerance);
            sums[0] += value;
            sums[1] += other;
        }
        comparison.points += common;
        if common == 0 && !values.is_empty() && !others.is_empty() {
            comparison.absent.push(format!("at other times {labels:?}"));
        }
        comparison.series_apart = comparison.series_apart.max(apart(sums[0], sums[1]));
        all = [all[0] + sums[0], all[1] + sums[1]];
    }
    comparison.mean_apart = apart(all[0], all[1]);
    for labels in second.keys().filter(|labels| !first.contains_key(*labels)) {
        comparison.absent.push(format!("on the second {labels:?}"));
    }
}

/// Relative difference of two values.
fn apart(one: f64, other: f64) -> f64 {
    let largest = one.abs().max(other.abs());
    if largest == 0.0 { 0.0 } else { (one - other).abs() / largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[(f64, &str)]) -> Series {
        let metric =
            [("__name__", name), ("port", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        Series {
            metric: metric.into(),
            values: values.iter().map(|(time, value)| (*time, (*value).to_owned())).collect(),
        }
    }

    fn compared(first: &[Series], second: &[Series]) -> Comparison {
        let (place, expression) = ("p".to_owned(), "e".to_owned());
        let mut comparison = Comparison {
            place,
            expression,
            series: [0, 0],
            points: 0,
            apart: 0,
            mean_apart: 0.0,
            series_apart: 0.0,
            absent: Vec::new(),
            errors: Vec::new(),
        };
        add(&mut comparison, first, second, 0.05);
        comparison
    }

    #[test]
    fn values_labels_and_absent_series_are_found() {
        let one = [series("a", &[(1.0, "100"), (2.0, "10"), (3.0, "NaN")])];
        let same = compared(&one, &[series("", &[(1.0, "99"), (2.0, "20"), (4.0, "1")])]);
        assert_eq!((same.points, same.apart, same.absent.len()), (2, 1, 0));
        assert!(same.findings(0.1).is_empty() && same.findings(0.05).len() == 1, "{same:?}");
        let mut other = one[0].clone();
        other.metric.insert("port".to_owned(), "2".to_owned());
        let absent = compared(&one, &[other]).absent;
        assert!(absent[0].starts_with("on the first") && absent[1].starts_with("on the second"));
        assert_eq!(longest_range("rate(a[60s]) + max_over_time(b[1h:15s]) > a offset 5m").as_secs(), 3600);
        assert_eq!(without_topk("topk(10,\n a / b)"), "(\n a / b)");
    }

    #[test]
    fn all_expressions_of_the_repository_are_expanded() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let files = Files::read(std::path::Path::new(root)).unwrap();
        let all = expressions(&files, Window::new(0, 3_600_000_000_000)).unwrap();
        assert!(all.iter().any(|(place, ..)| place.contains("panel")) && all.len() > 50, "{}", all.len());
        assert!(
            all.iter().all(|(_, expression, _)| !expression.contains('$') || expression.contains("\"$1\""))
        );
    }
}
