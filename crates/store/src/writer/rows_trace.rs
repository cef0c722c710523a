//! Records of trace mode to rows.

use throughline_sample::wire::{Batch, MpiRankClock, MpiRankTrace};

use super::keys::{Keys, small};
use super::rows::{MPI_CLOCK, MPI_TRACE, Rows, stored};
use crate::copy::RowBuffer;

/// UTC of each record, as its node had it.
pub(super) fn trace_times(trace: &MpiRankTrace) -> impl Iterator<Item = i64> {
    trace.records.iter().map(|record| record.start.saturating_add(trace.utc_offset))
}

/// UTC of each comparison, as its node had it.
pub(super) fn clock_times(clock: &MpiRankClock) -> impl Iterator<Item = i64> {
    clock.points.iter().map(|point| point.time.saturating_add(clock.utc_offset))
}

impl Rows {
    /// Adds a batch's records of trace mode.
    pub(super) fn add_mpi_traces(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for trace in &batch.mpi_traces {
            let of = (keys.job(&trace.job_key)?, small(trace.rank, "rank")?, keys.node(&batch.node)?);
            for ((record, number), time) in trace.records.iter().zip(trace.number..).zip(trace_times(trace)) {
                let row = &mut self.buffers[MPI_TRACE];
                begin(row, time, of, trace.epoch, number);
                row.int4(small(record.thread, "thread")?);
                for text in [&record.kind, &record.operation, &record.region] {
                    row.text(text);
                }
                row.int8(record.start);
                row.int8(record.start.saturating_add(stored(record.nanoseconds)));
                optional_int4(row, record.peer.map(|peer| small(peer, "peer")).transpose()?);
                optional_int4(row, record.tag);
                row.int8(stored(record.bytes));
                row.optional_int8((record.comm != 0).then(|| record.comm.cast_signed()));
                row.optional_int8(record.sequence.map(Into::into));
            }
        }
        for clock in &batch.mpi_clocks {
            let of = (keys.job(&clock.job_key)?, small(clock.rank, "rank")?, keys.node(&batch.node)?);
            for ((point, number), time) in clock.points.iter().zip(clock.number..).zip(clock_times(clock)) {
                let row = &mut self.buffers[MPI_CLOCK];
                begin(row, time, of, clock.epoch, number);
                for value in [point.time, point.offset, point.uncertainty, point.round_trip] {
                    row.int8(value);
                }
            }
        }
        Ok(())
    }
}

fn begin(row: &mut RowBuffer, time: i64, (job, rank, node): (i64, i32, i32), epoch: i64, number: u64) {
    row.row();
    row.time(time);
    row.int8(job);
    row.int4(rank);
    row.int4(node);
    row.time(epoch);
    row.int8(stored(number));
}

fn optional_int4(row: &mut RowBuffer, value: Option<i32>) {
    match value {
        Some(value) => row.int4(value),
        None => row.null(),
    }
}
