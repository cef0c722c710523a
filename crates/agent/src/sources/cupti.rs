//! The GPUs' performance monitors: starts the source of crate `gpu` that queries CUPTI.

use super::gpu::translate;
use super::{Source, Start, Status};
use std::sync::Arc;
use std::time::Duration;
use throughline_gpu::cupti::convert::SOURCE;
use throughline_gpu::cupti::{CuptiConfig, CuptiSource, Leases};
use throughline_gpu::{SourceStatus, State};

/// Name of the source in records and metrics.
pub const NAME: &str = SOURCE;

/// Starts it.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let settings = &start.config.cupti;
    let config = CuptiConfig {
        cuda: settings.cuda.clone(),
        cupti: settings.library.clone(),
        interval: settings.interval_seconds.duration(),
        sample_interval: Duration::from_secs(1) / settings.samples_per_second.max(1),
        user: settings.user.as_deref().map(crate::users::cupti_user).transpose()?,
        leases: Leases {
            folder: start.places.gpu_leases.clone(),
            longest: settings.lease_seconds_max.duration(),
        },
        ..CuptiConfig::default()
    };
    let utc = super::monotonic_to_utc(start.clock);
    Ok(Box::new(Cupti(CuptiSource::start(config, Arc::new(utc), start.records)?)))
}

struct Cupti(CuptiSource);

impl Source for Cupti {
    fn status(&self) -> Status {
        // What a site switched on and cannot be had fails, but for a node without GPU.
        described(self.0.status())
    }

    fn pause(&self, duration: Option<Duration>) -> bool {
        match duration {
            Some(duration) => self.0.pause(duration),
            None => self.0.resume(),
        }
        true
    }

    fn stop(self: Box<Self>) {
        drop(self.0);
    }
}

fn described(status: SourceStatus) -> Status {
    let is_paused = matches!(status.state, State::Paused | State::Busy);
    let paused_until = status.until.filter(|_| is_paused);
    Status { paused: Some(is_paused), paused_until, ..translate(NAME, status, true, &FORGIVEN) }
}

/// A GPU that another profiler has, or that has no such monitor, is no failed read.
const FORGIVEN: [&str; 3] = ["hardware_busy", "not_supported", "no_metric"];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Health;
    use super::*;
    use throughline_gpu::End;

    #[test]
    fn giving_way_is_no_fault_and_a_refusal_is() {
        let of = |state| described(SourceStatus { state, until: Some(7), ..SourceStatus::default() });
        assert!(of(State::Paused).is_up() && of(State::Busy).is_up());
        assert_eq!((of(State::Paused).paused, of(State::Paused).paused_until), (Some(true), Some(7)));
        assert_eq!((of(State::Running).paused, of(State::Running).paused_until), (Some(false), None));
        assert_eq!(of(State::NotPermitted).health, Health::Failing);
        assert_eq!(of(State::NoGpu).health, Health::NotHere);
        let status = SourceStatus {
            ends: [(End::Crashed, 2), (End::NotPermitted, 4)].into(),
            absent: [("hardware_busy", 8), ("unknown", 16)].into(),
            ..SourceStatus::default()
        };
        assert_eq!(described(status).failed, 18);
    }
}
