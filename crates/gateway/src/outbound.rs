//! Requests that this server makes itself: a body posted to an address of its configuration.
//!
//! Each has limits of time. Nothing of an address but scheme, host and port is ever logged: the path of a webhook is often its
//! secret. Redirects are not followed, and no proxy of the environment is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{Failure, TokenFile};
use ureq::Agent;
use ureq::http::{StatusCode, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// A receiver takes a connection at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Longest time for a whole request.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Of an answer that refuses so much is read for the log, bytes.
const ANSWER_BYTES_MAX: u64 = 300;

/// Where to, as the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// `http://` or `https://`.
    pub url: String,
    /// File with a token, sent as a bearer's.
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that the receiver's must lead to; absent for those of the system.
    pub ca_file: Option<PathBuf>,
}

/// Why a body did not arrive.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PostError {
    /// No answer, or one that asks to come again: later it may be taken.
    #[error("{0}")]
    Temporary(String),
    /// It is never taken.
    #[error("{0}")]
    Refused(String),
}

/// A receiver of bodies. Connections stay open between requests.
#[derive(Clone)]
pub struct Receiver {
    agent: Agent,
    url: String,
    name: String,
    token: Option<Arc<TokenFile>>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Receiver").field(&self.name).finish()
    }
}

/// Scheme, host and port of an address; `None` where it is none that can be posted to.
#[must_use]
pub fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let host = uri.host().filter(|host| !host.is_empty())?;
    let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{scheme}://{host}{port}"))
}

impl Address {
    /// Refuses what can't be posted to. `section` and `key` are those of the configuration. Reads no file.
    ///
    /// # Errors
    /// The address is none, or holds a password (64).
    pub fn check(&self, section: &str, key: &str) -> Result<(), Failure> {
        let name = format!("{section}.{key}");
        let Some(origin) = origin(&self.url) else {
            return Err(Failure::usage(format!("{name}: must be http://HOST[:PORT]/PATH or https://…")));
        };
        if self.url.split('/').nth(2).is_some_and(|authority| authority.contains('@')) {
            return Err(Failure::usage(format!(
                "{name} ({origin}): a name and password in an address are not sent; use {section}.token_file"
            )));
        }
        if self.token_file.is_some() && !origin.starts_with("https:") && !is_loopback(&origin) {
            return Err(Failure::usage(format!(
                "{section}.token_file: a token is sent over https:// or to this machine only, not to {origin}"
            )));
        }
        Ok(())
    }

    /// Reads the files. Sends nothing.
    ///
    /// # Errors
    /// As [`Address::check`], and a file can't be used (64, 69, 77).
    pub fn receiver(&self, section: &str, key: &str) -> Result<Receiver, Failure> {
        self.check(section, key)?;
        let token = self.token_file.as_deref();
        let token = token.map(|path| TokenFile::open(&format!("{section}.token_file"), path).map(Arc::new));
        let token = token.transpose()?;
        let limits = Limits { connect: CONNECT_LIMIT, request: REQUEST_LIMIT };
        let agent = agent(&self.url, self.ca_file.as_deref(), &format!("{section}.ca_file"), limits)?;
        let name = origin(&self.url).unwrap_or_default();
        Ok(Receiver { agent, url: self.url.clone(), name, token })
    }
}

fn is_loopback(origin: &str) -> bool {
    let host = origin.trim_start_matches("http://");
    ["127.", "localhost", "[::1]"].iter().any(|name| host.starts_with(name))
}

/// How long things may take.
pub(crate) struct Limits {
    /// A connection.
    pub connect: Duration,
    /// A whole request.
    pub request: Duration,
}

/// What sends to a URL: it follows no redirects and uses no proxy, because the token would go there.
///
/// # Errors
/// As [`tls`].
pub(crate) fn agent(url: &str, ca_file: Option<&Path>, key: &str, limits: Limits) -> Result<Agent, Failure> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(limits.connect))
        .timeout_global(Some(limits.request));
    let config = match url.starts_with("https:") {
        true => config.tls_config(tls(ca_file, key)?),
        false => config,
    };
    Ok(config.build().new_agent())
}

/// Trusts the certificates of a file, or those of the system. `key` of the configuration names the file.
///
/// # Errors
/// The file can't be read or is no list of certificates, or the system has none (64, 69, 77).
pub(crate) fn tls(ca_file: Option<&Path>, key: &str) -> Result<TlsConfig, Failure> {
    let certificates = match ca_file {
        Some(file) => certificates_of(file, key)?,
        None => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err(Failure::unavailable(format!(
                    "this system has no certificates to check a receiver's with: install ca-certificates, or name those \
                     of your site in {key}"
                )));
            }
            found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    Ok(builder.root_certs(RootCerts::new_with_certs(&certificates)).build())
}

fn certificates_of(file: &Path, key: &str) -> Result<Vec<Certificate<'static>>, Failure> {
    let what = || format!("{key} = \"{}\"", file.display());
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

impl Receiver {
    /// Scheme, host and port: what may be logged.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Posts a body. Waits in a thread of its own, for 30 s at most.
    ///
    /// # Errors
    /// No answer, or one that refuses it.
    pub async fn post(&self, headers: Vec<(&'static str, String)>, body: Vec<u8>) -> Result<(), PostError> {
        let receiver = self.clone();
        let sent = tokio::task::spawn_blocking(move || receiver.send(&headers, &body)).await;
        sent.unwrap_or_else(|error| Err(PostError::Temporary(error.to_string())))
    }

    fn send(&self, headers: &[(&'static str, String)], body: &[u8]) -> Result<(), PostError> {
        let mut request = self.agent.post(&self.url);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", token.current().authorization());
        }
        let mut response = request.send(body).map_err(|error| PostError::Temporary(cause(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let answer = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let answer = answer.unwrap_or_default();
        let why = format!("it answers {status} {}", answer.trim().escape_default());
        match status.is_server_error()
            || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status)
        {
            true => Err(PostError::Temporary(why)),
            false => Err(PostError::Refused(why)),
        }
    }
}

/// Without the address.
pub(crate) fn cause(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "its host is not known".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        ureq::Error::Rustls(error) => error.to_string(),
        _ => "the request failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(url: &str, token_file: Option<&str>) -> Result<(), String> {
        let address = Address { url: url.into(), token_file: token_file.map(Into::into), ca_file: None };
        address.check("report", "webhook").map_err(|failure| failure.to_string())
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_without_their_secrets() {
        assert_eq!(checked("https://chat.example/hooks/s3cret", None), Ok(()));
        assert_eq!(checked("http://127.0.0.1:9000/", Some("/etc/token")), Ok(()));
        let refused = [
            ("ftp://chat.example/s3cret", None),
            ("chat.example/s3cret", None),
            ("https://ada:s3cret@chat.example/x", None),
            ("http://chat.example/s3cret", Some("/etc/token")),
        ];
        for (url, token) in refused {
            let message = checked(url, token).unwrap_err();
            assert!(message.contains("report.") && !message.contains("s3cret"), "{message}");
        }
    }
}
