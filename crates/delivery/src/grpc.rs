//! The gRPC client of a collector.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use throughline_daemon::Token;
use throughline_spool::Entry;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use uuid::Uuid;

use crate::authorization::{Authorization, authorized};
use crate::clock::ClockExchange;
use crate::sink::{Ack, Answer, Connecting, OnRefusal, Reason, Refusal, Session, Sink, SinkError};
use crate::tls::TlsFiles;
use crate::unix;
use crate::wire::collect_client::CollectClient;
use crate::wire::{DetailRequest, PutRequest, PutResponse};

/// Time for a connection, and for the stream to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that vanished without a word is noticed after one interval and one timeout.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Entries between the ship loop and the stream; more would only move the queue.
const CHANNEL_ENTRIES: usize = 16;

/// What a URL of a Unix socket begins with.
pub(crate) const UNIX: &str = "unix:";
/// The configuration's key of the token.
pub(crate) const TOKEN_KEY: &str = "delivery.token_file";

/// Metadata of a stream whose sender understands [`crate::wire::Refusal`]; see `collect.proto`.
pub const REFUSALS_KEY: &str = "throughline-refusals";

/// Metadata of a stream whose sender takes requests for detail: 1 over this stream, 0 over another one; see `collect.proto`.
pub const DETAIL_KEY: &str = "throughline-detail";

/// A URL that entries cannot be sent to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// An empty list.
    #[error("a list of collectors without any: expected at least one URL")]
    None,
    /// No URL, or no http URL.
    #[error(
        "'{0}' is no URL of a collector: expected unix:collect.sock, https://HOST:9463 or http://127.0.0.1:9463"
    )]
    Malformed(String),
    /// A host beyond this machine without encryption.
    #[error(
        "'{0}' would send unencrypted to another machine: use https:// with [delivery.tls]; without TLS only \
         127.0.0.1, [::1] and localhost are taken"
    )]
    NotLoopback(String),
    /// An encrypted connection without certificates.
    #[error("'{0}' needs certificates: set ca, certificate and key in [delivery.tls]")]
    NoCertificates(String),
    /// Certificates for a connection that is not encrypted.
    #[error("'{0}' is not encrypted, and [delivery.tls] has certificates: use https://, or remove them")]
    NotEncrypted(String),
}

/// A collector at one address, or several that store in the same database: one is used for as long as it serves, and after
/// a failure the next one.
#[derive(Debug, Clone)]
pub struct GrpcSink {
    /// At least one.
    addresses: Arc<[Address]>,
    /// The one in use, of all clones.
    present: Arc<AtomicUsize>,
    token_file: Option<PathBuf>,
    /// Takes the collector's requests for detail.
    detail: Option<mpsc::Sender<DetailRequest>>,
    /// Answers the collector's requests for the time.
    clock: Option<ClockExchange>,
}

/// One address.
#[derive(Debug)]
struct Address {
    url: String,
    endpoint: Endpoint,
    tls: Option<TlsFiles>,
    /// Of the URL `unix:PATH`.
    socket: Option<PathBuf>,
}

