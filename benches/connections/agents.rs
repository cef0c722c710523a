//! The agents of a site: their certificates, and what each kind of them does.

use anyhow::Context as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use throughline_delivery::wire::PutRequest;
use throughline_delivery::wire::collect_client::CollectClient;
use throughline_delivery::{GrpcSink, OnRefusal, Session, Sink, TlsFiles};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::{Class, Entry};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Of so many agents one is silent and one is slow.
const SHARE: usize = 10;

/// A slow agent's link.
const SLOW_BYTES: usize = 512;
const SLOW_PAUSE: Duration = Duration::from_millis(250);

/// Batches of a slow agent come as much less often.
const SLOW_FACTOR: u32 = 4;

/// Pause before a connection is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Longest wait for an acknowledgement before the connection is given up.
const ACK_LIMIT: Duration = Duration::from_secs(60);

/// What happened, of all agents.
#[derive(Default)]
pub struct Counts {
    is_counting: AtomicBool,
    /// Honest agents with a stream.
    pub connected: AtomicUsize,
    pub due: AtomicU64,
    pub delivered: AtomicU64,
    pub slow_due: AtomicU64,
    pub slow_delivered: AtomicU64,
    pub lost: AtomicU64,
    times: Mutex<Vec<Duration>>,
}

impl Counts {
    /// From now on batches are made and counted.
    pub fn begin(&self) {
        self.is_counting.store(true, Relaxed);
    }

    pub fn times(&self) -> Vec<Duration> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A site: certificates of all agents, one key for all of them.
pub struct Site {
    pub server_tls: TlsFiles,
    folder: PathBuf,
    agents: usize,
    rows: usize,
    client: Arc<rustls::ClientConfig>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Mute,
    Streamless,
    Slow,
    Honest,
}

fn kind(number: usize) -> Kind {
    match (number % SHARE, number / SHARE % 2) {
        (0, 0) => Kind::Mute,
        (0, _) => Kind::Streamless,
        (1, _) => Kind::Slow,
        _ => Kind::Honest,
    }
}

impl Site {
    pub fn new(folder: &Path, agents: usize, rows: usize) -> anyhow::Result<Self> {
        let mut of_it = rcgen::CertificateParams::new(Vec::new())?;
        of_it.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate()?;
        let authority = of_it.self_signed(&key)?;
        let ca = folder.join("ca.pem");
        std::fs::write(&ca, authority.pem())?;
        let issuer = rcgen::Issuer::new(of_it, key);
        let key = rcgen::KeyPair::generate()?;
        let key_file = folder.join("key.pem");
        std::fs::write(&key_file, key.serialize_pem())?;
        let certify = |name: &str| {
            let of_it = rcgen::CertificateParams::new([name.to_owned()])?;
            let certificate = of_it.signed_by(&key, &issuer)?;
            let path = folder.join(format!("{name}.pem"));
            std::fs::write(&path, certificate.pem())?;
            anyhow::Ok((path, certificate))
        };
        for number in 0..agents {
            certify(&format!("n{number}"))?;
        }
        // One for all who shake hands by hand.
        let (_, own) = certify("by-hand")?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key =
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![own.der().clone()], key)?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        let server_tls = TlsFiles { ca, certificate: certify("localhost")?.0, key: key_file };
        Ok(Self { server_tls, folder: folder.to_owned(), agents, rows, client: Arc::new(client) })
    }

    /// How many deliver at full speed.
    pub fn honest(&self) -> usize {
        (0..self.agents).filter(|number| kind(*number) == Kind::Honest).count()
    }

