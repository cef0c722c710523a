//! A collector that refuses entries: the others are stored, the refused ones are kept, and stored once they may be.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use throughline_daemon::Level;
use throughline_delivery::quarantine::refused_entries;
use throughline_delivery::{Outbox, Refusal, SinkError, SpoolSection};

use super::*;

const REASON: &str = "the certificate has another name";

/// A collector with the database's ledger: what is not above the highest sequence of its spool is a repetition.
#[derive(Clone, Default)]
struct Strict {
    /// Whether odd payloads may be stored.
    takes_odd: Arc<AtomicBool>,
    ledger: Arc<Mutex<HashMap<uuid::Uuid, u64>>>,
    stored: Arc<Mutex<Vec<u64>>>,
}

impl Strict {
    fn stored(&self) -> Vec<u64> {
        let mut stored = self.stored.lock().unwrap().clone();
        stored.sort_unstable();
        stored
    }

    /// Whether the entry was refused.
    fn store(&self, entry: &Entry) -> bool {
        let payload = u64::from_le_bytes(entry.payload[..].try_into().unwrap());
        if payload % 2 == 1 && !self.takes_odd.load(Relaxed) {
            return true;
        }
        let mut ledger = self.ledger.lock().unwrap();
        let highest = ledger.entry(entry.spool_id).or_default();
        if entry.sequence > *highest {
            *highest = entry.sequence;
            self.stored.lock().unwrap().push(payload);
        }
        false
    }
}

impl Sink for Strict {
    fn connect(&self, on_refusal: OnRefusal) -> Connecting<'_> {
        let (entries, mut queue) = mpsc::channel::<Entry>(64);
        let (sent, answers) = mpsc::channel(64);
        let collector = self.clone();
        tokio::spawn(async move {
            while let Some(entry) = queue.recv().await {
                let (spool_id, sequence) = (entry.spool_id, entry.sequence);
                let answer = match (collector.store(&entry), on_refusal) {
                    (false, _) => Ok(Answer::Stored(Ack { spool_id, sequence })),
                    (true, OnRefusal::Continue) => {
                        Ok(Answer::Refused(Refusal { spool_id, sequence, reason: REASON.into() }))
                    }
                    (true, OnRefusal::End) => {
                        Err(SinkError { to: "strict".into(), reason: Reason::Refused, detail: REASON.into() })
                    }
                };
                let is_last = answer.is_err();
                if sent.send(answer).await.is_err() || is_last {
                    return;
                }
            }
        });
        Box::pin(async { Ok(Session { entries, answers }) })
    }

    fn name(&self) -> String {
        "strict".into()
    }
}

fn open(folder: &Path) -> (Spool, throughline_delivery::Quarantine) {
    let section = SpoolSection::default();
    let spool = section.open(&folder.join("spool"), "node1".into()).unwrap();
    let quarantine = section.quarantine(&folder.join("refused"), "node1".into(), &spool).unwrap();
    (spool, quarantine)
}

fn refused(folder: &Path) -> Vec<throughline_delivery::quarantine::RefusedEntry> {
    let mut all = Vec::new();
    refused_entries(&folder.join("refused"), |entry| all.push(entry)).unwrap();
    all
}

#[tokio::test]
async fn refused_entries_block_nobody_and_are_stored_once_the_configuration_is_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Strict::default();
    let (spool, quarantine) = open(folder.path());
    let first_id = spool.id();
    fill(&spool, 200);
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), collector.clone());
    let even: Vec<u64> = (0..200).step_by(2).collect();
    until("the delivery of all others", || spool.stats().backlog_entries == 0).await;
    assert_eq!(collector.stored(), even);
    assert_eq!((quarantine.taken(), quarantine.stats().backlog_entries), (100, 100));
    // For people, while the daemon runs.
    let kept = refused(folder.path());
    assert_eq!(
        kept.iter().map(|entry| entry.sequence).collect::<Vec<_>>(),
        (2..=200).step_by(2).collect::<Vec<_>>()
    );
    assert!(kept.iter().all(|entry| entry.spool_id == first_id && entry.reason == REASON));
    let conditions = outbox.shipped().conditions();
    assert!(
        matches!(&conditions[..], [one] if one.level == Level::Failing && one.text.contains(REASON)
        || one.text.contains("100 batches")),
        "{conditions:?}"
    );
    outbox.drain().await;
    drop((spool, quarantine));
    // The next run finds them; entries of its own went past them before.
    let (spool, quarantine) = open(folder.path());
    assert_eq!(quarantine.stats().backlog_entries, 100);
    assert!(quarantine.conditions()[0].text.contains(REASON));
    collector.takes_odd.store(true, Relaxed);
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), collector.clone());
    until("the delivery of what was refused", || quarantine.stats().backlog_entries == 0).await;
    assert_eq!(collector.stored(), (0..200).collect::<Vec<_>>(), "each once");
    assert!(outbox.shipped().conditions().is_empty());
    outbox.drain().await;
    assert!(refused(folder.path()).is_empty());
}

#[tokio::test]
async fn a_node_whose_batches_are_all_refused_loses_none_and_recovers_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Strict::default();
    let (spool, quarantine) = open(folder.path());
    let odd = |n: u64| spool.append((2 * n + 1).to_le_bytes().to_vec(), Class::Precious).unwrap();
    let outbox = Outbox::start(spool.clone(), quarantine.clone(), collector.clone());
    (0..50).for_each(|n| {
        odd(n);
    });
    until("their quarantine", || quarantine.stats().backlog_entries == 50).await;
    let conditions = outbox.shipped().conditions();
    assert_eq!(conditions[0].level, Level::Failing);
    assert!(
        conditions[0].text.contains(REASON) && conditions[0].text.contains("50 are kept"),
        "{conditions:?}"
    );
    collector.takes_odd.store(true, Relaxed);
    // The next batch shows that the fault is corrected.
    odd(50);
    until("delivery of all", || collector.stored().len() == 51).await;
    assert_eq!(collector.stored(), (0..51).map(|n| 2 * n + 1).collect::<Vec<_>>());
    until("an empty quarantine", || outbox.shipped().conditions().is_empty()).await;
    outbox.drain().await;
}
