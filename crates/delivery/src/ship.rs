//! The loop that empties a spool into a sink.
//!
//! Never takes an entry out of the spool before its commit is acknowledged, and never sends one of a later
//! place before one of an earlier: the store keeps only the highest committed sequence of a spool.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use throughline_spool::{Entry, Reader, Spool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::sink::{Reason, Session, Sink, SinkError};
use crate::{Backoff, ShipStats};

/// Entries sent and not acknowledged. At one entry a second this never fills; after an outage it keeps a
/// collector's transactions large.
pub const WINDOW_ENTRIES: usize = 512;
/// Payload sent and not acknowledged: what one sender can make a collector hold.
pub const WINDOW_BYTES: usize = 8 << 20;
/// Entries read from the spool at once.
const READ_ENTRIES: usize = 64;
/// Payload read from the spool at once.
const READ_BYTES: usize = 1 << 20;
/// With entries outstanding and no acknowledgement for this long, another session (perhaps to another
/// collector behind the same address) is tried. Longer than a database's restart.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// How long a session that takes no more entries may take to say why.
const LAST_WORD_MAX: Duration = Duration::from_secs(10);
/// After `stop`, how long entries that are already in the spool are still delivered. Below the grace time
/// of a daemon; what remains is delivered by the next run.
pub const DRAIN: Duration = Duration::from_secs(4);

