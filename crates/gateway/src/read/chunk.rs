//! Chunks as Prometheus packs them (`tsdb/chunkenc/xor.go`, after the paper on Gorilla): differences of differences of
//! times, and values as what differs from the one before. Pure.

use super::message::Chunk;

/// `Chunk.Encoding.XOR` of `prompb/types.proto`.
const XOR: i32 = 1;

/// Samples of a chunk, as in Prometheus' own storage.
const SAMPLES: usize = 120;

/// The samples in chunks.
pub fn chunks(points: &[(i64, f64)]) -> impl Iterator<Item = Chunk> {
    points.chunks(SAMPLES).map(|points| Chunk {
        min_time_ms: points.first().map_or(0, |point| point.0),
        max_time_ms: points.last().map_or(0, |point| point.0),
        encoding: XOR,
        data: pack(points),
    })
}

/// Bits, the highest of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Bits of the last byte that are free.
    free: u32,
}

impl Bits {
    /// The low `count` bits of `value`.
    fn write(&mut self, value: u64, mut count: u32) {
        while count > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let now = count.min(self.free);
            let part = (value >> (count - now)) & (u64::MAX >> (64 - now));
            if let Some(last) = self.bytes.last_mut() {
                // At most 8 bits.
                *last |= (part as u8) << (self.free - now);
            }
            self.free -= now;
            count -= now;
        }
    }

    /// A number in groups of 7 bits, the lowest first.
    fn write_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.write(value & 0x7f | 0x80, 8);
            value >>= 7;
        }
        self.write(value, 8);
    }
}

/// What the next value is held against.
struct Window {
    value: u64,
    /// Zeros before and behind what differed; `None` before anything did.
    zeros: Option<(u32, u32)>,
}

fn pack(points: &[(i64, f64)]) -> Vec<u8> {
    let mut bits = Bits::default();
    // At most SAMPLES.
    bits.write(points.len() as u64, 16);
    let mut window = Window { value: 0, zeros: None };
    let (mut time, mut delta) = (0i64, 0i64);
    for (place, (now, value)) in points.iter().enumerate() {
        let step = now.wrapping_sub(time);
        match place {
            0 => {
                bits.write_varint(((now << 1) ^ (now >> 63)) as u64);
                bits.write(value.to_bits(), 64);
                window.value = value.to_bits();
            }
            1 => bits.write_varint(step as u64),
            _ => write_difference(&mut bits, step.wrapping_sub(delta)),
        }
        if place > 0 {
            write_value(&mut bits, &mut window, value.to_bits());
            delta = step;
        }
        time = *now;
    }
    bits.bytes
}

/// The difference of two steps in time: few bits where a series is regular.
fn write_difference(bits: &mut Bits, difference: i64) {
    let fits = |width: u32| (-((1 << (width - 1)) - 1)..=1 << (width - 1)).contains(&difference);
    let value = difference as u64;
    match difference {
        0 => bits.write(0, 1),
        _ if fits(14) => {
            bits.write(0b10, 2);
            bits.write(value, 14);
        }
        _ if fits(17) => {
            bits.write(0b110, 3);
            bits.write(value, 17);
        }
        _ if fits(20) => {
            bits.write(0b1110, 4);
            bits.write(value, 20);
        }
        _ => {
            bits.write(0b1111, 4);
            bits.write(value, 64);
        }
    }
}

fn write_value(bits: &mut Bits, window: &mut Window, value: u64) {
    let differs = value ^ window.value;
    window.value = value;
    if differs == 0 {
        return bits.write(0, 1);
    }
    bits.write(1, 1);
    // 5 bits have room for 31.
    let (leading, trailing) = (differs.leading_zeros().min(31), differs.trailing_zeros());
    if let Some((before, behind)) = window.zeros
        && leading >= before
        && trailing >= behind
    {
        bits.write(0, 1);
        return bits.write(differs >> behind, 64 - before - behind);
    }
    window.zeros = Some((leading, trailing));
    let length = 64 - leading - trailing;
    bits.write(1, 1);
    bits.write(u64::from(leading), 5);
    // 64 is written as 0: no length is 0.
    bits.write(u64::from(length & 63), 6);
    bits.write(differs >> trailing, length);
}

#[cfg(test)]
pub mod unpack {
    //! The other direction, written from the same description, for tests.

    struct Reader<'a> {
        bytes: &'a [u8],
        at: usize,
    }

    impl Reader<'_> {
        fn read(&mut self, count: usize) -> u64 {
            (0..count).fold(0, |value, _| {
                let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1;
                self.at += 1;
                value << 1 | u64::from(bit)
            })
        }

        fn varint(&mut self) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = self.read(8);
                value |= (byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return value;
                }
            }
        }

        fn difference(&mut self) -> i64 {
            let width = [14, 17, 20, 64];
            let ones = (0..4).take_while(|_| self.read(1) == 1).count();
            if ones == 0 {
                return 0;
            }
            let width = width[ones - 1];
            let value = self.read(width);
            if width < 64 && value > 1 << (width - 1) { value as i64 - (1 << width) } else { value as i64 }
        }
    }

    /// The samples of a chunk.
    pub fn unpack(bytes: &[u8]) -> Vec<(i64, f64)> {
        let mut reader = Reader { bytes, at: 0 };
        let count = reader.read(16);
        let (mut points, mut zeros, mut delta) = (Vec::new(), (0, 0), 0);
        for place in 0..count {
            if place == 0 {
                let zigzag = reader.varint();
                let time = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                points.push((time, f64::from_bits(reader.read(64))));
                continue;
            }
            delta = if place == 1 { reader.varint() as i64 } else { delta + reader.difference() };
            let (time, before): (i64, f64) = points[points.len() - 1];
            let mut value = before.to_bits();
            if reader.read(1) == 1 {
                if reader.read(1) == 1 {
                    let leading = reader.read(5) as usize;
                    let length = match reader.read(6) as usize {
                        0 => 64,
                        length => length,
                    };
                    zeros = (leading, 64 - leading - length);
                }
                value ^= reader.read(64 - zeros.0 - zeros.1) << zeros.1;
            }
            points.push((time + delta, f64::from_bits(value)));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_come_back() {
        let points: Vec<(i64, f64)> =
            (0..250).map(|i| (1_700_000_000_000 + i * 5_000, (i * i) as f64)).collect();
        let packed: Vec<Chunk> = chunks(&points).collect();
        assert_eq!(packed.len(), 3);
        assert_eq!((packed[1].min_time_ms, packed[1].max_time_ms), (points[120].0, points[239].0));
        let back: Vec<(i64, f64)> = packed.iter().flat_map(|chunk| unpack::unpack(&chunk.data)).collect();
        assert_eq!(back, points);
        // A regular counter takes few bits.
        assert!(packed.iter().map(|chunk| chunk.data.len()).sum::<usize>() < points.len() * 8);
    }

    proptest! {
        #[test]
        fn any_samples_come_back(
            start in any::<i32>(),
            steps in prop::collection::vec((1i64..40_000_000_000, any::<u64>()), 0..130),
        ) {
            let mut time = i64::from(start);
            let points: Vec<(i64, f64)> = steps.into_iter().map(|(step, bits)| {
                time += step;
                (time, f64::from_bits(bits))
            }).collect();
            let back: Vec<(i64, u64)> =
                chunks(&points).flat_map(|chunk| unpack::unpack(&chunk.data)).map(|(t, v)| (t, v.to_bits())).collect();
            let expected: Vec<(i64, u64)> = points.iter().map(|(t, v)| (*t, v.to_bits())).collect();
            prop_assert_eq!(back, expected);
        }
    }
}
