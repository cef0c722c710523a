//! Whether a clock is believed, by its witnesses: pure.
//!
//! Within one boot of this server the monotonic clock decides how far the clock may have moved. Over a boot, and where another server takes
//! over, the clocks of most senders do. Where three or more senders contradict alike, nothing is believed. Where nobody reports, neither.

use std::fmt::Write;

/// How far the clock may move otherwise than the monotonic one: a time daemon steps small errors, and an answer takes its time.
const STEP_TOLERANCE: f64 = 60.0;

/// And how far in each second since: an undisciplined clock of another machine drifts by some 0.0001.
const DRIFT: f64 = 0.001;

/// How far a sender's clock may be off and still confirm: a measurement may be a minute old when it is read.
const WITNESS_TOLERANCE: f64 = 120.0;

/// So many senders at least contradict the clock: one or two that differ are off themselves.
const CONTRADICTING_MIN: usize = 3;

/// How long after the first check nobody is warned that senders do not report or confirm yet: they connect again within a minute.
const START_GRACE: f64 = 120.0;

/// For so long after it an acceptance holds, if no check took note of it: the clock may jump again.
const ACCEPT_LIMIT: f64 = 600.0;

/// What a clock is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockState {
    /// No upkeep has run.
    Unchecked,
    /// The checks have just begun, or no sender was ever measured.
    Waiting,
    /// Rows may be dropped by it.
    Trusted,
    /// Nobody reports.
    Unreported,
    /// Since the boot most senders have not confirmed it.
    Unconfirmed,
    /// Most senders' clocks are off alike.
    Outvoted,
    /// It moved otherwise than the monotonic clock.
    Jumped,
}

impl ClockState {
    const ALL: [ClockState; 7] = [
        ClockState::Unchecked,
        ClockState::Waiting,
        ClockState::Trusted,
        ClockState::Unreported,
        ClockState::Unconfirmed,
        ClockState::Outvoted,
        ClockState::Jumped,
    ];

    /// As the database has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ClockState::Unchecked => "unchecked",
            ClockState::Waiting => "waiting",
            ClockState::Trusted => "trusted",
            ClockState::Unreported => "unreported",
            ClockState::Unconfirmed => "unconfirmed",
            ClockState::Outvoted => "outvoted",
            ClockState::Jumped => "jumped",
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.name() == name).unwrap_or(ClockState::Unchecked)
    }

    /// Whether people are to know that nothing is dropped.
    #[must_use]
    pub const fn is_doubted(self) -> bool {
        matches!(
            self,
            ClockState::Unreported | ClockState::Unconfirmed | ClockState::Outvoted | ClockState::Jumped
        )
    }
}

/// A moment by both clocks, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockReading {
    /// The database's, since 1970.
    pub database: f64,
    /// The boot of this server's machine.
    pub boot: String,
    /// Its monotonic clock.
    pub since_boot: f64,
}

/// What earlier checks left. Times are seconds since 1970 by the database's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClockHistory {
    /// When most senders confirmed it last.
    pub anchor: Option<ClockReading>,
    /// When it was believed last.
    pub trusted_at: Option<f64>,
    /// When somebody accepted it, if no check has taken note of that.
    pub accept_requested_at: Option<f64>,
    /// How far it was ahead of most senders then.
    pub accepted_off: Option<f64>,
}

/// What the senders say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Votes {
    /// By how many seconds the clock is ahead of each sender that was measured lately.
    pub leads: Vec<f64>,
    /// Whether any sender was ever measured.
    pub has_senders: bool,
}

/// What a check finds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockJudgement {
    pub state: ClockState,
    pub reason: Option<String>,
    /// How far it is ahead.
    pub off: Option<f64>,
    /// What time it is, as far as that is known.
    pub estimate: f64,
    /// Whether the reading is confirmed: the monotonic clock counts from here on.
    pub is_anchor: bool,
    pub accepted_off: Option<f64>,
    pub reporting: usize,
    pub agreeing: usize,
}

