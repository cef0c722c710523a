//! The series of a packed hour: which there are, which are beside another, and their samples as Prometheus' chunks.

use super::gaps::standstill;
use throughline_packed::prometheus::{Chunk, SAMPLES, chunks};
use throughline_packed::series::Series;
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
    let of = |metric: &Metric| metric.id.cast_signed();
    let pairs = [
        (&UNICAST_TRANSMIT_PACKETS, &TRANSMIT_PACKETS),
        (&UNICAST_RECEIVE_PACKETS, &RECEIVE_PACKETS),
        (&UNICAST_PACKETS_TRANSMITTED, &PORT_PACKETS_TRANSMITTED),
        (&UNICAST_PACKETS_RECEIVED, &PORT_PACKETS_RECEIVED),
    ];
    pairs.into_iter().find(|(other, _)| of(other) == metric).map(|(_, all)| of(all))
}

/// A series in Prometheus' encoding, with each chunk the shortest standstill of a counter in it that may have to be
/// filled: `times` are those of rows, in milliseconds since 1970. Of one millisecond the last holds. `None` where a row has no time.
#[must_use]
pub fn series_chunks(times: &[i64], series: &Series, is_counter: bool) -> Option<Vec<(Chunk, Option<i64>)>> {
    let mut points: Vec<(i64, f64)> = Vec::with_capacity(series.values.len());
    for (row, value) in series.rows.iter().zip(&series.values) {
        let time = *times.get(usize::try_from(*row).ok()?)?;
        let point = (time, *value as f64);
        match points.last_mut() {
            Some(last) if last.0 == time => *last = point,
            _ => points.push(point),
        }
    }
    let shortest =
        |points: &[(i64, f64)]| points.windows(2).filter_map(|pair| standstill(pair[0], pair[1])).min();
    let gaps: Vec<_> = points.chunks(SAMPLES).map(|points| shortest(points).filter(|_| is_counter)).collect();
    Some(chunks(&points).zip(gaps).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_packed::series::{Integers, unpack};

    fn packed(points: &[(i64, i64)]) -> Vec<u8> {
        let mut series = Integers::default();
        points.iter().for_each(|(row, value)| series.push(*row, *value));
        series.finish(None).unwrap().0
    }

    #[test]
    fn chunks_report_their_gaps_and_the_last_of_a_millisecond_holds() {
        let mut times: Vec<i64> = (0..730).map(|row| row * 1_000).collect();
        times.extend([729_000, 789_000, 790_000]);
        let mut points: Vec<(i64, i64)> = (0..730).map(|row| (row, row)).collect();
        points.extend([(730, 900), (731, 900), (732, 901)]);
        let series = unpack(&packed(&points), None).unwrap();
        let gaps = |is_counter| {
            let chunks = series_chunks(&times, &series, is_counter).unwrap();
            chunks.iter().map(|(chunk, standstill)| (chunk.count(), *standstill)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(true), [(720, None), (12, Some(60_000))]);
        assert_eq!(gaps(false), [(720, None), (12, None)]);
        let mut last = Vec::new();
        series_chunks(&times, &series, true).unwrap()[1].0.unpack(&mut last).unwrap();
        assert_eq!(last[9], (729_000, 900.0));
        assert_eq!(series_chunks(&times[..700], &series, true), None, "a row without a time");
    }
}
