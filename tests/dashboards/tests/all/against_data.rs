//! Every query of the dashboards and rules on a seeded TimescaleDB and a real Prometheus; and that the check
//! fails when something is wrong.
use crate::support::{DRIVEN_PORTS, Seed, files, reader, server};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use throughline_dashboard_check::{
    Dashboard, Expander, Files, GrafanaRule, Language, PrometheusRules, Report, Sources, Window, check,
    saturated_by_promql, saturated_by_sql,
};
use throughline_sample::Guid;
use throughline_store::{Retention, make_rollups};

fn driven() -> BTreeSet<(String, String)> {
    DRIVEN_PORTS.iter().map(|(guid, port)| (Guid(*guid).to_string(), port.to_string())).collect()
}

/// The same as series name them: an adapter's port by its own GUID, in the seed that of its node and its number.
fn driven_series() -> BTreeSet<(String, String)> {
    let own = |guid: u64, port: u32| if guid < 0xc0 { guid } else { guid + u64::from(port) };
    DRIVEN_PORTS.iter().map(|(guid, port)| (Guid(own(*guid, *port)).to_string(), port.to_string())).collect()
}

fn text(report: &Report) -> String {
    report.findings.iter().chain(&report.notes).map(|finding| format!("{finding}\n")).collect()
}

#[tokio::test]
async fn every_query_answers_and_the_alerts_name_the_driven_links() {
    let seed = Seed::make();
    let database = seed.store().await;
    let server = server::with_history(&seed.open_metrics()).await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: Some(server.api.clone()) };
    let (files, window) = (files(), seed.window());

    let report = check(&files, &sources, window).await.unwrap();
    assert!(report.findings.is_empty() && report.notes.is_empty(), "{}", text(&report));
    assert!(
        report.queries > 150 && report.left_out == 0,
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
    assert_eq!(by_promql, driven_series());
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
    for (table, column, place) in [
        ("internal.ib_port_minutes", "transmit_bytes_per_second", "throughline.json, panel 'Hottest links'"),
        ("public.ib_port_named", "link_name", "throughline-fabric.json, panel 'Ports with the most errors'"),
        ("public.ib_port_named", "width", "throughline-switch.json, panel 'Ports'"),
        ("internal.ib_node", "description", "throughline-link.json, variable guid"),
        (
            "internal.nvlink_link_minutes",
            "transmit_bytes_per_second",
            "throughline-node.json, panel 'NVLinks'",
        ),
        ("internal.gpu", "nearest_hcas", "throughline-node.json, panel 'GPUs, NVSwitches, adapters'"),
        ("internal.job_rank", "ending", "throughline-jobs.json, panel 'Jobs'"),
        ("public.mpi_op_series", "operation", "throughline-job.json, panel 'Calls by operation'"),
        ("public.job_summary", "first_seen", "throughline-compare.json, panel 'Both jobs'"),
        ("public.self_stats", "value", "throughline-health.json, panel 'Rows written'"),
        ("internal.events", "text", "throughline.json, annotation 'Warnings and errors'"),
    ] {
        let rename = |from: &str, to: &str| format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}");
        owner.batch_execute(&rename(column, "renamed")).await.unwrap();
        let report = check(&files(), &sources, seed.window()).await.unwrap();
        let found = |finding: &throughline_dashboard_check::Finding| {
            finding.place == place && finding.problem.contains(column)
        };
        assert!(report.findings.iter().any(found), "{table}.{column}: {}", text(&report));
        owner.batch_execute(&rename("renamed", column)).await.unwrap();
    }
}

/// The files with another choice in every menu that has so many.
fn with_choice(number: usize) -> (Files, bool) {
    let (mut files, mut is_other) = (files(), false);
    for (_, text) in &mut files.dashboards {
        let mut dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
        for variable in dashboard["templating"]["list"].as_array_mut().unwrap() {
            let Some(option) = variable["options"].get(number).filter(|_| variable["type"] == "custom")
            else {
                continue;
            };
            variable["current"] = option.clone();
            is_other = true;
        }
        *text = dashboard.to_string();
    }
    (files, is_other)
}

