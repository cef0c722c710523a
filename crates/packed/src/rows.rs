//! Some rows of up to eight columns. Each number is at a place that is computed from the head, so that SQL takes one with `substring`
//! and reads nothing before it.
//!
//! The head has 128 bits: how many rows (24); the widths of the eight columns (7 each); where the bases of the first five end, counted from the
//! head (9 each); of the last three a bit each: some rows have no value. Then the bases, zigzag; then the columns, one behind the other: what
//! each number of the first five is more than its base, and each number of the last three; of those with the bit set first a bit for each row
//! that has a value, then only the values of these.
//!
//! A base is 0 where that takes fewer bits. Numbers that are too far apart for SQL's arithmetic have no base and 64 bits, two's complement.

use crate::{Bits, Reader};

/// Columns of a row. Those that a kind of row does not use take no bits.
pub const COLUMNS: usize = 8;

/// The first columns: each row has a number in them.
pub const FIXED: usize = 5;

const COUNT_BITS: u32 = 24;
const WIDTH_BITS: u32 = 7;
const END_BITS: u32 = 9;

/// Rows that have no bits of their own, at most: a damaged count allocates no more.
const EQUAL_MAX: usize = 65_536;

/// Numbers within these limits are less than 2^63 apart.
const LIMIT: i64 = 1 << 61;

/// A row: a number in each of the first columns, and in each of the others perhaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The first columns.
    pub fixed: [i64; FIXED],
    /// The others.
    pub optional: [Option<i64>; COLUMNS - FIXED],
}

/// A column: its base, and the numbers less it.
struct Column {
    base: u64,
    width: u32,
    numbers: Vec<u64>,
}

impl Column {
    fn new(numbers: &[i64], has_base: bool) -> Column {
        let least = numbers.iter().min().copied().unwrap_or(0);
        let most = numbers.iter().max().copied().unwrap_or(0);
        let width = |number: i64| u64::BITS - number.cast_unsigned().leading_zeros();
        let is_near = least > -LIMIT && most < LIMIT;
        let spared =
            numbers.len() as u64 * u64::from(width(most).saturating_sub(width(most.wrapping_sub(least))));
        let base = match has_base && is_near && (least < 0 || spared > u64::from(width(least) + 1)) {
            true => least,
            false => 0,
        };
        let numbers: Vec<u64> =
            numbers.iter().map(|number| number.wrapping_sub(base).cast_unsigned()).collect();
        let all = numbers.iter().fold(0, |all, number| all | number);
        Column {
            base: ((base << 1) ^ (base >> 63)).cast_unsigned(),
            width: u64::BITS - all.leading_zeros(),
            numbers,
        }
    }
}

/// The bits of some rows, fewer than 2^24.
#[must_use]
pub fn pack(rows: &[Row]) -> Bits {
    let fixed: [Column; FIXED] = std::array::from_fn(|at| {
        Column::new(&rows.iter().map(|row| row.fixed[at]).collect::<Vec<_>>(), true)
    });
    let optional: [Column; COLUMNS - FIXED] = std::array::from_fn(|at| {
        Column::new(&rows.iter().filter_map(|row| row.optional[at]).collect::<Vec<_>>(), false)
    });
    let mut bits = Bits::default();
    bits.write(rows.len() as u64, COUNT_BITS);
    fixed.iter().chain(&optional).for_each(|column| bits.write(column.width.into(), WIDTH_BITS));
    let base_width = |column: &Column| u64::BITS - column.base.leading_zeros();
    let mut end = 0;
    for column in &fixed {
        end += base_width(column);
        bits.write(end.into(), END_BITS);
    }
    let has_gaps = |column: &Column| column.numbers.len() < rows.len();
    optional.iter().for_each(|column| bits.write(has_gaps(column).into(), 1));
    fixed.iter().for_each(|column| bits.write(column.base, base_width(column)));
    for (at, column) in fixed.iter().chain(&optional).enumerate() {
        if let Some(at) = at.checked_sub(FIXED).filter(|_| has_gaps(column)) {
            rows.iter().for_each(|row| bits.write(row.optional[at].is_some().into(), 1));
        }
        column.numbers.iter().for_each(|number| bits.write(*number, column.width));
    }
    bits
}

