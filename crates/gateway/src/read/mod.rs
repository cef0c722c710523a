//! Prometheus' remote-read: an unchanged Prometheus answers every PromQL over all that the database keeps.
//!
//! `POST /api/v1/read`, protocol version 1, both forms of the answer: messages of chunks as a stream (Prometheus 2.55 and
//! later request it), or one compressed message. Names and labels are those of the daemons' pages
//! ([`throughline_query::history`]), so that scraped and older samples are the same series.
//!
//! Of the hints two are used: `series` requests labels only, and for `rate` and `increase` the samples at the ends of
//! their ranges are nearly enough. Everything else gets every sample: thinning would change what it says. Where readings are gone,
//! and where a sample a minute is enough, the rows of one minute answer (`throughline_query::history`).

mod answer;
pub(crate) mod matchers;
pub mod message;
mod out;
mod own_history;
mod plan;

pub use own_history::OwnHistory;

use crate::shares::{self, RequestSlot};
use answer::ReadResponseBuilder;
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use matchers::Budget;
use message::{ReadRequest, ResponseType};
use out::{AnswerOutput, FamilyWriter, Pieces};
use plan::Plan;
use prost::Message;
use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_query::history::{BlockCache, HistoryError, HistoryQuery, Series};
use throughline_query::{Horizons, NoConnection, Pool, ReadPath, at_primary};
use tokio::sync::{Semaphore, mpsc};
use tokio_postgres::Client;
use tokio_stream::wrappers::ReceiverStream;

/// Largest request, as it is sent and once unpacked: a few conditions.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How long a request's body may take to arrive: it holds one of its reader's places.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Beyond one reader's share, so many requests' expressions are compiled or held against values at a time, each on a
/// thread of its own: one reader can't have all of them.
const REGEX_THREADS_SPARE: usize = 2;

/// How long the expressions of one request may be held against the values of one family's labels.
const MATCH_TIME_MAX: Duration = Duration::from_secs(5);

/// Statements of one request together, in times that one may take (`query.seconds_max`): `{}` with the hint `series`
/// would be thousands of them.
const STATEMENT_TIMES_MAX: u32 = 10;

/// Selections in one request; Prometheus sends one.
const QUERIES_MAX: usize = 16;

/// Samples of an answer in one message: it is held in memory, 16 bytes a sample and more. A stream has no such bound.
const WHOLE_SAMPLES_MAX: u64 = 5_000_000;

/// Pieces of a stream that wait for the network.
const PIECES: usize = 16;

/// How long a request waits for one of the connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is believed which time is in which tables: minutes are made each minute, and chunks dropped more rarely.
const HORIZONS_AGE: Duration = Duration::from_secs(30);

/// Bounds of what one request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples read from the database for one request.
    pub samples: u64,
    /// Time of one statement.
    pub time: Duration,
    /// Requests answered at once; each holds a connection to the database. One reader has half of them.
    pub parallel: usize,
    /// Connections of readers at most.
    pub connections: usize,
    /// Bytes of packed hours that stay in memory for the next request.
    pub kept_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            samples: 50_000_000,
            time: Duration::from_secs(60),
            parallel: 8,
            connections: 512,
            kept_bytes: 64 << 20,
        }
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
    cache: BlockCache,
    /// Of the primary and of the replica, which may lag.
    horizons: Mutex<[Option<(Instant, Horizons)>; 2]>,
    regexes: Arc<Semaphore>,
    own: OwnHistory,
}

/// Why there is no answer: a status and a sentence.
type Refusal = (StatusCode, String);

impl Reader {
    /// Reads this database, or its replica.
    #[must_use]
    pub fn new(path: impl Into<ReadPath>, limits: Limits) -> Reader {
        let pool = Pool::new(path, limits.parallel, limits.time);
        let regexes = Arc::new(Semaphore::new(shares::each(limits.parallel) + REGEX_THREADS_SPARE));
        Reader {
            pool,
            limits,
            cache: BlockCache::new(limits.kept_bytes),
            horizons: Mutex::default(),
            regexes,
            own: OwnHistory::default(),
        }
    }

    /// Leaves out what these have themselves.
    #[must_use]
    pub fn with_own_history(self, own: OwnHistory) -> Reader {
        Reader { own, ..self }
    }

    /// Which time is in which tables, as of a while ago at most.
    async fn horizons(&self, client: &Client, is_replica: bool) -> Result<Horizons, HistoryError> {
        let place = usize::from(is_replica);
        let known = self.horizons.lock().unwrap_or_else(PoisonError::into_inner)[place];
        if let Some((_, horizons)) = known.filter(|(since, _)| since.elapsed() < HORIZONS_AGE) {
            return Ok(horizons);
        }
        let horizons = Horizons::read(client).await?;
        self.horizons.lock().unwrap_or_else(PoisonError::into_inner)[place] =
            Some((Instant::now(), horizons));
        Ok(horizons)
    }

