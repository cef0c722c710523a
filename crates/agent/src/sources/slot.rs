//! One source's place among the agent's: orders for it while it runs, fails or has been stopped.

use super::{Health, Source, Status};
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{
    CONNECTED_RANKS, FAILED_READS, LAST_ROUND_SECONDS, MESSAGES_REJECTED, OVERRUNS,
    PAUSED_UNTIL_TIMESTAMP_SECONDS, RECORDS_DISCARDED, RUNNING_JOBS, SOURCE_PAUSED, SOURCE_UP,
};
use throughline_sample::wire::Event;

/// One source's place.
pub(super) struct Slot {
    pub(super) name: &'static str,
    pub(super) source: Option<Box<dyn Source>>,
    /// Why it did not start.
    pub(super) error: Option<anyhow::Error>,
    /// What was last reported about it: how it is, and its state.
    pub(super) reported: Option<(Health, String)>,
    /// What is reported when it does not run.
    pub(super) otherwise: Status,
}

impl Slot {
    pub(super) fn status(&self) -> Status {
        self.source.as_ref().map_or_else(|| self.otherwise.clone(), |source| source.status())
    }

    pub(super) fn change(&mut self, time: i64, repeat: bool) -> Option<Event> {
        let status = self.status();
        if !status.is_up() && !status.settled {
            return None; // It is still starting, or tries again.
        }
        let now = (status.health, status.state);
        let before = self.reported.replace(now.clone());
        let is_update = match &before {
            // What it does while it delivers is no update: a source that gives way sends its own events.
            Some(before) => before.0 != now.0 || now.0 != Health::Up && *before != now,
            None => now.0 != Health::Up,
        };
        let (health, state) = now;
        let up = health == Health::Up;
        if !is_update && (up || !repeat) {
            return None;
        }
        let (kind, severity) = match health {
            Health::Up => ("source.up", "info"),
            Health::NotHere => ("source.absent", "info"),
            Health::Starting | Health::Failing => ("source.down", "warning"),
        };
        let reason = status.reason.filter(|_| !up).map_or_else(String::new, |reason| format!(": {reason}"));
        Some(Event {
            time,
            source: self.name.to_owned(),
            kind: kind.to_owned(),
            severity: severity.to_owned(),
            text: format!("{state}{reason}"),
            ..Event::default()
        })
    }

    pub(super) fn take(&mut self) -> Option<Box<dyn Source>> {
        let source = self.source.take()?;
        let before = source.status();
        // What was not here is not failing now.
        let health = if before.health == Health::NotHere { Health::NotHere } else { Health::Failing };
        self.otherwise = Status { health, state: "stopped".to_owned(), settled: true, ..before };
        Some(source)
    }
}

/// Puts one source's state into the metrics.
pub(super) fn report(metrics: &SelfMetrics, name: &'static str, status: &Status, is_beginning: bool) {
    // Exact up to 2^53, which no count of a process reaches.
    #[allow(clippy::cast_precision_loss)]
    let number = |count: u64| count as f64;
    // Absent is not zero: a node without GPUs has no failing source. One that was reported before and is gone has.
    let reported_before = metrics.get(name, &SOURCE_UP).is_some();
    let up = match status.health {
        Health::Up => Some(1.0),
        Health::NotHere if !reported_before => None,
        Health::Starting if !reported_before && is_beginning => None,
        Health::NotHere | Health::Starting | Health::Failing => Some(0.0),
    };
    if let Some(up) = up {
        metrics.set(name, &SOURCE_UP, up);
    }
    metrics.set((name, "queue_full"), &RECORDS_DISCARDED, number(status.dropped));
    metrics.set(name, &FAILED_READS, number(status.failed));
    let optional = [
        (&OVERRUNS, status.overruns.map(number)),
        (&LAST_ROUND_SECONDS, status.round_seconds),
        (&CONNECTED_RANKS, status.connected.map(number)),
        (&RUNNING_JOBS, status.jobs.map(number)),
    ];
    for (metric, value) in optional {
        if let Some(value) = value {
            metrics.set(name, metric, value);
        }
    }
    if let Some(paused) = status.paused {
        metrics.set(name, &SOURCE_PAUSED, f64::from(u8::from(paused)));
    }
    match status.paused_until {
        #[allow(clippy::cast_precision_loss)] // Exact to a microsecond.
        Some(until) => metrics.set(name, &PAUSED_UNTIL_TIMESTAMP_SECONDS, until as f64 / 1e9),
        None => metrics.unset(name, &PAUSED_UNTIL_TIMESTAMP_SECONDS),
    }
    if let Some(malformed) = status.malformed {
        metrics.set((name, "malformed"), &MESSAGES_REJECTED, number(malformed));
    }
    status.counts.iter().for_each(|(labels, metric, count)| metrics.set(*labels, metric, number(*count)));
}
