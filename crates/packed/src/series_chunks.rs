//! A packed series as Prometheus' chunks.

use crate::gaps::standstill;
use crate::prometheus::{Chunk, SAMPLES, chunks};
use crate::series::Series;

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
    use crate::series::{Integers, unpack};

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
