//! The handle that daemons hold: append, read, acknowledge, and the thread that writes.
//!
//! Only wiring: what is decided is decided in `state`, what touches files is in `flush`, `read`, `recover`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use uuid::Uuid;

use crate::flush::{FlushError, Flusher};
use crate::format::Class;
use crate::read::Reader;
use crate::state::{SharedState, State};
use crate::storage::{FileStorage, Storage};
use crate::{AppendError, Config, Error, SYNC_INTERVAL_MAX, Stats, recover};

/// Longest pause after failed writes. A disk that came back is used again within this time.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Above this share of the memory bound the writer does not wait for its interval.
const EARLY_FLUSH_SHARE: usize = 4;

/// A spool. Clones are the same spool; the last one dropped writes the rest and ends the writer's thread,
/// which may take as long as the disk takes.
#[derive(Clone)]
pub struct Spool {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<SharedState>,
    storage: Option<Arc<dyn Storage>>,
    flusher: Option<Arc<Mutex<Flusher>>>,
    thread: Option<JoinHandle<()>>,
}

impl Spool {
    /// Opens or makes the spool in a folder, for this process alone.
    pub fn open(dir: &Path, config: Config) -> Result<Self, Error> {
        config.check()?;
        Self::with_storage(Arc::new(FileStorage::open(dir)?), config, true)
    }

    /// [`Spool::open`], and a spool in memory where that fails for another reason than a second process or a
    /// wrong setting: a daemon on a full or broken disk still delivers. The error is for the log.
    pub fn open_or_memory(dir: &Path, config: Config) -> Result<(Self, Option<Error>), Error> {
        match Self::open(dir, config.clone()) {
            Ok(spool) => Ok((spool, None)),
            Err(error @ (Error::Locked { .. } | Error::Config { .. })) => Err(error),
            Err(error) => Ok((Self::in_memory(config)?, Some(error))),
        }
    }

    /// A spool on any storage. Without `background` nothing is written but by [`Spool::flush`]: for tests.
    pub fn with_storage(storage: Arc<dyn Storage>, config: Config, background: bool) -> Result<Self, Error> {
        config.check()?;
        let (shared, flusher) = recover::open(storage.clone(), config)?;
        let (shared, flusher) = (Arc::new(shared), Arc::new(Mutex::new(flusher)));
        let thread = if background {
            let (shared, flusher) = (shared.clone(), flusher.clone());
            let spawned =
                std::thread::Builder::new().name("spool-sync".into()).spawn(move || run(&shared, &flusher));
            Some(spawned.map_err(|source| Error::List { source })?)
        } else {
            None
        };
        Ok(Self { owner: Arc::new(Owner { shared, storage: Some(storage), flusher: Some(flusher), thread }) })
    }

    /// A spool for a node without a disk: a new id, nothing survives the process.
    pub fn in_memory(config: Config) -> Result<Self, Error> {
        config.check()?;
        let state = State { spool_id: Uuid::new_v4(), next: 1, reserved_until: u64::MAX, ..State::default() };
        let shared = Arc::new(SharedState::new(config, state));
        Ok(Self { owner: Arc::new(Owner { shared, storage: None, flusher: None, thread: None }) })
    }

    /// Takes an entry and gives its sequence. Never waits for a disk. In a full spool this thins or drops
    /// older entries, which is counted and no error.
    pub fn append(&self, payload: impl Into<Bytes>, class: Class) -> Result<u64, AppendError> {
        let shared = &self.owner.shared;
        let (sequence, wake) = {
            let mut state = shared.lock();
            let before = state.pending_bytes;
            let sequence = state.append(&shared.config, payload.into(), class)?;
            let early = shared.config.memory_bytes_max / EARLY_FLUSH_SHARE;
            (sequence, before == 0 || (before < early && state.pending_bytes >= early))
        };
        if wake {
            shared.work.notify_all();
        }
        shared.readable.notify_waiters();
        Ok(sequence)
    }

    /// A reader of its own position.
    pub fn reader(&self) -> Reader {
        Reader::new(self.owner.shared.clone(), self.owner.storage.clone())
    }

