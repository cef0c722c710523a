//! `[export] remote_write` of the server's configuration.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use throughline_daemon::{Failure, Token};
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Longest name of a receiver, in bytes: it is a label of metrics.
const NAME_BYTES_MAX: usize = 64;

/// Longest delay, in seconds: an hour. It is the age at which samples arrive.
const DELAY_SECONDS_MAX: u64 = 3600;

/// Most samples of a request: a body of some 2 MB, within what receivers take by default.
const SAMPLES_MAX: usize = 20_000;

/// Headers that this program sets.
const OWN_HEADERS: [&str; 6] = [
    "content-type",
    "content-encoding",
    "content-length",
    "host",
    "authorization",
    "x-prometheus-remote-write-version",
];

/// Versions of remote write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Protocol {
    /// `prometheus.WriteRequest`, what every receiver takes.
    One,
    /// `io.prometheus.write.v2.Request`: labels by number, and the kind of each metric.
    Two,
}

impl From<Protocol> for u8 {
    fn from(protocol: Protocol) -> u8 {
        match protocol {
            Protocol::One => 1,
            Protocol::Two => 2,
        }
    }
}

impl TryFrom<u8> for Protocol {
    type Error = String;
    fn try_from(number: u8) -> Result<Protocol, String> {
        match number {
            1 => Ok(Protocol::One),
            2 => Ok(Protocol::Two),
            other => Err(format!("protocol = {other}: remote write has the protocols 1 and 2")),
        }
    }
}

/// A receiver of remote write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteWrite {
    /// Under which its position is kept; another name begins anew.
    #[serde(default = "default_name")]
    pub name: String,
    /// Where it takes requests.
    pub url: String,
    /// Which version of remote write.
    #[serde(default = "default_protocol")]
    pub protocol: Protocol,
    /// Certificates that its own is checked with; the system's otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// File with the token of `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Further headers, such as a tenant.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How long after its time a sample is sent: senders deliver within seconds.
    #[serde(default = "default_delay")]
    pub delay_seconds: u64,
    /// Samples in one request.
    #[serde(default = "default_samples")]
    pub samples_per_request: usize,
}

fn default_name() -> String {
    "remote_write".to_owned()
}

fn default_protocol() -> Protocol {
    Protocol::One
}

fn default_delay() -> u64 {
    10
}

fn default_samples() -> usize {
    5_000
}

impl RemoteWrite {
    /// How long after its time a sample is sent.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_secs(self.delay_seconds)
    }

    /// Reads the files that it names.
    ///
    /// # Errors
    /// A file can't be used; the message names the key.
    pub fn check_files(&self) -> Result<(), Failure> {
        if self.url.starts_with("https:") {
            crate::outbound::tls(self.ca_file.as_deref(), super::receiver::CA_FILE)?;
        }
        if let Some(path) = &self.token_file {
            Token::read("export.remote_write.token_file", path)?;
        }
        Ok(())
    }

    /// Refuses what cannot work, naming the key.
    ///
    /// # Errors
    /// A value is out of range (64).
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |key: &str, why: &str| {
            Err(Failure::usage(format!("export.remote_write.{key} of '{}': {why}", self.name)))
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || !self.name.chars().all(is_plain) {
            return wrong("name", "give 1 to 64 letters, digits, '_', '-' and '.'");
        }
        let is_http = self.url.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if !is_http {
            return wrong("url", "expected http://HOST:PORT/PATH or https://…");
        }
        if self
            .url
            .parse::<Uri>()
            .is_ok_and(|uri| uri.authority().is_some_and(|all| all.as_str().contains('@')))
        {
            return wrong("url", "a URL is printed in messages and has no password; use token_file");
        }
        if !(1..=DELAY_SECONDS_MAX).contains(&self.delay_seconds) {
            return wrong("delay_seconds", &format!("must be from 1 to {DELAY_SECONDS_MAX}"));
        }
        if !(1..=SAMPLES_MAX).contains(&self.samples_per_request) {
            return wrong("samples_per_request", &format!("must be from 1 to {SAMPLES_MAX}"));
        }
        for (name, value) in &self.headers {
            if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                return wrong("headers", &format!("{name} is set by this program"));
            }
            if HeaderName::try_from(name.as_str()).is_err() || HeaderValue::try_from(value.as_str()).is_err()
            {
                return wrong("headers", &format!("{name}: not a header of HTTP"));
            }
        }
        Ok(())
    }
}
