//! Collectives from sampled calls. All members of a communicator choose the same calls by their running number, so that the
//! times of one call are compared with one another and no clock is needed: all leave a collective that synchronizes at about
//! the same time, and who spent the least in it arrived last.

use crate::{Bounded, LastArrival, OperationWaits, Parts};
use std::collections::{BTreeMap, HashMap};

/// Standard errors on both sides of an estimate: 95 % of a normal distribution.
const ERRORS: f64 = 2.0;

/// One call of a collective on the ranks of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSample {
    /// Second in which it was reported, from any beginning: calls stand for those of their second.
    pub second: i64,
    /// The communicator's members, as a number that is the same for equal members.
    pub group: i64,
    /// Its members.
    pub group_size: u32,
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// Largest block of the size class, bytes.
    pub size_class_bytes: u64,
    /// Distinguishes calls that are counted apart: algorithm and root.
    pub cell: i64,
    /// Running number of the call among those of its group, operation, size class and cell.
    pub call: u64,
    /// The node's ranks that sampled it.
    pub ranks: u32,
    /// Time in it, summed over these ranks.
    pub seconds: f64,
    /// Time of the rank with the least.
    pub least_seconds: f64,
    /// That rank, in MPI_COMM_WORLD.
    pub least_rank: u32,
    /// How many calls it stands for, itself included: at least 1.
    pub weight: f64,
}

/// Samples of all nodes of the same calls; calls with a missing member are left out.
#[must_use]
pub fn merge(nodes: Vec<NodeSample>) -> Vec<NodeSample> {
    let mut calls: HashMap<(i64, String, u64, i64, u64), NodeSample> = HashMap::new();
    for one in nodes {
        let key = (one.group, one.operation.clone(), one.size_class_bytes, one.cell, one.call);
        match calls.get_mut(&key) {
            None => drop(calls.insert(key, one)),
            Some(all) => {
                all.ranks += one.ranks;
                all.seconds += one.seconds;
                all.weight = all.weight.max(one.weight);
                all.second = all.second.min(one.second);
                if one.least_seconds < all.least_seconds {
                    (all.least_seconds, all.least_rank) = (one.least_seconds, one.least_rank);
                }
            }
        }
    }
    let mut whole: Vec<NodeSample> =
        calls.into_values().filter(|one| one.ranks == one.group_size && one.group_size > 1).collect();
    whole.sort_by(|one, other| {
        (one.second, one.group, &one.operation, one.cell, one.call).cmp(&(
            other.second,
            other.group,
            &other.operation,
            other.cell,
            other.call,
        ))
    });
    whole
}

/// Whether members wait for the root alone, and not for one another.
pub(crate) fn is_from_root(operation: &str) -> bool {
    matches!(operation, "bcast" | "scatter" | "scatterv" | "ibcast" | "iscatter" | "iscatterv")
}

/// What calls of one kind add up to.
#[derive(Clone, Debug, Default)]
struct Sum {
    calls: f64,
    seconds: f64,
    waiting: f64,
    least: f64,
    /// Each call's seconds, waiting and weight.
    all: Vec<(f64, f64, f64)>,
}

impl Sum {
    fn add(&mut self, one: &NodeSample) {
        let waiting = waiting_of(one);
        self.calls += one.weight;
        self.seconds += one.weight * one.seconds;
        self.waiting += one.weight * waiting;
        self.least += one.weight * one.least_seconds;
        self.all.push((one.seconds, waiting, one.weight));
    }

    /// Part of the time that is waiting, with what sampling leaves open: the error of a ratio, without the calls that stand
    /// for themselves alone.
    fn share(&self) -> Bounded {
        if self.seconds <= 0.0 {
            return Bounded::default();
        }
        let share = self.waiting / self.seconds;
        let residual = |(seconds, waiting, weight): &(f64, f64, f64)| {
            weight * (weight - 1.0).max(0.0) * (waiting - share * seconds).powi(2)
        };
        let error = self.all.iter().map(residual).sum::<f64>().sqrt() / self.seconds;
        // Of one call that stands for others nothing is known of how these differ.
        let error = if self.all.len() < 2 && self.calls > 1.5 { 1.0 } else { ERRORS * error };
        Bounded { seconds: share, low: (share - error).max(0.0), high: (share + error).min(1.0) }
    }
}

