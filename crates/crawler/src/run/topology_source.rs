//! A walk of the subnet, or what the subnet administrator reports of it where the nodes do not answer.

use super::sa_thread::SaThread;
use super::shared::{DISCOVERY, SharedState};
use crate::discover::Discovery;
use crate::engine::EngineError;
use crate::sa::{self, Choice, SaError};
use crate::stop::Stop;
use throughline_infiniband::topology::Source;
use throughline_sample::catalogue::TOPOLOGY_FROM_SA;

/// Queries one or the other.
pub struct TopologySource {
    pub administration: SaThread,
    pub choice: Choice,
    /// Whether the administrator reported the last topology.
    is_from_sa: bool,
}

impl TopologySource {
    pub fn new(administration: SaThread, choice: Choice) -> TopologySource {
        TopologySource { administration, choice, is_from_sa: false }
    }

    /// Whether the administrator reported the last topology.
    pub const fn is_from_sa(&self) -> bool {
        self.is_from_sa
    }

    /// What `walk` finds, or what the administrator reports, as configured. Where it is to be the administrator and
    /// that one does not answer, nothing is found.
    ///
    /// # Errors
    /// [`EngineError`] of the walk, or stopped.
    pub fn discover(
        &mut self,
        shared: &SharedState,
        stop: &Stop,
        walk: impl FnOnce() -> Result<Discovery, EngineError>,
    ) -> Result<Discovery, EngineError> {
        let walked = match self.choice {
            Choice::Administrator => Discovery::default(),
            Choice::Auto | Choice::Nodes => walk()?,
        };
        let is_enough =
            self.choice == Choice::Nodes || self.choice == Choice::Auto && !sa::is_shut_out(&walked);
        let found = if is_enough { walked } else { self.query_sa(walked, stop)? };
        let is_from_sa = found.topology.source == Source::Administrator;
        if std::mem::replace(&mut self.is_from_sa, is_from_sa) != is_from_sa {
            match is_from_sa {
                true => tracing::warn!("the topology now comes from the subnet administrator"),
                false => tracing::info!("the topology now comes from the nodes"),
            }
        }
        shared.publisher.metrics.set(DISCOVERY, &TOPOLOGY_FROM_SA, f64::from(u8::from(is_from_sa)));
        Ok(found)
    }

    fn query_sa(&self, walked: Discovery, stop: &Stop) -> Result<Discovery, EngineError> {
        match self.administration.discover(true, stop) {
            Ok(found) => Ok(found),
            Err(SaError::Stopped) if stop.is_set() => Err(EngineError::Stopped),
            Err(error) => {
                tracing::debug!(%error, "the topology was requested from the subnet administrator");
                Ok(walked)
            }
        }
    }
}
