//! The HTTP side of a daemon: listening, `/metrics` and `/healthz`.

use crate::{Expose, Failure, Format, Page};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Listens on `address` and prints `listening ROLE=ADDRESS` with the real port on standard output: port 0
/// takes a free one.
///
/// # Errors
/// The address can't be used (69, 77 without permission); the message names the configuration key.
pub async fn listen(role: &str, address: SocketAddr, key: &str) -> Result<TcpListener, Failure> {
    let describe = |error: std::io::Error| {
        let remedy = format!("set {key} to a free address, or to port 0 for any");
        Failure::from_io(format!("listening on {address} ({role})"), &error, &remedy)
    };
    let listener = TcpListener::bind(address).await.map_err(describe)?;
    let real = listener.local_addr().map_err(describe)?;
    let mut out = std::io::stdout().lock();
    // A closed standard output does not stop a daemon.
    let _ = writeln!(out, "listening {role}={real}").and_then(|()| out.flush());
    Ok(listener)
}

/// Routes `/metrics` (text 0.0.4, or OpenMetrics when asked for) and `/healthz`.
pub fn metrics_router(expose: Arc<dyn Expose>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(expose)
}

async fn metrics(State(expose): State<Arc<dyn Expose>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::from_accept(accept);
    // A large page takes milliseconds to encode: not on a thread that polls sockets.
    let text = tokio::task::spawn_blocking(move || {
        let mut page = Page::default();
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        page.info("throughline_build_info", "Version of this program.", &labels);
        expose.expose(&mut page);
        page.encode(format)
    });
    let text = text.await.unwrap_or_default();
    ([(header::CONTENT_TYPE, format.content_type())], text)
}

/// Serves until `stop` is cancelled.
///
/// # Errors
/// The listener breaks.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfFigures;
    use throughline_sample::catalogue::RECORDS;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn fetch(address: SocketAddr, request: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn serves_both_formats_and_stops() {
        let figures = SelfFigures::default();
        figures.add("test", &RECORDS, 4);
        let listener = listen("test", ([127, 0, 0, 1], 0).into(), "http.listen").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, metrics_router(Arc::new(figures)), stop.clone()));
        let text = fetch(address, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(text.contains("version=0.0.4") && text.contains("throughline_records_total"), "{text}");
        let ask = "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n";
        assert!(fetch(address, ask).await.contains("# EOF"));
        let busy = listen("test", address, "http.listen").await.unwrap_err();
        assert!(busy.to_string().contains("http.listen"), "{busy}");
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
