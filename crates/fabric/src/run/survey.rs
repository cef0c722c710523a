//! The thread of discovery: walks the subnet at start, at an interval and when asked, and publishes what it
//! found.

use super::config::Config;
use super::shared::{Found, Shared};
use super::trigger::Trigger;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_fabric::discover::{Discovery, discover};
use throughline_fabric::engine::{Engine, EngineError};
use throughline_fabric::port::FabricPort;
use throughline_fabric::records;
use throughline_fabric::stop::Stop;
use throughline_fabric::transport::{Class, Transport};
use throughline_sample::catalogue::{FAILED_READS, RECORDS, ROUND_SECONDS, SOURCE_UP};
use throughline_sample::wire::Batch;
use throughline_spool::Class as SpoolClass;

/// Name of this part in figures.
const NAME: &str = "discovery";
/// Shortest time from one discovery to the next where a sweep asks for it, unless the configured interval is
/// shorter: a walk costs each switch some 100 SMPs.
const SHORTEST_GAP: Duration = Duration::from_secs(5);
/// Wait after a transport broke before it is opened again.
pub const REOPEN_PAUSE: Duration = Duration::from_secs(2);

/// Starts the thread. It ends with its engine, to be closed once no other thread speaks MADs: libumad2sim is not
/// made for a close beside other calls.
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
        .name("mad-discovery".to_owned())
        .spawn(move || run(&config, &port, transport, &shared, &stop))
}

fn run(
    config: &Config,
    port: &FabricPort,
    transport: Box<dyn Transport>,
    shared: &Shared,
    stop: &Stop,
) -> Option<Engine> {
    let mut engine = Engine::new(transport, config.mad.settings().for_class(Class::Management));
    let (mut is_told, mut is_doubted) = (false, false);
    loop {
        if !shared.duty.wait(stop) {
            return Some(engine);
        }
        let began = shared.publisher.clock.now();
        let start = Instant::now();
        match discover(&mut engine, true, stop.flag()) {
            Ok(found) if !found.topology.nodes.is_empty() => {
                is_told = false;
                let before = shared.found();
                // Looked at twice before it is believed.
                is_doubted = !is_doubted && before.is_some_and(|before| found.is_doubtful(&before.topology));
                if is_doubted {
                    let unread = found.failures.len();
                    tracing::info!(
                        unread,
                        "nodes are missing and not all requests were answered; looking again"
                    );
                    shared.want_discovery(&Trigger::Doubt);
                } else {
                    publish(found, began, shared);
                }
            }
            Ok(_) => {
                shared.publisher.figures.set(NAME, &SOURCE_UP, 0.0);
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!("the local node does not answer subnet management requests; trying on");
                }
            }
            Err(EngineError::Stopped) => return Some(engine),
            Err(EngineError::Transport(error)) => {
                shared.publisher.figures.set(NAME, &SOURCE_UP, 0.0);
                tracing::warn!(%error, "discovery broke off");
                match reopen(engine, port, Class::Management, config, stop) {
                    Some(opened) => engine = opened,
                    None => return None,
                }
            }
        }
        tell_stats(&engine, shared);
        let interval = config.discovery.interval_seconds.duration();
        if stop.sleep(SHORTEST_GAP.min(interval).saturating_sub(start.elapsed())) {
            return Some(engine);
        }
        let wanted = shared.wait_for_discovery(interval.saturating_sub(start.elapsed()), stop);
        if !wanted.is_nothing() {
            tracing::debug!(reasons = ?wanted.reasons, "a look before its time");
        }
        if stop.is_set() {
            return Some(engine);
        }
    }
}

/// Closes a broken transport and opens it again as soon as that works; `None` when the process stops.
pub fn reopen(
    broken: Engine,
    port: &FabricPort,
    class: Class,
    config: &Config,
    stop: &Stop,
) -> Option<Engine> {
    drop(broken);
    loop {
        if stop.sleep(REOPEN_PAUSE) {
            return None;
        }
        match port.open(class) {
            Ok(transport) => {
                return Some(Engine::new(transport, config.mad.settings().for_class(class)));
            }
            Err(error) => tracing::debug!(%error, "opening the device again"),
        }
    }
}

fn publish(found: Discovery, began: i64, shared: &Shared) {
    let publisher = &shared.publisher;
    let topology = Arc::new(found.topology);
    let now = publisher.clock.now();
    let signature = topology.signature();
    let before = shared.set_found(Found { topology: topology.clone(), signature });
    let (nodes, links) = (topology.nodes.len(), topology.cables().count());
    let changed = before.as_ref().is_none_or(|before| before.signature != signature);
    if changed {
        let (elapsed, failures) = (found.elapsed.as_secs_f64(), found.failures.len());
        tracing::info!(nodes, links, failures, elapsed_seconds = elapsed, "topology");
    }
    for failure in found.failures.iter().take(10) {
        tracing::debug!(?failure, "not read");
    }
    let mut records = nodes + 1;
    for batch in records::inventory(&topology, began, now) {
        publisher.append(batch, SpoolClass::Precious);
    }
    if let Some(before) = before.filter(|_| changed) {
        let events = records::changes(&before.topology, &topology, now);
        for event in events.iter().filter(|event| event.severity == "warning") {
            tracing::warn!(kind = event.kind, "{}", event.text);
        }
        records += events.len();
        if !events.is_empty() {
            publisher.append(Batch { events, ..Batch::default() }, SpoolClass::Precious);
        }
    }
    let figures = &publisher.figures;
    figures.add(NAME, &RECORDS, records as u64);
    figures.add(NAME, &FAILED_READS, found.failures.len() as u64);
    figures.set(NAME, &ROUND_SECONDS, found.elapsed.as_secs_f64());
    figures.set(NAME, &SOURCE_UP, 1.0);
}

/// The engine's counts; a reopened one begins at 0, which a reader of counters can handle.
fn tell_stats(engine: &Engine, shared: &Shared) {
    super::housekeeping::tell_stats(NAME, &engine.stats(), &shared.publisher.figures);
}