/// The rows of these bits; `None` where they are not those of [`pack`].
#[must_use]
pub fn unpack(bytes: &[u8]) -> Option<Vec<Row>> {
    let mut reader = Reader::new(bytes);
    let count = usize::try_from(reader.read(COUNT_BITS)?).ok()?;
    let mut widths = [0; COLUMNS];
    for width in &mut widths {
        *width = u32::try_from(reader.read(WIDTH_BITS)?).ok().filter(|width| *width <= u64::BITS)?;
    }
    let mut ends = [0; FIXED];
    for end in &mut ends {
        *end = u32::try_from(reader.read(END_BITS)?).ok()?;
    }
    let mut have_gaps = [false; COLUMNS - FIXED];
    for has_gaps in &mut have_gaps {
        *has_gaps = reader.read(1)? == 1;
    }
    let least: usize = widths[..FIXED].iter().map(|width| *width as usize).sum();
    if count.checked_mul(least)? > bytes.len() * 8 || count > bytes.len() * 8 + EQUAL_MAX {
        return None;
    }
    let mut bases = [0; FIXED];
    let mut begin = 0;
    for (base, end) in bases.iter_mut().zip(ends) {
        let width = end.checked_sub(begin).filter(|width| *width <= u64::BITS)?;
        let zigzag = reader.read(width)?;
        *base = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        begin = end;
    }
    let mut rows = vec![Row::default(); count];
    for (at, (base, width)) in bases.into_iter().zip(widths).enumerate() {
        for row in &mut rows {
            row.fixed[at] = base.wrapping_add_unsigned(reader.read(width)?);
        }
    }
    for (at, (has_gaps, width)) in have_gaps.into_iter().zip(&widths[FIXED..]).enumerate() {
        let mut has_value = vec![true; count];
        if has_gaps {
            for has_value in &mut has_value {
                *has_value = reader.read(1)? == 1;
            }
        }
        for (row, _) in rows.iter_mut().zip(has_value).filter(|(_, has_value)| *has_value) {
            row.optional[at] = Some(reader.read(*width)?.cast_signed());
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back(rows: &[Row]) -> Option<Vec<Row>> {
        unpack(&pack(rows).finish())
    }

    #[test]
    fn a_column_is_as_wide_as_what_its_largest_number_is_more_than_the_base() {
        assert_eq!(pack(&[]).count(), 128);
        let row = |fixed, optional| Row { fixed, optional };
        let rows = [
            row([7, 5, 1_000_000, 0, -3], [None, Some(3), None]),
            row([9, i64::MAX, 1_000_001, 0, -3], [Some(0), None, None]),
        ];
        // Widths 4, 63, 20 (a base takes 22 and spares 38), 0, 0 and a base of 3; three columns of presence, a number of 0 bits and one of 2.
        let spared = 2 * 19 - 21;
        assert_eq!(pack(&rows).count(), 128 + 2 * (4 + 63 + 20) - spared + 3 + 3 * 2 + 2);
        assert_eq!(back(&rows).unwrap(), rows);
        let far = [row([i64::MIN; FIXED], [Some(-1); 3]), row([i64::MAX; FIXED], [Some(i64::MIN); 3])];
        assert_eq!(back(&far).unwrap(), far);
    }

    #[test]
    fn too_few_bits_and_a_count_that_lies_are_no_rows() {
        let rows: Vec<Row> = (0..40)
            .map(|n| Row { fixed: [n, 32, n * n, -n, 6], optional: [Some(n), None, Some(1)] })
            .collect();
        let bytes = pack(&rows).finish();
        assert_eq!(unpack(&bytes).unwrap(), rows);
        for length in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..length]), None, "{length} bytes");
        }
        let mut count = pack(&[]).finish();
        count[..3].fill(0xff);
        assert_eq!(unpack(&count), None);
    }

    fn numbers() -> impl Strategy<Value = i64> {
        prop_oneof![any::<i64>(), 0..100_i64, 1_000_000..1_000_100_i64, -5..5_i64]
    }

    proptest! {
        #[test]
        fn any_rows_come_back(
            all in prop::collection::vec((prop::array::uniform5(numbers()), prop::array::uniform3(prop::option::of(numbers()))), 0..60)
        ) {
            let rows: Vec<Row> = all.into_iter().map(|(fixed, optional)| Row { fixed, optional }).collect();
            prop_assert_eq!(back(&rows), Some(rows));
        }

        #[test]
        fn bytes_that_are_no_rows_end_in_none(mut bytes in prop::collection::vec(any::<u8>(), 0..80), is_small in any::<bool>()) {
            if is_small && bytes.len() > 3 {
                bytes[..2].fill(0);
            }
            _ = unpack(&bytes);
        }
    }
}
