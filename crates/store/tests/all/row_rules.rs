//! By which rules rows are left out: what rounds report is kept with a validity range, and decides whether the time between
//! two rows is known.

use std::time::Duration;

use throughline_sample::catalogue::TRANSMIT_DATA_BYTES;
use throughline_sample::wire::{Batch, Coverage, RowRules};
use throughline_store::{Database, Retention, Writer, make_rollups, testing};
use uuid::Uuid;

use crate::batches::{PREFIX, SECOND, START, entry, port_sample};

/// Longer than anything here is old.
const ALWAYS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// Begin of everything here, a whole minute.
const BEGIN: i64 = START / SECOND / 60 * 60 * SECOND;

fn rules(gap: f64) -> RowRules {
    RowRules { heartbeat_seconds: 60.0, largest_gap_seconds: gap, quiet_bytes: 100 }
}

fn round(seconds: i64, row_rules: Option<RowRules>) -> Batch {
    let round =
        Coverage { time: BEGIN + seconds * SECOND, source: "mad".into(), row_rules, ..Coverage::default() };
    Batch { fabric: throughline_store::testing::fabric(PREFIX), coverage: vec![round], ..Batch::default() }
}

/// A port that sends 1,000 bytes a second and is read so often.
fn readings(every: i64, number: i64) -> Batch {
    let sample = |place: i64| {
        let sent = 1000 * u64::try_from(place * every).unwrap();
        port_sample(1, (BEGIN - START) / SECOND + place * every, 0, &[(&TRANSMIT_DATA_BYTES, sent)])
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: (0..number).map(sample).collect(),
        ..Batch::default()
    }
}

async fn write(writer: &mut Writer, batches: Vec<Batch>) {
    let spool = Uuid::new_v4();
    for (sequence, batch) in (1..).zip(batches) {
        let outcome = writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
        assert!(outcome.denied.is_empty() && outcome.deferred.is_empty());
    }
}

