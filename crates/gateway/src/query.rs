//! Role query: the pages, `/api/v1/read` is Prometheus' remote-read, the rest of `/api/v1/` is the JSON API, `/metrics`
//! and `/healthz` are those of every daemon.

use crate::access::{self, Access, Gate};
use crate::api::{self, Api};
use crate::read::{self, Limits, OwnHistory, Reader};
use crate::refusals::Refusals;
use crate::thresholds::Thresholds;
use crate::tls::ServerTls;
use crate::{headers, listen, pages};
use std::sync::Arc;

use crate::upkeep::Triggers;
use axum::Router;
use axum::routing::post;
use throughline_daemon::{AlwaysHealthy, Expose, Failure, Health, SelfMetrics, http};
use throughline_query::ReadPath;
use throughline_query::long_range::LongRange;
use throughline_store::Database;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The role, with everything that can be wrong about it known.
pub struct Server(listen::Server);

impl Server {
    /// Reads the files of `access`. What is refused is counted in `metrics`.
    ///
    /// # Errors
    /// A file of the token, certificate or key can't be used, or there is no such user; the message names the key of the
    /// configuration.
    pub fn new(
        metrics: &SelfMetrics,
        database: Database,
        limits: Limits,
        access: &Access,
    ) -> Result<Server, Failure> {
        Self::reading(metrics, database, (limits, OwnHistory::default()), access)
    }

    /// As [`Server::new`], for Prometheus servers that have samples of their own.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn reading(
        metrics: &SelfMetrics,
        database: Database,
        (limits, own): (Limits, OwnHistory),
        access: &Access,
    ) -> Result<Server, Failure> {
        let site = (Thresholds::default(), Triggers::default(), LongRange::default());
        let health = Arc::new(AlwaysHealthy);
        Self::with_health(metrics, (database.into(), own), limits, access, site, health, Vec::new())
    }

    /// As [`Server::new`], with what Prometheus servers have themselves, the site's thresholds, quotas of detail on demand and server of PromQL for long ranges, what `/healthz` reports, and `more` series on `/metrics`.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn with_health(
        metrics: &SelfMetrics,
        (path, own): (ReadPath, OwnHistory),
        limits: Limits,
        access: &Access,
        (thresholds, detail, long_range): (Thresholds, Triggers, LongRange),
        health: Arc<dyn Health>,
        more: Vec<Arc<dyn Expose>>,
    ) -> Result<Server, Failure> {
        let tls = access.tls.as_ref().map(ServerTls::renewed).transpose()?;
        let refusals = Refusals::new(metrics.clone());
        let guard = access.guard()?;
        let gate = Gate::new(guard.clone(), limits.parallel, refusals.clone());
        let mut expose = more;
        expose.push(Arc::new(metrics.clone()));
        let api = Api::new(path.clone(), limits)
            .with_thresholds(thresholds)
            .with_detail(detail, metrics.clone())
            .with_long_range(long_range);
        let reader = Reader::new(path.clone(), limits).with_own_history(own);
        let router = router(Arc::new(expose), &path, reader, api, gate, health);
        let connections = limits.connections;
        Ok(Server(listen::Server { router, guard: Arc::new(guard), tls, connections, refusals }))
    }

    /// Serves until `stop` is cancelled.
    ///
    /// # Errors
    /// Never: what goes wrong with a connection ends that one.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
        self.0.run(listener, stop).await;
        Ok(())
    }
}

/// All pages of this role.
fn router(
    expose: Arc<dyn Expose>,
    path: &ReadPath,
    reader: Reader,
    api: Api,
    gate: Gate,
    health: Arc<dyn Health>,
) -> Router {
    let about = format!(
        "throughline {version}: query\n\
         database: {place}\n\n\
         /api/v1/openapi.yaml   what the JSON API answers\n\
         /api/v1/read           all that the database keeps, for Prometheus' remote_read\n\
         /metrics               metrics of this server, for Prometheus\n\
         /healthz               what is wrong, and 503 where it keeps the server from its work\n\n\
         `throughline status` shows what arrives; dashboards read the database directly.\n",
        version = env!("CARGO_PKG_VERSION"),
        place = path.primary().place(),
    );
    let history = post(read::read).with_state(Arc::new(reader));
    let api = api::router(Arc::new(api));
    http::metrics_router(expose, health)
        .route("/api/v1/read", history)
        .nest("/api/v1", api)
        .merge(pages::router(about))
        .fallback(pages::missing)
        .layer(axum::middleware::from_fn_with_state(Arc::new(gate), access::guard))
        .layer(axum::middleware::from_fn(headers::usual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::catalogue::COMMITS;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn each_page_answers_and_the_server_stops() {
        let metrics = SelfMetrics::default();
        metrics.add("collector", &COMMITS, 3);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let nowhere = Database::from_url("postgresql://a@nowhere/b?sslmode=disable").unwrap();
        let server = Server::new(&metrics, nowhere, Limits::default(), &Access::default()).unwrap();
        let server = tokio::spawn(server.run(listener, stop.clone()));
        let first = fetch(address, "/").await;
        if pages::are_built() {
            assert!(first.contains("<div id=\"app\">"), "{first}");
        } else {
            assert!(first.contains("database: nowhere/b") && first.contains("make pages"), "{first}");
        }
        assert!(
            fetch(address, "/metrics").await.contains("throughline_commits_total{source=\"collector\"} 3")
        );
        assert!(fetch(address, "/healthz").await.ends_with("ok\n"));
        assert!(fetch(address, "/other").await.starts_with("HTTP/1.1 404"));
        // Also without a database, and for a path that there is not.
        let version = format!("throughline-api-version: {}\r\n", throughline_api::VERSION);
        for path in ["/api/v1/range", "/api/v1/nothing", "/api/v2/range"] {
            assert!(fetch(address, path).await.contains(&version), "{path}");
        }
        assert!(!fetch(address, "/healthz").await.contains("api-version"));
        let document = include_str!("../openapi.yaml");
        assert!(document.contains(&format!("  version: \"{}\"\n", throughline_api::VERSION)));
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
