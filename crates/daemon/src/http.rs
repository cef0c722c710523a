//! The HTTP side of a daemon: listening, `/metrics` and `/healthz`.

use crate::health::{self, Health};
use crate::large::{self, LargeMetrics, Piece, Scrape};
use crate::{Expose, Failure, Format, Page};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Listens on `address` and prints `listening ROLE=ADDRESS` with the real port on standard output: port 0
/// takes a free one.
///
/// # Errors
/// The address can't be used (69, 77 without permission); the message names the configuration key.
pub async fn listen(role: &str, address: SocketAddr, key: &str) -> Result<TcpListener, Failure> {
    let describe = |error| failure(role, address, key, &error);
    let listener = bind(address).await.map_err(describe)?;
    announce(role, &listener).map_err(describe)?;
    Ok(listener)
}

pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

pub(crate) fn failure(role: &str, address: SocketAddr, key: &str, error: &std::io::Error) -> Failure {
    let remedy = format!("set {key} to a free address, or to port 0 for any");
    Failure::from_io(format!("listening on {address} ({role})"), error, &remedy)
}

/// Prints where a role listens.
pub(crate) fn announce(role: &str, listener: &TcpListener) -> std::io::Result<()> {
    let real = listener.local_addr()?;
    let mut out = std::io::stdout().lock();
    // A closed standard output does not stop a daemon.
    let _ = writeln!(out, "listening {role}={real}").and_then(|()| out.flush());
    Ok(())
}

/// Routes `/metrics` (text 0.0.4, or OpenMetrics when requested; gzip when accepted) and `/healthz`, which answers 503
/// while `health` reports a condition that is [`crate::Level::Failing`].
pub fn metrics_router(expose: Arc<dyn Expose>, health: Arc<dyn Health>) -> Router {
    large_metrics_router(expose, Arc::new(NoLargeMetrics), health)
}

/// As [`metrics_router`], with a large part behind the daemon's own metrics that answers queries.
pub fn large_metrics_router(
    expose: Arc<dyn Expose>,
    large: Arc<dyn LargeMetrics>,
    health: Arc<dyn Health>,
) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(Pages { expose, large })
        .route("/healthz", get(healthz).with_state(health))
}

async fn healthz(State(health): State<Arc<dyn Health>>) -> Response {
    let (status, text) = health::page(&*health);
    (status, [(header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// No large part.
struct NoLargeMetrics;

impl LargeMetrics for NoLargeMetrics {
    fn render(&self, _scrape: &Scrape) -> Result<(Arc<Piece>, bool), String> {
        Ok((Arc::new(Piece::default()), true))
    }
}

#[derive(Clone)]
struct Pages {
    expose: Arc<dyn Expose>,
    large: Arc<dyn LargeMetrics>,
}

async fn metrics(
    State(pages): State<Pages>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let text_of = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::from_accept(text_of(header::ACCEPT));
    let zipped = accepts_gzip(text_of(header::ACCEPT_ENCODING));
    // A large page takes milliseconds to encode: not on a thread that polls sockets.
    let body = tokio::task::spawn_blocking(move || pages.body(&Scrape { format, query }, zipped));
    let Ok(body) = body.await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    match body {
        Ok(body) if zipped => {
            let encoded = [(header::CONTENT_TYPE, format.content_type()), (header::CONTENT_ENCODING, "gzip")];
            (encoded, body).into_response()
        }
        Ok(body) => ([(header::CONTENT_TYPE, format.content_type())], body).into_response(),
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")).into_response(),
    }
}

impl Pages {
    fn body(&self, scrape: &Scrape, zipped: bool) -> Result<Vec<u8>, String> {
        let (large, is_with_own) = self.large.render(scrape)?;
        let mut own = String::new();
        if is_with_own {
            let mut page = Page::default();
            let labels = [("version", env!("CARGO_PKG_VERSION"))];
            page.info("throughline_build_info", "Version of this program.", &labels);
            self.expose.expose(&mut page);
            own = page.encode(scrape.format);
        }
        // The end mark of OpenMetrics stands behind everything.
        let end = scrape.format.end_mark();
        let own = own.strip_suffix(end).unwrap_or(&own);
        if zipped {
            return Ok(large::gzip(&[&Piece::new(own), &large, &Piece::new(end)]));
        }
        let mut body = Vec::with_capacity(own.len() + large.text_bytes() + end.len() + 1);
        body.extend_from_slice(own.as_bytes());
        large.append_text(&mut body);
        body.extend_from_slice(end.as_bytes());
        Ok(body)
    }
}

/// Whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3): named, and not with weight 0.
#[must_use]
pub fn accepts_gzip(accept: &str) -> bool {
    accept.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse::<f32>().ok());
        is_gzip && weight != Some(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::serve;
    use crate::{AlwaysHealthy, SelfMetrics};
    use throughline_sample::catalogue::RECORDS;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::CancellationToken;

    async fn fetch(address: SocketAddr, request: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn serves_both_formats_and_stops() {
        let metrics = SelfMetrics::default();
        metrics.add("test", &RECORDS, 4);
        let listener = listen("test", ([127, 0, 0, 1], 0).into(), "http.listen").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(
            listener,
            metrics_router(Arc::new(metrics), Arc::new(AlwaysHealthy)),
            stop.clone(),
        ));
        let text = fetch(address, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(text.contains("version=0.0.4") && text.contains("throughline_records_total"), "{text}");
        let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n";
        assert!(fetch(address, request).await.contains("# EOF"));
        let zipped = accepts_gzip("deflate, gzip;q=0.8") && accepts_gzip("GZIP");
        assert!(zipped && !accepts_gzip("gzip;q=0") && !accepts_gzip("gzipped, br") && !accepts_gzip(""));
        let busy = listen("test", address, "http.listen").await.unwrap_err();
        assert!(busy.to_string().contains("http.listen"), "{busy}");
        stop.cancel();
        server.await.unwrap();
    }
}
