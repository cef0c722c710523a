//! Offsets of spans and measurements in the store: what the collector needs of it, and what it writes there.

use std::time::{Duration, Instant};

use throughline_store::{SenderClock, SenderClocks, ServerClock, SpanOffset};

use super::Clocks;
use crate::CommitError;

/// A sender's measurement is written after this time, or once it changed by [`WRITE_CHANGE_SECONDS`].
const WRITE_LONGEST: Duration = Duration::from_secs(30);
const WRITE_CHANGE_SECONDS: f64 = 1.0;

/// What the collector needs of the store; tests have one in memory.
#[tonic::async_trait]
pub trait ClockStore: std::fmt::Debug + Send + Sync + 'static {
    /// Offsets of spans that are known, seconds; see [`SpanOffset`].
    async fn offsets(&self, sender: &str, spans: &[u64]) -> Result<Vec<SpanOffset>, CommitError>;
    /// Writes offsets where none are known; those that hold.
    async fn fix(&self, sender: &str, spans: &[SpanOffset]) -> Result<Vec<SpanOffset>, CommitError>;
    /// Writes measurements.
    async fn note(&self, senders: &[SenderClock], server: &ServerClock) -> Result<(), CommitError>;
}

fn away(error: throughline_store::Error) -> CommitError {
    CommitError::Away(error.to_string())
}

#[tonic::async_trait]
impl ClockStore for tokio::sync::Mutex<SenderClocks> {
    async fn offsets(&self, sender: &str, spans: &[u64]) -> Result<Vec<SpanOffset>, CommitError> {
        self.lock().await.offsets(sender, spans).await.map_err(away)
    }

    async fn fix(&self, sender: &str, spans: &[SpanOffset]) -> Result<Vec<SpanOffset>, CommitError> {
        self.lock().await.fix(sender, spans).await.map_err(away)
    }

    async fn note(&self, senders: &[SenderClock], server: &ServerClock) -> Result<(), CommitError> {
        self.lock().await.note(senders, server).await.map_err(away)
    }
}

impl Clocks {
    /// Writes what was measured since.
    pub(super) async fn write(&self) {
        let Some(store) = &self.0.store else { return };
        let (verdict, now) = (self.0.own.verdict(), Instant::now());
        let (mut due, mut senders) = (Vec::new(), 0);
        for (sender, known) in &self.lock().senders {
            let Some((exchange, at)) = known.measured() else { continue };
            senders += 1;
            #[allow(clippy::cast_precision_loss)] // Seconds.
            let one = SenderClock {
                sender: sender.to_string(),
                measured_at: exchange.server_time,
                sender_time: exchange.sender_time,
                offset_seconds: exchange.offset as f64 / 1e9,
                round_trip_seconds: exchange.round_trip as f64 / 1e9,
                newest_record: known.newest,
            };
            let is_due = known.written.is_none_or(|(written, offset)| {
                at > written
                    && (now.duration_since(written) >= WRITE_LONGEST
                        || (offset - one.offset_seconds).abs() >= WRITE_CHANGE_SECONDS)
            });
            if is_due {
                due.push(one);
            }
        }
        #[allow(clippy::cast_precision_loss)] // Seconds.
        let server = ServerClock {
            server: self.0.server.clone(),
            judged_at: self.now(),
            offset_seconds: verdict.map_or(0.0, |verdict| verdict.ahead as f64 / 1e9),
            senders_alike: verdict.map_or(0, |verdict| u32::try_from(verdict.alike).unwrap_or(u32::MAX)),
            senders,
        };
        match store.note(&due, &server).await {
            Ok(()) => {
                let mut state = self.lock();
                for one in due {
                    if let Some(known) = state.senders.get_mut(one.sender.as_str()) {
                        known.written = Some((now, one.offset_seconds));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "clocks of senders are written later"),
        }
    }
}