    /// Does something with regular expressions, on a thread of its own, a few at a time.
    async fn with_regexes<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let permit = tokio::time::timeout(PATIENCE, self.regexes.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            let why =
                "other requests' regular expressions take all the time there is for them; try again later";
            return Err((StatusCode::TOO_MANY_REQUESTS, why.to_owned()));
        };
        let done = tokio::task::spawn_blocking(move || {
            let _until_done = permit;
            work()
        });
        done.await.map_err(|error| internal(&error.to_string()))
    }

    /// The series of a family that are wanted.
    async fn wanted<'a>(&self, plan: &Plan, found: &'a Arc<[Series]>) -> Result<Cow<'a, [Series]>, Refusal> {
        if matchers::has_regex(&plan.matchers) {
            let (conditions, all) = (Arc::clone(&plan.matchers), Arc::clone(found));
            let until = Instant::now() + MATCH_TIME_MAX.min(self.limits.time);
            let selected = self.with_regexes(move || matchers::select(&conditions, &all, until)).await?;
            return selected.map(Cow::Owned).map_err(|matchers::TooSlow| {
                let why =
                    "holding the regular expressions against the labels' values takes too long; name values";
                (StatusCode::UNPROCESSABLE_ENTITY, why.to_owned())
            });
        }
        let matches = |series: &Series| matchers::matches(&plan.matchers, series);
        Ok(match found.iter().all(matches) {
            true => Cow::Borrowed(&**found),
            false => found.iter().filter(|series| matches(series)).cloned().collect(),
        })
    }

    /// Answers all queries, in order, within a bound on the time of all of them.
    async fn answer(&self, plans: &[Plan], out: AnswerOutput) -> Result<AnswerOutput, Refusal> {
        let most = self.limits.answer_within() * STATEMENT_TIMES_MAX;
        tokio::time::timeout(most, self.answer_all(plans, out)).await.unwrap_or_else(|_| {
            let why = format!(
                "longer than {} s, {STATEMENT_TIMES_MAX} times the limit query.seconds_max; ask for fewer series",
                most.as_secs()
            );
            Err((StatusCode::GATEWAY_TIMEOUT, why))
        })
    }

    /// As [`Reader::answer`], and once more with the primary where the replica did not answer and nothing was `begun`: of an
    /// answer that was, the reader has a part.
    async fn answer_at_either(
        &self,
        plans: &[Plan],
        out: impl Fn() -> AnswerOutput,
        begun: impl Fn() -> bool,
    ) -> Result<AnswerOutput, Refusal> {
        if !self.pool.path().uses_replica() {
            return self.answer(plans, out()).await;
        }
        let lost = async {
            self.pool.path().replica_lost().await;
            if begun() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            answer = self.answer(plans, out()) => match answer {
                Err((StatusCode::SERVICE_UNAVAILABLE, why)) if !begun() => {
                    tracing::debug!(why, "the replica did not answer a remote-read: the primary does");
                }
                answer => return answer,
            },
            () = lost => {}
        }
        at_primary(self.answer(plans, out())).await
    }

    async fn answer_all(&self, plans: &[Plan], mut out: AnswerOutput) -> Result<AnswerOutput, Refusal> {
        let begun = Instant::now();
        let connection = self.pool.get(PATIENCE).await.map_err(|error| no_connection(&error))?;
        let Some(client) = connection.client() else { return Err(internal("no connection")) };
        let most = match out {
            AnswerOutput::Stream(_) => self.limits.samples,
            AnswerOutput::Whole(_) => self.limits.samples.min(WHOLE_SAMPLES_MAX),
        };
        let horizons = self.horizons(client, connection.is_replica());
        let horizons = tokio::time::timeout(self.limits.answer_within(), horizons).await;
        let horizons =
            horizons.map_err(|_| self.hangs())?.map_err(|error| self.refusal(error, most, begun))?;
        let patience = self.limits.answer_within();
        let mut left = most;
        for (index, plan) in plans.iter().enumerate() {
            if let AnswerOutput::Whole(whole) = &mut out {
                whole.begin().map_err(|error| internal(&error.to_string()))?;
            }
            for family in &plan.families {
                let request = HistoryQuery {
                    family,
                    range: plan.range,
                    thinning: plan.thinning,
                    limit: left,
                    horizons,
                    cache: &self.cache,
                    patience,
                    takes_chunks: matches!(out, AnswerOutput::Stream(_)),
                };
                let failed = |error: HistoryError| self.refusal(error, most, begun);
                let equal = matchers::equal(&plan.matchers);
                let found = request.series(client, &equal).await.map_err(|error| failed(error.into()))?;
                let wanted = self.wanted(plan, &found).await?;
                if plan.labels_only {
                    for series in wanted.iter() {
                        if request.has_samples(client, series).await.map_err(|error| failed(error.into()))? {
                            out.put(index, family, series, None).await.map_err(failed)?;
                        }
                    }
                    continue;
                }
                let mut put = FamilyWriter { out: &mut out, query: index, family };
                left -= request.read(client, &wanted, &mut put).await.map_err(failed)?;
            }
        }
        connection.release().await;
        Ok(out)
    }

    fn hangs(&self) -> Refusal {
        let seconds = self.limits.time.as_secs();
        let why = format!("the database did not answer within {seconds} s, the limit query.seconds_max");
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
                    "more than {most} samples, the limit query.samples_max; ask for a shorter time or fewer series"
                ),
            ),
            _ if begun.elapsed() >= self.limits.time => (
                StatusCode::GATEWAY_TIMEOUT,
                format!(
                    "longer than {} s, the limit query.seconds_max: {error}; ask for a shorter time or fewer series",
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

fn internal(why: &str) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned())
}

