//! The accept side of the role query: connections bounded in number, in all and of each peer, and in time.
//!
//! A connection that sends nothing, sends byte by byte, never ends its handshake or never takes its answer is closed.
//! Where a peer has as many as it may, its longest silent one gives its place to the new one; where all places are taken,
//! that of the peer with the most. Who is at the other end is found out once for each connection. Descriptors that
//! readers hold stay below a bound, so that the other roles of the process have theirs.

use crate::access::{Guard, Peer};
use crate::refusals::Refusals;
use crate::shares::Reader;
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::ReloadingValue;
use throughline_daemon::connections::{GivesWay, LastBytes, Place, Places, WatchedStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// Connections of one peer (a user of this machine, an address) at most: a browser has six, and its person some windows.
pub const CONNECTIONS_EACH_MAX: usize = 128;

/// The same of a user of this machine who may not read without a token: enough to find that out.
pub const CONNECTIONS_STRANGER_MAX: usize = 16;

/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a request's head may take to arrive; also how long a connection may be idle between two requests.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a peer of HTTP/2 may send nothing: it gets three requests for a sign of life in between.
const READ_STALL_MAX: Duration = Duration::from_secs(60);
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Largest head of a request, bytes: cookies of other servers of the same name come along.
pub const HEAD_BYTES_MAX: usize = 32 << 10;

/// Requests at a time on a connection of HTTP/2.
const STREAMS_MAX: u32 = 32;

/// Connections whose user is not known yet: further ones wait in the kernel.
const UNKNOWN_MAX: usize = 64;

/// Looks at the kernel's table of connections at a time: each reads as much as the machine has connections.
const LOOK_UPS: usize = 2;

/// After a failed accept (too many open files): a pause, so that it is not tried in a circle.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What serves connections.
pub struct Server {
    /// What answers.
    pub router: Router,
    /// Who may read.
    pub guard: Arc<Guard>,
    /// For HTTPS.
    pub tls: Option<Arc<ReloadingValue<ServerConfig>>>,
    /// Connections at most.
    pub connections: usize,
    /// Counts those that are refused.
    pub refusals: Refusals,
}

/// What all connections share.
struct ListenerState {
    server: Server,
    places: Arc<Places<Reader>>,
    look_ups: Semaphore,
    stop: CancellationToken,
}

impl Server {
    /// Serves until `stop` is cancelled and the requests under way are answered.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) {
        let places = Places::new(self.connections, GivesWay::OfGreediest(Duration::ZERO), |_| ());
        let look_ups = Semaphore::new(LOOK_UPS);
        let shared = Arc::new(ListenerState { server: self, places, look_ups, stop: stop.clone() });
        let (tasks, unknown) = (TaskTracker::new(), Arc::new(Semaphore::new(UNKNOWN_MAX)));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&listener, &unknown) => accepted,
            };
            let (stream, address, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // One that has gone before it was accepted is no reason to wait.
                    if !matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                    ) {
                        shared.server.refusals.connection("descriptors", &error);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                    continue;
                }
            };
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                if let Err(error) = shared.connection(stream, address, permit).await {
                    tracing::debug!(%address, error, "a connection of the role query ended");
                }
            });
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    }
}

/// The next connection, once few enough are unknown.
async fn accept(
    listener: &TcpListener,
    unknown: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = unknown.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address, permit))
}

type ConnectionResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl ListenerState {
    async fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        unknown: OwnedSemaphorePermit,
    ) -> ConnectionResult {
        // Answers are written whole: waiting for more to send only delays them.
        stream.set_nodelay(true)?;
        let own = stream.local_addr()?;
        let peer = self.peer(address, own).await?;
        let (key, most) = match peer.user {
            Some(user) if peer.is_local_reader || peer.is_proxy => {
                (Reader::Local(user), CONNECTIONS_EACH_MAX)
            }
            Some(user) => (Reader::Local(user), CONNECTIONS_STRANGER_MAX),
            None => (Reader::at(address.ip()), CONNECTIONS_EACH_MAX),
        };
        // All people behind the proxy come from its address.
        let most = if peer.is_proxy { self.server.connections } else { most };
        let Ok((place, evicted)) = self.places.enter(&key, most, LastBytes::default()) else { return Ok(()) };
        if let Some(evicted) = evicted {
            self.server.refusals.connection(evicted.name(), &address);
        }
        drop(unknown);
        let close = place.closed();
        tokio::select! {
            ended = self.serve(stream, peer, place) => ended,
            () = close.cancelled() => Ok(()),
        }
    }

    async fn serve(&self, stream: TcpStream, peer: Peer, place: Place<Reader>) -> ConnectionResult {
        let stream = WatchedStream::new(stream, place);
        let Some(tls) = self.server.tls.clone() else { return self.http1(stream, peer).await };
        let tls = TlsAcceptor::from(tokio::task::spawn_blocking(move || tls.current()).await?);
        let Ok(shaken) = tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await else {
            self.server.refusals.connection("handshake", &peer.address);
            return Ok(());
        };
        let mut stream = shaken?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            stream.get_mut().0.watch_reading(READ_STALL_MAX);
            return self.http2(stream, peer).await;
        }
        self.http1(stream, peer).await
    }

    async fn peer(&self, address: SocketAddr, own: SocketAddr) -> Result<Peer, tokio::task::JoinError> {
        let guard = Arc::clone(&self.server.guard);
        if !address.ip().to_canonical().is_loopback() {
            return Ok(guard.peer(address, own)); // Nothing of the kernel is read for those.
        }
        let _permit = self.look_ups.acquire().await;
        tokio::task::spawn_blocking(move || guard.peer(address, own)).await
    }

    async fn http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        peer: Peer,
    ) -> ConnectionResult {
        let router = self.server.router.clone();
        let service = service_fn(move |request| answer(&router, &peer, request));
        let io = TokioIo::new(stream);
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(HEAD_BYTES_MAX);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }

    async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        peer: Peer,
    ) -> ConnectionResult {
        let router = self.server.router.clone();
        let service = service_fn(move |request| answer(&router, &peer, request));
        let io = TokioIo::new(stream);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_INTERVAL);
        let head = u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX);
        builder.max_concurrent_streams(STREAMS_MAX).max_header_list_size(head);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }
}

