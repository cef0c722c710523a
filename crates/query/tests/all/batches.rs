//! Batches that the tests write. No database here.

use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_store::{Content, Entry, Sender};
use uuid::Uuid;

/// 2026-09-21T14:13:20Z in nanoseconds.
pub const START: i64 = 1_790_000_000_000_000_000;

/// One second in nanoseconds.
pub const SECOND: i64 = 1_000_000_000;

/// The subnet of all batches here.
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// A switch.
pub const SWITCH: u64 = 0x0002_c903_0000_0001;

pub fn entry(spool_id: Uuid, sequence: u64, batch: Batch) -> Entry {
    Entry { spool_id, sequence, content: Content::Batch(batch), sender: Sender::default() }
}

/// Values from pairs.
pub fn values(pairs: &[(&'static Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    for (metric, value) in pairs {
        values.put(metric, *value);
    }
    Some(values)
}

/// One reading of a port, `seconds` after the start.
pub fn port_sample(port: u32, seconds: i64, epoch: i64, pairs: &[(&'static Metric, u64)]) -> IbPortSample {
    IbPortSample {
        time: START + seconds * SECOND,
        epoch: START + epoch * SECOND,
        node_guid: SWITCH,
        port,
        values: values(pairs),
        saturated: vec![],
        source: "mad".to_owned(),
    }
}
