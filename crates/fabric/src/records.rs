//! Readings and topologies as records of the wire schema. Pure conversion: no clock, no spool.

mod inventory;

pub use inventory::{changed_nodes, inventory, memory, topology};

use crate::mad::counter_metrics;
use crate::sweep::{self, PortReading};
use throughline_sample::catalogue::{Metric, PORT_RATE_BYTES_PER_SECOND};
use throughline_sample::wire::{Batch, Coverage, IbPortSample, Values};

/// Name of this source in records.
pub const SOURCE: &str = "mad";
/// Port samples in one spool entry: at most 280 bytes each, so 1.7 MB of the 2 MiB that an entry can hold.
const SAMPLES_PER_ENTRY: usize = 6000;

/// The metrics of one reading as wire values, and the numbers of the saturated ones.
fn values(reading: &PortReading) -> (Values, Vec<u32>) {
    let metrics = counter_metrics();
    let mut values = Values {
        metric: Vec::with_capacity(metrics.len() + 1),
        value: Vec::with_capacity(metrics.len() + 1),
    };
    let mut saturated = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        match reading.counters.wrapped(index) {
            Some(value) => values.put(metric, value),
            None if reading.counters.is_saturated(index) => saturated.push(metric.id),
            None => {}
        }
    }
    if let Some(rate) = reading.rate_bytes_per_second {
        values.put(&PORT_RATE_BYTES_PER_SECOND, rate);
    }
    (values, saturated)
}

/// The values of one reading as `/metrics` and the store have them: byte counters modulo 2^63.
pub fn stored_values(reading: &PortReading) -> impl Iterator<Item = (&'static Metric, u64)> + '_ {
    let counters = counter_metrics().iter().enumerate().filter_map(|(index, metric)| {
        reading.counters.wrapped(index).map(|value| (*metric, metric.width.reduce(value)))
    });
    counters.chain(reading.rate_bytes_per_second.map(|rate| (&PORT_RATE_BYTES_PER_SECOND, rate)))
}

/// The readings of a sweep as batches, each small enough for a spool entry. The same ports come in the same
/// batch again as long as the topology stays. Ports of which nothing was read have no sample.
#[must_use]
pub fn samples(readings: &[PortReading]) -> Vec<Batch> {
    let sample = |reading: &PortReading| {
        let (values, saturated) = values(reading);
        IbPortSample {
            time: reading.time,
            epoch: reading.epoch,
            node_guid: reading.guid.0,
            port: u32::from(reading.port),
            values: Some(values),
            saturated,
            source: SOURCE.to_owned(),
        }
    };
    let batch = |chunk: &[PortReading]| Batch {
        ib_ports: chunk.iter().filter(|reading| !reading.counters.is_empty()).map(sample).collect(),
        ..Batch::default()
    };
    readings.chunks(SAMPLES_PER_ENTRY).map(batch).collect()
}

/// What a sweep covered.
#[must_use]
pub fn coverage(time: i64, coverage: &sweep::Coverage) -> Coverage {
    let reasons = coverage.reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count as u64));
    Coverage {
        time,
        source: SOURCE.to_owned(),
        expected: coverage.expected as u64,
        read: (coverage.complete + coverage.partial) as u64,
        failed: coverage.missing as u64,
        elapsed_seconds: coverage.elapsed.as_secs_f64(),
        reasons: reasons.collect(),
    }
}
