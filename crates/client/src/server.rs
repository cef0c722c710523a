//! Requests to one server: the one place where this program uses HTTP.
//!
//! The answer's version of the API is checked before anything of it is read. Redirections are not followed and no proxy of
//! the environment is used, because the token would go there.

use crate::{Answer, Connection, Error, Settings, error::ApiError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::Failure;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Where the API begins.
const ROOT: &str = "/api/v1";

/// For a connection; a host that drops packets must not hold a terminal for minutes.
const CONNECT_SECONDS: u64 = 10;

/// From the request to the head of the answer. The server gives up before (`query.seconds_max`, 30 unless configured).
const ANSWER_SECONDS: u64 = 300;

/// Between two pieces of an answer.
const READ_SECONDS: u64 = 60;

/// Largest answer that is read as a whole. The columns of a job of 100,000 ranks take 20 MB.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Longest part of a foreign answer in a message.
const QUOTED_CHARACTERS: usize = 80;

/// What need not be escaped in a part of a path (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Connection {
    /// The server that these options, the environment and the configuration name. Sends nothing yet.
    ///
    /// # Errors
    /// 64 for a setting that is wrong, 69 or 77 for a file that cannot be read.
    pub fn server(&self) -> Result<Server, Failure> {
        Server::new(Settings::find(self)?)
    }
}

/// What is requested.
#[derive(Clone, Copy, Debug)]
enum Method {
    Get,
    Post,
}

/// A server and what it takes to query it. Connections stay open between requests.
#[derive(Debug)]
pub struct Server {
    agent: Agent,
    settings: Settings,
}

impl Server {
    /// Reads the certificates. Sends nothing yet.
    ///
    /// # Errors
    /// 64, 69, 77: `ca_file` cannot be read or has no certificate, or the system has none.
    pub fn new(settings: Settings) -> Result<Self, Failure> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS)))
            .timeout_recv_response(Some(Duration::from_secs(ANSWER_SECONDS)))
            .timeout_per_read(Some(Duration::from_secs(READ_SECONDS)));
        let config = match settings.server.starts_with("https:") {
            true => config.tls_config(tls(settings.ca_file.as_deref())?),
            false => config,
        };
        Ok(Self { agent: config.build().new_agent(), settings })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.settings.server
    }

    /// The answer to `GET /api/v1/PARTS?QUERY`. Parts and values are escaped here.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get<T: DeserializeOwned>(&self, parts: &[&str], query: &[(&str, &str)]) -> Result<T, Error> {
        let response = self.send(Method::Get, parts, query)?;
        self.read(parts, response)
    }

    /// As [`Server::get`], with the answer as it came.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn answer<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Answer<T>, Error> {
        let response = self.send(Method::Get, parts, query)?;
        self.read_whole(parts, response)
    }

    /// The answer to `POST /api/v1/PARTS?QUERY` without a body, also as it came.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn post<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Answer<T>, Error> {
        let response = self.send(Method::Post, parts, query)?;
        self.read_whole(parts, response)
    }

    fn read<T: DeserializeOwned>(&self, parts: &[&str], mut response: Response<Body>) -> Result<T, Error> {
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).reader();
        serde_json::from_reader(std::io::BufReader::new(body)).map_err(|error| self.unread(parts, &error))
    }

    fn read_whole<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        mut response: Response<Body>,
    ) -> Result<Answer<T>, Error> {
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| self.failed(error))?;
        let value = serde_json::from_str(&body).map_err(|error| self.unread(parts, &error))?;
        Ok(Answer { value, body })
    }

    fn unread(&self, parts: &[&str], error: &serde_json::Error) -> Error {
        match error.is_io() {
            true => self.unreachable(error.to_string()),
            false => self.foreign(format!("its answer to {} does not fit: {error}", path(parts))),
        }
    }

    /// As [`Server::get`], for an answer of any length that is read piece by piece.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn stream(&self, parts: &[&str], query: &[(&str, &str)]) -> Result<impl Read + use<>, Error> {
        Ok(self.send(Method::Get, parts, query)?.into_body().into_reader())
    }

    /// Sends the request and checks the head of the answer.
    fn send(&self, method: Method, parts: &[&str], query: &[(&str, &str)]) -> Result<Response<Body>, Error> {
        let url = format!("{}{}", self.settings.server, path(parts));
        let token = self.settings.token.as_ref().map(|token| token.authorization());
        let sent = match method {
            Method::Get => {
                let mut request = self.agent.get(url).query_pairs(query.iter().copied());
                if let Some(token) = &token {
                    request = request.header(header::AUTHORIZATION, token);
                }
                request.call()
            }
            Method::Post => {
                let mut request = self.agent.post(url).query_pairs(query.iter().copied());
                if let Some(token) = &token {
                    request = request.header(header::AUTHORIZATION, token);
                }
                request.send_empty()
            }
        };
        let mut response = sent.map_err(|error| self.failed(error))?;
        let status = response.status();
        let version = response
            .headers()
            .get(throughline_api::VERSION_HEADER)
            .map(|value| value.to_str().unwrap_or("?"));
        match version.map(str::to_owned) {
            Some(version) => self.check_version(&version)?,
            None if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                // A reverse proxy before the server.
                return Err(
                    self.denied(status, ApiError { message: status.to_string(), ..ApiError::default() })
                );
            }
            None => return Err(self.foreign(description(&mut response))),
        }
        if status.is_success() {
            return Ok(response);
        }
        /// How an error arrives.
        #[derive(Deserialize)]
        struct Envelope {
            error: ApiError,
        }
        let text = response.body_mut().with_config().limit(1 << 16).read_to_string().unwrap_or_default();
        let Ok(Envelope { error }) = serde_json::from_str(&text) else {
            return Err(self.foreign(format!("it answers {} with {status}", path(parts))));
        };
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.denied(status, error),
            _ => Error::Api { server: self.settings.server.clone(), error },
        })
    }

    fn check_version(&self, theirs: &str) -> Result<(), Error> {
        let remedy = match (version(theirs), version(throughline_api::VERSION)) {
            (Some(theirs), Some(ours)) if theirs.0 == ours.0 && theirs.1 >= ours.1 => return Ok(()),
            (theirs, ours) if theirs > ours => "use the `throughline` of the server's release",
            _ => "let the administrator upgrade `throughline serve`, or use the `throughline` of its release",
        };
        Err(Error::Version {
            server: self.settings.server.clone(),
            theirs: theirs.chars().filter(|c| !c.is_control()).take(QUOTED_CHARACTERS).collect(),
            ours: throughline_api::VERSION.to_owned(),
            remedy,
        })
    }

    fn denied(&self, status: StatusCode, error: ApiError) -> Error {
        let remedy = match (&self.settings.token_source, status) {
            (None, StatusCode::UNAUTHORIZED) => {
                "name the file of its token with --token-file, THROUGHLINE_TOKEN_FILE or token_file of client.toml; the \
                 administrator has it (query.token_file of server.toml)"
                    .to_owned()
            }
            (Some(source), StatusCode::UNAUTHORIZED) => {
                format!("the token is that of {source}: the administrator has the present one (query.token_file)")
            }
            _ if error.remedy.is_empty() => "the administrator can give you the right to read there".to_owned(),
            _ => error.remedy,
        };
        Error::Denied { server: self.settings.server.clone(), cause: error.message, remedy }
    }

    fn unreachable(&self, cause: String) -> Error {
        let remedy = match self.settings.is_local() {
            true => {
                "start `throughline serve` on this machine, or name the server with --server, THROUGHLINE_SERVER or \
                 client.toml"
            }
            false => {
                "check the URL (--server, THROUGHLINE_SERVER, client.toml), and that `throughline serve` runs there"
            }
        };
        Error::Unreachable { server: self.settings.server.clone(), cause, remedy }
    }

    fn foreign(&self, cause: String) -> Error {
        let remedy = "check the URL (--server, THROUGHLINE_SERVER, client.toml); a `throughline serve` older than this \
                      program names no version";
        Error::Foreign { server: self.settings.server.clone(), cause, remedy }
    }

    fn failed(&self, error: ureq::Error) -> Error {
        let tls = |error: &rustls::Error| {
            let trusted = match &self.settings.ca_file {
                Some(file) => format!("the certificates of {}", file.display()),
                None => "the system's certificates".to_owned(),
            };
            let remedy = match error {
                rustls::Error::InvalidCertificate(_) => format!(
                    "the server's certificate is held against {trusted}: name those of your site with --ca-file, \
                     THROUGHLINE_CA_FILE or ca_file of client.toml, and the server as its certificate does"
                ),
                _ => "is it a server without TLS, and the URL to begin with http://?".to_owned(),
            };
            Error::Tls { server: self.settings.server.clone(), cause: error.to_string(), remedy }
        };
        match error {
            ureq::Error::Rustls(error) => tls(&error),
            ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(error) => tls(error),
                None => self.unreachable(error.to_string()),
            },
            ureq::Error::HostNotFound => self.unreachable("no host of this name is known".to_owned()),
            ureq::Error::Timeout(_) => self.unreachable("no answer in time".to_owned()),
            ureq::Error::Protocol(error) => self.foreign(error.to_string()),
            error => self.unreachable(error.to_string()),
        }
    }
}

