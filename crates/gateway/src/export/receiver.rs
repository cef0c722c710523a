//! One receiver over HTTP: sends a body, and says what became of it.
//!
//! Requests are sent one after the other on a thread of their own, so that a receiver that hangs holds up no other work and
//! no stop.

use super::message::{CONTENT_TYPES, VERSIONS};
use super::{Protocol, RemoteWrite};
use crate::outbound::{self, Limits};
use anyhow::Context;
use std::sync::mpsc;
use std::time::Duration;
use throughline_daemon::Token;
use tokio::sync::oneshot;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

/// Of the configuration.
pub(super) const CA_FILE: &str = "export.remote_write.ca_file";

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
    /// The samples are refused for their content; sending them again is of no use.
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
        let limits = Limits { connect: CONNECT_LIMIT, request: REQUEST_LIMIT };
        let agent = outbound::agent(&settings.url, settings.ca_file.as_deref(), CA_FILE, limits)?;
        if let Some(path) = &settings.token_file {
            Token::read("export.remote_write.token_file", path)?;
        }
        let settings = settings.clone();
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