impl GrpcSink {
    /// Without TLS, to this machine. Checks the URL; connects to nothing.
    ///
    /// # Errors
    /// The URL names nothing that entries may be sent to.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        Self::with_tls(url, None)
    }

    /// With these certificates if the URL is an encrypted one. Reads no file, connects to nothing.
    ///
    /// # Errors
    /// The URL names nothing that entries may be sent to, or does not go with the certificates.
    pub fn with_tls(url: &str, tls: Option<TlsFiles>) -> Result<Self, UrlError> {
        Self::to_all(&[url], tls.as_ref())
    }

    /// To any of several collectors. Which one is first is left to chance, so that many senders use all of them.
    ///
    /// # Errors
    /// As [`GrpcSink::with_tls`], for the first URL that is wrong; [`UrlError::None`] without any.
    pub fn to_all(urls: &[impl AsRef<str>], tls: Option<&TlsFiles>) -> Result<Self, UrlError> {
        // The certificates of a list are for those of it that are encrypted.
        let is_encrypted = |url: &str| url.starts_with("https:");
        let is_mixed = urls.iter().any(|url| is_encrypted(url.as_ref()));
        let one = |url: &str| {
            let tls = tls.filter(|_| !is_mixed || is_encrypted(url)).cloned();
            Address::new(url, tls)
        };
        let addresses: Vec<Address> =
            urls.iter().map(|url| one(url.as_ref())).collect::<Result<_, UrlError>>()?;
        if addresses.is_empty() {
            return Err(UrlError::None);
        }
        let first = fastrand::usize(..addresses.len());
        let present = Arc::new(AtomicUsize::new(first));
        Ok(Self { addresses: addresses.into(), present, token_file: None, detail: None, clock: None })
    }

    /// The place of the address in use.
    fn place(&self) -> usize {
        self.present.load(Relaxed) % self.addresses.len()
    }

    /// The address behind this one is tried from now on, unless another user of this sink went on already.
    fn leave(&self, place: usize) {
        let next = (place + 1) % self.addresses.len();
        if next != place && self.present.compare_exchange(place, next, Relaxed, Relaxed).is_ok() {
            let (from, to) = (&self.addresses[place].url, &self.addresses[next].url);
            tracing::debug!(from, to, "the next collector is tried");
        }
    }

    /// With the token of this file, for a collector that wants one. It is read at each connection.
    #[must_use]
    pub fn with_token(self, token_file: Option<PathBuf>) -> Self {
        Self { token_file, ..self }
    }

    /// Passes the collector's requests for detail on. What a full channel does not take is requested again with the next
    /// stream.
    #[must_use]
    pub fn with_detail(self, requests: mpsc::Sender<DetailRequest>) -> Self {
        Self { detail: Some(requests), ..self }
    }

    /// Has the collector measure this clock beside each stream of entries.
    #[must_use]
    pub fn with_clock(self, clock: ClockExchange) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// What goes with each request.
    pub(crate) fn authorization(&self) -> Result<Authorization, SinkError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let failed = |why: String| self.error(None, Reason::Connect, why);
        let token = Token::read(TOKEN_KEY, path).map_err(|failure| failed(failure.to_string()))?;
        let value = token.authorization().parse();
        let mut value: MetadataValue<Ascii> = value
            .map_err(|error: tonic::metadata::errors::InvalidMetadataValue| failed(error.to_string()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// A connection to the first address that takes one, from the present one on, and the place of that address.
    pub(crate) async fn channel(&self) -> Result<(Channel, usize), SinkError> {
        let mut tries = self.addresses.len();
        loop {
            let place = self.place();
            let error = match self.addresses[place].channel().await {
                Ok(channel) => return Ok((channel, place)),
                Err(error) => error,
            };
            self.leave(place);
            tries -= 1;
            if tries == 0 {
                return Err(error);
            }
            tracing::debug!(%error, "delivery");
        }
    }

    /// An error of the address at this place, or of the present one.
    pub(crate) fn error(&self, place: Option<usize>, reason: Reason, detail: impl ToString) -> SinkError {
        self.addresses[place.unwrap_or_else(|| self.place())].error(reason, detail)
    }

    async fn open(&self, on_refusal: OnRefusal) -> Result<Session, SinkError> {
        let ((channel, place), authorization) = (self.channel().await?, self.authorization()?);
        let place = Some(place);
        let (entries, queue) = mpsc::channel::<Entry>(CHANNEL_ENTRIES);
        let requests = tokio_stream::StreamExt::map(ReceiverStream::new(queue), |entry| PutRequest {
            spool_id: bytes::Bytes::copy_from_slice(entry.spool_id.as_bytes()),
            sequence: entry.sequence,
            batch: entry.payload,
        });
        let mut client = CollectClient::new(channel);
        // Once, as detail.
        let clock = self.clock.clone().filter(|_| on_refusal == OnRefusal::Continue);
        let clock = clock.map(|clock| (clock, client.clone(), authorization.clone()));
        let mut request = authorized(requests, authorization.as_ref());
        if on_refusal == OnRefusal::Continue {
            request.metadata_mut().insert(REFUSALS_KEY, MetadataValue::from_static("1"));
        }
        // Once: the stream of refused entries gets none.
        let detail = self.detail.clone().filter(|_| on_refusal == OnRefusal::Continue);
        if self.detail.is_some() {
            let value = if detail.is_some() { "1" } else { "0" };
            request.metadata_mut().insert(DETAIL_KEY, MetadataValue::from_static(value));
        }
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, client.put(request)).await;
        let mut responses = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(self.status(place, &status)),
            Err(_) => return Err(self.error(place, Reason::Silent, "the stream did not open in 5 s")),
        };
        let (received, answers) = mpsc::channel(CHANNEL_ENTRIES);
        let sink = self.clone();
        // Ends with the stream of entries.
        let exchange = clock.map(|(clock, client, authorization)| {
            AbortOnDropHandle::new(tokio::spawn(clock.answer(client, authorization)))
        });
        tokio::spawn(async move {
            let _exchange = exchange;
            loop {
                let item = tokio::select! {
                    // The session was dropped: so is the stream.
                    () = received.closed() => return,
                    item = responses.message() => item,
                };
                let (item, last) = match item {
                    Ok(Some(PutResponse { detail: Some(request), .. })) => {
                        if let Some(requests) = &detail
                            && requests.try_send(request).is_err()
                        {
                            tracing::debug!("a request for detail finds no place");
                        }
                        continue;
                    }
                    Ok(Some(response)) => match answer(response) {
                        Some(answer) => (Ok(answer), false),
                        None => {
                            let why = "a response without a spool id";
                            (Err(sink.error(place, Reason::Protocol, why)), true)
                        }
                    },
                    Ok(None) => {
                        (Err(sink.error(place, Reason::Lost, "the collector ended the stream")), true)
                    }
                    Err(status) => (Err(sink.status(place, &status)), true),
                };
                if received.send(item).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Session { entries, answers })
    }

    pub(crate) fn status(&self, place: Option<usize>, status: &tonic::Status) -> SinkError {
        let reason = match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::Internal => Reason::Lost,
            _ => Reason::Refused,
        };
        self.error(place, reason, format!("{}: {}", status.code(), status.message()))
    }
}

