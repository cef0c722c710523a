//! Time in MPI that was waiting for other ranks, in seconds: for a sender, a receiver, the last rank at a collective, a root.
//!
//! Two ways lead to [`WaitStates`]. [`estimate`] takes what is always recorded: sums by rank, operation and size class, and
//! single calls of collectives that all their members sampled. [`exact`] takes the calls and messages of a trace, whose clocks an
//! [`Alignment`] lines up. Both are
//! pure: nothing here knows where its input comes from. Seconds are summed over ranks, and where a rank has several threads,
//! over these.

mod alignment;
mod collectives;
mod counters;
mod estimate;
mod exact;
mod messages;
mod traced;

pub use alignment::{AlignedTime, Alignment, Point, Step};
pub use collectives::{NodeSample, merge};
pub use counters::{Counters, RankOperation};
pub use estimate::estimate;
pub use exact::{TracedCall, TracedMessage, exact};
pub use traced::{TracedRecord, calls_and_messages};

use serde::{Deserialize, Serialize};

/// Seconds, with the least and the most that they can be. The three are equal where they are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    /// The most probable value.
    pub seconds: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

impl Bounded {
    /// A value that is known.
    #[must_use]
    pub fn exact(seconds: f64) -> Self {
        Self { seconds, low: seconds, high: seconds }
    }

    /// In order and not below 0, whatever the three are.
    #[must_use]
    pub fn new(seconds: f64, low: f64, high: f64) -> Self {
        let seconds = seconds.max(0.0);
        Self { seconds, low: low.clamp(0.0, seconds), high: high.max(seconds) }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.low += other.low;
        self.high += other.high;
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { seconds: self.seconds * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// Where the time of MPI calls went, seconds. The kinds of waiting and [`Self::transfer`] add up to [`Self::elapsed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Calls; of nonblocking operations those that began them.
    pub calls: u64,
    /// Time inside: of nonblocking operations also that in Wait and Test calls that completed them.
    pub elapsed: f64,
    /// A receive, or its Wait, before the message was sent.
    pub late_sender: Bounded,
    /// A send, or its Wait, before the receive was posted.
    pub late_receiver: Bounded,
    /// A collective before its last member arrived.
    pub at_collective: Bounded,
    /// A member of a broadcast or scatter before its root arrived.
    pub late_root: Bounded,
    /// Wait and Test calls in which the transfer itself went on, as nothing drove it before.
    pub progress: Bounded,
    /// What remains: the transfer, and the work of the library.
    pub transfer: Bounded,
}

impl Parts {
    /// All kinds of waiting for other ranks; without [`Self::progress`], which nobody else causes.
    #[must_use]
    pub fn waiting(&self) -> Bounded {
        let mut sum = self.late_sender;
        sum.add(self.late_receiver);
        sum.add(self.at_collective);
        sum.add(self.late_root);
        sum
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.elapsed += other.elapsed;
        self.late_sender.add(other.late_sender);
        self.late_receiver.add(other.late_receiver);
        self.at_collective.add(other.at_collective);
        self.late_root.add(other.late_root);
        self.progress.add(other.progress);
        self.transfer.add(other.transfer);
    }

    /// What of the time none of the others is.
    pub(crate) fn fill_transfer(&mut self) {
        let waiting = self.waiting();
        let left = |waited: f64, driven: f64| (self.elapsed - waited - driven).max(0.0);
        self.transfer = Bounded::new(
            left(waiting.seconds, self.progress.seconds),
            left(waiting.high, self.progress.high),
            left(waiting.low, self.progress.low),
        );
    }
}

/// The calls of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationWaits {
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// The communicator's members, as a number that is the same for equal members; absent in sums over all.
    pub group: Option<i64>,
    /// Members of that group.
    pub group_size: Option<u32>,
    /// Seconds summed over ranks.
    pub parts: Parts,
}

/// The calls of a rank, all operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankWaits {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Seconds.
    pub parts: Parts,
}

/// How often a rank was the last one at a communicator's collectives of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastArrival {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// The communicator's members, as in [`OperationWaits`].
    pub group: i64,
    /// Part of the calls in which it arrived last, 0 to 1.
    pub share: f64,
    /// Seconds that the others waited for it, summed over them.
    pub waited_seconds: f64,
}

/// What of the time in MPI was waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitStates {
    /// By operation, all communicators; the one with most waiting first.
    pub operations: Vec<OperationWaits>,
    /// Collectives by operation and communicator, as far as it is known.
    pub communicators: Vec<OperationWaits>,
    /// By rank, in their order.
    pub ranks: Vec<RankWaits>,
    /// Who arrived last, the one that others waited for the longest first.
    pub last_arrivals: Vec<LastArrival>,
}

impl WaitStates {
    /// All operations together.
    #[must_use]
    pub fn total(&self) -> Parts {
        let mut sum = Parts::default();
        self.operations.iter().for_each(|one| sum.add(&one.parts));
        sum
    }

    pub(crate) fn sort(&mut self) {
        let by_waiting = |one: &OperationWaits, other: &OperationWaits| {
            let key = |one: &OperationWaits| one.parts.waiting().seconds;
            key(other).total_cmp(&key(one)).then_with(|| one.operation.cmp(&other.operation))
        };
        self.operations.sort_by(by_waiting);
        self.communicators.sort_by(by_waiting);
        self.ranks.sort_by_key(|one| one.rank);
        self.last_arrivals.sort_by(|one, other| {
            other.waited_seconds.total_cmp(&one.waited_seconds).then(one.rank.cmp(&other.rank))
        });
    }
}
