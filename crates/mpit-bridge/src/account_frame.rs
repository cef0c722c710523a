//! Frames of where a rank's time went. As pure and as careful as `frame.rs`, which this is part of.

use crate::status::Malformed;

/// Bytes of a body.
const BODY_BYTES: usize = 96;

/// What the thread that called `MPI_Init` has done since. Times are of the sender's `CLOCK_MONOTONIC`, all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// When this was so.
    pub time: i64,
    /// The thread, as its process sees it.
    pub tid: u32,
    /// The end of `MPI_Init`.
    pub began: i64,
    /// When the call began that it is in; `None`: it is in none.
    pub open: Option<i64>,
    /// In the calls before.
    pub in_mpi: u64,
    /// When it read its own clock last.
    pub read_time: i64,
    /// Its processor time then.
    pub read_cpu: u64,
    /// The kernel's sum of its waiting for a processor then.
    pub read_queued: u64,
    /// Off the processor outside of MPI until that reading.
    pub off_outside: u64,
    /// In MPI.
    pub off_inside: u64,
    /// Part of `off_outside` in which it could have run.
    pub queued_outside: u64,
    /// Part of `off_inside`.
    pub queued_inside: u64,
}

impl Account {
    /// The same on a clock that is so much ahead.
    pub(crate) fn shifted(self, ahead: i64) -> Self {
        let shift = |time: i64| time.saturating_add(ahead);
        Self {
            time: shift(self.time),
            began: shift(self.began),
            open: self.open.map(shift),
            read_time: shift(self.read_time),
            ..self
        }
    }
}

/// Reads a body.
pub(crate) fn account(body: &[u8]) -> Result<Account, Malformed> {
    let (words, rest) = body.as_chunks::<8>();
    // A newer shim may add to it.
    if body.len() < BODY_BYTES || !rest.is_empty() {
        return Err(Malformed::Body);
    }
    let unsigned = |at: usize| u64::from_le_bytes(words[at]);
    let signed = |at: usize| i64::from_le_bytes(words[at]);
    let account = Account {
        time: signed(0),
        tid: u32::try_from(unsigned(1)).map_err(|_| Malformed::Body)?,
        began: signed(2),
        open: Some(signed(3)).filter(|open| *open != 0),
        in_mpi: unsigned(4),
        read_time: signed(5),
        read_cpu: unsigned(6),
        read_queued: unsigned(7),
        off_outside: unsigned(8),
        off_inside: unsigned(9),
        queued_outside: unsigned(10),
        queued_inside: unsigned(11),
    };
    let is_ordered = account.began <= account.time && account.read_time <= account.time;
    is_ordered.then_some(account).ok_or(Malformed::Body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_whole_and_in_order() {
        let body = |words: [i64; 12]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let good = account(&body([90, 7, 10, 0, 5, 80, 4, 3, 9, 8, 2, 1])).unwrap();
        assert_eq!((good.tid, good.open, good.in_mpi, good.queued_inside), (7, None, 5, 1));
        assert_eq!(account(&body([90, 7, 10, 60, 0, 0, 0, 0, 0, 0, 0, 0])).unwrap().open, Some(60));
        assert_eq!(
            account(&body([90, 7, 91, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            Err(Malformed::Body),
            "it began later"
        );
        assert_eq!(account(&body([90, -1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0])), Err(Malformed::Body));
        assert_eq!(account(&[0; BODY_BYTES - 8]), Err(Malformed::Body));
        assert!(account(&[0; BODY_BYTES + 8]).is_ok());
        assert_eq!(account(&[0; BODY_BYTES + 1]), Err(Malformed::Body));
    }
}
