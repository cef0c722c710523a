//! The host's own InfiniBand ports: starts the source of crate `host` and translates its status.

use super::{Health, Source, Start, Status};
use std::sync::Arc;
use throughline_host::convert::SOURCE;
use throughline_host::{State, SysfsConfig, SysfsSource, SysfsStatus};

/// Name of the source in records and metrics.
pub const NAME: &str = SOURCE;

/// Starts it.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let settings = &start.config.sysfs;
    let config = SysfsConfig { root: settings.root.clone(), interval: settings.interval_seconds.duration() };
    let clock = start.clock;
    Ok(Box::new(Sysfs(SysfsSource::start(config, Arc::new(move || clock.now()), start.records)?)))
}

struct Sysfs(SysfsSource);

impl Source for Sysfs {
    fn status(&self) -> Status {
        translate(self.0.status())
    }

    fn sample_now(&self) -> bool {
        self.0.sample_now();
        self.0.status().adapters > 0
    }

    fn stop(self: Box<Self>) {
        drop(self.0);
    }
}

fn translate(status: SysfsStatus) -> Status {
    let health = match status.state {
        State::Starting => Health::Starting,
        State::Running => Health::Up,
        State::NoAdapter => Health::NotHere,
        State::Unreadable | State::Stalled => Health::Failing,
    };
    Status {
        health,
        state: status.state.name().to_owned(),
        settled: !matches!(status.state, State::Starting | State::Running),
        dropped: status.dropped_batches,
        failed: status.absent_values.values().sum(),
        overruns: Some(status.overruns),
        round_seconds: (status.rounds > 0).then_some(status.last_round_seconds),
        reason: status.detail,
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_adapter_is_a_state() {
        let none = SysfsStatus { state: State::NoAdapter, detail: Some("none".into()), ..Default::default() };
        let status = translate(none);
        assert!(status.health == Health::NotHere && status.settled && status.round_seconds.is_none());
        assert_eq!((status.state.as_str(), status.reason.as_deref()), ("no_adapter", Some("none")));
        let absent = [("not_a_number", 2), ("missing", 1)].into();
        let running =
            SysfsStatus { state: State::Running, absent_values: absent, rounds: 1, ..Default::default() };
        let status = translate(running);
        assert_eq!((status.is_up(), status.failed, status.round_seconds), (true, 3, Some(0.0)));
    }
}
