//! GPU links: starts the sources of crate `gpu`, one a vendor's library, and translates the status of each, CUPTI's too.

use super::{Health, Processes, Source, Start, Status};
use crate::config::Config;
use std::path::Path;
use std::sync::Arc;
use throughline_daemon::Seconds;
use throughline_gpu::convert::SOURCE;
use throughline_gpu::{End, GpuConfig, GpuSource, SourceStatus, State, Vendor};
use throughline_sample::catalogue::{UNLOGGED_OUTPUT_BYTES, gpu_source_rank};

/// Name of the source in records and metrics.
pub const NAME: &str = SOURCE;

/// What the configuration says to the source.
fn settings(config: &Config) -> GpuConfig {
    let settings = &config.nvml;
    GpuConfig {
        library: settings.library.clone(),
        sysfs: config.sysfs.root.clone(),
        interval: settings.interval_seconds.duration(),
        survey_interval: settings.survey_interval_seconds.duration(),
        unfold_pcie: settings.unfold_pcie,
        gpm: settings.gpm,
        ..GpuConfig::default()
    }
}

/// Starts NVML's.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let config = settings(start.config);
    begin(config, start)
}

/// Starts DCGM's.
pub fn start_dcgm(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let config = settings_of(start.config, Vendor::Dcgm);
    begin(config, start)
}

/// Starts AMD's.
pub fn start_amd_smi(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let config = settings_of(start.config, Vendor::AmdSmi);
    begin(config, start)
}

/// Starts Intel's.
pub fn start_level_zero(start: Start) -> anyhow::Result<Box<dyn Source>> {
    let config = settings_of(start.config, Vendor::LevelZero);
    begin(config, start)
}

/// What the configuration says to the source of a vendor's library.
fn settings_of(config: &Config, vendor: Vendor) -> GpuConfig {
    match vendor {
        Vendor::Nvml => settings(config),
        Vendor::Dcgm => {
            let section = &config.dcgm;
            let other = other(config, vendor, &section.library, section.interval_seconds);
            // NVML's reports what there is; without it DCGM's does.
            GpuConfig { reports_inventory: !config.nvml.enabled, ..other }
        }
        Vendor::AmdSmi => other(config, vendor, &config.amd_smi.library, config.amd_smi.interval_seconds),
        Vendor::LevelZero => {
            other(config, vendor, &config.level_zero.library, config.level_zero.interval_seconds)
        }
    }
}

/// The vendors' libraries that are switched on, in the order in which sources are believed, each as a source of its own
/// that reports what there is.
pub fn switched_on(config: &Config) -> Vec<GpuConfig> {
    let is_on = |vendor: &Vendor| match vendor {
        Vendor::Nvml => config.nvml.enabled,
        Vendor::AmdSmi => config.amd_smi.enabled,
        Vendor::LevelZero => config.level_zero.enabled,
        Vendor::Dcgm => config.dcgm.enabled,
    };
    let mut vendors: Vec<Vendor> = Vendor::ALL.into_iter().filter(is_on).collect();
    vendors.sort_by_key(|vendor| gpu_source_rank(vendor.name()));
    let settings = vendors.into_iter().map(|vendor| settings_of(config, vendor));
    settings.map(|settings| GpuConfig { reports_inventory: true, ..settings }).collect()
}

/// What the configuration says to a source of another vendor.
fn other(config: &Config, vendor: Vendor, library: &Path, interval: Seconds) -> GpuConfig {
    let (library, interval) = (library.to_owned(), interval.duration());
    GpuConfig { vendor, library, interval, unfold_pcie: false, gpm: false, ..settings(config) }
}

fn begin(config: GpuConfig, start: Start) -> anyhow::Result<Box<dyn Source>> {
    let utc = super::monotonic_to_utc(start.clock);
    // A library named by its path was meant to be there; the standard name is looked for on every node.
    let expected = config.library.components().count() > 1;
    let processes = match (config.vendor, config.reports_inventory) {
        (Vendor::Nvml, _) => Lists::Requested,
        (_, true) => Lists::Never,
        (_, false) => Lists::AnotherDoes,
    };
    let name = config.vendor.name();
    let source = GpuSource::start(config, Arc::new(utc), start.records)?;
    Ok(Box::new(Gpus { name, source, expected, processes }))
}

