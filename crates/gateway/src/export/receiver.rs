//! One receiver over HTTP: sends a body, and says what became of it.
//!
//! Requests are sent one after the other on a thread of their own, so that a receiver that hangs holds up no other work and
//! no stop. Redirections are not followed and no proxy of the environment is used, because the token would go there.

use super::message::{CONTENT_TYPES, VERSIONS};
use super::{Protocol, RemoteWrite};
use anyhow::Context;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use throughline_daemon::{Failure, Token};
use tokio::sync::oneshot;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// For a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// For a request with its answer. A receiver under load may take seconds.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Longest part of an answer in a message.
const QUOTED_BYTES: u64 = 200;

/// Longest time that a receiver may put us off.
const PUT_OFF_MAX: Duration = Duration::from_secs(60);

/// How many samples were written (version 2 of the protocol).
const SAMPLES_WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All samples were taken.
    Taken,
    /// The samples are refused for what they are; sending them again is of no use.
    Refused {
        /// Its words.
        why: String,
        /// How many were taken all the same, where it says so.
        written: Option<u64>,
    },
    /// To be sent again: the receiver is away, overloaded, or does not allow it.
    Failed {
        /// What happened.
        why: String,
        /// When, if it says so.
        after: Option<Duration>,
    },
}

struct Job {
    body: Vec<u8>,
    answer: oneshot::Sender<Answer>,
}

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    jobs: mpsc::Sender<Job>,
}

impl Receiver {
    /// Reads the files that the settings name. Sends nothing yet.
    ///
    /// # Errors
    /// A file can't be used.
    pub fn new(settings: &RemoteWrite) -> anyhow::Result<Receiver> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_global(Some(REQUEST_LIMIT));
        let config = match settings.url.starts_with("https:") {
            true => config.tls_config(tls(settings.ca_file.as_deref())?),
            false => config,
        };
        if let Some(path) = &settings.token_file {
            Token::read("export.remote_write.token_file", path)?;
        }
        let (agent, settings) = (config.build().new_agent(), settings.clone());
        let (jobs, waiting) = mpsc::channel::<Job>();
        let work = move || {
            for job in waiting {
                // Nobody waits any more: stopped meanwhile.
                _ = job.answer.send(send(&agent, &settings, &job.body));
            }
        };
        std::thread::Builder::new()
            .name("remote-write".into())
            .spawn(work)
            .context("a thread for remote write")?;
        Ok(Receiver { jobs })
    }

    /// Sends a body.
    pub async fn send(&self, body: Vec<u8>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ended = |why: &str| Answer::Failed { why: why.to_owned(), after: None };
        if self.jobs.send(Job { body, answer }).is_err() {
            return ended("the thread of remote write has ended");
        }
        answered.await.unwrap_or_else(|_| ended("the thread of remote write has ended"))
    }
}

fn send(agent: &Agent, settings: &RemoteWrite, body: &[u8]) -> Answer {
    let version = usize::from(u8::from(settings.protocol)) - 1;
    let mut request = agent
        .post(&settings.url)
        .header(header::CONTENT_TYPE, CONTENT_TYPES[version])
        .header(header::CONTENT_ENCODING, "snappy")
        .header("x-prometheus-remote-write-version", VERSIONS[version]);
    for (name, value) in &settings.headers {
        request = request.header(name, value);
    }
    if let Some(path) = &settings.token_file {
        // Each time: it may have been renewed.
        match Token::read("export.remote_write.token_file", path) {
            Ok(token) => request = request.header(header::AUTHORIZATION, token.authorization()),
            Err(error) => return Answer::Failed { why: error.to_string(), after: None },
        }
    }
    match request.send(body) {
        Ok(response) => judged(response, settings.protocol),
        Err(error) => Answer::Failed { why: error.to_string(), after: None },
    }
}

/// What an answer means, by the specifications of both versions; only that what can only be wrong settings is not dropped.
fn judged(mut response: Response<ureq::Body>, protocol: Protocol) -> Answer {
    let status = response.status();
    let number = |name: &str| response.headers().get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let (written, put_off) = (number(SAMPLES_WRITTEN), number(header::RETRY_AFTER.as_str()));
    let text = response.body_mut().with_config().limit(QUOTED_BYTES).lossy_utf8(true).read_to_string();
    // A longer text is an error of its own: the status has to do.
    let text = text.unwrap_or_default();
    let why = format!("{status} {}", throughline_sample::admission::clean_text(text.trim(), 200));
    let failed = |why: String| Answer::Failed {
        why,
        after: put_off.map(|seconds| Duration::from_secs(seconds).min(PUT_OFF_MAX)),
    };
    match status {
        _ if status.is_success() && protocol == Protocol::Two && written.is_none() => {
            failed(format!("{why}: it does not say what it wrote, so it takes version 1: protocol = 1"))
        }
        _ if status.is_success() => Answer::Taken,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Answer::Refused { why, written: written.filter(|_| protocol == Protocol::Two) }
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE if protocol == Protocol::Two => {
            failed(format!("{why}: it does not take version 2: protocol = 1"))
        }
        _ => failed(why),
    }
}

/// Trusts the certificates of a file, or those of the system.
pub(super) fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, Failure> {
    let certificates = match ca_file {
        Some(file) => certificates_of(file)?,
        None => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let why = "this system has no certificates to check the receiver's with: install ca-certificates, or name \
                           those of your site with export.remote_write.ca_file";
                return Err(Failure::unavailable(why));
            }
            found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    Ok(builder.root_certs(RootCerts::new_with_certs(&certificates)).build())
}

fn certificates_of(file: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let what = || format!("export.remote_write.ca_file = \"{}\"", file.display());
    let remedy = "name a PEM file of the site's certificate authority";
    let text = std::fs::read(file).map_err(|error| Failure::from_io(what(), &error, remedy))?;
    let items = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(Failure::usage(format!("{}: {error}; {remedy}", what())))),
    });
    let certificates = items.collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(Failure::usage(format!("{}: no certificate in it; {remedy}", what())));
    }
    Ok(certificates)
}
