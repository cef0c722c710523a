//! Role collect: takes batches over gRPC and commits them in few large COPYs.
//!
//! Holds no state: an entry is acknowledged after the commit of its rows, and until then its sender keeps it.
//! So any number of collectors run behind any balancer, and one that is killed loses nothing. Knows the
//! store only as a [`Committer`] and a [`Leaser`]; the SQL is the store's.
//!
//! ```text
//! stream ─decode─┐ queues (bounded in bytes) ┌─▶ gather ─▶ one transaction ─▶ acknowledgements
//! stream ─decode─┼──── each spool has one ───┤
//! stream ─decode─┘                           └─▶ gather ─▶ one transaction ─▶ acknowledgements
//! ```
//!
//! While the database is away nothing is read beyond the queue's bound: HTTP/2 flow control stops the
//! senders, and their spools hold what they measure.

mod accept;
mod bars;
mod bounds;
mod clocks;
mod committer;
mod detail;
#[cfg(feature = "simulated")]
pub mod direct;
mod identity;
mod judge;
pub mod limits;
mod own;
mod queue;
mod quota;
mod refused;
mod rejected_senders;
mod service;
mod writer;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use throughline_daemon::peer::LocalUsers;
use throughline_daemon::{Clock, Failure, SelfMetrics, TokenFile};
use throughline_delivery::wire::collect_server::CollectServer;
use throughline_delivery::{ServerTls, TlsFiles};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use accept::{ConnectionAcceptor, Gate, Registry};
use bars::Bars;
use clocks::Clocks;
use quota::SenderQuotas;

pub use accept::Socket;
pub use bars::BarList;
pub use bounds::SPOOLS_PER_SENDER;
pub use clocks::{ClockPlan, ClockStore, OwnClock};
pub use committer::{CommitError, Committer, Leaser};
pub use detail::{DetailOrders, NoDetail};
pub use identity::Crawlers;
pub use judge::{ACCEPT_PAST, AcceptTimes};
pub use limits::Limits;
pub use limits::STREAMS_MAX;
pub use queue::GATHER_RECORDS;
pub use quota::QuotaLimits;
pub use rejected_senders::RejectedSenders;
pub use writer::{GATHER, GATHER_BYTES};

/// The part of the process in metrics.
pub(crate) const SOURCE: &str = "collector";

/// A sender that vanished without a word is noticed after one interval and one timeout.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes in flight on one stream before its sender waits: HTTP/2's own default, small, since thousands of
/// streams wait at once while the database is away.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// How long entries that are already here are still committed after a stop. The senders keep the others.
const DRAIN: Duration = Duration::from_secs(4);

/// Refuses to listen for other machines without TLS: a sender's name would only be its word.
///
/// # Errors
/// The address is not a loopback one (64); the message names `key`.
pub fn check_listen(address: SocketAddr, key: &str, tls: Option<&TlsFiles>) -> Result<(), Failure> {
    if address.ip().is_loopback() || tls.is_some() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{key} = \"{address}\": without TLS batches are taken on loopback only; use 127.0.0.1 or [::1], or set ca, \
         certificate and key in [collect.tls]"
    )))
}

/// Who may send.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Certificates; without them all senders are on this machine.
    pub tls: Option<TlsFiles>,
    /// Names of certificates that may report for a subnet.
    pub crawlers: Crawlers,
    /// How far from now a record's time may be.
    pub accept: AcceptTimes,
    /// Users of this machine who may send without a certificate.
    pub users: LocalUsers,
    /// What other users of this machine may send with.
    pub token: Option<Arc<TokenFile>>,
    /// Nodes and certificates that are refused; `None`: nobody is.
    pub bars: Option<Arc<dyn BarList>>,
    /// What one certificate may send in a second.
    pub quotas: QuotaLimits,
    /// Counts rejected records by sender.
    pub rejected: RejectedSenders,
    /// The Unix socket beside the listener.
    pub socket: Option<Socket>,
    /// Connections in number.
    pub limits: Limits,
    /// This server's clock.
    pub clock: Arc<Clock>,
    /// How clocks of senders are measured.
    pub clock_plan: ClockPlan,
    /// Where they are stored; `None`: in memory.
    pub clocks: Option<Arc<dyn ClockStore>>,
    /// Learns whether this server's clock is off.
    pub own_clock: OwnClock,
}

