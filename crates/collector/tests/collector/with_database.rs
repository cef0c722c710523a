//! Two collectors on one real database: senders that change between them are stored once, and what cannot be
//! decoded lies in the quarantine with its bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use throughline_collector::{Access, run};
use throughline_daemon::{Clock, SelfMetrics};
use throughline_delivery::{Connecting, GrpcSink, OnRefusal, ShipStats, Sink, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::{Class, Config, Spool};
use throughline_store::{TermClient, Writer, testing};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Generous: the test waits for conditions.
const DEADLINE: Duration = Duration::from_secs(60);
const SENDERS: u64 = 6;
const EACH: u64 = 150;

/// Goes to another collector with each session.
struct Alternating {
    sinks: [GrpcSink; 2],
    next: AtomicUsize,
}

impl Sink for Alternating {
    fn connect(&self, on_refusal: OnRefusal) -> Connecting<'_> {
        self.sinks[self.next.fetch_add(1, Relaxed) % 2].connect(on_refusal)
    }

    fn name(&self) -> String {
        "either collector".into()
    }
}

fn payload(sender: u64, number: u64) -> Vec<u8> {
    if number == 7 {
        return vec![0xff; 20];
    }
    let event = Event {
        time: Clock::new().now(),
        source: format!("s{sender}"),
        kind: "test".into(),
        severity: "info".into(),
        text: number.to_string(),
        ..Event::default()
    };
    Batch { node: "n".into(), events: vec![event], ..Batch::default() }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_collectors_store_each_entry_once() {
    let database = testing::database().await;
    let stop = CancellationToken::new();
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut collectors = Vec::new();
    for name in ["a", "b"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        let writers = [(); 3].map(|()| Writer::new(database.clone())).into();
        let terms = Arc::new(Mutex::new(TermClient::new(database.clone())));
        let collector = run(
            listener,
            writers,
            terms,
            throughline_collector::NoDetail,
            Access::default(),
            SelfMetrics::default(),
            name.into(),
            stop.clone(),
        );
        collectors.push(tokio::spawn(collector));
    }
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let sinks = [0, 1].map(|n| GrpcSink::new(&format!("http://{}", addresses[n])).unwrap());
        let next = AtomicUsize::new(usize::try_from(sender).unwrap());
        senders.push(tokio::spawn(async move {
            let spool = Spool::in_memory(Config::default()).unwrap();
            let (sink, stats) = (Alternating { sinks, next }, ShipStats::default());
            for number in 0..EACH {
                spool.append(payload(sender, number), Class::Precious).unwrap();
                if number % 30 == 29 {
                    // A session that is cut while entries are on their way, then one with the other collector.
                    let cut = tokio::time::sleep(Duration::from_millis(20 * (sender + 1)));
                    tokio::select! {
                        () = ship(&spool, &sink, CancellationToken::new(), &stats) => {}
                        () = cut => {}
                    }
                }
            }
            let stop = CancellationToken::new();
            let end = async {
                while spool.stats().backlog_entries > 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                stop.cancel();
            };
            tokio::join!(ship(&spool, &sink, stop.clone(), &stats), end);
        }));
    }
    for sender in senders {
        tokio::time::timeout(DEADLINE, sender).await.unwrap().unwrap();
    }
    stop.cancel();
    for collector in collectors {
        collector.await.unwrap().unwrap();
    }
    let client = database.connect().await.unwrap();
    let count = "SELECT source, count(*), count(DISTINCT text) FROM internal.events WHERE kind = 'test' GROUP BY 1 ORDER BY 1";
    let rows = client.query(count, &[]).await.unwrap();
    let found: Vec<(String, i64, i64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
    let good = EACH.cast_signed() - 1;
    let wanted: Vec<_> = (0..SENDERS).map(|s| (format!("s{s}"), good, good)).collect();
    assert_eq!(found, wanted);
    let aside = client.query("SELECT batch FROM internal.batch_quarantine", &[]).await.unwrap();
    assert_eq!(aside.len() as u64, SENDERS);
    assert!(aside.iter().all(|row| row.get::<_, Vec<u8>>(0) == vec![0xff; 20]));
}
