//! Asynchronous events of the local port, by verbs where they are built in and there: reasons to look at the subnet.
//!
//! They come at once, where `local_port` looks each second and knows of neither partitions nor a request to
//! register again. Without them everything else works.

use super::shared::SharedState;
use super::trigger::Trigger;
use crate::stop::Stop;
use crate::transport::LocalPort;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use throughline_sample::catalogue::{FAILED_READS, RECORDS, SOURCE_UP};
use verbs_sys::{Error, PortEvent, Watch};

/// Name of this part in metrics.
const NAME: &str = "verbs";
/// Longest wait for an event, so that a stop request is seen soon.
const WAIT: Duration = Duration::from_millis(200);

/// Starts the thread; `None` where there is nothing to watch, which is said.
///
/// # Errors
/// It can't be started.
pub fn spawn(
    local: &LocalPort,
    shared: Arc<SharedState>,
    stop: Stop,
) -> std::io::Result<Option<JoinHandle<()>>> {
    let mut watch = match Watch::open(&local.device, local.port) {
        Ok(watch) => watch,
        Err(error @ Error::NotBuilt) => {
            tracing::debug!(%error, "the local port is looked at each second");
            return Ok(None);
        }
        Err(error) => {
            tracing::warn!(%error, "no events of the local port; it is looked at each second");
            return Ok(None);
        }
    };
    let run = move || {
        let metrics = &shared.publisher.metrics;
        metrics.set(NAME, &SOURCE_UP, 1.0);
        while !stop.is_set() {
            match watch.next(WAIT) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    metrics.add(NAME, &RECORDS, 1);
                    tracing::info!(event = event.text(), "the local port changed");
                    if event == PortEvent::ClientReregister {
                        shared.heavy_sweep.registers_again();
                    }
                    shared.want_discovery(&trigger(event));
                }
                Err(error) => {
                    metrics.add(NAME, &FAILED_READS, 1);
                    metrics.set(NAME, &SOURCE_UP, 0.0);
                    tracing::warn!(%error, "events of the local port ended; it is looked at each second");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("verbs-events".to_owned()).spawn(run).map(Some)
}

fn trigger(event: PortEvent) -> Trigger {
    match event {
        PortEvent::SmChange | PortEvent::ClientReregister => Trigger::SmChange,
        other => Trigger::LocalPort(other.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_begins_anew_is_a_change_of_manager() {
        assert_eq!(trigger(PortEvent::ClientReregister), Trigger::SmChange);
        assert_eq!(trigger(PortEvent::Error), Trigger::LocalPort("no longer active"));
    }
}
