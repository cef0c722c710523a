//! Role collect within `serve`: its open files, and a runtime of its own, so that no reader takes its threads.

use super::config::CollectConfig;
use anyhow::Context;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use throughline_collector::{OwnClock, RejectedSenders};
use throughline_daemon::{Failure, SelfMetrics, raise_descriptors};
use throughline_store::{Database, DetailQueue, NodeBars, NodeLimits, SenderClocks, TermClient, Writer};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Everything that role collect needs but the database.
pub struct Collect {
    listener: TcpListener,
    access: throughline_collector::Access,
    writers: usize,
    node_limits: NodeLimits,
    runtime: OwnRuntime,
}

/// Raises the limit of open files to what the connections of role collect need, as far as this process may.
///
/// # Errors
/// A number of the configuration is out of range (64).
pub fn raise_limits(config: &CollectConfig) -> Result<u64, Failure> {
    if !config.enabled {
        return Ok(raise_descriptors(0));
    }
    Ok(raise_descriptors(config.limits()?.descriptors()))
}

/// Ends without waiting: a runtime must not be waited for on a thread of another one.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Collect {
    /// Reads the files that the configuration names. Where the limit of open files leaves no room for all connections,
    /// fewer are taken.
    ///
    /// # Errors
    /// A file can't be used, a user is unknown, or hardly an open file is left.
    pub fn new(
        listener: tokio::net::TcpListener,
        config: &CollectConfig,
        run_dir: Option<&Path>,
        rejected: RejectedSenders,
        own_clock: OwnClock,
    ) -> anyhow::Result<Self> {
        config.tls.as_ref().map_or(Ok(()), throughline_delivery::TlsFiles::check).map_err(Failure::from)?;
        let mut access = config.access(run_dir)?;
        (access.rejected, access.own_clock) = (rejected, own_clock);
        let wanted = access.limits.descriptors();
        let descriptors = raise_limits(config)?;
        access.limits = access.limits.within(descriptors)?;
        if descriptors < wanted {
            tracing::warn!(
                descriptors,
                wanted,
                connections = access.limits.connections,
                "the limit of open files leaves room for fewer connections: LimitNOFILE= in the unit, or `ulimit -n`, \
                 raises it"
            );
        }
        let runtime = Builder::new_multi_thread().thread_name("collect").enable_all().build();
        let runtime = OwnRuntime(Some(runtime.context("threads of role collect")?));
        Ok(Self {
            listener: listener.into_std()?,
            access,
            writers: config.writers()?,
            node_limits: config.node_limits()?,
            runtime,
        })
    }

    /// Takes batches into this database until `stop`.
    ///
    /// # Errors
    /// See [`throughline_collector::run`].
    pub async fn run(
        self,
        database: Database,
        metrics: SelfMetrics,
        node: String,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let Self { listener, mut access, writers, node_limits, runtime } = self;
        access.bars = Some(Arc::new(Mutex::new(NodeBars::new(database.clone()))));
        access.clocks = Some(Arc::new(Mutex::new(SenderClocks::new(database.clone()))));
        let Some(threads) = &runtime.0 else { return Ok(()) };
        let work = threads.spawn(async move {
            // Watched by the threads that use it.
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let writer = |_| Writer::new(database.clone()).with_node_limits(node_limits);
            let writers = (0..writers).map(writer).collect();
            let orders = DetailQueue::new(database.clone());
            let terms = Arc::new(Mutex::new(TermClient::new(database)));
            throughline_collector::run(listener, writers, terms, orders, access, metrics, node, stop).await
        });
        let result = work.await;
        drop(runtime);
        result?
    }
}
