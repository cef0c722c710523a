//! What the columns of packed rows are, by kind; `throughline_packed::rows` packs them. The functions `mpi_packed_cells`,
//! `mpi_packed_round`, `mpi_packed_calls` and `link_minute_shares` of the schema name the same columns of `packed_rows`.
//!
//! | kind | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | cell of operations | number in `mpi_cell_key` | calls | bytes | ns inside | longest ns | ns waited | bytes received | least ns |
//! | what an interval brought of a cell | ranks | least ns | most ns | | | rank with the least | rank with the most | |
//! | sampled call | running number | ranks | ns of all | least ns | rank with it | level | | |
//! | minute of a link | minute of the hour | windows | 1: counted | | | peak | | |
//! | share of a minute | | | | | | bytes | bytes less low | high less bytes |
//!
//! Rows of final totals are in `finals::encode`. Bytes of shares and peaks have seven digits, as [`scaled`] writes them. Shares are of each minute those of all contributors of the hour.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use throughline_packed::Bits;
use throughline_packed::rows::{Row, pack, unpack};
use throughline_sample::wire::{MpiNodeCell, MpiOpCell};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::copy::stored;

/// Bits, as a parameter of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedBits {
    count: i32,
    bytes: Vec<u8>,
}

impl PackedBits {
    pub fn of(bits: Bits) -> Self {
        Self { count: i32::try_from(bits.count()).unwrap_or(i32::MAX), bytes: bits.finish() }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl ToSql for PackedBits {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(self.count);
        out.put_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::VARBIT
    }

    to_sql_checked!();
}

/// Packed rows, read from the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRows(pub Vec<Row>);

impl<'a> FromSql<'a> for PackedRows {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        // How many bits it has comes first.
        let rows = raw.get(4..).and_then(unpack);
        rows.map(Self).ok_or_else(|| "packed rows in a form that this version does not know".into())
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::VARBIT
    }
}

/// A call: its running number, the node's ranks that sampled it, their time in it in nanoseconds, that of the rank with the least, that
/// rank, and the level: it is one of 2^level calls.
pub type SampledCall = [i64; 6];

impl PackedRows {
    /// As sampled calls.
    pub fn sampled_calls(&self) -> impl Iterator<Item = SampledCall> {
        self.0.iter().map(|Row { fixed: [call, ranks, all, least, rank], optional }| {
            [*call, *ranks, *all, *least, *rank, optional[0].unwrap_or_default()]
        })
    }

    /// As cells, each with its number; they have no names. `None` where a number is none.
    pub(crate) fn cells(&self) -> Option<Vec<(i64, MpiOpCell)>> {
        let counted = |number: i64| u64::try_from(number).ok();
        let cell = |Row {
                        fixed: [number, calls, bytes, elapsed, longest],
                        optional: [wait, received, least],
                    }: &Row| {
            let cell = MpiOpCell {
                calls: counted(*calls)?,
                bytes: counted(*bytes)?,
                elapsed_nanoseconds: counted(*elapsed)?,
                longest_nanoseconds: counted(*longest)?,
                wait_nanoseconds: wait.and_then(counted),
                received_bytes: received.and_then(counted),
                least_nanoseconds: least.and_then(counted),
                ..MpiOpCell::default()
            };
            Some((*number, cell))
        };
        self.0.iter().map(cell).collect()
    }

    /// As what an interval brought of cells; they have no sums. `None` where a number is none.
    pub(crate) fn rounds(&self) -> Option<Vec<MpiNodeCell>> {
        let rank = |rank: Option<i64>| u32::try_from(rank.unwrap_or_default()).ok();
        let round = |Row { fixed: [ranks, least, most, ..], optional: [least_rank, most_rank, _] }: &Row| {
            Some(MpiNodeCell {
                ranks: u32::try_from(*ranks).ok()?,
                least_rank: rank(*least_rank)?,
                least_rank_nanoseconds: u64::try_from(*least).ok()?,
                most_rank: rank(*most_rank)?,
                most_rank_nanoseconds: u64::try_from(*most).ok()?,
                ..MpiNodeCell::default()
            })
        };
        self.0.iter().map(round).collect()
    }
}

/// Cells with their numbers, in any order; as many as one message may have, far below 2^24.
pub(crate) fn cells(cells: &[(i64, &MpiOpCell)]) -> Bits {
    let row = |(number, cell): &(i64, &MpiOpCell)| Row {
        fixed: [
            *number,
            stored(cell.calls),
            stored(cell.bytes),
            stored(cell.elapsed_nanoseconds),
            stored(cell.longest_nanoseconds),
        ],
        optional: [cell.wait_nanoseconds, cell.received_bytes, cell.least_nanoseconds]
            .map(|some| some.map(stored)),
    };
    pack(&cells.iter().map(row).collect::<Vec<_>>())
}

/// What an interval brought of the same cells, in the same order.
pub(crate) fn rounds(cells: &[&MpiNodeCell]) -> Bits {
    let row = |cell: &&MpiNodeCell| {
        // Of a cell that did not grow there is no rank.
        let rank = |rank: u32| (cell.ranks > 0).then(|| i64::from(rank));
        let (least, most) = (stored(cell.least_rank_nanoseconds), stored(cell.most_rank_nanoseconds));
        Row {
            fixed: [i64::from(cell.ranks), least, most, 0, 0],
            optional: [rank(cell.least_rank), rank(cell.most_rank), None],
        }
    };
    pack(&cells.iter().map(row).collect::<Vec<_>>())
}

