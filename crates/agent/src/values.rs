//! Values of the configuration that check themselves while they are read, so that an error names the line.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::time::Duration;
use throughline_delivery::GrpcSink;

/// Longest name of a node: that of a DNS name.
const NAME_BYTES: usize = 253;

/// Shortest interval: below, an agent would burden the node that it observes.
const SHORTEST: Duration = Duration::from_millis(10);

/// Longest interval: above, nobody would call it observation, and it is likely a mistaken unit.
const LONGEST: Duration = Duration::from_secs(3600);

/// Longest name of a performance variable: MPI libraries use fewer than 100 letters.
const VARIABLE_BYTES: usize = 256;

/// Port on which `throughline serve` takes batches.
const COLLECT_PORT: u16 = 9463;

/// Reads a text and lets its type check it.
macro_rules! checked_text {
    ($type:ident) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

/// The name of a node: letters, digits, dot, dash and underscore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if text.is_empty() || text.len() > NAME_BYTES || !text.bytes().all(allowed) {
            return Err(format!(
                "'{text}' is no node name: expected 1 to {NAME_BYTES} letters, digits, dots, dashes or underscores"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
checked_text!(Name);

/// A URL of a collector: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks a URL as far as it can be done without connecting.
    pub fn new(text: &str) -> Result<Self, String> {
        GrpcSink::new(text).map(|_| Self(text.to_owned())).map_err(|error| error.to_string())
    }

    /// The sink that delivers there.
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
checked_text!(Endpoint);

/// Permissions of a socket, written as in chmod: "0660".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl SocketMode {
    /// Reads octal digits.
    pub fn new(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
        mode.map(Self).ok_or_else(|| {
            format!("'{text}' is no socket mode: expected octal digits that let the owner in, for instance \"0666\"")
        })
    }
}

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o666)
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}
checked_text!(SocketMode);

/// The name of an MPI_T performance variable, as MPI libraries form them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableName(String);

impl VariableName {
    /// Checks a name: names travel divided by commas.
    pub fn new(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_graphic() && b != b',';
        if text.is_empty() || text.len() > VARIABLE_BYTES || !text.bytes().all(allowed) {
            return Err(format!("'{text}' is no name of a performance variable"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
checked_text!(VariableName);

/// A span of time in seconds, within sensible bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(Duration);

impl Seconds {
    /// A default.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The span.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let span = Duration::try_from_secs_f64(seconds).ok().filter(|s| (SHORTEST..=LONGEST).contains(s));
        span.map(Self).ok_or_else(|| {
            let (shortest, longest) = (SHORTEST.as_secs_f64(), LONGEST.as_secs());
            de::Error::custom(format!("{seconds} is out of range: expected {shortest} to {longest} seconds"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["n1", "node-17.cluster.example", "a_b", &"x".repeat(253)] {
            assert_eq!(Name::new(good).unwrap().to_string(), good);
        }
        for bad in ["", "a b", "knoten-ä", "a/b", &"x".repeat(254)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints() {
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

    #[test]
    fn socket_modes() {
        assert_eq!(SocketMode::new("0660"), Ok(SocketMode(0o660)));
        assert_eq!(SocketMode::new("666").unwrap().to_string(), "0666");
        for bad in ["", "8", "0", "1777", "-1", "rw"] {
            assert!(SocketMode::new(bad).is_err(), "{bad}");
        }
    }
}
