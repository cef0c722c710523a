//! Chunks in Prometheus' encoding (`tsdb/chunkenc/xor.go`, after the paper on Gorilla): differences of differences of
//! times, and values as what differs from the one before. Both ways. Pure.

use bytes::Bytes;

use crate::{Bits, Reader};

/// Samples of a chunk: an hour at 5 s. In Prometheus' own storage it is 120, and a reader of either pays some microseconds
/// for each chunk, whatever it has (docs/BENCHMARKS.md); one that the query's range cuts is decoded, which costs more the
/// longer it is.
pub const SAMPLES: usize = 720;

/// Widths of a difference of steps that is not 0, by the number of ones before it.
const WIDTHS: [u32; 4] = [14, 17, 20, 64];

/// Samples of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Time of the first sample, milliseconds since 1970.
    pub first: i64,
    /// Time of the last one.
    pub last: i64,
    /// The samples: Prometheus' encoding XOR.
    pub data: Bytes,
}

impl Chunk {
    /// The number of samples in its header.
    pub fn count(&self) -> u64 {
        self.data.first_chunk().map_or(0, |count| u64::from(u16::from_be_bytes(*count)))
    }

    /// Adds its samples; `None` where it ends too early, and then some of them may have been added.
    #[must_use]
    pub fn unpack(&self, points: &mut Vec<(i64, f64)>) -> Option<()> {
        let mut reader = Reader::new(&self.data);
        let count = reader.read(16)?;
        points.reserve(usize::try_from(count).ok()?);
        if count == 0 {
            return Some(());
        }
        let zigzag = reader.varint()?;
        let mut time = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        let mut value = reader.read(64)?;
        points.push((time, f64::from_bits(value)));
        let (mut step, mut zeros) = (0i64, (0, 0));
        for place in 1..count {
            step = match place {
                1 => reader.varint()?.cast_signed(),
                _ => step.wrapping_add(difference(&mut reader)?),
            };
            time = time.wrapping_add(step);
            if reader.read(1)? == 1 {
                if reader.read(1)? == 1 {
                    let head = reader.read(11)?;
                    // 64 is written as 0: no length is 0.
                    let (leading, length) = ((head >> 6) as u32, ((head as u32).wrapping_sub(1) & 63) + 1);
                    zeros = (leading, (64 - leading).checked_sub(length)?);
                }
                value ^= reader.read(64 - zeros.0 - zeros.1)? << zeros.1;
            }
            points.push((time, f64::from_bits(value)));
        }
        Some(())
    }
}

/// The samples in chunks; times rise.
pub fn chunks(points: &[(i64, f64)]) -> impl Iterator<Item = Chunk> {
    points.chunks(SAMPLES).map(|points| {
        let mut packer = Packer::default();
        points.iter().for_each(|(time, value)| packer.push(*time, *value));
        let (first, last) = (points[0].0, points[points.len() - 1].0);
        Chunk { first, last, data: packer.finish().into() }
    })
}

/// A chunk under construction.
#[derive(Default)]
struct Packer {
    bits: Bits,
    count: u16,
    time: i64,
    step: i64,
    value: u64,
    /// Zeros before and behind what differed last; `None` before anything did.
    zeros: Option<(u32, u32)>,
}

