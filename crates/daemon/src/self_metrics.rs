//! Metrics about the process itself, stored once and shown twice: in `/metrics` and as records.

use crate::{Expose, Page};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_sample::catalogue::{Kind, Metric};
use throughline_sample::wire::SelfStat;

/// Prometheus prefix of these metrics.
const PREFIX: &str = "throughline_";

/// A shared set of metrics by their labels and catalogue metric. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SelfMetrics {
    values: Arc<Mutex<BTreeMap<Key, Value>>>,
}

/// Values of the labels of a series. Made of a part of the process, or of it and the value of the metric's own label:
/// `"mpi"`, `("mpi", "too_large")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// The part of the process: the label `source`.
    pub source: &'static str,
    /// The value of [`Metric::label`], empty where the metric has none.
    pub label: &'static str,
}

impl From<&'static str> for Labels {
    fn from(source: &'static str) -> Self {
        Self { source, label: "" }
    }
}

impl From<(&'static str, &'static str)> for Labels {
    fn from((source, label): (&'static str, &'static str)) -> Self {
        Self { source, label }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Value {
    now: f64,
    /// What the last record had.
    recorded: Option<f64>,
}

/// Ordered by source, then by number in the catalogue.
#[derive(Clone, Copy, Debug)]
struct Key {
    labels: Labels,
    metric: &'static Metric,
}

impl Key {
    fn new(labels: Labels, metric: &'static Metric) -> Self {
        debug_assert_eq!(metric.label.is_some(), !labels.label.is_empty(), "{} {labels:?}", metric.name);
        Self { labels, metric }
    }

    fn order(&self) -> (&'static str, u32, &'static str) {
        (self.labels.source, self.metric.id, self.labels.label)
    }

    fn record(&self, time: i64, value: f64) -> SelfStat {
        let (source, label) = (self.labels.source.to_owned(), self.labels.label.to_owned());
        SelfStat { time, source, label, name: self.metric.name.to_owned(), value }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl SelfMetrics {
    /// Adds to a counter.
    pub fn add(&self, labels: impl Into<Labels>, metric: &'static Metric, count: u64) {
        // Exact up to 2^53, which no count of a process reaches.
        #[allow(clippy::cast_precision_loss)]
        let count = count as f64;
        self.with(|values| values.entry(Key::new(labels.into(), metric)).or_default().now += count);
    }

    /// Sets a gauge, or a counter that is kept elsewhere.
    pub fn set(&self, labels: impl Into<Labels>, metric: &'static Metric, value: f64) {
        self.with(|values| values.entry(Key::new(labels.into(), metric)).or_default().now = value);
    }

    /// Takes a gauge away that is not known any more: absent is not what it was.
    pub fn unset(&self, labels: impl Into<Labels>, metric: &'static Metric) {
        self.with(|values| values.remove(&Key::new(labels.into(), metric)));
    }

    /// The same for all gauges of a part of the process that does nothing for now; its counters stay.
    pub fn unset_gauges(&self, source: &'static str) {
        self.with(|values| {
            values.retain(|key, _| key.labels.source != source || key.metric.kind != Kind::Gauge)
        });
    }

    /// The value now, `None` if it was never set.
    #[must_use]
    pub fn get(&self, labels: impl Into<Labels>, metric: &'static Metric) -> Option<f64> {
        self.with(|values| values.get(&Key::new(labels.into(), metric)).map(|value| value.now))
    }

    /// All metrics as records with this time (UTC nanoseconds).
    #[must_use]
    pub fn records(&self, time: i64) -> Vec<SelfStat> {
        self.with(|values| values.iter().map(|(key, value)| key.record(time, value.now)).collect())
    }

    /// Those that changed since their last record of this kind, or all: an agent is one of thousands, and most of its metrics
    /// stand still. The caller records all of them often enough that no series ends for its readers.
    #[must_use]
    pub fn changes(&self, time: i64, all: bool) -> Vec<SelfStat> {
        self.with(|values| {
            let changed = values.iter_mut().filter(|(_, value)| all || value.recorded != Some(value.now));
            let record = |(key, value): (&Key, &mut Value)| {
                value.recorded = Some(value.now);
                key.record(time, value.now)
            };
            changed.map(record).collect()
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<Key, Value>) -> T) -> T {
        // A panic elsewhere can't leave a half-written number: the map stays usable.
        f(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Expose for SelfMetrics {
    fn expose(&self, page: &mut Page) {
        self.with(|values| {
            for (key, value) in values.iter() {
                let own = key.metric.label.map(|name| (name, key.labels.label));
                let labels = [("source", key.labels.source)].into_iter().chain(own);
                page.metric(key.metric, PREFIX, &labels.collect::<Vec<_>>(), value.now);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use throughline_sample::catalogue::{
        LAST_ROUND_SECONDS, MESSAGES_REJECTED, RECORDS, RECORDS_DISCARDED, SOURCE_UP,
    };

    #[test]
    fn in_the_page_and_as_records() {
        let metrics = SelfMetrics::default();
        metrics.add("nvml", &RECORDS, 2);
        metrics.add("nvml", &RECORDS, 3);
        assert_eq!(metrics.get("nvml", &RECORDS), Some(5.0));
        assert_eq!(metrics.get(("nvml", "queue_full"), &RECORDS_DISCARDED), None);
        let record = &metrics.records(7)[0];
        assert_eq!((record.time, record.name.as_str(), record.value), (7, "records", 5.0));
        let mut page = Page::default();
        metrics.expose(&mut page);
        let text = page.encode(Format::Text);
        assert!(text.contains("throughline_records_total{source=\"nvml\"} 5"), "{text}");
        metrics.add(("mpi", "malformed"), &MESSAGES_REJECTED, 2);
        let record = &metrics.records(7)[0];
        assert_eq!((record.source.as_str(), record.label.as_str()), ("mpi", "malformed"));
        let mut page = Page::default();
        metrics.expose(&mut page);
        let text = page.encode(Format::Text);
        let series = "throughline_messages_rejected_total{source=\"mpi\",reason=\"malformed\"} 2";
        assert!(text.contains(series), "{text}");
    }

    #[test]
    fn gauges_of_a_part_that_stands_by_are_absent_and_its_counters_stay() {
        let metrics = SelfMetrics::default();
        metrics.add("upkeep", &RECORDS, 2);
        metrics.set("upkeep", &SOURCE_UP, 0.0);
        metrics.set("upkeep", &LAST_ROUND_SECONDS, 3.0);
        metrics.set("nvml", &SOURCE_UP, 1.0);
        metrics.unset_gauges("upkeep");
        assert_eq!(metrics.get("upkeep", &SOURCE_UP), None);
        assert_eq!(metrics.get("upkeep", &LAST_ROUND_SECONDS), None);
        assert_eq!(metrics.get("upkeep", &RECORDS), Some(2.0));
        assert_eq!(metrics.get("nvml", &SOURCE_UP), Some(1.0));
    }
    #[test]
    fn what_stands_still_is_recorded_with_all_only() {
        let metrics = SelfMetrics::default();
        metrics.add("nvml", &RECORDS, 2);
        metrics.set(("nvml", "queue_full"), &RECORDS_DISCARDED, 0.0);
        let names =
            |all| -> Vec<String> { metrics.changes(7, all).into_iter().map(|one| one.name).collect() };
        assert_eq!(names(false).len(), 2);
        assert!(names(false).is_empty());
        metrics.add("nvml", &RECORDS, 1);
        assert_eq!(names(false), ["records"]);
        assert_eq!(names(true).len(), 2);
        assert!(names(false).is_empty());
    }
}
