//! Records of trace mode to rows.

use throughline_sample::RecordTimes;
use throughline_sample::wire::Batch;

use super::keys::{Keys, small};
use super::rows::Rows;
use crate::copy::{RowBuffer, stored};
use crate::tables::index;

impl Rows {
    /// Adds a batch's records of trace mode.
    pub(super) fn add_mpi_traces(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for trace in &batch.mpi_traces {
            let of = (keys.job(&trace.job_key)?, small(trace.rank, "rank")?, keys.node(&batch.node)?);
            for ((record, number), time) in trace.records.iter().zip(trace.number..).zip(trace.times()) {
                let row = &mut self.buffers[const { index("mpi_trace") }];
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
            for ((point, number), time) in clock.points.iter().zip(clock.number..).zip(clock.times()) {
                let row = &mut self.buffers[const { index("mpi_clock") }];
                begin(row, time, of, clock.epoch, number);
                for value in [point.time, point.offset, point.uncertainty, point.round_trip] {
                    row.int8(value);
                }
            }
        }
        Ok(())
    }
}

fn begin(row: &mut RowBuffer, time: i64, (job, rank, node): (i64, i32, i64), epoch: i64, number: u64) {
    row.row();
    row.time(time);
    row.int8(job);
    row.int4(rank);
    row.int8(node);
    row.time(epoch);
    row.int8(stored(number));
}

fn optional_int4(row: &mut RowBuffer, value: Option<i32>) {
    match value {
        Some(value) => row.int4(value),
        None => row.null(),
    }
}
