//! Readings for commands: a source of their own, and a word where there is none.

use crate::config::Config;
use crate::sources::gpu_sources;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_gpu::{GpuConfig, GpuSource, SourceStatus, State, Vendor, default_clock};
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
    vendor: Vendor,
}

impl Readings {
    /// Starts one.
    pub fn start(settings: GpuConfig, interval: Duration) -> anyhow::Result<Self> {
        let (records, receiver) = mpsc::channel(BATCHES);
        let vendor = settings.vendor;
        let source = GpuSource::start(GpuConfig { interval, ..settings }, default_clock(), records)?;
        Ok(Self { source, records: receiver, interval, vendor })
    }

    /// The first of the libraries that are switched on by which a GPU can be read, with its first reading.
    ///
    /// # Errors
    /// The system gives no thread; inside: what each library says of itself where none gives one.
    pub async fn first(
        config: &Config,
        interval: Duration,
    ) -> anyhow::Result<Result<(Self, Batch), UnreadableLibraries>> {
        let mut refusals = Vec::new();
        for settings in gpu_sources(config) {
            let mut readings = Self::start(settings, interval)?;
            match readings.next().await {
                Ok(batch) => return Ok(Ok((readings, batch))),
                Err(status) => refusals.push((readings.vendor, *status)),
            }
            readings.stop().await;
        }
        Ok(Err(UnreadableLibraries(refusals)))
    }

    /// Whose library it is.
    pub fn vendor(&self) -> Vendor {
        self.vendor
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
                    | State::NotPermitted
                    | State::NotSupported
                    | State::Wedged
            ) || status.fruitless > 0;
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

    /// Which processes use a GPU, by a query now: how many, or why that is not known.
    pub async fn processes(&self) -> Result<usize, &'static str> {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            self.source.query_processes();
            match self.source.processes() {
                Ok(known) => {
                    let mut all = BTreeSet::new();
                    for gpu in known {
                        all.extend(gpu.processes?);
                    }
                    return Ok(all.len());
                }
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

/// What each library says of itself where none can be read by.
pub struct UnreadableLibraries(Vec<(Vendor, SourceStatus)>);

impl UnreadableLibraries {
    /// Of one library.
    pub fn of(vendor: Vendor, status: SourceStatus) -> Self {
        Self(vec![(vendor, status)])
    }

    /// Says that there is nothing to read; the exit status is that of something missing.
    ///
    /// # Errors
    /// Always: the failure to print.
    pub fn report(&self) -> anyhow::Result<ExitCode> {
        let each = self.0.iter().map(|(vendor, status)| format!("{}: {}", vendor.name(), why(status)));
        let each = each.collect::<Vec<_>>().join("; ");
        let why = if each.is_empty() { "every source is switched off".to_owned() } else { each };
        let text = format!("no GPU can be read ({why}); `throughline-agent gpu doctor` shows more");
        Err(Failure::unavailable(text).into())
    }
}

/// Why a source gives no reading, with the remedy.
pub fn why(status: &SourceStatus) -> String {
    let unreported = || format!("no reading came in time ({})", status.state.name());
    status.detail.clone().unwrap_or_else(unreported)
}
