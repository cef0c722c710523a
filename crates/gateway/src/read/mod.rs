//! Prometheus' remote-read: an unchanged Prometheus answers every PromQL over all that the database keeps.
//!
//! `POST /api/v1/read`, protocol version 1, both forms of the answer: messages of chunks as a stream (Prometheus 2.55 and
//! later ask for it), or one compressed message. Names and labels are those of the daemons' pages
//! ([`throughline_store::history`]), so that scraped and older samples are the same series.
//!
//! Of the hints two are used: `series` asks for labels only, and for `rate` and `increase` a sample in each quarter of
//! their range is enough. Everything else gets every sample: thinning would change what it says. Where readings are gone,
//! and where a sample a minute is enough, the rows of one minute answer (`throughline_store::history`).

mod answer;
mod matchers;
pub mod message;
mod plan;

use answer::Whole;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use message::{Query, ReadRequest, ResponseType};
use plan::Plan;
use prost::Message;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_store::history::{Asked, Family, HistoryError, Kept, Samples, Series, Take};
use throughline_store::{Database, Horizons, NoConnection, Pool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_postgres::Client;
use tokio_stream::wrappers::ReceiverStream;

/// Largest request, packed and once unpacked: a few conditions, of which one may have thousands of alternatives.
const QUESTION_BYTES: usize = 1 << 20;

/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Regular expressions in one request: each takes up to 1.5 MiB, and `query.max_parallel` requests are read at once.
const REGEXES_MAX: usize = 16;

/// Selections in one question; Prometheus sends one.
const QUERIES_MAX: usize = 16;

/// Samples of an answer in one message: it is held in memory, 16 bytes a sample and more. A stream has no such bound.
const WHOLE_SAMPLES_MAX: u64 = 5_000_000;

/// Pieces of a stream that wait for the network.
const PIECES: usize = 16;

/// Series are sent together up to so much: each piece is a handful of system calls here and there.
const PIECE_BYTES: usize = 64 << 10;

/// How long a question waits for one of the connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is believed which time is in which tables: minutes are made each minute, and chunks dropped more rarely.
const HORIZONS_AGE: Duration = Duration::from_secs(30);

/// Bounds of what one question may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples read from the database for one question.
    pub samples: u64,
    /// Time of one statement.
    pub time: Duration,
    /// Questions answered at once; each holds a connection.
    pub parallel: usize,
    /// Bytes of packed hours that stay in memory for the next question.
    pub kept_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { samples: 50_000_000, time: Duration::from_secs(60), parallel: 8, kept_bytes: 64 << 20 }
    }
}

impl Limits {
    /// How long an answer of the database is waited for: a statement ends by itself after its time, unless the database
    /// hangs.
    #[must_use]
    pub fn answer_within(&self) -> Duration {
        self.time + self.time / 4 + Duration::from_secs(1)
    }
}

/// What answers.
pub struct Reader {
    pool: Pool,
    limits: Limits,
    kept: Kept,
    horizons: Mutex<Option<(Instant, Horizons)>>,
    /// A place for each request that is read and answered at once.
    gate: Arc<Semaphore>,
}

/// Why there is no answer: a status and a sentence.
type Refusal = (StatusCode, String);

/// Where an answer's series go.
enum Out {
    Stream(Pieces),
    Whole(Whole),
}

/// A stream under construction.
struct Pieces {
    to: mpsc::Sender<Result<Bytes, Refusal>>,
    /// What is not sent yet.
    open: BytesMut,
    /// What was sent, the first one first: memory that is used again costs less than new one, page by page.
    sent: VecDeque<Bytes>,
}

impl Pieces {
    fn new(to: mpsc::Sender<Result<Bytes, Refusal>>) -> Pieces {
        Pieces { to, open: BytesMut::with_capacity(PIECE_BYTES * 2), sent: VecDeque::new() }
    }

