//! Grafana's rules, for provisioning by file.

use crate::definition::{Rule, Set, Silence, Unit};
use crate::sql;
use crate::text::{block, filled, folded, meaning, number};
use std::fmt::Write;

const HEAD: &str = "# Alerts of Throughline for Grafana (11 or 12) by SQL. Written by `cargo xtask alerts` from alerts/rules and
# alerts/thresholds.toml; a site with thresholds of its own: `cargo xtask alerts --thresholds FILE --to FOLDER`.
#
# The same alerts by PromQL are in deploy/prometheus/rules. Annotations name labels as .Labels.x and never with a dollar
# sign, which Grafana would take for an environment variable here; queries (model) are not expanded.
#
# In every rule A is the query, B its last value, C the threshold with that of recovery. D queries the jobs now and J
# hands them to the annotations: they are no labels of the alert, which would be another one whenever a job ends.
apiVersion: 1

groups:
";

/// What a reduction to the last value needs.
const LAST: &str = "reducer: last\n              settings: {mode: dropNN}";

/// The file.
#[must_use]
pub fn grafana(set: &Set) -> String {
    let mut out = String::from(HEAD);
    for (group, rules) in &set.groups {
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "  - orgId: 1\n    name: throughline-{group}\n    folder: Throughline\n    interval: 1m\n    rules:\n"
        );
        rules.iter().for_each(|rule| one(&mut out, rule));
    }
    out
}

fn one(out: &mut String, rule: &Rule) {
    let silence = match rule.silence {
        Silence::KeepLast => "KeepLast",
        Silence::Alerting => "Alerting",
    };
    let (uid, title) = (&rule.uid, &rule.title);
    let pending = if rule.threshold.pending == "0m" { "0s" } else { &rule.threshold.pending };
    let _ = write!(
        out,
        "      - uid: {uid}
        title: {title}
        condition: C
        for: {pending}
        noDataState: {silence}
        execErrState: {silence}
        labels:
          severity: {}
        annotations:
",
        rule.severity
    );
    let text =
        |text: &str| filled(&text.replace("{ends}", rule.about.ends_text()), |name| placeholder(rule, name));
    out.push_str(&folded("summary", &text(&rule.summary), 10));
    out.push_str(&folded("description", &meaning(rule), 10));
    let jobs = sql::jobs_query(rule);
    if jobs.is_some() {
        out.push_str(&folded("jobs", "{{ with .Values.J }}{{ .Labels.jobs }}{{ else }}none{{ end }}", 10));
    }
    out.push_str(&folded("dashboard", &text(rule.about.dashboard()), 10));
    let _ = writeln!(out, "          runbook: docs/ALERTS.md#{}", rule.name.to_lowercase());
    out.push_str("        data:\n");
    query_step(out, rule, "A", &sql::query(rule));
    expression(out, "B", "reduce", "A", LAST);
    let fires = number(rule.threshold.fires_above);
    let mut threshold = format!("conditions:\n                - evaluator: {{type: gt, params: [{fires}]}}");
    if rule.threshold.holds_above.is_some() {
        let holds = number(rule.holds_above());
        let _ = write!(threshold, "\n                  unloadEvaluator: {{type: lt, params: [{holds}]}}");
    }
    expression(out, "C", "threshold", "B", &threshold);
    if let Some(jobs) = jobs {
        query_step(out, rule, "D", &jobs);
        expression(out, "J", "reduce", "D", LAST);
    }
}

fn query_step(out: &mut String, rule: &Rule, id: &str, query: &str) {
    let _ = write!(
        out,
        "          - refId: {id}
            datasourceUid: throughline-postgres
            relativeTimeRange: {{from: {}, to: 0}}
            model:
              refId: {id}
              editorMode: code
              format: time_series
              rawQuery: true
              intervalMs: 60000
              maxDataPoints: 100
{}",
        rule.range_seconds,
        block("rawSql", query, 14)
    );
}

fn expression(out: &mut String, id: &str, kind: &str, of: &str, more: &str) {
    let _ = write!(
        out,
        "          - refId: {id}
            datasourceUid: __expr__
            model:
              refId: {id}
              type: {kind}
              expression: {of}
              {more}
"
    );
}

fn placeholder(rule: &Rule, name: &str) -> String {
    match name {
        "value" => match rule.unit {
            Unit::Percent => "{{ humanizePercentage .Values.B.Value }}".to_owned(),
            Unit::Number => "{{ printf \"%.0f\" .Values.B.Value }}".to_owned(),
            Unit::Ratio => "{{ printf \"%.1e\" .Values.B.Value }}".to_owned(),
            Unit::Seconds => "{{ humanizeDuration .Values.B.Value }}".to_owned(),
            Unit::Bytes => "{{ humanize1024 .Values.B.Value }}B".to_owned(),
        },
        "contributors" => {
            "{{ with .Values.J }}{{ .Labels.contributors }}{{ else }}contributors not known{{ end }}"
                .to_owned()
        }
        // The database knows nodes by their own GUIDs.
        "node_guid" => "{{ .Labels.guid }}".to_owned(),
        "former" => "{{ .Labels.uplink }} port {{ .Labels.uplink_port }}".to_owned(),
        other => format!("{{{{ .Labels.{other} }}}}"),
    }
}
