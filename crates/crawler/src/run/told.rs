//! A walk of the subnet, or what the subnet administrator tells of it where the nodes do not answer.

use super::administration::Administration;
use super::shared::Shared;
use crate::discover::Discovery;
use crate::engine::EngineError;
use crate::sa::{self, Choice, SaError};
use crate::stop::Stop;
use throughline_infiniband::topology::Source;
use throughline_sample::catalogue::TOPOLOGY_FROM_SA;

/// Asks one or the other.
pub struct Asking {
    pub administration: Administration,
    pub choice: Choice,
    /// Whether the administrator told the last topology.
    is_told: bool,
}

impl Asking {
    pub fn new(administration: Administration, choice: Choice) -> Asking {
        Asking { administration, choice, is_told: false }
    }

    /// Whether the administrator told the last topology.
    pub const fn is_told(&self) -> bool {
        self.is_told
    }

    /// What `walk` finds, or what the administrator tells, as configured. Where it is to be the administrator and
    /// that one does not answer, nothing is found.
    ///
    /// # Errors
    /// [`EngineError`] of the walk, or stopped.
    pub fn ask(
        &mut self,
        shared: &Shared,
        stop: &Stop,
        walk: impl FnOnce() -> Result<Discovery, EngineError>,
    ) -> Result<Discovery, EngineError> {
        let walked = match self.choice {
            Choice::Administrator => Discovery::default(),
            Choice::Auto | Choice::Nodes => walk()?,
        };
        let is_enough =
            self.choice == Choice::Nodes || self.choice == Choice::Auto && !sa::is_shut_out(&walked);
        let found = if is_enough { walked } else { self.told(walked, stop)? };
        let is_told = found.topology.source == Source::Administrator;
        if std::mem::replace(&mut self.is_told, is_told) != is_told {
            match is_told {
                true => tracing::warn!("the topology is what the subnet administrator tells"),
                false => tracing::info!("the topology is what the nodes tell"),
            }
        }
        shared.publisher.figures.set("discovery", &TOPOLOGY_FROM_SA, f64::from(u8::from(is_told)));
        Ok(found)
    }

    fn told(&self, walked: Discovery, stop: &Stop) -> Result<Discovery, EngineError> {
        match self.administration.discover(true, stop) {
            Ok(found) => Ok(found),
            Err(SaError::Stopped) if stop.is_set() => Err(EngineError::Stopped),
            Err(error) => {
                tracing::debug!(%error, "the subnet administrator was asked for the topology");
                Ok(walked)
            }
        }
    }
}