impl Packer {
    /// The next sample. At most [`SAMPLES`] belong into a chunk.
    pub fn push(&mut self, time: i64, value: f64) {
        let (bits, step) = (value.to_bits(), time.wrapping_sub(self.time));
        match self.count {
            0 => {
                // The number of samples, known at the end.
                self.bits.write(0, 16);
                self.bits.write_varint(((time << 1) ^ (time >> 63)).cast_unsigned());
                self.bits.write(bits, 64);
            }
            1 => self.bits.write_varint(step.cast_unsigned()),
            _ => self.write_difference(step.wrapping_sub(self.step)),
        }
        if self.count > 0 {
            self.write_value(bits ^ self.value);
            self.step = step;
        }
        (self.time, self.value) = (time, bits);
        self.count += 1;
    }

    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.bits.finish();
        if let Some(count) = bytes.first_chunk_mut() {
            *count = self.count.to_be_bytes();
        }
        bytes
    }

    /// The difference of two steps in time: few bits where a series is regular.
    fn write_difference(&mut self, difference: i64) {
        let fits = |width: u32| (-((1 << (width - 1)) - 1)..=1 << (width - 1)).contains(&difference);
        if difference == 0 {
            return self.bits.write(0, 1);
        }
        let ones = WIDTHS.iter().position(|width| *width == 64 || fits(*width)).unwrap_or(3);
        // As many ones, and a zero behind them, except for the last.
        let (mark, length) = [(0b10, 2), (0b110, 3), (0b1110, 4), (0b1111, 4)][ones];
        self.bits.write(mark, length);
        self.bits.write(difference.cast_unsigned(), WIDTHS[ones]);
    }

    fn write_value(&mut self, differs: u64) {
        if differs == 0 {
            return self.bits.write(0, 1);
        }
        // 5 bits have room for 31.
        let (leading, trailing) = (differs.leading_zeros().min(31), differs.trailing_zeros());
        if let Some((before, behind)) = self.zeros
            && leading >= before
            && trailing >= behind
        {
            self.bits.write(0b10, 2);
            return self.bits.write(differs >> behind, 64 - before - behind);
        }
        self.zeros = Some((leading, trailing));
        let length = 64 - leading - trailing;
        self.bits.write(0b11, 2);
        self.bits.write(u64::from(leading), 5);
        // 64 is written as 0: no length is 0.
        self.bits.write(u64::from(length & 63), 6);
        self.bits.write(differs >> trailing, length);
    }
}

/// The difference of two steps in time.
fn difference(reader: &mut Reader<'_>) -> Option<i64> {
    let mut ones = 0;
    while ones < WIDTHS.len() && reader.read(1)? == 1 {
        ones += 1;
    }
    if ones == 0 {
        return Some(0);
    }
    let width = WIDTHS[ones - 1];
    let value = reader.read(width)?;
    let is_negative = width < 64 && value > 1 << (width - 1);
    Some(if is_negative { value.cast_signed() - (1 << width) } else { value.cast_signed() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back(chunks: impl Iterator<Item = Chunk>) -> Vec<(i64, u64)> {
        let mut points = Vec::new();
        chunks.for_each(|chunk| {
            let before = points.len();
            chunk.unpack(&mut points).unwrap();
            assert_eq!((points.len() - before) as u64, chunk.count());
            assert_eq!((chunk.first, chunk.last), (points[before].0, points[points.len() - 1].0));
        });
        points.into_iter().map(|(time, value)| (time, value.to_bits())).collect()
    }

    #[test]
    fn a_regular_counter_takes_few_bits() {
        let points: Vec<(i64, f64)> =
            (0..1_450).map(|i| (1_700_000_000_000 + i * 5_000, (i * i) as f64)).collect();
        let packed: Vec<Chunk> = chunks(&points).collect();
        assert_eq!(packed.len(), 3);
        assert_eq!((packed[1].first, packed[1].last), (points[720].0, points[1_439].0));
        assert!(packed.iter().map(|chunk| chunk.data.len()).sum::<usize>() < points.len() * 8);
    }

    proptest! {
        #[test]
        fn any_samples_come_back(
            start in any::<i32>(),
            steps in prop::collection::vec((1i64..40_000_000_000, any::<u64>()), 0..1_500),
        ) {
            let mut time = i64::from(start);
            let points: Vec<(i64, f64)> = steps.into_iter().map(|(step, bits)| {
                time += step;
                (time, f64::from_bits(bits))
            }).collect();
            let expected: Vec<(i64, u64)> = points.iter().map(|(t, v)| (*t, v.to_bits())).collect();
            prop_assert_eq!(back(chunks(&points)), expected);
        }

        #[test]
        fn counters_at_a_regular_pace_come_back(
            start in 0i64..4_000_000_000_000, pace in 1i64..100_000,
            grown in prop::collection::vec((0u64..1 << 40, -20i64..20), 1..400),
        ) {
            let (mut time, mut value) = (start, 0u64);
            let points: Vec<(i64, f64)> = grown.into_iter().map(|(more, jitter)| {
                (time, value) = (time + (pace + jitter).max(1), value + more);
                (time, value as f64)
            }).collect();
            let expected: Vec<(i64, u64)> = points.iter().map(|(t, v)| (*t, v.to_bits())).collect();
            prop_assert_eq!(back(chunks(&points)), expected);
        }

        #[test]
        fn damaged_bytes_end_and_nothing_is_read_beyond_them(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut points = Vec::new();
            let chunk = Chunk { first: 0, last: 0, data: data.into() };
            if chunk.unpack(&mut points).is_some() {
                prop_assert_eq!(points.len() as u64, chunk.count());
            }
        }
    }
}
