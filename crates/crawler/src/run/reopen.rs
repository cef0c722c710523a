//! What a part of the crawler does about its device: opens it again when it does not work, and reports that.
//!
//! A driver that is loaded anew, an adapter that is reset and a simulator that is started again leave descriptors
//! behind that never work again. Each thread opens its own one again, with growing pauses, until that succeeds.
//! libumad2sim can't attach twice in a process: there the whole process is executed again once the simulator is back.

use super::config::Config;
use super::device::{Device, Part};
use super::shared::SharedState;
use super::trigger::Trigger;
use crate::engine::Engine;
use crate::events::{DEVICE_BACK, DEVICE_LOST, FabricEvent, Kind};
use crate::port::FabricPort;
use crate::simulator::Simulator;
use crate::stop::Stop;
use crate::transport::{Class, TransportError};
use std::time::{Duration, Instant};
use throughline_sample::Guid;
use throughline_sample::catalogue::{DEVICE_REOPENS, SOURCE_UP};

/// Pause before the first try; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

impl Device {
    /// A part could not use it; how long to wait before the next try.
    fn lost(&self, shared: &SharedState, name: &'static str, error: &TransportError) -> Duration {
        let (is_first, tries) = {
            let mut parts = self.lock();
            let is_first = parts.values().all(|part| !part.is_lost);
            let part = parts.entry(name).or_default();
            part.is_lost = true;
            part.tries = part.tries.saturating_add(1);
            (is_first, part.tries)
        };
        shared.publisher.metrics.set(name, &SOURCE_UP, 0.0);
        if is_first {
            let text = format!(
                "the crawler's device does not work any more ({error}); it is opened again until it does"
            );
            shared.publisher.emit(&[event(&DEVICE_LOST, text)]);
        }
        FIRST_PAUSE.saturating_mul(1 << (tries - 1).min(8)).min(LONGEST_PAUSE)
    }

    /// A part has used it with success.
    pub fn works(&self, shared: &SharedState, name: &'static str) {
        let is_back = {
            let mut parts = self.lock();
            let was_lost = parts.values().any(|part| part.is_lost);
            *parts.entry(name).or_default() = Part { tries: 0, is_lost: false, worked: Some(Instant::now()) };
            was_lost && parts.values().all(|part| !part.is_lost)
        };
        if is_back {
            shared.publisher.emit(&[event(&DEVICE_BACK, "the crawler's device works again".to_owned())]);
        }
    }

    /// Opens a broken transport again as soon as that works.
    ///
    /// # Errors
    /// The process stops; what is to be closed once no other thread speaks MADs.
    pub fn reopen(
        &self,
        (name, class): (&'static str, Class),
        (broken, error): (Engine, &TransportError),
        port: &FabricPort,
        config: &Config,
        (shared, stop): (&SharedState, &Stop),
    ) -> Result<Engine, Option<Box<Engine>>> {
        let mut pause = self.lost(shared, name, error);
        if let Some(simulator) = Simulator::preloaded() {
            self.await_simulator(&simulator, shared, stop);
            return Err(Some(Box::new(broken)));
        }
        drop(broken);
        loop {
            if stop.sleep(pause) {
                return Err(None);
            }
            match port.open(class) {
                Ok(transport) => {
                    shared.publisher.metrics.add(name, &DEVICE_REOPENS, 1);
                    // LIDs may be others.
                    shared.want_discovery(&Trigger::LocalPort("opened again"));
                    return Ok(Engine::new(transport, config.mad.settings().for_class(class)));
                }
                Err(error) => {
                    tracing::debug!(%error, "opening the device again");
                    pause = self.lost(shared, name, &TransportError(error.to_string()));
                }
            }
        }
    }

    /// Waits until the simulator is back, has the process executed again, and waits for its end.
    fn await_simulator(&self, simulator: &Simulator, shared: &SharedState, stop: &Stop) {
        while !stop.sleep(FIRST_PAUSE) {
            if simulator.probe().is_ok() && !self.restart.is_cancelled() {
                shared.publisher.metrics.add("process", &DEVICE_REOPENS, 1);
                let text =
                    "the simulator listens again: the crawler is executed again to attach to it".to_owned();
                shared.publisher.emit(&[event(&DEVICE_BACK, text)]);
                self.restart.cancel();
            }
        }
    }
}

/// An event about the crawler's own device.
fn event(kind: &'static Kind, text: String) -> FabricEvent {
    let (before, after) = (String::new(), String::new());
    FabricEvent { kind, end: (Guid(0), 0), remote: None, before, after, text }
}
