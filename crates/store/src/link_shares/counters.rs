//! What ports counted in a window: their counters, interpolated at its edges.

use std::collections::HashMap;

use tokio_postgres::Client;

use super::{Micros, WINDOW, micros, moment};
use crate::error::Error;

/// Bytes in a window; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CountedBytes {
    pub sent: Option<f64>,
    pub received: Option<f64>,
}

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    time: Micros,
    epoch: Micros,
    sent: Option<i64>,
    received: Option<i64>,
}

/// What ports counted in the window that ends at `end`, by their number in the tables. Two readings farther apart than
/// `gap` have a time between them in which the port was not read. `is_read` says that a round of all ports began after the
/// window: a port without a reading since then is unchanged.
pub(super) async fn counted(
    client: &Client,
    ports: &[i64],
    end: Micros,
    gap: Micros,
    is_read: bool,
) -> Result<HashMap<i64, CountedBytes>, Error> {
    let begin = end - WINDOW;
    // Four readings at most: those around each edge.
    let columns = "c.time, c.epoch, c.transmit_data_bytes, c.receive_data_bytes";
    let one = |since: Micros, until: Micros, order: &str| {
        format!(
            "(SELECT {columns} FROM internal.ib_port_counters c WHERE c.port_id = p.id AND c.time > {} AND c.time <= {}
              AND (c.transmit_data_bytes IS NOT NULL OR c.receive_data_bytes IS NOT NULL) ORDER BY c.time {order} LIMIT 1)",
            moment(since),
            moment(until)
        )
    };
    let sql = format!(
        "SELECT p.id, c.* FROM unnest($1::bigint[]) AS p (id) CROSS JOIN LATERAL
         ({} UNION {} UNION {} UNION {} ORDER BY 1) c",
        one(begin - gap, begin, "DESC"),
        one(begin, end, ""),
        one(begin, end, "DESC"),
        one(end, end + gap, ""),
    );
    let mut readings: HashMap<i64, Vec<Reading>> = HashMap::new();
    let rows =
        client.query(&sql, &[&ports]).await.map_err(Error::sql("reading counters for shares of links"))?;
    for row in rows {
        readings.entry(row.get(0)).or_default().push(Reading {
            time: micros(row.get(1)),
            epoch: micros(row.get(2)),
            sent: row.get(3),
            received: row.get(4),
        });
    }
    let of = |readings: &Vec<Reading>| CountedBytes {
        sent: between(readings, |reading| reading.sent, end, gap, is_read),
        received: between(readings, |reading| reading.received, end, gap, is_read),
    };
    Ok(readings.iter().map(|(port, readings)| (*port, of(readings))).collect())
}

/// Growth of a counter within a window.
fn between(
    readings: &[Reading],
    value: fn(&Reading) -> Option<i64>,
    end: Micros,
    gap: Micros,
    is_read: bool,
) -> Option<f64> {
    let at = |edge: Micros| value_at(readings, value, edge, gap, is_read);
    let ((before, epoch), (after, epoch_after)) = (at(end - WINDOW)?, at(end)?);
    // Counting that began anew in the window hides what was counted before.
    (epoch == epoch_after && after >= before).then_some(after - before)
}

/// A counter at a time, and since when it counts.
fn value_at(
    readings: &[Reading],
    value: fn(&Reading) -> Option<i64>,
    edge: Micros,
    gap: Micros,
    is_read: bool,
) -> Option<(f64, Micros)> {
    #[allow(clippy::cast_precision_loss)] // a window's part is far below 2^53, and only differences count
    let point = |reading: &Reading| Some((reading.time, reading.epoch, value(reading)?));
    let before = readings.iter().rev().filter(|reading| reading.time <= edge).find_map(point);
    let after = readings.iter().filter(|reading| reading.time > edge).find_map(point);
    #[allow(clippy::cast_precision_loss)]
    match (before, after) {
        (Some((time, epoch, value)), Some((time_after, epoch_after, value_after)))
            if epoch == epoch_after && value_after >= value && time_after - time <= gap =>
        {
            let part = (edge - time) as f64 / (time_after - time) as f64;
            Some((value as f64 + (value_after - value) as f64 * part, epoch))
        }
        // Unchanged since: a changed one would have a row.
        (Some((time, epoch, value)), None) if is_read && edge - time <= gap => Some((value as f64, epoch)),
        // Before the first reading of a port that has just begun to count, nothing was counted.
        (None, Some((_, epoch, _))) if epoch >= edge && edge > epoch - WINDOW => Some((0.0, epoch)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    /// Of a crawler that has not reported its rules.
    const GAP: Micros = throughline_sample::row_rules::DEFAULT.largest_gap_seconds as Micros * SECOND;

    fn reading(seconds: Micros, sent: i64) -> Reading {
        Reading { time: seconds * SECOND, epoch: 0, sent: Some(sent), received: None }
    }

    fn sent(readings: &[Reading], is_read: bool) -> Option<f64> {
        between(readings, |reading| reading.sent, 20 * SECOND, GAP, is_read)
    }

    #[test]
    fn counters_are_interpolated_at_the_edges() {
        let four = [reading(8, 800), reading(12, 1200), reading(18, 1800), reading(22, 2600)];
        // 1000 at 10 s; halfway between 1800 and 2600 at 20 s.
        assert_eq!(sent(&four, false), Some(1200.0));
        assert_eq!(between(&four, |reading| reading.received, 20 * SECOND, GAP, true), None);
    }

    #[test]
    fn what_has_no_row_is_unchanged_only_where_it_was_read() {
        let still = [reading(8, 800), reading(9, 900)];
        assert_eq!((sent(&still, true), sent(&still, false)), (Some(0.0), None));
        // Too long ago: nobody read it.
        assert_eq!(sent(&[reading(-60, 5)], true), None);
        assert_eq!(sent(&[], true), None);
    }

    #[test]
    fn counting_anew_and_gaps_are_not_known() {
        let anew = [reading(8, 800), Reading { epoch: 15 * SECOND, ..reading(16, 5) }, reading(22, 10)];
        assert_eq!(sent(&anew, true), None);
        assert_eq!(sent(&[reading(8, 800), reading(90, 1800)], true), None);
        assert_eq!(sent(&[reading(8, 800), reading(12, 700), reading(22, 900)], true), None);
    }
}
