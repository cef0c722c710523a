//! The gRPC side: streams in, acknowledgements out.
//!
//! Each stream has a task that decodes and queues. It waits for memory of the queue and for nothing else, so a
//! slow or hostile sender holds up only itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use throughline_daemon::{Clock, SelfMetrics, Token};
use throughline_delivery::wire::collect_server::Collect;
use throughline_delivery::wire::{LeaseRequest, LeaseResponse, PutRequest, PutResponse};
use throughline_delivery::{DETAIL_KEY, LEASE_LONGEST, LEASE_SHORTEST, REFUSALS_KEY};
use throughline_sample::Message;
use throughline_sample::admission::{Rejection, is_deceptive};
use throughline_sample::catalogue::{CONNECTED_SENDERS, ENTRIES_REJECTED};
use throughline_store::{Content, DetailPlace, Entry, Sender as From, TermRequest};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::accept::{Peer, StreamPlace, sender};
use crate::bounds::{LogLimit, SpoolBudget};
use crate::detail::Routes;
use crate::identity::Identity;
use crate::judge::{AcceptTimes, DECODED_BYTES_MAX, ELEMENTS_MAX, Measure, judge, measure, too_large};
use crate::limits::{STREAMS_MAX, STREAMS_PER_SENDER};
use crate::queue::{ACKS_MAX, QUEUE_UNITS, QueuedEntry, Queues, Sender, refusal, units};
use crate::refused::RefusedSenders;
use crate::{Leaser, SOURCE};

/// Why entries and streams are rejected, in metrics: a sender that is not admitted, or has too many streams; too many
/// streams of all; a stream that breaks the protocol; a lease that the sender may not have; an entry that it may not send.
const SENDER: &str = "sender";
const STREAMS: &str = "streams_full";
const PROTOCOL: &str = "protocol";
const LEASE: &str = "lease";
const ENTRY: &str = "entry";

pub(crate) struct Service {
    queue: Queues,
    routes: Routes,
    memory: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    leaser: Arc<dyn Leaser>,
    accept: AcceptTimes,
    token: Option<Token>,
    logged: Arc<LogLimit>,
    spools: Arc<SpoolBudget>,
    next_stream: AtomicU64,
    metrics: SelfMetrics,
    refused: Arc<RefusedSenders>,
    stop: CancellationToken,
}

impl Service {
    #[allow(clippy::too_many_arguments)] // Each once, from where all of them are made.
    pub fn new(
        queue: Queues,
        routes: Routes,
        memory: Arc<Semaphore>,
        leaser: Arc<dyn Leaser>,
        token: Option<Token>,
        accept: AcceptTimes,
        metrics: SelfMetrics,
        refused: Arc<RefusedSenders>,
        stop: CancellationToken,
    ) -> Self {
        metrics.set(SOURCE, &CONNECTED_SENDERS, 0.0);
        for reason in [SENDER, STREAMS, PROTOCOL, LEASE, ENTRY] {
            metrics.add((SOURCE, reason), &ENTRIES_REJECTED, 0);
        }
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Self {
            queue,
            routes,
            memory,
            streams,
            leaser,
            token,
            accept,
            logged: Arc::default(),
            spools: Arc::default(),
            next_stream: AtomicU64::new(0),
            metrics,
            refused,
            stop,
        }
    }
}

impl Service {
    /// Who makes a request, and its place among the streams of that sender.
    fn identity<T>(&self, request: &Request<T>) -> Result<(Identity, StreamPlace), Status> {
        let peer = request.extensions().get::<Peer>();
        let peer = peer.ok_or_else(|| Status::internal("a connection without its peer"))?;
        let authorization = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let identity = sender(&peer.proof, authorization, self.token.as_ref());
        let placed = identity.and_then(|identity| {
            let place = peer.stream().ok_or_else(|| {
                Status::resource_exhausted(format!("this sender has {STREAMS_PER_SENDER} streams already"))
            })?;
            Ok((identity, place))
        });
        placed.inspect_err(|status| {
            self.metrics.add((SOURCE, SENDER), &ENTRIES_REJECTED, 1);
            if self.logged.is_due("unknown") {
                tracing::warn!(%status, "a sender was refused; others are counted for a minute");
            }
        })
    }
}

