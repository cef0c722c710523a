//! Records of trace mode in one rank's frames: judged, numbered, and with the names of what they number.

use super::{Rank, Times};
use crate::operations::operation_name;
use crate::status::{Malformed, add};
use crate::trace::{Comparisons, Kind, Point, Record, Trace};
use throughline_sample::admission::Rejection;
use throughline_sample::wire::{MpiRankClock, MpiRankTrace, MpiTraceRecord};

impl Rank {
    /// Records of trace mode, each run of admitted ones with its number: what was rejected shows as a gap.
    pub(super) fn trace(&mut self, mut trace: Trace, times: &Times) -> Result<Vec<MpiRankTrace>, Malformed> {
        if trace.records.iter().any(|record| record.peer.is_some_and(|peer| peer >= self.world_size)) {
            return Err(Malformed::Rank);
        }
        self.counters.rejected(Rejection::Number, trace.cut_after_end(&mut self.trace_ended));
        let is_admitted = |record: &Record| self.is_admitted(times.utc(record.start), times);
        let runs = self.runs(trace.number, trace.records, is_admitted);
        let traces = runs.map(|(number, records)| MpiRankTrace {
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            utc_offset: times.offset,
            number,
            records: records.into_iter().map(|record| self.trace_record(record)).collect(),
        });
        Ok(traces.collect())
    }

    /// Runs of admitted ones among numbered records.
    fn runs<T>(
        &self,
        first: u64,
        records: Vec<T>,
        is_admitted: impl Fn(&T) -> bool,
    ) -> impl Iterator<Item = (u64, Vec<T>)> {
        let mut runs: Vec<(u64, Vec<T>)> = Vec::new();
        // Numbers are stored as signed ones.
        if first.saturating_add(records.len() as u64) > i64::MAX as u64 {
            self.counters.rejected(Rejection::Number, records.len() as u64);
            return runs.into_iter();
        }
        let mut follows = false;
        for (number, record) in (first..).zip(records) {
            let is_taken = is_admitted(&record);
            match runs.last_mut() {
                _ if !is_taken => {}
                Some((_, run)) if follows => run.push(record),
                _ => runs.push((number, vec![record])),
            }
            follows = is_taken;
        }
        runs.into_iter()
    }

    /// Nothing is left out, as that would shift the numbers of what follows.
    fn trace_record(&self, record: Record) -> MpiTraceRecord {
        let region = self.names.region(record.region).unwrap_or_default();
        let operation = operation_name(record.operation).unwrap_or_else(|| {
            if record.kind != Kind::End {
                add(&self.counters.unknown_operations, 1);
            }
            ""
        });
        record.to_wire(operation, &region)
    }

    /// Comparisons of clocks, each run of admitted ones with its number.
    pub(super) fn comparisons(&self, all: Comparisons, times: &Times) -> Vec<MpiRankClock> {
        let is_admitted = |point: &Point| self.is_admitted(times.utc(point.time), times);
        let runs = self.runs(all.number, all.points, is_admitted);
        let clocks = runs.map(|(number, points)| MpiRankClock {
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            utc_offset: times.offset,
            number,
            points: points.into_iter().map(Into::into).collect(),
        });
        clocks.collect()
    }
}
