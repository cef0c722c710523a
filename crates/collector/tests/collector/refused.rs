//! Batches that are refused because of the configuration: they wait at their sender, show among the rejected records, and
//! hold up nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::site::*;
use throughline_delivery::{Outbox, Quarantine, SpoolSection};
use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_spool::{Class, Spool};

fn open() -> (Spool, Quarantine) {
    let section = SpoolSection { memory_only: true, ..SpoolSection::default() };
    let nowhere = std::path::Path::new("unused");
    let spool = section.open(nowhere, String::new()).unwrap();
    let quarantine = section.quarantine(nowhere, String::new(), &spool).unwrap();
    (spool, quarantine)
}

fn append(spool: &Spool, node: &str, text: &str) {
    let batch = Batch { node: node.into(), events: vec![event(now(), text)], ..Batch::default() };
    spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const EVENTS: &str = "SELECT text FROM internal.events WHERE kind = 'test' ORDER BY text";

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_another_name_wait_at_their_sender_until_the_certificate_has_it() {
    let site = Arc::new(Site::start().await);
    let (spool, quarantine) = open();
    // The node had another name before, and its spool was not empty.
    (0..3).for_each(|n| append(&spool, "old", &format!("a{n}")));
    (0..2).for_each(|n| append(&spool, "new", &format!("b{n}")));
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), site.sink("new"));
    until("an empty spool", async || spool.stats().backlog_entries == 0).await;
    assert_eq!(site.texts(EVENTS).await, ["b0", "b1"]);
    assert_eq!(quarantine.stats().backlog_entries, 3);
    let shown = "SELECT sender || ' ' || reason || ' ' || kinds FROM internal.rejected_records";
    until("its rejected batches", async || site.texts(shown).await == ["node:new node batch"]).await;
    let text = &outbox.shipped().conditions()[0].text;
    assert!(text.contains("node 'old'") && text.contains("[node] name"), "{text}");
    outbox.drain().await;
    // The administrator adds the name.
    let sink = site.sink("new");
    site.authority.files_with("new", &["new", "old"]);
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), sink);
    until("the rest", async || quarantine.stats().backlog_entries == 0).await;
    assert_eq!(site.texts(EVENTS).await, ["a0", "a1", "a2", "b0", "b1"]);
    outbox.drain().await;
    Arc::into_inner(site).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_in_a_spool_of_somebody_else_are_stored_under_another_spool_id() {
    let site = Site::start().await;
    let (spool, quarantine) = open();
    append(&spool, "first", "a");
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), site.sink("first"));
    until("the owner's batch", async || spool.stats().backlog_entries == 0).await;
    outbox.drain().await;
    (0..5).for_each(|n| append(&spool, "second", &format!("b{n}")));
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), site.sink("second"));
    until("all", async || site.texts(EVENTS).await == ["a", "b0", "b1", "b2", "b3", "b4"]).await;
    assert_eq!(spool.stats().backlog_entries, 0);
    assert_eq!(quarantine.taken(), 5);
    outbox.drain().await;
    site.end().await;
}
