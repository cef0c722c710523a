//! The thread of sweeps: reads all ports at an interval, appends the rows and keeps the last readings.

use super::config::Config;
use super::pace::Pace;
use super::recording::ReadingRecorder;
use super::shared::{LastSweep, SharedState, SignedTopology};
use super::trigger::Trigger;
use crate::engine::{Engine, EngineError};
use crate::events;
use crate::port::FabricPort;
use crate::stop::Stop;
use crate::sweep::plan::{self, Cost, Plan};
use crate::sweep::{ClockPoint, Sweeper, UNANSWERED, epochs};
use crate::transport::{Class, Transport};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::reading::thin::Thinner;
use throughline_infiniband::reading::{Coverage, PortReading};
use throughline_infiniband::records::{self, SOURCE};
use throughline_sample::catalogue::{
    CLEARED_COUNTERS, DEFERRED_READS, FAILED_READS, LARGEST_GAP_SECONDS, LAST_ROUND_SECONDS, OVERRUNS,
    RECORDS, SOURCE_UP, STATE_FAILURES, UNANSWERED_PORTS, UNCHANGED_READINGS, UNSUPPORTED_COUNTERS,
};
use throughline_sample::wire::Batch;
use throughline_spool::Class as SpoolClass;

/// Stream of coverage rows in the spool; samples have the numbers from [`FIRST_SAMPLE_STREAM`].
const COVERAGE_STREAM: u16 = 1;
/// Stream of the first batch of samples of a sweep. Each batch of a sweep has its own: a full spool keeps every
/// second entry of each stream, and so of each port.
const FIRST_SAMPLE_STREAM: u16 = 16;
/// What is retained of ports over restarts, in the state folder.
const EPOCHS_FILE: &str = "fabric-epochs";
/// From one writing of that file to the next. What is cleared between the last one and a crash, and has grown
/// beyond its old value by the next start, goes unnoticed.
const EPOCHS_INTERVAL: Duration = Duration::from_secs(60);

/// Starts the thread. It ends with its engine, like that of discovery.
///
/// # Errors
/// It can't be started.
pub fn spawn(
    config: Config,
    port: Arc<FabricPort>,
    transport: Box<dyn Transport>,
    shared: Arc<SharedState>,
    stop: Stop,
    state_dir: &Path,
) -> std::io::Result<JoinHandle<Option<Engine>>> {
    let epochs = state_dir.join(EPOCHS_FILE);
    std::thread::Builder::new().name("mad-sweep".to_owned()).spawn(move || {
        let mut sweeps = Sweeps::new(config, shared, stop, transport, epochs);
        let engine = sweeps.run(&port);
        sweeps.keep_epochs(true);
        engine
    })
}

struct Sweeps {
    config: Config,
    plan: Plan,
    thinner: Thinner,
    whole: ReadingRecorder,
    shared: Arc<SharedState>,
    stop: Stop,
    /// Taken when the thread ends.
    engine: Option<Engine>,
    sweeper: Option<(u64, Sweeper)>,
    /// Rounds so far: what of the plan is due.
    round: u64,
    epochs: PathBuf,
    epochs_kept: Instant,
    writing: Option<JoinHandle<()>>,
    /// Which ports could not be read last time, as a number.
    failing: u64,
    is_reported: bool,
}

impl Sweeps {
    fn new(
        config: Config,
        shared: Arc<SharedState>,
        stop: Stop,
        transport: Box<dyn Transport>,
        epochs: PathBuf,
    ) -> Sweeps {
        let engine = Some(Engine::new(transport, config.mad.settings()));
        let plan = config.sweep.plan();
        let thinner = Thinner::new(config.sweep.omit_unchanged, config.sweep.quiet_bytes);
        Sweeps {
            config,
            plan,
            thinner,
            whole: ReadingRecorder::default(),
            shared,
            stop,
            engine,
            sweeper: None,
            round: 0,
            epochs,
            epochs_kept: Instant::now(),
            writing: None,
            failing: 0,
            is_reported: false,
        }
    }

    fn run(&mut self, port: &FabricPort) -> Option<Engine> {
        let mut pace = Pace::new(self.plan.tick);
        if self.shared.wait_for_topology(&self.stop).is_none() {
            return self.engine.take();
        }
        while let Some(missed) = pace.tick(&self.shared.publisher.clock, &self.stop) {
            if self.shared.leader.is_passive() {
                continue;
            }
            let metrics = &self.shared.publisher.metrics;
            metrics.add(SOURCE, &OVERRUNS, u64::from(missed));
            let Some(found) = self.shared.found() else { continue };
            match self.sweep(&found) {
                Ok(()) => {}
                Err(EngineError::Stopped) => break,
                Err(EngineError::Transport(error)) => {
                    tracing::warn!(%error, "a sweep broke off");
                    let (shared, stop) = (&*self.shared, &self.stop);
                    let broken = (self.engine.take()?, &error);
                    let part = (SOURCE, Class::Performance);
                    match shared.device.reopen(part, broken, port, &self.config, (shared, stop)) {
                        Ok(opened) => self.engine = Some(opened),
                        Err(broken) => return broken.map(|engine| *engine),
                    }
                    // The new engine knows no nodes: plan again, with the memory of epochs.
                    let former = self.sweeper.take().map(|(_, sweeper)| sweeper);
                    self.sweeper = self.planned(&found, former).map(|sweeper| (found.signature, sweeper));
                }
            }
            if let Some(engine) = &self.engine {
                super::self_metrics::report_stats(SOURCE, &engine.stats(), &self.shared.publisher.metrics);
            }
            self.keep_epochs(false);
        }
        self.engine.take()
    }

