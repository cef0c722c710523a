//! Grafana's file-provisioned alert rules: what they contain, what their queries answer, and which links an alert on
//! saturation fires for. [`crate::States`] decides when a rule fires.
//!
//! A rule is a query, a reduction to the last value and a threshold with a recovery threshold; a second query may add
//! labels for the annotations.

use crate::expand::{Expander, Language, Window, duration};
use crate::prometheus::Prometheus;
use crate::rules::PrometheusRules;
use crate::states::{Instance, States};
use crate::{Error, Finding, Sql};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of one alert instance.
pub type Labels = BTreeMap<String, String>;

/// The part of a rule that decides when it fires.
#[derive(Clone, Debug)]
pub struct GrafanaRule {
    /// Identifier.
    pub uid: String,
    /// Shown title.
    pub title: String,
    /// Identifier of the query's data source.
    pub data_source: String,
    /// The query's text.
    pub sql: String,
    /// The text of the query whose labels annotations take, where there is one.
    pub jobs_sql: Option<String>,
    /// Seconds back that a query sees.
    pub range_seconds: i64,
    /// Seconds from one evaluation to the next.
    pub interval_seconds: i64,
    /// Seconds for which the condition must hold.
    pub pending_seconds: i64,
    /// Fires above this.
    pub threshold: f64,
    /// Once firing, resolves below this.
    pub recovery: f64,
    /// The state without rows: `NoData`, `Alerting`, `KeepLast` or `OK`.
    pub no_data: String,
    /// The state when a query fails.
    pub on_error: String,
    /// Texts, as templates.
    pub annotations: BTreeMap<String, String>,
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    folder: String,
    interval: String,
    rules: Vec<Value>,
}

impl GrafanaRule {
    /// Reads all rules of some provisioning files.
    ///
    /// # Errors
    /// [`Error::Form`].
    pub fn parse(files: &[(String, String)]) -> Result<Vec<Self>, Error> {
        let mut rules = Vec::new();
        for (name, text) in files {
            let fail = |cause: String| Error::Form { path: name.clone(), cause };
            let file: File = serde_yaml_ng::from_str(text).map_err(|error| fail(error.to_string()))?;
            for group in file.groups {
                for rule in &group.rules {
                    rules.push(Self::from_value(rule, &group));
                }
            }
        }
        Ok(rules)
    }

    fn from_value(rule: &Value, group: &Group) -> Self {
        let text = |path: &str| rule.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let entries = rule.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of_kind = |kind: &str| {
            entries.iter().find(|entry| entry.pointer("/model/type").and_then(Value::as_str) == Some(kind))
        };
        let queries: Vec<&Value> =
            entries.iter().filter(|entry| entry.pointer("/model/rawSql").is_some()).collect();
        let query = queries.first();
        let text_of =
            |entry: &&Value| entry.pointer("/model/rawSql").and_then(Value::as_str).map(str::to_owned);
        let threshold = of_kind("threshold");
        let parameter = |of: &str| {
            threshold?.pointer(&format!("/model/conditions/0/{of}/params/0")).and_then(Value::as_f64)
        };
        let fires_above = parameter("evaluator");
        let seconds = |text: &str| duration(text).map_or(0, |length| length.as_secs().cast_signed());
        let sql = query.and_then(|entry| entry.pointer("/model/rawSql")).and_then(Value::as_str);
        let source = query.and_then(|entry| entry.get("datasourceUid")).and_then(Value::as_str);
        let range = query.and_then(|entry| entry.pointer("/relativeTimeRange/from")).and_then(Value::as_i64);
        let mut parsed = Self {
            uid: text("/uid"),
            title: text("/title"),
            data_source: source.unwrap_or_default().to_owned(),
            sql: sql.unwrap_or_default().to_owned(),
            jobs_sql: queries.get(1).and_then(text_of),
            range_seconds: range.unwrap_or(0),
            interval_seconds: seconds(&group.interval).max(1),
            pending_seconds: seconds(&text("/for")),
            threshold: fires_above.unwrap_or(f64::NAN),
            recovery: parameter("unloadEvaluator").or(fires_above).unwrap_or(f64::NAN),
            no_data: text("/noDataState"),
            on_error: text("/execErrState"),
            annotations: rule
                .get("annotations")
                .and_then(|found| serde_json::from_value(found.clone()).ok())
                .unwrap_or_default(),
            problems: Vec::new(),
        };
        parsed.problems = parsed.problems_of_form(rule, entries, group);
        parsed
    }

