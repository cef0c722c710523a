//! Where the time of ranks went, in lines that add up to all of it: outside of MPI by what the rank's thread did, in MPI by what is
//! known of its calls. Seconds, summed over ranks.
//!
//! Outside is measured: the thread that called `MPI_Init` reads its own clock at the ends of long stretches, and the kernel counts how
//! long it waited for a core. Why it was off the processor else is a share of samples, one a second. What of the time in MPI was waiting
//! is estimated (docs/WAITS.md), so that the lines in MPI have wide bounds on a node that is short of cores.

use crate::statistics::number;

/// Lines of a part of a run.
pub const STEP_LINES: usize = 9;

/// From so many samples on a reason has a share.
const SAMPLES_MIN: u32 = 2;

/// What a rank's thread did since the end of `MPI_Init`, seconds. The first five are outside of MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// All of it.
    pub elapsed: f64,
    /// On a processor.
    pub computing: f64,
    /// Could have run, and waited for a core.
    pub queued: f64,
    /// Off the processor for another reason.
    pub off: f64,
    /// Why, as it was found.
    pub found: OffReasons,
    /// In MPI.
    pub mpi: f64,
    /// Off the processor in MPI, waiting for a core included.
    pub off_in_mpi: f64,
    /// Of this, could have run and waited for a core.
    pub queued_in_mpi: f64,
    /// The least of all waits for a core that a CPU quota made; 0 without a quota.
    pub throttled: f64,
}

/// How often a thread was found off the processor outside of MPI, by what it waited in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffReasons {
    /// Reading or writing a file.
    pub file: u32,
    /// Asleep until a time.
    pub sleep: u32,
    /// At a lock or condition.
    pub lock: u32,
    /// Stopped by a signal.
    pub stopped: u32,
    /// Anything else, and what may not be read.
    pub other: u32,
}

impl OffReasons {
    fn all(self) -> u32 {
        self.file + self.sleep + self.lock + self.stopped + self.other
    }

    /// How often it was found in what a line is of.
    fn of(self, line: AccountLine) -> u32 {
        match line {
            AccountLine::InFile => self.file,
            AccountLine::Asleep => self.sleep,
            AccountLine::AtLock => self.lock,
            AccountLine::Stopped => self.stopped,
            _ => self.other,
        }
    }

    /// The one that was found most often, for people; `None` where none is known.
    #[must_use]
    pub fn most(self) -> Option<&'static str> {
        let of = [
            (self.file, "in a file"),
            (self.sleep, "asleep"),
            (self.lock, "at a lock"),
            (self.stopped, "stopped by a signal"),
        ];
        let (count, name) = of.into_iter().max_by_key(|(count, _)| *count)?;
        (count >= SAMPLES_MIN && count * 2 > self.all()).then_some(name)
    }
}

/// What is known of the time in MPI of some ranks, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MpiTimes {
    /// Waiting for other ranks: the most probable value, the least and the most.
    pub waiting: (f64, f64, f64),
    /// In calls that only begin something.
    pub starting: f64,
    /// In calls that have not returned: nobody knows what they wait for.
    pub open: f64,
}

/// A line of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountLine {
    /// On a processor, outside of MPI.
    Computing,
    /// Could have run, and waited for a core, outside of MPI.
    WaitingForCore,
    /// The same, as a CPU quota was used up.
    Throttled,
    /// Off the processor outside of MPI, in a file.
    InFile,
    /// Asleep until a time.
    Asleep,
    /// At a lock or condition.
    AtLock,
    /// Stopped by a signal.
    Stopped,
    /// Off the processor outside of MPI, for a reason that is not known.
    OffProcessor,
    /// In MPI, before another rank was there.
    WaitingForRanks,
    /// In MPI, off the processor for longer than it waited for other ranks.
    PartnerWithoutCore,
    /// In calls that only begin something.
    StartingMessages,
    /// In calls that have not returned.
    InOpenCalls,
    /// What remains of the time in MPI.
    MovingData,
    /// All time in MPI, where it is not known what was waiting.
    InMpi,
}

impl AccountLine {
    /// As in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::WaitingForCore => "waiting_for_core",
            Self::Throttled => "throttled",
            Self::InFile => "in_file",
            Self::Asleep => "asleep",
            Self::AtLock => "at_lock",
            Self::Stopped => "stopped",
            Self::OffProcessor => "off_processor",
            Self::WaitingForRanks => "waiting_for_ranks",
            Self::PartnerWithoutCore => "partner_without_core",
            Self::StartingMessages => "starting_messages",
            Self::InOpenCalls => "in_open_calls",
            Self::MovingData => "moving_data",
            Self::InMpi => "in_mpi",
        }
    }
}

