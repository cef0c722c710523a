//! Wait states from what is always recorded.

use crate::collectives::{Sampled, waiting_place};
use crate::counters::{Counters, RankOperation};
use crate::messages::{Messages, side_of};
use crate::{Bounded, OperationWaits, Parts, RankWaits, WaitStates};
use std::collections::{BTreeMap, HashMap};

/// Completes requests: its time belongs to the operations that began them.
fn is_completion(operation: &str) -> bool {
    matches!(
        operation,
        "wait" | "waitall" | "waitany" | "waitsome" | "test" | "testall" | "testany" | "testsome"
    )
}

/// Operations in which all members of a communicator take part.
fn is_collective(operation: &str) -> bool {
    let name = operation.strip_suffix("_init").unwrap_or(operation);
    let name = name.strip_prefix('i').unwrap_or(name);
    const STEMS: [&str; 8] =
        ["barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce"];
    STEMS.iter().any(|stem| name.starts_with(stem)) || name == "scan" || name == "exscan"
}

/// Estimates wait states. Collectives follow their sampled calls, and where there are none the rank that spends the least
/// (which misses ranks that are late in turn: then the most that it can be is far above). Messages: `messages.rs`. An operation
/// of another kind (files, windows, neighbourhoods) is all transfer.
#[must_use]
pub fn estimate(counters: &Counters) -> WaitStates {
    let messages = Messages::of(&counters.operations);
    let sampled = Sampled::of(&counters.samples);
    let mut operations: BTreeMap<String, Parts> = BTreeMap::new();
    let mut ranks: BTreeMap<u32, Parts> = BTreeMap::new();
    let mut book = |one: &RankOperation, parts: &Parts| {
        operations.entry(one.operation.clone()).or_default().add(parts);
        ranks.entry(one.rank).or_default().add(parts);
    };
    let mut collectives: BTreeMap<(String, u64), Vec<&RankOperation>> = BTreeMap::new();
    for one in &counters.operations {
        if is_completion(&one.operation) {
            continue;
        }
        if let Some(side) = side_of(&one.operation) {
            book(one, &messages.parts(one, side));
        } else if is_collective(&one.operation) {
            collectives.entry((one.operation.clone(), one.size_class_bytes)).or_default().push(one);
        } else {
            let mut parts = Parts { calls: one.calls, elapsed: one.elapsed(), ..Parts::default() };
            parts.fill_transfer();
            book(one, &parts);
        }
    }
    let mut elapsed: HashMap<String, f64> = HashMap::new();
    for ((operation, class), members) in &collectives {
        *elapsed.entry(operation.clone()).or_default() +=
            members.iter().map(|one| one.elapsed()).sum::<f64>();
        for (one, parts) in members.iter().zip(parts_of_members(operation, *class, members, &sampled)) {
            book(one, &parts);
        }
    }
    let of_operation =
        |(operation, parts)| OperationWaits { operation, group: None, group_size: None, parts };
    let mut states = WaitStates {
        operations: operations.into_iter().map(of_operation).collect(),
        communicators: sampled.communicators(&elapsed),
        ranks: ranks.into_iter().map(|(rank, parts)| RankWaits { rank, parts }).collect(),
        last_arrivals: sampled.last_arrivals(&elapsed),
    };
    states.sort();
    states
}

/// Where the time of each rank in one collective operation and class went.
fn parts_of_members(operation: &str, class: u64, all: &[&RankOperation], sampled: &Sampled) -> Vec<Parts> {
    let seconds: f64 = all.iter().map(|one| one.elapsed()).sum();
    let is_begun = all.iter().any(|one| one.wait_seconds.is_some());
    let mean = |one: &&RankOperation| one.elapsed() / (one.calls as f64).max(1.0);
    let fastest = all.iter().map(mean).fold(f64::INFINITY, f64::min);
    let least = sampled.least(operation, class).filter(|_| !is_begun).unwrap_or(fastest);
    let own: Vec<f64> = all.iter().map(|one| (one.elapsed() - one.calls as f64 * least).max(0.0)).collect();
    let of_own: f64 = own.iter().sum();
    let waiting = sampled.waiting(operation, class, seconds).filter(|_| !is_begun).unwrap_or_else(|| {
        let transfer = |one: &&RankOperation| one.least_seconds.unwrap_or(0.0).min(one.elapsed());
        let high = if is_begun { seconds } else { seconds - all.iter().map(transfer).sum::<f64>() };
        Bounded::new(of_own, of_own, high)
    });
    let members = all.iter().zip(&own).map(|(one, own)| {
        let mut parts = Parts { calls: one.calls, elapsed: one.elapsed(), ..Parts::default() };
        // The members' parts of what all waited.
        let part = if of_own > 0.0 { own / of_own } else { 0.0 };
        let within = |seconds: f64| (seconds * part).min(parts.elapsed);
        // Whose the rest would be nobody knows.
        let open =
            if seconds > 0.0 { (waiting.high - waiting.seconds) * parts.elapsed / seconds } else { 0.0 };
        let waited = within(waiting.seconds);
        let waited = Bounded::new(waited, within(waiting.low), waited + open);
        if is_begun {
            // The fastest one's wait is the collective itself, which nobody drove before.
            let driven = one.wait_seconds.unwrap_or(0.0).min(parts.elapsed - waited.seconds);
            parts.progress = Bounded::new(driven, 0.0, one.wait_seconds.unwrap_or(0.0));
        }
        *waiting_place(&mut parts, operation.trim_end_matches("_init")) = waited;
        parts.fill_transfer();
        parts
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_apart() {
        for name in ["barrier", "iallreduce", "reduce_scatter_block_init", "alltoallw", "exscan", "igatherv"]
        {
            assert!(is_collective(name), "{name}");
        }
        for name in ["send", "init", "improbe", "neighbor_alltoall", "get", "file_open", "isend"] {
            assert!(!is_collective(name), "{name}");
        }
    }
}