    fn problems_of_form(&self, rule: &Value, entries: &[Value], group: &Group) -> Vec<String> {
        let mut problems = Vec::new();
        let text = |path: &str| rule.pointer(path).and_then(Value::as_str).unwrap_or_default();
        for (key, allowed) in [
            ("/noDataState", &["NoData", "Alerting", "KeepLast", "OK"][..]),
            ("/execErrState", &["Error", "Alerting", "KeepLast", "OK"][..]),
        ] {
            let found = text(key);
            if !allowed.contains(&found) {
                problems.push(format!("{} is '{found}', expected one of {}", &key[1..], allowed.join(", ")));
            }
        }
        for key in [
            "/annotations/summary",
            "/annotations/description",
            "/annotations/dashboard",
            "/labels/severity",
            "/for",
            "/title",
            "/uid",
        ] {
            if text(key).is_empty() {
                problems.push(format!("{} is missing", key[1..].replace('/', ".")));
            }
        }
        let annotations = rule.get("annotations").map(Value::to_string).unwrap_or_default();
        if annotations.contains('$') {
            problems.push(String::from(
                "an annotation has a '$', which Grafana takes for an environment variable",
            ));
        }
        let ids: Vec<&str> = entries
            .iter()
            .map(|entry| entry.get("refId").and_then(Value::as_str).unwrap_or_default())
            .collect();
        if !ids.contains(&text("/condition")) {
            problems.push(format!("condition '{}' is none of {}", text("/condition"), ids.join(", ")));
        }
        for entry in entries {
            let of = |path: &str| entry.pointer(path).and_then(Value::as_str).unwrap_or_default();
            if of("/refId") != of("/model/refId") {
                problems.push(format!(
                    "refId '{}' and its model's '{}' differ",
                    of("/refId"),
                    of("/model/refId")
                ));
            }
            if of("/datasourceUid") == "__expr__" && !ids.contains(&of("/model/expression")) {
                problems.push(format!("expression of '{}' names no query", of("/refId")));
            }
        }
        if self.sql.is_empty() || self.threshold.is_nan() || self.range_seconds <= 0 {
            problems.push(String::from("a query with rawSql and a time range, and a threshold, are needed"));
        }
        if self.recovery > self.threshold {
            problems.push(String::from("the recovery threshold is above the threshold"));
        }
        if self.pending_seconds % self.interval_seconds != 0 {
            problems.push(format!("'for' is no multiple of the interval {}", group.interval));
        }
        if group.folder.is_empty() {
            problems.push(String::from("the group has no folder"));
        }
        problems
    }