/// What lines have in common: the first three are outside of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountGroup {
    /// On a processor.
    Computing,
    /// Could have run, and no core was free.
    WaitingForCore,
    /// Off the processor for another reason.
    OffProcessor,
    /// In a call of MPI.
    InMpi,
}

impl AccountGroup {
    /// As in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::WaitingForCore => "waiting_for_core",
            Self::OffProcessor => "off_processor",
            Self::InMpi => "in_mpi",
        }
    }
}

impl AccountLine {
    /// What it belongs to.
    #[must_use]
    pub fn group(self) -> AccountGroup {
        match self {
            Self::Computing => AccountGroup::Computing,
            Self::WaitingForCore | Self::Throttled => AccountGroup::WaitingForCore,
            Self::InFile | Self::Asleep | Self::AtLock | Self::Stopped | Self::OffProcessor => {
                AccountGroup::OffProcessor
            }
            Self::WaitingForRanks
            | Self::PartnerWithoutCore
            | Self::StartingMessages
            | Self::InOpenCalls
            | Self::MovingData
            | Self::InMpi => AccountGroup::InMpi,
        }
    }
}

/// Seconds of a line, with the least and the most that they can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineSeconds {
    /// Which.
    pub line: AccountLine,
    /// The most probable value. Those of all lines add up to the elapsed time.
    pub seconds: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// The lines of some ranks, in the order of [`AccountLine`], those without any time left out.
#[must_use]
pub fn account(ranks: &[RankTimes], mpi: Option<MpiTimes>) -> Vec<LineSeconds> {
    let sum = |of: fn(&RankTimes) -> f64| ranks.iter().map(of).sum::<f64>();
    let mut lines = vec![known(AccountLine::Computing, sum(|rank| rank.computing))];
    lines.extend(queue_lines(ranks));
    lines.extend(off_lines(ranks));
    lines.extend(mpi_lines(sum(|rank| rank.mpi), sum(|rank| rank.off_in_mpi), mpi));
    lines.retain(|line| line.high > 0.0);
    lines
}

fn known(line: AccountLine, seconds: f64) -> LineSeconds {
    LineSeconds { line, seconds, low: seconds, high: seconds }
}

/// Waits for a core outside of MPI, and what of them a quota made.
fn queue_lines(ranks: &[RankTimes]) -> [LineSeconds; 2] {
    let none = |line| LineSeconds { line, seconds: 0.0, low: 0.0, high: 0.0 };
    let (mut waiting, mut throttled) = (none(AccountLine::WaitingForCore), none(AccountLine::Throttled));
    for rank in ranks {
        let (low, likely, high) = rank.throttled_outside();
        throttled.seconds += likely;
        throttled.low += low;
        throttled.high += high;
        waiting.seconds += rank.queued - likely;
        waiting.low += rank.queued - high;
        waiting.high += rank.queued - low;
    }
    [waiting, throttled]
}

/// Why ranks were off the processor: each rank's time by its own samples.
fn off_lines(ranks: &[RankTimes]) -> Vec<LineSeconds> {
    use AccountLine::{Asleep, AtLock, InFile, OffProcessor, Stopped};
    let reasons = [InFile, Asleep, AtLock, Stopped, OffProcessor];
    let line = |line: AccountLine| {
        let mut sum = LineSeconds { line, seconds: 0.0, low: 0.0, high: 0.0 };
        for rank in ranks {
            let all = rank.found.all();
            let (share, error) = if all < SAMPLES_MIN {
                (if line == AccountLine::OffProcessor { 1.0 } else { 0.0 }, 1.0)
            } else {
                (f64::from(rank.found.of(line)) / f64::from(all), 1.0 / f64::from(all).sqrt())
            };
            sum.seconds += rank.off * share;
            sum.low += rank.off * (share - error).max(0.0);
            sum.high += rank.off * if share > 0.0 { (share + error).min(1.0) } else { 0.0 };
        }
        sum
    };
    reasons.into_iter().map(line).collect()
}

