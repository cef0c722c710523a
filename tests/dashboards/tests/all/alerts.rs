//! The alerts by SQL, evaluated as Grafana does on a database in which everything is driven that an alert is for, and
//! on one in which nothing is; the files against their definition; the database away.
use crate::support::driven::TRUNK_JOB;
use crate::support::{SECOND, Seed, Window, files, reader, root};
use std::collections::{BTreeMap, BTreeSet};
use throughline_alerts::{GRAFANA_FILE, PROMETHEUS_FILE, Set, THRESHOLDS, grafana, prometheus, table};
use throughline_dashboard_check::{GrafanaRule, Instance, PrometheusRules, Sql, States};

const PREFIX: &str = "0xfe80000000000000";
const HOSTS_JOB: &str = "slurm:4711";

fn rules() -> BTreeMap<String, GrafanaRule> {
    let rules = GrafanaRule::parse(&files().grafana_rules).unwrap();
    rules.into_iter().map(|rule| (rule.uid.clone(), rule)).collect()
}

#[test]
fn the_files_are_what_the_definition_gives() {
    let set = Set::new(THRESHOLDS).unwrap();
    for (file, text) in [(PROMETHEUS_FILE, prometheus(&set)), (GRAFANA_FILE, grafana(&set))] {
        let found = std::fs::read_to_string(root().join("deploy").join(file)).unwrap();
        assert!(found == text, "deploy/{file} is not what `cargo xtask alerts` writes");
    }
    let page = std::fs::read_to_string(root().join("docs/ALERTS.md")).unwrap();
    assert!(page.ends_with(&format!("\n{}\n", table(&set))), "docs/ALERTS.md: run `cargo xtask alerts`");
}

/// Both sets agree on each alert: when it fires, and how long it is pending.
#[test]
fn both_sets_have_the_same_thresholds() {
    let (by_sql, by_promql) = (rules(), PrometheusRules::parse(&files().prometheus_rules).unwrap());
    let set = Set::new(THRESHOLDS).unwrap();
    assert_eq!(by_sql.len(), by_promql.alert_names().count());
    for rule in set.rules() {
        let (sql, promql) = (&by_sql[&rule.uid], by_promql.alert(&rule.name).unwrap());
        let near = |a: f64, b: f64| (a - b).abs() <= f64::EPSILON * b.abs();
        assert!(near(sql.threshold, rule.threshold.fires_above), "{}", rule.name);
        assert!(near(sql.recovery, rule.holds_above()), "{}", rule.name);
        let minutes = |text: &str| text.trim_end_matches(['m', 's']).parse::<i64>().unwrap_or(0);
        assert_eq!(sql.pending_seconds / 60, minutes(&promql.pending), "{}", rule.name);
    }
}

/// An alert that fires: its labels but those with names, summary, jobs and dashboard.
type Fired = (String, String, String, String);

fn fired(rule: &GrafanaRule, instance: &Instance) -> Fired {
    let text = |name: &str| instance.annotation(rule, name).unwrap_or_else(|error| format!("({error})"));
    let key: Vec<&str> = ["guid", "port", "gpu", "link", "instance", "source"]
        .into_iter()
        .filter_map(|label| instance.labels.get(label).map(String::as_str))
        .filter(|value| *value != PREFIX)
        .collect();
    let jobs = if rule.annotations.contains_key("jobs") { text("jobs") } else { String::new() };
    assert!(!instance.annotation(rule, "description").unwrap().contains('{'));
    (key.join(" ").trim_end().to_owned(), text("summary"), jobs, text("dashboard"))
}

fn fires(rule: &GrafanaRule, states: &States) -> BTreeSet<Fired> {
    states.firing().into_iter().map(|instance| fired(rule, instance)).collect()
}

const BOTH: &str = "slurm:4711, slurm:4712";