/// Delivers until `stop` is cancelled, then at most [`DRAIN`] longer until the spool is empty.
pub async fn ship(spool: &Spool, sink: &dyn Sink, stop: CancellationToken, stats: &ShipStats) {
    let mut backoff = Backoff::default();
    let mut failing = false;
    let mut reader = Some(spool.reader());
    loop {
        let connected = tokio::select! {
            () = stop.cancelled() => return,
            connected = sink.connect() => connected,
        };
        let before = stats.acked_entries.load(Relaxed);
        let result = match connected {
            Ok(session) => {
                stats.connections.fetch_add(1, Relaxed);
                stats.connected.store(true, Relaxed);
                if failing {
                    tracing::info!(to = sink.name(), "delivery goes on");
                }
                let result = Outgoing::new(spool, stats, session, sink.name()).run(&mut reader, &stop).await;
                stats.connected.store(false, Relaxed);
                result
            }
            Err(error) => Err(error),
        };
        let Err(error) = result else { return };
        stats.failed(error.reason);
        if stats.acked_entries.load(Relaxed) > before {
            backoff.reset();
            failing = false;
        }
        if failing {
            tracing::debug!(%error, "delivery");
        } else {
            tracing::warn!(%error, "delivery stopped, trying again; entries stay in the spool");
        }
        failing = true;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

/// One session.
struct Outgoing<'a> {
    spool: &'a Spool,
    stats: &'a ShipStats,
    session: Session,
    to: String,
    /// Read from the spool, not sent.
    ready: VecDeque<Entry>,
    /// The last sequence read.
    read_upto: u64,
    window: VecDeque<(Uuid, u64, usize)>,
    window_bytes: usize,
    acked: HashMap<Uuid, u64>,
    heard_at: Instant,
}

impl<'a> Outgoing<'a> {
    fn new(spool: &'a Spool, stats: &'a ShipStats, session: Session, to: String) -> Self {
        Self {
            spool,
            stats,
            session,
            to,
            ready: VecDeque::new(),
            read_upto: spool.acked(),
            window: VecDeque::new(),
            window_bytes: 0,
            acked: HashMap::new(),
            heard_at: Instant::now(),
        }
    }

    /// Ok only after `stop`.
    async fn run(mut self, reader: &mut Option<Reader>, stop: &CancellationToken) -> Result<(), SinkError> {
        let mut drain_until = None;
        loop {
            if drain_until.is_some()
                && self.window.is_empty()
                && self.ready.is_empty()
                && self.spool_is_empty()
            {
                return Ok(());
            }
            let open = self.window.len() < WINDOW_ENTRIES && self.window_bytes < WINDOW_BYTES;
            let silent_at = self.heard_at + SILENCE_MAX;
            let entries = self.session.entries.clone();
            // In this order, so that a simulation plays the same way again; nothing here is always ready.
            tokio::select! {
                biased;
                () = stop.cancelled(), if drain_until.is_none() => drain_until = Some(Instant::now() + DRAIN),
                () = tokio::time::sleep_until(drain_until.unwrap_or(silent_at)), if drain_until.is_some() => {
                    return Ok(());
                }
                () = tokio::time::sleep_until(silent_at), if !self.window.is_empty() => {
                    return Err(self.error(Reason::Silent, "nothing for 120 s"));
                }
                ack = self.session.acks.recv() => match ack {
                    Some(Ok(ack)) => self.take_ack(ack.spool_id, ack.sequence)?,
                    Some(Err(error)) => return Err(error),
                    None => return Err(self.error(Reason::Lost, "the session ended")),
                },
                permit = entries.reserve(), if open && !self.ready.is_empty() => {
                    // A closed channel is explained by the next acknowledgement's error.
                    if let (Ok(permit), Some(entry)) = (permit, self.ready.pop_front()) {
                        self.note_sent(&entry);
                        permit.send(entry);
                    } else {
                        return Err(self.last_error().await);
                    }
                }
                () = self.spool.wait_after(self.read_upto), if open && self.ready.is_empty() => {
                    self.read(reader).await;
                }
            }
        }
    }

    fn spool_is_empty(&self) -> bool {
        self.spool.stats().backlog_entries == 0
    }

    /// Reads on a thread that may block: an entry that waited long is on disk.
    async fn read(&mut self, reader: &mut Option<Reader>) {
        let mut taken = reader.take().unwrap_or_else(|| self.spool.reader());
        let after = self.read_upto;
        let read = tokio::task::spawn_blocking(move || {
            let batch = taken.next_batch(after, READ_ENTRIES, READ_BYTES);
            (taken, batch)
        });
        match read.await {
            Ok((back, Ok(batch))) => {
                *reader = Some(back);
                if let Some(last) = batch.last() {
                    self.read_upto = last.sequence;
                }
                self.ready.extend(batch);
            }
            Ok((back, Err(error))) => {
                *reader = Some(back);
                self.stats.read_errors.fetch_add(1, Relaxed);
                tracing::warn!(%error, "delivery");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            // The runtime is going down.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }

    fn note_sent(&mut self, entry: &Entry) {
        if self.window.is_empty() {
            self.heard_at = Instant::now();
        }
        self.window.push_back((entry.spool_id, entry.sequence, entry.payload.len()));
        self.window_bytes += entry.payload.len();
        self.stats.sent_entries.fetch_add(1, Relaxed);
        self.stats.sent_bytes.fetch_add(entry.payload.len() as u64, Relaxed);
    }

    /// Acknowledgements are cumulative per spool id; after a change of id two ids can be outstanding.
    fn take_ack(&mut self, spool_id: Uuid, sequence: u64) -> Result<(), SinkError> {
        self.heard_at = Instant::now();
        let sent = self.window.iter().any(|(id, seq, _)| *id == spool_id && *seq >= sequence)
            || self.acked.get(&spool_id).is_some_and(|old| *old >= sequence);
        if !sent {
            return Err(self.error(Reason::Protocol, format!("{spool_id} {sequence} was not sent")));
        }
        let highest = self.acked.entry(spool_id).or_default();
        *highest = sequence.max(*highest);
        let mut last = None;
        while let Some((id, seq, bytes)) = self.window.front().copied() {
            if self.acked.get(&id).is_none_or(|acked| *acked < seq) {
                break;
            }
            self.window.pop_front();
            self.window_bytes -= bytes;
            self.stats.acked_entries.fetch_add(1, Relaxed);
            last = Some(seq);
        }
        if let Some(last) = last {
            self.spool.ack(last);
        }
        Ok(())
    }

    /// Why a session takes no more entries; its other half may still be open, and silent.
    async fn last_error(&mut self) -> SinkError {
        let told = async {
            while let Some(item) = self.session.acks.recv().await {
                if let Err(error) = item {
                    return Some(error);
                }
            }
            None
        };
        let told = tokio::time::timeout(LAST_WORD_MAX, told).await.ok().flatten();
        told.unwrap_or_else(|| self.error(Reason::Lost, "the session ended"))
    }

    fn error(&self, reason: Reason, detail: impl ToString) -> SinkError {
        SinkError { to: self.to.clone(), reason, detail: detail.to_string() }
    }
}