    /// Starts all agents; those who deliver end when theirs is acknowledged, after `stop`.
    pub fn start(
        &self,
        port: u16,
        interval: u64,
        counts: &Arc<Counts>,
        stop: &CancellationToken,
    ) -> JoinSet<()> {
        let mut all = JoinSet::new();
        let interval = Duration::from_secs(interval);
        for number in 0..self.agents {
            let (counts, stop) = (counts.clone(), stop.clone());
            let name = format!("n{number}");
            let load = Load { rows: self.rows, name: name.clone(), interval };
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let client = self.client.clone();
            match kind(number) {
                Kind::Honest => {
                    let certificate = self.folder.join(format!("{name}.pem"));
                    let tls = TlsFiles { certificate, ..self.server_tls.clone() };
                    let url = format!("https://localhost:{port}");
                    all.spawn(async move {
                        if let Ok(sink) = GrpcSink::with_tls(&url, Some(tls)) {
                            deliver(&sink, &load, &counts, &stop).await;
                        }
                    });
                }
                Kind::Slow => {
                    let (key, path) = (self.server_tls.key.clone(), self.folder.join(format!("{name}.pem")));
                    let roots = self.server_tls.ca.clone();
                    all.spawn(async move {
                        let _ = crawl(address, [roots, path, key], &load, &counts, &stop).await;
                    });
                }
                Kind::Mute | Kind::Streamless => {
                    let shakes = kind(number) == Kind::Streamless;
                    all.spawn(async move {
                        let _ = stop.run_until_cancelled(be_silent(address, shakes.then_some(client))).await;
                    });
                }
            }
        }
        all
    }
}

struct Load {
    rows: usize,
    name: String,
    interval: Duration,
}

impl Load {
    fn batch(&self, number: u64) -> Batch {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let event = |row| Event {
            time: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
            source: self.name.clone(),
            kind: "bench".into(),
            severity: "info".into(),
            text: format!("{number}.{row}"),
            ..Event::default()
        };
        let events = (0..self.rows).map(event).collect();
        Batch { node: self.name.clone(), events, ..Batch::default() }
    }

    /// Agents are not in step.
    fn phase(&self) -> Duration {
        let number: u32 = self.name[1..].parse().unwrap_or_default();
        self.interval * (number % 100) / 100
    }
}

