//! What is read of one sender's stream: its entries are measured, decoded, judged and queued.
//!
//! A stream waits for its sender's quota, for memory of the queue and for nothing else, so a slow or hostile sender holds up only
//! itself. It ends where its sender is barred or its token was replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use throughline_daemon::{SelfMetrics, TokenFile};
use throughline_delivery::wire::{PutRequest, PutResponse};
use throughline_sample::Message;
use throughline_sample::admission::{Rejection, is_deceptive};
use throughline_sample::catalogue::ENTRIES_REJECTED;
use throughline_sample::clock_times::{move_times, newest_row};
use throughline_store::{Content, DetailPlace, Entry, Sender as From};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::{BARRED, ENTRY, NAME_BYTES_MAX, PROTOCOL, SENDER};
use crate::SOURCE;
use crate::bars::{BarWatch, Bars};
use crate::bounds::{LogLimit, SpoolBudget};
use crate::clocks::{Clocks, Moves, PutOff};
use crate::detail::Routes;
use crate::identity::Identity;
use crate::judge::{
    AcceptTimes, DECODED_BYTES_MAX, ELEMENTS_MAX, Measure, count_records, judge, measure, too_large,
};
use crate::queue::{QUEUE_UNITS, QueueMemory, QueuedEntry, Queues, Sender, refusal, units};
use crate::quota::SenderShare;
use crate::refused::RefusedSenders;

/// How often a certificate's name is noted anew.
const NOTE_INTERVAL: Duration = Duration::from_secs(3600);

/// From an entry that is put off to the end of its stream.
const PUT_OFF_PAUSE: Duration = Duration::from_secs(1);

