//! The bytes of a block's column `samples` since version 2: one series of a thing and an hour, bit-packed. Rows of readings
//! are numbered from 0 in the order of their times; the series [`TIMES`] has the times, so that they are stored once for all
//! series. Pure. The functions `packed_…` of the schema read the same in SQL.
//!
//! The first byte is the version, 2; then CRC-32C of the rest (4 bytes); then two streams (`stream`): the numbers of the rows
//! that have a value, and the values. In a series of texts the values are numbers of texts, from 0, and behind the streams come
//! the texts, each with its length (4 bytes).

use super::form::is_gap;
use super::stream::{read, take, take_u32, write};
use super::xor::{Chunk, SAMPLES, chunks};

/// In the place of a metric's number: times of rows, microseconds since 2000, as PostgreSQL counts.
pub const TIMES: i32 = -2;

/// In the place of a metric's number: when counting began, microseconds since 2000.
pub const EPOCHS: i32 = -3;

/// In the place of a metric's number: who read it, a text. Of NVLinks it is part of the key instead.
pub const SOURCES: i32 = -4;

/// In the place of a metric's number: names of counters that stand at their end, the text of an array.
pub const SATURATED: i32 = -5;

/// The first byte.
pub const VERSION: u8 = 2;

/// Bytes before the streams.
const HEAD: usize = 5;

/// A series under construction.
#[derive(Default)]
pub(super) struct Integers {
    rows: Vec<i64>,
    values: Vec<i64>,
}

impl Integers {
    /// The value of a row; rows rise.
    pub fn push(&mut self, row: i64, value: i64) {
        self.rows.push(row);
        self.values.push(value);
    }

    /// The bytes and the number of values; `None` without any.
    pub fn finish(self) -> Option<(Vec<u8>, u64)> {
        let values = self.values.len() as u64;
        (values > 0).then(|| (self.sealed(&[]), values))
    }

    fn sealed(&self, texts: &[String]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        write(&self.rows, &mut bytes);
        write(&self.values, &mut bytes);
        for text in texts {
            // Names of sources and counters are shorter by far.
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        let sum = crc32c::crc32c(&bytes[HEAD..]);
        bytes[0] = VERSION;
        bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// A series of texts under construction.
#[derive(Default)]
pub(super) struct Texts {
    integers: Integers,
    texts: Vec<String>,
}

impl Texts {
    /// The text of a row; rows rise.
    pub fn push(&mut self, row: i64, text: &str) {
        let known = self.texts.iter().position(|known| known == text);
        let number = known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        self.integers.push(row, number as i64);
    }

    /// The bytes; `None` without any text.
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.texts.is_empty()).then(|| self.integers.sealed(&self.texts))
    }
}

/// Numbers of rows that have a value, rising, and the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The rows.
    pub rows: Vec<i64>,
    /// As many values.
    pub values: Vec<i64>,
    /// The texts that the values number; none in a series of integers.
    pub texts: Vec<String>,
}

/// The series of these bytes. `None` where they are not the bytes that were written.
#[must_use]
pub fn unpack(bytes: &[u8]) -> Option<Series> {
    let (head, mut rest) = bytes.split_at_checked(HEAD)?;
    if head[0] != VERSION || head[1..] != crc32c::crc32c(rest).to_be_bytes() {
        return None;
    }
    let (rows, values) = (read(&mut rest)?, read(&mut rest)?);
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let length = take_u32(&mut rest)? as usize;
        texts.push(String::from_utf8(take(&mut rest, length)?.to_vec()).ok()?);
    }
    let is_whole = rows.len() == values.len() && rows.windows(2).all(|pair| pair[0] < pair[1]);
    let are_texts = texts.is_empty() || values.iter().all(|value| (0..texts.len() as i64).contains(value));
    (is_whole && are_texts).then_some(Series { rows, values, texts })
}

