//! Wait states from the calls and messages of a trace, by Scalasca's definitions: a late sender's receiver waits from when it
//! entered the call until the sender entered its own, a late receiver's sender likewise, a member of an n-to-n collective until
//! the last one entered, of a broadcast until the root did, and a reduction's root until the last member did. Times are on
//! one clock, with what each may be wrong by: bounds are of it. What a call waits never exceeds the call.

use crate::collectives::is_from_root;
use crate::{Bounded, LastArrival, OperationWaits, Parts, RankWaits, WaitStates};
use std::collections::{BTreeMap, HashMap};

/// A call of a rank. Calls are named by their places in the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedCall {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// Begin, seconds on the clock of all.
    pub begin: f64,
    /// End.
    pub end: f64,
    /// Of collectives: the communicator.
    pub comm: Option<u64>,
    /// Of collectives with one: the root, in MPI_COMM_WORLD.
    pub root: Option<u32>,
    /// Times are not wrong by more, seconds, against those of other ranks.
    pub clock_error: f64,
}

/// A message, with the calls of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracedMessage {
    /// The call that sent it, or began to.
    pub send: usize,
    /// The call that posted its receive.
    pub receive: usize,
    /// The call in which the send completed; that which sent it, where it blocks.
    pub send_completed: Option<usize>,
    /// The call in which the receive completed.
    pub receive_completed: Option<usize>,
}

/// Who was the last at a collective.
struct Arrival {
    rank: u32,
    waited_seconds: f64,
}

/// Seconds that each call waited, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    late_sender: Wait,
    late_receiver: Wait,
    at_collective: Wait,
    late_root: Wait,
}

/// What a call waits for another one, by how the two clocks may be wrong against each other.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    seconds: f64,
    low: f64,
    high: f64,
}

impl Wait {
    /// The longest of several: they overlap.
    fn longest(&mut self, seconds: f64, error: f64) {
        self.seconds = self.seconds.max(seconds);
        self.low = self.low.max(seconds - error);
        self.high = self.high.max(seconds + error);
    }

    /// Within a call with `taken` seconds that are accounted for.
    fn within(self, elapsed: f64, taken: f64) -> Bounded {
        let most = (elapsed - taken).max(0.0);
        let [seconds, low, high] = [self.seconds, self.low, self.high].map(|one| one.clamp(0.0, most));
        Bounded::new(seconds, low, high)
    }
}

/// Wait states of all calls. Messages with a missing side and collectives with a missing member are left out: their
/// waiting counts as transfer. `members`: size of each communicator, where it is known.
#[must_use]
pub fn exact(calls: &[TracedCall], messages: &[TracedMessage], members: &HashMap<u64, u32>) -> WaitStates {
    let mut waits = vec![Waits::default(); calls.len()];
    messages.iter().for_each(|one| message(calls, one, &mut waits));
    let mut states =
        WaitStates { last_arrivals: collectives(calls, members, &mut waits), ..WaitStates::default() };
    let mut operations: BTreeMap<&str, Parts> = BTreeMap::new();
    let mut communicators: BTreeMap<(u64, &str), Parts> = BTreeMap::new();
    let mut ranks: BTreeMap<u32, Parts> = BTreeMap::new();
    for (call, waited) in calls.iter().zip(&waits) {
        let parts = parts_of(call, *waited);
        operations.entry(&call.operation).or_default().add(&parts);
        ranks.entry(call.rank).or_default().add(&parts);
        if let Some(comm) = call.comm {
            communicators.entry((comm, &call.operation)).or_default().add(&parts);
        }
    }
    let named = |operation: &str, group, group_size, parts| OperationWaits {
        operation: operation.to_owned(),
        group,
        group_size,
        parts,
    };
    states.operations = operations.into_iter().map(|(name, parts)| named(name, None, None, parts)).collect();
    let of_comm = |((comm, name), parts): ((u64, &str), Parts)| {
        named(name, Some(comm.cast_signed()), members.get(&comm).copied(), parts)
    };
    states.communicators = communicators.into_iter().map(of_comm).collect();
    states.ranks = ranks.into_iter().map(|(rank, parts)| RankWaits { rank, parts }).collect();
    states.sort();
    states
}

fn parts_of(call: &TracedCall, waited: Waits) -> Parts {
    let elapsed = (call.end - call.begin).max(0.0);
    // Several messages of one call overlap: it waits for the latest of them, at most all its time.
    let late_sender = waited.late_sender.within(elapsed, 0.0);
    let mut parts = Parts {
        calls: 1,
        elapsed,
        late_sender,
        late_receiver: waited.late_receiver.within(elapsed, late_sender.seconds),
        at_collective: waited.at_collective.within(elapsed, 0.0),
        late_root: waited.late_root.within(elapsed, 0.0),
        ..Parts::default()
    };
    parts.fill_transfer();
    parts
}

