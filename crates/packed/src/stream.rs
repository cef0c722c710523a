//! Integers as bit-packed differences. Most of what a counter adds in a second is noise, and no form can leave that
//! out. Differences are in runs of one width, so that an idle time between bursts costs next to nothing.
//! Both ways. Pure.
//!
//! A stream, numbers in network byte order: the number of integers (4 bytes); if there are any, a byte (its lowest bit:
//! differences may be negative; the others: zeros at the end of each difference that are left out, as of counters in words
//! of 4 bytes), the first integer (8), what is subtracted of each difference (8), the number of runs (4 bytes); for each run
//! its width in bits (7 bits) and its length less one (9 bits); then the differences, filled up to a byte. A difference that
//! may be negative is written as twice its size, one less if it is negative. Without runs nothing is left of any difference.
//! All arithmetic is modulo 2^64.

use crate::{Bits, Reader};

/// Differences of a run at most: what 9 bits count.
const RUN_MAX: u32 = 512;

/// Bits of a run's head.
const HEAD_BITS: u32 = 16;

/// Integers of a stream at most: readings of a thing in an hour, ten a millisecond. A damaged length allocates no more.
const INTEGERS_MAX: usize = 1 << 25;

/// Of so many at most a stream may be without runs: readings each millisecond, and as much memory as a few bytes may ask for.
const EVEN_MAX: usize = 1 << 22;

/// Differences less a base, as they are written: without `zeros` at their ends.
fn written(values: &[i64], base: i64, is_signed: bool, zeros: u32) -> impl Iterator<Item = u64> {
    steps(values).map(move |step| {
        let rest = step.wrapping_sub(base);
        if is_signed {
            let rest = rest >> zeros;
            ((rest << 1) ^ (rest >> 63)).cast_unsigned()
        } else {
            rest.cast_unsigned() >> zeros
        }
    })
}

fn steps(values: &[i64]) -> impl Iterator<Item = i64> {
    values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]))
}

/// Zeros at the end of each difference.
fn zeros(values: &[i64]) -> u32 {
    steps(values).fold(0, |all, step| all | step).trailing_zeros() % i64::BITS
}

/// Runs of one width each: neighbours are one run where that takes no more bits than a head of its own.
fn runs(differences: impl Iterator<Item = u64>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for difference in differences {
        runs.push((u64::BITS - difference.leading_zeros(), 1));
        while let [.., (width, length), (next_width, next)] = runs[..] {
            let (both, all) = (width.max(next_width), length + next);
            if all > RUN_MAX || both * all > HEAD_BITS + width * length + next_width * next {
                break;
            }
            runs.truncate(runs.len() - 2);
            runs.push((both, all));
        }
    }
    runs
}

fn bits(runs: &[(u32, u32)]) -> u64 {
    runs.iter().map(|(width, length)| u64::from(HEAD_BITS + width * length)).sum()
}

/// Adds a stream of these integers.
pub(crate) fn write(values: &[i64], bytes: &mut Vec<u8>) {
    // No caller has more readings of a thing in an hour.
    bytes.extend((values.len() as u32).to_be_bytes());
    let Some(first) = values.first() else { return };
    let is_signed = steps(values).any(|step| step < 0);
    let (mut base, mut signed, zeros) = (0, is_signed, zeros(values));
    let mut chosen = runs(written(values, 0, is_signed, zeros));
    // Steps of a clock, and what grows evenly: most of a step is the usual one.
    if let Some(usual) = usual(values) {
        let others = runs(written(values, usual, true, zeros));
        if bits(&others) < bits(&chosen) {
            (base, signed, chosen) = (usual, true, others);
        }
    }
    if values.len() <= EVEN_MAX && chosen.iter().all(|(width, _)| *width == 0) {
        chosen.clear();
    }
    // At most 63 zeros.
    bytes.push(u8::from(signed) | (zeros as u8) << 1);
    bytes.extend(first.to_be_bytes());
    bytes.extend(base.to_be_bytes());
    bytes.extend((chosen.len() as u32).to_be_bytes());
    for (width, length) in &chosen {
        bytes.extend(((width << 9 | (length - 1)) as u16).to_be_bytes());
    }
    let mut packed = Bits::default();
    let mut differences = written(values, base, signed, zeros);
    for (width, length) in chosen {
        differences.by_ref().take(length as usize).for_each(|difference| packed.write(difference, width));
    }
    bytes.extend(packed.finish());
}

/// The middle one of the differences; `None` where it is 0 anyway.
fn usual(values: &[i64]) -> Option<i64> {
    let mut steps: Vec<i64> = steps(values).collect();
    if steps.is_empty() {
        return None;
    }
    let middle = steps.len() / 2;
    let (_, usual, _) = steps.select_nth_unstable(middle);
    (*usual != 0).then_some(*usual)
}

/// Takes `count` bytes.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(bytes, 4)?.try_into().ok()?))
}

fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(take(bytes, 8)?.try_into().ok()?))
}

