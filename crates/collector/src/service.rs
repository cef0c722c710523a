//! The gRPC side: who opens a stream or requests a lease. What is read of a stream is in `stream`.

mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use throughline_daemon::{SelfMetrics, TokenFile};
use throughline_delivery::wire::collect_server::Collect;
use throughline_delivery::wire::{
    ClockAnswer, ClockRequest, LeaseRequest, LeaseResponse, PutRequest, PutResponse,
};
use throughline_delivery::{DETAIL_KEY, LEASE_LONGEST, LEASE_SHORTEST, REFUSALS_KEY};
use throughline_sample::admission::is_deceptive;
use throughline_sample::catalogue::{CONNECTED_SENDERS, ENTRIES_REJECTED};
use throughline_store::TermRequest;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::accept::{Peer, StreamPlace, sender};
use crate::bars::Bars;
use crate::bounds::{LogLimit, SpoolBudget};
use crate::clocks::{ClockStream, Clocks, answer_clock};
use crate::detail::Routes;
use crate::identity::Identity;
use crate::judge::AcceptTimes;
use crate::limits::{STREAMS_MAX, STREAMS_PER_SENDER};
use crate::queue::{ACKS_MAX, Queues};
use crate::quota::SenderQuotas;
use crate::refused::RefusedSenders;
use crate::{Leaser, SOURCE};
use stream::{Stream, TokenProof};

/// Why entries and streams are rejected, in metrics: a sender that is not admitted, or has too many streams; too many
/// streams of all; a stream that breaks the protocol; a lease that the sender may not have; an entry that it may not send; a
/// sender that is barred.
const SENDER: &str = "sender";
const STREAMS: &str = "streams_full";
const PROTOCOL: &str = "protocol";
const LEASE: &str = "lease";
const ENTRY: &str = "entry";
const BARRED: &str = "barred";

/// Time for the first message of a sender that has its clock measured.
const CLOCK_OPEN_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Service {
    queue: Queues,
    routes: Routes,
    memory: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    leaser: Arc<dyn Leaser>,
    accept: AcceptTimes,
    clocks: Clocks,
    token: Option<Arc<TokenFile>>,
    bars: Bars,
    quotas: SenderQuotas,
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
        token: Option<Arc<TokenFile>>,
        bars: Bars,
        quotas: SenderQuotas,
        accept: AcceptTimes,
        clocks: Clocks,
        metrics: SelfMetrics,
        refused: Arc<RefusedSenders>,
        stop: CancellationToken,
    ) -> Self {
        metrics.set(SOURCE, &CONNECTED_SENDERS, 0.0);
        for reason in [SENDER, STREAMS, PROTOCOL, LEASE, ENTRY, BARRED] {
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
            bars,
            quotas,
            accept,
            clocks,
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
        let token = self.token.as_ref().map(|file| file.current());
        let identity = sender(&peer.proof, authorization(request), token.as_deref());
        let refused = |reason: &'static str, logged_as: &str, status: Status| {
            self.metrics.add((SOURCE, reason), &ENTRIES_REJECTED, 1);
            if self.logged.is_due(logged_as) {
                tracing::warn!(
                    status = status.message(),
                    "a sender was refused; others are counted for a minute"
                );
            }
            status
        };
        let identity = identity.map_err(|status| refused(SENDER, "unknown", status))?;
        self.bars.check(&identity).map_err(|status| refused(BARRED, &identity.name(), status))?;
        let place = peer.stream().ok_or_else(|| {
            let text = format!("this sender has {STREAMS_PER_SENDER} streams already");
            refused(SENDER, "unknown", Status::resource_exhausted(text))
        })?;
        Ok((identity, place))
    }

    /// What has to hold on of a stream whose sender was admitted by its token.
    fn token_proof<T>(&self, request: &Request<T>) -> Option<TokenProof> {
        let peer = request.extensions().get::<Peer>()?;
        let file = self.token.clone().filter(|_| peer.needs_token())?;
        Some(TokenProof { file, authorization: authorization(request)?.to_owned() })
    }
}

fn authorization<T>(request: &Request<T>) -> Option<&str> {
    request.metadata().get("authorization").and_then(|value| value.to_str().ok())
}