#[tonic::async_trait]
impl Collect for Service {
    type PutStream = ReceiverStream<Result<PutResponse, Status>>;

    async fn put(
        &self,
        request: Request<Streaming<PutRequest>>,
    ) -> Result<Response<Self::PutStream>, Status> {
        let Ok(place) = self.streams.clone().try_acquire_owned() else {
            self.metrics.add((SOURCE, STREAMS), &ENTRIES_REJECTED, 1);
            return Err(Status::resource_exhausted(format!(
                "this collector has {STREAMS_MAX} senders already"
            )));
        };
        let (identity, stream_place) = self.identity(&request)?;
        let (acks, answers) = mpsc::channel(ACKS_MAX);
        let stream = Stream {
            identity,
            number: self.next_stream.fetch_add(1, Relaxed),
            queue: self.queue.clone(),
            routes: self.routes.clone(),
            memory: self.memory.clone(),
            acks,
            accept: self.accept,
            ended: Arc::default(),
            takes_refusals: request.metadata().contains_key(REFUSALS_KEY),
            takes_detail: request.metadata().get(DETAIL_KEY).map(|value| value == "1"),
            refused: self.refused.clone(),
            metrics: self.metrics.clone(),
            logged: self.logged.clone(),
            spools: self.spools.clone(),
        };
        let (metrics, streams, stop) = (self.metrics.clone(), self.streams.clone(), self.stop.clone());
        let count = move |metrics: &SelfMetrics| {
            #[allow(clippy::cast_precision_loss)] // At most STREAMS_MAX.
            metrics.set(SOURCE, &CONNECTED_SENDERS, (STREAMS_MAX - streams.available_permits()) as f64);
        };
        let (sender, logged) = (stream.identity.name(), self.logged.clone());
        tokio::spawn(async move {
            count(&metrics);
            let acks = stream.acks.clone();
            let (routes, number) = (stream.routes.clone(), stream.number);
            if let Err(status) = stream.read(request.into_inner(), stop).await {
                metrics.add((SOURCE, PROTOCOL), &ENTRIES_REJECTED, 1);
                if logged.is_due(&sender) {
                    tracing::warn!(sender, %status, "a sender's stream was refused");
                }
                // A sender that reads no answers does not get this one either.
                let _ = acks.try_send(Err(status));
            }
            routes.leave(number);
            drop((place, stream_place));
            count(&metrics);
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn lease(&self, request: Request<LeaseRequest>) -> Result<Response<LeaseResponse>, Status> {
        let (identity, _place) = self.identity(&request)?;
        let allowed = identity.may_crawl(request.get_ref().subnet_prefix);
        let request = allowed.and_then(|()| term_request(request.into_inner())).inspect_err(|status| {
            self.metrics.add((SOURCE, LEASE), &ENTRIES_REJECTED, 1);
            if self.logged.is_due(&identity.name()) {
                tracing::warn!(%status, "a crawler's request was refused");
            }
        })?;
        match self.leaser.ask(&request).await {
            Ok(grant) => Ok(Response::new(LeaseResponse { granted: grant.granted, holder: grant.holder })),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

/// Longest name of a crawler's host that is kept: host names have at most 253 bytes (RFC 1123).
const NAME_BYTES_MAX: usize = 253;

fn term_request(request: LeaseRequest) -> Result<TermRequest, Status> {
    let crawler = Uuid::from_slice(&request.crawler).map_err(|_| {
        Status::invalid_argument(format!("crawler has {} bytes, not 16", request.crawler.len()))
    })?;
    if request.name.len() > NAME_BYTES_MAX || request.name.contains('\0') {
        return Err(Status::invalid_argument(format!(
            "name is not a text of at most {NAME_BYTES_MAX} bytes"
        )));
    }
    let lease = Duration::from_millis(request.lease_milliseconds.into());
    Ok(TermRequest {
        subnet_prefix: request.subnet_prefix,
        crawler,
        name: request.name,
        since: request.since,
        lease: lease.clamp(LEASE_SHORTEST, LEASE_LONGEST),
        release: request.release,
    })
}

struct Stream {
    identity: Identity,
    number: u64,
    queue: Queues,
    routes: Routes,
    memory: Arc<Semaphore>,
    acks: mpsc::Sender<Result<PutResponse, Status>>,
    accept: AcceptTimes,
    /// Set by the writer when an entry was not stored.
    ended: Arc<AtomicBool>,
    /// Whether its sender understands that one entry is refused and the stream continues.
    takes_refusals: bool,
    /// Whether requests for detail go over it; `None` for a sender that does not understand them.
    takes_detail: Option<bool>,
    refused: Arc<RefusedSenders>,
    metrics: SelfMetrics,
    logged: Arc<LogLimit>,
    spools: Arc<SpoolBudget>,
}

/// An entry that is not stored because of the configuration.
struct EntryRejection {
    status: Status,
    rejection: Rejection,
}

impl Stream {
    /// Reads until the sender ends, the connection breaks, or `stop`. An error is the sender's fault.
    async fn read(self, mut messages: Streaming<PutRequest>, stop: CancellationToken) -> Result<(), Status> {
        loop {
            let message = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                message = messages.message() => message,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                // Of these only a message beyond the limit or no message at all is the sender's fault.
                Err(status) => match status.code() {
                    tonic::Code::OutOfRange
                    | tonic::Code::InvalidArgument
                    | tonic::Code::ResourceExhausted => {
                        return Err(status);
                    }
                    _ => return Ok(()),
                },
            };
            if self.ended.load(Relaxed) {
                return Ok(()); // The writer has answered.
            }
            let bytes = message.batch.len();
            let measured = measure(&message.batch);
            let decoded_bytes = bytes + measured.filter(Measure::fits).map_or(bytes, |measure| measure.bytes);
            // Never more than there is.
            #[allow(clippy::cast_possible_truncation)]
            let units = units(decoded_bytes).min(QUEUE_UNITS as u32);
            let permit = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // The sender is gone: it sends this again to whom it finds.
                () = self.acks.closed() => return Ok(()),
                permit = self.memory.clone().acquire_many_owned(units) => permit,
            };
            let Ok(permit) = permit else { return Ok(()) };
            let (spool_id, sequence) = identify(&message)?;
            self.spools.admit(&self.identity, spool_id)?;
            let entry = match self.judged(decode(&message, measured, spool_id)) {
                Ok(entry) => entry,
                Err(refused) => {
                    drop(permit);
                    self.note_refused(&refused);
                    if !self.takes_refusals {
                        return Err(refused.status);
                    }
                    let response = refusal(spool_id, sequence, &refused.status);
                    tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        // Fails where the sender is gone.
                        sent = self.acks.send(Ok(response)) => if sent.is_err() { return Ok(()) },
                    }
                    continue;
                }
            };
            if let Content::Batch(batch) = &entry.content {
                let place = match batch.node.as_str() {
                    "" => DetailPlace::Crawler(batch.subnet_prefix),
                    node => DetailPlace::Node(node.to_owned()),
                };
                self.routes.enter(self.number, place, &self.acks, self.takes_detail);
            }
            let (acks, ended) = (self.acks.clone(), self.ended.clone());
            let takes_refusals = self.takes_refusals;
            let sender = Sender { stream: self.number, acks, ended, takes_refusals, _memory: permit };
            let queued = QueuedEntry { entry, bytes, decoded_bytes, sender };
            if self.queue.send(queued).await.is_err() {
                return Ok(()); // The writer has ended.
            }
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

    /// The entry without what its sender may not report. An error is about the batch as a whole.
    fn judged(&self, mut entry: Entry) -> Result<Entry, EntryRejection> {
        if let Content::Batch(batch) = &entry.content
            && (batch.node.len() > NAME_BYTES_MAX || batch.node.chars().any(is_deceptive))
        {
            // No configuration makes it one: as bytes that are no batch.
            let mut bytes = batch.encode_to_vec();
            bytes.truncate(TOO_LARGE_BYTES);
            entry.content =
                Content::Undecodable { bytes, reason: "the batch's node is no host name".to_owned() };
        }
        match &mut entry.content {
            Content::Batch(batch) => {
                let rejection = if batch.node.is_empty() { Rejection::Fabric } else { Rejection::Node };
                self.identity.may_send(batch).map_err(|status| EntryRejection { status, rejection })?;
                entry.sender.owners = self.identity.owners(Some(batch));
                let verdict = judge(batch, self.accept, Clock::new().now());
                entry.sender.rejected = verdict.rejected;
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