    /// What is wrong with the rule's form.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.problems.iter().map(|problem| Finding::new(format!("rule {}", self.uid), problem)).collect()
    }

    /// The value of each instance at one evaluation: the last row of each set of labels.
    pub async fn evaluate(&self, sql: &Sql, at: i64) -> Result<BTreeMap<Labels, f64>, String> {
        self.values_of(&self.sql, sql, at).await
    }

    async fn values_of(&self, query: &str, sql: &Sql, at: i64) -> Result<BTreeMap<Labels, f64>, String> {
        let window = Window::new(at - self.range_seconds * 1_000_000_000, at);
        let statement = Expander::new(window).expand(query, Language::Sql).map_err(|error| error.0)?;
        let answer = sql.query(&statement).await?;
        let mut values = BTreeMap::new();
        for row in &answer.rows {
            let mut labels = Labels::new();
            let mut value = None;
            for (column, cell) in answer.columns.iter().zip(row) {
                match (column.kind, cell) {
                    (crate::answers::ColumnKind::Number, Some(cell)) => value = cell.parse().ok(),
                    (crate::answers::ColumnKind::Text, Some(cell)) => {
                        labels.insert(column.name.clone(), cell.clone());
                    }
                    _ => {}
                }
            }
            if let Some(value) = value {
                values.insert(labels, value);
            }
        }
        Ok(values)
    }

    /// One evaluation as Grafana makes it: both queries, their values joined where the labels of one include the
    /// other's. `Ok(None)` is no data: of any query without a row.
    ///
    /// # Errors
    /// The first query's that failed.
    pub async fn instances(&self, sql: &Sql, at: i64) -> Result<Option<Vec<Instance>>, String> {
        let values = self.evaluate(sql, at).await?;
        let jobs = match &self.jobs_sql {
            Some(query) => Some(self.values_of(query, sql, at).await?),
            None => None,
        };
        if values.is_empty() || jobs.as_ref().is_some_and(BTreeMap::is_empty) {
            return Ok(None);
        }
        let jobs = jobs.unwrap_or_default();
        let instance = |(labels, value): (Labels, f64)| {
            let includes = |more: &&Labels| labels.iter().all(|(name, text)| more.get(name) == Some(text));
            let more = jobs.keys().find(includes).cloned();
            Instance { labels, value, more }
        };
        Ok(Some(values.into_iter().map(instance).collect()))
    }

    /// The rule's states after evaluations from `from` to `until` at its interval.
    pub async fn run(&self, sql: &Sql, from: i64, until: i64) -> States {
        let mut states = States::default();
        let interval = self.interval_seconds * 1_000_000_000;
        let steps = (until - from) / interval;
        for at in (0..=steps).rev().map(|step| until - step * interval) {
            states.step(self, at, self.instances(sql, at).await);
        }
        states
    }
}

/// The sending ports (`guid`, `port`) for which the rule by SQL with this identifier fires at the window's end.
///
/// # Errors
/// [`Error::Rule`] when there is no such rule or its query fails.
pub async fn saturated_by_sql(
    rules: &[GrafanaRule],
    uid: &str,
    sql: &Sql,
    window: &Window,
) -> Result<BTreeSet<(String, String)>, Error> {
    let rule = rules
        .iter()
        .find(|rule| rule.uid == uid)
        .ok_or_else(|| Error::Rule(format!("{uid} is not there")))?;
    rule.evaluate(sql, window.to).await.map_err(|cause| Error::Rule(format!("{uid}: {cause}")))?;
    let states = rule.run(sql, window.from, window.to).await;
    Ok(ports(states.firing().into_iter().map(|instance| &instance.labels)))
}

/// The sending ports for which the Prometheus rule of this name holds during its pending time up to the window's
/// end. The rule's own state (`ALERTS`) is not in the data, so nothing is held through the hysteresis band.
///
/// # Errors
/// [`Error::Rule`] when there is no such rule or its expression fails.
pub async fn saturated_by_promql(
    rules: &PrometheusRules,
    name: &str,
    prometheus: &Prometheus,
    window: &Window,
) -> Result<BTreeSet<(String, String)>, Error> {
    let rule = rules.alert(name).ok_or_else(|| Error::Rule(format!("{name} is not there")))?;
    let pending =
        duration(&rule.pending).ok_or_else(|| Error::Rule(format!("{name}: 'for' is '{}'", rule.pending)))?;
    let pending_nanos = pending.as_secs().cast_signed() * 1_000_000_000;
    let pending_window = Window { from: window.to - pending_nanos, ..*window };
    let series = prometheus
        .query_range(&rules.expanded(&rule.expr), &pending_window)
        .await
        .map_err(|cause| Error::Rule(format!("{name}: {cause}")))?;
    let steps = pending_window.range().as_nanos() / pending_window.step.as_nanos() + 1;
    Ok(ports(
        series.iter().filter(|series| series.values.len() as u128 == steps).map(|series| &series.metric),
    ))
}

fn ports<'a>(labels: impl Iterator<Item = &'a Labels>) -> BTreeSet<(String, String)> {
    let label = |labels: &Labels, name: &str| labels.get(name).cloned().unwrap_or_default();
    labels.map(|labels| (label(labels, "guid"), label(labels, "port"))).collect()
}
