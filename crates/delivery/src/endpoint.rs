//! Where a daemon delivers to, as its configuration says it.

use crate::{GrpcSink, TlsFiles, UrlError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use throughline_daemon::Failure;

/// Port on which `throughline serve` takes batches.
const COLLECT_PORT: u16 = 9463;

/// A URL of a collector, `http://HOST:PORT` or `https://HOST:PORT`, checked while the configuration is read.
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

    /// The sink that delivers there. The certificates' files are read once to see that they can be.
    ///
    /// # Errors
    /// URL and certificates do not go together (64), or a file can't be used.
    pub fn sink(&self, tls: Option<&TlsFiles>) -> Result<GrpcSink, Failure> {
        let sink = GrpcSink::with_tls(&self.0, tls.cloned());
        let sink = sink.map_err(|error| Failure::usage(format!("delivery.collector: {error}")))?;
        tls.map_or(Ok(()), TlsFiles::check)?;
        Ok(sink)
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self(format!("http://127.0.0.1:{COLLECT_PORT}"))
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
        for good in ["http://127.0.0.1:9463", "http://[::1]:9463/"] {
            assert!(Endpoint::new(good).unwrap().sink(None).is_ok(), "{good}");
        }
        for bad in ["127.0.0.1:9463", "http://localhost", "http://", "", "http://far.example:1"] {
            assert!(Endpoint::new(bad).unwrap_err().contains(bad), "{bad}");
        }
        let encrypted = Endpoint::new("https://far.example:1").unwrap();
        assert!(encrypted.sink(None).unwrap_err().to_string().contains("[delivery.tls]"));
        assert!(Endpoint::new(&Endpoint::default().to_string()).is_ok());
    }
}
