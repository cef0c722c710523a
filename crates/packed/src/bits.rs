//! Bits one behind the other, the highest of a byte first.

/// Bits that are written.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    /// The last bits, fewer than 8, at the low end.
    held: u64,
    count: u32,
}

impl Bits {
    /// Adds the low `count` bits of `value`, 64 at most.
    pub fn write(&mut self, value: u64, count: u32) {
        if count > 56 {
            self.write(value >> 32, count - 32);
            return self.write(value, 32);
        }
        if count == 0 {
            return;
        }
        self.held = self.held << count | value & (u64::MAX >> (64 - count));
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            // The byte that is complete.
            self.bytes.push((self.held >> self.count) as u8);
        }
    }

    /// A number in groups of 7 bits, the lowest first.
    pub(crate) fn write_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.write(value & 0x7f | 0x80, 8);
            value >>= 7;
        }
        self.write(value, 8);
    }

    /// How many bits there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes.len() * 8 + self.count as usize
    }

    /// The bytes, the last one filled up with zeros.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.write(0, 8 - self.count);
        }
        self.bytes
    }
}

/// Bits that are read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Bits that are read.
    at: usize,
}

impl<'a> Reader<'a> {
    /// From the first bit of these bytes on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bits, 64 at most; `None` beyond the end.
    pub fn read(&mut self, count: u32) -> Option<u64> {
        if count > 56 {
            let high = self.read(count - 32)?;
            return Some(high << 32 | self.read(32)?);
        }
        if count == 0 {
            return Some(0);
        }
        let end = self.at + count as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let rest = &self.bytes[self.at / 8..];
        let word = match rest.first_chunk() {
            Some(word) => u64::from_be_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(word)
            }
        };
        let bits = word << (self.at % 8) >> (64 - count);
        self.at = end;
        Some(bits)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.read(8)?;
            value |= (byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
}
