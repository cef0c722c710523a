//! Every query of the dashboards and rules on a seeded TimescaleDB and a real Prometheus; and that the check
//! fails when something is wrong.
use crate::support::{DRIVEN_PORTS, Seed, files, reader, server};
use std::collections::BTreeSet;
use throughline_dashboard_check::{
    Files, GrafanaRule, PrometheusRules, Report, Sources, Window, check, saturated_by_promql,
    saturated_by_sql,
};
use throughline_sample::Guid;

fn driven() -> BTreeSet<(String, String)> {
    DRIVEN_PORTS.iter().map(|(guid, port)| (Guid(*guid).to_string(), port.to_string())).collect()
}

fn text(report: &Report) -> String {
    report.findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[tokio::test]
async fn every_query_answers_and_the_alerts_name_the_driven_links() {
    let seed = Seed::make();
    let database = seed.store().await;
    let server = server::with_history(&seed.open_metrics()).await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: Some(server.api.clone()) };
    let (files, window) = (files(), seed.window());

    let report = check(&files, &sources, window).await.unwrap();
    assert!(report.findings.is_empty(), "{}", text(&report));
    assert!(
        report.queries > 40 && report.left_out == 0,
        "{} queries, {} left out",
        report.queries,
        report.left_out
    );

    let rules = GrafanaRule::parse(&files.grafana_rules).unwrap();
    let sql = sources.sql.as_ref().unwrap();
    let by_sql = saturated_by_sql(&rules, "throughline-link-saturated", sql, &window).await.unwrap();
    assert_eq!(by_sql, driven());
    let rules = PrometheusRules::parse(&files.prometheus_rules).unwrap();
    let by_promql =
        saturated_by_promql(&rules, "InfinibandLinkSaturated", &server.api, &window).await.unwrap();
    assert_eq!(by_promql, driven());
}

/// Leaf 1's port 5 drops into the hysteresis band after seven minutes, its port 6 below it; port 1 was always in
/// the band.
fn falling_load(at: (u64, u32), tick: i64) -> f64 {
    match at {
        (0xa1, 5 | 6) if tick <= 42 => 0.95,
        (0xa1, 5 | 1) => 0.85,
        (0xa1, 6) => 0.7,
        _ => 0.1,
    }
}

#[tokio::test]
async fn the_sql_alert_holds_through_the_band_and_resolves_below() {
    let seed = Seed::with_load(falling_load);
    let sql = reader(&seed.store().await).await;
    let rules = GrafanaRule::parse(&files().grafana_rules).unwrap();
    let (uid, window) = ("throughline-link-saturated", seed.window());
    let one = |port: &str| (Guid(0xa1).to_string(), port.to_owned());
    // At the end of the seventh minute both have been over 90 % for long enough.
    let seven = Window { to: window.from + 420 * crate::support::SECOND, ..window };
    let firing = saturated_by_sql(&rules, uid, &sql, &seven).await.unwrap();
    assert_eq!(firing, BTreeSet::from([one("5"), one("6")]));
    let firing = saturated_by_sql(&rules, uid, &sql, &window).await.unwrap();
    assert_eq!(firing, BTreeSet::from([one("5")]));
}

#[tokio::test]
async fn a_renamed_column_is_found() {
    let seed = Seed::make();
    let database = seed.store().await;
    let owner = database.connect().await.unwrap();
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let before = check(&files(), &sources, seed.window()).await.unwrap();
    assert!(before.findings.is_empty() && before.left_out > 0, "{}", text(&before));
    for (table, column, panel) in [
        ("ib_port_counters", "transmit_data_bytes", "Hottest links"),
        ("ib_port_counters", "symbol_error", "Ports with the most errors"),
        ("nvlink_link_counters", "transmit_bytes", "NVLink rate by link"),
        ("mpi_ops", "operation", "Calls by operation"),
    ] {
        let rename = |from: &str, to: &str| format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}");
        owner.batch_execute(&rename(column, "renamed")).await.unwrap();
        let report = check(&files(), &sources, seed.window()).await.unwrap();
        let found = |finding: &throughline_dashboard_check::Finding| {
            finding.place.contains(panel) && finding.problem.contains(column)
        };
        assert!(report.findings.iter().any(found), "{table}.{column}: {}", text(&report));
        owner.batch_execute(&rename("renamed", column)).await.unwrap();
    }
}

#[tokio::test]
async fn an_empty_database_is_found() {
    let database = throughline_store::testing::database().await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let report = check(&files(), &sources, Seed::make().window()).await.unwrap();
    let empty = report.findings.iter().filter(|finding| finding.problem == "the answer is empty").count();
    assert!(empty > 10, "{}", text(&report));
}

/// Replaces text in the first dashboard or rule file that has it.
fn damaged(from: &str, to: &str) -> Files {
    let mut files = files();
    let all = [&mut files.dashboards, &mut files.grafana_rules, &mut files.prometheus_rules];
    let (_, text) = all.into_iter().flatten().find(|(_, text)| text.contains(from)).unwrap();
    *text = text.replacen(from, to, 1);
    files
}

#[tokio::test]
async fn damaged_queries_are_found() {
    let seed = Seed::make();
    let database = seed.store().await;
    let server = server::with_history(&seed.open_metrics()).await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: Some(server.api.clone()) };
    for (from, to, problem) in [
        ("FROM mpi_op_totals", "FROM mpi_op_totalz", "mpi_op_totalz"),
        ("sum(calls)::bigint AS", "NULL::bigint AS", "NULL in every row"),
        ("ORDER BY 1, 2\\n\"", "ORDER BY 2, 1\\n\"", "order of 'time'"),
        ("AS \\\"Longest call\\\"", "AS \\\"Longest\\\"", "names column 'Longest call'"),
        (
            "infiniband_switch_port_symbol_error_total",
            "infiniband_switch_port_symbol_errors_total",
            "is empty",
        ),
        ("{{switch}}[{{port}}]", "{{hca}}[{{port}}]", "names label 'hca'"),
        ("AND kind = 'logical'", "AND kind = 'none'", "is empty"),
        ("sum by (operation) (rate(", "sum by (operation) (rte(", "unknown function"),
        ("throughline_source_up == 0", "throughline_source_upp == 0", "no series 'throughline_source_upp'"),
        ("{source=\"mad\"}", "{source=\"madd\"}", "no series 'throughline_records_total{source=\"madd\"}'"),
        ("c.source = 'mad'", "c.source = 'madd'", "is empty"),
        ("(infiniband_hca_port_rate_bytes_per_second > 0)", "(", "parse error"),
    ] {
        let report = check(&damaged(from, to), &sources, seed.window()).await.unwrap();
        let found = report.findings.iter().any(|finding| finding.problem.contains(problem));
        assert!(found, "{from} to {to}: expected '{problem}', got\n{}", text(&report));
    }
}
