//! Traffic by operation in one rank's frames: judged, and with the names of what it numbers.

use super::{COMM_MAX, Rank};
use crate::ledger::{NamedCollective, RankId, Report};
use crate::operations::operation_name;
use crate::sampled_calls::NamedSample;
use crate::status::{Malformed, add};
use crate::traffic_frame::{Collective, Root, Sample, Traffic};

impl Rank {
    /// Which rank of its job it is.
    pub(crate) fn id(&self) -> RankId {
        (self.rank, self.start)
    }

    /// Traffic of the frame taken last.
    pub(crate) fn take_traffic(&mut self) -> Option<Report> {
        self.traffic.take()
    }

    pub(super) fn traffic_of(&self, time: i64, mut all: Vec<Traffic>) -> Result<Report, Malformed> {
        if all.iter().any(|entry| entry.peer >= self.world_size) {
            return Err(Malformed::Rank);
        }
        let before = all.len();
        all.retain(|entry| entry.operation == 0 || operation_name(entry.operation).is_some());
        add(&self.counters.unknown_operations, (before - all.len()) as u64);
        Ok(Report::Peers(time, all))
    }

    pub(super) fn collectives(&self, time: i64, all: &[Collective]) -> Result<Report, Malformed> {
        let is_beyond = |root| matches!(root, Root::Member(member) if member > COMM_MAX);
        if all.iter().any(|one| is_beyond(one.key.root)) {
            return Err(Malformed::Rank);
        }
        let named = all.iter().filter_map(|one| {
            let Some(operation) = operation_name(one.key.operation) else {
                add(&self.counters.unknown_operations, 1);
                return None;
            };
            let Some(algorithm) = self.names.algorithm(one.key.algorithm) else {
                add(&self.counters.unknown_names, 1);
                return None;
            };
            let (calls, bytes) = (one.calls, one.bytes);
            Some(NamedCollective { key: one.key, operation, algorithm: algorithm.into(), calls, bytes })
        });
        Ok(Report::Collectives(time, named.collect()))
    }

    pub(super) fn samples(&self, all: &[Sample]) -> Result<Report, Malformed> {
        let is_beyond = |root| matches!(root, Root::Member(member) if member > COMM_MAX);
        if all.iter().any(|one| is_beyond(one.key.root)) {
            return Err(Malformed::Rank);
        }
        // What has no name has been counted with the sums.
        let named = all.iter().filter_map(|one| {
            let operation = operation_name(one.key.operation)?;
            let algorithm = self.names.algorithm(one.key.algorithm)?.into();
            Some(NamedSample { sample: *one, operation, algorithm })
        });
        Ok(Report::Samples(named.collect()))
    }
}
