//! Times as text: UTC nanoseconds to and from RFC 3339.

use jiff::Timestamp;

/// Prints UTC nanoseconds since 1970 as RFC 3339 in UTC, to the microsecond.
///
/// Every `i64` is in range (years 1677 to 2262).
#[must_use]
pub fn to_rfc3339(unix_nanoseconds: i64) -> String {
    // Can't fail: jiff's range (years -9999 to 9999) holds every i64 of nanoseconds.
    let time = Timestamp::from_nanosecond(i128::from(unix_nanoseconds)).unwrap_or_default();
    format!("{time:.6}")
}

/// Reads an RFC 3339 time as UTC nanoseconds since 1970; `None` for other text or a year out of range.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let nanos = 1_790_000_000_123_456_000;
        assert_eq!(to_rfc3339(nanos), "2026-09-21T14:13:20.123456Z");
        assert_eq!(from_rfc3339(&to_rfc3339(nanos)), Some(nanos));
        assert_eq!(to_rfc3339(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(from_rfc3339("yesterday"), None);
    }

    #[test]
    fn extremes_do_not_panic() {
        assert!(to_rfc3339(i64::MIN).starts_with("1677-"));
        assert!(to_rfc3339(i64::MAX).starts_with("2262-"));
    }
}