    /// Everything up to `sequence` is committed at the other side and may be removed. False where no reader
    /// ever got that far: the other side is wrong, and only what was read is taken as acknowledged.
    pub fn ack(&self, sequence: u64) -> bool {
        let shared = &self.owner.shared;
        let (honest, wake) = {
            let mut state = shared.lock();
            let was_dirty = state.ack_dirty;
            let honest = state.ack(sequence);
            let meta_due = state.ack_dirty && !was_dirty && !state.segments.is_empty();
            (honest, meta_due || !state.doomed.is_empty())
        };
        if wake {
            shared.work.notify_all();
        }
        honest
    }

    /// Waits until a reader would get something after `sequence`.
    pub async fn wait_after(&self, sequence: u64) {
        loop {
            // Made before looking, so that an append in between is not missed.
            let notified = self.owner.shared.readable.notified();
            if self.owner.shared.lock().has_after(sequence) {
                return;
            }
            notified.await;
        }
    }

    /// Writes and syncs all that was appended before this call. The writer's thread does this by itself.
    pub fn flush(&self) -> Result<(), FlushError> {
        match &self.owner.flusher {
            Some(flusher) => lock(flusher).flush(&self.owner.shared),
            None => Ok(()),
        }
    }

    /// Whether more than half of the memory bound is taken: who can wait should let the disk catch up.
    pub fn is_memory_short(&self) -> bool {
        let shared = &self.owner.shared;
        shared.lock().pending_bytes > shared.config.memory_bytes_max / 2
    }

    /// The id that this run's entries carry.
    pub fn id(&self) -> Uuid {
        self.owner.shared.lock().spool_id
    }

    /// The highest acknowledged sequence; 0 when there is none.
    pub fn acked(&self) -> u64 {
        self.owner.shared.lock().acked
    }

    /// Whether entries survive this process.
    pub fn is_on_disk(&self) -> bool {
        self.owner.storage.is_some()
    }

    /// Counts and fill.
    pub fn stats(&self) -> Stats {
        self.owner.shared.lock().stats()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            if thread.join().is_err() {
                tracing::error!("the spool's writer thread panicked");
            }
        } else if let Some(flusher) = &self.flusher {
            close(&self.shared, flusher);
        }
    }
}

fn lock(flusher: &Mutex<Flusher>) -> std::sync::MutexGuard<'_, Flusher> {
    flusher.lock().unwrap_or_else(PoisonError::into_inner)
}

fn close(shared: &SharedState, flusher: &Mutex<Flusher>) {
    if let Err(error) = lock(flusher).close(shared) {
        let lost = shared.lock().pending.len();
        tracing::warn!(%error, lost, "the spool could not write its last entries");
    }
}

fn has_work(state: &State) -> bool {
    !state.pending.is_empty()
        || !state.doomed.is_empty()
        || !state.broken.is_empty()
        || (state.ack_dirty && !state.segments.is_empty())
}

/// The writer's thread: sleeps without waking up while there is nothing to do.
fn run(shared: &SharedState, flusher: &Mutex<Flusher>) {
    let mut pause = shared.config.sync_interval;
    let mut failing = false;
    while wait_for_work(shared, pause, failing) {
        let started = Instant::now();
        let result = lock(flusher).flush(shared);
        if started.elapsed() > SYNC_INTERVAL_MAX {
            shared.lock().counts.slow_flushes += 1;
        }
        match result {
            Ok(()) => {
                if failing {
                    tracing::info!("the spool writes to its folder again");
                }
                failing = false;
                pause = shared.config.sync_interval;
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "spool");
                }
                failing = true;
                pause = (pause * 2).min(RETRY_PAUSE_MAX);
            }
        }
    }
    close(shared, flusher);
}

/// Waits for something to do and then for `pause`, so that one sync carries many entries. False at the end.
fn wait_for_work(shared: &SharedState, pause: Duration, failing: bool) -> bool {
    let mut state = shared.lock();
    while !state.stopping && !has_work(&state) {
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let deadline = Instant::now() + pause;
    let early = shared.config.memory_bytes_max / EARLY_FLUSH_SHARE;
    while !state.stopping && (failing || state.pending_bytes < early) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        state = shared.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    !state.stopping
}
