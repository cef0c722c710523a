//! Dashboards and rules without data: the lint and that it finds what is wrong; promtool's own checks and tests.
use crate::support::{files, root, server};
use std::process::Command;
use throughline_dashboard_check::{Files, Sources, Window, check};

async fn problems(files: &Files) -> String {
    let report = check(files, &Sources::default(), Window::new(0, 600_000_000_000)).await.unwrap();
    report.findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[tokio::test]
async fn the_files_are_well_formed() {
    assert_eq!(problems(&files()).await, "");
}

#[tokio::test]
async fn what_is_wrong_in_a_dashboard_is_found() {
    for (from, to, problem) in [
        ("\"id\": 6,", "\"id\": 5,", "used twice"),
        ("\"unit\": \"percentunit\"", "\"unit\": \"\"", "no unit"),
        ("\"title\": \"Hottest links\"", "\"title\": \"\"", "no title"),
        ("\"description\": \"The 20", "\"descriptions\": \"The 20", "no description"),
        ("\"type\": \"stat\"", "\"type\": \"grafana-clock-panel\"", "not built in"),
        ("\"x\": 6,", "\"x\": 5,", "overlap"),
        ("\"schemaVersion\": 39", "\"schemaVersion\": 16", "schemaVersion"),
        ("\"uid\": \"${database}\"", "\"uid\": \"my-database\"", "is no variable of the PostgreSQL plugin"),
        ("\"uid\": \"${prometheus}\"", "\"uid\": \"prometheus\"", "is no data-source variable"),
        ("\"title\": \"GPU links\"", "\"title\": \"GPUs\"", "no row 'GPU links'"),
        ("$__timeFilter(time)", "$__timeFliter(time)", "unknown macro '$__timeFliter()'"),
        ("${gpu:sqlstring}", "${gpus:sqlstring}", "unknown '$gpus'"),
        ("$__rate_interval", "$__rate_intervall", "unknown '$__rate_intervall'"),
        ("var-switch=", "var-leaf=", "no variable 'leaf'"),
        ("/d/throughline/", "/d/throughput/", "no dashboard 'throughput'"),
        ("${__url_time_range}", "${__time_range}", "unknown '${__time_range}'"),
        ("\"format\": \"time_series\"", "\"format\": \"graph\"", "rawSql, rawQuery and format"),
    ] {
        let mut files = files();
        let text = &mut files.dashboards[0].1;
        assert!(text.contains(from), "{from}");
        *text = text.replacen(from, to, 1);
        let found = problems(&files).await;
        assert!(found.contains(problem), "{from} to {to}: expected '{problem}', got\n{found}");
    }
}

#[tokio::test]
async fn what_is_wrong_in_a_rule_is_found() {
    for (from, to, problem) in [
        ("noDataState: KeepLast", "noDataState: Keep", "noDataState is 'Keep'"),
        ("execErrState: KeepLast", "# execErrState", "execErrState is ''"),
        ("condition: C", "condition: D", "condition 'D'"),
        ("expression: B", "expression: X", "expression of 'C'"),
        ("params: [0.80]", "params: [0.95]", "above the threshold"),
        ("for: 5m", "for: 90s", "no multiple of the interval"),
        ("panelId: 6", "panelId: 1", "no panel 1"),
        ("{{ .Labels.node }}", "{{ $labels.node }}", "environment variable"),
        ("datasourceUid: throughline-postgres", "datasourceUid: postgres", "not provisioned"),
    ] {
        let mut files = files();
        let text = &mut files.grafana_rules[0].1;
        assert!(text.contains(from), "{from}");
        *text = text.replacen(from, to, 1);
        let found = problems(&files).await;
        assert!(found.contains(problem), "{from} to {to}: expected '{problem}', got\n{found}");
    }
}

/// Runs promtool of the prefix on files of `deploy/prometheus`.
fn promtool(arguments: &[&str], files: &[String]) {
    let output = Command::new(server::prefix().program("promtool"))
        .args(arguments)
        .args(files)
        .current_dir(root().join("deploy/prometheus"))
        .output()
        .unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{text}");
}

fn all_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join("deploy/prometheus").join(folder)).unwrap();
    entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy())).collect()
}

#[test]
fn promtool_accepts_configuration_and_rules() {
    promtool(&["check", "config"], &[String::from("prometheus.yml")]);
    promtool(&["check", "rules"], &all_in("rules"));
}

#[test]
fn promtool_tests_of_the_rules_pass() {
    let tests = all_in("tests");
    assert!(tests.len() >= all_in("rules").len(), "each file of rules has one of tests: {tests:?}");
    promtool(&["test", "rules"], &tests);
}
