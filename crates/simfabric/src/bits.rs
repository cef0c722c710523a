//! Writing and reading bit fields of MADs, counted as the specification's tables count: from the most
//! significant bit of byte 0. Nothing here knows what a field means.

/// Puts the low `bits` bits (at most 64) of `value` at a bit offset. What lies beyond the end is left out.
pub fn put(data: &mut [u8], bit: usize, bits: usize, value: u64) {
    if bit.is_multiple_of(8) && bits.is_multiple_of(8) {
        let bytes = value.to_be_bytes();
        let wanted = &bytes[8 - bits / 8..];
        if let Some(place) = data.get_mut(bit / 8..(bit + bits) / 8) {
            place.copy_from_slice(wanted);
        }
        return;
    }
    for index in 0..bits {
        let at = bit + index;
        let mask = 0x80 >> (at % 8);
        if let Some(byte) = data.get_mut(at / 8) {
            if value >> (bits - 1 - index) & 1 == 1 {
                *byte |= mask;
            } else {
                *byte &= !mask;
            }
        }
    }
}

/// Puts a value that sticks at the largest one that its field can hold.
pub fn put_sticky(data: &mut [u8], bit: usize, bits: usize, value: u64) {
    put(data, bit, bits, value.min(u64::MAX >> (64 - bits)));
}

/// `bits` bits (at most 64) at a bit offset; what lies beyond the end reads as 0.
pub fn get(data: &[u8], bit: usize, bits: usize) -> u64 {
    if bit.is_multiple_of(8) && bits.is_multiple_of(8) {
        let byte = |at: usize| u64::from(data.get(at).copied().unwrap_or(0));
        return (bit / 8..(bit + bits) / 8).fold(0, |value, at| value << 8 | byte(at));
    }
    (bit..bit + bits).fold(0, |value, at| {
        let byte = data.get(at / 8).copied().unwrap_or(0);
        value << 1 | u64::from(byte >> (7 - at % 8) & 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_tables_have_them() {
        let mut data = [0; 8];
        put(&mut data, 4, 4, 0x5);
        put(&mut data, 8, 16, 0xABCD);
        put(&mut data, 29, 3, 0b101);
        put_sticky(&mut data, 40, 8, 300);
        assert_eq!(data, [0x05, 0xAB, 0xCD, 0x05, 0, 0xFF, 0, 0]);
        assert_eq!(get(&data, 4, 12), 0x5AB);
        assert_eq!(get(&data, 60, 8), 0, "beyond the end");
        put(&mut data, 60, 8, 0xFF);
        assert_eq!(data[7], 0x0F);
    }
}