/// Takes a stream; `None` for bytes that are none.
pub(crate) fn read(bytes: &mut &[u8]) -> Option<Vec<i64>> {
    let count = take_u32(bytes)? as usize;
    if count == 0 {
        return Some(Vec::new());
    }
    let form = take(bytes, 1)?[0];
    let (is_signed, zeros) = (form & 1 == 1, u32::from(form >> 1));
    if zeros >= i64::BITS {
        return None;
    }
    let (first, base) = (take_i64(bytes)?, take_i64(bytes)?);
    let heads = take_u32(bytes)? as usize;
    let of_runs = take(bytes, heads.checked_mul(2)?)?.as_chunks::<2>().0;
    let of_runs = of_runs.iter().map(|head| u16::from_be_bytes(*head));
    let runs = of_runs.map(|head| (u32::from(head >> 9), u32::from(head & 0x1ff) + 1));
    let lengths: usize = runs.clone().map(|(_, length)| length as usize).sum();
    let is_even = heads == 0 && count <= EVEN_MAX;
    if (lengths + 1 != count && !is_even) || count > INTEGERS_MAX || runs.clone().any(|(width, _)| width > 64)
    {
        return None;
    }
    let all: usize = runs.clone().map(|(width, length)| (width * length) as usize).sum();
    let mut reader = Reader::new(take(bytes, all.div_ceil(8))?);
    let mut values = Vec::with_capacity(count);
    let mut value = first;
    values.push(value);
    for (width, length) in runs {
        for _ in 0..length {
            let written = reader.read(width)?;
            let rest = if is_signed {
                (written >> 1).cast_signed() ^ -(written & 1).cast_signed()
            } else {
                written.cast_signed()
            };
            value = value.wrapping_add(base).wrapping_add(rest << zeros);
            values.push(value);
        }
    }
    while is_even && values.len() < count {
        value = value.wrapping_add(base);
        values.push(value);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(values: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(values, &mut bytes);
        bytes
    }

    fn assert_comes_back(values: &[i64]) {
        let bytes = packed(values);
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest).as_deref(), Some(values));
        assert!(rest.is_empty());
    }

    #[test]
    fn edges_come_back() {
        let ends = [i64::MIN, i64::MAX, 0, -1, 1, i64::MAX, i64::MIN, i64::MIN];
        for values in [&[][..], &[7], &[i64::MIN], &[5; 600], &ends, &[0, i64::MAX], &[i64::MAX, 0]] {
            assert_comes_back(values);
        }
    }

    #[test]
    fn what_stands_still_or_grows_evenly_takes_no_more_than_one_value() {
        let hour = |step: i64| packed(&(0..3600).map(|n| (1 << 50) + n * step).collect::<Vec<_>>());
        assert_eq!((hour(0).len(), hour(1_000_000).len()), (25, 25));
        for step in [0, 7, -1_000_000, i64::MIN] {
            assert_comes_back(&(0..700).map(|n: i64| n.wrapping_mul(step)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zeros_at_the_ends_of_differences_take_nothing() {
        let counter = |unit: i64| {
            let values: Vec<i64> = (0..3600).map(|n: i64| (n * 1000 + n * 7919 % 997) * unit).collect();
            assert_comes_back(&values);
            packed(&values).len()
        };
        assert_eq!(counter(1), counter(4));
        // Falls, too.
        assert_comes_back(&[1 << 40, 8, 1 << 62, -(1 << 62), 0, 16]);
    }

    #[test]
    fn a_stream_is_as_documented() {
        // Five that stand still, with their run; and differences of 4 and 8 in 4 bits.
        let still = [0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3];
        assert_eq!(read(&mut still.as_slice()), Some(vec![9; 5]));
        let grows =
            [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 1, 0b0100_1000];
        assert_eq!(read(&mut grows.as_slice()), Some(vec![9, 13, 21]));
    }

    #[test]
    fn an_idle_time_takes_little_beside_a_burst() {
        let steps = (0..3600).map(|n| if n % 100 < 10 { 0x2_0000_0000 + n } else { n % 4 });
        let values: Vec<i64> = steps
            .scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            })
            .collect();
        let bytes = packed(&values);
        // 360 differences of 34 bits, 3,240 of 2.
        assert!(bytes.len() < 360 * 34 / 8 + 3240 * 2 / 8 + 36 * 5 + 40, "{}", bytes.len());
        assert_comes_back(&values);
    }

    proptest! {
        #[test]
        fn any_integers_come_back(values in prop::collection::vec(any::<i64>(), 0..1_200)) {
            assert_comes_back(&values);
        }

        #[test]
        fn counters_with_bursts_come_back(
            start in any::<i64>(),
            steps in prop::collection::vec((0u32..64, any::<u64>(), 1usize..30), 1..60),
        ) {
            let steps = steps.into_iter().flat_map(|(shift, step, times)| {
                std::iter::repeat_n((step >> shift).cast_signed(), times)
            });
            let values: Vec<i64> = steps.scan(start, |sum, step| { *sum = sum.wrapping_add(step); Some(*sum) }).collect();
            assert_comes_back(&values);
        }

        #[test]
        fn bytes_that_are_no_stream_end_in_none(mut bytes in prop::collection::vec(any::<u8>(), 0..80), small in any::<bool>()) {
            if small && bytes.len() > 25 {
                bytes[..3].fill(0);
                bytes[4] &= 1;
                bytes[21..24].fill(0);
            }
            if let Some(values) = read(&mut bytes.as_slice()) {
                prop_assert!(values.len() <= INTEGERS_MAX);
            }
        }
    }
}