/// Why a stream ends by its sender's fault: the reason in metrics, and what the sender is sent.
type StreamFault = (&'static str, Status);

fn protocol(status: Status) -> StreamFault {
    (PROTOCOL, status)
}

/// A token by which a sender was admitted.
pub(super) struct TokenProof {
    pub file: Arc<TokenFile>,
    pub authorization: String,
}

pub(super) struct Stream {
    pub identity: Identity,
    /// What all streams of its certificate share; `None` for a sender of this machine.
    pub share: Option<Arc<SenderShare>>,
    pub token: Option<TokenProof>,
    pub bars: Bars,
    pub number: u64,
    pub queue: Queues,
    pub routes: Routes,
    pub memory: Arc<Semaphore>,
    pub acks: mpsc::Sender<Result<PutResponse, Status>>,
    pub accept: AcceptTimes,
    pub clocks: Clocks,
    /// Set by the writer when an entry was not stored.
    pub ended: Arc<AtomicBool>,
    /// Whether its sender understands that one entry is refused and the stream continues.
    pub takes_refusals: bool,
    /// Whether requests for detail go over it; `None` for a sender that does not understand them.
    pub takes_detail: Option<bool>,
    pub refused: Arc<RefusedSenders>,
    pub metrics: SelfMetrics,
    pub logged: Arc<LogLimit>,
    pub spools: Arc<SpoolBudget>,
    pub stop: CancellationToken,
}

/// What a stream watches, and for whom it sent last.
struct Watched {
    bars: BarWatch,
    node: Option<String>,
    noted: Option<Instant>,
}

/// An entry that is not stored because of the configuration.
struct EntryRejection {
    status: Status,
    rejection: Rejection,
}

/// By how much the times of an entry are moved, and whose clock that is about; `None` where its sender does not report its clock.
type EntryClock = Option<(String, Moves)>;

/// Why an entry is not stored now.
enum NotStored {
    Refused(EntryRejection),
    PutOff(PutOff),
}

impl Stream {
    /// Reads until the sender ends, the connection breaks, or `stop`. An error is the sender's fault.
    pub async fn read(self, mut messages: Streaming<PutRequest>) -> Result<(), StreamFault> {
        let mut watched = Watched { bars: self.bars.watch(), node: None, noted: None };
        tokio::select! {
            () = self.stop.cancelled() => return Ok(()),
            () = self.acks.closed() => return Ok(()),
            known = watched.bars.wait_for(Option::is_some) => if known.is_err() { return Ok(()) },
        }
        self.check_bars(&watched)?;
        loop {
            // Before the message is read: what waits for the quota waits at its sender.
            let passed = async {
                self.clocks.server_is_right().await;
                if let Some(share) = &self.share {
                    share.pass().await;
                }
            };
            if self.until(&mut watched, passed).await?.is_none() {
                return Ok(());
            }
            let Some(message) = self.until(&mut watched, messages.message()).await? else {
                return Ok(());
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                // Of these only a message beyond the limit or no message at all is the sender's fault.
                Err(status) => match status.code() {
                    tonic::Code::OutOfRange
                    | tonic::Code::InvalidArgument
                    | tonic::Code::ResourceExhausted => {
                        return Err(protocol(status));
                    }
                    _ => return Ok(()),
                },
            };
            if self.ended.load(Relaxed) {
                return Ok(()); // The writer has answered.
            }
            self.check_token()?;
            if !self.take(&mut watched, message).await? {
                return Ok(());
            }
        }
    }

    /// Queues an entry. False when the stream is to end.
    async fn take(&self, watched: &mut Watched, message: PutRequest) -> Result<bool, StreamFault> {
        let bytes = message.batch.len();
        let measured = measure(&message.batch);
        let decoded_bytes = bytes + measured.filter(Measure::fits).map_or(bytes, |measure| measure.bytes);
        // Never more than there is.
        #[allow(clippy::cast_possible_truncation)]
        let units = units(decoded_bytes).min(QUEUE_UNITS as u32);
        let Some(Some(memory)) = self.until(watched, self.reserve(units)).await? else {
            return Ok(false);
        };
        let (spool_id, sequence) = identify(&message).map_err(protocol)?;
        self.spools.admit(&self.identity, spool_id).map_err(protocol)?;
        let entry = decode(&message, measured, spool_id);
        let clock = match self.until(watched, self.clock(&entry)).await? {
            Some(Ok(clock)) => clock,
            Some(Err(put_off)) => return self.put_off(watched, put_off).await,
            None => return Ok(false),
        };
        let entry = match self.judged(entry, clock) {
            Ok(entry) => entry,
            Err(NotStored::PutOff(put_off)) => return self.put_off(watched, put_off).await,
            Err(NotStored::Refused(refused)) => {
                drop(memory);
                self.note_refused(&refused);
                if !self.takes_refusals {
                    return Err(protocol(refused.status));
                }
                let response = refusal(spool_id, sequence, &refused.status);
                // Fails where the sender is gone.
                let sent = self.until(watched, self.acks.send(Ok(response))).await?;
                return Ok(matches!(sent, Some(Ok(()))));
            }
        };
        if let Content::Batch(batch) = &entry.content {
            self.note_node(watched, &batch.node)?;
            let place = match batch.node.as_str() {
                "" => DetailPlace::Crawler(batch.subnet_prefix),
                node => DetailPlace::Node(node.to_owned()),
            };
            let sender = self.identity.clock(&batch.node);
            let offset = sender.ok().and_then(|(sender, _)| self.clocks.present_offset(&sender)).unwrap_or(0);
            self.routes.enter(self.number, place, offset, &self.acks, self.takes_detail);
        }
        let sender = Sender {
            certificate: self.share.as_ref().map(|share| share.name().clone()),
            stream: self.number,
            acks: self.acks.clone(),
            ended: self.ended.clone(),
            takes_refusals: self.takes_refusals,
            _memory: memory,
        };
        // An error once the writer has ended.
        Ok(self.queue.send(QueuedEntry::new(entry, bytes, decoded_bytes, sender)).await.is_ok())
    }

    /// Waits for this; `None` when the stream is to end: at a stop, or as the sender is gone. An error where the sender is barred
    /// meanwhile.
    async fn until<T>(
        &self,
        watched: &mut Watched,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, StreamFault> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                // It sends this again to whom it finds.
                () = self.acks.closed() => return Ok(None),
                changed = watched.bars.changed() => {
                    if changed.is_err() {
                        return Ok(None);
                    }
                    self.check_bars(watched)?;
                }
                done = &mut work => return Ok(Some(done)),
            }
        }
    }

    /// Memory of the queue: first of the share of its certificate, then of all. `None` once the collector ends.
    async fn reserve(&self, units: u32) -> Option<QueueMemory> {
        let own = match &self.share {
            Some(share) => {
                Some(share.memory().clone().acquire_many_owned(SenderShare::units(units)).await.ok()?)
            }
            None => None,
        };
        Some((self.memory.clone().acquire_many_owned(units).await.ok()?, own))
    }

    /// Ends where the list of barred nodes has its sender, or the node that it sent for. What is queued of it is not stored.
    fn check_bars(&self, watched: &Watched) -> Result<(), StreamFault> {
        let barred = watched.bars.borrow();
        let Some(barred) = barred.as_deref() else { return Ok(()) };
        let of_node = watched.node.as_deref().map_or(Ok(()), |node| barred.check_node(node));
        barred.check(&self.identity).and(of_node).map_err(|status| {
            self.ended.store(true, Relaxed);
            (BARRED, status)
        })
    }

    /// Notes for which node it sends, which its certificate allows.
    fn note_node(&self, watched: &mut Watched, node: &str) -> Result<(), StreamFault> {
        if watched.node.as_deref() != Some(node) {
            (watched.node, watched.noted) = (Some(node.to_owned()), None);
            self.check_bars(watched)?;
        }
        if watched.noted.is_none_or(|at| at.elapsed() >= NOTE_INTERVAL) {
            watched.noted = Some(Instant::now());
            self.bars.note(&self.identity, node);
        }
        Ok(())
    }

    fn check_token(&self) -> Result<(), StreamFault> {
        match &self.token {
            Some(proof) if !proof.file.current().is_in(&proof.authorization) => {
                let status = Status::unauthenticated("the token of this stream was replaced");
                Err((SENDER, status))
            }
            _ => Ok(()),
        }
    }

    fn note_refused(&self, refused: &EntryRejection) {
        let reason = refused.status.message();
        self.metrics.add((SOURCE, ENTRY), &ENTRIES_REJECTED, 1);
        self.refused.add(&self.identity.name(), refused.rejection, reason);
        if self.takes_refusals && self.logged.is_due(&self.identity.name()) {
            tracing::warn!(
                sender = self.identity.name(),
                reason,
                "batches of a sender are refused; it keeps them"
            );
        }
    }

    /// By how much the times of an entry are moved; waits until that is known.
    async fn clock(&self, entry: &Entry) -> Result<EntryClock, PutOff> {
        let Content::Batch(batch) = &entry.content else { return Ok(None) };
        // What may not be sent is refused below.
        let Some(clock) = batch.clock.as_ref().filter(|_| self.identity.may_send(batch).is_ok()) else {
            return Ok(None);
        };
        let Ok((sender, _)) = self.identity.clock(&batch.node) else { return Ok(None) };
        let moves = self.clocks.admit(&sender, clock).await?;
        Ok(Some((sender, moves)))
    }

    /// Ends the stream: its sender keeps the entry and comes back.
    async fn put_off(&self, watched: &mut Watched, put_off: PutOff) -> Result<bool, StreamFault> {
        if self.logged.is_due(&self.identity.name()) {
            tracing::warn!(sender = self.identity.name(), reason = put_off.reason, "{}", put_off.text);
        }
        // What came before it is acknowledged first.
        self.until(watched, tokio::time::sleep(PUT_OFF_PAUSE)).await?;
        // A sender that reads no answers does not get this one either.
        let _ = self.acks.try_send(Err(Status::unavailable(put_off.text)));
        Ok(false)
    }

    /// The entry without what its sender may not report.
    fn judged(&self, mut entry: Entry, clock: EntryClock) -> Result<Entry, NotStored> {
        if let Content::Batch(batch) = &entry.content
            && (batch.node.len() > NAME_BYTES_MAX || batch.node.chars().any(is_deceptive))
        {
            // No configuration makes it one: as bytes that are no batch.
            let mut bytes = batch.encode_to_vec();
            bytes.truncate(TOO_LARGE_BYTES);
            entry.content =
                Content::Undecodable { bytes, reason: "the batch's node is no host name".to_owned() };
        }
        if let Some(share) = &self.share {
            // Rejected records and refused batches cost as much.
            share.charge(match &entry.content {
                Content::Batch(batch) => count_records(batch),
                Content::Undecodable { .. } => 1,
            });
        }
        match &mut entry.content {
            Content::Batch(batch) => {
                let rejection = if batch.node.is_empty() { Rejection::Fabric } else { Rejection::Node };
                if let Err(status) = self.identity.may_send(batch) {
                    return Err(NotStored::Refused(EntryRejection { status, rejection }));
                }
                entry.sender.owners = self.identity.owners(Some(batch));
                let (offset, earlier) = clock.as_ref().map(|(_, moves)| moves.clone()).unwrap_or_default();
                move_times(batch, offset, &earlier);
                let verdict = judge(batch, self.accept, self.clocks.now());
                if let Some((sender, _)) = &clock {
                    if let Some(put_off) =
                        verdict.is_untimely().then(|| self.clocks.untimely(sender)).flatten()
                    {
                        return Err(NotStored::PutOff(put_off));
                    }
                    if let Some(newest) = newest_row(batch) {
                        self.clocks.note_newest(sender, newest);
                    }
                }
                entry.sender.rejected = verdict.rejected;
                entry.sender.rejected.extend(self.share.as_ref().and_then(|share| share.thin(batch)));
                entry.sender.oldest = verdict.oldest;
            }
            Content::Undecodable { .. } => entry.sender.owners = self.identity.owners(None),
        }
        Ok(entry)
    }
}

