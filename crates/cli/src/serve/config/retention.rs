//! `[upkeep]` and `[retention]`: when old rows go, and how long they are kept.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_sample::row_rules::MINUTELY;
use throughline_store::Retention;

/// Longest retention: a century, which every time type involved can subtract from now.
pub(super) const RETENTION_SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;

/// Shortest time of rows: alerts look back an hour at most (alerts/rules), and some readings come late.
const ROWS_SECONDS_MIN: u64 = 5400;

/// Shortest silence that says anything: agents report each job once a minute.
fn job_silence_seconds_min() -> u64 {
    MINUTELY.largest_gap().as_secs()
}

/// `[upkeep]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpkeepConfig {
    /// Whether this server may do it; of several one does.
    pub enabled: bool,
    /// Time between two rounds of retention.
    pub interval_seconds: u64,
    /// How long nodes may say nothing of a job before their ranks of it count as ended.
    pub job_silence_seconds: u64,
}

impl Default for UpkeepConfig {
    fn default() -> Self {
        Self { enabled: true, interval_seconds: 600, job_silence_seconds: 900 }
    }
}

impl UpkeepConfig {
    /// Time between two rounds, and how long a job may be silent.
    ///
    /// # Errors
    /// A time is out of range (64).
    pub fn times(&self) -> Result<(Duration, Duration), Failure> {
        if self.interval_seconds == 0 {
            return Err(Failure::usage("upkeep.interval_seconds = 0: must be at least 1"));
        }
        let min = job_silence_seconds_min();
        if self.job_silence_seconds < min {
            return Err(Failure::usage(format!(
                "upkeep.job_silence_seconds = {}: must be at least {min}, as agents report their \
                 jobs once a minute",
                self.job_silence_seconds
            )));
        }
        let job_silence = retention_time("upkeep.job_silence_seconds", self.job_silence_seconds)?;
        let interval = Duration::from_secs(self.interval_seconds);
        Ok((interval, job_silence))
    }
}

/// `[retention]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// For tables that are not named below.
    pub default_seconds: u64,
    /// For the tables of minutes that are not named below.
    pub minutes_seconds: u64,
    /// For detail on demand.
    pub detail_seconds: u64,
    /// For events.
    pub events_seconds: u64,
    /// For what is known of a job, from its end on.
    pub jobs_seconds: u64,
    /// For how long readings of ports, NVLinks and PCIe are rows before they are packed only; 0 for as long as they are kept.
    pub rows_seconds: u64,
    /// By hypertable, in seconds.
    pub table_seconds: BTreeMap<String, u64>,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        let usual = Retention::default();
        Self {
            default_seconds: usual.of("").as_secs(),
            minutes_seconds: usual.minutes().as_secs(),
            detail_seconds: usual.of("detail_mpi_bins").as_secs(),
            events_seconds: usual.of("events").as_secs(),
            jobs_seconds: usual.jobs().as_secs(),
            rows_seconds: usual.rows_at_most().map_or(0, |rows| rows.as_secs()),
            table_seconds: BTreeMap::new(),
        }
    }
}

impl RetentionConfig {
    /// How long rows are kept.
    ///
    /// # Errors
    /// A time is out of range, or a table is none of ours (64).
    pub fn times(&self) -> Result<Retention, Failure> {
        let minutes = retention_time("retention.minutes_seconds", self.minutes_seconds)?;
        let default = retention_time("retention.default_seconds", self.default_seconds)?;
        let detail = retention_time("retention.detail_seconds", self.detail_seconds)?;
        let events = retention_time("retention.events_seconds", self.events_seconds)?;
        let jobs = retention_time("retention.jobs_seconds", self.jobs_seconds)?;
        if jobs < default {
            return Err(Failure::usage(format!(
                "retention.jobs_seconds = {}: must be at least default_seconds ({}), as rows of a job are there for so long",
                self.jobs_seconds, self.default_seconds
            )));
        }
        let mut kept = Retention::for_all(default)
            .with_minutes(minutes)
            .with_detail(detail)
            .with_events(events)
            .with_jobs(jobs);
        if self.rows_seconds > 0 {
            if self.rows_seconds < ROWS_SECONDS_MIN {
                return Err(Failure::usage(format!(
                    "retention.rows_seconds = {}: must be 0 or at least {ROWS_SECONDS_MIN}, as alerts and live views read an hour \
                     of rows",
                    self.rows_seconds
                )));
            }
            let rows = retention_time("retention.rows_seconds", self.rows_seconds)?;
            kept = kept.with_rows(rows);
        }
        for (table, seconds) in &self.table_seconds {
            let key = format!("retention.table_seconds.{table}");
            kept.set(table, retention_time(&key, *seconds)?)
                .map_err(|why| Failure::usage(format!("{key}: {why}")))?;
        }
        Ok(kept)
    }
}

/// A time that every time type involved can subtract from now.
fn retention_time(key: &str, seconds: u64) -> Result<Duration, Failure> {
    if (1..=RETENTION_SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    Err(Failure::usage(format!("{key} = {seconds}: must be from 1 to {RETENTION_SECONDS_MAX} seconds")))
}
