//! What daemons report of themselves and of their rounds, in old chunks: the same answers, in fewer and smaller rows.

use std::time::Duration;

use super::{HOUR, hours_ago, lines, number, thin, write};
use crate::batches::SECOND;
use throughline_sample::wire::{Batch, Coverage, SelfStat};
use throughline_store::{Retention, RetentionWay, apply_retention, testing};
use tokio_postgres::Client;

/// Since then all is thinned.
const OLD: &str = "date_trunc('day', now()) - INTERVAL '1 day'";

/// Begin of the chunk of the day before yesterday.
async fn day_before(client: &Client) -> i64 {
    let day = "SELECT extract(epoch FROM date_trunc('day', now(), 'UTC') - INTERVAL '2 days')::bigint";
    number(client, day).await * SECOND
}

/// Rounds of a source in each second of ten minutes, but for some that were missed; some read less.
fn rounds(source: &str, begin: i64) -> Vec<Coverage> {
    let round = |second: i64| {
        let failed = if (400..430).contains(&second) { 2 } else { 0 };
        let reasons = if failed > 0 { [("timeout".to_owned(), failed)].into() } else { Default::default() };
        Coverage {
            time: begin + second * SECOND,
            source: source.into(),
            expected: 8,
            read: 8 - failed,
            failed,
            elapsed_seconds: 0.25,
            reasons,
            ..Coverage::default()
        }
    };
    (1..=600).filter(|second| !(100..107).contains(second) && *second != 500).map(round).collect()
}

/// The same with up to 30 equal ones in a record, as agents send them.
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

#[tokio::test]
async fn rounds_of_old_chunks_are_merged_and_each_is_still_known() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    // From a whole five minutes on, and a source that reads each ten seconds.
    let begin = day_before(&client).await + 7 * HOUR;
    let single = rounds("mad", begin);
    let slow =
        (1..=60).map(|number| Coverage { rounds: 1, ..round_at("cupti", begin + number * 10 * SECOND) });
    let recent = hours_ago(&client, 0).await - 60 * SECOND;
    let coverage = single.iter().cloned().chain(merged(&rounds("sysfs", begin))).chain(slow);
    let coverage = coverage.chain([1, 2].map(|second| round_at("sysfs", recent + second * SECOND)));
    write(&database, vec![Batch { node: "n0".into(), coverage: coverage.collect(), ..Batch::default() }])
        .await;

    let between = |from: &str, to: &str| {
        format!(
            "SELECT time, source, expected, read, failed, reasons, elapsed_seconds
             FROM internal.coverage_rounds(to_timestamp({}) + INTERVAL '{from}', to_timestamp({}) + INTERVAL '{to}')",
            begin / SECOND,
            begin / SECOND
        )
    };
    let selects = [
        between("0", "10 minutes"),
        // Ranges that begin and end within merged rows.
        between("97 seconds", "201.5 seconds"),
        between("420 seconds", "499 seconds"),
        "SELECT source, sum(read * rounds)::float8 / sum(expected * rounds), max(elapsed_seconds), sum(rounds), max(time)
         FROM internal.coverage GROUP BY source"
            .to_owned(),
        "SELECT * FROM internal.source_coverage".to_owned(),
    ];
    let mut before = Vec::new();
    for select in &selects {
        before.push(lines(&client, select).await);
    }
    assert_eq!(before[0].len(), 592 * 2 + 60);
    let rows = format!("SELECT source, count(*) FROM internal.coverage WHERE time < {OLD} GROUP BY source");
    assert_eq!(lines(&client, &rows).await, ["(cupti,60)", "(mad,592)", "(sysfs,22)"]);

    assert!(thin(&mut client).await.chunks > 0);
    for (select, before) in selects.iter().zip(before) {
        assert_eq!(lines(&client, select).await, before, "{select}");
    }
    // Two steps of five minutes; what was missed and what read less ends a row, and what comes after it begins one.
    assert_eq!(lines(&client, &rows).await, ["(cupti,2)", "(mad,6)", "(sysfs,6)"]);
    let spans = "SELECT max(time - first_time) < INTERVAL '6 minutes' FROM internal.coverage";
    assert_eq!(lines(&client, spans).await, ["(t)"], "as far as coverage_rounds looks");
    assert_eq!(thin(&mut client).await.chunks, 0);
}

