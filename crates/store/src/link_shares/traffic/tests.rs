//! Growth by windows, and of a node whose first rows have expired.

use super::*;
use crate::{Retention, apply_retention, testing};

const SECOND: Micros = 1_000_000;

fn cell(since: Micros, time: Micros, bytes: i64) -> Cell {
    let key = Key { job: 1, node: 1, peer: 2, operation: 0, kind: Kind::Measured, is_received: false };
    let last = CellReading { time: time * SECOND, bytes, messages: bytes / 10 };
    Cell { key, epoch: 0, since: since * SECOND, last }
}

#[test]
fn growth_is_spread_over_the_time_in_which_it_flowed() {
    let mut traffic = Traffic { read_until: Some(0), ..Traffic::default() };
    let before = cell(0, 5, 1000);
    // 400 bytes from 8 to 12 s: half of it in each window, whenever the row before was.
    traffic.grow(&cell(8, 12, 1400), before.last, 0);
    traffic.grow(&cell(12, 20, 1480), cell(8, 12, 1400).last, 0);
    let bytes = |traffic: &Traffic, end: Micros| {
        traffic.windows.get(&(end * SECOND)).map(|all| all.values().map(|one| one.bytes).sum::<f64>())
    };
    assert_eq!((bytes(&traffic, 10), bytes(&traffic, 20)), (Some(200.0), Some(280.0)));
    assert_eq!(bytes(&traffic, 30), None);
    // What was taken is not added to again, but known.
    traffic.grow(&cell(18, 22, 1580), cell(12, 20, 1480).last, 20 * SECOND);
    assert_eq!(bytes(&traffic, 20), Some(280.0));
    assert_eq!((bytes(&traffic, 30), traffic.missed(1.0)), (Some(100.0), vec![]));
    traffic.grow(
        &cell(18, 22, 1780),
        CellReading { time: 18 * SECOND, ..cell(12, 20, 1580).last },
        20 * SECOND,
    );
    assert_eq!(traffic.missed(1.0), [20 * SECOND]);
}

#[test]
fn a_cell_that_does_not_grow_adds_nothing() {
    let mut traffic = Traffic::default();
    traffic.grow(&cell(0, 5, 100), cell(0, 4, 100).last, 0);
    traffic.grow(&cell(0, 5, 100), cell(0, 4, 200).last, 0);
    assert!(traffic.windows.is_empty());
}

const DAY: i64 = 86_400;

/// A row of node 1 of job 1, which began to count eight days ago: `bytes` to rank 2 by so many seconds ago, those since its last row
/// within a second.
async fn row(client: &Client, operation: &str, seconds_ago: i64, bytes: i64) {
    let insert = "INSERT INTO internal.mpi_node_traffic (time, job_id, node_id, operation, kind, direction, epoch, since, source, is_whole,
                      peers, bytes, messages)
                  SELECT t, 1, 1, $1, 'measured', 'transmit', date_trunc('day', now()) - INTERVAL '8 days', t - INTERVAL '1 second', 'pml', true,
                      '{2}', ARRAY[$3::bigint], ARRAY[$3::bigint / 1000]
                  FROM (SELECT date_bin('10 seconds', now(), 'epoch') - make_interval(secs => $2::bigint) AS t) at";
    client.execute(insert, &[&operation, &seconds_ago, &bytes]).await.unwrap();
}

/// Bytes by operation of the windows of the last minute and a half, as a reader finds them that knows nothing yet.
async fn booked(client: &Client) -> BTreeMap<String, f64> {
    let query = "SELECT date_bin('10 seconds', now(), 'epoch')";
    let now = micros(client.query_one(query, &[]).await.unwrap().get(0));
    let (mut traffic, mut sums) = (Traffic::default(), BTreeMap::new());
    for end in (now - 9 * WINDOW..=now).step_by(usize::try_from(WINDOW).unwrap()) {
        let window = traffic.take(client, end, end).await.unwrap();
        for (key, amount) in window {
            *sums.entry(traffic.operation(key.operation).to_owned()).or_default() += amount.bytes;
        }
    }
    sums
}

/// A job that sent 300 GB in its first hour, eight days ago, and its rows as of now, after retention.
async fn expired() -> Client {
    let client = testing::database().await.connect().await.unwrap();
    client.batch_execute("INSERT INTO internal.run (key) VALUES ('a')").await.unwrap();
    row(&client, "alltoall", 8 * DAY - 3600, 300_000_000_000).await;
    apply_retention(&client, &Retention::default(), None).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
    client
}

#[tokio::test]
async fn what_was_sent_before_a_week_of_quiet_is_in_no_window() {
    let client = expired().await;
    row(&client, "alltoall", 20, 300_001_000_000).await;
    // An operation that was never used before.
    row(&client, "bcast", 20, 500_000).await;
    let expected = BTreeMap::from([("alltoall".to_owned(), 1e6), ("bcast".to_owned(), 5e5)]);
    assert_eq!(booked(&client).await, expected);
}

#[tokio::test]
async fn where_all_earlier_rows_have_expired_counting_begins_anew() {
    let client = expired().await;
    client.batch_execute("DELETE FROM internal.mpi_node_traffic").await.unwrap();
    row(&client, "alltoall", 30, 300_001_000_000).await;
    row(&client, "alltoall", 20, 300_003_000_000).await;
    assert_eq!(booked(&client).await, BTreeMap::from([("alltoall".to_owned(), 2e6)]));
}