/// Senders in numbers.
struct Count {
    reporting: usize,
    agreeing: usize,
    /// Those that are off as most are.
    alike: usize,
    /// How far the clock is ahead of the sender in the middle.
    median: f64,
}

impl Votes {
    fn count(&self, accepted_off: Option<f64>) -> Count {
        let mut leads = self.leads.clone();
        leads.sort_by(f64::total_cmp);
        let median = leads.get(leads.len() / 2).copied().unwrap_or_default();
        let is_near = |one: f64, other: f64| (one - other).abs() <= WITNESS_TOLERANCE;
        let agrees = |lead: f64| is_near(lead, 0.0) || accepted_off.is_some_and(|off| is_near(lead, off));
        Count {
            reporting: leads.len(),
            agreeing: leads.iter().filter(|lead| agrees(**lead)).count(),
            alike: leads.iter().filter(|lead| is_near(**lead, median)).count(),
            median,
        }
    }
}

impl Count {
    fn is_confirmed(&self) -> bool {
        self.agreeing * 2 > self.reporting
    }

    fn contradicts(&self) -> bool {
        self.reporting >= CONTRADICTING_MIN && !self.is_confirmed() && self.alike * 2 > self.reporting
    }
}

/// Judges a reading. `uncertainty` is how exactly both clocks were read at one moment, `waited` how long checks have gone on, in seconds.
pub(super) fn judge(
    reading: &ClockReading,
    uncertainty: f64,
    history: &ClockHistory,
    votes: &Votes,
    waited: f64,
) -> ClockJudgement {
    let count = votes.count(history.accepted_off);
    let found = |state, reason: Option<String>, off: Option<f64>, estimate: f64| ClockJudgement {
        state,
        reason,
        off,
        estimate,
        is_anchor: false,
        accepted_off: history.accepted_off.filter(|_| count.median.abs() > WITNESS_TOLERANCE),
        reporting: count.reporting,
        agreeing: count.agreeing,
    };
    let since_accept = history.accept_requested_at.map(|at| reading.database - at);
    if since_accept.is_some_and(|since| (-STEP_TOLERANCE..=ACCEPT_LIMIT).contains(&since)) {
        let off = Some(count.median).filter(|off| off.abs() > WITNESS_TOLERANCE);
        let trusted = found(ClockState::Trusted, None, None, reading.database);
        return ClockJudgement { is_anchor: true, accepted_off: off, ..trusted };
    }
    let of_boot = history.anchor.as_ref().filter(|anchor| {
        anchor.boot == reading.boot && !anchor.boot.is_empty() && anchor.since_boot <= reading.since_boot
    });
    let early = waited < START_GRACE || !votes.has_senders;
    if let Some(anchor) = of_boot {
        let elapsed = reading.since_boot - anchor.since_boot;
        let off = reading.database - anchor.database - elapsed;
        if off.abs() > STEP_TOLERANCE + uncertainty + DRIFT * elapsed {
            let reason = jumped(off, &count);
            return found(ClockState::Jumped, Some(reason), Some(off), anchor.database + elapsed);
        }
    }
    if count.contradicts() {
        let estimate = reading.database.min(reading.database - count.median);
        return found(ClockState::Outvoted, Some(outvoted(&count)), Some(count.median), estimate);
    }
    // Without a witness the time of the last round is all that is known, in another boot.
    let last = match (of_boot, history.trusted_at) {
        (None, Some(trusted_at)) => trusted_at.min(reading.database),
        _ => reading.database,
    };
    if count.reporting == 0 {
        let state = if early { ClockState::Waiting } else { ClockState::Unreported };
        return found(state, Some("nobody reports".to_owned()), None, last);
    }
    if of_boot.is_some() {
        let trusted = found(ClockState::Trusted, None, None, reading.database);
        return ClockJudgement { is_anchor: count.is_confirmed(), ..trusted };
    }
    let before_last = history.trusted_at.map_or(0.0, |at| at - reading.database).max(0.0);
    let is_behind = before_last > STEP_TOLERANCE && count.reporting < CONTRADICTING_MIN;
    if count.is_confirmed() && !is_behind {
        return ClockJudgement {
            is_anchor: true,
            ..found(ClockState::Trusted, None, None, reading.database)
        };
    }
    let state = if early { ClockState::Waiting } else { ClockState::Unconfirmed };
    found(state, Some(unconfirmed(before_last, is_behind, &count)), Some(count.median), last)
}

