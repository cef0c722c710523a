//! What the export reads of hours that are packed only is what it reads of their rows.

use super::moved::{hours_moved, seeded, with_late_rows};
use super::*;
use std::collections::{BTreeSet, HashMap};
use throughline_query::history::tail::{Slice, Tail, TailWindow, parts};
use throughline_store::ExportTarget;

/// From before the first reading until after the last, milliseconds. Of what several sources read in half a minute the best counts, so
/// windows here do not end within one.
const FROM: i64 = (BEGIN - 30) * 1000 - 1;
const TO: i64 = (BEGIN + 4 * HOUR) * 1000;

fn add(all: &mut Answers, slices: &[Slice]) {
    for series in slices.iter().flat_map(|slice| &slice.series) {
        let name = format!("{} {:?}", families()[series.family].name, series.labels);
        let points = all.entry(name).or_default();
        points.extend(series.points.iter().map(|(time, value)| (*time, value.to_bits())));
    }
}

/// All of a window, but for info metrics, which are no readings.
async fn window(client: &Client, tail: &mut Tail, from: i64, to: i64, all: &mut Answers) -> usize {
    let mut rounds = 0;
    for part in parts().into_iter().filter(|part| !part.ends_with("_info")) {
        let mut after = String::new();
        loop {
            let round = tail.read(client, part, TailWindow { from, to }, &after).await.unwrap();
            assert!(tail.is_as_read(client, part).await.unwrap());
            add(all, &round.slices);
            rounds += 1;
            let Some(next) = round.next else { break };
            after = next;
        }
    }
    tail.window_read();
    rounds
}

/// Window after window as the export chooses them, or of so many milliseconds; how many there were.
async fn exported(database: &Database, length: Option<i64>) -> (Answers, usize) {
    let client = database.connect().await.unwrap();
    let (mut tail, mut all, mut from, mut windows) = (Tail::default(), Answers::new(), FROM, 0);
    while from < TO {
        let hour_end = Tail::packed_hour_end(&client, None, from + 1).await.unwrap();
        let to = length.map_or(hour_end, |length| Some(from + length)).unwrap_or(from + 30_000);
        window(&client, &mut tail, from, to, &mut all).await;
        (from, windows) = (to, windows + 1);
    }
    (all, windows)
}

fn assert_equal(is: &Answers, was: &Answers) {
    assert_eq!(is.keys().collect::<Vec<_>>(), was.keys().collect::<Vec<_>>());
    for (series, points) in is {
        let differs = points.iter().zip(&was[series]).find(|(is, was)| is != was);
        let counts = (points.len(), was[series].len());
        assert!(points == &was[series], "{series}: {counts:?} samples, {differs:?}");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{series}: each once, in order");
    }
}

#[tokio::test]
async fn packed_hours_are_exported_as_their_rows_are() {
    let database = seeded().await;
    // Rows that come late are read beside what is packed.
    with_late_rows(&database).await;
    let client = database.connect().await.unwrap();
    client.batch_execute(super::moved::ARRIVE).await.unwrap();
    let (expected, _) = exported(&database, Some(1_230_000)).await;
    let samples: usize = expected.values().map(Vec::len).sum();
    assert!(expected.len() > 100 && samples > 50_000, "{} series, {samples} samples", expected.len());
    for name in [BYTES, LINKS, "saturated", "pcie"] {
        assert!(expected.keys().any(|series| series.contains(name)), "{name}");
    }
    client.batch_execute("DELETE FROM internal.minute_late").await.unwrap();
    assert_eq!(hours_moved(&database).await, 16);
    client.batch_execute(super::moved::ARRIVE).await.unwrap();
    let (packed, windows) = exported(&database, None).await;
    assert_equal(&packed, &expected);
    assert_eq!(windows, 6, "one before the first hour, and one for each of five");

    // What arrived late for such a time: of some ports a part of an hour.
    let range = |from: i64, to: i64| Range { from: (BEGIN + from) * 1000, to: (BEGIN + to) * 1000 };
    let things: HashMap<String, Vec<Range>> = [
        ("1".to_owned(), vec![range(5000, 5300), range(5400, 5600)]),
        ("2".to_owned(), vec![range(5100, 5100)]),
    ]
    .into();
    let mut late = Answers::new();
    add(&mut late, &Tail::default().read_late(&client, "ib_port_counters", &things).await.unwrap());
    let of_ports: BTreeSet<&String> = late.keys().collect();
    assert!(of_ports.len() >= 7, "{of_ports:?}");
    for (series, points) in &late {
        let known = &expected[series];
        assert!(points.iter().all(|point| known.contains(point)), "{series}");
    }
}

#[tokio::test]
async fn an_hour_that_is_packed_while_it_is_read_is_read_again() {
    let database = seeded().await;
    minutes_made(&database).await;
    blocks_made(&database).await.unwrap();
    let client = database.connect().await.unwrap();
    let part = "host_port_counters";
    let window = TailWindow { from: FROM, to: TO };
    let mut tail = Tail::default();
    let mut expected = Answers::new();
    add(&mut expected, &tail.read(&client, part, window, "").await.unwrap().slices);
    assert!(!expected.is_empty() && tail.is_as_read(&client, part).await.unwrap());

    ExportTarget::begin_reading(&client).await.unwrap();
    client.batch_execute("SELECT 1 FROM internal.packed_state").await.unwrap();
    assert_eq!(hours_moved(&database).await, 16);
    let mut tail = Tail::default();
    tail.read(&client, part, window, "").await.unwrap();
    ExportTarget::end_reading(&client).await.unwrap();
    assert!(!tail.is_as_read(&client, part).await.unwrap(), "rows have gone that its moment has as rows");
    let (mut again, mut tail) = (Answers::new(), Tail::default());
    let mut after = String::new();
    loop {
        let round = tail.read(&client, part, window, &after).await.unwrap();
        add(&mut again, &round.slices);
        let Some(next) = round.next else { break };
        after = next;
    }
    assert!(tail.is_as_read(&client, part).await.unwrap());
    assert_equal(&again, &expected);
}