fn mpi_lines(all: f64, off: f64, mpi: Option<MpiTimes>) -> Vec<LineSeconds> {
    let Some(MpiTimes { waiting: (waiting, low, high), starting, open }) = mpi else {
        return vec![known(AccountLine::InMpi, all)];
    };
    // Sums of calls are of all threads, and of another moment.
    let waiting = waiting.min(all);
    let (low, high) = (low.min(waiting), high.clamp(waiting, all));
    // In calls that have not returned a thread may be off the processor all the time.
    let open = open.min(all - waiting);
    let without_core = (off - waiting - open).clamp(0.0, all - waiting - open);
    let starting = starting.min(all - waiting - open - without_core);
    let moving = all - waiting - open - without_core - starting;
    vec![
        LineSeconds { line: AccountLine::WaitingForRanks, seconds: waiting, low, high },
        LineSeconds {
            line: AccountLine::PartnerWithoutCore,
            seconds: without_core,
            low: (off - high - open).max(0.0).min(without_core),
            high: (off - low).max(without_core).min(all),
        },
        known(AccountLine::StartingMessages, starting),
        known(AccountLine::InOpenCalls, open),
        LineSeconds {
            line: AccountLine::MovingData,
            seconds: moving,
            low: (all - high - open - without_core - starting).clamp(0.0, moving),
            high: (all - low - open - without_core - starting).max(moving),
        },
    ]
}

/// The lines of some ranks' time in a part of their run, given their sums, and how many seconds off the processor were in a file, asleep, at a
/// lock and stopped. The time in MPI is one line.
#[must_use]
pub fn step_lines(times: &RankTimes, reasons: [f64; 4]) -> [(AccountLine, f64); STEP_LINES] {
    let throttled = times.throttled_outside().1;
    let [file, sleep, lock, stopped] = reasons;
    [
        (AccountLine::Computing, times.computing),
        (AccountLine::WaitingForCore, times.queued - throttled),
        (AccountLine::Throttled, throttled),
        (AccountLine::InFile, file),
        (AccountLine::Asleep, sleep),
        (AccountLine::AtLock, lock),
        (AccountLine::Stopped, stopped),
        (AccountLine::OffProcessor, (times.off - reasons.iter().sum::<f64>()).max(0.0)),
        (AccountLine::InMpi, times.mpi),
    ]
}

/// The mean of some ranks.
#[must_use]
pub(crate) fn mean<'a>(ranks: impl Iterator<Item = &'a RankTimes> + Clone) -> RankTimes {
    let count = number(ranks.clone().count()).max(1.0);
    let of = |of: fn(&RankTimes) -> f64| ranks.clone().map(of).sum::<f64>() / count;
    RankTimes {
        elapsed: of(|rank| rank.elapsed),
        computing: of(|rank| rank.computing),
        queued: of(|rank| rank.queued),
        off: of(|rank| rank.off),
        found: OffReasons::default(),
        mpi: of(|rank| rank.mpi),
        off_in_mpi: of(|rank| rank.off_in_mpi),
        queued_in_mpi: of(|rank| rank.queued_in_mpi),
        throttled: of(|rank| rank.throttled),
    }
}

impl RankTimes {
    /// Of all seconds, those in MPI and those off the processor outside of it, and what of the latter was waiting for a core.
    #[must_use]
    pub fn of(elapsed: f64, mpi: f64, off_outside: f64, queued: f64) -> Self {
        Self {
            elapsed,
            computing: (elapsed - mpi - off_outside).max(0.0),
            queued,
            off: (off_outside - queued).max(0.0),
            mpi,
            ..Self::default()
        }
    }

    /// The same parts of another time: readings of ranks' clocks and sums of their calls are of different moments.
    #[must_use]
    pub fn in_seconds(self, elapsed: f64) -> Self {
        let factor = if self.elapsed > 0.0 { elapsed / self.elapsed } else { 0.0 };
        Self {
            elapsed: self.elapsed * factor,
            computing: self.computing * factor,
            queued: self.queued * factor,
            off: self.off * factor,
            found: self.found,
            mpi: self.mpi * factor,
            off_in_mpi: self.off_in_mpi * factor,
            queued_in_mpi: self.queued_in_mpi * factor,
            throttled: self.throttled * factor,
        }
    }

