//! A daemon's recorder: its configuration, how it is opened, and what is reported of it. Only wiring.
//!
//! It is of use to people who ask later. Where it can't be had, the daemon measures and delivers all the same.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use throughline_daemon::{Condition, Failure, SelfMetrics};
use throughline_recorder::{Error, Recorder, Stats};
use throughline_sample::catalogue::{
    RECORDER_BYTES, RECORDER_DAMAGED_BLOCKS, RECORDER_ERRORS, RECORDER_SPAN_SECONDS, RECORDS,
    RECORDS_DISCARDED,
};

/// Name of the part in metrics.
pub const NAME: &str = "recorder";

/// `[recorder]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecorderSection {
    /// Whether records stay in full resolution for a while.
    pub enabled: bool,
    /// How long.
    pub retention_seconds: u64,
    /// Largest size on disk: the oldest go before their time where it is reached.
    pub bytes_max: u64,
    /// Largest size with `spool.memory_only`, when the ring is in memory.
    pub memory_bytes_max: u64,
}

impl Default for RecorderSection {
    fn default() -> Self {
        let default = throughline_recorder::Config::default();
        Self {
            enabled: true,
            retention_seconds: default.age_max.as_secs(),
            bytes_max: default.bytes_max,
            memory_bytes_max: 32 << 20,
        }
    }
}

/// What became of the recorder at the start.
#[derive(Clone)]
pub enum Recording {
    /// It is switched off.
    Off,
    /// It can't be used, for this reason.
    Failed(String),
    /// It records.
    On(Recorder),
}

impl Recording {
    /// Opens it as it is configured, in this folder or in memory.
    ///
    /// # Errors
    /// A bound out of range (64). A folder that can't be used is logged.
    pub fn open(section: &RecorderSection, folder: &Path, in_memory: bool) -> Result<Self, Failure> {
        if !section.enabled {
            return Ok(Self::Off);
        }
        let bounds = throughline_recorder::Config {
            age_max: Duration::from_secs(section.retention_seconds),
            bytes_max: if in_memory { section.memory_bytes_max } else { section.bytes_max },
        };
        let opened = if in_memory { Recorder::in_memory(bounds) } else { Recorder::open(folder, bounds) };
        match opened {
            Ok(recorder) => Ok(Self::On(recorder)),
            Err(Error::Config { key, why }) => {
                let key = if in_memory && key == "bytes_max" { "memory_bytes_max" } else { key };
                Err(Failure::usage(format!("configuration: recorder.{key} {why}")))
            }
            Err(error) => {
                tracing::warn!(%error, "this daemon runs without its recorder");
                Ok(Self::Failed(error.to_string()))
            }
        }
    }

    /// The recorder, if it records.
    pub fn recorder(&self) -> Option<&Recorder> {
        match self {
            Self::On(recorder) => Some(recorder),
            Self::Off | Self::Failed(_) => None,
        }
    }

    /// Puts its counts into the metrics.
    pub fn report(&self, metrics: &SelfMetrics) {
        let Some(recorder) = self.recorder() else { return };
        let stats = recorder.stats();
        let errors = stats.no_space_errors + stats.write_errors;
        let counts = [
            (&RECORDS, stats.records),
            (&RECORDER_BYTES, stats.disk_bytes),
            (&RECORDER_ERRORS, errors),
            (&RECORDER_DAMAGED_BLOCKS, stats.damaged_blocks),
        ];
        for (metric, count) in counts {
            #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
            metrics.set(NAME, metric, count as f64);
        }
        #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
        metrics.set((NAME, "queue_full"), &RECORDS_DISCARDED, stats.dropped_records as f64);
        metrics.set(NAME, &RECORDER_SPAN_SECONDS, span(&stats).as_secs_f64());
    }

    /// What is wrong with it now; `is_losing` where records were dropped lately.
    pub fn condition(&self, is_losing: bool) -> Option<Condition> {
        match self {
            Self::Failed(why) => Some(Condition::degraded(format!(
                "recorder: {why}; readings are delivered, and detail can't be fetched from here"
            ))),
            Self::On(recorder) if is_losing => {
                let dropped = recorder.stats().dropped_records;
                Some(Condition::degraded(format!(
                    "recorder: records are dropped ({dropped} since the start) because the disk is full or too slow; \
                     they are delivered, and detail of that time can't be fetched; free space, or lower recorder.bytes_max"
                )))
            }
            Self::On(_) | Self::Off => None,
        }
    }

    /// Records dropped so far.
    pub fn dropped(&self) -> u64 {
        self.recorder().map_or(0, |recorder| recorder.stats().dropped_records)
    }
}

/// From the oldest block that is there to the newest one.
fn span(stats: &Stats) -> Duration {
    let span = stats.newest_ns.zip(stats.oldest_ns).map_or(0, |(newest, oldest)| newest - oldest);
    Duration::from_nanos(span.max(0).unsigned_abs())
}