/// The rows of the table: seconds since the beginning, until when, largest gap.
async fn stored(database: &Database) -> Vec<(i64, Option<i64>, f64)> {
    let client = database.connect().await.unwrap();
    let begin = (BEGIN / SECOND) as f64;
    let query = "SELECT (extract(epoch FROM valid_from) - $1)::bigint, (extract(epoch FROM valid_to) - $1)::bigint, \
                 largest_gap_seconds FROM internal.row_rules WHERE source = 'mad' ORDER BY valid_from";
    let query = query.replace("$1", &begin.to_string());
    client.query(&query, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn rules_are_kept_for_the_time_in_which_they_hold() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let implausible = RowRules { largest_gap_seconds: f64::NAN, ..rules(1.0) };
    write(
        &mut writer,
        vec![
            round(0, None),
            round(10, Some(rules(75.0))),
            round(20, Some(rules(75.0))),
            round(30, Some(implausible)),
            round(40, Some(rules(90.0))),
        ],
    )
    .await;
    let expected = [(10, Some(40), 75.0), (40, None, 90.0)];
    assert_eq!(stored(&database).await, expected);
    // What comes late, from a spool that waited, and what another writer reports again, changes nothing.
    write(&mut writer, vec![round(5, Some(rules(100.0))), round(50, Some(rules(90.0)))]).await;
    write(&mut Writer::new(database.clone()), vec![round(60, Some(rules(90.0)))]).await;
    assert_eq!(stored(&database).await, expected);
}

#[tokio::test]
async fn a_gap_is_known_time_as_far_as_its_sender_says() {
    // A crawler that reads each port every five minutes, and one that does not say so.
    for (reported, rates, minutes) in [(Some(rules(660.0)), 3_i64, 15_i64), (None, 0, 0)] {
        let database = testing::database().await;
        let mut writer = Writer::new(database.clone());
        write(&mut writer, vec![round(0, reported), readings(300, 4)]).await;
        let mut client = database.connect().await.unwrap();
        let until = BEGIN / SECOND + 3600;
        let query = format!(
            "SELECT count(*), min(transmit_bytes_per_second), max(transmit_bytes_per_second) \
             FROM public.ib_port_rates(to_timestamp({}), to_timestamp({until}))",
            BEGIN / SECOND - 1
        );
        let row = client.query_one(&query, &[]).await.unwrap();
        let rate = (rates > 0).then_some(1000.0);
        assert_eq!((row.get(0), row.get(1), row.get(2)), (rates, rate, rate), "{reported:?}");
        let retention = Retention::for_all(ALWAYS);
        while make_rollups(&mut client, &retention, Duration::from_secs(5)).await.unwrap().is_behind {}
        let query = "SELECT count(*), min(transmit_bytes_per_second), min(seconds) FROM internal.ib_port_minutes WHERE seconds > 0";
        let row = client.query_one(query, &[]).await.unwrap();
        let (rate, seconds) = (rate.map(|rate| rate as f32), (minutes > 0).then_some(60_f32));
        assert_eq!((row.get(0), row.get(1), row.get(2)), (minutes, rate, seconds), "{reported:?}");
    }
}

#[tokio::test]
async fn each_thing_has_the_rules_of_its_sender_or_the_usual_ones() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(crate::job_links::SEED).await.unwrap();
    client
        .batch_execute(
            "INSERT INTO internal.row_rules VALUES ('fabric:1', 'mad', '2026-11-20', '2026-11-21', 60, 90, 7), \
             ('fabric:1', 'mad', '2026-11-21', NULL, 60, 120, 0), \
             ('n1', 'sysfs', '2026-11-20', NULL, 20, 60, 0), ('n2', 'nvml', '2026-11-20', NULL, 2, 10, 0)",
        )
        .await
        .unwrap();
    let rules = async |kind: &str, day: &str| -> Vec<(i64, f64, f64, i64)> {
        let query = format!(
            "SELECT * FROM internal.row_rules_of('{kind}', '{day} 12:00', '{day} 13:00') ORDER BY id"
        );
        let rows = client.query(&query, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
    };
    let usual = |id| (id, 60.0, 75.0, 65_536);
    assert_eq!(rules("ib_port", "2026-11-20").await, [(1, 60.0, 90.0, 7), (2, 60.0, 90.0, 7)]);
    assert_eq!(rules("ib_port", "2026-11-22").await, [(1, 60.0, 120.0, 0), (2, 60.0, 120.0, 0)]);
    assert_eq!(rules("ib_port", "2026-11-10").await, [usual(1), usual(2)]);
    assert_eq!(rules("host_port", "2026-11-20").await, [(1, 20.0, 60.0, 0), usual(2)]);
    assert_eq!(rules("gpu", "2026-11-20").await, [usual(1), (2, 2.0, 10.0, 0)]);
    assert_eq!(
        (60.0, 75.0, 65_536),
        {
            let rules = throughline_sample::row_rules::DEFAULT;
            (rules.heartbeat_seconds, rules.largest_gap_seconds, rules.quiet_bytes)
        },
        "the same in SQL"
    );
}

#[tokio::test]
async fn what_is_counted_above_a_links_speed_is_marked() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(crate::job_links::SEED).await.unwrap();
    // 2,000 bytes a second until 12:00, on links of 1,000.
    let before = "'2026-11-20 11:59:00+00', '2026-11-20 12:00:00+00'";
    let after = "'2026-11-20 12:00:00+00', '2026-11-20 12:01:00+00'";
    for (function, rate) in [
        ("ib_port_rates", "transmit_bytes_per_second"),
        ("host_port_rates", "transmit_bytes_per_second"),
        ("nvlink_rates", "transmit_bytes_per_second"),
    ] {
        let query = |range: &str| {
            format!(
                "SELECT max({rate}), max(transmit_utilisation), bool_and(is_above_speed), bool_or(is_above_speed) \
                 FROM public.{function}({range}) WHERE transmit_utilisation IS NOT NULL"
            )
        };
        // The fabric's ports of this seed have no speed until one is known.
        let speed = "UPDATE internal.ib_port_counters SET rate_bytes_per_second = 1000";
        client.batch_execute(speed).await.unwrap();
        let row = client.query_one(&query(before), &[]).await.unwrap();
        let found: (f64, f64, bool, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!(found, (2000.0, 2.0, true, true), "{function}");
        let row = client.query_one(&query(after), &[]).await.unwrap();
        let found: (f64, f64, bool, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!(found, (900.0, 0.9, false, false), "{function}");
    }
}
