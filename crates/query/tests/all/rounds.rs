//! Equal rounds of a source in one row of `coverage` answer as a row for each round does, which earlier agents sent.

use std::time::{SystemTime, UNIX_EPOCH};

use throughline_query::clocks::clocks;
use throughline_query::{events, status};
use throughline_sample::wire::{Batch, Coverage};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::batches::{SECOND, entry};

/// Rounds of a source that is read each second until a moment ago: some read less, and for a while there were none.
fn rounds(end: i64) -> Vec<Coverage> {
    let round = |second: i64| {
        let failed = if (40..47).contains(&second) { 2 } else { 0 };
        let reasons =
            if failed > 0 { [("no_permission".to_owned(), failed)].into() } else { Default::default() };
        Coverage {
            time: end - (100 - second) * SECOND,
            source: "sysfs".into(),
            expected: 8,
            read: 8 - failed,
            failed,
            elapsed_seconds: 0.25,
            reasons,
            ..Coverage::default()
        }
    };
    (0..=100).filter(|second| !(70..80).contains(second)).map(round).collect()
}

/// The same with up to 30 equal ones in a record.
fn merged(rounds: &[Coverage]) -> Vec<Coverage> {
    let mut all: Vec<Coverage> = Vec::new();
    for round in rounds {
        match all.last_mut() {
            Some(run) if run.rounds() < 30 && run.is_equal_round(round) && run.is_followed_by(round, 1.0) => {
                run.extend(round);
            }
            _ => all.push(round.clone()),
        }
    }
    all
}

async fn seeded() -> (Client, i64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Whole milliseconds: the mean of times is exact then.
    let end = i64::try_from(since.as_millis()).unwrap() * 1_000_000 - 2 * SECOND;
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let all = rounds(end);
    let runs = merged(&all);
    assert_eq!((all.len(), runs.len()), (91, 5));
    for (node, coverage) in [("old", all), ("new", runs)] {
        let batch = Batch { node: node.into(), coverage, ..Batch::default() };
        writer.write(&[entry(Uuid::new_v4(), 1, batch)]).await.unwrap();
    }
    (database.connect().await.unwrap(), end / 1_000_000)
}

/// What a statement returns of each of the two nodes, as JSON.
async fn answers(client: &Client, select: &str) -> [String; 2] {
    let mut both = [String::new(), String::new()];
    for (answer, node) in both.iter_mut().zip(["old", "new"]) {
        let sql = format!("SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]')::text FROM ({select}) r");
        *answer = client.query_one(&sql, &[&node]).await.unwrap().get(0);
    }
    both
}

#[tokio::test]
async fn merged_rounds_answer_as_single_ones() {
    let (client, end) = seeded().await;
    let range = "now() - INTERVAL '1 hour', now()";
    for (select, rows) in [
        // Each round, with its time.
        (format!("SELECT time, source, expected, read, failed, reasons FROM internal.coverage_rounds({range}) WHERE instance = $1 ORDER BY time"), 91),
        (format!("SELECT count(*), sum(read) AS read, min(time) AS first FROM internal.coverage_rounds({range}) WHERE instance = $1"), 1),
        ("SELECT source, time, expected, read, failed, elapsed_seconds, reasons FROM internal.source_coverage WHERE instance = $1".into(), 1),
        // The dashboard's share of readings, and the slowest round.
        ("SELECT source, sum(read * rounds)::float8 / sum(expected * rounds) AS share, max(elapsed_seconds) AS slowest
          FROM internal.coverage WHERE instance = $1 GROUP BY source".into(), 1),
    ] {
        let [old, new] = answers(&client, &select).await;
        assert_eq!(old, new, "{select}");
        let count = serde_json::from_str::<serde_json::Value>(&old).unwrap().as_array().unwrap().len();
        assert_eq!(count, rows, "{select}");
    }
    // The edges of a range that begins and ends within a row.
    for (from, to) in [(95, 12), (61, 60), (28, 5), (25, 21)] {
        let edge = |seconds: i64| format!("to_timestamp({}::float8 / 1000)", end - seconds * 1000 + 500);
        let select = format!(
            "SELECT time, read FROM internal.coverage_rounds({}, {}) WHERE instance = $1 ORDER BY time",
            edge(from),
            edge(to)
        );
        let [old, new] = answers(&client, &select).await;
        assert_eq!(old, new, "{from} to {to} s ago");
    }

    let names = ["old".to_owned(), "new".to_owned()];
    for to in [end + 2000, end - 40_000] {
        let clocks = clocks(&client, &names, to - 60_000, to).await.unwrap();
        assert_eq!(clocks[0].sources, clocks[1].sources);
        assert!((clocks[1].sources[0].interval_seconds - 1.0).abs() < 1e-6);
    }
    let sources = events::sources(&client).await.unwrap();
    assert_eq!(sources.len(), 2);
    let of = |source: &events::Source| (source.newest, source.expected, source.read, source.failed);
    assert_eq!(of(&sources[0]), of(&sources[1]));
    assert_eq!(sources[0].newest, Some(end));
    let status = status::read(&client, 1).await.unwrap();
    let newest: Vec<_> =
        status.sources.iter().map(|source| (source.source.as_str(), source.newest_ms)).collect();
    assert_eq!(newest, [("sysfs", Some(end)), ("sysfs", Some(end))]);
}
