//! What a sender may store: each record of a decoded batch by itself, by its content and by whom it came from.
//!
//! A record that is rejected is taken out and counted, with the reason; the rest of its batch is stored. What only the
//! database knows (whose a GPU, a job or a rank is) the store judges when it writes. Pure: the time comes from the
//! caller.

mod content;
mod measure;
mod scope;

use std::time::Duration;

use throughline_sample::admission::{FUTURE, Rejection, TimeWindow};
use throughline_sample::wire::Batch;
use throughline_store::RecordRejection;

pub(crate) use measure::{Measure, measure};

/// How old a record may be that is stored, unless configured: as long as readings are kept. A batch may have waited in
/// its spool for days.
pub const ACCEPT_PAST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Messages of one entry, those within others included. An entry of a second of a node has some thousands; a spool's
/// largest entry of the smallest cells that a shim sends has 200,000.
pub(crate) const ELEMENTS_MAX: usize = 1 << 18;

/// Memory of one decoded entry: a spool's largest entry takes ten times its size.
pub(crate) const DECODED_BYTES_MAX: usize = 64 << 20;

/// Records of one kind of inventory in one batch: ranks of a job on the largest node several times over.
const INVENTORY_MAX: usize = 16 * 1024;

/// Ports of the fabric in one batch.
const FABRIC_PORTS_MAX: usize = 64 * 1024;

/// How far from now a record's time may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptTimes {
    /// Before now.
    pub past: Duration,
    /// After now.
    pub future: Duration,
}

impl Default for AcceptTimes {
    fn default() -> Self {
        Self { past: ACCEPT_PAST, future: FUTURE }
    }
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What was taken out.
    pub rejected: Vec<RecordRejection>,
    /// The oldest time of what is left, UTC nanoseconds; `i64::MAX` where nothing has a time.
    pub oldest: i64,
}

impl Verdict {
    /// Whether clocks can be why records were rejected: a record is ahead of all clocks, or all that have a time are too old.
    pub fn is_untimely(&self) -> bool {
        self.rejected.iter().any(|rejected| match rejected.reason {
            Rejection::TimeFuture => true,
            Rejection::TimePast => self.oldest == i64::MAX,
            _ => false,
        })
    }
}

/// Takes out of a batch what its sender may not report and what can't be so. `now` is UTC nanoseconds.
pub(crate) fn judge(batch: &mut Batch, accept: AcceptTimes, now: i64) -> Verdict {
    let mut content = content::Check::new(TimeWindow::around(now, accept.past, accept.future));
    let mut rejected = Vec::new();
    let from = scope::Scope::of(batch);
    macro_rules! judge_all {
        ($($kind:ident),+) => {
            $(if !batch.$kind.is_empty() {
                batch.$kind.retain_mut(|record| {
                    match from.check(&*record).and_then(|()| content.check(record)) {
                        Ok(()) => true,
                        Err(reason) => {
                            RecordRejection::note(&mut rejected, reason, stringify!($kind), record);
                            false
                        }
                    }
                });
            })+
        };
    }
    throughline_sample::record_kinds!(judge_all);
    macro_rules! cut_all {
        ($($kind:ident),+) => {
            $(if batch.$kind.len() > INVENTORY_MAX {
                for record in batch.$kind.drain(INVENTORY_MAX..) {
                    RecordRejection::note(&mut rejected, Rejection::Size, stringify!($kind), &record);
                }
            })+
        };
    }
    throughline_sample::inventory_kinds!(cut_all);
    let mut ports = 0;
    batch.ib_nodes.retain(|node| {
        ports += node.ports.len();
        if ports > FABRIC_PORTS_MAX {
            RecordRejection::note(&mut rejected, Rejection::Size, "ib_nodes", node);
        }
        ports <= FABRIC_PORTS_MAX
    });
    if !rejected.is_empty() {
        macro_rules! shrink_all {
            ($($kind:ident),+) => { $(batch.$kind.shrink_to_fit();)+ };
        }
        throughline_sample::record_kinds!(shrink_all);
    }
    Verdict { rejected, oldest: content.oldest() }
}

/// An entry that is too large to be decoded.
pub(crate) fn too_large(bytes: &[u8]) -> RecordRejection {
    let example = bytes[..bytes.len().min(throughline_store::EXAMPLE_BYTES_MAX)].to_vec();
    RecordRejection { sender: None, reason: Rejection::Size, kind: "entry", records: 1, example }
}

/// Records in a batch.
pub(crate) fn count_records(batch: &Batch) -> usize {
    macro_rules! sum {
        ($($kind:ident),+) => { 0 $(+ batch.$kind.len())+ };
    }
    let cells: usize = batch.mpi_ops.iter().map(|b| b.cells.len()).sum::<usize>()
        + batch.mpi_peers.iter().map(|p| p.cells.len()).sum::<usize>()
        + batch.mpi_traces.iter().map(|t| t.records.len()).sum::<usize>()
        + batch.mpi_clocks.iter().map(|c| c.points.len()).sum::<usize>()
        + batch.mpi_traffic.iter().map(|t| t.cells.len()).sum::<usize>()
        + batch.mpi_sampled_calls.iter().map(|s| s.calls.len()).sum::<usize>()
        + batch.mpi_rank_rows.iter().map(|b| b.cells.len()).sum::<usize>()
        + batch.mpi_node_cells.iter().map(|n| n.cells.len()).sum::<usize>()
        + batch.mpi_regions.iter().map(|r| r.cells.len() + r.paths.len()).sum::<usize>()
        + batch.ib_nodes.iter().map(|n| n.ports.len()).sum::<usize>();
    cells + throughline_sample::record_kinds!(sum)
}

#[cfg(test)]
mod tests;
