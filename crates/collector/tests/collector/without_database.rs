//! The collector against a store in memory that can be away, refuse and forget, with real senders: spools,
//! the ship loop and gRPC.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use throughline_collector::{Access, CommitError, Committer, Leaser, check_listen, run};
use throughline_daemon::SelfMetrics;
use throughline_delivery::wire::collect_client::CollectClient;
use throughline_delivery::wire::{LeaseRequest, PutRequest};
use throughline_delivery::{GrpcSink, Leases, Reason, ShipStats, TlsFiles, ship};
use throughline_sample::Message;
use throughline_sample::catalogue::{COMMIT_FAILURES, COMMITS, ENTRIES_REJECTED};
use throughline_sample::wire::Batch;
use throughline_spool::{Class, Config, Spool};
use throughline_store::{Content, Entry, TermGrant, TermRequest, WriteOutcome};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

/// A store in memory with a ledger like the real one.
#[derive(Clone, Default)]
struct Memory {
    away: Arc<AtomicBool>,
    /// The next commit happens, and its answer is lost.
    lose_answer: Arc<AtomicBool>,
    content: Arc<Mutex<MemoryContent>>,
}

#[derive(Default)]
struct MemoryContent {
    ledger: HashMap<Uuid, u64>,
    /// (spool id, order in the batch) of each entry stored.
    rows: Vec<(Uuid, u64)>,
    aside: Vec<(Uuid, u64, String)>,
    term: Option<(Uuid, String)>,
    largest: usize,
}

/// The first to request the term has it; decisions over time are the store's, and its tests'.
#[tonic::async_trait]
impl Leaser for Memory {
    async fn ask(&self, request: &TermRequest) -> Result<TermGrant, CommitError> {
        if self.away.load(Relaxed) {
            return Err(CommitError::Away("switched off".into()));
        }
        let mut content = self.content.lock().unwrap();
        let (holder, name) = content.term.get_or_insert((request.crawler, request.name.clone())).clone();
        Ok(TermGrant { granted: holder == request.crawler, holder: name, ..TermGrant::default() })
    }
}

impl Committer for Memory {
    async fn commit(&mut self, entries: &[Entry]) -> Result<WriteOutcome, CommitError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if self.away.load(Relaxed) {
            return Err(CommitError::Away("switched off".into()));
        }
        if entries.iter().any(|e| matches!(&e.content, Content::Batch(b) if b.node == "poison")) {
            return Err(CommitError::Refused("poison".into()));
        }
        let mut done = WriteOutcome::default();
        let mut content = self.content.lock().unwrap();
        content.largest = content.largest.max(entries.len());
        for entry in entries {
            let highest = content.ledger.entry(entry.spool_id).or_default();
            if entry.sequence <= *highest {
                done.duplicates += 1;
                continue;
            }
            *highest = entry.sequence;
            match &entry.content {
                // The collector's own metrics.
                Content::Batch(batch) if batch.node == "server" => {}
                Content::Batch(batch) => {
                    content.rows.push((entry.spool_id, batch.order));
                    done.rows += 1;
                }
                Content::Undecodable { reason, .. } => {
                    content.aside.push((entry.spool_id, entry.sequence, reason.clone()));
                    done.quarantined += 1;
                }
            }
        }
        drop(content);
        if self.lose_answer.swap(false, Relaxed) {
            return Err(CommitError::Away("connection lost".into()));
        }
        Ok(done)
    }

    async fn isolate(&mut self, _: &Entry) -> Result<WriteOutcome, CommitError> {
        Err(CommitError::Refused("poison".into()))
    }
}

