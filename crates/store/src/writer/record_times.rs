//! Times of records, nanoseconds since 1970, as the clock's and as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_sample::to_rfc3339;

/// 2001-09-09, in nanoseconds: a generation above it is a time.
pub(super) const EARLIEST_TIME: i64 = 1_000_000_000_000_000_000;

/// 0 on the wire is: not known, or not yet.
pub(super) fn optional_time(nanoseconds: i64) -> Option<String> {
    (nanoseconds != 0).then(|| to_rfc3339(nanoseconds))
}

pub(super) fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn time(nanoseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}