/// Sampled calls.
pub(crate) fn sampled_calls(calls: impl Iterator<Item = SampledCall>) -> Bits {
    let row = |[call, ranks, all, least, rank, level]: SampledCall| Row {
        fixed: [call, ranks, all, least, rank],
        optional: [Some(level), None, None],
    };
    pack(&calls.map(row).collect::<Vec<_>>())
}

/// A minute of a port.
pub(crate) struct Minute {
    /// Of its hour, from 0.
    pub minute: i64,
    /// In which the link carried traffic.
    pub windows: i64,
    /// Whether the bytes of all are what was counted.
    pub is_counted: bool,
    /// Bytes of the largest window.
    pub peak: Option<i64>,
}

/// A contributor's share of a minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub bytes: i64,
    pub low: i64,
    pub high: i64,
}

/// Minutes of a port's hour.
pub(crate) fn minutes(minutes: impl Iterator<Item = Minute>) -> Bits {
    let row = |Minute { minute, windows, is_counted, peak }| Row {
        fixed: [minute, windows, i64::from(is_counted), 0, 0],
        optional: [peak.map(scaled), None, None],
    };
    pack(&minutes.map(row).collect::<Vec<_>>())
}

/// Shares of a port's hour: of its first minute those of all contributors, then of the second; `None` for one that has none then.
pub(crate) fn shares(shares: &[Option<Share>]) -> Bits {
    let row = |share: &Option<Share>| {
        let optional = share.map_or([None; 3], |share| {
            let [bytes, low, high] = [share.bytes, share.low, share.high].map(scaled);
            [bytes, bytes - low, high - bytes].map(Some)
        });
        Row { fixed: [0; 5], optional }
    };
    pack(&shares.iter().map(row).collect::<Vec<_>>())
}

/// The bits of the mantissa of `real`, which has seven digits.
const MANTISSA_BITS: u32 = 24;

/// Bytes rounded to 24 bits: these, and above them by how many places they are to be moved. The function `packed_bytes` of the schema
/// reads it.
fn scaled(bytes: i64) -> i64 {
    // As PostgreSQL rounds to real.
    #[allow(clippy::cast_possible_truncation)] // of a whole number below 2^63
    let rounded = bytes.max(0) as f32 as i64;
    let places = (i64::BITS - rounded.leading_zeros()).saturating_sub(MANTISSA_BITS);
    i64::from(places) << MANTISSA_BITS | rounded >> places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(bits: Bits) -> PackedRows {
        let mut raw = vec![0; 4];
        raw.extend(bits.finish());
        PackedRows::from_sql(&Type::VARBIT, &raw).unwrap()
    }

    #[test]
    fn bytes_are_rounded_as_real_is_and_their_order_stays() {
        let back = |scaled: i64| (scaled & 0xff_ffff) << (scaled >> MANTISSA_BITS);
        let all = [0, 1, 16_777_215, 16_777_216, 16_777_217, 300_000_000_001, (1 << 62) - 1];
        for (at, bytes) in all.into_iter().enumerate() {
            #[allow(clippy::cast_possible_truncation)] // of a whole number
            let real = bytes as f32 as i64;
            assert_eq!(back(scaled(bytes)), real, "{bytes}");
            assert!(at == 0 || scaled(bytes) >= scaled(all[at - 1]));
        }
        let share = Share { bytes: 500, low: 400, high: 500 };
        let row = Row { fixed: [0; 5], optional: [Some(500), Some(100), Some(0)] };
        assert_eq!(self::back(shares(&[Some(share), None])), PackedRows(vec![row, Row::default()]));
    }

    #[test]
    fn cells_rounds_and_calls_go_there_and_back() {
        let cell = |n: u64| MpiOpCell {
            calls: n * 1_000_003,
            bytes: i64::MAX.unsigned_abs() - n,
            elapsed_nanoseconds: n << 40,
            longest_nanoseconds: n,
            wait_nanoseconds: n.is_multiple_of(2).then_some(n * 7),
            received_bytes: (n == 3).then_some(0),
            ..MpiOpCell::default()
        };
        let all: Vec<(i64, MpiOpCell)> = (0..9_u8).map(|n| (40 + 3 * i64::from(n), cell(n.into()))).collect();
        let round = |n: u32| MpiNodeCell {
            ranks: n % 3,
            least_rank: if n.is_multiple_of(3) { 0 } else { 500 + n },
            least_rank_nanoseconds: u64::from(n) * 11,
            most_rank: if n.is_multiple_of(3) { 0 } else { 700 - n },
            most_rank_nanoseconds: u64::from(n) << 33,
            ..MpiNodeCell::default()
        };
        let brought: Vec<MpiNodeCell> = (0..9).map(round).collect();
        let calls: Vec<SampledCall> =
            (0..40).map(|n| [1_000_000 + n, 32, 5_000_000 + n * n, i64::MAX - n, n % 7, 6]).collect();
        for count in [9, 1, 0] {
            let (some, few) = (&all[..count], &brought[..count]);
            let cells = cells(&some.iter().map(|(key, cell)| (*key, cell)).collect::<Vec<_>>());
            assert_eq!(back(cells).cells().unwrap(), some);
            assert_eq!(back(rounds(&few.iter().collect::<Vec<_>>())).rounds().unwrap(), few);
            let of_calls = back(sampled_calls(calls[..count].iter().copied()));
            assert_eq!(of_calls.sampled_calls().collect::<Vec<_>>(), calls[..count]);
        }
        assert!(PackedRows::from_sql(&Type::VARBIT, &[0, 0, 0, 9, 0xff, 0xff]).is_err());
        let negative = PackedRows(vec![Row { fixed: [-1; 5], optional: [Some(-1); 3] }]);
        assert_eq!((negative.cells(), negative.rounds()), (None, None));
    }
}
