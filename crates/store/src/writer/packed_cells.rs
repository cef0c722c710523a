//! Cells of MPI operations as one string of bits. Pure. The functions `mpi_packed_cells` and `mpi_packed_round` of the schema read
//! it, each number with one `substring`: so a column's numbers have the width of its largest.
//!
//! Cells: how many (24 bits), the least of their numbers in `mpi_cell_key` (32), the widths of eight columns (7 each), and the
//! columns: numbers less the least, calls, bytes, time inside, longest call; then, of time waited, bytes received and least time, a bit for
//! each cell that has it, and the values of those.
//!
//! Rounds: how many (24 bits), the lowest rank (32), the widths of five columns (7 each), and the columns: ranks that called the cell,
//! rank with the least time less the lowest, its time, rank with the most, its time.

use throughline_sample::wire::{MpiNodeCell, MpiOpCell};

use super::rows::stored;
use crate::copy::{BitReader, BitString};
use std::error::Error;
use tokio_postgres::types::{FromSql, Type};

const COUNT_BITS: u32 = 24;
const FIRST_BITS: u32 = 32;
const WIDTH_BITS: u32 = 7;

/// Columns that each cell has, without the numbers of cells.
const PRESENT: [fn(&MpiOpCell) -> u64; 4] =
    [|cell| cell.calls, |cell| cell.bytes, |cell| cell.elapsed_nanoseconds, |cell| cell.longest_nanoseconds];
/// Columns that some cells have.
const OPTIONAL: [fn(&MpiOpCell) -> Option<u64>; 3] =
    [|cell| cell.wait_nanoseconds, |cell| cell.received_bytes, |cell| cell.least_nanoseconds];

/// Cells with their numbers, in any order; as many as one message may have, far below 2^24.
pub(crate) fn cells(cells: &[(i32, &MpiOpCell)]) -> BitString {
    let first = cells.iter().map(|(key, _)| *key).min().unwrap_or(0);
    let mut columns = vec![cells.iter().map(|(key, _)| u64::from(key.abs_diff(first))).collect()];
    for of in PRESENT {
        columns.push(cells.iter().map(|(_, cell)| limited(of(cell))).collect());
    }
    for of in OPTIONAL {
        columns.push(cells.iter().filter_map(|(_, cell)| of(cell).map(limited)).collect::<Vec<_>>());
    }
    let (mut bits, widths) = header(cells.len(), u64::from(first.unsigned_abs()), &columns);
    for (at, (column, width)) in columns.iter().zip(widths).enumerate() {
        if let Some(of) = at.checked_sub(1 + PRESENT.len()).map(|at| OPTIONAL[at]) {
            cells.iter().for_each(|(_, cell)| bits.push(of(cell).is_some().into(), 1));
        }
        column.iter().for_each(|value| bits.push(*value, width));
    }
    bits
}

/// What an interval brought of the same cells, in the same order.
pub(crate) fn rounds(cells: &[&MpiNodeCell]) -> BitString {
    let grown = cells.iter().filter(|cell| cell.ranks > 0);
    let first = grown.flat_map(|cell| [cell.least_rank, cell.most_rank]).min().unwrap_or(0);
    // Of a cell that did not grow there is no rank.
    let rank = |cell: &MpiNodeCell, rank: u32| if cell.ranks > 0 { u64::from(rank - first) } else { 0 };
    let column = |of: &dyn Fn(&MpiNodeCell) -> u64| cells.iter().map(|cell| of(cell)).collect::<Vec<_>>();
    let columns = [
        column(&|cell| cell.ranks.into()),
        column(&|cell| rank(cell, cell.least_rank)),
        column(&|cell| limited(cell.least_rank_nanoseconds)),
        column(&|cell| rank(cell, cell.most_rank)),
        column(&|cell| limited(cell.most_rank_nanoseconds)),
    ];
    let (mut bits, widths) = header(cells.len(), first.into(), &columns);
    for (column, width) in columns.iter().zip(widths) {
        column.iter().for_each(|value| bits.push(*value, width));
    }
    bits
}

/// Cells with their numbers, read from the database; they have no names.
pub(crate) struct PackedCells(pub Vec<(i32, MpiOpCell)>);

/// What an interval brought of cells, read from the database; they have no sums.
pub(crate) struct PackedRounds(pub Vec<MpiNodeCell>);

impl PackedCells {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut bits = BitReader::new(bytes);
        let (count, first) = (bits.count(COUNT_BITS)?, i32::try_from(bits.take(FIRST_BITS)?).ok()?);
        let widths = bits.widths::<8>()?;
        let mut cells = vec![(first, MpiOpCell::default()); count];
        for (key, _) in &mut cells {
            *key = key.checked_add_unsigned(u32::try_from(bits.take(widths[0])?).ok()?)?;
        }
        let present: [fn(&mut MpiOpCell) -> &mut u64; 4] = [
            |cell| &mut cell.calls,
            |cell| &mut cell.bytes,
            |cell| &mut cell.elapsed_nanoseconds,
            |cell| &mut cell.longest_nanoseconds,
        ];
        for (of, width) in present.into_iter().zip(&widths[1..]) {
            for (_, cell) in &mut cells {
                *of(cell) = bits.take(*width)?;
            }
        }
        let optional: [fn(&mut MpiOpCell) -> &mut Option<u64>; 3] = [
            |cell| &mut cell.wait_nanoseconds,
            |cell| &mut cell.received_bytes,
            |cell| &mut cell.least_nanoseconds,
        ];
        for (of, width) in optional.into_iter().zip(&widths[5..]) {
            let are_there: Option<Vec<bool>> = (0..count).map(|_| Some(bits.take(1)? == 1)).collect();
            for ((_, cell), is_there) in cells.iter_mut().zip(are_there?) {
                *of(cell) = if is_there { Some(bits.take(*width)?) } else { None };
            }
        }
        Some(Self(cells))
    }
}

