//! Opening the local port for a one-shot command, with the exit status that each failure has.

use super::FabricOptions;
use std::path::Path;
use throughline_crawler::discover::{self, Discovery, Limits, WalkOptions};
use throughline_crawler::engine::{Budget, Engine, EngineError, Settings};
use throughline_crawler::port::FabricPort;
use throughline_crawler::run::device_failure;
use throughline_crawler::sa::{self, Choice, Client, SaError};
use throughline_crawler::stop::Stop;
use throughline_crawler::transport::Class;
use throughline_daemon::Failure;
use throughline_infiniband::key::Key;
use throughline_infiniband::topology;

/// Failures reported one by one; the rest are a number.
pub const FAILURES_SHOWN: usize = 10;

/// The local port.
///
/// # Errors
/// No library or device (69).
pub fn open(options: &FabricOptions) -> Result<FabricPort, Failure> {
    let via = options.transport.clone().unwrap_or_default();
    FabricPort::find(&via, options.ca.as_deref(), options.port.unwrap_or(0)).map_err(device_failure)
}

/// The engine of one class.
///
/// # Errors
/// No permission (77), or the class is refused (69).
pub fn engine(port: &FabricPort, class: Class, settings: Settings) -> Result<Engine, Failure> {
    Ok(Engine::new(port.open(class).map_err(device_failure)?, settings.for_class(class)))
}

/// The client of the subnet administrator.
///
/// # Errors
/// No permission (77), or the class is refused (69).
pub fn administrator(
    port: &FabricPort,
    budget: Option<&'static Budget>,
    sm_key: Key,
) -> Result<Client, Failure> {
    let transport = port.open(Class::Administration).map_err(device_failure)?;
    // The local port as it is now: the manager may have moved since it was found.
    let local = port.refreshed().unwrap_or_else(|_| port.local().clone());
    let settings = sa::Settings { budget, sm_key, ..sa::Settings::default() };
    Ok(Client::new(transport, local.sm_lid, local.service_level, settings))
}

/// The key in a file; none without one.
///
/// # Errors
/// Wrong usage (64): the file can't be read, is open to others, or holds something else.
pub fn key(file: Option<&Path>) -> Result<Key, Failure> {
    match file {
        Some(path) => Key::from_file(path).map_err(|error| Failure::usage(error.to_string())),
        None => Ok(Key::default()),
    }
}

/// Queries the nodes, or the subnet administrator, and reports what could not be read. `how` says whether forwarding tables are
/// read, and what the discovery may take.
///
/// # Errors
/// The local node does not answer (69), neither does the administrator (69), or the command was stopped.
pub fn discover(
    port: &FabricPort,
    settings: Settings,
    sm_key: Key,
    choice: Choice,
    how: (bool, Limits),
    stop: &Stop,
) -> anyhow::Result<Discovery> {
    let (tables, limits) = how;
    if choice == Choice::Administrator {
        let found = discover_from_sa(port, settings, sm_key, how, stop).map_err(unavailable)?;
        report_failures(&found.failures);
        return Ok(found);
    }
    let mut engine = engine(port, Class::Management, settings)?;
    let look = WalkOptions { limits, ..WalkOptions::whole(None, tables) };
    let found = discover::walk(&mut engine, &look, stop.flag())?;
    drop(engine);
    if choice == Choice::Auto && sa::is_shut_out(&found) {
        match discover_from_sa(port, settings, sm_key, how, stop) {
            Ok(reported) => {
                tracing::warn!(
                    "no node beyond the local one answers subnet management requests (an M_Key?): this is what \
                     the subnet administrator knows"
                );
                report_failures(&reported.failures);
                return Ok(reported);
            }
            Err(error) => tracing::warn!("{error:#}"),
        }
    }
    if found.topology.nodes.is_empty() {
        let message = "the local node does not answer subnet management requests; check the port's state with \
                       `ibstat`, or choose another one with --ca and --port";
        return Err(Failure::unavailable(message).into());
    }
    if let Some(limit) = found.topology.truncated {
        let (nodes, key) = (found.topology.nodes.len(), limit.name());
        tracing::warn!(
            "the discovery ended at {key} with {nodes} nodes: there is more, or a switch that is no real one"
        );
    }
    report_failures(&found.failures);
    Ok(found)
}

/// The subnet as the administrator reports it.
fn discover_from_sa(
    port: &FabricPort,
    settings: Settings,
    sm_key: Key,
    (tables, limits): (bool, Limits),
    stop: &Stop,
) -> anyhow::Result<Discovery> {
    let mut client = administrator(port, settings.budget, sm_key)?;
    Ok(sa::discover(&mut client, port.local(), tables, &limits, stop.flag())?)
}

/// The exit status of an administrator that does not answer.
fn unavailable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<SaError>() {
        Some(SaError::Stopped) => EngineError::Stopped.into(),
        Some(error) => Failure::unavailable(error.to_string()).into(),
        None => error,
    }
}

/// Reports what could not be read: the first ones, and how many more there are.
pub fn report_failures(failures: &[topology::Failure]) {
    for failure in failures.iter().take(FAILURES_SHOWN) {
        let node = failure.guid.map(|guid| guid.to_string()).unwrap_or_default();
        tracing::warn!(node, port = failure.port, reason = failure.reason, "{} was not read", failure.what);
    }
    if failures.len() > FAILURES_SHOWN {
        tracing::warn!("{} more were not read", failures.len() - FAILURES_SHOWN);
    }
}

/// Whether an error only says that the command is to stop.
pub fn is_stop(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<EngineError>(), Some(EngineError::Stopped))
}