#[tokio::test]
async fn every_choice_of_every_menu_answers() {
    let seed = Seed::make();
    let database = seed.store().await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let mut tried = 0;
    while let (files, true) = with_choice(tried + 1) {
        let report = check(&files, &sources, seed.window()).await.unwrap();
        assert!(
            report.findings.is_empty() && report.notes.is_empty(),
            "choice {}: {}",
            tried + 1,
            text(&report)
        );
        tried += 1;
    }
    assert!(tried >= 10, "the menu of NVLink metrics has more than {tried}");
}

/// Over long ranges rollups are read: the same panels answer, with the same values of the hottest links.
#[tokio::test]
async fn long_ranges_are_answered_by_the_minute() {
    let seed = Seed::make();
    let database = seed.store().await;
    let mut upkeep = database.connect().await.unwrap();
    make_rollups(&mut upkeep, &Retention::default(), Duration::from_secs(60)).await.unwrap();
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let mut by_minutes = files();
    for (_, text) in &mut by_minutes.dashboards {
        *text = text.replace("INTERVAL '6 hours'", "INTERVAL '6 minutes'");
    }
    let report = check(&by_minutes, &sources, seed.window()).await.unwrap();
    // Packets are not in rows of minutes, and the last two and a half minutes are not made yet.
    assert!(report.findings.is_empty() && report.notes.is_empty(), "{}", text(&report));

    // Minutes in which all was made: the load of the driven links was the same throughout.
    let sql = sources.sql.as_ref().unwrap();
    let mut hottest = Vec::new();
    for files in [files(), by_minutes] {
        let (name, text) = &files.dashboards[files.dashboards.len() - 1];
        let dashboard = Dashboard::parse(name, text).unwrap();
        let panel = dashboard.query_panels().find(|panel| panel.title == "Hottest links").unwrap();
        let statement = panel.targets[0].sql.as_deref().unwrap();
        let statement = Expander::new(seed.window()).expand(statement, Language::Sql).unwrap();
        let answer = sql.query(&statement).await.unwrap();
        let of_row = |row: &Vec<Option<String>>| {
            let mean: f64 = answer.cell(row, "Mean utilisation").unwrap().parse().unwrap();
            let cell = |name: &str| answer.cell(row, name).unwrap().to_owned();
            ((cell("GUID"), cell("Port")), (mean * 100.0).round())
        };
        let rows: BTreeMap<_, _> = answer.rows.iter().map(of_row).collect();
        hottest.push(driven().into_iter().map(|port| rows.get(&port).copied()).collect::<Vec<_>>());
    }
    assert_eq!(hottest[0], vec![Some(95.0); DRIVEN_PORTS.len()]);
    assert_eq!(hottest[1], hottest[0]);
}