    async fn send(&mut self) -> Result<(), HistoryError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let is_done = self.sent.front().is_some_and(Bytes::is_unique);
        let done = if is_done { self.sent.pop_front() } else { None };
        let mut next = match done.map(Bytes::try_into_mut) {
            Some(Ok(done)) => done,
            _ => BytesMut::with_capacity(PIECE_BYTES * 2),
        };
        next.clear();
        let piece = std::mem::replace(&mut self.open, next).freeze();
        self.sent.push_back(piece.clone());
        self.to.send(Ok(piece)).await.map_err(|_| HistoryError::Gone)
    }
}

impl Reader {
    /// Reads this database.
    #[must_use]
    pub fn new(database: Database, limits: Limits) -> Reader {
        let pool = Pool::new(database, limits.parallel, limits.time);
        Reader {
            pool,
            limits,
            kept: Kept::new(limits.kept_bytes),
            horizons: Mutex::default(),
            gate: Arc::new(Semaphore::new(limits.parallel)),
        }
    }

    /// Which time is in which tables, as of a while ago at most.
    async fn horizons(&self, client: &Client) -> Result<Horizons, HistoryError> {
        let known = *self.horizons.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, horizons)) = known.filter(|(since, _)| since.elapsed() < HORIZONS_AGE) {
            return Ok(horizons);
        }
        let horizons = Horizons::read(client).await?;
        *self.horizons.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), horizons));
        Ok(horizons)
    }

    /// Answers all queries, in order.
    async fn answer(&self, plans: &[Plan], mut out: Out) -> Result<Out, Refusal> {
        let begun = Instant::now();
        let lent = self.pool.get(PATIENCE).await.map_err(|error| no_connection(&error))?;
        let Some(client) = lent.client() else { return Err(internal("no connection")) };
        let most = match out {
            Out::Stream(_) => self.limits.samples,
            Out::Whole(_) => self.limits.samples.min(WHOLE_SAMPLES_MAX),
        };
        let horizons = tokio::time::timeout(self.limits.answer_within(), self.horizons(client)).await;
        let horizons =
            horizons.map_err(|_| self.hangs())?.map_err(|error| self.refusal(error, most, begun))?;
        let patience = self.limits.answer_within();
        let mut left = most;
        for (index, plan) in plans.iter().enumerate() {
            if let Out::Whole(whole) = &mut out {
                whole.begin().map_err(|error| internal(&error.to_string()))?;
            }
            for family in &plan.families {
                let asked = Asked {
                    family,
                    range: plan.range,
                    thinning: plan.thinning,
                    limit: left,
                    horizons,
                    kept: &self.kept,
                    patience,
                    takes_chunks: matches!(out, Out::Stream(_)),
                };
                let failed = |error: HistoryError| self.refusal(error, most, begun);
                let equal = matchers::equal(&plan.matchers);
                let found = asked.series(client, &equal).await.map_err(|error| failed(error.into()))?;
                let matches = |series: &Series| matchers::matches(&plan.matchers, series);
                let wanted = match found.iter().all(matches) {
                    true => Cow::Borrowed(&*found),
                    false => found.iter().filter(|series| matches(series)).cloned().collect(),
                };
                if plan.labels_only {
                    for series in wanted.iter() {
                        if asked.has_samples(client, series).await.map_err(|error| failed(error.into()))? {
                            out.put(index, family, series, None).await.map_err(failed)?;
                        }
                    }
                    continue;
                }
                let mut put = Put { out: &mut out, query: index, family };
                left -= asked.read(client, &wanted, &mut put).await.map_err(failed)?;
            }
        }
        lent.give_back();
        Ok(out)
    }

    fn hangs(&self) -> Refusal {
        let seconds = self.limits.time.as_secs();
        let why = format!("the database did not answer within {seconds} s, the limit query.max_seconds");
        (StatusCode::GATEWAY_TIMEOUT, why)
    }

    fn refusal(&self, error: HistoryError, most: u64, begun: Instant) -> Refusal {
        match error {
            HistoryError::TooMany(_) if most < self.limits.samples => (
                StatusCode::UNPROCESSABLE_ENTITY,
                format!(
                    "more than {most} samples, the most in an answer of one message; ask for a shorter time or fewer \
                     series, or with a Prometheus from 2.55 on, which takes answers as a stream"
                ),
            ),
            HistoryError::TooMany(_) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                format!(
                    "more than {most} samples, the limit query.max_samples; ask for a shorter time or fewer series"
                ),
            ),
            _ if begun.elapsed() >= self.limits.time => (
                StatusCode::GATEWAY_TIMEOUT,
                format!(
                    "longer than {} s, the limit query.max_seconds: {error}; ask for a shorter time or fewer series",
                    self.limits.time.as_secs()
                ),
            ),
            HistoryError::Database(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            HistoryError::Damaged
            | HistoryError::DamagedBlock { .. }
            | HistoryError::TooLarge
            | HistoryError::Gone => internal(&error.to_string()),
        }
    }
}

