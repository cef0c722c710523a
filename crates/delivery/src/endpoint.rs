//! Where a daemon delivers to, as its configuration says it.

use crate::grpc::{TOKEN_KEY, UNIX};
use crate::{GrpcSink, TlsFiles, UrlError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::path::{Path, PathBuf};
use throughline_daemon::{Failure, Token, paths};

/// Name of the socket on which `throughline serve` takes batches, in the run-time folder.
pub const COLLECT_SOCKET: &str = "collect.sock";

/// A URL of a collector, checked while the configuration is read: `unix:PATH` on the same machine, where the kernel says
/// who sends (a relative path lies in the run-time folder), `https://HOST:PORT`, or `http://HOST:PORT` on loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks a URL as far as it can be done without connecting.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        match GrpcSink::new(text) {
            // Whether there are certificates stands elsewhere in the configuration.
            Ok(_) | Err(UrlError::NoCertificates(_)) => Ok(Self(text.to_owned())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The sink that delivers there. The files of certificates and token are read once to see that they can be.
    ///
    /// # Errors
    /// URL and certificates do not go together (64), or a file can't be used.
    pub fn sink(
        &self,
        run_dir: &Path,
        tls: Option<&TlsFiles>,
        token_file: Option<&Path>,
    ) -> Result<GrpcSink, Failure> {
        let url = match self.0.strip_prefix(UNIX).map(Path::new).filter(|path| path.is_relative()) {
            Some(path) => format!("{UNIX}{}", run_dir.join(path).display()),
            None => self.0.clone(),
        };
        let sink = GrpcSink::with_tls(&url, tls.cloned());
        let sink = sink.map_err(|error| Failure::usage(format!("delivery.collector: {error}")))?;
        if let Some(path) = url.strip_prefix(UNIX) {
            paths::check_socket_path(Path::new(path))?;
        }
        tls.map_or(Ok(()), TlsFiles::check)?;
        token_file.map_or(Ok(()), |path| Token::read(TOKEN_KEY, path).map(drop))?;
        Ok(sink.with_token(token_file.map(PathBuf::from)))
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self(format!("{UNIX}{COLLECT_SOCKET}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let run = Path::new("/run/throughline");
        for good in ["http://127.0.0.1:9463", "http://[::1]:9463/", "unix:collect.sock", "unix:/x/y"] {
            assert!(Endpoint::new(good).unwrap().sink(run, None, None).is_ok(), "{good}");
        }
        let usual = Endpoint::default().sink(run, None, None).unwrap();
        assert_eq!(crate::Sink::name(&usual), "unix:/run/throughline/collect.sock");
        let long = Endpoint::new(&format!("unix:/{}", "x".repeat(200))).unwrap();
        assert!(long.sink(run, None, None).unwrap_err().to_string().contains("107"));
        let none = Endpoint::default().sink(run, None, Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(none.to_string().contains("delivery.token_file"), "{none}");
        for bad in ["127.0.0.1:9463", "http://localhost", "http://", "", "unix:", "http://far.example:1"] {
            assert!(Endpoint::new(bad).unwrap_err().contains(bad), "{bad}");
        }
        let encrypted = Endpoint::new("https://far.example:1").unwrap();
        assert!(encrypted.sink(run, None, None).unwrap_err().to_string().contains("[delivery.tls]"));
        assert!(Endpoint::new(&Endpoint::default().to_string()).is_ok());
    }
}
