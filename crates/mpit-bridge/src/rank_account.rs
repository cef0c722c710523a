//! Where the time of a rank went: what its shim reported last, carried on to a reading of the kernel. Pure.
//!
//! The thread reads its own clock only at the ends of long stretches. The stretch since then is not over, and is added here: the time off
//! the processor since the last reading lies in it.

use crate::account_frame::Account;
use crate::member::RankKey;
use std::collections::HashMap;

/// The kernel's sums of a thread that runs are up to a tick old, and short stretches have no reading of their own: less than this
/// since the last one says nothing.
const LEAST_OFF_NANOSECONDS: i64 = 20_000_000;
/// Reports come a second apart; without one for so long a rank is silent.
const SILENT_NANOSECONDS: i64 = 2_500_000_000;

/// A rank's account has a record each second until it is so old, then at whole multiples of the second time in UTC.
const YOUNG_NANOSECONDS: i64 = 12_000_000_000;
const RECORD_NANOSECONDS: i64 = 10_000_000_000;

/// What the kernel reports of a thread at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelReading {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: i64,
    /// Processor time.
    pub cpu: u64,
    /// Time in which it could have run and waited for a processor.
    pub queued: u64,
    /// R, S, D, T and so on, of `/proc/PID/stat`.
    pub state: u8,
}

/// Why a thread was off the processor outside of MPI: how often it was found so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffSamples {
    pub file: u32,
    pub sleep: u32,
    pub lock: u32,
    pub stopped: u32,
    pub other: u32,
}

impl OffSamples {
    /// Counts a thread that does not run: its state, and the kernel function that it waits in, where the agent may read it.
    pub fn count(&mut self, state: u8, wait_channel: &str) {
        let of = match state {
            b'T' | b't' => &mut self.stopped,
            b'D' => &mut self.file,
            _ => match wait_channel {
                channel if channel.contains("futex") => &mut self.lock,
                channel if channel.contains("nanosleep") => &mut self.sleep,
                channel
                    if channel.contains("folio")
                        || channel.contains("bio")
                        || channel.contains("io_schedule") =>
                {
                    &mut self.file
                }
                _ => &mut self.other,
            },
        };
        *of = of.saturating_add(1);
    }
}

/// Sums since the end of `MPI_Init`, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountSums {
    pub elapsed: u64,
    pub in_mpi: u64,
    pub off_outside: u64,
    pub queued_outside: u64,
    pub off_inside: u64,
    pub queued_inside: u64,
}

/// What is known of a rank's account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankAccount {
    /// As reported last, on the agent's clock.
    pub reported: Account,
    /// The thread in the agent's PID namespace; `None` where it is not known.
    pub task: Option<u32>,
    pub samples: OffSamples,
    pub is_stopped: bool,
    /// UTC nanoseconds of its last record.
    pub recorded: i64,
}

impl RankAccount {
    /// Whether it has not reported for long at a time of CLOCK_MONOTONIC.
    pub fn is_silent(&self, now: i64) -> bool {
        now.saturating_sub(self.reported.time) > SILENT_NANOSECONDS
    }

    /// As of a reading, or of the report where there is none.
    pub fn at(&self, reading: Option<KernelReading>) -> AccountSums {
        let Account { began, open, time, .. } = self.reported;
        let now = reading.map_or(time, |reading| reading.time.max(time));
        let since = |from: i64| u64::try_from(now.saturating_sub(from)).unwrap_or(0);
        let elapsed = since(began);
        let in_call = open.map_or(0, since);
        let mut sums = AccountSums {
            elapsed,
            in_mpi: self.reported.in_mpi.saturating_add(in_call).min(elapsed),
            off_outside: self.reported.off_outside,
            queued_outside: self.reported.queued_outside,
            off_inside: self.reported.off_inside,
            queued_inside: self.reported.queued_inside,
        };
        if let Some((off, queued)) = reading.and_then(|reading| self.since_last(reading)) {
            let (off_sum, queued_sum) = if open.is_some() {
                (&mut sums.off_inside, &mut sums.queued_inside)
            } else {
                (&mut sums.off_outside, &mut sums.queued_outside)
            };
            *off_sum = off_sum.saturating_add(off);
            *queued_sum = queued_sum.saturating_add(queued);
        }
        sums.bounded()
    }

