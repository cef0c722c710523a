//! The series of a packed hour: the number that each has in its row, and which are beside another.

use throughline_sample::catalogue::{
    Metric, PORT_PACKETS_RECEIVED, PORT_PACKETS_TRANSMITTED, RECEIVE_PACKETS, TRANSMIT_PACKETS,
    UNICAST_PACKETS_RECEIVED, UNICAST_PACKETS_TRANSMITTED, UNICAST_RECEIVE_PACKETS, UNICAST_TRANSMIT_PACKETS,
};

/// In the place of a metric's number: times of rows, microseconds since 2000, as PostgreSQL counts.
pub const TIMES: i32 = -2;

/// In the place of a metric's number: when counting began, microseconds since 2000.
pub const EPOCHS: i32 = -3;

/// In the place of a metric's number: who read it, a text. Of NVLinks it is part of the key instead.
pub const SOURCES: i32 = -4;

/// In the place of a metric's number: names of counters that stand at their end, the text of an array.
pub const SATURATED: i32 = -5;

/// The number of the metric that another's values are nearly the same as, for both sides of the database.
#[must_use]
pub fn beside(metric: i32) -> Option<i32> {
    let pairs = [
        (&UNICAST_TRANSMIT_PACKETS, &TRANSMIT_PACKETS),
        (&UNICAST_RECEIVE_PACKETS, &RECEIVE_PACKETS),
        (&UNICAST_PACKETS_TRANSMITTED, &PORT_PACKETS_TRANSMITTED),
        (&UNICAST_PACKETS_RECEIVED, &PORT_PACKETS_RECEIVED),
    ];
    pairs.into_iter().find(|(other, _)| number(other) == metric).map(|(_, all)| number(all))
}

/// A metric's number in tables of blocks.
#[must_use]
pub fn number(metric: &Metric) -> i32 {
    // The catalogue's numbers are of four digits at most.
    metric.id.cast_signed()
}
