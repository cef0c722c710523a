//! The thread of sweeps: reads all ports at an interval, appends the rows and keeps the last readings.

use super::config::Config;
use super::pace::Pace;
use super::shared::{Found, LastSweep, Shared};
use super::survey::reopen;
use super::trigger::Trigger;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use throughline_fabric::engine::{Engine, EngineError};
use throughline_fabric::port::FabricPort;
use throughline_fabric::records::{self, SOURCE};
use throughline_fabric::stop::Stop;
use throughline_fabric::sweep::{ClockPoint, Coverage, PortReading, Selection, Sweeper};
use throughline_fabric::transport::{Class, Transport};
use throughline_sample::catalogue::{FAILED_READS, OVERRUNS, RECORDS, ROUND_SECONDS, SOURCE_UP};
use throughline_sample::wire::Batch;
use throughline_spool::Class as SpoolClass;

/// Stream of coverage rows in the spool; samples have the numbers from [`FIRST_SAMPLE_STREAM`].
const COVERAGE_STREAM: u16 = 1;
/// Stream of the first batch of samples of a sweep. Each batch of a sweep has its own: a full spool keeps every
/// second entry of each stream, and so of each port.
const FIRST_SAMPLE_STREAM: u16 = 16;

/// Starts the thread. It ends with its engine, like that of discovery.
///
/// # Errors
/// It can't be started.
pub fn spawn(
    config: Config,
    port: Arc<FabricPort>,
    transport: Box<dyn Transport>,
    shared: Arc<Shared>,
    stop: Stop,
) -> std::io::Result<JoinHandle<Option<Engine>>> {
    std::thread::Builder::new()
        .name("mad-sweep".to_owned())
        .spawn(move || Sweeps::new(config, shared, stop, transport).run(&port))
}

struct Sweeps {
    config: Config,
    shared: Arc<Shared>,
    stop: Stop,
    engine: Engine,
    sweeper: Option<(u64, Sweeper)>,
    /// Which ports could not be read last time, as a number.
    failing: u64,
    is_told: bool,
}

impl Sweeps {
    fn new(config: Config, shared: Arc<Shared>, stop: Stop, transport: Box<dyn Transport>) -> Sweeps {
        let engine = Engine::new(transport, config.mad.settings());
        Sweeps { config, shared, stop, engine, sweeper: None, failing: 0, is_told: false }
    }

    fn run(mut self, port: &FabricPort) -> Option<Engine> {
        let mut pace = Pace::new(self.config.sweep.interval_seconds.duration());
        if self.shared.wait_for_topology(&self.stop).is_none() {
            return Some(self.engine);
        }
        while let Some(missed) = pace.tick(&self.stop) {
            if self.shared.duty.is_standby() {
                continue;
            }
            let figures = &self.shared.publisher.figures;
            figures.add(SOURCE, &OVERRUNS, u64::from(missed));
            let Some(found) = self.shared.found() else { continue };
            match self.sweep(&found) {
                Ok(()) => {}
                Err(EngineError::Stopped) => return Some(self.engine),
                Err(EngineError::Transport(error)) => {
                    self.shared.publisher.figures.set(SOURCE, &SOURCE_UP, 0.0);
                    tracing::warn!(%error, "a sweep broke off");
                    self.engine = reopen(self.engine, port, Class::Performance, &self.config, &self.stop)?;
                    // The new engine knows no nodes: plan again, with the memory of epochs.
                    let former = self.sweeper.take().map(|(_, sweeper)| sweeper);
                    self.sweeper = Some((found.signature, self.plan(&found, former)));
                }
            }
            super::housekeeping::tell_stats(SOURCE, &self.engine.stats(), &self.shared.publisher.figures);
        }
        Some(self.engine)
    }

    fn plan(&mut self, found: &Found, former: Option<Sweeper>) -> Sweeper {
        let selection = Selection { unlinked: self.config.sweep.all_ports };
        let level = self.config.mad.service_level.0;
        Sweeper::new(&mut self.engine, &found.topology, level, selection, former)
    }

    fn sweep(&mut self, found: &Found) -> Result<(), EngineError> {
        let mut sweeper = match self.sweeper.take() {
            Some((signature, sweeper)) if signature == found.signature => sweeper,
            other => self.plan(found, other.map(|(_, sweeper)| sweeper)),
        };
        let clock = &self.shared.publisher.clock;
        let start = ClockPoint { instant: Instant::now(), unix_nanoseconds: clock.now() };
        let result = sweeper.sweep(&mut self.engine, start, self.stop.flag());
        if let Ok(coverage) = &result {
            self.shared.duty.progress();
            self.publish(found, sweeper.readings(), coverage, start);
        }
        self.sweeper = Some((found.signature, sweeper));
        result.map(drop)
    }

    fn publish(&mut self, found: &Found, readings: &[PortReading], coverage: &Coverage, start: ClockPoint) {
        let publisher = &self.shared.publisher;
        let mut last = None;
        for (number, batch) in records::samples(readings).into_iter().enumerate() {
            let stream = FIRST_SAMPLE_STREAM.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
            if !batch.ib_ports.is_empty() {
                last = publisher.append(batch, SpoolClass::Cumulative(stream)).or(last);
            }
        }
        let row = records::coverage(publisher.clock.now(), coverage);
        publisher.append(
            Batch { coverage: vec![row], ..Batch::default() },
            SpoolClass::Cumulative(COVERAGE_STREAM),
        );
        if let Some(sequence) = last {
            // Only the measurement of the way to the store waits in this channel; a full one skips a round.
            let _ = publisher.rounds.try_send((start.instant, sequence));
        }
        let figures = &publisher.figures;
        let read = coverage.complete + coverage.partial;
        figures.add(SOURCE, &RECORDS, read as u64 + 1);
        figures.add(SOURCE, &FAILED_READS, (coverage.missing + coverage.partial) as u64);
        figures.set(SOURCE, &ROUND_SECONDS, coverage.elapsed.as_secs_f64());
        tracing::debug!(elapsed_seconds = coverage.elapsed.as_secs_f64(), "swept");
        figures.set(SOURCE, &SOURCE_UP, f64::from(u8::from(read > 0)));
        self.shared.set_last(LastSweep {
            topology: found.topology.clone(),
            readings: Arc::new(readings.to_vec()),
            at: Instant::now(),
        });
        self.look_at_failures(readings, coverage);
    }

    /// Ports that fail and did not fail before: the topology may have changed.
    fn look_at_failures(&mut self, readings: &[PortReading], coverage: &Coverage) {
        if readings.is_empty() && !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!("no port has both a link and a LID; is a subnet manager running?");
        }
        let mut hasher = DefaultHasher::new();
        for reading in readings.iter().filter(|reading| reading.failure.is_some()) {
            (reading.guid, reading.port).hash(&mut hasher);
        }
        let failing = if coverage.complete == coverage.expected { 0 } else { hasher.finish() };
        if failing != self.failing && failing != 0 {
            let incomplete = coverage.expected - coverage.complete;
            tracing::warn!(expected = coverage.expected, reasons = ?coverage.reasons, "{incomplete} ports were not read completely");
            let mut nodes: Vec<_> = readings
                .iter()
                .filter(|reading| reading.failure.is_some())
                .map(|reading| reading.guid)
                .collect();
            nodes.dedup();
            self.shared.want_discovery(&Trigger::SweepFailure(nodes));
        }
        if coverage.cleared > 0 {
            tracing::info!(
                ports = coverage.cleared,
                "counters were cleared by somebody, or devices were reset"
            );
        }
        self.failing = failing;
    }
}
