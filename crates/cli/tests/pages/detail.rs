//! Answers requests for detail as an agent does: what each rank of the job did in bins of 100 ms.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_sample::wire::{Batch, DetailEnd, DetailPart, MpiOpCell, MpiRankBin};
use throughline_store::{Database, DetailOrder, DetailPlace, DetailQueue};

/// A bin.
const BIN: i64 = 100_000_000;

/// What has answered.
pub struct Answers {
    queue: DetailQueue,
    /// Requests and nodes.
    done: BTreeSet<(i64, i64)>,
}

impl Answers {
    pub fn new(database: &Database) -> Self {
        Self { queue: DetailQueue::new(database.clone()), done: BTreeSet::new() }
    }

    /// Batches for what was requested since the last call.
    pub async fn due(&mut self) -> Vec<Batch> {
        // Without a database there is nothing to answer, either.
        let open = self.queue.open().await.unwrap_or_default();
        let new = open.into_iter().filter(|order| !order.is_live && self.done.insert((order.id, order.node)));
        new.filter_map(|order| answer(&order)).flatten().collect()
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// `None` where a crawler is to answer.
fn answer(order: &DetailOrder) -> Option<[Batch; 2]> {
    let DetailPlace::Node(node) = &order.place else { return None };
    let (from, to) = (nanoseconds(order.from), nanoseconds(order.to));
    let job_key = order.job_key.clone().unwrap_or_default();
    let bin = |number: i64| MpiRankBin {
        time: from + number * BIN,
        epoch: from - BIN,
        job_key: job_key.clone(),
        rank: 0,
        source: "pmpi".into(),
        cells: vec![MpiOpCell {
            operation: "allreduce".into(),
            size_class_bytes: 1024,
            calls: number.unsigned_abs() * 100,
            bytes: number.unsigned_abs() * 102_400,
            elapsed_nanoseconds: number.unsigned_abs() * 50_000_000,
            ..MpiOpCell::default()
        }],
    };
    let mpi_ops: Vec<MpiRankBin> = (0..(to - from) / BIN).map(bin).collect();
    let part = DetailPart { request: order.id.unsigned_abs(), attempt: 1, end: None };
    let end = DetailEnd { records: mpi_ops.len() as u64, recorded_from: from, ..DetailEnd::default() };
    let records = Batch { node: node.clone(), mpi_ops, detail: Some(part.clone()), ..Batch::default() };
    let part = DetailPart { end: Some(end), ..part };
    Some([records, Batch { node: node.clone(), detail: Some(part), ..Batch::default() }])
}
