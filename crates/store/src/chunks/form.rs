//! The bytes of a block's column `samples` until version 2 (`series`), read for as long as retention keeps them: a version,
//! CRC-32C of the rest, then chunk by chunk whether it has a gap to be filled, times of the first and the last sample since the
//! block's beginning, a length, and the chunk. Numbers in network byte order. And what is a gap of readings. Pure.
//!
//! Samples are as they were read: what fills the gaps of counters that stand still is made when they are read back, and
//! only where there is a gap, so that neither the border of a block nor the range of a query changes an answer.

use super::xor::Chunk;
use bytes::{Buf, Bytes};

/// Rows of counters that did not change are left out, but for one a minute and the last before a change. A gap up to
/// so long is such a one; in a longer one the thing was not read. Milliseconds.
pub const UNCHANGED_MAX: i64 = 75_000;

/// What a gap is filled up with, so that `rate(…[1m])` has what it has over a scraped series: the interval of scrapes
/// in deploy/prometheus. Milliseconds.
pub const FILL_EVERY: i64 = 15_000;

/// The first byte. What has another is not known here.
const VERSION: u8 = 1;

/// Whether a counter did not change between two readings, far enough apart to be filled.
pub fn is_gap(before: (i64, f64), now: (i64, f64)) -> bool {
    before.1 == now.1 && is_long(now.0 - before.0)
}

/// Whether a time without readings is filled where the counter stood still.
pub fn is_long(length: i64) -> bool {
    length > FILL_EVERY && length <= UNCHANGED_MAX
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

    /// Bytes before the first chunk.
    const HEAD: usize = 5;

    /// Blocks as version 1 wrote them.
    fn written(points: &[(i64, f64)]) -> Bytes {
        let mut bytes = vec![0; HEAD];
        for chunk in super::super::chunks(points) {
            let since = |time: i64| ((time - BEGIN) as u32).to_be_bytes();
            bytes.push(1);
            bytes.extend(since(chunk.first));
            bytes.extend(since(chunk.last));
            bytes.extend((chunk.data.len() as u16).to_be_bytes());
            bytes.extend(&chunk.data);
        }
        let sum = crc32c::crc32c(&bytes[HEAD..]);
        bytes[0] = VERSION;
        bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
        bytes.into()
    }

    fn hour() -> Vec<(i64, f64)> {
        (0..730).map(|i| (BEGIN + i * 1_000, i as f64)).collect()
    }

    #[test]
    fn blocks_of_version_1_come_back() {
        let mut back = Vec::new();
        for (chunk, is_gappy) in chunks(BEGIN, written(&hour())).unwrap() {
            assert!(is_gappy);
            chunk.unpack(&mut back).unwrap();
        }
        assert_eq!(back, hour());
    }

    #[test]
    fn every_damage_is_found() {
        let whole = written(&hour());
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