/// Serves until `stop` is cancelled and what was taken is committed, or given up after a few seconds. The
/// metrics of the whole process are also written to the database, as those of `node`. Each committer has a connection of its
/// own, and the entries of a spool always go through the same one. Requests for detail of `orders` are sent to the agents that are
/// connected.
///
/// # Errors
/// The listener breaks, or there is no committer.
#[allow(clippy::too_many_arguments)] // Each once, from where all of them are made.
pub async fn run<C: Committer>(
    listener: TcpListener,
    committers: Vec<C>,
    leaser: Arc<dyn Leaser>,
    orders: impl DetailOrders,
    access: Access,
    metrics: SelfMetrics,
    node: String,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    anyhow::ensure!(!committers.is_empty(), "a collector without a writer stores nothing");
    let (queue, items) = queue::Queues::new(committers.len());
    let memory = Arc::new(Semaphore::new(queue::QUEUE_UNITS));
    // Cancelled when the writer may no longer wait for the database.
    let give_up = CancellationToken::new();
    let writer = tokio::spawn(writer::run(
        items,
        committers,
        metrics.clone(),
        access.rejected.clone(),
        give_up.clone(),
    ));
    let refused = Arc::new(refused::RefusedSenders::default());
    let clocks = clocks(&access, &node, &metrics);
    tokio::spawn(clocks.clone().watch(stop.clone()));
    let own_stop = stop.clone();
    let quotas = SenderQuotas::new(access.quotas, metrics.clone());
    let (own_refused, own_quotas) = (refused.clone(), quotas.clone());
    let own = own::send(
        node,
        metrics.clone(),
        own_refused,
        own_quotas,
        clocks.clone(),
        queue.clone(),
        memory.clone(),
        own_stop,
    );
    tokio::spawn(own);
    let bars = Bars::new(access.bars.is_some());
    if let Some(list) = access.bars {
        tokio::spawn(bars.clone().read(list, stop.clone()));
    }
    let registry = Registry::new(access.limits, metrics.clone());
    let routes = detail::Routes::default();
    tokio::spawn(detail::run(routes.clone(), orders, stop.clone()));
    let service = service::Service::new(
        queue,
        routes,
        memory,
        leaser,
        access.token,
        bars,
        quotas,
        access.accept,
        clocks,
        metrics,
        refused,
        stop.clone(),
    );
    let tls = access.tls.map(ServerTls::new).transpose().map_err(Failure::from)?;
    let gate = Gate::new(tls, access.crawlers, access.users);
    let (accepting, connections) = ConnectionAcceptor::new(gate, registry.clone(), stop.clone());
    accepting.tcp(listener);
    let local = serve_socket(access.socket, &accepting, stop.clone());
    // The server is dropped, with its end of the queue, before the writer is waited for.
    let served = tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits::STREAMS_PER_CONNECTION)
        .max_frame_size(limits::FRAME_BYTES_MAX)
        .http2_max_header_list_size(limits::HEADER_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(limits::RESET_STREAMS_MAX))
        .http2_max_local_error_reset_streams(Some(limits::RESET_STREAMS_MAX))
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .add_service(CollectServer::new(service).max_decoding_message_size(limits::MESSAGE_BYTES_MAX))
        .serve_with_incoming_shutdown(connections, stop.clone().cancelled_owned());
    tokio::pin!(served);
    let result = tokio::select! {
        result = &mut served => result.map_err(anyhow::Error::from),
        // Never ends otherwise.
        Err(failure) = local => Err(failure.into()),
        () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => {
            tracing::warn!("the database did not take the last batches in time: their senders keep them");
            give_up.cancel();
            registry.close_all();
            served.await.map_err(anyhow::Error::from)
        }
    };
    give_up.cancel();
    writer.await?;
    result
}

fn clocks(access: &Access, node: &str, metrics: &SelfMetrics) -> Clocks {
    Clocks::new(
        access.clock.clone(),
        access.clock_plan,
        access.own_clock.clone(),
        node.to_owned(),
        access.clocks.clone(),
        metrics.clone(),
    )
}

/// Takes connections of the Unix socket until `stop`; its file goes with this future.
async fn serve_socket(
    socket: Option<Socket>,
    accepting: &ConnectionAcceptor,
    stop: CancellationToken,
) -> Result<Infallible, Failure> {
    if let Some(socket) = socket
        && let Some(taken) = stop.run_until_cancelled(socket.take()).await
        && let Some((listener, _mark)) = taken?
    {
        stop.run_until_cancelled(accepting.unix(listener)).await;
    }
    std::future::pending().await
}
