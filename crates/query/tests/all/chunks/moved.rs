//! Hours that are packed only: every answer, of remote-read and of SQL, is that of rows, whatever comes late.

use super::*;
use throughline_store::move_hours;

/// Everything older is packed only.
const ROWS: Duration = Duration::from_secs(2 * 3600);

async fn hours_moved(database: &Database) -> u64 {
    let retention = Retention::for_all(ALWAYS).with_rows(ROWS);
    move_hours(&mut database.connect().await.unwrap(), &retention).await.unwrap()
}

/// What the functions of the schema return.
async fn in_sql(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    for (function, from, order) in [
        ("ib_port_readings", BEGIN, "port_id, time"),
        ("ib_port_rates", BEGIN + 1800, "port_id, time"),
        ("host_port_readings", BEGIN + 100, "host_port_id, time"),
        ("host_port_rates", BEGIN, "host_port_id, time"),
    ] {
        let query = format!(
            "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY {order}), '') \
             FROM {function}(to_timestamp({from}), to_timestamp({BEGIN} + 10000)) r"
        );
        let text: String = client.query_one(&query, &[]).await.unwrap().get(0);
        assert!(text.lines().count() > 100, "{function}");
        all.push(text);
    }
    all
}

async fn answers(database: &Database) -> Vec<Answers> {
    let mut all = Vec::new();
    for name in QUERIED.into_iter().chain(["infiniband_switch_port_symbol_error_saturated"]) {
        for range in [hours(-1, 5), hours(1, 2), Range { from: hours(0, 0).from + 7, to: hours(2, 2).to - 1 }]
        {
            all.push(answer(database, name, range).await);
        }
    }
    all
}

/// Fails with the first series that differs.
fn assert_same(is: &[Answers], was: &[Answers]) {
    for (place, (is, was)) in is.iter().zip(was).enumerate() {
        let what = format!("answer {place}");
        assert_eq!(is.keys().collect::<Vec<_>>(), was.keys().collect::<Vec<_>>(), "{what}");
        for (labels, points) in is {
            let differs = points.iter().zip(&was[labels]).find(|(is, was)| is != was);
            assert!(
                points == &was[labels],
                "{what}, {labels}: {} and {} samples, {differs:?}",
                points.len(),
                was[labels].len()
            );
        }
    }
}

/// A database with readings of three hours, some of them without values, of two epochs, or of counters at their end.
async fn seeded() -> Database {
    let database = testing::database().await;
    seed(&database).await;
    let client = database.connect().await.unwrap();
    let more = format!(
        "UPDATE ib_port_counters SET epoch = to_timestamp({BEGIN} + 3000) WHERE time > to_timestamp({BEGIN} + 3000);
         UPDATE ib_port_counters SET symbol_error = NULL, saturated = '{{symbol_error,link_downed}}', source = 'mad2'
         WHERE port_id % 5 = 0 AND time > to_timestamp({BEGIN} + 4000);
         INSERT INTO host_port_counters (time, epoch, host_port_id, source, symbol_error)
         SELECT to_timestamp({BEGIN} + 3600), 'epoch', 1, 'sysfs', 5 ON CONFLICT DO NOTHING"
    );
    client.batch_execute(&more).await.unwrap();
    database
}

#[tokio::test]
async fn hours_without_rows_have_the_answers_of_rows() {
    let database = seeded().await;
    let client = database.connect().await.unwrap();
    let expected = (answers(&database).await, in_sql(&client).await);
    assert_eq!(hours_moved(&database).await, 0, "nothing is packed yet");
    minutes_made(&database).await;
    assert_eq!(hours_moved(&database).await, 0, "nothing is packed yet");
    blocks_made(&database).await.unwrap();
    assert_eq!(hours_moved(&database).await, 8, "three hours and what is after, of two kinds");
    assert_eq!(count(&client, "ib_port_counters").await + count(&client, "host_port_counters").await, 0);
    assert!(count(&client, "nvlink_counters").await > 0, "rows stay");
    assert_same(&answers(&database).await, &expected.0);
    for (is, was) in in_sql(&client).await.iter().zip(&expected.1) {
        let differs = is.lines().zip(was.lines()).find(|(is, was)| is != was);
        assert!(is == was, "{} and {} lines: {differs:?}", is.lines().count(), was.lines().count());
    }
    assert_eq!(hours_moved(&database).await, 0);
}

/// Rows of ten minutes of some ports are set aside, and come when all else is packed.
async fn with_late_rows(database: &Database) {
    let late = format!("time > to_timestamp({BEGIN} + 5000) AND time < to_timestamp({BEGIN} + 5600)");
    let set_aside = format!(
        "CREATE TABLE late AS SELECT * FROM ib_port_counters WHERE port_id <= 20 AND {late};
         DELETE FROM ib_port_counters WHERE port_id <= 20 AND {late}"
    );
    database.connect().await.unwrap().batch_execute(&set_aside).await.unwrap();
    minutes_made(database).await;
    blocks_made(database).await.unwrap();
}

/// They come as the writer stores them: with notes.
const ARRIVE: &str = "INSERT INTO ib_port_counters SELECT * FROM late;
    INSERT INTO minute_late (kind, id, since, until)
    SELECT 'ib_port_minutes', port_id, min(time), max(time) FROM late GROUP BY port_id";

async fn minutes_of_ports(client: &Client) -> String {
    let minutes = "SELECT string_agg(m::text, E'\n' ORDER BY time, port_id, epoch) FROM ib_port_minutes m";
    client.query_one(minutes, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_comes_late_is_read_at_once_and_packed_with_the_rest() {
    let database = seeded().await;
    let client = database.connect().await.unwrap();
    let expected = (answers(&database).await, in_sql(&client).await);
    with_late_rows(&database).await;
    assert_eq!(hours_moved(&database).await, 8);
    client.batch_execute(ARRIVE).await.unwrap();
    assert!(count(&client, "ib_port_counters").await > 100);
    assert_same(&answers(&database).await, &expected.0);
    assert!(in_sql(&client).await == expected.1, "with notes");
    minutes_made(&database).await;
    assert_eq!(count(&client, "minute_late").await, 0);
    assert_same(&answers(&database).await, &expected.0);
    blocks_made(&database).await.unwrap();
    assert_eq!(count(&client, "ib_port_counters").await, 0, "they are packed");
    assert_same(&answers(&database).await, &expected.0);
    assert!(in_sql(&client).await == expected.1, "packed");

    // Minutes are those that the same rows give where all are rows.
    let rows = seeded().await;
    with_late_rows(&rows).await;
    let of_rows = rows.connect().await.unwrap();
    of_rows.batch_execute(ARRIVE).await.unwrap();
    minutes_made(&rows).await;
    assert!(minutes_of_ports(&client).await == minutes_of_ports(&of_rows).await);
}
