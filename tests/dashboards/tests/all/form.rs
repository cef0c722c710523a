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
    for (file, from, to, problem) in [
        ("", "\"id\": 6,", "\"id\": 2,", "used twice"),
        ("", "\"unit\": \"percentunit\"", "\"unit\": \"\"", "no unit"),
        ("", "\"title\": \"Hottest links\"", "\"title\": \"\"", "no title"),
        ("", "\"description\": \"The 10", "\"descriptions\": \"The 10", "no description"),
        ("", "\"type\": \"stat\"", "\"type\": \"grafana-clock-panel\"", "not built in"),
        ("", "\"x\": 4,", "\"x\": 3,", "overlap"),
        ("", "\"schemaVersion\": 39", "\"schemaVersion\": 16", "schemaVersion"),
        ("", "\"title\": \"Fabric\",", "\"title\": \"\",", "a link without title"),
        ("", "var-guid=", "var-leaf=", "no variable 'leaf'"),
        ("", "/d/throughline-fabric?", "/d/throughput?", "no dashboard 'throughput'"),
        ("", "${__url_time_range}", "${__time_range}", "unknown '${__time_range}'"),
        ("", "${database:queryparam}", "${databases:queryparam}", "unknown '${databases}'"),
        ("", "]:percentencode}", "]}", "needs a format"),
        ("", "\"format\": \"time_series\"", "\"format\": \"graph\"", "rawSql, rawQuery and format"),
        ("", " AND $__timeFilter(time)", "", "'ib_port_minutes_named' is read without a bound"),
        (
            "",
            "public.ib_port_rates($__timeFrom()",
            "public.ib_port_rates('2020-01-01'",
            "does not begin at a time",
        ),
        ("-jobs", "&from=${__data.fields[\\\"from\\\"]:percentencode}", "", "not lead to the job's own time"),
        ("-link", "AS \\\"Known\\\"", "AS \\\"Sort\\\"", "without how they are known"),
        ("-link", " [' || c.known || ']'", "'", "without how they are known"),
        ("-link", "\"from\": 1.0005", "\"from\": 5.0", "above 100 %"),
        ("-fabric", "\"uid\": \"${database}\"", "\"uid\": \"my-database\"", "is no data-source variable"),
        ("-fabric", "\"uid\": \"${prometheus}\"", "\"uid\": \"prometheus\"", "is no data-source variable"),
        ("-fabric", "$__rate_interval", "$__rate_intervall", "unknown '$__rate_intervall'"),
        (
            "-fabric",
            "\"uid\": \"throughline-fabric\"",
            "\"uid\": \"fabric\"",
            "no dashboard 'throughline-fabric'",
        ),
        ("-fabric", "$__timeFilter(e.time)", "true", "annotation 'Events of the fabric': 'events' is read"),
        ("-node", "${gpu:sqlstring}", "${gpus:sqlstring}", "unknown '$gpus'"),
        ("-node", "NVLinks: ${metric}", "NVLinks: ${metrics}", "unknown '${metrics}' in its title"),
        (
            "-node",
            "\"value\": \"rate sent\"\n        },",
            "\"value\": \"sent\"\n        },",
            "none of its options",
        ),
        ("-job", "$__timeFilter(time)", "$__timeFliter(time)", "unknown macro '$__timeFliter()'"),
        ("-job", "WHERE job_id = (SELECT", "WHERE job_id > (SELECT", "is read for all jobs"),
        (
            "-job",
            "\"current\": {},\n        \"datasource\"",
            "\"current\": {\"value\": \"slurm:1\"},\n        \"datasource\"",
            "a value of one site",
        ),
    ] {
        let mut files = files();
        let name = format!("throughline{file}.json");
        let (_, text) = files.dashboards.iter_mut().find(|(found, _)| *found == name).unwrap();
        assert!(text.contains(from), "{name}: {from}");
        *text = text.replacen(from, to, 1);
        let found = problems(&files).await;
        assert!(found.contains(problem), "{name}, {from} to {to}: expected '{problem}', got\n{found}");
    }
}

/// Where uids are: a file, the line that is changed, and the owner that the finding names.
#[tokio::test]
async fn a_uid_that_is_used_twice_is_found_wherever_it_is() {
    let rename = |list: fn(&mut Files) -> &mut Vec<(String, String)>, from: &str, to: &str| {
        let mut files = files();
        let (_, text) = list(&mut files).iter_mut().find(|(_, text)| text.contains(from)).unwrap();
        *text = text.replacen(from, to, 1);
        files
    };
    for (files, problem) in [
        (
            rename(|files| &mut files.providers, "folderUid: throughline-folder", "folderUid: throughline"),
            "throughline.json: uid 'throughline' is that of a folder too",
        ),
        (
            rename(|files| &mut files.data_sources, "uid: throughline-postgres", "uid: throughline-jobs"),
            "throughline-jobs.json: uid 'throughline-jobs' is that of a data source too",
        ),
        (
            rename(
                |files| &mut files.grafana_rules,
                "uid: throughline-link-saturated",
                "uid: throughline-link",
            ),
            "rule 'InfiniBand link saturated': uid 'throughline-link' is that of throughline-link.json too",
        ),
        (
            rename(
                |files| &mut files.dashboards,
                "\"uid\": \"throughline-job\"",
                "\"uid\": \"throughline-jobs\"",
            ),
            "uid 'throughline-jobs' is that of throughline-job.json too",
        ),
    ] {
        let found = problems(&files).await;
        assert!(found.contains(problem), "expected '{problem}', got\n{found}");
    }
}

#[tokio::test]
async fn what_is_wrong_in_a_rule_is_found() {
    for (from, to, problem) in [
        ("noDataState: KeepLast", "noDataState: Keep", "noDataState is 'Keep'"),
        ("execErrState: KeepLast", "# execErrState", "execErrState is ''"),
        ("condition: C", "condition: D2", "condition 'D2'"),
        ("expression: B", "expression: X", "expression of 'C'"),
        ("params: [0.8]", "params: [0.95]", "above the threshold"),
        ("for: 5m", "for: 90s", "no multiple of the interval"),
        (
            "dashboard: >-\n            /d/throughline",
            "dashboard: >-\n            /d/thoroughline",
            "no dashboard 'thoroughline",
        ),
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
