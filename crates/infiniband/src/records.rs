//! Readings and topologies as records of the wire schema. Pure conversion: no clock, no spool.

mod fingerprint;
mod groups;
mod inventory;

pub use fingerprint::{fingerprint, is_same_fabric};
pub use groups::{GROUP_MEMBERS_MAX, GROUPS_MAX, GroupRecords, MEMBERS_MAX, multicast_groups};
pub use inventory::{changed_nodes, inventory, multicast, read_snapshot, snapshot, topology};

use crate::mad::{Counters, LANES, LaneCounters, counter_metrics, lane_metrics};
use crate::{reading, reading::PortReading};
use crate::{reading::thin::Row, reading::thin::Thinner};
use throughline_sample::catalogue::{Metric, PORT_RATE_BYTES_PER_SECOND, TRANSMIT_WAIT_TICK_BYTES};
use throughline_sample::wire::{
    Batch, Coverage, IbPortLanesSample, IbPortSample, LinkValues, RowRules, Values,
};

/// Name of this source in records.
pub const SOURCE: &str = "mad";
/// Ports in one spool entry of at most 2 MiB. A port has at most two rows of 550 bytes, and one of counters by
/// lane of 1,300 bytes.
const PORTS_PER_ENTRY: usize = 800;
/// Gauges of a port's row.
const GAUGES: usize = 2;

/// What a port had at one time as wire values, and the numbers of the saturated metrics.
fn values(port: &PortReading, counters: &Counters) -> (Values, Vec<u32>) {
    let metrics = counter_metrics();
    let mut values = Values {
        metric: Vec::with_capacity(metrics.len() + GAUGES),
        value: Vec::with_capacity(metrics.len() + GAUGES),
    };
    let mut saturated = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        match counters.wrapped(index) {
            Some(value) => values.put(metric, value),
            None if counters.is_at_end(index) => saturated.push(metric.id),
            None => {}
        }
    }
    for (metric, value) in gauges(port) {
        values.put(metric, value);
    }
    (values, saturated)
}

/// What is known of a port besides its counters.
pub fn gauges(port: &PortReading) -> impl Iterator<Item = (&'static Metric, u64)> {
    let rate = port.rate_bytes_per_second.map(|rate| (&PORT_RATE_BYTES_PER_SECOND, rate));
    rate.into_iter().chain(port.tick_bytes.map(|bytes| (&TRANSMIT_WAIT_TICK_BYTES, bytes)))
}

/// The values of one reading as the store has them: byte counters modulo 2^63.
pub fn stored_values(reading: &PortReading) -> impl Iterator<Item = (&'static Metric, u64)> + '_ {
    let counters = counter_metrics().iter().enumerate().filter_map(|(index, metric)| {
        reading.counters.wrapped(index).map(|value| (*metric, metric.width.reduce(value)))
    });
    counters.chain(gauges(reading))
}

/// One row of a port.
fn sample(row: &Row<'_>) -> IbPortSample {
    let (values, saturated) = values(row.port, &row.counters);
    IbPortSample {
        time: row.time,
        epoch: row.epoch,
        node_guid: row.port.guid.0,
        port: u32::from(row.port.port),
        values: Some(values),
        saturated,
        source: SOURCE.to_owned(),
    }
}

/// The readings of a sweep as batches, each small enough for a spool entry, without what `thinner` leaves out;
/// and how many readings that were. The same ports come in the same batch again as long as the topology stays.
/// Ports with no counter read have no sample. `lanes_of` gives the counters by lane of the reading at a position.
#[must_use]
pub fn samples<'a>(
    readings: &[PortReading],
    lanes_of: impl Fn(usize) -> Option<&'a LaneCounters>,
    thinner: &mut Thinner,
) -> (Vec<Batch>, usize) {
    let mut batches = Vec::new();
    batches.resize_with(readings.len().div_ceil(PORTS_PER_ENTRY), Batch::default);
    let left_out = thinner.rows(readings, |position, row| {
        let Some(batch) = batches.get_mut(position / PORTS_PER_ENTRY) else { return };
        if !row.counters.is_empty() {
            batch.ib_ports.push(sample(&row));
        }
        if let Some(lanes) = lanes_of(position).filter(|_| row.port.has_fresh_lanes() && !row.is_before) {
            batch.ib_port_lanes.push(lane_sample(&row, lanes));
        }
    });
    (batches, left_out)
}

/// The counters by lane of a port.
fn lane_sample(row: &Row<'_>, lanes: &LaneCounters) -> IbPortLanesSample {
    let of_lane = |lane: usize| {
        let mut values = Values::default();
        for (index, metric) in lane_metrics().iter().enumerate() {
            if let Some(value) = lanes.value(index, lane) {
                values.put(metric, value);
            }
        }
        LinkValues { link: lane as u32, values: Some(values) }
    };
    IbPortLanesSample {
        time: row.time,
        epoch: row.epoch,
        node_guid: row.port.guid.0,
        port: u32::from(row.port.port),
        source: SOURCE.to_owned(),
        lanes: (0..LANES).map(of_lane).collect(),
    }
}

/// What a sweep covered, and by which rules its rows are left out.
#[must_use]
pub fn coverage(time: i64, coverage: &reading::Coverage, rules: RowRules) -> Coverage {
    let reasons = coverage.reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count as u64));
    Coverage {
        time,
        source: SOURCE.to_owned(),
        expected: coverage.expected as u64,
        read: (coverage.complete + coverage.partial) as u64,
        failed: coverage.missing as u64,
        elapsed_seconds: coverage.elapsed.as_secs_f64(),
        reasons: reasons.collect(),
        row_rules: Some(rules),
        ..Coverage::default()
    }
}
