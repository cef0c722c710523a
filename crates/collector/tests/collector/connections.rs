//! Connections of the collector: who may have how many, renewed certificates, the Unix socket, tokens. The attack by
//! 2,200 connections and the one by another user run against `throughline serve` (crates/cli/tests/all/attack_senders.rs).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use throughline_collector::{Access, CommitError, Committer, Leaser, Limits, Socket, run};
use throughline_daemon::SelfMetrics;
use throughline_delivery::{GrpcSink, OnRefusal, Reason, Session, ShipStats, Sink, TlsFiles, ship};
use throughline_sample::Message;
use throughline_sample::catalogue::{CONNECTIONS_REJECTED, OPEN_CONNECTIONS, PENDING_HANDSHAKES};
use throughline_sample::wire::Batch;
use throughline_spool::{Class, Config, Spool};
use throughline_store::{Entry, TermGrant, TermRequest, WriteOutcome};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

/// Entries by spool.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<HashMap<Uuid, usize>>>);

#[tonic::async_trait]
impl Leaser for Memory {
    async fn ask(&self, request: &TermRequest) -> Result<TermGrant, CommitError> {
        Ok(TermGrant { granted: true, holder: request.name.clone(), ..TermGrant::default() })
    }
}

impl Committer for Memory {
    async fn commit(&mut self, entries: &[Entry]) -> Result<WriteOutcome, CommitError> {
        let mut stored = self.0.lock().unwrap();
        entries.iter().for_each(|entry| *stored.entry(entry.spool_id).or_default() += 1);
        Ok(WriteOutcome::default())
    }

    async fn isolate(&mut self, _: &Entry) -> Result<WriteOutcome, CommitError> {
        Err(CommitError::Refused("nothing is refused here".into()))
    }
}

struct Collector {
    address: SocketAddr,
    store: Memory,
    metrics: SelfMetrics,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Collector {
    async fn start(access: Access) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (metrics, stop, store) = (SelfMetrics::default(), CancellationToken::new(), Memory::default());
        let leaser = Arc::new(store.clone());
        let work = run(
            listener,
            vec![store.clone()],
            leaser,
            throughline_collector::NoDetail,
            access,
            metrics.clone(),
            "server".into(),
            stop.clone(),
        );
        Self { address, store, metrics, stop, task: tokio::spawn(work) }
    }

    fn stored(&self, spool: Uuid) -> usize {
        self.store.0.lock().unwrap().get(&spool).copied().unwrap_or_default()
    }

    fn refused(&self, why: &'static str) -> f64 {
        self.metrics.get(("collector", why), &CONNECTIONS_REJECTED).unwrap_or_default()
    }

