//! Clocks that are off, as `status` and the node's page have them: the server's first, and senders that are right by the others.

use std::time::{SystemTime, UNIX_EPOCH};

use throughline_query::{sender_clocks, status};
use throughline_store::{Database, SenderClock, SenderClocks, ServerClock, testing};

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

async fn note(database: &Database, offsets: &[(&str, f64)], server: f64) {
    // By a clock that is off itself: what is old is so against the newest.
    let measured_at = now() + (server * 1e9) as i64;
    let sender = |(sender, offset_seconds): &(&str, f64)| SenderClock {
        sender: (*sender).into(),
        measured_at,
        sender_time: measured_at,
        offset_seconds: *offset_seconds,
        round_trip_seconds: 0.001,
        newest_record: None,
    };
    let of_server = ServerClock {
        server: "mgmt1".into(),
        judged_at: measured_at,
        offset_seconds: server,
        senders_alike: if server == 0.0 { 0 } else { 5 },
        senders: 6,
    };
    let senders: Vec<SenderClock> = offsets.iter().map(sender).collect();
    SenderClocks::new(database.clone()).note(&senders, &of_server).await.unwrap();
}

#[tokio::test]
async fn clocks_that_are_off_are_listed_and_the_servers_excuses_its_senders() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    note(&database, &[("node:gone", 99.0)], 0.0).await;
    client
        .batch_execute("UPDATE internal.sender_clock SET measured_at = now() - interval '1 hour'")
        .await
        .unwrap();
    let senders = [("node:n1", 0.4), ("node:n3", 300.2), ("node:n4", -300.0), ("crawler:fab1", -7.0)];
    note(&database, &senders, 0.0).await;
    let clocks = status::read(&client, 1).await.unwrap().clocks;
    let names: Vec<(&str, f64)> =
        clocks.iter().map(|clock| (clock.instance.as_str(), clock.offset_seconds)).collect();
    assert_eq!(names, [("n3", 300.2), ("n4", -300.0), ("fab1", -7.0)]);
    assert_eq!(sender_clocks::offset_of_node(&client, "n3").await.unwrap(), Some(300.2));
    assert_eq!(sender_clocks::offset_of_node(&client, "n1").await.unwrap(), None);
    assert_eq!(sender_clocks::offset_of_node(&client, "gone").await.unwrap(), None);

    let senders = [("node:n1", 240.0), ("node:n3", 241.0), ("node:n4", -60.0), ("crawler:fab1", 239.0)];
    note(&database, &senders, -240.0).await;
    let clocks = status::read(&client, 1).await.unwrap().clocks;
    assert_eq!(
        (clocks[0].instance.as_str(), clocks[0].senders_alike, clocks[0].senders),
        ("mgmt1", Some(5), Some(6))
    );
    assert_eq!((clocks.len(), clocks[1].instance.as_str()), (2, "n4"));
    assert_eq!(sender_clocks::offset_of_node(&client, "n3").await.unwrap(), None);
}
