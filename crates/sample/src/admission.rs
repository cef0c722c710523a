//! Admission: what a record may hold before it is stored.
//!
//! The agent applies these bounds where a user's process hands something in, and the collector applies them again to
//! each record of a batch, since a node may be in the wrong hands. Pure: the present time comes from the caller.

use std::borrow::Cow;
use std::time::Duration;

/// How far back of the beginning of its own rank (or of now, where that is later) a record's time may lie when it
/// enters the agent. A shim sends each second; an hour is what a stopped or swapped-out process may take.
pub const PAST: Duration = Duration::from_secs(3600);

/// How far ahead of the receiver's clock a record's time may lie: two minutes are more than clocks of one site
/// differ by, and less than a chunk of any hypertable.
pub const FUTURE: Duration = Duration::from_secs(120);

/// Longest name of anything (operation, region, variable, communicator, device, source), in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest path of regions, in bytes of its text: part of a primary key; PostgreSQL's indexes hold 2,704 bytes of one.
pub const PATH_BYTES_MAX: usize = 2000;

/// Longest text for people (an event's text, a command line), in bytes.
pub const TEXT_BYTES_MAX: usize = 2048;

/// Why a record was rejected. [`Rejection::reason`] is the word for it in metrics, logs and the quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// Its time is further back than admitted.
    TimePast,
    /// Its time is further ahead than admitted.
    TimeFuture,
    /// A name is empty, too long, or not text.
    Name,
    /// A number is out of its range.
    Number,
    /// It has more elements than a record of its kind can have.
    Size,
    /// It is about another node than its sender's.
    Node,
    /// It is about a rank of another node, or about a job that others reported with another owner.
    Job,
    /// It is about a GPU of another node.
    Gpu,
    /// It is about a fabric, and the sender is no crawler of that subnet.
    Fabric,
    /// The crawler does not hold the lease of the subnet.
    Lease,
    /// The spool belongs to another sender.
    Spool,
    /// A quota of its user, job or sender is used up.
    Quota,
    /// It is marked as requested detail, and nobody requested it.
    Detail,
    /// The database refuses it, alone, for good.
    Database,
}

impl Rejection {
    /// All of them, so that each has a series from the start.
    pub const ALL: [Rejection; 14] = [
        Rejection::TimePast,
        Rejection::TimeFuture,
        Rejection::Name,
        Rejection::Number,
        Rejection::Size,
        Rejection::Node,
        Rejection::Job,
        Rejection::Gpu,
        Rejection::Fabric,
        Rejection::Lease,
        Rejection::Spool,
        Rejection::Quota,
        Rejection::Detail,
        Rejection::Database,
    ];

    /// One word for metrics and logs.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Rejection::TimePast => "time_past",
            Rejection::TimeFuture => "time_future",
            Rejection::Name => "name",
            Rejection::Number => "number",
            Rejection::Size => "size",
            Rejection::Node => "node",
            Rejection::Job => "job",
            Rejection::Gpu => "gpu",
            Rejection::Fabric => "fabric",
            Rejection::Lease => "lease",
            Rejection::Spool => "spool",
            Rejection::Quota => "quota",
            Rejection::Detail => "detail",
            Rejection::Database => "database",
        }
    }
}

/// The times that are admitted, UTC nanoseconds, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// The earliest.
    pub earliest: i64,
    /// The latest.
    pub latest: i64,
}

impl TimeWindow {
    /// From `past` before `now` to `future` after it.
    #[must_use]
    pub fn around(now: i64, past: Duration, future: Duration) -> Self {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self {
            earliest: now.saturating_sub(nanoseconds(past)).max(0),
            latest: now.saturating_add(nanoseconds(future)),
        }
    }

    /// Whether a time lies within.
    ///
    /// # Errors
    /// [`Rejection::TimePast`] or [`Rejection::TimeFuture`].
    pub fn check(&self, time: i64) -> Result<(), Rejection> {
        if time < self.earliest {
            Err(Rejection::TimePast)
        } else if time > self.latest {
            Err(Rejection::TimeFuture)
        } else {
            Ok(())
        }
    }
}

/// A text from outside as it may be stored and shown: without characters that move a terminal's cursor or turn the
/// direction of what stands around them (each becomes U+FFFD), and at most `bytes_max` bytes long.
#[must_use]
pub fn clean_text(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let cut = cut(text, bytes_max);
    if cut.chars().any(is_deceptive) {
        // U+FFFD has three bytes, more than a control character: cut again.
        let replaced: String = cut.chars().map(|c| if is_deceptive(c) { '\u{fffd}' } else { c }).collect();
        let end = self::cut(&replaced, bytes_max).len();
        let mut replaced = replaced;
        replaced.truncate(end);
        return Cow::Owned(replaced);
    }
    Cow::Borrowed(cut)
}

/// Control characters, separators of lines and paragraphs, and the formatting characters that reorder or hide text
/// (Unicode Standard Annex 9, and the zero-width space and byte order mark).
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_both_ends() {
        let window = TimeWindow::around(10_000_000_000_000, PAST, FUTURE);
        assert_eq!(window.check(10_000_000_000_000), Ok(()));
        assert_eq!(window.check(window.earliest), Ok(()));
        assert_eq!(window.check(window.earliest - 1), Err(Rejection::TimePast));
        assert_eq!(window.check(window.latest + 1), Err(Rejection::TimeFuture));
        let extreme = TimeWindow::around(i64::MAX, Duration::MAX, Duration::MAX);
        assert_eq!((extreme.earliest, extreme.latest), (0, i64::MAX));
    }

    #[test]
    fn texts_are_cut_and_do_not_turn_direction() {
        assert_eq!(clean_text("allreduce", 256), "allreduce");
        assert_eq!(clean_text("a\u{202e}b\u{1b}[2Jc\n", 256), "a\u{fffd}b\u{fffd}[2Jc\u{fffd}");
        assert_eq!(clean_text("äöü", 3), "ä");
        assert_eq!(clean_text("\u{1}\u{2}\u{3}\u{4}", 4), "\u{fffd}");
        assert_eq!(clean_text("漢字 عربى", 256), "漢字 عربى");
    }

    #[test]
    fn each_rejection_has_a_reason_of_its_own() {
        let reasons: std::collections::BTreeSet<_> = Rejection::ALL.iter().map(|r| r.reason()).collect();
        assert_eq!(reasons.len(), Rejection::ALL.len());
    }
}