impl Address {
    fn new(url: &str, tls: Option<TlsFiles>) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed(url.to_owned());
        if let Some(path) = url.strip_prefix(UNIX) {
            if tls.is_some() {
                return Err(UrlError::NotEncrypted(url.to_owned()));
            }
            // Two slashes as in other URLs name nothing.
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            if path.file_name().is_none() {
                return Err(malformed());
            }
            let endpoint = Endpoint::from_static("http://localhost");
            return Ok(Self::of(url, endpoint, None, Some(path.to_owned())));
        }
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| malformed())?;
        let host = uri.host().ok_or_else(malformed)?;
        match uri.scheme_str() {
            Some("http") if !is_loopback(host) => return Err(UrlError::NotLoopback(url.to_owned())),
            Some("http") if tls.is_some() => return Err(UrlError::NotEncrypted(url.to_owned())),
            Some("https") if tls.is_none() => return Err(UrlError::NoCertificates(url.to_owned())),
            Some("http" | "https") => {}
            _ => return Err(malformed()),
        }
        if uri.port().is_none() || uri.path().len() > 1 {
            return Err(malformed());
        }
        Ok(Self::of(url, Endpoint::from(uri), tls, None))
    }

    fn of(url: &str, endpoint: Endpoint, tls: Option<TlsFiles>, socket: Option<PathBuf>) -> Self {
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        Self { url: url.to_owned(), endpoint, tls, socket }
    }

    /// A connection.
    async fn channel(&self) -> Result<Channel, SinkError> {
        if let Some(path) = &self.socket {
            let connected = self.endpoint.connect_with_connector(unix::connector(path)).await;
            return connected.map_err(|e| self.error(Reason::Connect, root_cause(&e)));
        }
        let mut endpoint = self.endpoint.clone();
        if let Some(files) = &self.tls {
            let tls = files.client().map_err(|e| self.error(Reason::Connect, e))?;
            endpoint = endpoint.tls_config(tls).map_err(|e| self.error(Reason::Connect, root_cause(&e)))?;
        }
        endpoint.connect().await.map_err(|e| self.error(Reason::Connect, root_cause(&e)))
    }

    fn error(&self, reason: Reason, detail: impl ToString) -> SinkError {
        SinkError { to: self.url.clone(), reason, detail: detail.to_string() }
    }
}

fn answer(response: PutResponse) -> Option<Answer> {
    let spool_id = Uuid::from_slice(&response.spool_id).ok()?;
    Some(match response.refusal {
        Some(refusal) => {
            Answer::Refused(Refusal { spool_id, sequence: refusal.sequence, reason: refusal.reason })
        }
        None => Answer::Stored(Ack { spool_id, sequence: response.acknowledged }),
    })
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Whether a URL's host is this machine, judged without a name server.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl Sink for GrpcSink {
    fn connect(&self, on_refusal: OnRefusal) -> Connecting<'_> {
        Box::pin(self.open(on_refusal))
    }

    fn name(&self) -> String {
        self.addresses[self.place()].url.clone()
    }

    fn failed(&self, error: &SinkError) {
        let place = self.place();
        if self.addresses[place].url == error.to {
            self.leave(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_goes_without_tls() {
        for url in ["http://127.0.0.1:9463", "http://[::1]:1/", "http://localhost:9463", "http://127.9.9.9:1"]
        {
            assert!(GrpcSink::new(url).is_ok(), "{url}");
        }
        for url in ["http://10.0.0.1:9463", "http://localhost.example.org:9463", "http://[::2]:1"] {
            assert!(matches!(GrpcSink::new(url), Err(UrlError::NotLoopback(_))), "{url}");
        }
        assert!(matches!(GrpcSink::new("https://collector:9463"), Err(UrlError::NoCertificates(_))));
        let path = std::path::PathBuf::from("x.pem");
        let files = TlsFiles { ca: path.clone(), certificate: path.clone(), key: path };
        assert!(GrpcSink::with_tls("https://collector:9463", Some(files.clone())).is_ok());
        let plain = GrpcSink::with_tls("http://127.0.0.1:9463", Some(files));
        assert!(matches!(plain, Err(UrlError::NotEncrypted(_))));
        for url in ["", "127.0.0.1:9463", "http://127.0.0.1", "ftp://127.0.0.1:1", "http://127.0.0.1:1/path"]
        {
            assert!(matches!(GrpcSink::new(url), Err(UrlError::Malformed(_))), "{url}");
        }
        assert!(GrpcSink::new("unix:/run/x.sock").is_ok() && GrpcSink::new("unix:///run/x.sock").is_ok());
        assert!(matches!(GrpcSink::new("unix:"), Err(UrlError::Malformed(_))));
    }
}