fn jumped(off: f64, count: &Count) -> String {
    let mut text = format!(
        "it has moved {} {} this server's monotonic clock",
        span(off),
        if off > 0.0 { "ahead of" } else { "behind" }
    );
    if count.contradicts() {
        let _ = write!(text, ", and {}", outvoted(count));
    }
    text
}

fn outvoted(count: &Count) -> String {
    format!(
        "the clocks of {} of {} senders are {} {} it",
        count.alike,
        count.reporting,
        span(count.median),
        if count.median > 0.0 { "behind" } else { "ahead of" }
    )
}

fn unconfirmed(before_last: f64, is_behind: bool, count: &Count) -> String {
    if is_behind {
        return format!(
            "since the boot of this server it is {} before the last round, and fewer than {CONTRADICTING_MIN} senders report",
            span(before_last)
        );
    }
    format!(
        "since the boot of this server the clocks of {} of {} senders agree with it, which is not over half",
        count.agreeing, count.reporting
    )
}

/// How long a time is, in its two largest units.
fn span(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
    let whole = seconds.abs().round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {} s", whole % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;
    const START: f64 = 1_796_000_000.0;

    fn reading(database: f64, boot: &str, since_boot: f64) -> ClockReading {
        ClockReading { database, boot: boot.to_owned(), since_boot }
    }

    /// A clock that was confirmed 1,000 s after the boot "a".
    fn confirmed() -> ClockHistory {
        ClockHistory {
            anchor: Some(reading(START, "a", 1000.0)),
            trusted_at: Some(START),
            ..ClockHistory::default()
        }
    }

    fn votes(leads: &[f64]) -> Votes {
        Votes { leads: leads.to_vec(), has_senders: true }
    }

    fn of(reading: &ClockReading, history: &ClockHistory, leads: &[f64]) -> ClockJudgement {
        judge(reading, 0.1, history, &votes(leads), 1e6)
    }

    #[test]
    fn within_a_boot_the_monotonic_clock_decides() {
        let history = confirmed();
        let good = of(&reading(START + 10.0, "a", 1010.0), &history, &[0.5, -3.0, 2.0]);
        assert_eq!((good.state, good.is_anchor, good.agreeing), (ClockState::Trusted, true, 3));
        for off in [8.0 * DAY, 400.0 * DAY, -3600.0, -240.0, 300.0] {
            // Also where all senders moved alike, as by a wrong time server of the site.
            for leads in [[off, off, off], [0.0, 0.0, 0.0]] {
                let found = of(&reading(START + 10.0 + off, "a", 1010.0), &history, &leads);
                assert_eq!(found.state, ClockState::Jumped, "{off}");
                assert!((found.off.unwrap_or_default() - off).abs() < 1e-3);
                assert!((found.estimate - (START + 10.0)).abs() < 1e-3, "the time goes on");
            }
        }
        // It came back.
        assert_eq!(of(&reading(START + 90.0, "a", 1089.0), &history, &[1.0]).state, ClockState::Trusted);
        // A day later a clock without a time daemon is off by some seconds.
        assert_eq!(
            of(&reading(START + DAY + 70.0, "a", 1000.0 + DAY), &history, &[1.0]).state,
            ClockState::Trusted
        );
    }

    #[test]
    fn senders_that_are_off_alike_outvote_the_clock_and_one_does_not() {
        let (now, history) = (reading(START + 10.0, "a", 1010.0), confirmed());
        let behind = of(&now, &history, &[-240.0, -241.0, -239.0, 0.0]);
        assert_eq!((behind.state, behind.agreeing, behind.reporting), (ClockState::Outvoted, 1, 4));
        let reason = behind.reason.unwrap_or_default();
        assert_eq!(reason, "the clocks of 3 of 4 senders are 3 min 59 s ahead of it");
        // Each is off otherwise, or they are few: it is theirs.
        for leads in [&[-240.0, 5000.0, 9000.0][..], &[-240.0, -240.0], &[-240.0]] {
            let found = of(&now, &history, leads);
            assert_eq!((found.state, found.is_anchor), (ClockState::Trusted, false), "{leads:?}");
        }
        // What is ahead moves no watermark beyond the senders' time.
        let ahead = of(&now, &history, &[300.0, 300.0, 300.0]);
        assert!((ahead.estimate - (START - 290.0)).abs() < 1e-3);
    }

    #[test]
    fn over_a_boot_most_senders_decide() {
        let (week, history) = (reading(START + 7.0 * DAY, "b", 30.0), confirmed());
        let found = of(&week, &history, &[1.0, 2.0, 8.0 * DAY]);
        assert_eq!((found.state, found.is_anchor), (ClockState::Trusted, true), "a week off");
        let doubted = of(&week, &history, &[400.0 * DAY]);
        assert_eq!((doubted.state, doubted.estimate.to_bits()), (ClockState::Unconfirmed, START.to_bits()));
        assert_eq!(of(&week, &history, &[400.0 * DAY, 0.0]).state, ClockState::Unconfirmed);
        assert_eq!(of(&week, &history, &[400.0 * DAY; 3]).state, ClockState::Outvoted);
        let silent = of(&week, &history, &[]);
        assert_eq!((silent.state, silent.estimate.to_bits()), (ClockState::Unreported, START.to_bits()));
        // A clock without a battery begins in the past, and so does the only sender on the same machine.
        let past = reading(START - 300.0 * DAY, "b", 30.0);
        assert_eq!(of(&past, &history, &[0.0]).state, ClockState::Unconfirmed);
        assert_eq!(of(&past, &history, &[0.0; 3]).state, ClockState::Trusted);
    }

    #[test]
    fn nobody_is_warned_at_once_and_nothing_is_dropped_while_nobody_reports() {
        let (now, history) = (reading(START + 10.0, "a", 1010.0), confirmed());
        let early = judge(&now, 0.1, &history, &votes(&[]), 5.0);
        assert_eq!((early.state, early.state.is_doubted()), (ClockState::Waiting, false));
        assert_eq!(of(&now, &history, &[]).state, ClockState::Unreported);
        // A site that nobody has reported to yet goes on making what it makes.
        let new = judge(&now, 0.1, &ClockHistory::default(), &Votes::default(), 1e6);
        assert_eq!((new.state, new.estimate.to_bits()), (ClockState::Waiting, now.database.to_bits()));
    }

    #[test]
    fn what_somebody_accepts_is_believed_until_it_moves_again() {
        let at = reading(START + 8.0 * DAY, "a", 1010.0);
        let requested = ClockHistory { accept_requested_at: Some(at.database - 3.0), ..confirmed() };
        let leads = [8.0 * DAY; 4];
        let found = of(&at, &requested, &leads);
        assert_eq!((found.state, found.is_anchor), (ClockState::Trusted, true));
        let later = reading(at.database + 60.0, "a", 1070.0);
        let accepted =
            ClockHistory { anchor: Some(at.clone()), accepted_off: found.accepted_off, ..confirmed() };
        let found = of(&later, &accepted, &leads);
        assert_eq!((found.state, found.agreeing), (ClockState::Trusted, 4));
        // The senders are set right, or move elsewhere.
        assert_eq!(of(&later, &accepted, &[0.0; 4]).accepted_off, None);
        assert_eq!(of(&later, &accepted, &[-3.0 * DAY; 4]).state, ClockState::Outvoted);
        // An old word is no word.
        let old = ClockHistory { accept_requested_at: Some(at.database - 3600.0), ..confirmed() };
        assert_eq!(of(&at, &old, &leads).state, ClockState::Jumped);
    }

    #[test]
    fn spans_have_two_units() {
        let texts = [5.4, 240.0, -3660.0, 8.0 * DAY].map(span);
        assert_eq!(texts, ["5 s", "4 min 0 s", "1 h 1 min", "8 d 0 h"]);
    }
}
