//! `[detail]`: how much of what stays on the nodes may be fetched.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_gateway::upkeep::Triggers;
use throughline_store::DetailLimits;

/// Agents' recorders reach back an hour unless configured; nothing keeps a week.
const SPAN_SECONDS_MAX: u64 = 7 * 86_400;

/// Longest wait for an answer.
const WAIT_SECONDS_MAX: u64 = 3600;

/// Most of anything that is counted: records of a day of a large site.
const COUNT_MAX: u64 = 1_000_000_000_000;

/// `[detail]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetailConfig {
    /// Whether detail may be requested.
    pub enabled: bool,
    /// Nodes that are answering at a time.
    pub nodes_max: u64,
    /// Requests of an hour, by everybody.
    pub requests_per_hour: u64,
    /// Requests of an hour, by one user.
    pub user_requests_per_hour: u64,
    /// Records of a day, by everybody.
    pub records_per_day: u64,
    /// Records of a day, by one user.
    pub user_records_per_day: u64,
    /// Longest time of one request.
    pub span_seconds_max: u64,
    /// After so long what has not arrived is given up.
    pub wait_seconds: u64,
    /// Jobs that are shown live at a time.
    pub live_jobs_max: u64,
    /// Whether it is requested of jobs with a rank that ended without MPI_Finalize.
    pub on_bad_end: bool,
    /// Whether it is requested of jobs that hang or wait for a slow rank.
    pub on_verdict: bool,
    /// Whether it is requested of the job, node or link of an alert that is posted to `/api/v1/alerts`.
    pub on_alert: bool,
    /// How much of them, before their end or now.
    pub trigger_seconds: u64,
}

impl Default for DetailConfig {
    fn default() -> Self {
        let usual = DetailLimits::default();
        let triggers = Triggers::default();
        let ([requests, user_requests], [records, user_records]) = (usual.requests, usual.records);
        Self {
            enabled: usual.is_enabled,
            nodes_max: usual.nodes,
            requests_per_hour: requests,
            user_requests_per_hour: user_requests,
            records_per_day: records,
            user_records_per_day: user_records,
            span_seconds_max: usual.span.as_secs(),
            wait_seconds: usual.wait.as_secs(),
            live_jobs_max: usual.live_jobs,
            on_bad_end: triggers.on_bad_end,
            on_verdict: triggers.on_verdict,
            on_alert: triggers.on_alert,
            trigger_seconds: triggers.last.as_secs(),
        }
    }
}

impl DetailConfig {
    /// What is requested without a person.
    ///
    /// # Errors
    /// A number is out of range (64).
    pub fn triggers(&self) -> Result<Triggers, Failure> {
        let limits = self.limits()?;
        if self.trigger_seconds == 0 {
            return Err(Failure::usage("detail.trigger_seconds = 0: must be at least 1"));
        }
        let last = Duration::from_secs(self.trigger_seconds.min(limits.span.as_secs()));
        let (on_bad_end, on_verdict, on_alert) = (self.on_bad_end, self.on_verdict, self.on_alert);
        Ok(Triggers { limits, on_bad_end, on_verdict, on_alert, last })
    }

    /// The quotas.
    ///
    /// # Errors
    /// One is out of range (64).
    pub fn limits(&self) -> Result<DetailLimits, Failure> {
        let within = |key: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(value);
            }
            Err(Failure::usage(format!("detail.{key} = {value}: must be from {least} to {most}")))
        };
        let count = |key: &str, value: u64| within(key, value, 0, COUNT_MAX);
        Ok(DetailLimits {
            is_enabled: self.enabled,
            nodes: count("nodes_max", self.nodes_max)?,
            requests: [
                count("requests_per_hour", self.requests_per_hour)?,
                count("user_requests_per_hour", self.user_requests_per_hour)?,
            ],
            records: [
                count("records_per_day", self.records_per_day)?,
                count("user_records_per_day", self.user_records_per_day)?,
            ],
            span: Duration::from_secs(within(
                "span_seconds_max",
                self.span_seconds_max,
                1,
                SPAN_SECONDS_MAX,
            )?),
            wait: Duration::from_secs(within("wait_seconds", self.wait_seconds, 5, WAIT_SECONDS_MAX)?),
            live_jobs: count("live_jobs_max", self.live_jobs_max)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_and_what_is_out_of_range_is_named() {
        assert_eq!(DetailConfig::default().limits().unwrap(), DetailLimits::default());
        let wrong = DetailConfig { span_seconds_max: 0, ..DetailConfig::default() };
        assert!(wrong.limits().unwrap_err().to_string().contains("detail.span_seconds_max = 0"));
    }
}
