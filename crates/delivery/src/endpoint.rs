//! Where a daemon delivers to, as its configuration says it.

use crate::GrpcSink;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Port on which `throughline serve` takes batches.
const COLLECT_PORT: u16 = 9463;

/// A URL of a collector, `http://HOST:PORT`, checked while the configuration is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks a URL as far as it can be done without connecting.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        GrpcSink::new(text).map(|_| Self(text.to_owned())).map_err(|error| error.to_string())
    }

    /// The sink that delivers there.
    ///
    /// # Errors
    /// What is wrong with the URL, in words.
    pub fn sink(&self) -> Result<GrpcSink, String> {
        GrpcSink::new(&self.0).map_err(|error| error.to_string())
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
            assert!(Endpoint::new(good).and_then(|good| good.sink()).is_ok(), "{good}");
        }
        for bad in
            ["127.0.0.1:9463", "https://a:1", "http://localhost", "http://", "", "http://far.example:1"]
        {
            assert!(Endpoint::new(bad).unwrap_err().contains(bad), "{bad}");
        }
        assert!(Endpoint::new(&Endpoint::default().to_string()).is_ok());
    }
}