/// The ring of each circle is one colour of the legend, and all of its columns are in the answer.
fn rings_are_the_legend(
    graph: &throughline_dashboard_check::Panel,
    nodes: &throughline_dashboard_check::Answer,
) {
    let arcs: Vec<&str> = graph.options["nodes"]["arcs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arc| arc["field"].as_str().unwrap())
        .collect();
    assert!(arcs.len() > 4, "{arcs:?}");
    let names = &graph.transformations[0]["options"]["renameByName"];
    for row in &nodes.rows {
        let sum: f64 = arcs.iter().map(|arc| nodes.cell(row, arc).unwrap().parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{row:?}");
    }
    for column in arcs.iter().chain(&["mainstat", "secondarystat"]) {
        assert!(names[column].as_str().is_some_and(|name| !name.contains("__")), "{column} has no name");
    }
}

/// Lines of the graph of GPUs end at circles of it, folded and unfolded, and unfolding shows each physical link.
#[tokio::test]
async fn lines_of_the_topology_end_at_its_circles() {
    let seed = Seed::make();
    let database = seed.store().await;
    let sql = reader(&database).await;
    let node = files().dashboards.into_iter().find(|(name, _)| name == "throughline-node.json").unwrap();
    let dashboard = Dashboard::parse(&node.0, &node.1).unwrap();
    let graph = dashboard.query_panels().find(|panel| panel.kind == "nodeGraph").unwrap();
    let mut circles_by_choice = Vec::new();
    for links in ["logical", "physical"] {
        let mut expander = Expander::new(seed.window());
        for (name, value) in [("node", "n0"), ("links", links)] {
            expander.values.insert(name.to_owned(), vec![value.to_owned()]);
        }
        let mut answers = Vec::new();
        for target in &graph.targets {
            let statement = expander.expand(target.sql.as_deref().unwrap(), Language::Sql).unwrap();
            answers.push(sql.query(&statement).await.unwrap());
        }
        let [nodes, edges] = answers.as_slice() else { panic!("nodes and edges") };
        let circles: BTreeSet<&str> = nodes.rows.iter().filter_map(|row| nodes.cell(row, "id")).collect();
        assert_eq!(circles.len(), nodes.rows.len(), "each circle once");
        rings_are_the_legend(graph, nodes);
        // No circle is alone: adapters hang on GPUs or the host, and on a switch.
        for circle in &circles {
            let is_end = |row: &Vec<Option<String>>| {
                ["source", "target"].iter().any(|end| edges.cell(row, end) == Some(circle))
            };
            assert!(edges.rows.iter().any(is_end), "{links}: nothing leads to '{circle}'");
        }
        let lines: BTreeSet<&str> = edges.rows.iter().filter_map(|row| edges.cell(row, "id")).collect();
        assert_eq!(lines.len(), edges.rows.len(), "each line once");
        for row in &edges.rows {
            for end in ["source", "target"] {
                assert!(circles.contains(edges.cell(row, end).unwrap()), "{links}: {row:?} of {circles:?}");
            }
        }
        circles_by_choice.push((nodes.rows.len(), edges.rows.len()));
    }
    // Two GPUs with four links between them, and one adapter near both.
    assert_eq!(circles_by_choice, [(4, 1 + 3), (4 + 4, 2 * 4 + 3)]);
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
        ("FROM public.mpi_op_totals", "FROM mpi_op_totalz", "mpi_op_totalz"),
        ("sum(calls)::bigint AS", "NULL::bigint AS", "NULL in every row"),
        ("10 seconds'))\\nORDER BY 1, 2", "10 seconds'))\\nORDER BY 2, 1", "order of 'time'"),
        ("AS \\\"Share of MPI time\\\"", "AS \\\"Share\\\"", "names column 'Share of MPI time'"),
        ("/^(Up to|Bytes)$/", "/^(Until|Byte)$/", "matches no column"),
        (
            "infiniband_switch_port_symbol_error_total",
            "infiniband_switch_port_symbol_errors_total",
            "is empty",
        ),
        ("{{switch}}[{{port}}]", "{{hca}}[{{port}}]", "names label 'hca'"),
        ("AND kind = ${kind:sqlstring}", "AND kind = 'none'", "is empty"),
        ("sum by (operation) (rate(", "sum by (operation) (rte(", "unknown function"),
        ("1 - throughline_source_up", "1 - throughline_source_upp", "no series 'throughline_source_upp'"),
        (
            "{source=\"mad\"}",
            "{source=\"madd\"}",
            "no series 'throughline_last_round_timestamp_seconds{source=\"madd\"}'",
        ),
        ("c.source = 'mad'", "c.source = 'madd'", "is empty"),
        ("(infiniband_hca_port_rate_bytes_per_second > 0)", "(", "parse error"),
    ] {
        let report = check(&damaged(from, to), &sources, seed.window()).await.unwrap();
        let found = report.findings.iter().any(|finding| finding.problem.contains(problem));
        assert!(found, "{from} to {to}: expected '{problem}', got\n{}", text(&report));
    }
}

/// The files with one panel changed.
fn with_panel(file: &str, title: &str, change: impl Fn(&mut serde_json::Value)) -> Files {
    let mut files = files();
    let (_, text) = files.dashboards.iter_mut().find(|(name, _)| name == file).unwrap();
    let mut dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array_mut().unwrap();
    change(panels.iter_mut().find(|panel| panel["title"] == title && panel["type"] != "row").unwrap());
    *text = dashboard.to_string();
    files
}

/// Each class of what a reader of an answer would misread: identifiers as numbers, numbers without their unit, the step that
/// is not over, texts in a stat.
#[tokio::test]
async fn what_a_reader_would_misread_is_found() {
    let seed = Seed::make();
    let database = seed.store().await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let without_units =
        |panel: &mut serde_json::Value| panel["fieldConfig"]["overrides"] = serde_json::json!([]);
    let query = |from: &'static str, to: &'static str| {
        move |panel: &mut serde_json::Value| {
            let sql = panel["targets"][0]["rawSql"].as_str().unwrap();
            assert!(sql.contains(from), "{sql}");
            panel["targets"][0]["rawSql"] = sql.replace(from, to).into();
        }
    };
    /// Part of a dashboard's uid, panel, what is broken in it, and what is found.
    type Case<'a> = (&'a str, &'a str, Box<dyn Fn(&mut serde_json::Value)>, &'a str);
    let cases: [Case<'_>; 7] = [
        ("-switch", "Ports", Box::new(without_units), "'GUID' has the text '0x"),
        ("-switch", "Switch", Box::new(without_units), "'LID' names a thing"),
        ("-job", "Ranks", Box::new(without_units), "'Rank' names a thing"),
        (
            "-job",
            "From rank to rank: bytes",
            Box::new(|panel| panel["fieldConfig"]["defaults"]["unit"] = "short".into()),
            "unit 'short' instead of bytes",
        ),
        (
            "",
            "Traffic into the fabric",
            Box::new(query(
                "least($__timeTo()::timestamptz, ",
                "greatest($__timeTo()::timestamptz + INTERVAL '1 minute', ",
            )),
            "is not over at the end",
        ),
        (
            "",
            "Jobs running",
            Box::new(query("count(*) AS ranks", "'leaf1'::text AS ranks")),
            "a stat shrinks",
        ),
        ("-node", "NVLinks", Box::new(without_units), "unit 'short' instead of bytes"),
    ];
    for (file, title, change, problem) in cases {
        let files = with_panel(&format!("throughline{file}.json"), title, change);
        let report = check(&files, &sources, seed.window()).await.unwrap();
        let place = format!("throughline{file}.json, panel '{title}'");
        let is_found = |finding: &throughline_dashboard_check::Finding| {
            finding.place == place && finding.problem.contains(problem)
        };
        assert!(
            report.findings.iter().any(is_found),
            "{place}: expected '{problem}', got\n{}",
            text(&report)
        );
    }
}

/// Readings from which one link would carry 2.4 times its speed: each share of it has a mark, and is found without one.
#[tokio::test]
async fn no_share_above_a_links_speed_is_shown_as_true() {
    let seed = Seed::with_load(|(guid, port), _| if (guid, port) == (0xa1, 5) { 2.43 } else { 0.1 });
    let database = seed.store().await;
    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let report = check(&files(), &sources, seed.window()).await.unwrap();
    let shares = report.findings.iter().filter(|finding| finding.problem.contains("no link can carry"));
    assert_eq!(shares.count(), 0, "{}", text(&report));
    let unmarked = with_panel("throughline.json", "Hottest links", |panel| {
        for entry in panel["fieldConfig"]["overrides"].as_array_mut().unwrap() {
            entry["properties"].as_array_mut().unwrap().retain(|property| property["id"] != "mappings");
        }
    });
    let report = check(&unmarked, &sources, seed.window()).await.unwrap();
    let found = text(&report);
    assert!(found.contains("'Mean utilisation' has the share 2.4"), "{found}");
}
