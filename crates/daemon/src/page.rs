//! The `/metrics` page: families of series, encoded once as OpenMetrics or as text format 0.0.4.
//!
//! Prometheus and `promtool check metrics` want `_total` in the HELP and TYPE lines of counters, OpenMetrics
//! forbids it there; the text format is therefore derived from the one encoding, line by line.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write};
use std::sync::Arc;
use throughline_sample::catalogue::{Kind, Metric};

/// Content types of the two forms of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus text format 0.0.4, unless a client requests the other.
    #[default]
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The form that an `Accept` header requests.
    #[must_use]
    pub fn from_accept(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Format::OpenMetrics } else { Format::Text }
    }

    /// What a page ends with.
    #[must_use]
    pub fn end_mark(self) -> &'static str {
        match self {
            Format::Text => "",
            Format::OpenMetrics => "# EOF\n",
        }
    }

    /// The `Content-Type` of the page.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A value of a series; whole numbers stay exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}

/// Labels and value of one series.
type Series = (Vec<(Cow<'static, str>, String)>, Value);

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: Cow<'static, str>,
    series: Vec<Series>,
}

/// What puts series on a page.
pub trait Expose: Send + Sync {
    /// Adds the series as they are now. Must be quick: it serves the last values and reads no device.
    fn expose(&self, page: &mut Page);
}

impl<T: Expose + ?Sized> Expose for Arc<T> {
    fn expose(&self, page: &mut Page) {
        self.as_ref().expose(page);
    }
}

impl Expose for Vec<Arc<dyn Expose>> {
    fn expose(&self, page: &mut Page) {
        for part in self {
            part.expose(page);
        }
    }
}

/// Families of series under construction.
#[derive(Debug, Default)]
pub struct Page {
    families: BTreeMap<String, Family>,
}

impl Page {
    /// Adds one series of a catalogue metric under one of its table's prefixes. `labels` in the order of
    /// [`Table::labels`](throughline_sample::catalogue::Table::labels).
    pub fn metric(
        &mut self,
        metric: &'static Metric,
        prefix: &str,
        labels: &[(&'static str, &str)],
        value: impl Into<Value>,
    ) {
        let mut name = String::with_capacity(prefix.len() + metric.name.len());
        name.push_str(prefix);
        name.push_str(metric.name);
        self.add(name, metric.kind, Cow::Borrowed(metric.help), labels, value.into());
    }

    /// Adds one series of an info metric, value 1; `name` ends in `_info`.
    pub fn info(&mut self, name: &str, help: &'static str, labels: &[(&'static str, &str)]) {
        self.add(name.to_owned(), Kind::Gauge, Cow::Borrowed(help), labels, Value::Whole(1));
    }

    /// Adds one series of a gauge that is in no table's list.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: impl Into<Value>,
    ) {
        self.add(name.to_owned(), Kind::Gauge, Cow::Borrowed(help), labels, value.into());
    }

    /// Adds one series of a counter that is in no table's list; `name` is without `_total`.
    pub fn counter(
        &mut self,
        name: &str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: impl Into<Value>,
    ) {
        self.add(name.to_owned(), Kind::Counter, Cow::Borrowed(help), labels, value.into());
    }

    fn add(
        &mut self,
        name: String,
        kind: Kind,
        help: Cow<'static, str>,
        labels: &[(&'static str, &str)],
        value: Value,
    ) {
        let family = self.families.entry(name).or_insert_with(|| Family { kind, help, series: Vec::new() });
        let labels = labels.iter().map(|(key, value)| (Cow::Borrowed(*key), (*value).to_owned())).collect();
        family.series.push((labels, value));
    }

    /// The page as text.
    #[must_use]
    pub fn encode(self, format: Format) -> String {
        let counters: HashSet<String> = self
            .families
            .iter()
            .filter(|(_, family)| family.kind == Kind::Counter)
            .map(|(name, _)| name.clone())
            .collect();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &registry);
        match format {
            Format::OpenMetrics => text,
            Format::Text => to_text_format(&text, &counters),
        }
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, family) in &self.families {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, &family.help, None, kind)?;
            for (labels, value) in &family.series {
                let series = metric.encode_family(labels)?;
                match (family.kind, *value) {
                    (Kind::Counter, Value::Whole(value)) => ConstCounter::new(value).encode(series)?,
                    (Kind::Counter, Value::Real(value)) => ConstCounter::new(value).encode(series)?,
                    (Kind::Gauge, Value::Whole(value)) => ConstGauge::new(value).encode(series)?,
                    (Kind::Gauge, Value::Real(value)) => ConstGauge::new(value).encode(series)?,
                }
            }
        }
        Ok(())
    }
}

/// OpenMetrics to text format 0.0.4: `_total` into the comment lines of counters, no end mark.
fn to_text_format(open_metrics: &str, counters: &HashSet<String>) -> String {
    let mut text = String::with_capacity(open_metrics.len() + counters.len() * 16);
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        let comment = line.strip_prefix("# ").and_then(|rest| {
            let (word, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            counters.contains(name).then_some((word, name, rest))
        });
        // Writing to a String can't fail.
        let _ = match comment {
            Some((word, name, rest)) => writeln!(text, "# {word} {name}_total {rest}"),
            None => writeln!(text, "{line}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::catalogue::{SPOOL_BYTES, SWITCH_PORT_PREFIX, TRANSMIT_DATA_BYTES};

    fn page() -> Page {
        let mut page = Page::default();
        for port in ["1", "2"] {
            let labels = [("guid", "0x1"), ("port", port)];
            page.metric(&TRANSMIT_DATA_BYTES, SWITCH_PORT_PREFIX, &labels, u64::MAX >> 1);
        }
        page.metric(&SPOOL_BYTES, "throughline_", &[("source", "a \"b\"\\\n")], 0.5);
        page.info("throughline_build_info", "Version of this program.", &[("version", "1")]);
        page
    }

    #[test]
    fn text_format() {
        let text = page().encode(Format::Text);
        assert!(text.contains("# TYPE infiniband_switch_port_transmit_data_bytes_total counter\n"), "{text}");
        assert!(text.contains("# HELP infiniband_switch_port_transmit_data_bytes_total Data sent"), "{text}");
        let series =
            "infiniband_switch_port_transmit_data_bytes_total{guid=\"0x1\",port=\"2\"} 9223372036854775807\n";
        assert!(text.contains(series), "{text}");
        assert!(text.contains("throughline_spool_bytes{source=\"a \\\"b\\\"\\\\\\n\"} 0.5\n"), "{text}");
        assert!(text.contains("throughline_build_info{version=\"1\"} 1\n"), "{text}");
        assert!(!text.contains("EOF"), "{text}");
    }

    #[test]
    fn open_metrics() {
        let text = page().encode(Format::OpenMetrics);
        assert!(text.contains("# TYPE infiniband_switch_port_transmit_data_bytes counter\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(
            Format::from_accept("application/openmetrics-text;version=1.0.0,*/*"),
            Format::OpenMetrics
        );
        assert_eq!(Format::from_accept("*/*"), Format::Text);
    }
}