    /// With those of another rank; why it was off the processor stays that of the first.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            elapsed: self.elapsed + other.elapsed,
            computing: self.computing + other.computing,
            queued: self.queued + other.queued,
            off: self.off + other.off,
            found: self.found,
            mpi: self.mpi + other.mpi,
            off_in_mpi: self.off_in_mpi + other.off_in_mpi,
            queued_in_mpi: self.queued_in_mpi + other.queued_in_mpi,
            throttled: self.throttled + other.throttled,
        }
    }

    /// What a quota made of the waits for a core outside of MPI: at least, most probably, at most. How a group's threads share what is
    /// left of a quota is not counted.
    fn throttled_outside(&self) -> (f64, f64, f64) {
        if self.throttled <= 0.0 {
            return (0.0, 0.0, 0.0);
        }
        let all = self.queued + self.queued_in_mpi;
        let likely = self.throttled.min(all) * self.queued / all.max(f64::MIN_POSITIVE);
        ((self.throttled - self.queued_in_mpi).clamp(0.0, likely), likely, self.queued)
    }

    /// Outside of MPI.
    #[must_use]
    pub fn outside(&self) -> f64 {
        self.computing + self.queued + self.off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank() -> RankTimes {
        let found = OffReasons { file: 3, sleep: 1, ..OffReasons::default() };
        RankTimes {
            elapsed: 100.0,
            computing: 40.0,
            queued: 10.0,
            off: 8.0,
            found,
            mpi: 42.0,
            off_in_mpi: 15.0,
            queued_in_mpi: 5.0,
            throttled: 0.0,
        }
    }

    fn seconds(lines: &[LineSeconds], line: AccountLine) -> f64 {
        lines.iter().find(|one| one.line == line).map_or(0.0, |one| one.seconds)
    }

    #[test]
    fn lines_add_up() {
        for mpi in [
            None,
            Some(MpiTimes { waiting: (10.0, 5.0, 20.0), starting: 2.0, open: 0.0 }),
            Some(MpiTimes { waiting: (10.0, 5.0, 20.0), starting: 2.0, open: 30.0 }),
            Some(MpiTimes { waiting: (500.0, 5.0, 600.0), starting: 200.0, open: 100.0 }),
        ] {
            let lines = account(&[rank(), rank()], mpi);
            let sum: f64 = lines.iter().map(|line| line.seconds).sum();
            assert!((sum - 200.0).abs() < 1e-9, "{sum} {lines:?}");
            assert!(
                lines.iter().all(|line| line.low <= line.seconds && line.seconds <= line.high),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn what_a_quota_made_is_at_least_its_part() {
        let lines = account(&[RankTimes { throttled: 9.0, ..rank() }], None);
        let of = |line| lines.iter().find(|one| one.line == line).unwrap();
        let (throttled, waiting) = (of(AccountLine::Throttled), of(AccountLine::WaitingForCore));
        assert_eq!((throttled.low, throttled.seconds, throttled.high), (4.0, 6.0, 10.0));
        assert_eq!((waiting.low, waiting.seconds, waiting.high), (0.0, 4.0, 6.0));
        assert_eq!(lines.iter().map(|line| line.seconds).sum::<f64>(), 100.0);
    }

    #[test]
    fn reasons_are_shares_of_samples() {
        let lines = account(&[rank()], None);
        assert_eq!((seconds(&lines, AccountLine::InFile), seconds(&lines, AccountLine::Asleep)), (6.0, 2.0));
        assert_eq!(seconds(&lines, AccountLine::InMpi), 42.0);
        assert_eq!(rank().found.most(), Some("in a file"));
        let once = RankTimes { found: OffReasons { file: 1, ..OffReasons::default() }, ..rank() };
        assert_eq!(
            seconds(&account(&[once], None), AccountLine::OffProcessor),
            8.0,
            "one sample says nothing"
        );
        assert_eq!(once.found.most(), None);
    }

    #[test]
    fn off_in_calls_beyond_waiting_is_a_partner_without_a_core() {
        let times = MpiTimes { waiting: (10.0, 5.0, 20.0), starting: 2.0, open: 0.0 };
        let lines = account(&[rank()], Some(times));
        assert_eq!(seconds(&lines, AccountLine::PartnerWithoutCore), 5.0);
        assert_eq!(seconds(&lines, AccountLine::MovingData), 25.0);
        let without = lines.iter().find(|one| one.line == AccountLine::PartnerWithoutCore).unwrap();
        assert_eq!((without.low, without.high), (0.0, 10.0));
        let hangs = account(&[rank()], Some(MpiTimes { open: 30.0, ..times }));
        assert_eq!(seconds(&hangs, AccountLine::InOpenCalls), 30.0);
        assert_eq!(seconds(&hangs, AccountLine::MovingData), 0.0);
    }
}
