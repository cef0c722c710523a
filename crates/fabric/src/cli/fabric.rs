//! Opening the local port for a one-shot command, with the exit status that each failure has.

use super::FabricOptions;
use throughline_daemon::Failure;
use throughline_fabric::discover::{self, Discovery};
use throughline_fabric::engine::{Engine, EngineError, Settings};
use throughline_fabric::port::{FabricPort, PortError};
use throughline_fabric::stop::Stop;
use throughline_fabric::transport::Class;

/// Failures told one by one; the rest are a number.
pub const FAILURES_TOLD: usize = 10;

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

/// Walks the subnet and tells what could not be read.
///
/// # Errors
/// The local node does not answer (69), or the command was stopped.
pub fn discover(engine: &mut Engine, tables: bool, stop: &Stop) -> anyhow::Result<Discovery> {
    let found = discover::discover(engine, tables, stop.flag())?;
    if found.topology.nodes.is_empty() {
        let message = "the local node does not answer subnet management requests; check the port's state with \
                       `ibstat`, or choose another one with --ca and --port";
        return Err(Failure::unavailable(message).into());
    }
    for failure in found.failures.iter().take(FAILURES_TOLD) {
        let node = failure.guid.map(|guid| guid.to_string()).unwrap_or_default();
        tracing::warn!(node, port = failure.port, reason = failure.reason, "{} was not read", failure.what);
    }
    if found.failures.len() > FAILURES_TOLD {
        tracing::warn!("{} more were not read", found.failures.len() - FAILURES_TOLD);
    }
    Ok(found)
}

/// Whether an error only says that the command was asked to stop.
pub fn is_stop(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<EngineError>(), Some(EngineError::Stopped))
}

/// The exit status of a failed device.
pub fn device_failure(error: PortError) -> Failure {
    match error {
        PortError::Umad(umad_sys::Error::NoPermission { .. }) => Failure::permission(error.to_string()),
        other => Failure::unavailable(other.to_string()),
    }
}
