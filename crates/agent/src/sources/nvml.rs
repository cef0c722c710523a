//! GPU links: starts the source of crate `gpu` and translates its status.

use super::{Source, Start, Status};
use std::sync::Arc;
use throughline_gpu::convert::SOURCE;
use throughline_gpu::{End, NvmlConfig, NvmlSource, NvmlStatus, State};

/// Name of the source in records and figures.
pub const NAME: &str = SOURCE;

/// Starts it.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let settings = &start.config.nvml;
    let config = NvmlConfig {
        library: settings.library.clone(),
        interval: settings.interval_seconds.duration(),
        survey_interval: settings.survey_interval_seconds.duration(),
        unfold_pcie: settings.unfold_pcie,
        ..NvmlConfig::default()
    };
    let utc = super::monotonic_to_utc(start.clock);
    Ok(Box::new(Nvml(NvmlSource::start(config, Arc::new(utc), start.records)?)))
}

struct Nvml(NvmlSource);

impl Source for Nvml {
    fn status(&self) -> Status {
        translate(self.0.status())
    }

    fn stop(self: Box<Self>) {
        drop(self.0);
    }
}

fn translate(status: NvmlStatus) -> Status {
    let nothing = [
        State::LibraryMissing,
        State::LibraryUnusable,
        State::DriverUnavailable,
        State::NoGpu,
        State::Wedged,
    ];
    let quiet = [End::LibraryMissing, End::LibraryUnusable, End::DriverUnavailable, End::NoGpu, End::Stopped];
    let faults = status.ends.iter().filter(|(end, _)| !quiet.contains(end));
    Status {
        up: status.state == State::Running,
        state: status.state.name().to_owned(),
        settled: nothing.contains(&status.state),
        dropped: status.dropped_batches,
        failed: status.absent_values.values().chain(faults.map(|(_, count)| count)).sum(),
        overruns: Some(status.overruns),
        round_seconds: (status.polls > 0).then_some(status.last_poll_seconds),
        reason: status.detail,
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_and_crashes_are_counted_and_a_missing_library_is_a_state() {
        let running = NvmlStatus {
            state: State::Running,
            ends: [(End::Crashed, 2), (End::NoGpu, 5)].into(),
            absent_values: [("not_supported", 3)].into(),
            ..NvmlStatus::default()
        };
        let status = translate(running);
        assert!(status.up && !status.settled);
        assert_eq!(status.failed, 5);
        let missing = NvmlStatus {
            state: State::LibraryMissing,
            detail: Some("no library".into()),
            ..Default::default()
        };
        let status = translate(missing);
        assert!(!status.up && status.settled);
        assert_eq!(status.reason.as_deref(), Some("no library"));
    }
}