fn round_at(source: &str, time: i64) -> Coverage {
    Coverage {
        time,
        source: source.into(),
        expected: 4,
        read: 4,
        elapsed_seconds: 0.5,
        ..Coverage::default()
    }
}

/// Self-metrics of two daemons each minute of a quarter of an hour.
fn stats(begin: i64) -> Vec<Batch> {
    let stat = |time, source: &str, name: &str, value| SelfStat {
        time,
        source: source.into(),
        name: name.into(),
        value,
        ..SelfStat::default()
    };
    let batch = |(node, minute): (&str, i64)| {
        let time = begin + minute * 60 * SECOND;
        let count = (minute * 7) as f64;
        let mut self_stats =
            vec![stat(time, "sysfs", "records", count), stat(time, "mpi", "records", count * 2.0)];
        self_stats.push(stat(time, "sysfs", "source_up", 1.0));
        Batch { node: node.into(), self_stats, ..Batch::default() }
    };
    (1..=16).flat_map(|minute| [("n0", minute), ("n1", minute)]).map(batch).collect()
}

#[tokio::test]
async fn names_of_self_metrics_are_listed_once() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await;
    write(&database, stats(begin)).await;
    assert!(thin(&mut client).await.chunks > 0);
    // A list that is new may not be there for every statement that finds the rows.
    let own = "SELECT count(*), count(names_id), bool_or(names = '{}') FROM internal.self_stat_rows";
    assert_eq!(lines(&client, own).await, ["(8,0,f)"]);
    assert_eq!(number(&client, "SELECT count(*) FROM internal.self_stat_names").await, 1, "of both daemons");

    client
        .batch_execute("UPDATE internal.self_stat_names SET listed_at = listed_at - INTERVAL '61 minutes'")
        .await
        .unwrap();
    write(&database, stats(begin + HOUR)).await;
    let of_last = "SELECT time, instance, source, name, value FROM public.self_stats
                   WHERE extract(epoch FROM time)::integer % 240 = 0 AND time < now() - INTERVAL '2 hours'";
    let newest = "SELECT s.instance, s.source, s.name, n.time, n.value FROM internal.self_stat_series s
                  CROSS JOIN LATERAL internal.self_stat_newest(s.name, s.source, s.instance, now() - INTERVAL '1 day', of_label => s.label) n";
    let before = (lines(&client, of_last).await, lines(&client, newest).await);
    assert_eq!((before.0.len(), before.1.len()), (2 * 2 * 4 * 3, 6));
    assert!(thin(&mut client).await.chunks > 0);
    assert_eq!(lines(&client, own).await, ["(16,8,t)"]);
    assert_eq!((lines(&client, of_last).await, lines(&client, newest).await), before);
    let all = "SELECT count(*) FROM public.self_stats";
    assert_eq!(number(&client, all).await, 2 * 2 * 4 * 3);

    // Late rows beside rows without names of their own: the chunk is thinned again.
    let late = "INSERT INTO internal.self_stat_rows (time, instance, sources, labels, names, readings)
                SELECT time + INTERVAL '1 second' * i, 'n' || i, ARRAY['sysfs'], ARRAY[''], ARRAY['late'], ARRAY[i] FROM internal.self_stat_rows, generate_series(2, 400) i
                WHERE names_id IS NOT NULL AND instance = 'n0'";
    client.batch_execute(late).await.unwrap();
    assert!(thin(&mut client).await.chunks > 0);
    let known = format!("{of_last} AND instance IN ('n0', 'n1')");
    assert_eq!((lines(&client, &known).await, lines(&client, newest).await), before);

    // Lists go once no row can have their number.
    let retention = Retention::for_all(Duration::from_secs(7 * 86_400));
    let lists = "SELECT count(*) FROM internal.self_stat_names";
    apply_retention(&client, &retention, Some(RetentionWay::Upkeep)).await.unwrap();
    assert!(number(&client, lists).await >= 2);
    client
        .batch_execute("UPDATE internal.self_stat_names SET used_at = now() - INTERVAL '11 days'")
        .await
        .unwrap();
    apply_retention(&client, &retention, Some(RetentionWay::Upkeep)).await.unwrap();
    assert_eq!(number(&client, lists).await, 0);
}