/// `MAJOR.MINOR`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What an answer that is not the API's looks like.
fn description(response: &mut Response<Body>) -> String {
    let status = response.status();
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    match (text(header::LOCATION), text(header::CONTENT_TYPE)) {
        (Some(place), _) if status.is_redirection() => {
            format!("it redirects to {}", place.chars().take(QUOTED_CHARACTERS).collect::<String>())
        }
        (_, Some(kind)) => format!("it answers {status} with {kind}"),
        _ => format!("it answers {status}"),
    }
}

fn path(parts: &[&str]) -> String {
    parts
        .iter()
        .fold(ROOT.to_owned(), |path, part| format!("{path}/{}", utf8_percent_encode(part, UNRESERVED)))
}

/// Trusts the certificates of a file, or those of the system.
fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, Failure> {
    let certificates = match ca_file {
        Some(file) => certificates_of(file)?,
        None => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let causes: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                return Err(Failure::unavailable(format!(
                    "this system has no certificates to check the server's with ({}): install ca-certificates, or name \
                     those of your site with --ca-file, THROUGHLINE_CA_FILE or ca_file of client.toml",
                    causes.join(", ")
                )));
            }
            found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    Ok(builder.root_certs(RootCerts::new_with_certs(&certificates)).build())
}

fn certificates_of(file: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let what = || format!("ca_file {}", file.display());
    let remedy = "name a PEM file of the site's certificate authority";
    let text = std::fs::read(file).map_err(|error| Failure::from_io(what(), &error, remedy))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(Failure::usage(format!("{}: {error}; {remedy}", what()))),
        }
    }
    if certificates.is_empty() {
        return Err(Failure::usage(format!("{}: no certificate in it; {remedy}", what())));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests;