/// A receive waits from its begin, or from that of the Wait that completed it, until the send began.
fn message(calls: &[TracedCall], one: &TracedMessage, waits: &mut [Waits]) {
    let (Some(send), Some(receive)) = (calls.get(one.send), calls.get(one.receive)) else { return };
    let at = one.receive_completed.unwrap_or(one.receive);
    if let (Some(in_call), Some(waits)) = (calls.get(at), waits.get_mut(at)) {
        let waited = send.begin.min(in_call.end) - in_call.begin;
        waits.late_sender.longest(waited, send.clock_error + in_call.clock_error);
    }
    let at = one.send_completed.unwrap_or(one.send);
    if let (Some(in_call), Some(waits)) = (calls.get(at), waits.get_mut(at)) {
        // A send that returned before the receive was posted did not wait: it was buffered.
        if in_call.end >= receive.begin {
            let error = receive.clock_error + in_call.clock_error;
            waits.late_receiver.longest(receive.begin - in_call.begin, error);
        }
    }
}

/// The n-th call of an operation on a communicator is the same collective on all its members.
fn collectives(calls: &[TracedCall], members: &HashMap<u64, u32>, waits: &mut [Waits]) -> Vec<LastArrival> {
    let mut order: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].comm.is_some()).collect();
    order.sort_by(|one, other| calls[*one].begin.total_cmp(&calls[*other].begin));
    let mut counts: HashMap<(u64, u32), u32> = HashMap::new();
    let mut groups: HashMap<(u64, u32), Vec<usize>> = HashMap::new();
    for at in order {
        let Some(comm) = calls[at].comm else { continue };
        let count = counts.entry((comm, calls[at].rank)).or_default();
        groups.entry((comm, *count)).or_default().push(at);
        *count += 1;
    }
    let mut last: BTreeMap<(u64, String, u32), (u32, f64)> = BTreeMap::new();
    let mut all: BTreeMap<(u64, String), u32> = BTreeMap::new();
    for ((comm, _), at) in groups {
        let is_whole = members.get(&comm).is_none_or(|size| at.len() == *size as usize);
        let is_one = at.iter().all(|one| calls[*one].operation == calls[at[0]].operation);
        if !is_whole || !is_one || at.len() < 2 {
            continue;
        }
        let operation = &calls[at[0]].operation;
        *all.entry((comm, operation.clone())).or_default() += 1;
        if let Some(arrival) = collective(calls, &at, waits) {
            let sum = last.entry((comm, operation.clone(), arrival.rank)).or_default();
            sum.0 += 1;
            sum.1 += arrival.waited_seconds;
        }
    }
    let one = |((comm, operation, rank), (count, waited_seconds)): ((u64, String, u32), (u32, f64))| {
        let of = all.get(&(comm, operation.clone())).copied().unwrap_or(count);
        let share = f64::from(count) / f64::from(of);
        LastArrival { rank, operation, group: comm.cast_signed(), share, waited_seconds }
    };
    last.into_iter().map(one).collect()
}

/// One collective, by the places of its members' calls.
fn collective(calls: &[TracedCall], at: &[usize], waits: &mut [Waits]) -> Option<Arrival> {
    let last = at.iter().copied().max_by(|one, other| calls[*one].begin.total_cmp(&calls[*other].begin))?;
    let operation = calls[last].operation.as_str();
    let root = calls[last].root;
    let (from_root, to_root) =
        (is_from_root(operation), matches!(operation, "reduce" | "gather" | "gatherv"));
    let until = match root.filter(|_| from_root) {
        Some(root) => at.iter().copied().find(|one| calls[*one].rank == root)?,
        None => last,
    };
    let mut waited_seconds = 0.0;
    for one in at.iter().copied().filter(|one| *one != until) {
        if to_root && root.is_some_and(|root| calls[one].rank != root) {
            continue; // only the root needs the others
        }
        let waited = calls[until].begin.min(calls[one].end) - calls[one].begin;
        waited_seconds += waited.max(0.0);
        let place = if from_root { &mut waits[one].late_root } else { &mut waits[one].at_collective };
        place.longest(waited, calls[until].clock_error + calls[one].clock_error);
    }
    Some(Arrival { rank: calls[until].rank, waited_seconds })
}
