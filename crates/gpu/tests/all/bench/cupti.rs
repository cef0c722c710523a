//! A source of CUPTI on a scenario of its own.
#![allow(clippy::unwrap_used, dead_code)] // each test binary uses its part

use super::{Bench, PATIENCE, double, sampler, write_program};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::cupti::{CuptiConfig, CuptiSource, Leases};
use throughline_gpu::{Pace, SourceStatus, default_clock};
use throughline_sample::catalogue::Metric;
use throughline_sample::wire::{Batch, Event, GpuPmSample};
use tokio::sync::mpsc;

/// A running source, its records, and the node that it reads.
pub struct Cupti {
    /// First, so that the source ends before its folder goes.
    pub source: CuptiSource,
    records: mpsc::Receiver<Batch>,
    /// Events that came without a reading.
    events: Vec<Event>,
    /// Its folder and scenario.
    pub bench: Bench,
    /// Where leases lie.
    pub leases: PathBuf,
}

impl Cupti {
    /// Starts it on a node, with a changed configuration.
    pub fn start(bench: Bench, change: impl FnOnce(&mut CuptiConfig)) -> Self {
        let leases = bench.folder().join("leases");
        let program = bench.folder().join("cupti-sampler");
        let scenario = bench.scenario_path();
        write_program(
            &program,
            &format!(
                "#!/bin/sh\n{SCENARIO_VARIABLE}='{}' exec '{}' \"$@\"\n",
                scenario.display(),
                sampler().display()
            ),
        );
        let mut config = CuptiConfig {
            cuda: double().join("libcuda.so.1"),
            cupti: double().join("libcupti.so"),
            interval: Duration::from_millis(50),
            sample_interval: Duration::from_millis(1),
            leases: Leases { folder: leases.clone(), longest: Duration::from_secs(3600) },
            pace: Pace {
                first_pause: Duration::from_millis(10),
                longest_pause: Duration::from_millis(40),
                recheck: Duration::from_millis(10),
                silence: Duration::from_secs(20),
                ..Pace::default()
            },
            program,
            ..CuptiConfig::default()
        };
        change(&mut config);
        let (sender, records) = mpsc::channel(1024);
        let source = CuptiSource::start(config, default_clock(), sender).unwrap();
        Self { source, records, events: Vec::new(), bench, leases }
    }

    /// Starts it on `ampere-pm` with lines added.
    pub fn scenario(more: &str) -> Self {
        Self::start(Bench::scenario("ampere-pm", more), |_| {})
    }

    /// The next reading.
    pub fn next(&mut self) -> Batch {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.records.try_recv() {
                Ok(batch) if !batch.coverage.is_empty() => return batch,
                Ok(batch) => self.events.extend(batch.events),
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
            assert!(Instant::now() < deadline, "no batch; {:?}", self.source.status());
        }
    }

    /// Events that came without a reading, until the last one that was taken.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Waits until the status is as wanted.
    pub fn until(&self, wanted: impl Fn(&SourceStatus) -> bool) -> SourceStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.source.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// One value of a reading.
pub fn value(sample: &GpuPmSample, metric: &Metric) -> Option<u64> {
    sample.values.as_ref()?.get(metric)
}
