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

use crate::quarantine::{self, Quarantine};
use crate::sink::{Ack, Answer, OnRefusal, Reason, Refusal, Session, Sink, SinkError};
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

/// What is delivered.
#[derive(Clone, Copy)]
pub(crate) enum Cargo<'a> {
    /// A daemon's entries, until a stop. Refused ones are moved to the quarantine, where there is one; else a refusal ends
    /// the session.
    Spool(&'a Spool, Option<&'a Quarantine>),
    /// What was refused before, until there is none. A refusal ends the session, so that nothing behind it is stored: the
    /// ledger would take the refused one for a repetition.
    Quarantine(&'a Spool),
}

impl<'a> Cargo<'a> {
    fn spool(self) -> &'a Spool {
        match self {
            Cargo::Spool(spool, _) | Cargo::Quarantine(spool) => spool,
        }
    }

    fn quarantine(self) -> Option<&'a Quarantine> {
        match self {
            Cargo::Spool(_, quarantine) => quarantine,
            Cargo::Quarantine(_) => None,
        }
    }

    fn on_refusal(self) -> OnRefusal {
        if self.quarantine().is_some() { OnRefusal::Continue } else { OnRefusal::End }
    }
}

/// Delivers until `stop` is cancelled, then at most [`DRAIN`] longer until the spool is empty. A refused entry ends the
/// session and is sent again.
pub async fn ship(spool: &Spool, sink: &dyn Sink, stop: CancellationToken, stats: &ShipStats) {
    deliver(Cargo::Spool(spool, None), sink, stop, stats).await;
}

/// As [`ship`], and moves refused entries to the quarantine.
pub(crate) async fn deliver(cargo: Cargo<'_>, sink: &dyn Sink, stop: CancellationToken, stats: &ShipStats) {
    let mut backoff = Backoff::default();
    let mut failing = false;
    let mut reader = Some(cargo.spool().reader());
    loop {
        let before = stats.acked_entries.load(Relaxed);
        let result = session(cargo, sink, &mut reader, &stop, stats, failing).await;
        let Err(error) = result else { return };
        stats.failed(error.reason);
        sink.failed(&error);
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

/// One session, from connecting to its end. Ok after `stop`, or when a quarantine is empty. `failing`: the one before was
/// lost, and the first entry that is stored is worth a line in the log.
pub(crate) async fn session(
    cargo: Cargo<'_>,
    sink: &dyn Sink,
    reader: &mut Option<Reader>,
    stop: &CancellationToken,
    stats: &ShipStats,
    failing: bool,
) -> Result<(), SinkError> {
    let session = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        connected = sink.connect(cargo.on_refusal()) => connected?,
    };
    stats.connections.fetch_add(1, Relaxed);
    stats.connected.store(true, Relaxed);
    let result = ShipSession::new(cargo, stats, session, sink.name(), failing).run(reader, stop).await;
    stats.connected.store(false, Relaxed);
    result
}

/// An entry that was sent and is still in the spool.
struct Slot {
    spool_id: Uuid,
    sequence: u64,
    bytes: usize,
    /// It is in the quarantine.
    is_set_aside: bool,
}

/// One session.
struct ShipSession<'a> {
    cargo: Cargo<'a>,
    spool: &'a Spool,
    stats: &'a ShipStats,
    session: Session,
    to: String,
    /// Read from the spool, not sent.
    ready: VecDeque<Entry>,
    /// The last sequence read.
    read_upto: u64,
    window: VecDeque<Slot>,
    window_bytes: usize,
    acked: HashMap<Uuid, u64>,
    answered_at: Instant,
    /// Received, not handled yet.
    next_answer: Option<Result<Answer, SinkError>>,
    /// Nothing was stored since the session before failed.
    was_failing: bool,
}

impl<'a> ShipSession<'a> {
    fn new(cargo: Cargo<'a>, stats: &'a ShipStats, session: Session, to: String, was_failing: bool) -> Self {
        let spool = cargo.spool();
        Self {
            cargo,
            spool,
            stats,
            session,
            to,
            ready: VecDeque::new(),
            read_upto: spool.acked(),
            window: VecDeque::new(),
            window_bytes: 0,
            acked: HashMap::new(),
            answered_at: Instant::now(),
            next_answer: None,
            was_failing,
        }
    }

