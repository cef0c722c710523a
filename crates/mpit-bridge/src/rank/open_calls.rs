//! Open calls in one rank's frames: judged, and with the names of what they number.

use super::{COMM_MAX, Rank, Times};
use crate::open_frame::{OpenCall, OpenCalls, OpenOn};
use crate::operations::operation_name;
use crate::status::{Malformed, add};
use throughline_sample::wire::{Batch, MpiOpenCall};

impl Rank {
    pub(super) fn open_calls(
        &mut self,
        time: i64,
        open: OpenCalls,
        times: &Times,
    ) -> Result<Vec<MpiOpenCall>, Malformed> {
        let is_beyond = |peer: Option<u32>| peer.is_some_and(|peer| peer >= self.world_size);
        if open.calls.iter().any(|call| is_beyond(call.peer) || is_beyond(call.oldest_peer)) {
            return Err(Malformed::Rank);
        }
        let reported = times.utc(time);
        if !self.is_admitted(reported, times) {
            return Ok(Vec::new());
        }
        let in_calls = u32::try_from(open.calls.len()).unwrap_or(u32::MAX);
        let (elsewhere, to_come) = (open.threads.saturating_sub(in_calls), open.threads_to_come);
        let call = |call| {
            let call = self.open_call(reported, call, times)?;
            Some(MpiOpenCall {
                threads_elsewhere: elsewhere.min(COMM_MAX),
                threads_to_come: to_come.min(COMM_MAX),
                ..call
            })
        };
        let calls = open.calls.into_iter().filter_map(call).collect();
        Ok(self.open_calls.take(reported, calls))
    }

    fn open_call(&self, time: i64, call: OpenCall, times: &Times) -> Option<MpiOpenCall> {
        let Some(operation) = operation_name(call.operation) else {
            add(&self.counters.unknown_operations, 1);
            return None;
        };
        let small = |number: u32| Some(number).filter(|number| *number <= COMM_MAX);
        let oldest = operation_name(call.oldest_request).filter(|_| call.pending_requests > 0);
        Some(MpiOpenCall {
            time,
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            thread: u32::from(call.thread),
            operation: operation.to_owned(),
            // It is in this run of MPI, whatever the clocks say.
            start: times.utc(call.start).clamp(self.start.min(time), time),
            has_returned: false,
            is_on_world: call.on == OpenOn::World,
            comm: if let OpenOn::Named(number) = call.on { small(number) } else { None },
            comm_size: call.comm_size.and_then(small),
            peer: call.peer,
            pending_requests: call.pending_requests.min(COMM_MAX),
            oldest_request: oldest.unwrap_or_default().to_owned(),
            tag: call.tag,
            is_from_any: call.is_from_any,
            requests: call.requests.min(COMM_MAX),
            oldest_peer: call.oldest_peer.filter(|_| oldest.is_some()),
            oldest_tag: call.oldest_tag.filter(|_| oldest.is_some()),
            threads_elsewhere: 0,
            threads_to_come: 0,
        })
    }

    /// What it was in as it reported last, if it is gone without a word.
    pub(crate) fn lose(&mut self) -> Batch {
        Batch { mpi_open_calls: self.open_calls.lose(), ..Batch::default() }
    }
}