    /// `None` only after the engine was given away, at the end.
    fn planned(&mut self, found: &SignedTopology, former: Option<Sweeper>) -> Option<Sweeper> {
        let config = &self.config.sweep;
        let selection = config.selection();
        let level = self.config.mad.service_level.0;
        let is_first = former.is_none();
        let engine = self.engine.as_mut()?;
        let chosen = |node: &_| config.class_of(node);
        let mut sweeper = Sweeper::choosing(engine, &found.topology, level, selection, &chosen, former);
        sweeper.want_ticks();
        sweeper.rest_silent_nodes();
        if is_first {
            self.recall(&mut sweeper);
        }
        self.report_cost(&sweeper);
        Some(sweeper)
    }

    /// Epochs of an earlier run.
    fn recall(&self, sweeper: &mut Sweeper) {
        match epochs::load(sweeper, &self.epochs) {
            Ok(Some(ports)) => tracing::debug!(ports, "counting goes on from the last run"),
            Ok(None) => {}
            Err(error) => {
                let file = self.epochs.display();
                self.shared.publisher.metrics.add(SOURCE, &STATE_FAILURES, 1);
                tracing::warn!("{file} is not used: {error}; counting begins anew, with new epochs");
            }
        }
    }

    /// Writes epochs down once a minute, beside the sweeps: a disk may take longer than there is time between
    /// two. At the end it is waited for.
    fn keep_epochs(&mut self, is_end: bool) {
        if !is_end && self.epochs_kept.elapsed() < EPOCHS_INTERVAL {
            return;
        }
        if let Some(writing) = self.writing.take_if(|writing| is_end || writing.is_finished()) {
            // A panic there was reported by its thread.
            let _ = writing.join();
        }
        let Some((_, sweeper)) = self.sweeper.as_ref().filter(|_| self.writing.is_none()) else { return };
        self.epochs_kept = Instant::now();
        let (text, path, shared) = (epochs::text_of(sweeper), self.epochs.clone(), self.shared.clone());
        let write = move || {
            if let Err(error) = epochs::replace(&path, &text) {
                shared.publisher.metrics.add(SOURCE, &STATE_FAILURES, 1);
                tracing::warn!(
                    "{} can't be written: {error}; after a restart counting begins anew",
                    path.display()
                );
            }
        };
        if is_end {
            write();
        } else {
            self.writing = std::thread::Builder::new().name("epochs".to_owned()).spawn(write).ok();
        }
    }

    /// What the plan costs on this fabric, once it is known.
    fn report_cost(&self, sweeper: &Sweeper) {
        for (class, cost) in plan::costs(&self.plan, sweeper).iter().enumerate() {
            let (fast, slow) = (cost.fast_requests, cost.slow_requests);
            tracing::info!(
                class = self.config.sweep.class_name(class),
                nodes = cost.nodes,
                ports = cost.ports,
                fast_requests = fast,
                fast_wire_bytes = Cost::wire_bytes(fast),
                slow_requests = slow,
                requests_per_second = format!("{:.0}", cost.requests_per_second),
                wire_bytes_per_second = format!("{:.0}", cost.bytes_per_second()),
                "sweep plan, at most"
            );
        }
    }

    fn sweep(&mut self, found: &SignedTopology) -> Result<(), EngineError> {
        let sweeper = match self.sweeper.take() {
            Some((signature, sweeper)) if signature == found.signature => Some(sweeper),
            other => self.planned(found, other.map(|(_, sweeper)| sweeper)),
        };
        let (Some(mut sweeper), Some(engine)) = (sweeper, self.engine.as_mut()) else { return Ok(()) };
        let clock = &self.shared.publisher.clock;
        let start = ClockPoint { instant: Instant::now(), unix_nanoseconds: clock.now() };
        let (plan, round) = (&self.plan, self.round);
        let due = |target: usize, class: u8| plan.due(round, target, class);
        let result = sweeper.sweep_due(engine, start, self.stop.flag(), due);
        if let Ok(coverage) = &result {
            self.round += 1;
            self.publish(found, &sweeper, coverage, start);
            self.report_unanswered(found, &mut sweeper);
            self.shared.leader.progress();
        }
        self.sweeper = Some((found.signature, sweeper));
        result.map(drop)
    }

