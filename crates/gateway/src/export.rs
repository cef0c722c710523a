//! Role export: all samples by Prometheus' remote write, with the names and labels of scraping, to receivers that keep them
//! for as long as a site wants: Prometheus, VictoriaMetrics, Mimir.
//!
//! What is sent is read from the database, window by window ([`throughline_query::history::tail`]), and how far a receiver has
//! it stands there, too ([`throughline_store::ExportTarget`]). So nothing waits in memory while a receiver is away, and a
//! server that was killed goes on where it was: at most the one request without an acknowledgement is sent again. A sample
//! has its time and value from the database, so that a receiver that had it already has it once.
//!
//! Of several servers on one database one sends to a receiver, the one with its lock.

mod message;
mod receiver;
mod settings;
mod target;

pub use settings::{Protocol, RemoteWrite};

use std::time::Duration;
use throughline_daemon::{Labels, SelfMetrics};
use throughline_sample::catalogue::{
    COMMIT_FAILURES, EXPORT_DISCARDED_SECONDS, EXPORT_FAILURES, EXPORT_LATE_SAMPLES, EXPORT_RECEIVER_UP,
    EXPORT_REPEATED_SAMPLES, EXPORT_SAMPLES_REJECTED, EXPORTED_SAMPLES,
};
use throughline_store::Database;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The part of the server whose self-metrics these are.
const SOURCE: &str = "export";

/// How often a server without the lock requests it, and a lost database is looked for.
const RETRY: Duration = Duration::from_secs(5);

/// Sends to all receivers until `stop`. An absent database is waited for, and an absent receiver. `retained` is how long
/// readings are rows: what is older is not sent.
///
/// # Errors
/// A receiver's settings can't be used: its certificates or its token.
pub async fn run(
    database: Database,
    targets: Vec<RemoteWrite>,
    retained: Duration,
    metrics: SelfMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut all = JoinSet::new();
    for settings in targets {
        let receiver = receiver::Receiver::new(&settings)?;
        all.spawn(keep_sending(database.clone(), settings, receiver, retained, metrics.clone()));
    }
    stop.cancelled().await;
    Ok(())
}

/// Sends to one receiver for as long as it is polled.
async fn keep_sending(
    database: Database,
    settings: RemoteWrite,
    receiver: receiver::Receiver,
    retained: Duration,
    metrics: SelfMetrics,
) {
    // Labels of metrics live as long as the process, and there are as many as receivers are configured.
    let receiver_name: &'static str = Box::leak(settings.name.clone().into_boxed_str());
    let labels = Labels::from((SOURCE, receiver_name));
    for metric in [
        &EXPORTED_SAMPLES,
        &EXPORT_FAILURES,
        &EXPORT_SAMPLES_REJECTED,
        &EXPORT_REPEATED_SAMPLES,
        &EXPORT_LATE_SAMPLES,
        &EXPORT_DISCARDED_SECONDS,
    ] {
        metrics.add(labels, metric, 0);
    }
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    let mut is_failing = false;
    loop {
        let target = target::Target::new(&settings, &receiver, retained, &metrics, labels);
        if let Err(error) = target.hold(&database, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            metrics.set(labels, &EXPORT_RECEIVER_UP, 0.0);
            if !is_failing {
                tracing::warn!(
                    receiver = receiver_name,
                    error = format!("{error:#}"),
                    "export: trying again"
                );
            }
            is_failing = true;
        }
        tokio::time::sleep(RETRY).await;
    }
}
