//! The alerts: one definition in, Prometheus' rules and Grafana's rules and the table of docs/ALERTS.md out.
//!
//! * `rules/*.toml`: what each alert says and queries, in PromQL and in SQL.
//! * `thresholds.toml`: when each fires. A site's own file is the only thing that it changes.
//! * [`About`]: what the rows of a rule are (a port, an NVLink, a daemon) and so how they get names, jobs and a dashboard.
//! * [`prometheus`], [`grafana`], [`table`]: the files as text. Nothing here reads or writes a file.

mod about;
mod definition;
mod grafana;
mod prometheus;
mod sql;
mod text;

pub use about::About;
pub use definition::{Disappearance, Error, Increase, Rule, Set, Silence, Threshold, Unit};
pub use grafana::grafana;
pub use prometheus::prometheus;
pub use text::table;

/// The thresholds of this build.
pub const THRESHOLDS: &str = include_str!("../thresholds.toml");

/// When an alert fires by [`THRESHOLDS`]; `None` where there is no such alert.
#[must_use]
pub fn threshold(alert: &str) -> Option<Threshold> {
    let mut all: std::collections::BTreeMap<String, Threshold> = toml::from_str(THRESHOLDS).ok()?;
    all.remove(alert)
}

/// Where the files of a set go, below the given folder.
pub const PROMETHEUS_FILE: &str = "prometheus/rules/throughline.yml";
/// As [`PROMETHEUS_FILE`].
pub const GRAFANA_FILE: &str = "grafana/provisioning/alerting/throughline.yml";

#[cfg(test)]
mod tests;