/// A series in Prometheus' encoding, with each chunk whether it has a gap to be filled: `times` are those of rows, in
/// milliseconds since 1970. Of one millisecond the last holds. `None` where a row has no time.
#[must_use]
pub fn series_chunks(times: &[i64], series: &Series, is_counter: bool) -> Option<Vec<(Chunk, bool)>> {
    let mut points: Vec<(i64, f64)> = Vec::with_capacity(series.values.len());
    for (row, value) in series.rows.iter().zip(&series.values) {
        let time = *times.get(usize::try_from(*row).ok()?)?;
        let point = (time, *value as f64);
        match points.last_mut() {
            Some(last) if last.0 == time => *last = point,
            _ => points.push(point),
        }
    }
    let has_gap = |points: &[(i64, f64)]| points.windows(2).any(|pair| is_gap(pair[0], pair[1]));
    let gaps = points.chunks(SAMPLES).map(|points| is_counter && has_gap(points)).collect::<Vec<_>>();
    Some(chunks(&points).zip(gaps).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(points: &[(i64, i64)]) -> Vec<u8> {
        let mut series = Integers::default();
        points.iter().for_each(|(row, value)| series.push(*row, *value));
        series.finish().unwrap().0
    }

    #[test]
    fn texts_come_back_and_nothing_makes_no_series() {
        let mut texts = Texts::default();
        [(0, "mad"), (1, "mad"), (4, "öther"), (5, "")].iter().for_each(|(row, text)| texts.push(*row, text));
        let series = unpack(&texts.finish().unwrap()).unwrap();
        assert_eq!(series.rows, [0, 1, 4, 5]);
        assert_eq!(series.values, [0, 0, 1, 2]);
        assert_eq!(series.texts, ["mad", "öther", ""]);
        assert!(Texts::default().finish().is_none() && Integers::default().finish().is_none());
    }

    #[test]
    fn every_damage_is_found() {
        let whole = packed(&(0..730).map(|row| (row, row * row)).collect::<Vec<_>>());
        for length in 0..whole.len() {
            assert_eq!(unpack(&whole[..length]), None, "{length} bytes");
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0x10;
            assert_eq!(unpack(&other), None, "byte {place}");
        }
    }

    #[test]
    fn chunks_report_their_gaps_and_the_last_of_a_millisecond_holds() {
        let mut times: Vec<i64> = (0..730).map(|row| row * 1_000).collect();
        times.extend([729_000, 789_000, 790_000]);
        let mut points: Vec<(i64, i64)> = (0..730).map(|row| (row, row)).collect();
        points.extend([(730, 900), (731, 900), (732, 901)]);
        let series = unpack(&packed(&points)).unwrap();
        let gaps = |is_counter| {
            let chunks = series_chunks(&times, &series, is_counter).unwrap();
            chunks.iter().map(|(chunk, is_gappy)| (chunk.count(), *is_gappy)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(true), [(720, false), (12, true)]);
        assert_eq!(gaps(false), [(720, false), (12, false)]);
        let mut last = Vec::new();
        series_chunks(&times, &series, true).unwrap()[1].0.unpack(&mut last).unwrap();
        assert_eq!(last[9], (729_000, 900.0));
        assert_eq!(series_chunks(&times[..700], &series, true), None, "a row without a time");
    }

    proptest! {
        #[test]
        fn any_series_comes_back(steps in prop::collection::vec((1i64..100, any::<i64>()), 1..500)) {
            let points: Vec<(i64, i64)> = steps.into_iter()
                .scan(-1, |row, (skip, value)| { *row += skip; Some((*row, value)) }).collect();
            let series = unpack(&packed(&points)).unwrap();
            let back: Vec<(i64, i64)> = series.rows.into_iter().zip(series.values).collect();
            prop_assert_eq!(back, points);
        }

        #[test]
        fn lengths_that_lie_are_refused_even_with_a_right_sum(rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = vec![VERSION];
            bytes.extend(crc32c::crc32c(&rest).to_be_bytes());
            bytes.extend(rest);
            if let Some(series) = unpack(&bytes) {
                _ = series_chunks(&[0; 10], &series, true);
            }
        }
    }
}