impl Out {
    async fn put(
        &mut self,
        query: usize,
        family: &Family,
        series: &Series,
        samples: Option<&Samples>,
    ) -> Result<(), HistoryError> {
        match self {
            Out::Whole(whole) => whole.add(family, series, samples).map_err(|_| HistoryError::TooLarge)?,
            Out::Stream(pieces) => {
                answer::streamed(query, family, series, samples, &mut pieces.open);
                if pieces.open.len() >= PIECE_BYTES {
                    pieces.send().await?;
                }
            }
        }
        Ok(())
    }
}

/// Puts the series of one family into an answer.
struct Put<'a> {
    out: &'a mut Out,
    query: usize,
    family: &'a Family,
}

impl Take for Put<'_> {
    async fn take(&mut self, series: &Series, samples: &Samples) -> Result<(), HistoryError> {
        self.out.put(self.query, self.family, series, Some(samples)).await
    }
}

fn internal(why: &str) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned())
}

fn no_connection(error: &NoConnection) -> Refusal {
    match error {
        NoConnection::Busy => {
            (StatusCode::TOO_MANY_REQUESTS, format!("{error}; ask again later, or raise query.max_parallel"))
        }
        NoConnection::Database(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// `POST /api/v1/read`.
pub async fn read(State(reader): State<Arc<Reader>>, request: Request) -> Response {
    match answer_to(reader, request).await {
        Ok(response) => response,
        Err((status, why)) => {
            tracing::warn!(%status, why, "a remote-read was refused");
            (status, format!("remote-read: {why}\n")).into_response()
        }
    }
}

async fn answer_to(reader: Arc<Reader>, request: Request) -> Result<Response, Refusal> {
    check_types(request.headers())?;
    let body = axum::body::to_bytes(request.into_body(), QUESTION_BYTES);
    let body = tokio::time::timeout(BODY_TIME, body).await;
    let body = body.map_err(|_| (StatusCode::REQUEST_TIMEOUT, format!("no body within {BODY_TIME:?}")))?;
    let body = body.map_err(|error| {
        (StatusCode::PAYLOAD_TOO_LARGE, format!("{error}; the most is {QUESTION_BYTES} bytes"))
    })?;
    // Expressions are compiled behind the same gate that bounds queries, and not on a thread that polls sockets.
    let place = tokio::time::timeout(PATIENCE, reader.gate.clone().acquire_owned()).await;
    let Ok(Ok(place)) = place else { return Err(no_connection(&NoConnection::Busy)) };
    let planned = tokio::task::spawn_blocking(move || question(&body)).await;
    let planned = planned.map_err(|_| internal("planning the request failed"))?;
    let (plans, form) = planned.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    match form {
        ResponseType::StreamedXorChunks => stream(reader, plans, place).await,
        ResponseType::Samples => whole(&reader, &plans).await,
    }
}

/// A web page can make a browser send a body of a few plain types only, without being asked first: these are others.
fn check_types(headers: &HeaderMap) -> Result<(), Refusal> {
    let expected = [(header::CONTENT_TYPE, "application/x-protobuf"), (header::CONTENT_ENCODING, "snappy")];
    for (name, value) in expected {
        let sent = headers.get(&name).and_then(|sent| sent.to_str().ok()).unwrap_or("absent");
        if sent.split(';').next().map(str::trim) != Some(value) {
            let why = format!("{name} is {}; expected {value}", sent.escape_debug());
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
    }
    Ok(())
}

/// Unpacks a question and checks all of it.
fn question(body: &[u8]) -> Result<(Vec<Plan>, ResponseType), String> {
    let length =
        snap::raw::decompress_len(body).map_err(|error| format!("the body is not Snappy's: {error}"))?;
    if length > QUESTION_BYTES {
        return Err(format!("a request of {length} bytes; the most is {QUESTION_BYTES}"));
    }
    let body = snap::raw::Decoder::new()
        .decompress_vec(body)
        .map_err(|error| format!("the body is not Snappy's: {error}"))?;
    let request = ReadRequest::decode(body.as_slice())
        .map_err(|error| format!("the body is no ReadRequest: {error}"))?;
    if request.queries.len() > QUERIES_MAX {
        return Err(format!("{} queries in one question; the most is {QUERIES_MAX}", request.queries.len()));
    }
    // The first form that is known here; an old Prometheus names none.
    let mut forms =
        request.accepted_response_types.iter().filter_map(|form| ResponseType::try_from(*form).ok());
    let form = match forms.next() {
        Some(form) => form,
        None if request.accepted_response_types.is_empty() => ResponseType::Samples,
        None => {
            return Err(format!(
                "no form of the answer is known here: {:?}",
                request.accepted_response_types.iter().take(QUERIES_MAX).collect::<Vec<_>>()
            ));
        }
    };
    let regexes: usize = request.queries.iter().map(Query::regexes).sum();
    if regexes > REGEXES_MAX {
        return Err(format!("{regexes} regular expressions in one request; the most is {REGEXES_MAX}"));
    }
    let plans = request.queries.iter().map(Plan::new).collect::<Result<_, _>>()?;
    Ok((plans, form))
}

async fn whole(reader: &Reader, plans: &[Plan]) -> Result<Response, Refusal> {
    let Out::Whole(whole) = reader.answer(plans, Out::Whole(Whole::new())).await? else {
        return Err(internal("an answer of the wrong form"));
    };
    let body = whole.compressed().map_err(|error| internal(&error.to_string()))?;
    let kind = [(header::CONTENT_TYPE, "application/x-protobuf"), (header::CONTENT_ENCODING, "snappy")];
    Ok((kind, body).into_response())
}

/// The status is decided by the first piece: until then a refusal has its reason.
async fn stream(
    reader: Arc<Reader>,
    plans: Vec<Plan>,
    place: OwnedSemaphorePermit,
) -> Result<Response, Refusal> {
    let (pieces, mut taken) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let _place = place;
        let out = Out::Stream(Pieces::new(pieces.clone()));
        match reader.answer(&plans, out).await {
            // Nobody is there any more to tell that the last piece did not arrive.
            Ok(Out::Stream(mut last)) => _ = last.send().await,
            Ok(Out::Whole(_)) => {}
            Err(refusal) => _ = pieces.send(Err(refusal)).await,
        }
    });
    let first = taken.recv().await.transpose()?;
    let rest = ReceiverStream::new(taken).map(|piece| {
        // What breaks off in the middle must not look like an end.
        piece.map_err(|(_, why)| {
            tracing::warn!(why, "a remote-read broke off");
            std::io::Error::other(why)
        })
    });
    let body = Body::from_stream(futures::stream::iter(first.map(Ok)).chain(rest));
    let kind = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

#[cfg(test)]
mod tests;
