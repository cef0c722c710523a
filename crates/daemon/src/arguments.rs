//! Times and durations on a command line: every program takes the same texts.
//!
//! A time is what the JSON API takes as `from`, `to` and `at`, or a day, or an age.

use jiff::{SignedDuration, SpanRelativeTo, Timestamp};

/// Largest number of milliseconds since 1970 that is a time, as in the JSON API: the year 2255.
const MILLISECONDS_MAX: i64 = 9_000_000_000_000;

/// A time: RFC 3339, milliseconds since 1970, a day in UTC, or how long ago it was.
///
/// # Errors
/// None of them; the text says what is expected.
pub fn time(text: &str) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "{text:?} is no time: give one like 2026-11-20T08:00:00Z, milliseconds since 1970, a day like 2026-11-20, or an age \
             like 90s, 30m, 2h, 3d"
        )
    };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(milliseconds) = text.parse::<i64>() {
        let known = (0..=MILLISECONDS_MAX).contains(&milliseconds);
        let time = known.then(|| Timestamp::from_millisecond(milliseconds).ok()).flatten();
        return time.ok_or_else(wrong);
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        return day.to_zoned(jiff::tz::TimeZone::UTC).map(|day| day.timestamp()).map_err(|_| wrong());
    }
    let ago = duration(text).ok().and_then(|age| Timestamp::now().checked_sub(age).ok());
    ago.ok_or_else(wrong)
}

/// A positive duration with its unit: 100ms, 90s, 10m, 2h, 1d.
///
/// # Errors
/// It is none; the text says what is expected.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    let span = text.parse::<jiff::Span>().ok();
    let length = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let length = length.filter(|length| length.is_positive());
    length.ok_or_else(|| format!("{text:?} is no duration like 100ms, 90s, 10m, 2h, 1d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_api_days_and_ages() {
        for text in ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1767225600000", "2026-01-01"] {
            assert_eq!(time(text).unwrap().as_millisecond(), 1_767_225_600_000, "{text}");
        }
        let then = time("2h").unwrap().as_millisecond();
        let ago = Timestamp::now().as_millisecond() - then;
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        for text in ["yesterday", "-1", "99999999999999999", "2026-13-01T00:00:00Z", "1.5", ""] {
            assert!(time(text).unwrap_err().contains("30m"), "{text}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        let all = [("100ms", 100), ("90s", 90_000), ("10m", 600_000), ("1h", 3_600_000), ("1d", 86_400_000)];
        for (text, expected) in all {
            assert_eq!(duration(text).unwrap().as_millis(), expected, "{text}");
        }
        assert_eq!(duration("12.5s").unwrap().as_millis(), 12_500);
        for wrong in ["10", "0s", "-1s", "soon", "99999999999999999h"] {
            assert!(duration(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