/// Key, summary and jobs of an alert.
type Expected = (&'static str, &'static str, &'static str);

/// The alerts of each rule when everything is driven.
const EXPECTED: [(&str, &[Expected]); 31] = [
    (
        "throughline-link-saturated",
        &[
            (
                "0x00000000000000a1 5",
                "leaf 1 port 5 to spine 1 port 1 carries 95% of the link's speed: 62 % alltoall of job 4711 (ada) [modelled], 34 % unmonitored host n07 [unreported]",
                "none",
            ),
            (
                "0x00000000000000b2 1",
                "spine 2 port 1 to leaf 1 port 6 carries 95% of the link's speed: 62 % alltoall of job 4711 (ada) [bound], 34 % unmonitored host n07 [unreported]",
                "none",
            ),
            (
                "0x00000000000000c3 1",
                "n3 mlx5_0 port 1 to leaf 1 port 4 carries 95% of the link's speed: contributors not known",
                "none",
            ),
        ],
    ),
    (
        "throughline-link-congested",
        &[("0x00000000000000a2 1", "leaf 2 port 1 to n4 mlx5_0 port 1 waits for 50% of the time", "none")],
    ),
    (
        "throughline-link-errors",
        &[
            (
                "0x00000000000000a1 2",
                "leaf 1 port 2 to n1 mlx5_0 port 1 counted 60 errors in an hour",
                HOSTS_JOB,
            ),
            (
                "0x00000000000000c4 1",
                "n4 mlx5_0 port 1 to leaf 2 port 1 counted 6000 errors in an hour",
                "none",
            ),
        ],
    ),
    (
        "throughline-link-bit-errors",
        &[(
            "0x00000000000000c4 1",
            "n4 mlx5_0 port 1 to leaf 2 port 1 has 1.7e-11 symbol errors a bit",
            "none",
        )],
    ),
    (
        "throughline-link-corrected-errors",
        &[(
            "0x00000000000000c5 1",
            "n5 mlx5_0 port 1 to leaf 2 port 2 has 1.7e-04 symbols a bit mended",
            TRUNK_JOB,
        )],
    ),
    (
        "throughline-link-down",
        &[("0x00000000000000a2 4", "leaf 2 port 4 to n7 mlx5_0 port 1 is down", "none")],
    ),
    (
        "throughline-link-flapping",
        &[("0x00000000000000a1 3", "leaf 1 port 3 to n2 mlx5_0 port 1 went down 4 times in an hour", "none")],
    ),
    (
        "throughline-link-degraded",
        &[
            (
                "0x00000000000000a2 6",
                "leaf 2 port 6 to spine 2 port 2 is narrower or slower than it could be",
                "none",
            ),
            (
                "0x00000000000000b2 2",
                "spine 2 port 2 to leaf 2 port 6 is narrower or slower than it could be",
                TRUNK_JOB,
            ),
        ],
    ),
    (
        "throughline-node-gone",
        &[("0x00000000000000c7", "n7 mlx5_0 is gone from the fabric; it hung on leaf 2 port 4", "none")],
    ),
    (
        "throughline-nvlink-saturated",
        &[(
            "GPU-00000001-0000 2 n1",
            "n1 GPU 0 link 2 to n1 GPU 1 link 2 carries 96% of the link's speed",
            HOSTS_JOB,
        )],
    ),
    (
        "throughline-nvlink-errors",
        &[(
            "GPU-00000000-0001 1 n0",
            "n0 GPU 1 link 1 to n0 GPU 0 link 1 counted 60 errors in an hour",
            BOTH,
        )],
    ),
    (
        "throughline-nvlink-bit-errors",
        &[(
            "GPU-00000001-0000 0 n1",
            "n1 GPU 0 link 0 to n1 GPU 1 link 0 has a bit error ratio of 5.0e-12",
            HOSTS_JOB,
        )],
    ),
    (
        "throughline-nvlink-down",
        &[("GPU-00000000-0000 2 n0", "n0 GPU 0 link 2 to n0 GPU 1 link 2 is down", BOTH)],
    ),
    ("throughline-gpu-gone", &[("GPU-00000001-0001 n1", "n1 GPU 1 can't be read any more", HOSTS_JOB)]),
    ("throughline-daemon-silent", &[("n5", "The daemon of n5 is silent", TRUNK_JOB)]),
    ("throughline-source-failing", &[("n0 mpi", "Source mpi of n0 can't be read", BOTH)]),
    ("throughline-source-silent", &[("n1 nvml", "Source nvml of n1 has been silent for 6m 50s", HOSTS_JOB)]),
    ("throughline-sweep-silent", &[]),
    ("throughline-fabric-absent", &[]),
    ("throughline-spool-dropping", &[("n0 spool", "The spool of n0 dropped 7 entries", BOTH)]),
    (
        "throughline-batches-refused",
        &[("n0 quarantine", "The collector refuses batches of n0: 3 wait there", BOTH)],
    ),
    (
        "throughline-records-rejected",
        &[("n0 time_past", "Records of n0 are rejected for time_past: 13", BOTH)],
    ),
    ("throughline-clock-off", &[]),
    ("throughline-server-clock-off", &[]),
    ("throughline-clock-doubted", &[]),
    ("throughline-requests-rejected", &[]),
    ("throughline-database-full", &[]),
    ("throughline-database-away", &[]),
    ("throughline-shares-behind", &[]),
    ("throughline-replica-behind", &[("n0 query", "The replica that readers of n0 use is 25s behind", BOTH)]),
    (
        "throughline-replica-unused",
        &[("n0 query", "Readers of n0 use the primary: 29 requests in five minutes", BOTH)],
    ),
];

#[tokio::test]
async fn exactly_what_is_driven_fires_with_names_jobs_and_dashboard() {
    let seed = Seed::driven();
    let sql = reader(&seed.store().await).await;
    let (window, mut rules) = (seed.window(), rules());
    assert_eq!(EXPECTED.len(), rules.len(), "each rule is here");
    let mut wrong = Vec::new();
    for (uid, all) in EXPECTED {
        let rule = &rules[uid];
        let states = rule.run(&sql, window.from + 60 * SECOND, window.to).await;
        assert_eq!(states.errors(), 0, "{uid}: {:?}", rule.instances(&sql, window.to).await.err());
        let fired = fires(rule, &states);
        let found =
            fired.iter().map(|(key, summary, jobs, _)| (key.as_str(), summary.as_str(), jobs.as_str()));
        let (found, all): (BTreeSet<_>, BTreeSet<Expected>) =
            (found.collect(), all.iter().copied().collect());
        if found != all {
            wrong.push(format!("{uid}: {found:#?}, expected {all:#?}"));
        }
        for (key, _, _, dashboard) in &fired {
            let first = key.split(' ').next().unwrap();
            let names_it = !dashboard.contains("var-guid") || dashboard.contains(first);
            assert!(dashboard.starts_with("/d/throughline") && names_it, "{uid}: {dashboard}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    silence(&sql, &rules, &window).await;
    // The size of a test's database is over no sensible limit.
    let full = rules.get_mut("throughline-database-full").unwrap();
    (full.threshold, full.recovery) = (1e6, 1e6);
    let fired = fires(full, &full.run(&sql, window.from, window.to).await);
    let (key, summary, ..) = fired.first().unwrap();
    assert!(
        key.is_empty() && summary.starts_with("The database has ") && summary.ends_with("MiB on disk"),
        "{summary}"
    );
}

/// A quarter of an hour after the last reading: rules of silence fire, and what fired does not resolve.
async fn silence(sql: &Sql, rules: &BTreeMap<String, GrafanaRule>, window: &Window) {
    let later = window.to + 900 * SECOND;
    let mut wrong = Vec::new();
    for (uid, count) in [
        ("throughline-sweep-silent", 1),
        ("throughline-fabric-absent", 1),
        ("throughline-daemon-silent", 4),
        // Its query has no row any more, and KeepLast.
        ("throughline-link-saturated", 3),
        ("throughline-link-congested", 1),
        ("throughline-nvlink-saturated", 1),
        // From the inventory, which stays.
        ("throughline-link-down", 1),
        ("throughline-node-gone", 1),
    ] {
        let states = rules[uid].run(sql, window.from + 60 * SECOND, later).await;
        if states.firing().len() != count {
            wrong.push(format!("{uid}: {count} expected, not {:?}", states.firing()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn nothing_fires_when_nothing_is_driven() {
    let seed = Seed::with_load(|_, _| 0.3);
    let sql = reader(&seed.store().await).await;
    let window = seed.window();
    for (uid, rule) in rules() {
        // Port 2 of leaf 1 has errors in every seed.
        let expected = usize::from(uid == "throughline-link-errors");
        let states = rule.run(&sql, window.to - 240 * SECOND, window.to).await;
        assert_eq!((states.firing().len(), states.errors()), (expected, 0), "{uid}: {:?}", states.firing());
    }
}

#[tokio::test]
async fn the_database_being_away_resolves_nothing_and_is_reported() {
    let seed = Seed::make();
    let database = seed.store().await;
    let sql = reader(&database).await;
    let (window, rules) = (seed.window(), rules());
    let mut states = BTreeMap::new();
    for uid in ["throughline-link-saturated", "throughline-database-away", "throughline-fabric-absent"] {
        states.insert(uid, rules[uid].run(&sql, window.from, window.to).await);
    }
    let count = |states: &BTreeMap<&str, States>| -> Vec<usize> {
        states.values().map(|states| states.firing().len()).collect()
    };
    // By name: away, absent, saturated.
    assert_eq!(count(&states), [0, 0, 3]);
    // Its session ends, as at a restart or a lost network.
    assert!(sql.query("SELECT pg_terminate_backend(pg_backend_pid())").await.is_err());
    for minute in 1..=20 {
        let at = window.to + minute * 60 * SECOND;
        for (uid, states) in &mut states {
            states.step(&rules[*uid], at, rules[*uid].instances(&sql, at).await);
        }
    }
    assert_eq!(count(&states), [1, 1, 3]);
    assert!(states.values().all(|states| states.errors() == 20));
    // It is back, and the links are quiet: they resolve.
    let sql = reader(&database).await;
    let quiet = Window { from: window.to + 1300 * SECOND, ..window };
    for (uid, states) in &mut states {
        let mut instances = rules[*uid].instances(&sql, window.to).await.unwrap().unwrap();
        instances.iter_mut().for_each(|instance| instance.value = 0.0);
        states.step(&rules[*uid], quiet.from, Ok(Some(instances)));
    }
    assert_eq!(count(&states)[2], 0);
}
