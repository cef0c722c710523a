//! GPU links: starts the sources of crate `gpu`, one a vendor's library, and translates their status.

use super::{Health, Processes, Source, Start, Status};
use crate::config::Config;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use throughline_daemon::Seconds;
use throughline_gpu::convert::SOURCE;
use throughline_gpu::{End, NvmlConfig, NvmlSource, NvmlStatus, State, Vendor};

/// Name of the source in records and figures.
pub const NAME: &str = SOURCE;

/// What the configuration says to the source.
pub fn settings(config: &Config) -> NvmlConfig {
    let settings = &config.nvml;
    NvmlConfig {
        library: settings.library.clone(),
        sysfs: config.sysfs.root.clone(),
        interval: settings.interval_seconds.duration(),
        survey_interval: settings.survey_interval_seconds.duration(),
        unfold_pcie: settings.unfold_pcie,
        gpm: settings.gpm,
        ..NvmlConfig::default()
    }
}

/// Starts NVML's.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let config = settings(start.config);
    begin(config, start)
}

/// Starts DCGM's. NVML's tells what there is; without it DCGM's does.
pub fn start_dcgm(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let section = &start.config.dcgm;
    let config = other(start.config, Vendor::Dcgm, &section.library, section.interval_seconds);
    begin(NvmlConfig { tells_inventory: !start.config.nvml.enabled, ..config }, start)
}

/// Starts AMD's.
pub fn start_amd_smi(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let section = &start.config.amd_smi;
    begin(other(start.config, Vendor::AmdSmi, &section.library, section.interval_seconds), start)
}

/// Starts Intel's.
pub fn start_level_zero(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let section = &start.config.level_zero;
    begin(other(start.config, Vendor::LevelZero, &section.library, section.interval_seconds), start)
}

/// What the configuration says to a source of another vendor.
fn other(config: &Config, vendor: Vendor, library: &Path, interval: Seconds) -> NvmlConfig {
    let (library, interval) = (library.to_owned(), interval.duration());
    NvmlConfig { vendor, library, interval, unfold_pcie: false, gpm: false, ..settings(config) }
}

fn begin(config: NvmlConfig, start: Start) -> anyhow::Result<Box<dyn Source>> {
    let utc = super::monotonic_to_utc(start.clock);
    // A library named by its path was meant to be there; the standard name is looked for on every node.
    let expected = config.library.components().count() > 1;
    let lists_processes = config.vendor == Vendor::Nvml;
    let source = NvmlSource::start(config, Arc::new(utc), start.records)?;
    Ok(Box::new(Nvml { source, expected, lists_processes }))
}

struct Nvml {
    source: NvmlSource,
    /// Whether the configuration says that the library is there.
    expected: bool,
    /// Whether it is asked for processes.
    lists_processes: bool,
}

impl Source for Nvml {
    fn status(&self) -> Status {
        translate(self.source.status(), self.expected)
    }

    fn sample_now(&self) -> bool {
        self.source.sample_now()
    }

    fn ask_processes(&self) {
        if self.lists_processes {
            self.source.ask_processes();
        }
    }

    fn processes(&self) -> Option<Processes> {
        if !self.lists_processes {
            return None;
        }
        // Where there is no GPU no process uses one.
        let nothing = self.status().health == Health::NotHere;
        Some(if nothing { Ok(BTreeMap::new()) } else { self.source.processes() })
    }

    fn stop(self: Box<Self>) {
        drop(self.source);
    }
}

/// A counter that is left out because the configuration does not ask for it is no failure.
const NOT_ASKED: &str = "pcie_counter_too_narrow";

fn translate(status: NvmlStatus, expected: bool) -> Status {
    let nothing = [
        State::LibraryMissing,
        State::LibraryUnusable,
        State::DriverUnavailable,
        State::NoGpu,
        State::Wedged,
    ];
    let quiet = [End::LibraryMissing, End::LibraryUnusable, End::DriverUnavailable, End::NoGpu, End::Stopped];
    let faults = status.ends.iter().filter(|(end, _)| !quiet.contains(end)).map(|(_, count)| count);
    let absent = status.absent_values.iter().filter(|(reason, _)| **reason != NOT_ASKED);
    let failed = absent.map(|(_, count)| count).chain(faults).sum();
    let health = match status.state {
        State::Starting => Health::Starting,
        State::Running => Health::Up,
        State::LibraryMissing if !expected => Health::NotHere,
        State::NoGpu => Health::NotHere,
        State::LibraryMissing
        | State::LibraryUnusable
        | State::DriverUnavailable
        | State::BackingOff
        | State::Busy
        | State::Paused
        | State::NotPermitted
        | State::NotSupported
        | State::Wedged => Health::Failing,
    };
    Status {
        health,
        state: status.state.name().to_owned(),
        settled: nothing.contains(&status.state),
        dropped: status.dropped_batches,
        failed,
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
            absent_values: [("not_supported", 3), (NOT_ASKED, 9)].into(),
            ..NvmlStatus::default()
        };
        let status = translate(running, false);
        assert!(status.is_up() && !status.settled);
        assert_eq!(status.failed, 5);
        let missing = NvmlStatus {
            state: State::LibraryMissing,
            detail: Some("no library".into()),
            ..Default::default()
        };
        let status = translate(missing.clone(), false);
        assert!(status.health == Health::NotHere && status.settled);
        assert_eq!(translate(missing, true).health, Health::Failing, "its path was configured");
        assert_eq!(status.reason.as_deref(), Some("no library"));
    }
}
