//! A long series of numbers, bit-packed. Readings are numbered from 0 in the order of their times; times are a series of their own, so
//! that they are stored once for all.
//!
//! The first byte is the version, 1; then CRC-32C of the rest (4 bytes); then a byte that says which readings have a value; then streams
//! (`stream`): the numbers of those readings, where they are neither all ([`ALL_ROWS`]) nor those of another series ([`BESIDE`]), and
//! the values. Those of a series [`BESIDE`] another are what is to be added to the other one's: unicast packets are all packets but a
//! few. In a series of texts the values are numbers of texts, from 0, and behind the streams come the texts, each with its
//! length (4 bytes).

use crate::stream::{read, take, take_u32, write};

/// The first byte.
const VERSION: u8 = 1;

/// The byte about rows: their stream follows.
const SOME_ROWS: u8 = 0;

/// The byte about rows: each has a value.
const ALL_ROWS: u8 = 1;

/// The byte about rows: those of another series, to whose values these are added.
const BESIDE: u8 = 2;

/// Bytes before the streams.
const HEAD: usize = 5;

/// A series under construction.
#[derive(Clone, Debug, Default)]
pub struct Integers {
    rows: Vec<i64>,
    values: Vec<i64>,
}

impl Integers {
    /// The value of a row; rows rise.
    pub fn push(&mut self, row: i64, value: i64) {
        self.rows.push(row);
        self.values.push(value);
    }

    /// The bytes and the number of values; `None` without any. Beside another series where that is shorter.
    #[must_use]
    pub fn finish(&self, other: Option<&Integers>) -> Option<(Vec<u8>, u64)> {
        let values = self.values.len() as u64;
        let alone = (values > 0).then(|| self.sealed(None, &[]))?;
        let beside = other.filter(|other| other.rows == self.rows).map(|other| self.sealed(Some(other), &[]));
        Some((beside.filter(|beside| beside.len() < alone.len()).unwrap_or(alone), values))
    }

    fn sealed(&self, beside: Option<&Integers>, texts: &[String]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        if let Some(other) = beside {
            let pairs = self.values.iter().zip(&other.values);
            bytes.push(BESIDE);
            write(&pairs.map(|(own, other)| own.wrapping_sub(*other)).collect::<Vec<_>>(), &mut bytes);
        } else {
            // Rows rise.
            let are_all = self.rows.last() == Some(&(self.rows.len() as i64 - 1));
            bytes.push(if are_all { ALL_ROWS } else { SOME_ROWS });
            if !are_all {
                write(&self.rows, &mut bytes);
            }
            write(&self.values, &mut bytes);
        }
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
#[derive(Clone, Debug, Default)]
pub struct Texts {
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
    #[must_use]
    pub fn finish(&self) -> Option<Vec<u8>> {
        (!self.texts.is_empty()).then(|| self.integers.sealed(None, &self.texts))
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

/// The series of these bytes, with the other one that it is beside, where there is one. `None` where they are not the bytes
/// that were written.
#[must_use]
pub fn unpack(bytes: &[u8], other: Option<&Series>) -> Option<Series> {
    let (head, mut rest) = bytes.split_at_checked(HEAD)?;
    if head[0] != VERSION || head[1..] != crc32c::crc32c(rest).to_be_bytes() {
        return None;
    }
    let (rows, values) = match take(&mut rest, 1)?[0] {
        SOME_ROWS => (read(&mut rest)?, read(&mut rest)?),
        ALL_ROWS => {
            let values = read(&mut rest)?;
            ((0..values.len() as i64).collect(), values)
        }
        BESIDE => {
            let (other, mut values) = (other?, read(&mut rest)?);
            values.iter_mut().zip(&other.values).for_each(|(own, other)| *own = own.wrapping_add(*other));
            (other.rows.clone(), values)
        }
        _ => return None,
    };
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let length = take_u32(&mut rest)? as usize;
        texts.push(String::from_utf8(take(&mut rest, length)?.to_vec()).ok()?);
    }
    let is_whole = rows.len() == values.len() && rows.windows(2).all(|pair| pair[0] < pair[1]);
    let are_texts = texts.is_empty() || values.iter().all(|value| (0..texts.len() as i64).contains(value));
    (is_whole && are_texts).then_some(Series { rows, values, texts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(points: &[(i64, i64)]) -> Vec<u8> {
        let mut series = Integers::default();
        points.iter().for_each(|(row, value)| series.push(*row, *value));
        series.finish(None).unwrap().0
    }

    #[test]
    fn texts_come_back_and_nothing_makes_no_series() {
        let mut texts = Texts::default();
        [(0, "mad"), (1, "mad"), (4, "öther"), (5, "")].iter().for_each(|(row, text)| texts.push(*row, text));
        let series = unpack(&texts.finish().unwrap(), None).unwrap();
        assert_eq!(series.rows, [0, 1, 4, 5]);
        assert_eq!(series.values, [0, 0, 1, 2]);
        assert_eq!(series.texts, ["mad", "öther", ""]);
        assert!(Texts::default().finish().is_none() && Integers::default().finish(None).is_none());
    }

    #[test]
    fn every_damage_is_found() {
        let whole = packed(&(0..730).map(|row| (row, row * row)).collect::<Vec<_>>());
        for length in 0..whole.len() {
            assert_eq!(unpack(&whole[..length], None), None, "{length} bytes");
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0x10;
            assert_eq!(unpack(&other, None), None, "byte {place}");
        }
    }

    proptest! {
        #[test]
        fn any_series_comes_back(steps in prop::collection::vec((1i64..100, any::<i64>()), 1..500)) {
            let points: Vec<(i64, i64)> = steps.into_iter()
                .scan(-1, |row, (skip, value)| { *row += skip; Some((*row, value)) }).collect();
            let series = unpack(&packed(&points), None).unwrap();
            let back: Vec<(i64, i64)> = series.rows.into_iter().zip(series.values).collect();
            prop_assert_eq!(back, points);
        }

        #[test]
        fn lengths_that_lie_are_refused_even_with_a_right_sum(rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = vec![VERSION];
            bytes.extend(crc32c::crc32c(&rest).to_be_bytes());
            bytes.extend(&rest);
            let other = Series { rows: vec![0, 4], values: vec![i64::MAX, 1], texts: Vec::new() };
            _ = unpack(&bytes, Some(&other));
        }

        #[test]
        fn a_series_beside_another_comes_back_with_it_and_not_without(
            steps in prop::collection::vec((1i64..4, any::<i64>(), 0i64..9), 2..400),
        ) {
            let (mut all, mut unicast, mut row, mut few) = (Integers::default(), Integers::default(), -1, 0);
            for (skip, value, more) in steps {
                (row, few) = (row + skip, few + more);
                all.push(row, value);
                unicast.push(row, value.wrapping_sub(few));
            }
            let (alone, of_all) = (unicast.finish(None).unwrap(), all.finish(None).unwrap());
            let (bytes, count) = unicast.finish(Some(&all)).unwrap();
            prop_assert!(bytes.len() <= alone.0.len() && count == alone.1);
            let all = unpack(&of_all.0, None).unwrap();
            let back = unpack(&bytes, Some(&all)).unwrap();
            prop_assert_eq!((&back.rows, &back.values), (&unicast.rows, &unicast.values));
            prop_assert_eq!(Some(back), unpack(&alone.0, None));
            if bytes != alone.0 {
                prop_assert_eq!(unpack(&bytes, None), None);
            }
        }
    }
}
