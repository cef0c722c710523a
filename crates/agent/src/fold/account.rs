//! Where the time of a job's ranks on this node went, summed over them: as of the ends of intervals, from readings that come just after
//! these. Ranks have readings each second at first, and then each ten.

use throughline_sample::wire::{MpiAccountSums, MpiNodeAccount, MpiRankScheduling};

/// A reading belongs to an interval whose end is at most so long before it: ranks report at whole seconds.
const AFTER_EDGE_NANOSECONDS: i64 = 700_000_000;
/// A report may come a little before the whole second that it is of.
const BEFORE_SECOND_NANOSECONDS: i64 = 300_000_000;
const SECOND_NANOSECONDS: i64 = 1_000_000_000;

/// Sums that a reading has: elapsed, in MPI, off the processor outside and the part of it in a queue, the same inside, throttled.
const READ: usize = 7;
/// What a thread waits for: in a file, asleep, at a lock, stopped.
const REASONS: usize = 4;

type Sums = [i64; READ + REASONS];

/// A reading of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    time: i64,
    sums: [i64; READ],
    /// By reason, and of what else it was found in.
    samples: [i64; REASONS + 1],
}

impl Reading {
    /// `None` where the rank's shim reports no account.
    fn of(record: &MpiRankScheduling) -> Option<Self> {
        let sum = |nanoseconds: u64| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        let sums = [
            record.elapsed_nanoseconds?,
            record.mpi_nanoseconds?,
            record.off_outside_nanoseconds?,
            record.queued_outside_nanoseconds?,
            record.off_inside_nanoseconds?,
            record.queued_inside_nanoseconds.unwrap_or_default(),
            record.throttled_nanoseconds.unwrap_or_default(),
        ];
        let samples = [
            record.file_samples,
            record.sleep_samples,
            record.lock_samples,
            record.stopped_samples,
            record.other_samples,
        ];
        Some(Self { time: record.time, sums: sums.map(sum), samples: samples.map(i64::from) })
    }
}

/// What one rank has read, and the node's sums do not have yet.
#[derive(Debug, Default)]
pub(super) struct RankAccount {
    /// The newest one that belongs to the open interval.
    now: Option<Reading>,
    /// One of the next.
    next: Option<Reading>,
    folded: Option<Reading>,
    /// Off the processor since it was found so last, and how.
    off: i64,
    samples: [i64; REASONS + 1],
}

impl RankAccount {
    /// Takes a reading; `edge` is the end of the open interval.
    pub fn take(&mut self, record: &MpiRankScheduling, edge: i64) {
        let Some(reading) = Reading::of(record) else { return };
        if reading.time <= edge.saturating_add(AFTER_EDGE_NANOSECONDS) {
            self.now = Some(reading);
        } else {
            self.next = Some(reading);
        }
    }

    /// Adds to the node's sums what came since the last time, of an interval that ends: of a rank that has ended all there is.
    pub fn fold(&mut self, is_late: bool, has_ended: bool, of_node: &mut NodeAccount) {
        if has_ended {
            self.now = self.next.take().or(self.now);
        }
        if let Some(now) = self.now.filter(|now| self.folded.as_ref() != Some(now)) {
            self.grow(&now, is_late, of_node);
            of_node.newest = of_node.newest.max(now.time);
            of_node.has_grown = true;
        }
        self.now = self.next.take().or(self.now);
    }

    fn grow(&mut self, now: &Reading, is_late: bool, of_node: &mut NodeAccount) {
        let is_before = is_late && self.folded.is_none();
        let folded = self.folded.replace(*now).unwrap_or_default();
        let sums = if is_before { &mut of_node.before } else { &mut of_node.grown };
        for (at, sum) in sums.iter_mut().take(READ).enumerate() {
            *sum = sum.saturating_add(now.sums[at].saturating_sub(folded.sums[at]));
        }
        let off = |reading: &Reading| reading.sums[2].saturating_sub(reading.sums[3]);
        self.off = self.off.saturating_add(off(now).saturating_sub(off(&folded)));
        for (at, samples) in self.samples.iter_mut().enumerate() {
            *samples += now.samples[at] - folded.samples[at];
        }
        let all: i64 = self.samples.iter().sum();
        // Few samples of one interval may be of another reason than most of its time; over many intervals the parts are right.
        if all == 0 {
            return;
        }
        for (sum, samples) in sums.iter_mut().skip(READ).zip(self.samples) {
            let part = i128::from(self.off) * i128::from(samples) / i128::from(all);
            *sum = sum.saturating_add(i64::try_from(part).unwrap_or(0));
        }
        (self.off, self.samples) = (0, [0; REASONS + 1]);
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        let held = [&mut self.now, &mut self.next, &mut self.folded];
        held.into_iter().flatten().for_each(|reading| reading.time = reading.time.saturating_add(step));
    }
}

/// The sums of a job's ranks here.
#[derive(Debug, Default)]
pub(super) struct NodeAccount {
    /// Since the node began to count the job.
    grown: Sums,
    /// What ranks had then that had begun before.
    before: Sums,
    /// Of the newest reading.
    newest: i64,
    has_grown: bool,
}

impl NodeAccount {
    /// Whether its newest sums are in no record yet.
    pub fn is_due(&self) -> bool {
        self.has_grown
    }

    /// For a record of a time; `None` where one has all that is known.
    pub fn record(&mut self, time: i64) -> Option<MpiNodeAccount> {
        if !std::mem::take(&mut self.has_grown) {
            return None;
        }
        let second = self.newest.saturating_add(BEFORE_SECOND_NANOSECONDS).div_euclid(SECOND_NANOSECONDS);
        let behind = time.saturating_sub(second.saturating_mul(SECOND_NANOSECONDS));
        Some(MpiNodeAccount {
            behind_nanoseconds: u64::try_from(behind).unwrap_or(0),
            grown: Some(record(&self.grown)),
            before: self.before.iter().any(|sum| *sum != 0).then(|| record(&self.before)),
        })
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        self.newest = self.newest.saturating_add(step);
    }
}

fn record(sums: &Sums) -> MpiAccountSums {
    // A stretch that is not over may turn out to be of another line, and is then taken out of the first.
    let [
        elapsed,
        mpi,
        off_outside,
        queued_outside,
        off_inside,
        queued_inside,
        throttled,
        file,
        sleep,
        lock,
        stopped,
    ] = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
    MpiAccountSums {
        elapsed_nanoseconds: elapsed,
        mpi_nanoseconds: mpi,
        off_outside_nanoseconds: off_outside,
        queued_outside_nanoseconds: queued_outside,
        off_inside_nanoseconds: off_inside,
        queued_inside_nanoseconds: queued_inside,
        throttled_nanoseconds: throttled,
        file_nanoseconds: file,
        sleep_nanoseconds: sleep,
        lock_nanoseconds: lock,
        stopped_nanoseconds: stopped,
    }
}
