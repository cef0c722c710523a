//! A span of time in the configuration, checked while it is read, so that an error names the line.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::time::Duration;

/// Shortest span: shorter intervals would burden what is observed, shorter deadlines mean nothing.
const SHORTEST: Duration = Duration::from_millis(10);
/// Longest span: a day; above, it is likely a mistaken unit.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A span of time in seconds, 0.01 to 86400. Keys that hold one end in `_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(Duration);

impl Seconds {
    /// A default.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The span.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Seconds {
    /// Takes the span as it is: for defaults and options that were checked elsewhere.
    fn from(span: Duration) -> Self {
        Self(span)
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
