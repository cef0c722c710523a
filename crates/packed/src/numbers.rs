//! Some numbers of different sizes, each in the bits that it needs: how many (5 bits), the width of each (6), and then they themselves. Zeros
//! at the end are left out.

use crate::{Bits, Reader};

/// Most numbers.
pub const NUMBERS_MAX: usize = 31;

const COUNT_BITS: u32 = 5;
const WIDTH_BITS: u32 = 6;

/// The bits of some numbers, 31 at most; what is more is left out, and of a number what is above 2^63.
#[must_use]
pub fn pack(numbers: &[u64]) -> Bits {
    let numbers = &numbers[..numbers.len().min(NUMBERS_MAX)];
    let count = numbers.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
    let stored = || numbers[..count].iter().map(|number| number & (u64::MAX >> 1));
    let width = |number: u64| u64::BITS - number.leading_zeros();
    let mut bits = Bits::default();
    bits.write(count as u64, COUNT_BITS);
    stored().for_each(|number| bits.write(width(number).into(), WIDTH_BITS));
    stored().for_each(|number| bits.write(number, width(number)));
    bits
}

/// The numbers of these bits; `None` where they are not those of [`pack`].
#[must_use]
pub fn unpack(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut reader = Reader::new(bytes);
    let count = reader.read(COUNT_BITS)?;
    let widths: Option<Vec<u64>> = (0..count).map(|_| reader.read(WIDTH_BITS)).collect();
    widths?.into_iter().map(|width| reader.read(u32::try_from(width).ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_bits_and_no_zeros_at_the_end() {
        let bits = pack(&[5, 0, 1, 0, 0]);
        assert_eq!(bits.count(), 5 + 3 * 6 + 3 + 1);
        assert_eq!(unpack(&bits.finish()).unwrap(), [5, 0, 1]);
        assert_eq!(pack(&[0, 0]).count(), 5);
        assert_eq!((unpack(&[0]).unwrap(), unpack(&[])), (Vec::new(), None));
        assert_eq!(unpack(&[0b0000_1111, 0b1110_0000]), None, "a number that is not there");
    }

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(0..=i64::MAX.unsigned_abs(), 0..NUMBERS_MAX)) {
            let mut back = unpack(&pack(&numbers).finish()).unwrap();
            back.resize(numbers.len(), 0);
            prop_assert_eq!(back, numbers);
        }

        #[test]
        fn damaged_bytes_end(data in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(unpack(&data).is_none_or(|numbers| numbers.len() <= NUMBERS_MAX));
        }
    }
}