    fn publish(&mut self, found: &SignedTopology, sweeper: &Sweeper, coverage: &Coverage, start: ClockPoint) {
        let publisher = &self.shared.publisher;
        let readings = sweeper.readings();
        self.whole.record(readings, &publisher.recording);
        let mut last = None;
        let mut rows = 1;
        let (batches, left_out) =
            records::samples(sweeper.readings(), |position| sweeper.lanes(position), &mut self.thinner);
        // As the ports were found: by now a walk may see another fabric.
        let fabric = found.fabric.as_deref().cloned();
        for (number, mut batch) in batches.into_iter().enumerate() {
            batch.fabric.clone_from(&fabric);
            let stream = FIRST_SAMPLE_STREAM.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
            rows += batch.ib_ports.len() + batch.ib_port_lanes.len();
            if !(batch.ib_ports.is_empty() && batch.ib_port_lanes.is_empty()) {
                last = publisher.append(batch, SpoolClass::Cumulative(stream)).or(last);
            }
        }
        let rules = self.config.sweep.row_rules();
        publisher.metrics.set(SOURCE, &LARGEST_GAP_SECONDS, rules.largest_gap_seconds);
        let row = records::coverage(publisher.clock.now(), coverage, rules);
        publisher.append(
            Batch { coverage: vec![row], fabric, ..Batch::default() },
            SpoolClass::Cumulative(COVERAGE_STREAM),
        );
        if let Some(sequence) = last {
            // Only the measurement of the way to the store waits in this channel; a full one skips a round.
            let _ = publisher.rounds.try_send((start.instant, sequence));
        }
        let metrics = &publisher.metrics;
        let read = coverage.complete + coverage.partial;
        metrics.add(SOURCE, &RECORDS, rows as u64);
        metrics.add(SOURCE, &UNCHANGED_READINGS, left_out as u64);
        metrics.add(SOURCE, &UNSUPPORTED_COUNTERS, coverage.unsupported as u64);
        metrics.add(SOURCE, &CLEARED_COUNTERS, coverage.cleared as u64);
        let skipped = coverage.reasons.get(UNANSWERED).copied().unwrap_or(0);
        metrics.add(SOURCE, &DEFERRED_READS, skipped as u64);
        metrics.add(SOURCE, &FAILED_READS, (coverage.missing + coverage.partial - skipped) as u64);
        metrics.set(SOURCE, &LAST_ROUND_SECONDS, coverage.elapsed.as_secs_f64());
        tracing::debug!(elapsed_seconds = coverage.elapsed.as_secs_f64(), "swept");
        metrics.set(SOURCE, &SOURCE_UP, f64::from(u8::from(read > 0)));
        if read > 0 {
            self.shared.device.works(&self.shared, SOURCE);
        }
        self.shared.set_last(LastSweep {
            topology: found.topology.clone(),
            readings: Arc::new(readings.to_vec()),
            began_nanoseconds: start.unix_nanoseconds,
            elapsed: coverage.elapsed,
            at: start.instant + coverage.elapsed,
        });
        self.look_at_failures(readings, coverage);
        self.report_cleared(found, readings);
        self.report_interruptions(found, readings);
    }

    /// Links that were down for a moment are an event, once a discovery had the time to find them down.
    fn report_interruptions(&self, found: &SignedTopology, readings: &[PortReading]) {
        let now = Instant::now();
        let (has_risen, events) = {
            let mut interruptions = self.shared.publisher.interruptions();
            (interruptions.note(readings, &found.topology, now), interruptions.due(&found.topology, now))
        };
        if has_risen {
            self.shared.want_discovery(&Trigger::Doubt);
        }
        self.shared.publisher.emit(&events);
    }

    /// Nodes that never answered are an event once, and another one when they do.
    fn report_unanswered(&self, found: &SignedTopology, sweeper: &mut Sweeper) {
        let changes = sweeper.take_silence_changes();
        let silent = events::unanswered(&found.topology, &changes.silent, true);
        let answering = events::unanswered(&found.topology, &changes.answering, false);
        let events: Vec<_> = silent.into_iter().chain(answering).collect();
        self.shared.publisher.emit(&events);
        // Below 2^53.
        #[allow(clippy::cast_precision_loss)]
        self.shared.publisher.metrics.set(SOURCE, &UNANSWERED_PORTS, sweeper.unanswered_ports() as f64);
    }

    /// Counters that somebody else set back are an event: their rates begin anew.
    fn report_cleared(&self, found: &SignedTopology, readings: &[PortReading]) {
        let cleared = readings.iter().filter(|reading| reading.was_requested && reading.was_cleared);
        let ports: Vec<_> = cleared.map(|reading| (reading.guid, reading.port)).collect();
        if let Some(event) = events::cleared(&found.topology, &ports) {
            self.shared.publisher.emit(&[event]);
        }
    }

    /// Ports that fail and did not fail before: the topology may have changed.
    fn look_at_failures(&mut self, readings: &[PortReading], coverage: &Coverage) {
        if readings.is_empty() && !std::mem::replace(&mut self.is_reported, true) {
            tracing::warn!("no port has both a link and a LID; is a subnet manager running?");
        }
        let mut hasher = DefaultHasher::new();
        for reading in readings.iter().filter(|reading| reading.failure.is_some()) {
            (reading.guid, reading.port).hash(&mut hasher);
        }
        let any = readings.iter().any(|reading| reading.failure.is_some());
        let failing = if any { hasher.finish() } else { 0 };
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
        self.failing = failing;
    }
}
