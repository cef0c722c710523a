//! Runs everything: the lint, then each variable, panel and rule against the data sources at hand.

use crate::alerts::GrafanaRule;
use crate::answers::EMPTY;
use crate::dashboard::{Dashboard, Panel, Target, Variable};
use crate::expand::{Expander, Language, Window};
use crate::files::Files;
use crate::prometheus::{Prometheus, Series};
use crate::rules::{PrometheusRules, selectors};
use crate::{Error, Finding, Sql, lint, shown};
use serde_json::Value;
use throughline_alerts::{Rule, Set, THRESHOLDS};

/// Dashboards that must be there, one for each layer, each with SQL and PromQL panels: fabric, GPU links, MPI.
const LAYERS: [&str; 3] = ["throughline-fabric", "throughline-node", "throughline-jobs"];
/// The words in a panel's description by which it may be empty: only where a library or device offers something.
const MAY_BE_EMPTY: &str = "Only where ";
/// Values of a single-valued variable that are tried: the newest job may have just begun.
const TRIED_VALUES: usize = 5;

/// What queries run against; queries for one that is not there are left out and counted.
#[derive(Debug, Default)]
pub struct Sources {
    /// TimescaleDB.
    pub sql: Option<Sql>,
    /// Prometheus.
    pub prometheus: Option<Prometheus>,
}

/// What was run and what was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Queries that ran.
    pub queries: usize,
    /// Queries left out because their data source is not there.
    pub left_out: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Panels and rules without rows that may have none on some sites.
    pub notes: Vec<Finding>,
}

/// Checks dashboards and rules over a time range.
///
/// # Errors
/// Files that can't be parsed. Everything else is a finding.
pub async fn check(files: &Files, sources: &Sources, window: Window) -> Result<Report, Error> {
    let mut dashboards = Vec::new();
    for (name, text) in &files.dashboards {
        dashboards.push((name.clone(), Dashboard::parse(name, text)?));
    }
    let grafana_rules = GrafanaRule::parse(&files.grafana_rules)?;
    let prometheus_rules = PrometheusRules::parse(&files.prometheus_rules)?;
    let findings = lint(&dashboards, &grafana_rules, &files.data_source_uids()?, &files.folder_uids()?);
    let set = Set::new(THRESHOLDS).map_err(|error| Error::Rule(error.to_string()))?;
    let of_set = |chosen: fn(&Rule) -> bool| set.rules().filter(|rule| chosen(rule)).cloned().collect();
    let (optional, sums) = (of_set(|rule| rule.is_optional), of_set(|rule| rule.increase.is_some()));
    let mut run = Run { sources, optional, sums, report: Report { findings, ..Report::default() } };
    for (name, dashboard) in &dashboards {
        run.dashboard(name, dashboard, window).await;
    }
    for layer in LAYERS {
        let found = dashboards.iter().find(|(_, dashboard)| dashboard.uid == layer);
        if !found.is_some_and(|(_, dashboard)| asks_both(dashboard)) {
            let problem = format!("no dashboard '{layer}' with panels by SQL and by PromQL");
            run.report.findings.push(Finding::new("dashboards", problem));
        }
    }
    for rule in &grafana_rules {
        run.grafana_rule(rule, window).await;
    }
    run.prometheus_rules(&prometheus_rules, window).await;
    Ok(run.report)
}

/// Whether a dashboard has at least one panel of each language.
fn asks_both(dashboard: &Dashboard) -> bool {
    let targets = || dashboard.query_panels().flat_map(|panel| &panel.targets);
    targets().any(|target| target.sql.is_some()) && targets().any(|target| target.expr.is_some())
}

struct Run<'a> {
    sources: &'a Sources,
    /// Rules over what a site may lack.
    optional: Vec<Rule>,
    /// Rules over sums of counters.
    sums: Vec<Rule>,
    report: Report,
}