impl PackedRounds {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut bits = BitReader::new(bytes);
        let (count, first) = (bits.count(COUNT_BITS)?, u32::try_from(bits.take(FIRST_BITS)?).ok()?);
        let widths = bits.widths::<5>()?;
        let mut cells = vec![MpiNodeCell::default(); count];
        for cell in &mut cells {
            cell.ranks = u32::try_from(bits.take(widths[0])?).ok()?;
        }
        for (at, width) in widths.into_iter().enumerate().skip(1) {
            for cell in &mut cells {
                let value = bits.take(width)?;
                let rank = || first.checked_add(u32::try_from(value).ok()?);
                match at {
                    1 if cell.ranks > 0 => cell.least_rank = rank()?,
                    2 => cell.least_rank_nanoseconds = value,
                    3 if cell.ranks > 0 => cell.most_rank = rank()?,
                    4 => cell.most_rank_nanoseconds = value,
                    _ => {}
                }
            }
        }
        Some(Self(cells))
    }
}

/// From `bit varying`, of which how many bits it has comes first.
macro_rules! from_bits {
    ($($of:ty),*) => {$(
        impl<'a> FromSql<'a> for $of {
            fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                let cells = raw.get(4..).and_then(Self::read);
                cells.ok_or_else(|| "cells in a form that this version does not know".into())
            }

            fn accepts(of: &Type) -> bool {
                *of == Type::VARBIT
            }
        }
    )*};
}
from_bits!(PackedCells, PackedRounds);

/// What a string begins with, and the width of each column.
fn header(count: usize, first: u64, columns: &[Vec<u64>]) -> (BitString, Vec<u32>) {
    let widths: Vec<u32> = columns
        .iter()
        .map(|column| u64::BITS - column.iter().max().copied().unwrap_or(0).leading_zeros())
        .collect();
    let mut bits = BitString::default();
    bits.push(count as u64, COUNT_BITS);
    bits.push(first, FIRST_BITS);
    widths.iter().for_each(|width| bits.push((*width).into(), WIDTH_BITS));
    (bits, widths)
}

/// As the store's signed columns hold it.
fn limited(value: u64) -> u64 {
    stored(value).unsigned_abs()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_wide_as_its_largest_number() {
        let one = MpiOpCell { calls: 5, bytes: u64::MAX, elapsed_nanoseconds: 1, ..MpiOpCell::default() };
        let other = MpiOpCell { wait_nanoseconds: Some(0), received_bytes: Some(3), ..MpiOpCell::default() };
        let bits = cells(&[(9, &one), (7, &other)]);
        let widths = 2 + 3 + 63 + 1;
        // Three columns of presence, and the one number of bytes received.
        assert_eq!(bits.len(), 24 + 32 + 8 * 7 + 2 * widths + 3 * 2 + 2);
        assert_eq!(cells(&[]).len(), 24 + 32 + 8 * 7);
    }

    #[test]
    fn cells_and_rounds_go_there_and_back() {
        let cell = |n: u64| MpiOpCell {
            calls: n * 1_000_003,
            bytes: i64::MAX.unsigned_abs() - n,
            elapsed_nanoseconds: n << 40,
            longest_nanoseconds: n,
            wait_nanoseconds: n.is_multiple_of(2).then_some(n * 7),
            received_bytes: (n == 3).then_some(0),
            ..MpiOpCell::default()
        };
        let all: Vec<(i32, MpiOpCell)> =
            (0..9_i32).map(|n| (40 + 3 * n, cell(n.unsigned_abs().into()))).collect();
        let round = |n: u32| MpiNodeCell {
            ranks: n % 3,
            least_rank: if n.is_multiple_of(3) { 0 } else { 500 + n },
            least_rank_nanoseconds: u64::from(n) * 11,
            most_rank: if n.is_multiple_of(3) { 0 } else { 700 - n },
            most_rank_nanoseconds: u64::from(n) << 33,
            ..MpiNodeCell::default()
        };
        let brought: Vec<MpiNodeCell> = (0..9).map(round).collect();
        for count in [9, 1, 0] {
            let (some, few) = (&all[..count], &brought[..count]);
            let mut raw = bytes::BytesMut::new();
            cells(&some.iter().map(|(key, cell)| (*key, cell)).collect::<Vec<_>>()).put(&mut raw);
            assert_eq!(PackedCells::from_sql(&Type::VARBIT, &raw).unwrap().0, some);
            assert!(count == 0 || PackedCells::from_sql(&Type::VARBIT, &raw[..raw.len() - 1]).is_err());
            let mut raw = bytes::BytesMut::new();
            rounds(&few.iter().collect::<Vec<_>>()).put(&mut raw);
            assert_eq!(PackedRounds::from_sql(&Type::VARBIT, &raw).unwrap().0, few);
        }
        assert!(PackedCells::from_sql(&Type::VARBIT, &[0, 0, 0, 9, 0xff, 0xff]).is_err());
    }

    #[test]
    fn ranks_of_a_round_are_counted_from_the_lowest() {
        let cell =
            |ranks, rank| MpiNodeCell { ranks, least_rank: rank, most_rank: rank, ..MpiNodeCell::default() };
        let bits = rounds(&[&cell(2, 4000), &cell(1, 4003), &cell(0, 0)]);
        assert_eq!(bits.len(), 24 + 32 + 5 * 7 + 3 * (2 + 2 + 2));
    }
}