/// Who reports which processes are on the GPUs of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// It does, on request.
    Requested,
    /// Nobody: its library does not report.
    Never,
    /// The source that reports the same GPUs.
    AnotherDoes,
}

struct Gpus {
    name: &'static str,
    source: GpuSource,
    /// Whether the configuration says that the library is there.
    expected: bool,
    processes: Lists,
}

impl Source for Gpus {
    fn status(&self) -> Status {
        // A counter that is left out because the configuration does not request it is no failure.
        translate(self.name, self.source.status(), self.expected, &["pcie_counter_too_narrow"])
    }

    fn sample_now(&self) -> bool {
        self.source.sample_now()
    }

    fn query_processes(&self) {
        if self.processes == Lists::Requested {
            self.source.query_processes();
        }
    }

    fn processes(&self) -> Option<Processes> {
        if self.processes == Lists::AnotherDoes {
            return None;
        }
        // Where there is no GPU no process uses one. Where there is one and nobody reports, it is not known: none would
        // be a claim.
        Some(match (self.status().health, self.processes) {
            (Health::NotHere, _) => Ok(Vec::new()),
            (_, Lists::Requested) => self.source.processes(),
            _ => Err("not_told_by_library"),
        })
    }

    fn stop(self: Box<Self>) {
        drop(self.source);
    }
}

/// What a source of crate `gpu` says of itself. `expected`: a missing library is a fault. Reasons in `forgiven` for which
/// something is absent are none.
pub fn translate(name: &'static str, status: SourceStatus, expected: bool, forgiven: &[&str]) -> Status {
    let quiet = [
        End::LibraryMissing,
        End::LibraryUnusable,
        End::DriverUnavailable,
        End::NoGpu,
        End::NotPermitted,
        End::NotSupported,
        End::Stopped,
    ];
    let faults = status.ends.iter().filter(|(end, _)| !quiet.contains(end)).map(|(_, count)| count);
    let absent = status.absent.iter().filter(|(reason, _)| !forgiven.contains(reason));
    let failed = absent.map(|(_, count)| count).chain(faults).sum();
    let health = match status.state {
        State::Starting => Health::Starting,
        // Giving way is no fault.
        State::Running | State::Paused | State::Busy => Health::Up,
        State::LibraryMissing if !expected => Health::NotHere,
        State::NoGpu => Health::NotHere,
        State::LibraryMissing
        | State::LibraryUnusable
        | State::DriverUnavailable
        | State::NotPermitted
        | State::NotSupported
        | State::BackingOff
        | State::Wedged => Health::Failing,
    };
    Status {
        health,
        state: status.state.name().to_owned(),
        // One that fails again and again without a reading in between has nothing to wait for.
        settled: match status.state {
            State::Starting | State::Running => false,
            State::BackingOff => status.fruitless > 1,
            _ => true,
        },
        dropped: status.dropped_batches,
        failed,
        overruns: Some(status.overruns),
        round_seconds: (status.polls > 0).then_some(status.last_poll_seconds),
        reason: status.detail,
        counts: vec![(name.into(), &UNLOGGED_OUTPUT_BYTES, status.dropped_output_bytes)],
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_and_crashes_are_counted_and_a_missing_library_is_a_state() {
        let running = SourceStatus {
            state: State::Running,
            ends: [(End::Crashed, 2), (End::NoGpu, 5)].into(),
            absent: [("not_supported", 3), ("forgiven", 9)].into(),
            ..SourceStatus::default()
        };
        let status = translate(NAME, running, false, &["forgiven"]);
        assert!(status.is_up() && !status.settled);
        assert_eq!(status.failed, 5);
        let missing = SourceStatus {
            state: State::LibraryMissing,
            detail: Some("no library".into()),
            ..Default::default()
        };
        let status = translate(NAME, missing.clone(), false, &[]);
        assert!(status.health == Health::NotHere && status.settled);
        assert_eq!(translate(NAME, missing, true, &[]).health, Health::Failing, "its path was configured");
        assert_eq!(status.reason.as_deref(), Some("no library"));
        let backing_off = |fruitless| {
            let status = SourceStatus { state: State::BackingOff, fruitless, ..SourceStatus::default() };
            translate(NAME, status, false, &[]).settled
        };
        assert_eq!([0, 1, 2].map(backing_off), [false, false, true], "then it is down, with an event");
    }
}
