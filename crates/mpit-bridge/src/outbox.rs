//! Records on their way to the agent: gathered by user, handed over in small fragments, never waited for.
//!
//! Bounded in bytes. Each user has a queue of his own and they take turns, so that one user's flood makes only his own
//! records wait. For a user who has his share of the space no further frames are read ([`Outbox::space`]), so nothing that was read
//! is lost; only beyond the hard bound are records dropped, and counted.

use crate::pipe::Pipe;
use crate::quota::{User, fits};
use crate::status::{Counters, Quota, add};
use crate::weigh::{Weigh, rows, weight};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use throughline_sample::wire::Batch;
use tokio::sync::Notify;

/// What is handed over at once, unless a single record is larger: well below an entry of the spool.
const FRAGMENT_BYTES: usize = 256 << 10;
/// What is gathered of one user before the next one's turn.
const TURN_BYTES: usize = 64 << 10;
/// Rows of one kind in one part of a fragment that is too large: each has a few names at most.
const ROWS_OF_PART: usize = 256;
/// Jobs or ranks in such a part: each has a command or a list of CPUs.
const INVENTORY_OF_PART: usize = 32;
/// Most of one user's bytes that wait, in parts of the bound for all, when something can't wait for space: the end of
/// ranks, which comes when their processes have gone.
const HARD: (usize, usize) = (3, 2);

/// The way of records but those of trace mode.
#[derive(Debug)]
pub(crate) struct Outbox {
    pending: Mutex<PendingRecords>,
    filled: Notify,
    limit: usize,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct PendingRecords {
    queues: HashMap<u32, Queue>,
    /// Users with something waiting, whose turn is next first.
    turns: VecDeque<u32>,
    bytes: usize,
}

#[derive(Debug)]
struct Queue {
    user: Arc<User>,
    parts: VecDeque<(Batch, usize)>,
}

impl Outbox {
    pub(crate) fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self { pending: Mutex::default(), filled: Notify::new(), limit, counters }
    }

