//! A site's prediction as text and as a document, and beside what is there.

use super::*;
use clap::Parser;
use throughline_store::{Retention, predict_size};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    size: SizeArguments,
}

fn arguments(words: &[&str]) -> SizeArguments {
    Command::try_parse_from([&["size"], words].concat()).unwrap().size
}

#[test]
fn a_site_on_the_command_line_is_predicted() {
    let words = [
        "--nodes",
        "1428",
        "--ranks",
        "32",
        "--ports",
        "4830",
        "--gpus",
        "640",
        "--links",
        "6",
        "--port-seconds",
        "1",
    ];
    let arguments = arguments(&words);
    assert!(!arguments.is_open());
    let site = arguments.site(None).unwrap();
    assert_eq!((site.nodes, site.host_ports, site.links_per_gpu), (1428, 1428, 6));
    let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
    let document = json(&prediction);
    let ports =
        document["tables"].as_array().unwrap().iter().find(|t| t["table"] == "ib_port_counters").unwrap();
    assert!((ports["rows_per_second"].as_f64().unwrap() - 4830.0).abs() < 1e-9);
    assert_eq!(ports["retention_seconds"], 5400, "rows");
    let blocks =
        document["tables"].as_array().unwrap().iter().find(|t| t["table"] == "ib_port_blocks").unwrap();
    assert_eq!(blocks["retention_seconds"], 7 * 86_400);
    let sum = |key: &str| -> u64 {
        document[key].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum()
    };
    let sum = sum("tables") + sum("plain_tables");
    assert!(document["bytes"].as_u64().unwrap().abs_diff(sum) <= 60);
    let of_jobs =
        table(&prediction).lines().find(|line| line.starts_with("job_judgement ")).unwrap().to_owned();
    assert!(of_jobs.ends_with("365 d after the job"), "{of_jobs}");
    let text = table(&prediction);
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(
        first.contains(" on disk with the configured retention on the apache edition, most of it "),
        "{first}"
    );
    let site = "1,428 nodes, 32 ranks each; 4,830 fabric ports, read each 1 s";
    assert!(lines.next().unwrap().starts_with(site), "{text}");
    assert!(text.contains("\nib_port_counters      row           4,830        293"), "{text}");
    let words = [&words[..], &["--edition", "full"]].concat();
    let full = self::arguments(&words).edition.map(Edition::way).unwrap();
    let full = predict_size(&prediction.site, &Retention::default(), full);
    assert!(full.steady_bytes() < prediction.steady_bytes() && json(&full)["edition"] == "full");
    assert!(table(&full).contains(" on the full edition, "));
    assert!(!text.contains("mpi_trace"), "tables without rows are left out: {text}");
}

#[test]
fn the_first_line_of_the_status_says_what_is_wrong() {
    let running = |predicted: u64, settings: Value| {
        json!({"state": "running", "schema": 3, "bytes": 1_000_000, "free_bytes": 9_000_000,
               "predicted_bytes": predicted, "settings": settings})
    };
    assert_eq!(
        headline(&running(5_000_000, json!([]))),
        "Nothing is wrong: it runs, 1.0 MB of 5.0 MB predicted are on disk."
    );
    assert!(headline(&running(50_000_000, json!([]))).starts_with("NOT ENOUGH ROOM: 50.0 MB are predicted"));
    assert!(
        headline(&running(5_000_000, json!([{}]))).ends_with("1 setting below would be better otherwise.")
    );
    assert!(headline(&json!({"state": "stopped"})).contains("does not run (stopped)"));
    assert!(headline(&json!({"state": "running"})).contains("no schema"));
}

#[test]
fn without_options_the_database_is_asked_and_wrong_ones_are_named() {
    let open = arguments(&["--port-seconds", "2"]);
    assert!(open.is_open());
    let known = Site { ports: 10, ..Site::default() };
    assert_eq!(open.site(Some(known)).unwrap(), Site { port_seconds: 2.0, ..known });
    let wrong = arguments(&["--ports", "3", "--port-seconds", "0"]).site(None).unwrap_err();
    assert!(wrong.to_string().contains("--port-seconds 0"), "{wrong}");
    assert!(Command::try_parse_from(["size", "--ranks", "3"]).is_err(), "ranks of no nodes");
}

#[test]
fn what_is_there_stands_beside_what_was_predicted() {
    let site = Site { ports: 100, port_seconds: 1.0, ..Site::default() };
    let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
    let now = SystemTime::now();
    let observed = |table: &str, bytes_per_row| ObservedTable {
        table: table.to_owned(),
        chunks: Some(2),
        bytes: 30_000_000,
        bytes_per_row,
        since: now - Duration::from_secs(1000),
    };
    let tables = [observed("ib_port_counters", Some(300.4)), observed("events", None)];
    let compared = compare(&prediction, &tables, now);
    assert_eq!(compared[0].predicted_bytes, Some(29_336_000));
    let text = compared_text(&compared);
    let line = text.lines().find(|line| line.starts_with("ib_port_counters")).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>()[1..],
        ["2", "30.0", "MB", "29.3", "MB", "300", "293", "90", "min"]
    );
    let document = compared_json(&compared);
    assert_eq!((&document[1]["predicted_bytes"], &document[1]["bytes"]), (&Value::Null, &json!(30_000_000)));
    assert_eq!(compared_text(&[]), "");
}