struct Collector {
    address: SocketAddr,
    metrics: SelfMetrics,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

async fn start(store: &Memory, address: Option<SocketAddr>) -> Collector {
    start_for(store, address, Access::default()).await
}

/// Writers of a collector: one spool has one of them, and these tests have more spools than that.
const WRITERS: usize = 3;

async fn start_for(store: &Memory, address: Option<SocketAddr>, access: Access) -> Collector {
    let wanted = address.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let listener = tokio::net::TcpListener::bind(wanted).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (metrics, stop) = (SelfMetrics::default(), CancellationToken::new());
    let leaser = Arc::new(store.clone());
    let writers = vec![store.clone(); WRITERS];
    let work = run(
        listener,
        writers,
        leaser,
        throughline_collector::NoDetail,
        access,
        metrics.clone(),
        "server".into(),
        stop.clone(),
    );
    let task = tokio::spawn(work);
    Collector { address, metrics, stop, task }
}

fn batch(node: &str, order: u64) -> Vec<u8> {
    Batch { node: node.into(), order, ..Batch::default() }.encode_to_vec()
}

struct Sender {
    spool: Spool,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn sender(address: SocketAddr) -> Sender {
    let spool = Spool::in_memory(Config::default()).unwrap();
    let sink = GrpcSink::new(&format!("http://{address}")).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let (spool, stop) = (spool.clone(), stop.clone());
        async move { ship(&spool, &sink, stop, &ShipStats::default()).await }
    });
    Sender { spool, stop, task }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn many_senders_an_absent_store_a_lost_answer_and_a_restart_store_all_exactly_once() {
    const SENDERS: usize = 20;
    const EACH: u64 = 200;
    let store = Memory::default();
    let first = start(&store, None).await;
    let senders: Vec<Sender> = (0..SENDERS).map(|_| sender(first.address)).collect();
    for order in 0..EACH {
        for sender in &senders {
            sender.spool.append(batch("n", order), Class::Precious).unwrap();
        }
        match order {
            50 => store.away.store(true, Relaxed),
            100 => {
                until("a failed commit", || {
                    first.metrics.get("collector", &COMMIT_FAILURES).unwrap_or(0.0) > 0.0
                })
                .await;
                store.away.store(false, Relaxed);
                store.lose_answer.store(true, Relaxed);
            }
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    // A second collector takes over at the same address while entries are on their way.
    first.stop.cancel();
    first.task.await.unwrap().unwrap();
    let second = start(&store, Some(first.address)).await;
    for sender in &senders {
        until("delivery", || sender.spool.stats().backlog_entries == 0).await;
        sender.stop.cancel();
    }
    for sender in senders {
        sender.task.await.unwrap();
    }
    second.stop.cancel();
    second.task.await.unwrap().unwrap();
    let content = store.content.lock().unwrap();
    let mut per_spool: HashMap<Uuid, Vec<u64>> = HashMap::new();
    for (spool, order) in &content.rows {
        per_spool.entry(*spool).or_default().push(*order);
    }
    assert_eq!(per_spool.len(), SENDERS);
    for orders in per_spool.values() {
        assert_eq!(*orders, (0..EACH).collect::<Vec<_>>(), "each once and in order");
    }
    let commits = first.metrics.get("collector", &COMMITS).unwrap();
    assert!(content.largest > SENDERS, "entries of many senders share a transaction: {commits} commits");
}

#[tokio::test]
async fn what_cannot_be_decoded_or_stored_is_set_aside_and_blocks_nobody() {
    let store = Memory::default();
    let collector = start(&store, None).await;
    let (good, bad) = (sender(collector.address), sender(collector.address));
    for order in 0..50 {
        good.spool.append(batch("n", order), Class::Precious).unwrap();
        let payload = match order {
            10 => batch("poison", order),
            20 => vec![0xff; 40],
            _ => batch("n", order),
        };
        bad.spool.append(payload, Class::Precious).unwrap();
    }
    until("delivery", || good.spool.stats().backlog_entries + bad.spool.stats().backlog_entries == 0).await;
    {
        let content = store.content.lock().unwrap();
        assert_eq!(content.rows.iter().filter(|(id, _)| *id == good.spool.id()).count(), 50);
        assert_eq!(content.rows.iter().filter(|(id, _)| *id == bad.spool.id()).count(), 48);
        let mut aside: Vec<u64> = content.aside.iter().map(|(_, sequence, _)| *sequence).collect();
        aside.sort_unstable();
        assert_eq!(aside, [11, 21]);
    }
    assert_eq!(collector.metrics.get(("collector", "quarantined"), &ENTRIES_REJECTED), Some(2.0));
    // Stopping while senders are connected ends.
    collector.stop.cancel();
    collector.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_that_breaks_the_protocol_is_refused_and_others_go_on() {
    let store = Memory::default();
    let collector = start(&store, None).await;
    let good = sender(collector.address);
    for request in [
        PutRequest { spool_id: vec![1, 2, 3].into(), sequence: 1, batch: vec![].into() },
        PutRequest { spool_id: vec![0; 16].into(), sequence: 0, batch: vec![].into() },
        PutRequest { spool_id: vec![0; 16].into(), sequence: u64::MAX, batch: vec![].into() },
    ] {
        let mut client = CollectClient::connect(format!("http://{}", collector.address)).await.unwrap();
        let requests = tokio_stream::iter([request]);
        let mut answers = client.put(requests).await.unwrap().into_inner();
        let status = answers.message().await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    }
    assert_eq!(collector.metrics.get(("collector", "protocol"), &ENTRIES_REJECTED), Some(3.0));
    good.spool.append(batch("n", 0), Class::Precious).unwrap();
    until("delivery", || good.spool.stats().backlog_entries == 0).await;
    collector.stop.cancel();
    collector.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_while_the_store_is_away_ends_and_acknowledges_nothing() {
    let store = Memory::default();
    store.away.store(true, Relaxed);
    let collector = start(&store, None).await;
    let good = sender(collector.address);
    good.spool.append(batch("n", 0), Class::Precious).unwrap();
    until("a failed commit", || collector.metrics.get("collector", &COMMIT_FAILURES).unwrap_or(0.0) > 0.0)
        .await;
    collector.stop.cancel();
    tokio::time::timeout(DEADLINE, collector.task).await.unwrap().unwrap().unwrap();
    assert_eq!(good.spool.acked(), 0);
}

#[test]
fn other_machines_are_refused_without_tls() {
    check_listen(([127, 0, 0, 1], 9463).into(), "collect.listen", None).unwrap();
    let refusal = check_listen(([0, 0, 0, 0], 9463).into(), "collect.listen", None).unwrap_err();
    assert_eq!(refusal.status, throughline_daemon::ExitStatus::Usage);
    assert!(refusal.to_string().contains("collect.listen = \"0.0.0.0:9463\""), "{refusal}");
}

/// Certificates of an authority, as files.
struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut of_it = rcgen::CertificateParams::new(Vec::new()).unwrap();
        of_it.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = of_it.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority { folder, issuer: rcgen::Issuer::new(of_it, key) }
    }

    /// Files of somebody with this name, who trusts this authority.
    fn files(&self, name: &str) -> TlsFiles {
        let key = rcgen::KeyPair::generate().unwrap();
        let of_it = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = of_it.signed_by(&key, &self.issuer).unwrap();
        let path = |kind: &str| self.folder.path().join(format!("{name}.{kind}.pem"));
        std::fs::write(path("certificate"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        TlsFiles { ca: self.folder.path().join("ca.pem"), certificate: path("certificate"), key: path("key") }
    }
}

/// A sender with these certificates, and why it failed last.
fn certified(address: SocketAddr, tls: TlsFiles) -> (Sender, Arc<ShipStats>) {
    let spool = Spool::in_memory(Config::default()).unwrap();
    let url = format!("https://localhost:{}", address.port());
    let sink = GrpcSink::with_tls(&url, Some(tls)).unwrap();
    let (stop, stats) = (CancellationToken::new(), Arc::new(ShipStats::default()));
    let task = tokio::spawn({
        let (spool, stop, stats) = (spool.clone(), stop.clone(), stats.clone());
        async move { ship(&spool, &sink, stop, &stats).await }
    });
    (Sender { spool, stop, task }, stats)
}

#[tokio::test]
async fn with_tls_a_sender_is_who_its_certificate_says() {
    let (authority, other) = (Authority::new(), Authority::new());
    let tls = Some(authority.files("localhost"));
    let access = Access { tls, crawlers: ["mgmt1".to_owned()].into(), ..Access::default() };
    let store = Memory::default();
    let collector = start_for(&store, None, access).await;
    let stored = || store.content.lock().unwrap().rows.len();

    let (node, _) = certified(collector.address, authority.files("node1"));
    node.spool.append(batch("node1", 1), Class::Precious).unwrap();
    until("a node's own batch", || node.spool.acked() == 1).await;
    let (crawler, _) = certified(collector.address, authority.files("mgmt1"));
    crawler.spool.append(batch("", 1), Class::Precious).unwrap();
    until("a crawler's batch", || crawler.spool.acked() == 1).await;
    assert_eq!(stored(), 2);

    // Of another node, of the fabric without being a crawler, of another authority, without TLS.
    let (forger, refused) = certified(collector.address, authority.files("node2"));
    forger.spool.append(batch("node1", 1), Class::Precious).unwrap();
    until("the refusal of a forged node", || refused.failures(Reason::Refused) > 0).await;
    let (pretender, refused) = certified(collector.address, authority.files("node3"));
    pretender.spool.append(batch("", 1), Class::Precious).unwrap();
    until("the refusal of a forged crawler", || refused.failures(Reason::Refused) > 0).await;
    let stranger = TlsFiles { ca: authority.files("x").ca, ..other.files("node1") };
    let (stranger, refused) = certified(collector.address, stranger);
    stranger.spool.append(batch("node1", 2), Class::Precious).unwrap();
    let failed = || refused.failures(Reason::Connect) + refused.failures(Reason::Lost) > 0;
    until("the refusal of another authority's", failed).await;
    let plain = sender(collector.address);
    plain.spool.append(batch("node1", 3), Class::Precious).unwrap();
    let lease = LeaseRequest { crawler: vec![1; 16].into(), ..LeaseRequest::default() };
    let url = format!("https://localhost:{}", collector.address.port());
    let ask = async |name: &str| {
        let sink = GrpcSink::with_tls(&url, Some(authority.files(name))).unwrap();
        Leases::new(sink).ask(lease.clone()).await
    };
    assert_eq!(ask("node4").await.unwrap_err().reason, Reason::Refused);
    assert!(ask("mgmt1").await.unwrap().granted);
    assert_eq!(stored(), 2, "nothing of those");
    assert_eq!(plain.spool.acked(), 0);
    for sender in [node, crawler, forger, pretender, stranger, plain] {
        sender.stop.cancel();
        sender.task.await.unwrap();
    }
    collector.stop.cancel();
    collector.task.await.unwrap().unwrap();
}
