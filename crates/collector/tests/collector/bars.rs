//! Barred nodes and certificates, on a collector with TLS and the list in a real database.

use crate::site::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_collector::Access;
use throughline_delivery::{GrpcSink, OnRefusal, Sink};
use throughline_sample::Message;
use throughline_sample::wire::*;
use throughline_spool::{Class, Entry};
use throughline_store::{
    BarSubject, NodeBars, Writer, bar_node, barred_nodes, node_certificates, testing, unbar_node,
};
use tokio::sync::Mutex;
use uuid::Uuid;

async fn site() -> Site {
    let database = testing::database().await;
    let writers = (0..2).map(|_| Writer::new(database.clone())).collect();
    let bars = Arc::new(Mutex::new(NodeBars::new(database.clone())));
    Site::start_as(database, writers, Access { bars: Some(bars), ..Access::default() }).await
}

fn batch(node: &str) -> Vec<(Uuid, u64, Vec<u8>)> {
    let events = vec![event(now(), node)];
    vec![(Uuid::new_v4(), 1, Batch { node: node.into(), events, ..Batch::default() }.encode_to_vec())]
}

/// Tries until it is accepted, or refused with a reason that has this text.
async fn until(sink: &GrpcSink, node: &str, refused: Option<&str>) {
    let end = Instant::now() + DEADLINE;
    loop {
        let answer = Site::put_through(sink, &batch(node)).await;
        match (&answer, refused) {
            (Ok(()), None) => return,
            (Err(why), Some(text)) if why.contains(text) => return,
            _ => assert!(Instant::now() < end, "{node}: {answer:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn is_barred(site: &Site, arguments: &str) -> bool {
    let query = format!("SELECT internal.is_barred({arguments})");
    site.client.query_one(&query, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_23_a_barred_nodes_streams_end_and_unbar_lets_it_in_again() {
    let site = site().await;
    let (evil, good) = (site.sink("evil"), site.sink("good"));
    let mut open = evil.connect(OnRefusal::Continue).await.unwrap();
    let (spool_id, sequence, payload) = batch("evil").remove(0);
    let payload = payload.into();
    let entry = Entry { spool_id, sequence, class: Class::Precious, appended_ns: 0, payload };
    open.entries.send(entry).await.unwrap();
    open.next_ack().await.unwrap().unwrap();

    let mut client = site.database.connect().await.unwrap();
    let subject = BarSubject::Node("evil".into());
    assert!(bar_node(&mut client, &subject, "root", "stolen").await.unwrap());
    assert!(!bar_node(&mut client, &subject, "root", "").await.unwrap(), "it is barred already");
    assert!(is_barred(&site, "'evil'").await && !is_barred(&site, "'good'").await);
    assert_eq!(barred_nodes(&site.client).await.unwrap(), ["evil"]);
    // The stream that is open ends with the reason, though nothing is sent over it.
    let ended = tokio::time::timeout(DEADLINE, open.next_ack()).await.unwrap().unwrap().unwrap_err();
    let text = ended.to_string();
    assert!(
        text.contains("node evil is barred (stolen)") && text.contains("throughline node unbar"),
        "{text}"
    );
    // A new one is refused, with any certificate of that name; others go on.
    let refused = Site::put_through(&site.sink("evil"), &batch("evil")).await.unwrap_err();
    assert!(refused.contains("permission") && refused.contains("is barred"), "{refused}");
    Site::put_through(&good, &batch("good")).await.unwrap();
    assert_eq!(site.number("SELECT count(*) FROM internal.events WHERE instance = 'evil'").await, 1);
    // Let in again.
    assert!(unbar_node(&mut client, &subject, "root").await.unwrap());
    assert!(!unbar_node(&mut client, &subject, "root").await.unwrap());
    assert!(!is_barred(&site, "'evil'").await);
    until(&evil, "evil", None).await;
    let events = "SELECT kind || ': ' || text FROM internal.events WHERE kind LIKE 'node.%' ORDER BY time";
    assert_eq!(
        site.texts(events).await,
        [
            "node.barred: node evil was barred by root: stolen",
            "node.unbarred: node evil was let in again by root"
        ]
    );
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_23_one_certificate_is_barred_by_its_serial_number() {
    let site = site().await;
    // Two certificates of one name: the stolen one and its successor.
    let stolen = site.sink("n1");
    until(&stolen, "n1", None).await;
    let end = Instant::now() + DEADLINE;
    let serial = loop {
        if let [one] = &node_certificates(&site.client).await.unwrap()[..] {
            assert_eq!((one.node.as_str(), &one.bar), ("n1", &None));
            break one.serial.clone();
        }
        assert!(Instant::now() < end, "the certificate is not noted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mut client = site.database.connect().await.unwrap();
    let subject = BarSubject::Serial(serial.clone());
    assert!(bar_node(&mut client, &subject, "root", "").await.unwrap());
    assert_eq!(barred_nodes(&site.client).await.unwrap(), ["n1"]);
    // What it claimed so far counts no more; what comes later under that name is another certificate's.
    assert!(is_barred(&site, "'n1'").await && is_barred(&site, "'n1', now() - interval '1 h'").await);
    assert!(!is_barred(&site, "'n1', now() + interval '1 s'").await);
    until(&stolen, "n1", Some(&format!("the certificate {serial} is barred"))).await;
    let successor =
        GrpcSink::with_tls(&site.url, Some(site.authority.files_with("n1-new", &["n1"]))).unwrap();
    Site::put_through(&successor, &batch("n1")).await.unwrap();
    let listed = node_certificates(&site.client).await.unwrap();
    assert!(
        listed.iter().any(|one| one.bar.as_ref().is_some_and(|bar| bar.subject == subject)),
        "{listed:?}"
    );
    site.end().await;
}
