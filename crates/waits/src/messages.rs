//! Point-to-point messages from sums: what a side spends beyond the faster one is waiting for it.
//!
//! Only sums by rank, operation and size class are known, not which send belongs to which receive. A message's transfer is
//! at most the faster side's mean time of its class. Within this bound it is taken from the shortest calls, one of each bin
//! of 0.1 s: on whichever side some of these did not wait. Where all receives wait, the shortest receive is no measure, and
//! the sends are; where the library buffers, sends return at once, and the shortest receive of any class, at most
//! [`FLOOR_MAX`], is the least that counts as transfer. Nonblocking messages that both sides wait for at once are progress.

use crate::counters::RankOperation;
use crate::{Bounded, Parts};
use std::collections::BTreeMap;

/// Longest time of a message that is taken for an undelayed one only because no other receive was shorter: what MPI libraries
/// buffer, up to some 64 KiB, takes less over InfiniBand (a microsecond or two, and its bytes at 12 GB/s).
const FLOOR_MAX: f64 = 10e-6;

/// Sides of a message, and calls that are neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
    /// Sends and receives in one call.
    Both,
    /// Blocks until a message can be received.
    Probe,
}

/// The side of an operation; `None` for those that are no message. Buffered sends wait for nobody.
pub(crate) fn side_of(operation: &str) -> Option<Side> {
    match operation {
        "send" | "ssend" | "rsend" | "isend" | "issend" | "irsend" | "send_init" | "ssend_init"
        | "rsend_init" | "psend_init" => Some(Side::Send),
        "recv" | "irecv" | "mrecv" | "imrecv" | "recv_init" | "precv_init" => Some(Side::Receive),
        "sendrecv" | "sendrecv_replace" | "isendrecv" | "isendrecv_replace" => Some(Side::Both),
        "probe" | "mprobe" => Some(Side::Probe),
        _ => None,
    }
}

/// Times of one side in one size class.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Calls whose sides both block.
    calls: f64,
    seconds: f64,
    /// Each call as long as the shortest one of its bin.
    shortest_sum: f64,
    /// Calls where that is known.
    with_shortest: f64,
    /// Nonblocking: calls, and time in Wait and Test.
    begun: f64,
    wait_seconds: f64,
    /// The least of the ranks' mean waits.
    least_wait: Option<f64>,
}

impl Times {
    fn add(&mut self, one: &RankOperation) {
        let calls = one.calls as f64;
        if let Some(waited) = one.wait_seconds {
            self.begun += calls;
            self.wait_seconds += waited;
            let mean = waited / calls.max(1.0);
            self.least_wait = Some(self.least_wait.map_or(mean, |least| least.min(mean)));
            return;
        }
        self.calls += calls;
        self.seconds += one.elapsed_seconds;
        if let Some(sum) = one.least_seconds {
            self.shortest_sum += sum;
            self.with_shortest += calls;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| self.seconds / self.calls)
    }

    fn typical(&self) -> Option<f64> {
        (self.with_shortest > 0.0).then(|| self.shortest_sum / self.with_shortest)
    }

    fn mean_wait(&self) -> Option<f64> {
        (self.begun > 0.0).then(|| self.wait_seconds / self.begun)
    }
}

/// What one message of a class takes without waiting, seconds: the estimate, and bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    blocking: Bounded,
    /// Of a nonblocking one, what both sides wait for at once.
    progress: Bounded,
}

/// Times of all messages.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    classes: BTreeMap<u64, [Times; 3]>,
    /// The class of the shortest receives.
    floor: f64,
}

fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::min)
}

fn place(side: Side) -> usize {
    match side {
        Side::Send => 0,
        Side::Receive => 1,
        Side::Both | Side::Probe => 2,
    }
}

impl Messages {
    pub(crate) fn of(all: &[RankOperation]) -> Self {
        let mut messages = Self::default();
        for one in all {
            let Some(side) = side_of(&one.operation).filter(|side| *side != Side::Probe) else { continue };
            messages.classes.entry(one.size_class_bytes).or_default()[place(side)].add(one);
        }
        messages.floor = least(messages.classes.values().map(|class| class[1].typical())).unwrap_or(0.0);
        messages.floor = messages.floor.min(FLOOR_MAX);
        messages
    }

    fn transfer(&self, class: u64) -> Transfer {
        let Some([send, receive, both]) = self.classes.get(&class) else { return Transfer::default() };
        let sides = if send.calls > 0.0 || receive.calls > 0.0 { [*send, *receive] } else { [*both, *both] };
        // Where one side is nonblocking, or offers a larger buffer, the other one's own calls are all that is known.
        let high = least(sides.map(|side| side.mean())).unwrap_or(0.0);
        let low = least(sides.map(|side| side.typical())).unwrap_or(0.0);
        let sent = sides[0].typical().map(|sent| sent.max(self.floor));
        let typical = least([sides[1].typical(), sent]).unwrap_or(high);
        let high = high.max(self.floor.min(typical));
        let blocking = Bounded::new(typical.min(high), low, high);
        let sides = if send.begun > 0.0 || receive.begun > 0.0 { [*send, *receive] } else { [*both, *both] };
        let high = least(sides.map(|side| side.mean_wait())).unwrap_or(0.0);
        let driven = least(sides.map(|side| side.least_wait)).map_or(high, |least| least.min(high));
        Transfer { blocking, progress: Bounded::new(driven, 0.0, high) }
    }

    /// Where the time of one rank's calls went.
    pub(crate) fn parts(&self, one: &RankOperation, side: Side) -> Parts {
        let mut parts = Parts { calls: one.calls, elapsed: one.elapsed(), ..Parts::default() };
        if side == Side::Probe {
            parts.late_sender = Bounded::new(parts.elapsed, 0.0, parts.elapsed);
            parts.fill_transfer();
            return parts;
        }
        let (transfer, calls) = (self.transfer(one.size_class_bytes), one.calls as f64);
        let waiting = match one.wait_seconds {
            Some(waited) => {
                let of = |each: f64| (waited - calls * each).max(0.0);
                let progress = transfer.progress;
                let driven = |each: f64| waited.min(calls * each);
                parts.progress =
                    Bounded::new(driven(progress.seconds), driven(progress.low), driven(progress.high));
                Bounded::new(of(progress.seconds), of(progress.high), of(progress.low))
            }
            None => {
                let of = |each: f64| (one.elapsed_seconds - calls * each).max(0.0);
                let transfer = transfer.blocking;
                Bounded::new(of(transfer.seconds), of(transfer.high), of(transfer.low))
            }
        };
        match side {
            Side::Send => parts.late_receiver = waiting,
            _ => parts.late_sender = waiting,
        }
        parts.fill_transfer();
        parts
    }
}
