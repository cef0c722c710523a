//! Single calls of collectives, as the members of a group on this node sampled them: folded into one record for each group,
//! operation, size class and ten seconds, however many ranks the node has. Pure.

use crate::layouts::blocking;
use crate::traffic_frame::{Root, Sample};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_sample::catalogue::MPI_CALLS;
use throughline_sample::wire::{MpiSampledCall, MpiSampledCalls};

/// Records of a job in a round; those with most time go first. A program has a few collectives in its loop.
const RECORDS_MAX: usize = 64;
/// Calls in memory of a job, of all records, of some 60 bytes: 64 cells of 8 calls a second for 32 seconds.
const CALLS_MAX: usize = 16_384;
/// Longest time between two sets of records, seconds; they come at its whole multiples in UTC on all nodes, so that calls are whole in
/// whatever time is read.
pub(crate) const SECONDS_MAX: i64 = 10;

/// A sample with the names of what it numbers.
#[derive(Debug)]
pub(crate) struct NamedSample {
    pub sample: Sample,
    pub operation: &'static str,
    /// Empty where it is not known.
    pub algorithm: Arc<str>,
}

/// Members of a group, as they are named beyond this node.
#[derive(Clone, Debug)]
pub(crate) struct GroupName {
    /// The same for equal members, in all processes.
    pub hash: i64,
    pub size: u32,
    /// For people.
    pub members: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    group: i64,
    operation: &'static str,
    size_class: u16,
    cell: i64,
}

#[derive(Debug)]
struct Calls {
    name: GroupName,
    by_number: BTreeMap<u64, MpiSampledCall>,
}

/// What was sampled since the last records of a job.
#[derive(Debug, Default)]
pub(crate) struct SampledCalls {
    cells: HashMap<Key, Calls>,
    count: usize,
}

/// Mixes a number into a hash (FNV-1a, by bytes).
pub(crate) fn mix(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What an FNV-1a hash begins with.
pub(crate) const HASH_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

/// Calls that are counted apart: by algorithm and root, whose numbers are the sender's own and the group's.
fn cell_of(algorithm: &str, root: Root) -> i64 {
    let root = match root {
        Root::None => u64::MAX,
        Root::Own => u64::MAX - 1,
        Root::Member(member) => u64::from(member),
    };
    mix(mix(HASH_BEGIN, algorithm.as_bytes()), &root.to_le_bytes()).cast_signed()
}

impl SampledCalls {
    /// Adds what a rank sampled in one of its groups.
    pub fn add(&mut self, rank: u32, one: &NamedSample, name: GroupName) {
        let sample = &one.sample;
        // Only blocking ones say when others arrived.
        if blocking(one.operation) != one.operation || self.count >= CALLS_MAX {
            return;
        }
        let cell = cell_of(&one.algorithm, sample.key.root);
        let key = Key { group: name.hash, operation: one.operation, size_class: sample.key.size_class, cell };
        let calls = self.cells.entry(key).or_insert_with(|| Calls { name, by_number: BTreeMap::new() });
        let nanoseconds = MPI_CALLS.width.reduce(sample.nanoseconds);
        let call = calls.by_number.entry(sample.call).or_insert_with(|| {
            self.count += 1;
            MpiSampledCall { call: sample.call, least_nanoseconds: u64::MAX, ..MpiSampledCall::default() }
        });
        call.ranks += 1;
        call.elapsed_nanoseconds =
            MPI_CALLS.width.reduce(call.elapsed_nanoseconds.saturating_add(nanoseconds));
        call.level = call.level.max(sample.level.into());
        if nanoseconds < call.least_nanoseconds {
            (call.least_nanoseconds, call.least_rank) = (nanoseconds, rank);
        }
    }

    /// Records of all that was added since the last time.
    pub fn records(&mut self, job_key: &str, time: i64) -> Vec<MpiSampledCalls> {
        self.count = 0;
        let all = std::mem::take(&mut self.cells).into_iter().map(|(key, calls)| MpiSampledCalls {
            time,
            job_key: job_key.to_owned(),
            comm_group: key.group,
            group_size: calls.name.size,
            members: calls.name.members.to_string(),
            operation: key.operation.to_owned(),
            size_class_bytes: if key.size_class == 0 { 0 } else { 1 << (key.size_class - 1) },
            cell: key.cell,
            calls: calls.by_number.into_values().collect(),
        });
        let mut all: Vec<MpiSampledCalls> = all.collect();
        let seconds = |one: &MpiSampledCalls| -> u64 {
            one.calls
                .iter()
                .map(|call| call.elapsed_nanoseconds << call.level.min(16))
                .fold(0, u64::saturating_add)
        };
        all.sort_by_key(|one| std::cmp::Reverse((seconds(one), one.comm_group, one.cell)));
        all.truncate(RECORDS_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_frame::CollectiveKey;

    fn sample(call: u64, nanoseconds: u64, level: u16) -> NamedSample {
        let key = CollectiveKey { group: 3, operation: 1, size_class: 4, algorithm: 0, root: Root::None };
        let sample = Sample { key, level, call, nanoseconds };
        NamedSample { sample, operation: "allreduce", algorithm: "".into() }
    }

    fn name() -> GroupName {
        GroupName { hash: -5, size: 4, members: "0-3".into() }
    }

    #[test]
    fn calls_of_the_nodes_ranks_are_one_record() {
        let mut sampled = SampledCalls::default();
        for (rank, call, nanoseconds) in [(0, 8, 500), (1, 8, 90), (0, 13, 70), (1, 13, 800)] {
            sampled.add(rank, &sample(call, nanoseconds, 2), name());
        }
        let records = sampled.records("job", 7);
        assert_eq!(records.len(), 1);
        let one = &records[0];
        assert_eq!((one.comm_group, one.group_size, one.size_class_bytes, one.time), (-5, 4, 8, 7));
        let calls: Vec<_> =
            one.calls.iter().map(|c| (c.call, c.ranks, c.elapsed_nanoseconds, c.least_rank)).collect();
        assert_eq!(calls, [(8, 2, 590, 1), (13, 2, 870, 0)]);
        assert_eq!((one.calls[0].least_nanoseconds, one.calls[0].level), (90, 2));
        assert!(sampled.records("job", 8).is_empty());
    }

    #[test]
    fn what_begins_and_goes_on_is_not_compared_and_memory_is_bounded() {
        let mut sampled = SampledCalls::default();
        sampled.add(0, &NamedSample { operation: "iallreduce", ..sample(1, 1, 0) }, name());
        assert!(sampled.records("job", 7).is_empty());
        (0..2 * CALLS_MAX as u64).for_each(|call| sampled.add(0, &sample(call, 1, 0), name()));
        assert_eq!(sampled.records("job", 7)[0].calls.len(), CALLS_MAX);
        assert_ne!(cell_of("ring", Root::None), cell_of("", Root::None));
        assert_ne!(cell_of("", Root::Member(0)), cell_of("", Root::None));
    }
}
