//! Readings for commands: a source of their own, and a word where there is none.

use crate::config::Config;
use crate::sources::gpu_settings;
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_gpu::{GpuSource, SourceStatus, State, default_clock};
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// How long the first reading may take. A GPU driver that is not kept loaded takes seconds for each GPU.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often channel and state are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Batches that may wait here; a command takes each at once.
const BATCHES: usize = 16;

/// A source of GPU readings.
pub struct Readings {
    source: GpuSource,
    records: mpsc::Receiver<Batch>,
    interval: Duration,
}

impl Readings {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(config: &Config, interval: Duration) -> anyhow::Result<Self> {
        let (records, receiver) = mpsc::channel(BATCHES);
        let settings = throughline_gpu::GpuConfig { interval, ..gpu_settings(config) };
        let source = GpuSource::start(settings, default_clock(), records)?;
        Ok(Self { source, records: receiver, interval })
    }

    /// The next reading.
    ///
    /// # Errors
    /// What the source says of itself where none comes.
    pub async fn next(&mut self) -> Result<Batch, Box<SourceStatus>> {
        let deadline = Instant::now() + DEADLINE + self.interval;
        loop {
            match self.records.try_recv() {
                Ok(batch) if !batch.coverage.is_empty() => return Ok(batch),
                Ok(_) => continue,
                Err(_) => {}
            }
            let status = self.source.status();
            let settled = matches!(
                status.state,
                State::LibraryMissing
                    | State::LibraryUnusable
                    | State::DriverUnavailable
                    | State::NoGpu
                    | State::Wedged
            );
            // A reading that came between the two looks is taken first.
            if (settled || Instant::now() >= deadline) && self.records.is_empty() {
                return Err(Box::new(status));
            }
            sleep(LOOK).await;
        }
    }

    /// What the source says of itself.
    pub fn status(&self) -> SourceStatus {
        self.source.status()
    }

    /// Which processes use a GPU, by asking now: how many, or why that is not known.
    pub async fn processes(&self) -> Result<usize, &'static str> {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            self.source.ask_processes();
            match self.source.processes() {
                Ok(known) => return Ok(known.len()),
                Err("not_listed_yet") if Instant::now() < deadline => sleep(LOOK).await,
                Err(why) => return Err(why),
            }
        }
    }

    /// Ends it; bounded, on a thread where it may block.
    pub async fn stop(self) {
        // A panic there has been reported already.
        let _ = tokio::task::spawn_blocking(move || drop(self.source)).await;
    }
}

/// Says that there is nothing to read; the exit status is that of something missing.
///
/// # Errors
/// Always: the failure to print.
pub fn nothing(status: &SourceStatus) -> anyhow::Result<ExitCode> {
    let why =
        status.detail.clone().unwrap_or_else(|| format!("no reading came in time ({})", status.state.name()));
    Err(Failure::unavailable(format!("no GPU can be read: {why}; `throughline-agent gpu doctor` tells more"))
        .into())
}