    fn lock(&self) -> MutexGuard<'_, PendingRecords> {
        // No code holding the lock can panic halfway: it only moves vectors.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether more of a user may be read.
    pub(crate) fn space(&self, user: &User) -> Result<(), Quota> {
        let used = self.lock().bytes;
        fits(user.waiting.load(Ordering::Relaxed), used, self.limit, 1).map_err(|_| Quota::Bytes)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Adds a fragment of a user's ranks.
    pub(crate) fn put(&self, user: &Arc<User>, fragment: Batch) {
        let bytes = weight(&fragment);
        if bytes == 0 {
            return;
        }
        if bytes > 2 * TURN_BYTES {
            for part in parts(fragment) {
                self.put_part(user, part);
            }
        } else {
            self.put_weighed(user, fragment, bytes);
        }
    }

    fn put_part(&self, user: &Arc<User>, part: Batch) {
        let bytes = weight(&part);
        self.put_weighed(user, part, bytes);
    }

    fn put_weighed(&self, user: &Arc<User>, fragment: Batch, bytes: usize) {
        let mut pending = self.lock();
        if pending.bytes + bytes > self.limit / HARD.1 * HARD.0 {
            drop(pending);
            add(&self.counters.dropped, rows(&fragment) as u64);
            user.exceeds(Quota::Bytes, 1);
            return;
        }
        if pending.turns.is_empty() {
            self.filled.notify_one();
        }
        pending.bytes += bytes;
        user.waiting.fetch_add(bytes, Ordering::Relaxed);
        let pending = &mut *pending;
        let queue = pending.queues.entry(user.uid).or_insert_with(|| {
            pending.turns.push_back(user.uid);
            Queue { user: user.clone(), parts: VecDeque::new() }
        });
        match queue.parts.back_mut() {
            Some((last, of_last)) if *of_last + bytes <= TURN_BYTES => {
                append(last, fragment);
                *of_last += bytes;
            }
            _ => queue.parts.push_back((fragment, bytes)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().turns.is_empty()
    }

    /// Waits until there is something again. At once where that was so since the last call.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Hands over what there is, as far as the pipe takes it. Returns false once the agent's end is closed.
    pub(crate) fn flush(&self, pipe: &Pipe) -> bool {
        loop {
            let permit = match pipe.permit() {
                Ok(Some(permit)) => permit,
                Ok(None) => return true,
                Err(_closed) => {
                    while let Some((batch, _)) = self.lock().fragment() {
                        add(&self.counters.dropped, rows(&batch) as u64);
                    }
                    return false;
                }
            };
            let Some((batch, bytes)) = self.lock().fragment() else { return true };
            add(&self.counters.records, rows(&batch) as u64);
            permit.send(batch, bytes);
        }
    }
}

impl PendingRecords {
    /// The next fragment: each user's turn gives one part of his.
    fn fragment(&mut self) -> Option<(Batch, usize)> {
        let (mut batch, mut bytes) = (None::<Batch>, 0);
        while bytes < FRAGMENT_BYTES
            && let Some(uid) = self.turns.pop_front()
        {
            let Some(queue) = self.queues.get_mut(&uid) else { continue };
            let Some((part, of_part)) = queue.parts.pop_front() else { continue };
            queue.user.waiting.fetch_sub(of_part, Ordering::Relaxed);
            self.bytes -= of_part;
            bytes += of_part;
            match &mut batch {
                Some(batch) => append(batch, part),
                none => *none = Some(part),
            }
            if queue.parts.is_empty() {
                self.queues.remove(&uid);
            } else {
                self.turns.push_back(uid);
            }
        }
        Some((batch?, bytes))
    }
}

/// Adds the records of a later fragment.
fn append(to: &mut Batch, mut later: Batch) {
    macro_rules! append {
        ($($kind:ident),+) => { $(to.$kind.append(&mut later.$kind);)+ };
    }
    append!(jobs, job_ranks, job_comms, job_settings, mpi_ops, mpi_peers, mpi_pvars, mpi_regions);
    append!(mpi_traffic, mpi_open_calls, mpi_scheduling, mpi_sampled_calls, events);
}

/// A large fragment in small ones: inventory first, then rows in their order. A bin of many cells becomes several of the
/// same time, which are the same rows.
fn parts(mut fragment: Batch) -> Vec<Batch> {
    let mut all = Vec::new();
    for bin in std::mem::take(&mut fragment.mpi_ops) {
        let cells_of_part = (TURN_BYTES / (bin.weight() / bin.cells.len().max(1)).max(1)).max(1);
        let mut cells = bin.cells.into_iter().peekable();
        while cells.peek().is_some() {
            let cells: Vec<_> = cells.by_ref().take(cells_of_part).collect();
            let bin = throughline_sample::wire::MpiRankBin {
                cells,
                job_key: bin.job_key.clone(),
                source: bin.source.clone(),
                ..bin
            };
            all.push(Batch { mpi_ops: vec![bin], ..Batch::default() });
        }
    }
    macro_rules! split {
        ($($kind:ident by $rows:expr),+) => { $(
            let mut rows = std::mem::take(&mut fragment.$kind).into_iter().peekable();
            while rows.peek().is_some() {
                let $kind: Vec<_> = rows.by_ref().take($rows).collect();
                all.push(Batch { $kind, ..Batch::default() });
            }
        )+ };
    }
    let samples = std::mem::take(&mut all);
    split!(
        jobs by INVENTORY_OF_PART,
        job_ranks by INVENTORY_OF_PART,
        job_comms by ROWS_OF_PART,
        job_settings by ROWS_OF_PART,
        mpi_pvars by ROWS_OF_PART,
        mpi_peers by 1,
        mpi_regions by 1,
        mpi_traffic by 1,
        mpi_open_calls by ROWS_OF_PART,
        mpi_scheduling by ROWS_OF_PART,
        mpi_sampled_calls by ROWS_OF_PART,
        events by ROWS_OF_PART
    );
    all.extend(samples);
    all
}

#[cfg(test)]
mod tests;
