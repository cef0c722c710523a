//! Sampled calls of a row as one string of bits, both ways. The function `mpi_packed_calls` of the schema reads it, too.
//!
//! How many calls (24 bits); of each of six columns its width (7) and its least number (64); then the columns, in the order of
//! [`SampledCall`]: what each number is more than the least of its column.

use crate::copy::{BitReader, BitString};
use std::error::Error;
use tokio_postgres::types::{FromSql, Type};

/// Columns of a call.
const COLUMNS: usize = 6;
const COUNT_BITS: u32 = 24;
const WIDTH_BITS: u32 = 7;
/// Of so many bits a string of equal calls may be without one for each: far more than a row has.
const EQUAL_BYTES_MAX: usize = 8192;

/// A call: its running number, the node's ranks that sampled it, their time in it in nanoseconds, that of the rank with the least, that
/// rank, and the level: it stands for 2^level calls.
pub type SampledCall = [i64; COLUMNS];

/// The calls of a row, as they are read from the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledCalls(pub Vec<SampledCall>);

/// Calls of a row.
pub(crate) fn pack(calls: &[SampledCall]) -> BitString {
    let mut bits = BitString::default();
    bits.push(calls.len() as u64, COUNT_BITS);
    let least: [i64; COLUMNS] =
        std::array::from_fn(|at| calls.iter().map(|call| call[at]).min().unwrap_or_default());
    let more = |call: &SampledCall, at: usize| call[at].abs_diff(least[at]);
    let widths: [u32; COLUMNS] = std::array::from_fn(|at| {
        u64::BITS - calls.iter().map(|call| more(call, at)).max().unwrap_or_default().leading_zeros()
    });
    for (width, least) in widths.into_iter().zip(least) {
        bits.push(width.into(), WIDTH_BITS);
        bits.push(least.cast_unsigned(), u64::BITS);
    }
    for (at, width) in widths.into_iter().enumerate() {
        calls.iter().for_each(|call| bits.push(more(call, at), width));
    }
    bits
}

fn unpack(bytes: &[u8]) -> Option<Vec<SampledCall>> {
    let mut reader = BitReader::new(bytes);
    let count = usize::try_from(reader.take(COUNT_BITS)?).ok()?;
    let mut heads = [(0, 0); COLUMNS];
    for head in &mut heads {
        let width = u32::try_from(reader.take(WIDTH_BITS)?).ok()?;
        *head = (width.min(u64::BITS), reader.take(u64::BITS)?.cast_signed());
    }
    // A damaged count allocates no more than the bits of its calls ask for; equal ones have none.
    let width: usize = heads.iter().map(|(width, _)| *width as usize).sum();
    if count.saturating_mul(width.max(1)) > bytes.len().max(EQUAL_BYTES_MAX) * 8 {
        return None;
    }
    let mut calls = vec![[0; COLUMNS]; count];
    for (at, (width, least)) in heads.into_iter().enumerate() {
        for call in &mut calls {
            call[at] = least.wrapping_add_unsigned(reader.take(width)?);
        }
    }
    Some(calls)
}

impl<'a> FromSql<'a> for SampledCalls {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        // How many bits it has comes first.
        let calls = raw.get(4..).and_then(unpack);
        calls.map(Self).ok_or_else(|| "sampled calls in a form that this version does not know".into())
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::VARBIT
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn calls_go_there_and_back() {
        let calls: Vec<SampledCall> = (0..40)
            .map(|n| [1_000_000 + n, 32, 5_000_000 + n * n, i64::MAX - n, n % 7, 6])
            .chain([[i64::MIN, 0, 0, 0, 0, 0]])
            .collect();
        for some in [&calls[..], &calls[..1], &[]] {
            let mut raw = BytesMut::new();
            pack(some).put(&mut raw);
            let read = SampledCalls::from_sql(&Type::VARBIT, &raw).unwrap();
            assert_eq!(read.0, some);
            assert!(some.is_empty() || SampledCalls::from_sql(&Type::VARBIT, &raw[..30]).is_err());
        }
    }
}