/// Bytes of an entry that is too large which go to the quarantine.
const TOO_LARGE_BYTES: usize = 64 << 10;

/// Spool id and sequence.
fn identify(message: &PutRequest) -> Result<(Uuid, u64), Status> {
    let spool_id = Uuid::from_slice(&message.spool_id).map_err(|_| {
        Status::invalid_argument(format!("spool_id has {} bytes, not 16", message.spool_id.len()))
    })?;
    if message.sequence == 0 || i64::try_from(message.sequence).is_err() {
        return Err(Status::invalid_argument(format!(
            "sequence {} is not from 1 to 2^63-1",
            message.sequence
        )));
    }
    Ok((spool_id, message.sequence))
}

fn decode(message: &PutRequest, measured: Option<Measure>, spool_id: Uuid) -> Entry {
    let undecoded = |bytes: &[u8], reason: String| {
        let content = Content::Undecodable { bytes: bytes.to_vec(), reason };
        Entry { spool_id, sequence: message.sequence, content, sender: From::default() }
    };
    match measured {
        None => undecoded(&message.batch, "failed to decode: it is no batch".to_owned()),
        Some(size) if !size.fits() => {
            let start = &message.batch[..message.batch.len().min(TOO_LARGE_BYTES)];
            let reason = format!(
                "{} bytes with {} elements that take {} bytes: more than {ELEMENTS_MAX} elements or \
                 {DECODED_BYTES_MAX} bytes are not decoded",
                message.batch.len(),
                size.elements,
                size.bytes
            );
            let mut entry = undecoded(start, reason);
            entry.sender.rejected.push(too_large(&message.batch));
            entry
        }
        Some(_) => Entry::decode(spool_id, message.sequence, &message.batch),
    }
}
