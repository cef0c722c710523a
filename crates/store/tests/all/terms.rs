//! Terms of crawlers: at any time one of them is written, and never two.

use std::time::Duration;

use crate::batches::{PREFIX, SECOND, START, entry, port_batch};
use throughline_store::{Database, TermClient, TermRequest, WriteOutcome, Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

/// Times within these tests: seconds after [`START`].
fn request(crawler: Uuid, name: &str, since: i64) -> TermRequest {
    TermRequest {
        fabric: testing::fabric(PREFIX).unwrap(),
        allowed: Vec::new(),
        accept: false,
        crawler,
        name: name.to_owned(),
        since: START + since * SECOND,
        lease: Duration::from_secs(600),
        release: false,
    }
}

/// As if the present term had not been extended for long.
async fn let_expire(client: &Client) {
    let expire =
        "UPDATE internal.crawler_term SET expires_at = now() - interval '1 second' WHERE ended_at IS NULL";
    client.execute(expire, &[]).await.unwrap();
}

/// Seconds after [`START`] that have rows.
async fn written(client: &Client) -> Vec<i64> {
    let query = "SELECT DISTINCT extract(epoch FROM time)::bigint FROM internal.ib_port_counters ORDER BY 1";
    let rows = client.query(query, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, i64>(0) - START / SECOND).collect()
}

struct Crawler {
    id: Uuid,
    name: &'static str,
    writer: Writer,
    terms: TermClient,
    sequence: u64,
}

impl Crawler {
    /// Each one behind a collector of its own.
    fn new(name: &'static str, database: &Database) -> Crawler {
        let (writer, terms) = (Writer::new(database.clone()), TermClient::new(database.clone()));
        Crawler { id: Uuid::new_v4(), name, writer, terms, sequence: 0 }
    }

    async fn ask(&mut self, since: i64) -> bool {
        self.terms.ask(&request(self.id, self.name, since)).await.unwrap().granted
    }

    /// Writes the sweep of this second.
    async fn write(&mut self, second: u64) -> WriteOutcome {
        self.sequence += 1;
        let outcome =
            self.writer.write(&[entry(self.id, self.sequence, port_batch(second, 3))]).await.unwrap();
        assert_eq!(outcome.fenced + u64::from(outcome.rows == 3), 1, "{outcome:?}");
        outcome
    }
}

async fn two() -> (Client, Crawler, Crawler) {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    (client, Crawler::new("a", &database), Crawler::new("b", &database))
}

#[tokio::test]
async fn the_second_stands_by_until_the_first_is_silent() {
    let (client, mut a, mut b) = two().await;
    assert!(a.ask(0).await);
    assert!(!b.ask(1).await, "a has it");
    assert!(a.ask(2).await, "and keeps it");
    a.write(1).await;
    a.write(2).await;
    let answer = b.terms.ask(&request(b.id, "b", 3)).await.unwrap();
    assert_eq!((answer.granted, answer.holder.as_str()), (false, "a"));
    assert_eq!(answer.fabric, "0xfe80000000000000");
    let_expire(&client).await;
    assert!(b.ask(4).await);
    assert!(!a.ask(5).await, "b has it now");
    // What a read before b took over is still delivered; what it read afterwards is not.
    assert_eq!(a.write(3).await.fenced, 0);
    assert_eq!(b.write(5).await.fenced, 0);
    assert_eq!(a.write(6).await.fenced, 1);
    assert_eq!(written(&client).await, [1, 2, 3, 5]);
}

#[tokio::test]
async fn a_term_does_not_begin_before_the_last_record_of_the_one_before() {
    let (client, mut a, mut b) = two().await;
    assert!(a.ask(0).await);
    a.write(10).await;
    let_expire(&client).await;
    assert!(b.ask(7).await, "its clock is behind, or it swept alone since then");
    assert_eq!(b.write(8).await.fenced, 1);
    assert_eq!(b.write(11).await.fenced, 0);
    assert_eq!(written(&client).await, [10, 11]);
}

#[tokio::test]
async fn a_term_given_back_is_free_at_once_and_what_was_read_in_it_still_arrives() {
    let (client, mut a, mut b) = two().await;
    assert!(a.ask(0).await);
    let back = TermRequest { release: true, ..request(a.id, "a", 2) };
    assert!(!a.terms.ask(&back).await.unwrap().granted);
    assert_eq!(a.write(1).await.fenced, 0, "from its spool");
    let_expire(&client).await;
    assert!(b.ask(3).await);
    assert!(!b.terms.ask(&back).await.unwrap().granted);
    assert!(b.ask(4).await, "one that has no term gives none back");
    assert_eq!(written(&client).await, [1]);
}

#[tokio::test]
async fn who_never_asks_gets_a_term_by_writing() {
    let (client, mut a, mut b) = two().await;
    a.write(1).await;
    assert_eq!(b.write(2).await.fenced, 1);
    assert!(!b.ask(2).await, "a writes");
    assert_eq!(a.write(2).await.fenced, 0);
    let_expire(&client).await;
    assert_eq!(b.write(4).await.fenced, 0, "a is silent");
    assert_eq!(a.write(5).await.fenced, 1);
    assert_eq!(written(&client).await, [1, 2, 4]);
}

#[tokio::test]
async fn of_two_that_were_cut_off_the_first_to_deliver_a_stretch_has_it() {
    let (client, mut a, mut b) = two().await;
    // Both swept from second 1 on while no collector could be queried; then one was, and says so.
    assert!(b.ask(20).await);
    assert_eq!(a.write(5).await.fenced, 0, "nobody had seconds 5 to 7");
    assert_eq!(a.write(6).await.fenced, 0);
    assert_eq!(a.write(7).await.fenced, 0);
    assert_eq!(b.write(6).await.fenced, 1, "a had");
    assert_eq!(b.write(9).await.fenced, 0, "nobody had second 9");
    assert_eq!(a.write(21).await.fenced, 1);
    assert_eq!(b.write(21).await.fenced, 0);
    assert_eq!(written(&client).await, [5, 6, 7, 9, 21]);
}

#[tokio::test]
async fn two_that_fight_never_write_the_same_second() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let crawlers = ["a", "b", "c"].map(|name| {
        let mut crawler = Crawler::new(name, &database);
        let expire = database.clone();
        tokio::spawn(async move {
            let client = expire.connect().await.unwrap();
            let mut rows = 0;
            for second in 1..40 {
                if second % 7 == 0 {
                    let_expire(&client).await;
                }
                if second % 3 == 0 {
                    crawler.ask(i64::try_from(second).unwrap()).await;
                }
                rows += crawler.write(second).await.rows;
            }
            rows
        })
    });
    let mut rows = 0;
    for crawler in crawlers {
        rows += crawler.await.unwrap();
    }
    assert!(rows > 0);
    // The key of the table has no crawler: a second written twice would have broken it, or been left out as a
    // repetition and not counted.
    let stored: i64 =
        client.query_one("SELECT count(*) FROM internal.ib_port_counters", &[]).await.unwrap().get(0);
    assert_eq!(u64::try_from(stored).unwrap(), rows);
    let overlaps = "SELECT count(*) FROM internal.crawler_term x JOIN internal.crawler_term y ON x.id < y.id \
                    AND x.fabric_id = y.fabric_id AND x.began_at < coalesce(y.ended_at, 'infinity') \
                    AND y.began_at < coalesce(x.ended_at, 'infinity')";
    let overlaps: i64 = client.query_one(overlaps, &[]).await.unwrap().get(0);
    assert_eq!(overlaps, 0);
}