impl Run<'_> {
    fn find(&mut self, place: &str, problem: impl Into<String>) {
        self.report.findings.push(Finding::new(place, problem));
    }

    async fn dashboard(&mut self, name: &str, dashboard: &Dashboard, window: Window) {
        let mut expander = Expander::new(window);
        let mut choices: Vec<(String, Vec<String>)> = Vec::new();
        for variable in &dashboard.templating.list {
            if variable.multi || variable.include_all {
                expander.multiple.push(variable.name.clone());
            }
            let values = self.variable(name, variable, &expander).await;
            if variable.kind == "custom" {
                let chosen = variable.current.get("value").and_then(Value::as_str).unwrap_or_default();
                expander.values.insert(variable.name.clone(), vec![chosen.to_owned()]);
            } else if variable.multi || variable.include_all || variable.kind != "query" {
                expander.values.insert(variable.name.clone(), values);
            } else {
                // Without a choice Grafana puts an empty text.
                let first = values.first().cloned().unwrap_or_default();
                expander.values.insert(variable.name.clone(), vec![first]);
                choices.push((variable.name.clone(), values.into_iter().take(TRIED_VALUES).collect()));
            }
        }
        for annotation in &dashboard.annotations.list {
            let Some(target) = &annotation.target else { continue };
            let problems = self.annotation(target, &expander).await;
            let place = format!("{name}, annotation '{}'", annotation.name);
            problems.into_iter().for_each(|problem| self.find(&place, problem));
        }
        for panel in dashboard.query_panels() {
            let place = format!("{name}, panel '{}'", panel.title);
            for target in &panel.targets {
                let problems = self.target_with_choices(panel, target, &expander, &choices).await;
                for problem in problems {
                    if problem == EMPTY && panel.description.contains(MAY_BE_EMPTY) {
                        self.report.notes.push(Finding::new(&place, problem));
                    } else {
                        self.find(&place, problem);
                    }
                }
            }
        }
    }

    /// Problems with the first value of each single-valued variable that has none, else with the first.
    async fn target_with_choices(
        &mut self,
        panel: &Panel,
        target: &Target,
        expander: &Expander,
        choices: &[(String, Vec<String>)],
    ) -> Vec<String> {
        let mut expander = expander.clone();
        expander.window = expander.window.for_panel(panel.interval.as_deref(), panel.max_data_points);
        let first = self.target(panel, target, &expander).await;
        let text = target.sql.as_deref().or(target.expr.as_deref()).unwrap_or_default();
        for (name, values) in choices.iter().filter(|(name, _)| text.contains(&format!("${{{name}"))) {
            for value in values.iter().skip(1) {
                if first.is_empty() {
                    return first;
                }
                expander.values.insert(name.clone(), vec![value.clone()]);
                if self.target(panel, target, &expander).await.is_empty() {
                    return Vec::new();
                }
            }
        }
        first
    }

    /// Marks have a time and a text. There may be none.
    async fn annotation(&mut self, target: &Target, expander: &Expander) -> Vec<String> {
        let text = target.sql.as_deref().unwrap_or_default();
        let statement = match expander.expand(text, Language::Sql) {
            Ok(statement) => statement,
            Err(error) => return vec![error.0],
        };
        let Some(sql) = &self.sources.sql else {
            self.report.left_out += 1;
            return Vec::new();
        };
        self.report.queries += 1;
        match sql.query(&statement).await {
            Ok(answer) => answer.missing(&[String::from("time"), String::from("text")]),
            Err(problem) => vec![problem],
        }
    }

    /// Values of a variable; its own query runs too.
    async fn variable(&mut self, name: &str, variable: &Variable, expander: &Expander) -> Vec<String> {
        let place = format!("{name}, variable {}", variable.name);
        let text = variable.query.as_str().unwrap_or_default();
        if variable.kind != "query" {
            return vec![text.to_owned()];
        }
        let Some(sql) = &self.sources.sql else {
            self.report.left_out += 1;
            // Enough to expand PromQL with; matches every value.
            return vec![String::from(".*")];
        };
        self.report.queries += 1;
        let statement = match expander.expand(text, Language::Sql) {
            Ok(statement) => statement,
            Err(error) => {
                self.find(&place, error.0);
                return Vec::new();
            }
        };
        match sql.query(&statement).await {
            Ok(answer) => {
                let column = answer.position("__value").unwrap_or(0);
                let values: Vec<String> =
                    answer.rows.iter().filter_map(|row| row.get(column)?.clone()).collect();
                if values.is_empty() {
                    self.find(&place, "no value to choose");
                }
                values
            }
            Err(problem) => {
                self.find(&place, problem);
                Vec::new()
            }
        }
    }

    async fn target(&mut self, panel: &Panel, target: &Target, expander: &Expander) -> Vec<String> {
        if let Some(text) = &target.sql {
            let statement = match expander.expand(text, Language::Sql) {
                Ok(statement) => statement,
                Err(error) => return vec![error.0],
            };
            let Some(sql) = &self.sources.sql else {
                self.report.left_out += 1;
                return Vec::new();
            };
            self.report.queries += 1;
            match sql.query(&statement).await {
                Ok(answer) => {
                    let mut problems = answer.problems();
                    problems.extend(answer.missing(&panel.named_columns()));
                    problems.extend(answer.unmatched(&panel.patterns()));
                    problems.extend(shown::problems(panel, &answer));
                    if target.format.as_deref() == Some("time_series") {
                        problems.extend(answer.problems_as_series());
                    }
                    if text.contains("$__timeGroup") {
                        problems.extend(shown::partial_step(&answer, &expander.window));
                    }
                    problems
                }
                Err(problem) => vec![problem],
            }
        } else {
            let text = target.expr.as_deref().unwrap_or_default();
            let expression = match expander.expand(text, Language::PromQl) {
                Ok(expression) => expression,
                Err(error) => return vec![error.0],
            };
            let legend = target.legend.as_deref().unwrap_or_default();
            match self.promql(&expression, &expander.window).await {
                None => Vec::new(),
                Some(Ok(series)) => problems_of_series(&series, legend),
                Some(Err(problem)) => vec![problem],
            }
        }
    }

    async fn promql(&mut self, expression: &str, window: &Window) -> Option<Result<Vec<Series>, String>> {
        let Some(prometheus) = &self.sources.prometheus else {
            self.report.left_out += 1;
            return None;
        };
        self.report.queries += 1;
        Some(prometheus.query_range(expression, window).await)
    }

    /// A rule's query answers with rows: without any it could never fire.
    async fn grafana_rule(&mut self, rule: &GrafanaRule, window: Window) {
        let place = format!("rule {}", rule.uid);
        let Some(sql) = &self.sources.sql else {
            self.report.left_out += 1;
            return;
        };
        self.report.queries += 1;
        match rule.evaluate(sql, window.to).await {
            Ok(values) if values.is_empty() => {
                let is_optional = self.optional.iter().any(|optional| optional.uid == rule.uid);
                self.find_empty(&place, "the answer is empty", is_optional);
            }
            Ok(_) => {}
            Err(problem) => self.find(&place, problem),
        }
    }

    /// Emptiness, which is wrong or the way of some sites.
    fn find_empty(&mut self, place: &str, problem: impl Into<String>, is_optional: bool) {
        let finding = Finding::new(place, problem);
        if is_optional { self.report.notes.push(finding) } else { self.report.findings.push(finding) }
    }

    /// Recording rules answer; alerting rules are valid, and the series that they read are there.
    async fn prometheus_rules(&mut self, rules: &PrometheusRules, window: Window) {
        for (name, expression) in rules.records() {
            match self.promql(&rules.expanded(expression), &window).await {
                Some(Ok(series)) if series.is_empty() => {
                    let is_optional = self.optional.iter().any(|rule| recorded(rule) == Some(name));
                    self.find_empty(&format!("rule {name}"), "the answer is empty", is_optional);
                }
                Some(Err(problem)) => self.find(&format!("rule {name}"), problem),
                _ => {}
            }
        }
        for name in rules.alert_names() {
            let Some(alert) = rules.alert(name) else { continue };
            let expression = rules.expanded(&alert.expr);
            if let Some(Err(problem)) = self.promql(&expression, &window).await {
                self.find(&format!("rule {name}"), problem);
            }
            // No alert is the usual answer, so a wrong name would show nowhere else.
            for selector in selectors(&expression) {
                if let Some(Ok(series)) = self.promql(&format!("count({selector})"), &window).await
                    && series.is_empty()
                {
                    // Of the counters of a sum some may be on no device of a site.
                    let is_optional = self.optional.iter().any(|rule| rule.name == name)
                        || self.sums.iter().any(|rule| rule.name == name);
                    let problem = format!("there is no series '{selector}'");
                    self.find_empty(&format!("rule {name}"), problem, is_optional);
                }
            }
        }
    }
}

/// The name under which a rule's value is recorded.
fn recorded(rule: &Rule) -> Option<&str> {
    rule.record.as_deref().or(rule.increase.as_ref().map(|increase| increase.record.as_str()))
}

/// An empty answer, values that are all NaN, and labels that the legend names and no series has.
fn problems_of_series(series: &[Series], legend: &str) -> Vec<String> {
    if series.is_empty() {
        return vec![String::from("the answer is empty")];
    }
    let mut problems = Vec::new();
    if series.iter().flat_map(|one| &one.values).all(|(_, value)| value == "NaN") {
        problems.push(String::from("every value is NaN"));
    }
    for label in
        legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(label, _)| label.trim())
    {
        if !series.iter().all(|one| one.metric.contains_key(label)) {
            problems.push(format!("the legend names label '{label}', which the answer lacks"));
        }
    }
    problems
}