#[tonic::async_trait]
impl Collect for Service {
    type PutStream = ReceiverStream<Result<PutResponse, Status>>;
    type ClockStream = ReceiverStream<Result<ClockRequest, Status>>;

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
            share: self.quotas.of(&identity),
            token: self.token_proof(&request),
            bars: self.bars.clone(),
            stop: self.stop.clone(),
            identity,
            number: self.next_stream.fetch_add(1, Relaxed),
            queue: self.queue.clone(),
            routes: self.routes.clone(),
            memory: self.memory.clone(),
            acks,
            accept: self.accept,
            clocks: self.clocks.clone(),
            ended: Arc::default(),
            takes_refusals: request.metadata().contains_key(REFUSALS_KEY),
            takes_detail: request.metadata().get(DETAIL_KEY).map(|value| value == "1"),
            refused: self.refused.clone(),
            metrics: self.metrics.clone(),
            logged: self.logged.clone(),
            spools: self.spools.clone(),
        };
        let (metrics, streams) = (self.metrics.clone(), self.streams.clone());
        let count = move |metrics: &SelfMetrics| {
            #[allow(clippy::cast_precision_loss)] // At most STREAMS_MAX.
            metrics.set(SOURCE, &CONNECTED_SENDERS, (STREAMS_MAX - streams.available_permits()) as f64);
        };
        let (sender, logged) = (stream.identity.name(), self.logged.clone());
        tokio::spawn(async move {
            count(&metrics);
            let acks = stream.acks.clone();
            let (routes, number) = (stream.routes.clone(), stream.number);
            if let Err((reason, status)) = stream.read(request.into_inner()).await {
                metrics.add((SOURCE, reason), &ENTRIES_REJECTED, 1);
                if logged.is_due(&sender) {
                    tracing::warn!(sender, status = status.message(), "a sender's stream was refused");
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

    async fn clock(
        &self,
        request: Request<Streaming<ClockAnswer>>,
    ) -> Result<Response<Self::ClockStream>, Status> {
        let (identity, place) = self.identity(&request)?;
        let mut answers = request.into_inner();
        let opened = tokio::time::timeout(CLOCK_OPEN_LIMIT, answers.message()).await;
        let first = opened.map_err(|_| Status::deadline_exceeded("the sender did not begin"))??;
        let first = first.ok_or_else(|| Status::invalid_argument("the sender did not begin"))?;
        if first.node.len() > NAME_BYTES_MAX || first.node.chars().any(is_deceptive) {
            return Err(Status::invalid_argument("the sender's node is no host name"));
        }
        let (sender, certificate) = identity.clock(&first.node)?;
        let (requests, queue) = mpsc::channel(ACKS_MAX);
        let number = self.next_stream.fetch_add(1, Relaxed);
        let clocks = self.clocks.clone();
        let stream = ClockStream { clocks, number, sender: sender.into(), certificate, requests, answers };
        let (bars, stop) = (self.bars.clone(), self.stop.clone());
        tokio::spawn(async move {
            let _place = place;
            let is_barred = || bars.check(&identity).is_err();
            stop.run_until_cancelled(answer_clock(stream, first, is_barred)).await;
        });
        Ok(Response::new(ReceiverStream::new(queue)))
    }

    async fn lease(&self, request: Request<LeaseRequest>) -> Result<Response<LeaseResponse>, Status> {
        let (identity, _place) = self.identity(&request)?;
        let allowed = identity.may_crawl(request.get_ref().subnet_prefix);
        let offset = identity.clock("").ok().and_then(|(sender, _)| self.clocks.present_offset(&sender));
        let offset = offset.unwrap_or(0);
        let request =
            allowed.and_then(|()| term_request(request.into_inner(), offset)).inspect_err(|status| {
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

/// `offset`: how far the crawler's clock is ahead.
fn term_request(request: LeaseRequest, offset: i64) -> Result<TermRequest, Status> {
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
        since: request.since.saturating_sub(offset),
        lease: lease.clamp(LEASE_SHORTEST, LEASE_LONGEST),
        release: request.release,
    })
}
