//! Prometheus' rules.

use crate::about::About;
use crate::definition::{Disappearance, Increase, Rule, Set, Unit};
use crate::text::{block, filled, folded, meaning, number};
use std::fmt::Write;

const HEAD: &str = "# Alerts of Throughline for Prometheus (2.42 or later). Written by `cargo xtask alerts` from alerts/rules and
# alerts/thresholds.toml; a site with thresholds of its own: `cargo xtask alerts --thresholds FILE --to FOLDER`.
#
# The same alerts by SQL are in deploy/grafana/provisioning/alerting. Tests: deploy/prometheus/tests.
# ALERTS is a rule's own state: with it a rule holds through the band between its two thresholds, and remembers what
# is lost. keep_firing_for bridges gaps in the data: an alert must not resolve because a crawler is being restarted.
groups:
";

/// How long a lost thing is reported.
const LOST_SECONDS: u32 = 86_400;

/// The file.
#[must_use]
pub fn prometheus(set: &Set) -> String {
    let mut out = String::from(HEAD);
    for (group, rules) in &set.groups {
        for (suffix, interval, is_slow) in [("", "15s", false), ("-hourly", "1m", true)] {
            let chosen: Vec<&Rule> = rules.iter().filter(|rule| rule.is_slow() == is_slow).collect();
            if chosen.is_empty() {
                continue;
            }
            // Writing to a String can't fail.
            let _ =
                write!(out, "  - name: throughline-{group}{suffix}\n    interval: {interval}\n    rules:\n");
            let mut named: Vec<About> = Vec::new();
            for rule in chosen.iter().filter(|_| !is_slow) {
                if !named.contains(&rule.about) {
                    named.push(rule.about);
                    rule.about
                        .records()
                        .iter()
                        .for_each(|(name, expression)| record(&mut out, name, expression));
                }
            }
            for rule in &chosen {
                if let Some((name, expression)) = recorded(rule) {
                    record(&mut out, &name, &expression);
                    if rule.name == "InfinibandLinkSaturated" {
                        // For people and dashboards: the utilisation of every port, with names.
                        record(
                            &mut out,
                            "guid_port:infiniband_link_utilisation:ratio_rate2m",
                            &with_names(rule.about, &name),
                        );
                    }
                }
            }
            chosen.iter().for_each(|rule| alert(&mut out, rule));
        }
    }
    out
}

fn record(out: &mut String, name: &str, expression: &str) {
    let _ = write!(out, "      - record: {name}\n{}", block("expr", expression, 8));
}

/// The value's expression, and the name under which it is recorded.
fn recorded(rule: &Rule) -> Option<(String, String)> {
    if let Some(increase) = &rule.increase {
        return Some((increase.record.clone(), increased(rule, increase)));
    }
    let name = rule.record.clone()?;
    Some((name, both_sides(rule.promql.as_deref()?)))
}

/// `SIDE` stands for switches and for adapters.
fn both_sides(expression: &str) -> String {
    if !expression.contains("SIDE") {
        return expression.trim().to_owned();
    }
    ["switch", "hca"].map(|side| expression.trim().replace("SIDE", side)).join("\nor\n")
}

fn increased(rule: &Rule, increase: &Increase) -> String {
    let range = rule.range_seconds;
    let prefixes: &[&str] = match (rule.about, increase.switches_only) {
        (About::Port, true) => &["infiniband_switch_port_"],
        (About::Port, false) => &["infiniband_switch_port_", "infiniband_hca_port_"],
        _ => &["throughline_nvlink_"],
    };
    let mut parts = Vec::new();
    for prefix in prefixes {
        for counter in &increase.counters {
            let grown = format!("increase({prefix}{counter}_total[{range}s])");
            parts.push(format!("  label_replace({grown}, \"counter\", \"{counter}\", \"\", \"\")"));
        }
    }
    // A counter that is absent adds nothing; `+` would make the sum absent.
    let key = rule.about.key().join(", ");
    let sum = format!("sum by ({key}) (\n{}\n)", parts.join("\n  or\n"));
    if !increase.per_bit {
        return sum;
    }
    let rates: Vec<String> =
        prefixes.iter().map(|prefix| format!("{prefix}rate_bytes_per_second > 0")).collect();
    let rates = rates.join(" or ");
    format!("{sum}\n/ on ({key}) (({rates}) * {})", 8 * range)
}