    fn gauge(&self, metric: &'static throughline_sample::catalogue::Metric) -> f64 {
        self.metrics.get("collector", metric).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task).await.unwrap().unwrap().unwrap();
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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

/// A node that delivers, with what failed.
struct Node {
    spool: Spool,
    stats: Arc<ShipStats>,
    stop: CancellationToken,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Node {
    fn start(sink: GrpcSink) -> Self {
        let spool = Spool::in_memory(Config::default()).unwrap();
        let (stats, stop) = (Arc::new(ShipStats::default()), CancellationToken::new());
        let (from, counts, end) = (spool.clone(), stats.clone(), stop.clone());
        tokio::spawn(async move { ship(&from, &sink, end, &counts).await });
        Self { spool, stats, stop }
    }

    fn append(&self, node: &str) {
        let batch = Batch { node: node.into(), ..Batch::default() };
        self.spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    }
}

fn secured(collector: &Collector, tls: TlsFiles) -> GrpcSink {
    GrpcSink::with_tls(&format!("https://localhost:{}", collector.address.port()), Some(tls)).unwrap()
}

/// One stolen certificate opens as many connections and streams as it can: it only takes from itself.
#[tokio::test]
async fn attack_05_one_certificate_opens_all_connections() {
    let authority = Authority::new();
    let limits = Limits { connections: 24, handshakes: 16, per_sender: 4 };
    let access = Access { tls: Some(authority.files("localhost")), limits, ..Access::default() };
    let collector = Collector::start(access).await;
    let honest = Node::start(secured(&collector, authority.files("node1")));
    honest.append("node1");
    until("a node's batch", || honest.spool.acked() == 1).await;

    let stolen = secured(&collector, authority.files("node2"));
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..100 {
        sessions.extend(stolen.connect(OnRefusal::End).await.ok());
        assert!(collector.gauge(&OPEN_CONNECTIONS) <= 12.0, "{number}");
        honest.append("node1");
    }
    until("batches of the other node", || honest.spool.acked() == 101).await;
    assert_eq!(collector.stored(honest.spool.id()), 101, "each of them once");
    assert_eq!(honest.stats.failures(Reason::Lost), 0, "its connection was never taken");
    assert_eq!(collector.refused("sender_full"), 96.0);
    until("the end of what was closed", || collector.gauge(&OPEN_CONNECTIONS) <= 5.0).await;
    drop((sessions, honest));
    until("the end of all", || collector.gauge(&OPEN_CONNECTIONS) == 0.0).await;
    collector.end().await;
}

/// Bytes that are no TLS, or TLS without a certificate of ours, are refused at once and counted by reason.
#[tokio::test]
async fn what_is_no_sender_is_refused_and_counted() {
    use tokio::io::AsyncWriteExt;
    let (authority, other) = (Authority::new(), Authority::new());
    let access = Access { tls: Some(authority.files("localhost")), ..Access::default() };
    let collector = Collector::start(access).await;
    let mut plain = tokio::net::TcpStream::connect(collector.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until("the refusal of plain text", || collector.refused("handshake_failed") >= 1.0).await;
    let stranger = TlsFiles { ca: authority.files("x").ca, ..other.files("node1") };
    assert!(secured(&collector, stranger).connect(OnRefusal::End).await.is_err());
    until("the refusal of another authority's", || collector.refused("handshake_failed") >= 2.0).await;
    let local = Collector::start(Access::default()).await;
    let mut old = tokio::net::TcpStream::connect(local.address).await.unwrap();
    old.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    until("the refusal of HTTP/1", || local.refused("not_http2") == 1.0).await;
    until("no handshake left", || collector.gauge(&PENDING_HANDSHAKES) == 0.0).await;
    local.end().await;
    collector.end().await;
}

#[tokio::test]
async fn a_renewed_certificate_holds_from_the_next_connection_on() {
    let (authority, renewed) = (Authority::new(), Authority::new());
    let own = authority.files("localhost");
    let collector = Collector::start(Access { tls: Some(own.clone()), ..Access::default() }).await;
    let before = Node::start(secured(&collector, authority.files("node1")));
    before.append("node1");
    until("a batch", || before.spool.acked() == 1).await;
    // Another authority takes over: the server's files are replaced one by one.
    let new = renewed.files("localhost");
    for (from, to) in [(&new.ca, &own.ca), (&new.certificate, &own.certificate), (&new.key, &own.key)] {
        std::fs::copy(from, to).unwrap();
    }
    let after = Node::start(secured(&collector, renewed.files("node2")));
    after.append("node2");
    until("a batch with the new certificates", || after.spool.acked() == 1).await;
    before.append("node1");
    until("a batch on the connection from before", || before.spool.acked() == 2).await;
    // Files that can't be used change nothing.
    std::fs::write(&own.key, "nothing").unwrap();
    let later = Node::start(secured(&collector, renewed.files("node3")));
    later.append("node3");
    until("a batch while the files are broken", || later.spool.acked() == 1).await;
    drop((before, after, later));
    collector.end().await;
}

#[tokio::test]
async fn a_unix_socket_takes_batches_of_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/collect.sock");
    let socket = Some(Socket { path: path.clone(), is_required: true });
    let collector = Collector::start(Access { socket: socket.clone(), ..Access::default() }).await;
    until("the socket", || path.exists()).await;
    let url = format!("unix:{}", path.display());
    let node = Node::start(GrpcSink::new(&url).unwrap());
    node.append("n");
    until("a batch", || node.spool.acked() == 1).await;
    assert_eq!(collector.stored(node.spool.id()), 1);
    // A second server waits for the socket, and has it when the first one ends.
    let second = Collector::start(Access { socket, ..Access::default() }).await;
    collector.end().await;
    node.append("n");
    until("a batch for the second one", || node.spool.acked() == 2).await;
    assert_eq!(second.stored(node.spool.id()), 1);
    drop(node);
    second.end().await;
    assert!(!path.exists(), "a server takes its socket away");
    let away = GrpcSink::new(&url).unwrap().connect(OnRefusal::End).await.unwrap_err();
    assert!(away.to_string().contains("throughline serve"), "{away}");
}

#[tokio::test]
async fn a_required_socket_that_can_t_be_had_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let socket = Socket { path: folder.path().join("file/collect.sock"), is_required: true };
    let collector = Collector::start(Access { socket: Some(socket.clone()), ..Access::default() }).await;
    let error = tokio::time::timeout(DEADLINE, collector.task).await.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    // By default it does without.
    let optional = Some(Socket { is_required: false, ..socket });
    let collector = Collector::start(Access { socket: optional, ..Access::default() }).await;
    let node = Node::start(GrpcSink::new(&format!("http://{}", collector.address)).unwrap());
    node.append("n");
    until("a batch over TCP", || node.spool.acked() == 1).await;
    drop(node);
    collector.end().await;
}

/// Silent connections beyond the places for handshakes: the oldest go, and new ones get through.
#[tokio::test]
async fn silent_connections_give_way() {
    let limits = Limits { handshakes: 8, ..Limits::default() };
    let collector = Collector::start(Access { limits, ..Access::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..24 {
        silent.push(tokio::net::TcpStream::connect(collector.address).await.unwrap());
    }
    let node = Node::start(GrpcSink::new(&format!("http://{}", collector.address)).unwrap());
    node.append("n");
    until("a batch", || node.spool.acked() == 1).await;
    assert!(collector.gauge(&PENDING_HANDSHAKES) <= 8.0);
    assert!(collector.refused("handshakes_full") >= 17.0);
    assert_eq!(node.stats.failures(Reason::Connect), 0);
    drop((silent, node));
    collector.end().await;
}