async fn deliver(sink: &GrpcSink, load: &Load, counts: &Counts, stop: &CancellationToken) {
    let (spool_id, mut sequence, mut session) = (Uuid::new_v4(), 0, None);
    let session_of = async |session: &mut Option<Session>| {
        while session.is_none() {
            match sink.connect(OnRefusal::End).await {
                Ok(new) => *session = Some(new),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    session_of(&mut session).await;
    counts.connected.fetch_add(1, Relaxed);
    while !counts.is_counting.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(load.phase()).await;
    let mut ticks = tokio::time::interval(load.interval);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        sequence += 1;
        counts.due.fetch_add(1, Relaxed);
        let payload: bytes::Bytes = load.batch(sequence).encode_to_vec().into();
        let began = Instant::now();
        loop {
            session_of(&mut session).await;
            let Some(open) = &mut session else { continue };
            let class = Class::Cumulative(0);
            let entry = Entry { spool_id, sequence, class, appended_ns: 0, payload: payload.clone() };
            let sent = open.entries.send(entry).await.is_ok();
            let answer = tokio::time::timeout(ACK_LIMIT, open.next_ack()).await;
            if sent && matches!(answer, Ok(Some(Ok(ack))) if ack.sequence >= sequence) {
                break;
            }
            counts.lost.fetch_add(1, Relaxed);
            session = None;
        }
        counts.delivered.fetch_add(1, Relaxed);
        counts.times.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
    }
}

/// Over a slow link: batches one after the other, each on its way for seconds.
async fn crawl(
    address: SocketAddr,
    [ca, certificate, key]: [PathBuf; 3],
    load: &Load,
    counts: &Counts,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    use rustls::pki_types::pem::PemObject;
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&read(&ca)?)?)?;
    let own = rustls::pki_types::CertificateDer::from_pem_slice(&read(&certificate)?)?;
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(&read(&key)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    let client = Arc::new(client);
    let (spool_id, mut sequence) = (Uuid::new_v4(), 0_u64);
    let mut open = None;
    while !counts.is_counting.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(load.phase()).await;
    let mut ticks = tokio::time::interval(load.interval * SLOW_FACTOR);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        sequence += 1;
        counts.slow_due.fetch_add(1, Relaxed);
        let batch: bytes::Bytes = load.batch(sequence).encode_to_vec().into();
        let spool_id = bytes::Bytes::copy_from_slice(spool_id.as_bytes());
        loop {
            let request = PutRequest { spool_id: spool_id.clone(), sequence, batch: batch.clone() };
            if put(address, &client, &mut open, request).await.is_some() {
                break;
            }
            open = None;
            counts.lost.fetch_add(1, Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
        counts.slow_delivered.fetch_add(1, Relaxed);
    }
    Ok(())
}

type SlowStream =
    (tokio::sync::mpsc::Sender<PutRequest>, tonic::Streaming<throughline_delivery::wire::PutResponse>);

async fn put(
    address: SocketAddr,
    client: &Arc<rustls::ClientConfig>,
    open: &mut Option<SlowStream>,
    request: PutRequest,
) -> Option<()> {
    let sequence = request.sequence;
    if open.is_none() {
        let client = client.clone();
        let connector = tower::service_fn(move |_: tonic::transport::Uri| {
            let client = client.clone();
            async move {
                let stream = shake(address, client).await?;
                std::io::Result::Ok(hyper_util::rt::TokioIo::new(Slow::new(stream)))
            }
        });
        let endpoint =
            tonic::transport::Endpoint::from_static("http://localhost").http2_keep_alive_interval(ACK_LIMIT);
        let channel = endpoint.connect_with_connector(connector).await.ok()?;
        let (requests, queue) = tokio::sync::mpsc::channel(1);
        let mut service = CollectClient::new(channel);
        let requested = service.put(tokio_stream::wrappers::ReceiverStream::new(queue));
        let answers = tokio::time::timeout(ACK_LIMIT, requested).await.ok()?.ok()?.into_inner();
        *open = Some((requests, answers));
    }
    let (requests, answers) = open.as_mut()?;
    requests.send(request).await.ok()?;
    let answer = tokio::time::timeout(ACK_LIMIT, answers.message()).await.ok()?.ok()??;
    (answer.acknowledged >= sequence).then_some(())
}

async fn shake(
    address: SocketAddr,
    client: Arc<rustls::ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = rustls::pki_types::ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    TlsConnector::from(client).connect(name, stream).await
}

/// Connects, at most shakes hands, and waits to be closed; for ever.
async fn be_silent(address: SocketAddr, client: Option<Arc<rustls::ClientConfig>>) {
    loop {
        let _ = async {
            match &client {
                Some(client) => shake(address, client.clone()).await?.read(&mut [0; 64]).await,
                None => TcpStream::connect(address).await?.read(&mut [0; 64]).await,
            }
        }
        .await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes and reads a few bytes, and pauses.
struct Slow {
    stream: TlsStream<TcpStream>,
    write: Pin<Box<tokio::time::Sleep>>,
    read: Pin<Box<tokio::time::Sleep>>,
}

impl Slow {
    fn new(stream: TlsStream<TcpStream>) -> Self {
        let now = || Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { stream, write: now(), read: now() }
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        std::task::ready!(self.read.as_mut().poll(context));
        let mut bytes = [0; SLOW_BYTES];
        let most = buffer.remaining().min(SLOW_BYTES);
        let mut some = ReadBuf::new(&mut bytes[..most]);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut some))?;
        buffer.put_slice(some.filled());
        self.read.as_mut().reset(tokio::time::Instant::now() + SLOW_PAUSE);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        std::task::ready!(self.write.as_mut().poll(context));
        let some = &bytes[..bytes.len().min(SLOW_BYTES)];
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(context, some))?;
        self.write.as_mut().reset(tokio::time::Instant::now() + SLOW_PAUSE);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
