//! The GPUs' performance monitors: starts the source of crate `gpu` that queries CUPTI.

use super::gpu::translate;
use super::{Source, Start, Status};
use crate::profilers::{Coverage, Watcher};
use std::sync::Arc;
use std::time::Duration;
use throughline_gpu::cupti::convert::{NOT_A_NUMBER, SOURCE};
use throughline_gpu::cupti::{CuptiConfig, CuptiSource, Leases, Profiling};
use throughline_gpu::{SourceStatus, State};
use throughline_sample::catalogue::UNWATCHED_PROCESSES;

/// Name of the source in records and metrics.
pub const NAME: &str = SOURCE;

/// Starts it.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let settings = &start.config.cupti;
    let profiling = Profiling::default();
    let watcher = Watcher::start(super::roots(start.config), profiling.clone())?;
    let config = CuptiConfig {
        profiling,
        cuda: settings.cuda.clone(),
        cupti: settings.library.clone(),
        interval: settings.interval_seconds.duration(),
        sample_interval: Duration::from_secs(1) / settings.samples_per_second.max(1),
        metrics: settings.metric_groups()?,
        user: settings.user.as_deref().map(crate::users::cupti_user).transpose()?,
        leases: Leases {
            folder: start.places.gpu_leases.clone(),
            longest: settings.lease_seconds_max.duration(),
        },
        ..CuptiConfig::default()
    };
    let utc = super::monotonic_to_utc(start.clock);
    let source = CuptiSource::start(config, Arc::new(utc), start.records)?;
    Ok(Box::new(Cupti { source, watcher }))
}

struct Cupti {
    source: CuptiSource,
    /// Has it give way to users' profilers.
    watcher: Watcher,
}

impl Source for Cupti {
    fn status(&self) -> Status {
        // What a site switched on and cannot be had fails, but for a node without GPU.
        described(self.source.status(), self.watcher.coverage())
    }

    fn pause(&self, duration: Option<Duration>) -> bool {
        match duration {
            Some(duration) => self.source.pause(duration),
            None => self.source.resume(),
        }
        true
    }

    fn stop(self: Box<Self>) {
        drop(self.source);
    }
}

fn described(status: SourceStatus, coverage: Coverage) -> Status {
    let is_paused = matches!(status.state, State::Paused | State::Busy);
    let paused_until = status.until.filter(|_| is_paused);
    // Where nothing is sampled no profiler needs protection.
    let samples = matches!(status.state, State::Running | State::Paused | State::Busy);
    let gaps = coverage.gaps.into_iter().filter(|_| samples);
    let conditions = gaps.map(|gap| format!("source {NAME}: {gap}")).collect();
    let mut said = translate(NAME, status, true, &FORGIVEN);
    let unwatched = coverage.unwatched.and_then(|count| u64::try_from(count).ok());
    said.counts.extend(unwatched.map(|count| (NAME.into(), &UNWATCHED_PROCESSES, count)));
    Status { paused: Some(is_paused), paused_until, conditions, ..said }
}

/// A GPU that another profiler has, or that has no such monitor, is no failed read; neither is a ratio of nothing to nothing.
const FORGIVEN: [&str; 4] = ["hardware_busy", "not_supported", "no_metric", NOT_A_NUMBER];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Health;
    use super::*;
    use throughline_gpu::End;

    #[test]
    fn giving_way_is_no_fault_and_a_refusal_is() {
        let coverage = Coverage { unwatched: Some(3), gaps: vec!["3 of 9 processes".to_owned()] };
        let described = |status| described(status, coverage.clone());
        let of = |state| described(SourceStatus { state, until: Some(7), ..SourceStatus::default() });
        assert_eq!(of(State::Running).conditions, ["source cupti: 3 of 9 processes"]);
        assert!(of(State::NoGpu).conditions.is_empty());
        assert!(
            of(State::Running)
                .counts
                .iter()
                .any(|(_, metric, count)| metric.name == "unwatched_processes" && *count == 3)
        );
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
