//! Where the time of a node's ranks went, as a column of `mpi_node_rows`: 23 numbers in milliseconds. How long before the row's time it is
//! so; the eleven sums since the row's epoch, in the order of [`SUMS`]; the same sums of what ranks had before it. The function
//! `mpi_packed_account` of the schema names the same numbers.

use std::error::Error;

use throughline_packed::{Bits, numbers};
use throughline_sample::wire::{MpiAccountSums, MpiNodeAccount};
use tokio_postgres::types::{FromSql, Type};

/// Sums of an account: elapsed, in MPI, off the processor outside of MPI and the part of it waiting for a core, the same in MPI, throttled,
/// and of the time off the processor outside in a file, asleep, at a lock and stopped.
pub const SUMS: usize = 11;

const NANOSECONDS: u64 = 1_000_000;

/// An account as it is stored, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAccount {
    /// As of so long before the time of its row.
    pub behind: u64,
    /// Since the epoch of its row.
    pub grown: [u64; SUMS],
    /// What ranks had that had begun before.
    pub before: [u64; SUMS],
}

impl NodeAccount {
    /// The same in a row of so many milliseconds later.
    pub(crate) fn later(&self, milliseconds: i64) -> Bits {
        Self { behind: self.behind.saturating_add_signed(milliseconds), ..*self }.bits()
    }

    fn bits(&self) -> Bits {
        let mut all = vec![self.behind];
        all.extend(self.grown);
        all.extend(self.before);
        numbers::pack(&all)
    }
}

impl<'a> FromSql<'a> for NodeAccount {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        // How many bits it has comes first.
        let mut all = raw
            .get(4..)
            .and_then(numbers::unpack)
            .ok_or("an account in a form that this version does not know")?;
        all.resize(1 + 2 * SUMS, 0);
        let sums = |from: usize| std::array::from_fn(|at| all[from + at]);
        Ok(Self { behind: all[0], grown: sums(1), before: sums(1 + SUMS) })
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::VARBIT
    }
}

/// As a node reports it.
pub(crate) fn pack(account: &MpiNodeAccount) -> Bits {
    let sums = |sums: &Option<MpiAccountSums>| sums.as_ref().map_or([0; SUMS], milliseconds);
    let behind = account.behind_nanoseconds / NANOSECONDS;
    NodeAccount { behind, grown: sums(&account.grown), before: sums(&account.before) }.bits()
}

fn milliseconds(sums: &MpiAccountSums) -> [u64; SUMS] {
    [
        sums.elapsed_nanoseconds,
        sums.mpi_nanoseconds,
        sums.off_outside_nanoseconds,
        sums.queued_outside_nanoseconds,
        sums.off_inside_nanoseconds,
        sums.queued_inside_nanoseconds,
        sums.throttled_nanoseconds,
        sums.file_nanoseconds,
        sums.sleep_nanoseconds,
        sums.lock_nanoseconds,
        sums.stopped_nanoseconds,
    ]
    .map(|sum| sum / NANOSECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(bits: Bits) -> NodeAccount {
        let count = u32::try_from(bits.count()).unwrap();
        let raw: Vec<u8> = count.to_be_bytes().into_iter().chain(bits.finish()).collect();
        NodeAccount::from_sql(&Type::VARBIT, &raw).unwrap()
    }

    #[test]
    fn accounts_come_back_and_move_with_their_rows() {
        let grown = MpiAccountSums {
            elapsed_nanoseconds: 80_000_999_999,
            stopped_nanoseconds: 3_000_000,
            ..MpiAccountSums::default()
        };
        let account = MpiNodeAccount { behind_nanoseconds: 2_000_000_000, grown: Some(grown), before: None };
        let known = back(pack(&account));
        assert_eq!((known.behind, known.grown[0], known.grown[10]), (2000, 80_000, 3));
        assert_eq!(back(known.later(50_000)), NodeAccount { behind: 52_000, ..known });
        let before = MpiAccountSums { mpi_nanoseconds: 7_000_000, ..MpiAccountSums::default() };
        assert_eq!(back(pack(&MpiNodeAccount { before: Some(before), ..account })).before[1], 7);
    }
}