    /// Off the processor since the thread's last reading of its clock, and in a queue for one.
    fn since_last(&self, reading: KernelReading) -> Option<(u64, u64)> {
        let Account { read_time, read_cpu, read_queued, .. } = self.reported;
        let ran = i64::try_from(reading.cpu.saturating_sub(read_cpu)).unwrap_or(i64::MAX);
        let off = reading.time.saturating_sub(read_time).saturating_sub(ran);
        let off = u64::try_from(off).ok().filter(|_| off >= LEAST_OFF_NANOSECONDS)?;
        // The kernel adds a wait for a processor when it is over.
        let queued =
            if reading.state == b'R' { off } else { reading.queued.saturating_sub(read_queued).min(off) };
        Some((off, queued))
    }
}

impl AccountSums {
    /// No part is more than the whole that it is a part of.
    fn bounded(self) -> Self {
        let off_inside = self.off_inside.min(self.in_mpi);
        let off_outside = self.off_outside.min(self.elapsed - self.in_mpi);
        Self {
            off_outside,
            queued_outside: self.queued_outside.min(off_outside),
            off_inside,
            queued_inside: self.queued_inside.min(off_inside),
            ..self
        }
    }
}

/// The accounts of all ranks here that report one.
#[derive(Debug, Default)]
pub(crate) struct RankAccounts(HashMap<RankKey, RankAccount>);

impl RankAccounts {
    /// Takes a report that came at a time in UTC nanoseconds; gives the account if a record of it is due.
    pub fn report(
        &mut self,
        key: &RankKey,
        reported: Account,
        task: Option<u32>,
        now: i64,
    ) -> Option<RankAccount> {
        let account = self.0.entry(key.clone()).or_insert(RankAccount {
            reported,
            task,
            samples: OffSamples::default(),
            is_stopped: false,
            recorded: 0,
        });
        account.reported = reported;
        account.task = task;
        let is_young = reported.time.saturating_sub(reported.began) < YOUNG_NANOSECONDS;
        let is_due = now.div_euclid(RECORD_NANOSECONDS) != account.recorded.div_euclid(RECORD_NANOSECONDS);
        if !is_young && !is_due {
            return None;
        }
        account.recorded = now;
        Some(*account)
    }

    /// What is known of a rank.
    pub fn get(&self, key: &RankKey) -> Option<RankAccount> {
        self.0.get(key).copied()
    }

    /// Ranks that are outside of MPI, or silent, at a time of CLOCK_MONOTONIC: what they wait for is to be looked at.
    pub fn outside(&self, now: i64) -> Vec<(RankKey, Option<u32>)> {
        let outside =
            self.0.iter().filter(|(_, account)| account.reported.open.is_none() || account.is_silent(now));
        outside.map(|(key, account)| (key.clone(), account.task)).collect()
    }

    /// What such a rank was found in; whether it was stopped, or goes on, since the last time.
    pub fn found(&mut self, key: &RankKey, state: u8, wait_channel: &str) -> bool {
        let Some(account) = self.0.get_mut(key) else { return false };
        let is_stopped = matches!(state, b'T' | b't');
        if state != b'R' && (account.reported.open.is_none() || is_stopped) {
            account.samples.count(state, wait_channel);
        }
        std::mem::replace(&mut account.is_stopped, is_stopped) != is_stopped
    }

