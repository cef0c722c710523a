//! The handle that a daemon holds: append, read, and the thread that writes.

use crate::filter::{Filter, records, span};
use crate::read::Records;
use crate::ring::{Frame, Ring};
use crate::{Config, Error, FLUSH_INTERVAL, MemoryStorage, QUEUE_BYTES_MAX, Stats};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_spool::{FileStorage, Storage};

/// Where a write does not wait for its time: it leaves the rest of the buffer to what comes meanwhile.
const EARLY_BYTES: usize = QUEUE_BYTES_MAX / 4;

/// A recorder. Clones are the same one; the last one dropped writes the rest and ends the thread.
#[derive(Clone)]
pub struct Recorder {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<SharedState>,
    storage: Arc<dyn Storage>,
    thread: Option<JoinHandle<()>>,
}

/// UTC nanoseconds.
type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

struct SharedState {
    queue: Mutex<Queue>,
    work: Condvar,
    ring: Mutex<Ring>,
    clock: Clock,
}

/// What waits for the next write.
#[derive(Default)]
struct Queue {
    frame: Frame,
    records: u64,
    record_bytes: u64,
    dropped_records: u64,
    stopping: bool,
}

impl Recorder {
    /// Opens or makes the recorder in a folder, for this process alone.
    ///
    /// # Errors
    /// A bound out of range, or a folder that can't be used.
    pub fn open(folder: &Path, config: Config) -> Result<Self, Error> {
        config.check()?;
        Self::with_storage(Arc::new(FileStorage::open(folder)?), config, true)
    }

    /// One whose ring is lost with the process.
    ///
    /// # Errors
    /// A bound out of range.
    pub fn in_memory(config: Config) -> Result<Self, Error> {
        Self::with_storage(Arc::new(MemoryStorage::default()), config, true)
    }

    /// One on any storage. Without `background` nothing is written but by [`Recorder::flush`] and by reading: for tests.
    ///
    /// # Errors
    /// A bound out of range, or a storage that can't be read.
    pub fn with_storage(storage: Arc<dyn Storage>, config: Config, background: bool) -> Result<Self, Error> {
        Self::begin(storage, config, background, Box::new(now_ns))
    }

    /// One that is given the time (UTC nanoseconds), and writes only by [`Recorder::flush`]: for benches, which fill an hour's ring
    /// in a moment.
    ///
    /// # Errors
    /// A bound out of range, or a storage that can't be read.
    pub fn with_clock(
        storage: Arc<dyn Storage>,
        config: Config,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::begin(storage, config, false, Box::new(clock))
    }

    fn begin(
        storage: Arc<dyn Storage>,
        config: Config,
        background: bool,
        clock: Clock,
    ) -> Result<Self, Error> {
        config.check()?;
        let ring = Mutex::new(Ring::open(storage.clone(), config)?);
        let shared = Arc::new(SharedState { queue: Mutex::default(), work: Condvar::new(), ring, clock });
        let thread = if background {
            let shared = shared.clone();
            let spawned = std::thread::Builder::new().name("recorder".into()).spawn(move || run(&shared));
            Some(spawned.map_err(Error::Thread)?)
        } else {
            None
        };
        Ok(Self { owner: Arc::new(Owner { shared, storage, thread }) })
    }

    /// Takes the records of a batch, those of trace mode left out: they go to the database whole. Waits for no disk; what
    /// finds no room is dropped and counted. The batch is as before afterwards.
    pub fn append(&self, batch: &mut Batch) {
        let count = records(batch) as u64;
        if count == 0 {
            return;
        }
        let traces = (std::mem::take(&mut batch.mpi_traces), std::mem::take(&mut batch.mpi_clocks));
        self.take(batch, count);
        (batch.mpi_traces, batch.mpi_clocks) = traces;
    }

    fn take(&self, batch: &Batch, count: u64) {
        let shared = &self.owner.shared;
        let (first, last) = span(batch, (shared.clock)());
        let length = batch.encoded_len();
        let wake = {
            let mut queue = lock(&shared.queue);
            let before = queue.frame.bytes.len();
            // A `Vec` grows as it has to: encoding does not fail.
            if before + length > QUEUE_BYTES_MAX || batch.encode(&mut queue.frame.bytes).is_err() {
                queue.dropped_records += count;
                return;
            }
            queue.records += count;
            queue.record_bytes += length as u64;
            let frame = &mut queue.frame;
            // Above the bound of bytes before 2^32 of them.
            frame.records = frame.records.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            let is_first = before == 0;
            frame.first_ns = if is_first { first } else { frame.first_ns.min(first) };
            frame.last_ns = if is_first { last } else { frame.last_ns.max(last) };
            before < EARLY_BYTES && frame.bytes.len() >= EARLY_BYTES
        };
        if wake {
            shared.work.notify_all();
        }
    }

    /// Records with times (UTC nanoseconds) in `times`, up to what was appended before this call. Reads files: not for a
    /// thread that must not wait.
    pub fn records(&self, times: Range<i64>, filter: Filter) -> Records {
        self.flush();
        let segments = lock(&self.owner.shared.ring).segments.clone();
        Records::new(self.owner.storage.clone(), segments, times, filter)
    }

    /// Writes what was appended before this call. The thread does so by itself.
    pub fn flush(&self) {
        self.owner.shared.write();
    }

    /// Counts and fill.
    pub fn stats(&self) -> Stats {
        let stats = lock(&self.owner.shared.ring).stats.clone();
        let queue = lock(&self.owner.shared.queue);
        Stats {
            records: queue.records,
            record_bytes: queue.record_bytes,
            dropped_records: stats.dropped_records + queue.dropped_records,
            ..stats
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        lock(&self.shared.queue).stopping = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the recorder's thread ended badly");
        }
        self.shared.write();
        lock(&self.shared.ring).close();
    }
}

impl SharedState {
    fn write(&self) {
        // The ring first: a later frame must not overtake an earlier one.
        let mut ring = lock(&self.ring);
        let frame = std::mem::take(&mut lock(&self.queue).frame);
        if !frame.bytes.is_empty() {
            ring.append(&frame, (self.clock)());
            // Its buffer serves again, unless an unusual second made it large.
            let Frame { mut bytes, .. } = frame;
            let mut queue = lock(&self.queue);
            if queue.frame.bytes.is_empty() && bytes.capacity() <= EARLY_BYTES {
                bytes.clear();
                queue.frame.bytes = bytes;
            }
        }
    }
}

fn run(shared: &SharedState) {
    loop {
        {
            let queue = lock(&shared.queue);
            let is_early = |queue: &mut Queue| !queue.stopping && queue.frame.bytes.len() < EARLY_BYTES;
            let (queue, _) = shared
                .work
                .wait_timeout_while(queue, FLUSH_INTERVAL, is_early)
                .unwrap_or_else(PoisonError::into_inner);
            if queue.stopping {
                return;
            }
        }
        shared.write();
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
