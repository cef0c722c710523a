//! What nodes reported of their ranks after the newest rows of these: it makes the account of a job and of its nodes as new as their
//! other sums.

use super::{RankAccount, seconds};
use crate::as_of::AsOf;
use crate::node_accounts::{NewestAccount, NodeTimes};
use std::collections::HashMap;
use throughline_verdicts::account::{MpiTimes, OffReasons, RankTimes};

/// Less is the noise of readings.
const SECONDS_MIN: f64 = 0.1;

/// What a node has beyond its ranks, as one more of them; `None` where its ranks' own rows are as new. `opened` says of a rank for how many
/// seconds since its row it has been in a call that has not returned.
pub(super) fn beyond(
    node: &str,
    ranks: &[&RankAccount],
    newest: &NewestAccount,
    opened: impl Fn(&RankAccount) -> f64,
) -> Option<RankAccount> {
    // Ranks that had ended when the node began to count are not in its sums.
    let counted = || ranks.iter().filter(|rank| rank.read_ms.is_some_and(|read| read >= newest.epoch_ms));
    let known = counted().fold(RankTimes::default(), |sum, rank| sum.with(&rank.times));
    let NodeTimes { times, reasons } = newest.beyond(&known);
    if times.elapsed < SECONDS_MIN {
        return None;
    }
    let open = counted().map(|rank| opened(rank)).sum::<f64>().min(times.mpi);
    let mpi: Option<Vec<MpiTimes>> = counted().map(|rank| rank.mpi).collect();
    let mpi = mpi.map(|of| continued(&of, known.mpi, open, times.mpi - open));
    Some(RankAccount {
        rank: 0,
        node: node.to_owned(),
        read_ms: None,
        times: RankTimes { found: found(times.off, reasons), ..times },
        mpi,
    })
}

/// What of the time in calls that returned since was waiting: as much of it as before most probably, anything between nothing and all.
fn continued(before: &[MpiTimes], mpi: f64, open: f64, closed: f64) -> MpiTimes {
    let sum = |of: fn(&MpiTimes) -> f64| before.iter().map(of).sum::<f64>();
    let closed_before = mpi - sum(|times| times.open);
    let factor = if closed_before > 0.0 { closed / closed_before } else { 0.0 };
    let waiting = (sum(|times| times.waiting.0) * factor).min(closed);
    MpiTimes {
        waiting: (waiting, 0.0, closed),
        starting: (sum(|times| times.starting) * factor).min(closed),
        open,
    }
}

/// As if found once a second.
fn found(off: f64, reasons: [f64; 4]) -> OffReasons {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // seconds
    let times = |seconds: f64| seconds.clamp(0.0, f64::from(u32::MAX)).round() as u32;
    let [file, sleep, lock, stopped] = reasons.map(times);
    OffReasons { file, sleep, lock, stopped, other: times(off - reasons.iter().sum::<f64>()) }
}

/// For how long a rank's first thread has been in a call that has not returned, from its row until a time.
pub(super) fn open_since(starts: &HashMap<i32, i64>, rank: &RankAccount, as_of: &AsOf) -> f64 {
    let start = i32::try_from(rank.rank).ok().and_then(|rank| starts.get(&rank)).zip(rank.read_ms);
    start.map_or(0.0, |(start, read)| seconds(as_of.milliseconds().saturating_sub(read.max(*start))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_goes_on_as_before_within_wide_bounds() {
        let before = MpiTimes { waiting: (6.0, 4.0, 7.0), starting: 1.0, open: 2.0 };
        let MpiTimes { waiting, starting, open } = continued(&[before], 14.0, 3.0, 4.0);
        assert_eq!((waiting, starting, open), ((2.0, 0.0, 4.0), 1.0 / 3.0, 3.0));
        assert_eq!(
            continued(&[before], 2.0, 0.0, 4.0).waiting,
            (0.0, 0.0, 4.0),
            "nothing is known of before"
        );
    }

    #[test]
    fn reasons_are_as_samples() {
        let found = found(10.4, [3.1, 0.2, 0.0, 4.0]);
        assert_eq!(found, OffReasons { file: 3, stopped: 4, other: 3, ..OffReasons::default() });
    }
}
