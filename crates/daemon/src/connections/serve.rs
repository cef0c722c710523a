//! The pages of a daemon, for all who may connect: on a node every user may.

use super::{Counts, GivesWay, HeldBody, LastBytes, Place, Places, WatchedStream};
use crate::peer::user_of_loopback;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::Service;

/// Connections at most: a few scrapers and people. Few enough that they take no descriptors from ranks.
pub const CONNECTIONS_MAX: usize = 64;

/// Of these of one user of this machine, or of one address elsewhere.
pub const CONNECTIONS_EACH_MAX: usize = 16;

/// How long a request's head may take to arrive; also how long a connection may be idle. Prometheus keeps one for five
/// minutes, and opens another where it was closed.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Largest head of a request: a scraper's has some hundred bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Answers under way: each may be a page of some megabytes; and those of one user or address.
pub const ANSWERS_MAX: usize = 16;
/// See [`ANSWERS_MAX`].
pub const ANSWERS_EACH_MAX: usize = 4;

/// How long a request waits for its turn among those.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether it has come.
const LOOK: Duration = Duration::from_millis(20);

/// How long an answer may take to be sent: longer than any scraper waits.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Connections whose user is not known yet: further ones wait in the kernel. Each look reads the kernel's
/// whole table of connections.
const UNKNOWN_MAX: usize = 4;

/// After a failed accept (too many open files): a pause, so that it is not tried in a circle.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// From one log line about closed connections to the next.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Who is at the other end: a user of this machine, or an address.
type Peer = (Option<u32>, IpAddr);

/// What all connections share.
struct ServerState {
    router: Router,
    places: Arc<Places<Peer>>,
    answers: Arc<Counts<Peer>>,
    stop: CancellationToken,
    closed: AtomicU64,
    logged: std::sync::Mutex<Option<Instant>>,
}

/// Serves `router` until `stop` is cancelled and the requests under way are answered.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let shared = Arc::new(ServerState {
        router,
        places: Places::new(CONNECTIONS_MAX, GivesWay::OfGreediest(Duration::ZERO), |_| ()),
        answers: Counts::new(ANSWERS_MAX),
        stop: stop.clone(),
        closed: AtomicU64::new(0),
        logged: std::sync::Mutex::default(),
    });
    let (tasks, unknown) = (TaskTracker::new(), Arc::new(Semaphore::new(UNKNOWN_MAX)));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async {
                let permit = unknown.clone().acquire_owned().await.map_err(std::io::Error::other)?;
                Ok((listener.accept().await?, permit))
            } => accepted,
        };
        let ((stream, address), permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let error: std::io::Error = error;
                tracing::debug!(%error, "a connection to the pages could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let shared = Arc::clone(&shared);
        tasks.spawn(async move {
            let Ok(own) = stream.local_addr() else { return };
            let user = tokio::task::spawn_blocking(move || user_of_loopback(own, address)).await;
            let peer = (user.unwrap_or_default(), address.ip().to_canonical());
            let entered = shared.places.enter(&peer, CONNECTIONS_EACH_MAX, LastBytes::default());
            drop(permit);
            let Ok((place, evicted)) = entered else { return };
            if evicted.is_some() {
                shared.closed_another(address, peer.0);
            }
            let close = place.closed();
            tokio::select! {
                () = shared.connection(stream, peer, place, close.clone()) => {}
                () = close.cancelled() => {}
            }
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

impl ServerState {
    fn closed_another(&self, address: SocketAddr, user: Option<u32>) {
        let closed = self.closed.fetch_add(1, Relaxed) + 1;
        let mut logged = self.logged.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if logged.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            *logged = Some(Instant::now());
            tracing::warn!(%address, user, closed, "too many connections to the pages: the longest silent ones are closed");
        }
    }

    async fn connection(&self, stream: TcpStream, peer: Peer, place: Place<Peer>, close: CancellationToken) {
        let service = service_fn(|request| self.answer(&peer, &close, request));
        let io = TokioIo::new(WatchedStream::new(stream, place));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(HEAD_BYTES_MAX);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        // What goes wrong here is the peer's: it went, or was too slow.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    async fn answer(
        &self,
        peer: &Peer,
        close: &CancellationToken,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let turn = async {
            loop {
                if let Some(counted) = self.answers.enter(peer, ANSWERS_EACH_MAX) {
                    return counted;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let Ok(counted) = tokio::time::timeout(PATIENCE, turn).await else {
            let text = format!(
                "{ANSWERS_EACH_MAX} answers of one user, or {ANSWERS_MAX} of all, are under way; try again\n"
            );
            return Ok((StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], text).into_response());
        };
        // A router is always ready.
        let response = self.router.clone().call(request).await?;
        let close = close.clone();
        let limit = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(ANSWER_TIME_MAX).await;
            close.cancel();
        }));
        Ok(response.map(|body| Body::new(HeldBody::new(body, (counted, limit)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const GET: &[u8] = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    /// More than the sockets of both ends hold.
    const LARGE_BYTES: usize = 64 << 20;

    async fn started() -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let large = axum::body::Bytes::from(vec![b'x'; LARGE_BYTES]);
        let router = Router::new().route("/large", get(move || std::future::ready(large)));
        tokio::spawn(serve(listener, router, stop.clone()));
        (address, stop)
    }

    async fn request(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(GET).await.unwrap();
        stream
    }

    async fn read(mut stream: TcpStream) -> Vec<u8> {
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer).await;
        answer
    }

    #[tokio::test]
    async fn attack_05_silent_connections_to_a_daemons_pages_give_way() {
        let (address, stop) = started().await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_EACH_MAX * 4 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = read(request(address).await).await;
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > LARGE_BYTES);
        let closed = closed_of(&mut silent).await;
        assert!(closed >= CONNECTIONS_EACH_MAX * 3, "{closed} of {} were closed", silent.len());
        stop.cancel();
    }

    /// How many of them the server has closed.
    async fn closed_of(streams: &mut [TcpStream]) -> usize {
        let mut closed = 0;
        for stream in streams {
            let read = tokio::time::timeout(Duration::from_millis(20), stream.read_u8()).await;
            closed += usize::from(read.is_ok());
        }
        closed
    }

    #[tokio::test]
    async fn attack_05_answers_that_nobody_takes_are_few_and_end() {
        let (address, _stop) = started().await;
        let mut held = Vec::new();
        for _ in 0..ANSWERS_EACH_MAX {
            let mut stream = request(address).await;
            assert_eq!(stream.read_u8().await.unwrap(), b'H');
            held.push(stream);
        }
        // The clock is real until here: looks at the kernel's table are threads, which a stopped one does not wait for.
        let one_more = request(address).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::time::pause();
        let refused = read(one_more).await;
        assert!(refused.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&refused));
        tokio::time::sleep(ANSWER_TIME_MAX).await;
        tokio::time::resume();
        for stream in held {
            assert!(read(stream).await.len() < LARGE_BYTES);
        }
        assert!(read(request(address).await).await.len() > LARGE_BYTES);
    }
}