fn waiting_of(one: &NodeSample) -> f64 {
    (one.seconds - f64::from(one.ranks) * one.least_seconds).max(0.0)
}

/// What sampled calls say of collectives.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    by_class: HashMap<(String, u64), Sum>,
    by_group: BTreeMap<(i64, String), (u32, Sum)>,
    last: BTreeMap<(i64, String, u32), (f64, f64)>,
    seconds: HashMap<String, f64>,
}

impl Sampled {
    /// Of calls that are whole (see [`merge`]).
    pub(crate) fn of(calls: &[NodeSample]) -> Self {
        let mut all = Self::default();
        for one in calls {
            all.by_class.entry((one.operation.clone(), one.size_class_bytes)).or_default().add(one);
            let group = all.by_group.entry((one.group, one.operation.clone())).or_default();
            group.0 = one.group_size;
            group.1.add(one);
            let last = all.last.entry((one.group, one.operation.clone(), one.least_rank)).or_default();
            last.0 += one.weight;
            last.1 += one.weight * waiting_of(one);
            *all.seconds.entry(one.operation.clone()).or_default() += one.weight * one.seconds;
        }
        all
    }

    /// Seconds of waiting in a class's calls, which took so long; `None` where none was sampled.
    pub(crate) fn waiting(&self, operation: &str, class: u64, elapsed: f64) -> Option<Bounded> {
        let sum = self.by_class.get(&(operation.to_owned(), class))?;
        Some(sum.share().scaled(elapsed))
    }

    /// Mean time of the last one's call, seconds.
    pub(crate) fn least(&self, operation: &str, class: u64) -> Option<f64> {
        let sum = self.by_class.get(&(operation.to_owned(), class))?;
        (sum.calls > 0.0).then(|| sum.least / sum.calls)
    }

    /// By communicator: `elapsed` says how long an operation took over all of them.
    pub(crate) fn communicators(&self, elapsed: &HashMap<String, f64>) -> Vec<OperationWaits> {
        let one = |((group, operation), (size, sum)): (&(i64, String), &(u32, Sum))| {
            let all = *self.seconds.get(operation)?;
            let scale = *elapsed.get(operation)? / all;
            let seconds = sum.seconds * scale;
            let mut parts = Parts {
                calls: (sum.calls * f64::from(*size)).round() as u64,
                elapsed: seconds,
                ..Parts::default()
            };
            *waiting_place(&mut parts, operation) = sum.share().scaled(seconds);
            parts.fill_transfer();
            let (group, group_size) = (Some(*group), Some(*size));
            Some(OperationWaits { operation: operation.clone(), group, group_size, parts })
        };
        self.by_group.iter().filter_map(one).collect()
    }

    /// Who arrived last. Of operations that begin at a root, only roots are waited for.
    pub(crate) fn last_arrivals(&self, elapsed: &HashMap<String, f64>) -> Vec<LastArrival> {
        let one = |((group, operation, rank), (calls, waited)): (&(i64, String, u32), &(f64, f64))| {
            let of = &self.by_group.get(&(*group, operation.clone()))?.1;
            let scale = *elapsed.get(operation)? / self.seconds.get(operation)?;
            let (operation, waited_seconds) = (operation.clone(), waited * scale);
            Some(LastArrival {
                rank: *rank,
                operation,
                group: *group,
                share: calls / of.calls,
                waited_seconds,
            })
        };
        self.last.iter().filter_map(one).collect()
    }
}

/// Which kind of waiting an operation's members do.
pub(crate) fn waiting_place<'a>(parts: &'a mut Parts, operation: &str) -> &'a mut Bounded {
    if is_from_root(operation) { &mut parts.late_root } else { &mut parts.at_collective }
}