    /// The rank has ended.
    pub fn end(&mut self, key: &RankKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn account(open: Option<i64>) -> RankAccount {
        let reported = Account {
            time: 20 * SECOND,
            began: 10 * SECOND,
            open: open.map(|second| second * SECOND),
            in_mpi: 2_000_000_000,
            read_time: 15 * SECOND,
            read_cpu: 100_000_000_000,
            read_queued: 50_000_000_000,
            off_outside: 1_000_000_000,
            queued_outside: 400_000_000,
            off_inside: 300_000_000,
            queued_inside: 200_000_000,
            ..Account::default()
        };
        RankAccount { reported, task: None, samples: OffSamples::default(), is_stopped: false, recorded: 0 }
    }

    fn reading(second: i64, cpu: u64, queued: u64, state: u8) -> Option<KernelReading> {
        Some(KernelReading { time: second * SECOND, cpu, queued, state })
    }

    #[test]
    fn what_is_open_belongs_to_what_it_is_in() {
        // It ran for two of six seconds since its last reading, and waited for a processor for one.
        let outside = account(None).at(reading(21, 102_000_000_000, 51_000_000_000, b'S'));
        assert_eq!((outside.elapsed, outside.in_mpi), (11_000_000_000, 2_000_000_000));
        assert_eq!((outside.off_outside, outside.queued_outside), (5_000_000_000, 1_400_000_000));
        assert_eq!(outside.off_inside, 300_000_000);
        let inside = account(Some(16)).at(reading(21, 102_000_000_000, 51_000_000_000, b'S'));
        assert_eq!((inside.in_mpi, inside.off_inside), (7_000_000_000, 4_300_000_000));
        assert_eq!((inside.queued_inside, inside.off_outside), (1_200_000_000, 1_000_000_000));
    }

    #[test]
    fn a_wait_for_a_processor_that_goes_on_is_one() {
        let waiting = account(None).at(reading(21, 102_000_000_000, 50_000_000_000, b'R'));
        assert_eq!((waiting.off_outside, waiting.queued_outside), (5_000_000_000, 4_400_000_000));
    }

    #[test]
    fn little_says_nothing_and_nothing_is_more_than_the_whole() {
        let ran = account(None).at(reading(21, 105_990_000_000, 50_000_000_000, b'R'));
        assert_eq!(ran.off_outside, 1_000_000_000, "10 ms");
        assert_eq!(account(Some(16)).at(None).elapsed, 10_000_000_000, "as it reported");
        let mut wrong = account(None);
        wrong.reported.in_mpi = u64::MAX;
        let bounded = wrong.at(None);
        assert_eq!((bounded.in_mpi, bounded.off_outside), (bounded.elapsed, 0));
        assert!(account(None).is_silent(23 * SECOND) && !account(None).is_silent(22 * SECOND));
    }

    #[test]
    fn records_are_close_at_first() {
        let mut accounts = RankAccounts::default();
        let key = RankKey { pid: 7, start_ticks: None, epoch: 3 };
        let mut records = Vec::new();
        for second in 11..=100 {
            let reported = Account { time: second * SECOND, ..account(None).reported };
            records.extend(accounts.report(&key, reported, Some(7), second * SECOND).map(|_| second));
        }
        assert_eq!(records[..11], (11..=21).collect::<Vec<i64>>());
        assert_eq!(records[11..], [30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(accounts.outside(100 * SECOND), [(key.clone(), Some(7))]);
        assert!(!accounts.found(&key, b'S', "hrtimer_nanosleep") && accounts.found(&key, b'T', ""));
        assert!(accounts.get(&key).unwrap().is_stopped && !accounts.found(&key, b'T', ""));
        assert!(accounts.found(&key, b'R', "0"), "it goes on");
        assert_eq!(
            accounts.get(&key).unwrap().samples,
            OffSamples { sleep: 1, stopped: 2, ..OffSamples::default() }
        );
        let inside = Account { open: Some(100 * SECOND), time: 100 * SECOND, ..account(None).reported };
        accounts.report(&key, inside, Some(7), 101 * SECOND);
        assert!(accounts.outside(101 * SECOND).is_empty() && accounts.outside(103 * SECOND).len() == 1);
        accounts.end(&key);
        assert!(accounts.get(&key).is_none());
    }

    #[test]
    fn why_it_is_off() {
        let mut samples = OffSamples::default();
        for (state, channel) in [
            (b'T', "do_signal_stop"),
            (b'S', "hrtimer_nanosleep"),
            (b'S', "futex_do_wait"),
            (b'D', "0"),
            (b'S', "folio_wait_bit"),
            (b'S', "0"),
        ] {
            samples.count(state, channel);
        }
        assert_eq!(samples, OffSamples { file: 2, sleep: 1, lock: 1, stopped: 1, other: 1 });
    }
}