    /// Ok after `stop`, or when a quarantine is empty.
    async fn run(mut self, reader: &mut Option<Reader>, stop: &CancellationToken) -> Result<(), SinkError> {
        let mut drain_until = None;
        loop {
            if (drain_until.is_some() || matches!(self.cargo, Cargo::Quarantine(_)))
                && self.window.is_empty()
                && self.ready.is_empty()
                && self.spool_is_empty()
            {
                return Ok(());
            }
            let open = self.window.len() < WINDOW_ENTRIES && self.window_bytes < WINDOW_BYTES;
            let silent_at = self.answered_at + SILENCE_MAX;
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
                answer = next(&mut self.next_answer, &mut self.session.answers) => match answer {
                    Some(Ok(Answer::Stored(ack))) => self.take_ack(ack)?,
                    Some(Ok(Answer::Refused(refusal))) => self.take_refusals(refusal).await?,
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
                self.prepare(batch);
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

    /// What was read becomes what is sent.
    fn prepare(&mut self, mut batch: Vec<Entry>) {
        if matches!(self.cargo, Cargo::Quarantine(_)) {
            batch.iter_mut().for_each(quarantine::open_envelope);
        }
        if let Some(quarantine) = self.cargo.quarantine() {
            // Moved before the last run ended, which could not note it: they are the first of the spool.
            let moved = batch.iter().take_while(|entry| quarantine.has(entry)).count();
            for entry in batch.drain(..moved) {
                self.push(&entry, true);
            }
            self.release();
        }
        self.ready.extend(batch);
    }

    fn push(&mut self, entry: &Entry, is_set_aside: bool) {
        let (spool_id, sequence, bytes) = (entry.spool_id, entry.sequence, entry.payload.len());
        self.window.push_back(Slot { spool_id, sequence, bytes, is_set_aside });
        self.window_bytes += bytes;
    }

    fn note_sent(&mut self, entry: &Entry) {
        if self.window.is_empty() {
            self.answered_at = Instant::now();
        }
        self.push(entry, false);
        self.stats.sent_entries.fetch_add(1, Relaxed);
        self.stats.sent_bytes.fetch_add(entry.payload.len() as u64, Relaxed);
    }

    /// Acknowledgements are cumulative per spool id; after a change of id two ids can be outstanding.
    fn take_ack(&mut self, Ack { spool_id, sequence }: Ack) -> Result<(), SinkError> {
        self.answered_at = Instant::now();
        let sent = self.window.iter().any(|slot| slot.spool_id == spool_id && slot.sequence >= sequence)
            || self.acked.get(&spool_id).is_some_and(|old| *old >= sequence);
        if !sent {
            return Err(self.error(Reason::Protocol, format!("{spool_id} {sequence} was not sent")));
        }
        let highest = self.acked.entry(spool_id).or_default();
        *highest = sequence.max(*highest);
        self.release();
        if std::mem::take(&mut self.was_failing) {
            tracing::info!(to = self.to, "delivery continues");
        }
        if let Some(quarantine) = self.cargo.quarantine() {
            quarantine.note_stored(&self.to);
        }
        Ok(())
    }

    /// Moves this entry to the quarantine, and others whose refusal is there already: each move costs a sync.
    async fn take_refusals(&mut self, first: Refusal) -> Result<(), SinkError> {
        self.answered_at = Instant::now();
        let Some(quarantine) = self.cargo.quarantine() else {
            return Err(self.error(Reason::Refused, first.reason));
        };
        let mut refusals = vec![first];
        while self.next_answer.is_none() {
            match self.session.answers.try_recv() {
                Ok(Ok(Answer::Refused(refusal))) => refusals.push(refusal),
                Ok(other) => self.next_answer = Some(other),
                Err(_) => break,
            }
        }
        for refusal in &refusals {
            let is_it = |slot: &&mut Slot| {
                slot.sequence == refusal.sequence && slot.spool_id == refusal.spool_id && !slot.is_set_aside
            };
            let Some(slot) = self.window.iter_mut().find(is_it) else {
                let detail = format!("{} {} was refused and not sent", refusal.spool_id, refusal.sequence);
                return Err(self.error(Reason::Protocol, detail));
            };
            slot.is_set_aside = true;
        }
        quarantine.note_refused(&refusals, &self.to);
        let (mut keeper, spool) = (quarantine.clone(), self.spool.clone());
        let moved = tokio::task::spawn_blocking(move || keeper.take(&spool, &refusals)).await;
        match moved {
            Ok(Ok(())) => self.release(),
            Ok(Err(error)) => {
                self.stats.read_errors.fetch_add(1, Relaxed);
                return Err(self.error(Reason::Refused, format!("moving refused entries: {error}")));
            }
            // The runtime is shutting down.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
        Ok(())
    }

    /// Takes out of the spool what is stored or in the quarantine, up to the first entry that is neither.
    fn release(&mut self) {
        let mut last = None;
        while let Some(slot) = self.window.front() {
            if !slot.is_set_aside && self.acked.get(&slot.spool_id).is_none_or(|acked| *acked < slot.sequence)
            {
                break;
            }
            self.window_bytes -= slot.bytes;
            self.stats.acked_entries.fetch_add(u64::from(!slot.is_set_aside), Relaxed);
            last = Some(slot.sequence);
            self.window.pop_front();
        }
        if let Some(last) = last {
            self.spool.ack(last);
        }
    }

    /// Why a session takes no more entries; its other half may still be open, and silent.
    async fn last_error(&mut self) -> SinkError {
        let reported = async {
            while let Some(item) = next(&mut self.next_answer, &mut self.session.answers).await {
                if let Err(error) = item {
                    return Some(error);
                }
            }
            None
        };
        let reported = tokio::time::timeout(LAST_WORD_MAX, reported).await.ok().flatten();
        reported.unwrap_or_else(|| self.error(Reason::Lost, "the session ended"))
    }

    fn error(&self, reason: Reason, detail: impl ToString) -> SinkError {
        SinkError { to: self.to.clone(), reason, detail: detail.to_string() }
    }
}

/// The answer that was put back, else the next one.
async fn next(
    put_back: &mut Option<Result<Answer, SinkError>>,
    answers: &mut tokio::sync::mpsc::Receiver<Result<Answer, SinkError>>,
) -> Option<Result<Answer, SinkError>> {
    match put_back.take() {
        Some(answer) => Some(answer),
        None => answers.recv().await,
    }
}
