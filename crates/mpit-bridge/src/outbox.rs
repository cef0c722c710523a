//! Records on their way to the agent: gathered from all ranks, handed over in few fragments, never waited for.
//!
//! Bounded: beyond the limit samples are dropped and counted. They are sums, so that the next ones tell all
//! that these would have told.

use crate::status::{Counters, add};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Inventory records that may wait in addition: a job's end must not be lost to a burst of samples.
const INVENTORY_LIMIT: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Outbox {
    pending: Mutex<Pending>,
    limit: usize,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Pending {
    batch: Batch,
    /// Cells, peers and variables in it.
    samples: usize,
}

/// Cells, peers and variables of a fragment: what its size depends on.
fn samples(batch: &Batch) -> usize {
    batch.mpi_ops.iter().map(|bin| bin.cells.len()).sum::<usize>()
        + batch.mpi_peers.iter().map(|peers| peers.cells.len()).sum::<usize>()
        + batch.mpi_pvars.len()
        + batch.mpi_regions.iter().map(|regions| regions.cells.len()).sum::<usize>()
}

fn inventory(batch: &Batch) -> usize {
    batch.jobs.len() + batch.job_ranks.len() + batch.job_comms.len() + batch.job_settings.len()
}

fn records(batch: &Batch) -> u64 {
    (samples(batch) + inventory(batch)) as u64
}

impl Outbox {
    pub(crate) fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self { pending: Mutex::default(), limit, counters }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        // No code holding the lock can panic halfway: it only moves vectors.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fragment.
    pub(crate) fn put(&self, mut fragment: Batch) {
        let more = samples(&fragment);
        let mut pending = self.lock();
        if inventory(&pending.batch) < INVENTORY_LIMIT {
            pending.batch.jobs.append(&mut fragment.jobs);
            pending.batch.job_ranks.append(&mut fragment.job_ranks);
            pending.batch.job_comms.append(&mut fragment.job_comms);
            pending.batch.job_settings.append(&mut fragment.job_settings);
        }
        if pending.samples + more <= self.limit {
            pending.samples += more;
            pending.batch.mpi_ops.append(&mut fragment.mpi_ops);
            pending.batch.mpi_peers.append(&mut fragment.mpi_peers);
            pending.batch.mpi_pvars.append(&mut fragment.mpi_pvars);
            pending.batch.mpi_regions.append(&mut fragment.mpi_regions);
        }
        drop(pending);
        add(&self.counters.dropped, records(&fragment));
    }

    pub(crate) fn is_empty(&self) -> bool {
        records(&self.lock().batch) == 0
    }

    /// Hands over what there is, if the channel has room. Returns false once the agent's end is closed.
    pub(crate) fn flush(&self, to: &mpsc::Sender<Batch>) -> bool {
        let taken = std::mem::take(&mut *self.lock());
        let count = records(&taken.batch);
        if count == 0 {
            return !to.is_closed();
        }
        match to.try_send(taken.batch) {
            Ok(()) => {
                add(&self.counters.records, count);
                true
            }
            Err(TrySendError::Full(batch)) => {
                self.put_back(Pending { batch, samples: taken.samples });
                true
            }
            Err(TrySendError::Closed(_)) => {
                add(&self.counters.dropped, count);
                false
            }
        }
    }

    /// What the channel did not take stays first.
    fn put_back(&self, older: Pending) {
        let newer = {
            let mut pending = self.lock();
            std::mem::replace(&mut *pending, older)
        };
        self.put(newer.batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Job, MpiOpCell, MpiRankBin};

    fn bin(time: i64, cells: usize) -> Batch {
        let cells = vec![MpiOpCell::default(); cells];
        Batch { mpi_ops: vec![MpiRankBin { time, cells, ..MpiRankBin::default() }], ..Batch::default() }
    }

    #[tokio::test]
    async fn gathers_while_the_channel_is_full_and_keeps_the_order() {
        let counters = Arc::new(Counters::default());
        let outbox = Outbox::new(10, counters.clone());
        let (to, mut from) = mpsc::channel(1);
        outbox.put(bin(1, 2));
        assert!(outbox.flush(&to));
        outbox.put(bin(2, 4));
        assert!(outbox.flush(&to), "full, not closed");
        outbox.put(bin(3, 6));
        outbox.put(Batch { jobs: vec![Job::default()], ..bin(4, 1) });
        let times = |batch: Batch| batch.mpi_ops.iter().map(|bin| bin.time).collect::<Vec<_>>();
        assert_eq!(times(from.recv().await.unwrap()), [1]);
        assert!(outbox.flush(&to));
        let second = from.recv().await.unwrap();
        assert_eq!(second.jobs.len(), 1, "inventory is kept");
        assert_eq!(times(second), [2, 3]);
        let status = counters.status();
        assert_eq!((status.records, status.dropped_records), (2 + 10 + 1, 1));
        drop(from);
        outbox.put(bin(5, 3));
        assert!(!outbox.flush(&to));
        assert_eq!(counters.status().dropped_records, 4);
    }
}