fn no_connection(error: &NoConnection) -> Refusal {
    match error {
        NoConnection::Busy => {
            (StatusCode::TOO_MANY_REQUESTS, format!("{error}; ask again later, or raise query.parallel_max"))
        }
        NoConnection::Database(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// `POST /api/v1/read`. `held` is the reader's share of the parallel requests, which an answer holds to its end.
pub async fn read(
    State(reader): State<Arc<Reader>>,
    held: Option<Extension<RequestSlot>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let refuse = |(status, why): Refusal| {
        tracing::warn!(%status, why, "a remote-read was refused");
        (status, format!("remote-read: {why}\n")).into_response()
    };
    let (plans, form) = match request(&reader, &headers, body).await {
        Ok(request) => request,
        Err(refusal) => return refuse(refusal),
    };
    let held = held.map(|Extension(held)| held);
    match form {
        ResponseType::StreamedXorChunks => stream(reader, plans, held).await.unwrap_or_else(refuse),
        ResponseType::Samples => whole(&reader, &plans).await.unwrap_or_else(refuse),
    }
}

/// Takes a request in, all of it bounded: the length that it has, and the one that it says it has once unpacked.
async fn request(
    reader: &Reader,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Vec<Plan>, ResponseType), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-protobuf") {
        let why = format!("Content-Type is '{}'; expected application/x-protobuf", shown(kind));
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let coding = text(header::CONTENT_ENCODING);
    if coding != "snappy" {
        let why = format!("Content-Encoding is '{}'; expected snappy", shown(coding));
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let too_large =
        || (StatusCode::PAYLOAD_TOO_LARGE, format!("a request of more than {REQUEST_BYTES_MAX} bytes"));
    let taken = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, REQUEST_BYTES_MAX)).await;
    let body = taken.map_err(|_| {
        let why = format!("the body did not arrive within {} s", BODY_TIME_MAX.as_secs());
        (StatusCode::REQUEST_TIMEOUT, why)
    })?;
    let body = body.map_err(|_| too_large())?;
    let wrong = |why: String| (StatusCode::BAD_REQUEST, why);
    let not_snappy = |error: snap::Error| wrong(format!("the body is not Snappy's: {error}"));
    if snap::raw::decompress_len(&body).map_err(not_snappy)? > REQUEST_BYTES_MAX {
        return Err(too_large());
    }
    let (mut plans, form) = reader.with_regexes(move || decoded(&body)).await?.map_err(wrong)?;
    reader.own.leave_out(&mut plans).await;
    Ok((plans, form))
}

fn shown(text: &str) -> Cow<'_, str> {
    throughline_sample::admission::clean_text(text, 64)
}

/// Unpacks a request whose length is known to be within bounds, and checks all of it.
fn decoded(body: &[u8]) -> Result<(Vec<Plan>, ResponseType), String> {
    let body = snap::raw::Decoder::new()
        .decompress_vec(body)
        .map_err(|error| format!("the body is not Snappy's: {error}"))?;
    let request = ReadRequest::decode(body.as_slice())
        .map_err(|error| format!("the body is no ReadRequest: {error}"))?;
    if request.queries.len() > QUERIES_MAX {
        return Err(format!("{} queries in one request; the most is {QUERIES_MAX}", request.queries.len()));
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
    let mut budget = Budget::default();
    let plans =
        request.queries.iter().map(|query| Plan::new(query, &mut budget)).collect::<Result<_, _>>()?;
    Ok((plans, form))
}

async fn whole(reader: &Reader, plans: &[Plan]) -> Result<Response, Refusal> {
    let answer =
        reader.answer_at_either(plans, || AnswerOutput::Whole(ReadResponseBuilder::new()), || false).await?;
    let AnswerOutput::Whole(whole) = answer else {
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
    held: Option<RequestSlot>,
) -> Result<Response, Refusal> {
    let (pieces, mut taken) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let _until_the_end = held;
        let begun = Arc::new(AtomicBool::new(false));
        let out = || AnswerOutput::Stream(Pieces::new(pieces.clone(), begun.clone()));
        match reader.answer_at_either(&plans, out, || begun.load(Relaxed)).await {
            // Nobody is there any more to learn that the last piece did not arrive.
            Ok(AnswerOutput::Stream(mut last)) => _ = last.send().await,
            Ok(AnswerOutput::Whole(_)) => {}
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