/// One answer.
fn answer(
    router: &Router,
    peer: &Peer,
    mut request: Request<Incoming>,
) -> impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + use<> {
    request.extensions_mut().insert(ConnectInfo(peer.clone()));
    // A router is always ready.
    router.clone().call(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::tls::ServerTls;
    use axum::routing::get;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use throughline_daemon::SelfMetrics;
    use throughline_sample::catalogue::CONNECTIONS_REJECTED;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A certificate for `localhost` and its key, in files.
    fn certified(folder: &std::path::Path) -> (ServerTls, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = ServerTls { certificate: folder.join("server.pem"), key: folder.join("server.key") };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        (files, made.cert.der().clone())
    }

    async fn serve(tls: Option<&ServerTls>, metrics: &SelfMetrics) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = get(async |ConnectInfo(peer): ConnectInfo<Peer>| format!("for {:?}", peer.user));
        let guard = Arc::new(Access::default().guard().unwrap());
        let router = Router::new().route("/", page);
        let refusals = Refusals::new(metrics.clone());
        let tls = tls.map(|files| files.renewed().unwrap());
        let stop = CancellationToken::new();
        let server = Server { router, guard, tls, connections: 100, refusals };
        tokio::spawn(server.run(listener, stop.clone()));
        (address, stop)
    }

    #[tokio::test]
    async fn answers_over_tls_while_others_never_shake_hands() {
        let folder = tempfile::tempdir().unwrap();
        let (files, certificate) = certified(folder.path());
        let (address, _stop) = serve(Some(&files), &SelfMetrics::default()).await;
        let mut silent = Vec::new();
        for _ in 0..150 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = answer_over_tls(address, certificate).await.unwrap();
        let own = nix::unistd::geteuid().as_raw();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with(&format!("for Some({own})")),
            "{answer}"
        );
    }

    /// What a client gets that trusts this certificate alone.
    async fn answer_over_tls(address: SocketAddr, trusted: CertificateDer<'static>) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_renewed_certificate_holds_and_half_a_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (files, first) = certified(folder.path());
        let (address, _stop) = serve(Some(&files), &SelfMetrics::default()).await;
        assert!(answer_over_tls(address, first.clone()).await.is_ok());
        let whole = std::fs::read_to_string(&files.certificate).unwrap();
        std::fs::write(&files.certificate, &whole[..100]).unwrap();
        assert!(answer_over_tls(address, first.clone()).await.is_ok(), "the one before holds on");
        let (_, second) = certified(folder.path());
        assert!(answer_over_tls(address, second).await.is_ok());
        assert!(answer_over_tls(address, first).await.is_err());
    }

    /// Reads until the server closes; the clock is the runtime's and goes on by itself when nothing else does.
    async fn closed(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn attack_05_a_silent_or_slow_connection_is_closed() {
        let metrics = SelfMetrics::default();
        let folder = tempfile::tempdir().unwrap();
        let (plain, _stop) = serve(None, &metrics).await;
        let (secure, _stop_too) = serve(Some(&certified(folder.path()).0), &metrics).await;
        let silent = TcpStream::connect(plain).await.unwrap();
        let mut slow = TcpStream::connect(plain).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        let mut idle = TcpStream::connect(plain).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let no_handshake = TcpStream::connect(secure).await.unwrap();
        // Until here the clock is a real one: looks at the kernel's table are threads, which it does not wait for.
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::time::pause();
        let all = tokio::join!(closed(silent), closed(slow), closed(idle), closed(no_handshake));
        assert!(all.2.starts_with("HTTP/1.1 200"), "{}", all.2);
        assert_eq!((all.0.contains("200"), all.1.contains("200"), all.3.as_str()), (false, false, ""));
        assert_eq!(metrics.get(("query", "handshake"), &CONNECTIONS_REJECTED), Some(1.0));
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let (address, _stop) = serve(None, &SelfMetrics::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX * 4));
        _ = stream.write_all(head.as_bytes()).await;
        // The refusal itself may be lost: the server closes while there is more to read.
        let answer = closed(stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}
