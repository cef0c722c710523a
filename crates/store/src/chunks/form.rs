//! The bytes of a block's column `samples`: a version, CRC-32C of the rest, then chunk by chunk whether it has a gap to be
//! filled, times of the first and the last sample since the block's beginning, a length, and the chunk. Numbers in
//! network byte order. Pure.
//!
//! Samples are as they were read: what fills the gaps of counters that stand still is made when they are read back, and
//! only where there is a gap, so that neither the border of a block nor the range of a query changes an answer.

use super::xor::{Chunk, Packer, SAMPLES};
use bytes::{Buf, Bytes};

/// Rows of counters that did not change are left out, but for one a minute and the last before a change. A gap up to
/// so long is such a one; in a longer one the thing was not read. Milliseconds.
pub const UNCHANGED_MAX: i64 = 75_000;

/// What a gap is filled up with, so that `rate(…[1m])` has what it has over a scraped series: the interval of scrapes
/// in deploy/prometheus. Milliseconds.
pub const FILL_EVERY: i64 = 15_000;

/// The first byte. What has another is not known here.
const VERSION: u8 = 1;

/// Bytes before the first chunk.
const HEAD: usize = 5;

/// Whether a counter did not change between two readings, far enough apart to be filled.
pub fn is_gap(before: (i64, f64), now: (i64, f64)) -> bool {
    before.1 == now.1 && is_long(now.0 - before.0)
}

/// Whether a time without readings is filled where the counter stood still.
pub fn is_long(length: i64) -> bool {
    length > FILL_EVERY && length <= UNCHANGED_MAX
}

/// One series of one block under construction. Samples come by time; of one millisecond the last holds.
pub(super) struct Writer {
    begin: i64,
    is_counter: bool,
    bytes: Vec<u8>,
    packer: Packer,
    /// First time of the open chunk.
    first: i64,
    /// Whether the open chunk has a gap.
    is_gappy: bool,
    /// The sample that is not encoded yet, and the one before it.
    open: Option<(i64, f64)>,
    before: Option<(i64, f64)>,
    samples: u64,
}

impl Writer {
    /// A block that begins at this time, in milliseconds.
    pub fn new(begin: i64, is_counter: bool) -> Writer {
        Writer {
            begin,
            is_counter,
            bytes: vec![0; HEAD],
            packer: Packer::default(),
            first: 0,
            is_gappy: false,
            open: None,
            before: None,
            samples: 0,
        }
    }

    pub fn push(&mut self, time: i64, value: f64) {
        if self.open.is_some_and(|open| open.0 != time) {
            self.pack();
        }
        self.open = Some((time, value));
    }

    fn pack(&mut self) {
        let Some((time, value)) = self.open.take() else { return };
        if self.packer.count() == SAMPLES {
            self.close();
        }
        if self.packer.count() == 0 {
            self.first = time;
        } else if self.is_counter {
            self.is_gappy |= self.before.is_some_and(|before| is_gap(before, (time, value)));
        }
        self.packer.push(time, value);
        self.before = Some((time, value));
        self.samples += 1;
    }

    fn close(&mut self) {
        let Some((last, _)) = self.before else { return };
        let data = std::mem::take(&mut self.packer).finish();
        // Within an hour, and 720 samples of at most 18 bytes.
        let since = |time: i64| ((time - self.begin) as u32).to_be_bytes();
        self.bytes.push(u8::from(std::mem::take(&mut self.is_gappy)));
        self.bytes.extend_from_slice(&since(self.first));
        self.bytes.extend_from_slice(&since(last));
        self.bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(&data);
    }

    /// The bytes and the number of samples; `None` without any.
    pub fn finish(mut self) -> Option<(Vec<u8>, u64)> {
        self.pack();
        if self.samples == 0 {
            return None;
        }
        self.close();
        let sum = crc32c::crc32c(&self.bytes[HEAD..]);
        self.bytes[0] = VERSION;
        self.bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
        Some((self.bytes, self.samples))
    }
}

/// The chunks of a block that begins at this time, and whether each has a gap to be filled. `None` where these are not
/// the bytes that were written.
pub fn chunks(begin: i64, mut bytes: Bytes) -> Option<Vec<(Chunk, bool)>> {
    if bytes.try_get_u8().ok()? != VERSION || bytes.try_get_u32().ok()? != crc32c::crc32c(&bytes) {
        return None;
    }
    let mut all = Vec::new();
    while bytes.has_remaining() {
        let is_gappy = bytes.try_get_u8().ok()? != 0;
        let first = begin + i64::from(bytes.try_get_u32().ok()?);
        let last = begin + i64::from(bytes.try_get_u32().ok()?);
        let length = usize::from(bytes.try_get_u16().ok()?);
        let data = (bytes.len() >= length).then(|| bytes.split_to(length))?;
        all.push((Chunk { first, last, data }, is_gappy));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEGIN: i64 = 1_700_000_000_000;

    fn written(points: &[(i64, f64)], is_counter: bool) -> Bytes {
        let mut writer = Writer::new(BEGIN, is_counter);
        points.iter().for_each(|(time, value)| writer.push(BEGIN + time, *value));
        let (bytes, samples) = writer.finish().unwrap();
        let all: u64 =
            chunks(BEGIN, bytes.clone().into()).unwrap().iter().map(|(chunk, _)| chunk.count()).sum();
        assert_eq!(all, samples);
        bytes.into()
    }

    #[test]
    fn chunks_tell_their_gaps_and_the_last_of_a_millisecond_holds() {
        let mut points: Vec<(i64, f64)> = (0..730).map(|i| (i * 1_000, i as f64)).collect();
        points.push((729_000, 900.0));
        points.extend([(789_000, 900.0), (790_000, 901.0)]);
        let gaps = |is_counter| {
            let chunks = chunks(BEGIN, written(&points, is_counter)).unwrap();
            chunks.iter().map(|(chunk, is_gappy)| (chunk.count(), *is_gappy)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(true), [(720, false), (12, true)]);
        assert_eq!(gaps(false), [(720, false), (12, false)]);
        let mut last = Vec::new();
        chunks(BEGIN, written(&points, true)).unwrap()[1].0.unpack(&mut last).unwrap();
        assert_eq!(last[9], (BEGIN + 729_000, 900.0));
        assert!(Writer::new(BEGIN, true).finish().is_none());
    }

    #[test]
    fn every_damage_is_found() {
        let points: Vec<(i64, f64)> = (0..730).map(|i| (i * 1_000, i as f64)).collect();
        let whole = written(&points, true);
        for length in 0..whole.len() {
            assert_eq!(chunks(BEGIN, whole.slice(..length)), None, "{length} bytes");
        }
        for place in 0..whole.len() {
            let mut other = whole.to_vec();
            other[place] ^= 0x10;
            assert_eq!(chunks(BEGIN, other.into()), None, "byte {place}");
        }
    }

    proptest! {
        #[test]
        fn lengths_that_lie_are_refused_even_with_a_right_sum(rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = vec![VERSION];
            bytes.extend(crc32c::crc32c(&rest).to_be_bytes());
            bytes.extend(rest);
            for (chunk, _) in chunks(BEGIN, bytes.into()).unwrap_or_default() {
                _ = chunk.unpack(&mut Vec::new());
            }
        }
    }
}