/// The value that is compared, as short as it can be written.
fn value(rule: &Rule) -> String {
    let written = rule.promql.as_deref().map(both_sides).unwrap_or_default();
    recorded(rule).map_or_else(|| parenthesised(&written), |(name, _)| name)
}

fn parenthesised(expression: &str) -> String {
    if expression.contains(['\n', ' ']) {
        format!("(\n{}\n)", pad(expression))
    } else {
        expression.to_owned()
    }
}

fn pad(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// An expression with the labels of both ends; what has no names known keeps its row, without them.
fn with_names(about: About, expression: &str) -> String {
    let (Some(ends), key) = (about.ends(), about.key().join(", ")) else { return expression.to_owned() };
    let names = about.names().join(", ");
    let expression = parenthesised(expression);
    format!(
        "{expression}\n* on ({key}) group_left ({names}) {ends}\nor\n{expression}\nunless on ({key}) {ends}"
    )
}

fn condition(rule: &Rule) -> String {
    if let Some(lost) = &rule.lost {
        return lost_condition(rule, lost);
    }
    if rule.promql.as_deref().is_some_and(|text| text.contains("{fires_above}")) {
        return rule
            .promql
            .as_deref()
            .unwrap_or_default()
            .replace("{fires_above}", &number(rule.threshold.fires_above));
    }
    let (value, fires) = (value(rule), number(rule.threshold.fires_above));
    let mut condition = format!("{value} > {fires}");
    if rule.threshold.holds_above.is_some() {
        let (holds, key) = (number(rule.holds_above()), rule.about.key().join(", "));
        let firing = format!("ALERTS{{alertname=\"{}\", alertstate=\"firing\"}}", rule.name);
        condition = format!(
            "{condition}\nor\n(\n{}\n  and on ({key}) {firing}\n)",
            pad(&format!("{value} > {holds}"))
        );
    }
    with_names(rule.about, &condition)
}

/// What was there five minutes ago, or was lost within a day, and is not there.
fn lost_condition(rule: &Rule, lost: &Disappearance) -> String {
    let key = rule.about.key().join(", ");
    let all = [rule.about.key(), rule.about.names()].concat().join(", ");
    let (name, present, alive) = (&rule.name, &lost.present, &lost.alive);
    format!(
        "max by ({all}) (
  {present} offset 5m
  or
  (
    ALERTS{{alertname=\"{name}\", alertstate=\"firing\"}}
    and on ({key}) time() - ALERTS_FOR_STATE{{alertname=\"{name}\"}} < {LOST_SECONDS}
  )
)
unless on ({key}) {present}
and {alive}"
    )
}

fn alert(out: &mut String, rule: &Rule) {
    let _ = write!(out, "      - alert: {}\n{}", rule.name, block("expr", &condition(rule), 8));
    if rule.threshold.pending != "0m" {
        let _ = writeln!(out, "        for: {}", rule.threshold.pending);
    }
    if let Some(keep) = &rule.keep {
        let _ = writeln!(out, "        keep_firing_for: {keep}");
    }
    let _ = write!(out, "        labels:\n          severity: {}\n        annotations:\n", rule.severity);
    let text =
        |text: &str| filled(&text.replace("{ends}", rule.about.ends_text()), |name| placeholder(rule, name));
    out.push_str(&folded("summary", &text(&rule.summary), 10));
    out.push_str(&folded("description", &meaning(rule), 10));
    if let Some((query, labels)) = rule.about.jobs() {
        let labels: Vec<String> = labels.iter().map(|label| format!("$labels.{label}")).collect();
        let query = format!("query (printf \"{query}\" {})", labels.join(" "));
        let jobs = format!(
            "{{{{ range $i, $job := {query} | sortByLabel \"job_key\" }}}}{{{{ if $i }}}}, {{{{ end }}}}{{{{ $job.Labels.job_key }}}}{{{{ else }}}}none{{{{ end }}}}"
        );
        out.push_str(&folded("jobs", &jobs, 10));
    }
    out.push_str(&folded("dashboard", &text(rule.about.dashboard()), 10));
    let _ = writeln!(out, "          runbook: docs/ALERTS.md#{}", rule.name.to_lowercase());
}

fn placeholder(rule: &Rule, name: &str) -> String {
    match name {
        "value" => match rule.unit {
            Unit::Percent => "{{ $value | humanizePercentage }}".to_owned(),
            Unit::Number => "{{ printf \"%.0f\" $value }}".to_owned(),
            Unit::Ratio => "{{ printf \"%.1e\" $value }}".to_owned(),
            Unit::Seconds => "{{ $value | humanizeDuration }}".to_owned(),
            Unit::Bytes => "{{ $value | humanize1024 }}B".to_owned(),
        },
        "node" => {
            let other = if rule.about == About::Port || rule.about == About::FabricNode { "guid" } else { "gpu" };
            format!("{{{{ with $labels.node }}}}{{{{ . }}}}{{{{ else }}}}{{{{ $labels.{other} }}}}{{{{ end }}}}")
        }
        "contributors" => {
            let (query, labels) = About::contributors();
            let labels: Vec<String> = labels.iter().map(|label| format!("$labels.{label}")).collect();
            let query = format!("query (printf \"{query}\" {})", labels.join(" "));
            let job = "{{ with $of.Labels.exported_job }}{{ . }}{{ else }}{{ $of.Labels.job }}{{ end }}";
            let who = "{{ if $of.Labels.operation }}{{ $of.Labels.operation }} of job JOB\
                {{ with $of.Labels.user }} ({{ . }}){{ end }}\
                {{ else }}unmonitored {{ $of.Labels.contributor }} {{ $of.Labels.name }}{{ end }}"
                .replace("JOB", job);
            format!(
                "{{{{ range $i, $of := {query} }}}}{{{{ if $i }}}}, {{{{ end }}}}{{{{ $of.Value }}}} % {who} [{{{{ $of.Labels.known }}}}]\
                 {{{{ else }}}}contributors not known{{{{ end }}}}"
            )
        }
        "uplink" => "{{ with $labels.uplink }}{{ . }}{{ else }}an unknown end{{ end }}".to_owned(),
        "uplink_port" => "{{ with $labels.uplink_port }}{{ . }}{{ else }}?{{ end }}".to_owned(),
        // Series of an adapter have its ports' GUIDs, the dashboards those of nodes.
        "node_guid" => "{{ with query (printf \"topk(1, last_over_time(infiniband_hca_uplink_info{guid='%s'}[1d]))\" $labels.guid) }}{{ . | first | label \"node_guid\" }}{{ else }}{{ $labels.guid }}{{ end }}".to_owned(),
        "former" => "{{ with query (printf \"topk(1, last_over_time(guid_port:infiniband_link_ends:info{uplink_guid='%[1]s'}[1d]) or label_replace(label_replace(last_over_time(infiniband_hca_uplink_info{node_guid='%[1]s'}[1d]), 'node', '$1', 'uplink', '(.*)'), 'port', '$1', 'uplink_port', '(.*)'))\" $labels.guid) }}{{ . | first | label \"node\" }} port {{ . | first | label \"port\" }}{{ else }}an unknown port{{ end }}".to_owned(),
        other => format!("{{{{ $labels.{other} }}}}"),
    }
}
