//! The bytes on disk: segment header and block header. Pure encoding and decoding.
//!
//! Everything read here is taken as possibly damaged.

/// First bytes of a segment file.
const MAGIC: [u8; 8] = *b"TLREC001";
/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;
/// Bytes before each block's payload.
pub(crate) const BLOCK_HEADER_BYTES: usize = 48;
/// Largest block, unpacked.
pub(crate) const RAW_BYTES_MAX: usize = crate::QUEUE_BYTES_MAX;
/// Largest payload: packing makes what can't be packed a little larger.
const PAYLOAD_BYTES_MAX: usize = RAW_BYTES_MAX + (RAW_BYTES_MAX >> 6) + 1024;

/// Name of a segment's file.
pub(crate) fn segment_name(index: u64) -> String {
    format!("{index:016x}.rec")
}

/// The index in a segment's name.
pub(crate) fn index_of(name: &str) -> Option<u64> {
    let hex = name.strip_suffix(".rec")?;
    if hex.len() == 16 { u64::from_str_radix(hex, 16).ok() } else { None }
}

/// A segment's header.
pub(crate) fn encode_segment(index: u64, made_ns: i64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut out = [0; SEGMENT_HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&index.to_le_bytes());
    out[16..24].copy_from_slice(&made_ns.to_le_bytes());
    let crc = crc32c::crc32c(&out[..28]);
    out[28..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Whether these are the header of the segment with this index.
pub(crate) fn is_segment(bytes: &[u8], index: u64) -> bool {
    bytes.len() >= SEGMENT_HEADER_BYTES
        && bytes[..8] == MAGIC
        && u64_at(bytes, 8) == Some(index)
        && u32_at(bytes, 28) == Some(crc32c::crc32c(&bytes[..28]))
}

/// What a block's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub payload_bytes: u32,
    pub raw_bytes: u32,
    pub records: u32,
    pub payload_crc: u32,
    /// Least and largest time of its records, and the time of writing: UTC nanoseconds.
    pub first_ns: i64,
    pub last_ns: i64,
    pub written_ns: i64,
}

/// Start value of checksums in a segment.
fn salt(index: u64) -> u32 {
    crc32c::crc32c(&index.to_le_bytes())
}

/// Checksum of a payload in a segment.
pub(crate) fn payload_crc(index: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(salt(index), payload)
}

impl BlockHeader {
    pub fn encode(&self, index: u64) -> [u8; BLOCK_HEADER_BYTES] {
        let mut out = [0; BLOCK_HEADER_BYTES];
        for (at, number) in
            [(0, self.payload_bytes), (4, self.raw_bytes), (8, self.records), (12, self.payload_crc)]
        {
            out[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (at, time) in [(16, self.first_ns), (24, self.last_ns), (32, self.written_ns)] {
            out[at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(salt(index), &out[..44]);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` where it is no block header of this segment.
    pub fn decode(bytes: &[u8], index: u64) -> Option<Self> {
        let bytes = bytes.get(..BLOCK_HEADER_BYTES)?;
        if u32_at(bytes, 44)? != crc32c::crc32c_append(salt(index), &bytes[..44]) {
            return None;
        }
        let time = |at| u64_at(bytes, at).map(u64::cast_signed);
        let header = Self {
            payload_bytes: u32_at(bytes, 0)?,
            raw_bytes: u32_at(bytes, 4)?,
            records: u32_at(bytes, 8)?,
            payload_crc: u32_at(bytes, 12)?,
            first_ns: time(16)?,
            last_ns: time(24)?,
            written_ns: time(32)?,
        };
        let fits = header.payload_bytes as usize <= PAYLOAD_BYTES_MAX
            && header.raw_bytes as usize <= RAW_BYTES_MAX
            && header.payload_bytes > 0;
        fits.then_some(header)
    }

    /// Header and payload together, in bytes.
    pub fn total_bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_back_and_any_flipped_bit_is_noticed() {
        let header = BlockHeader {
            payload_bytes: 100,
            raw_bytes: 900,
            records: 7,
            payload_crc: 5,
            first_ns: -1,
            last_ns: 3,
            written_ns: 4,
        };
        let bytes = header.encode(9);
        assert_eq!(BlockHeader::decode(&bytes, 9), Some(header));
        assert_eq!(BlockHeader::decode(&bytes, 8), None, "of another segment");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&bad, 9), None, "bit {bit}");
        }
        assert!(is_segment(&encode_segment(3, 1), 3) && !is_segment(&encode_segment(3, 1), 4));
        assert_eq!(BlockHeader::decode(&[0; BLOCK_HEADER_BYTES], 0), None);
        assert_eq!(index_of(&segment_name(77)), Some(77));
        assert_eq!(index_of("lock"), None);
    }
}
