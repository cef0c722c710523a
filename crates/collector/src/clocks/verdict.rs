//! Whose clock is off: a sender's, or this server's. Pure.

use std::time::Duration;

use throughline_sample::clock_times::CLOCK_BOUND_SECONDS;

/// Times are moved by whole multiples of this, nanoseconds: more than clocks of a site differ by while NTP keeps them, and
/// intervals of sources stay on their grid.
const STEP_NANOSECONDS: i64 = 10_000_000_000;

/// From this on a clock is said to be off: half of [`STEP_NANOSECONDS`], where rows begin to be moved.
pub(crate) const BOUND_NANOSECONDS: i64 = CLOCK_BOUND_SECONDS * 1_000_000_000;

/// A clock that has come so far from the offset of its span needs another span: rows are at most so far from their true time.
pub(super) const DRIFT_NANOSECONDS: i64 = 7_500_000_000;

/// Senders that it takes to find a server wrong: two may have one wrong server of NTP.
const ALIKE_MIN: usize = 3;

/// By how much times of a clock are moved that is so far ahead.
pub(super) fn rounded(offset: i64) -> i64 {
    offset.saturating_add(STEP_NANOSECONDS / 2).div_euclid(STEP_NANOSECONDS).saturating_mul(STEP_NANOSECONDS)
}

/// Whether so large an offset is said to be one.
pub(super) fn is_off(offset: i64) -> bool {
    offset.saturating_abs() >= BOUND_NANOSECONDS
}

/// The server's clock is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerVerdict {
    /// How far it is ahead of those who agree, nanoseconds.
    pub ahead: i64,
    /// Senders that agree.
    pub alike: usize,
    /// Senders in all.
    pub senders: usize,
}

/// Judges the server by how far its senders are ahead of it, nanoseconds, one number for each certificate: it is off where three or
/// more and over half of them are off alike.
pub(super) fn judge_server(mut offsets: Vec<i64>) -> Option<ServerVerdict> {
    offsets.sort_unstable();
    let mut most = 0..0;
    let mut first = 0;
    for end in 1..=offsets.len() {
        while offsets[end - 1].saturating_sub(offsets[first]) > STEP_NANOSECONDS {
            first += 1;
        }
        if end - first > most.len() {
            most = first..end;
        }
    }
    let (alike, senders) = (most.len(), offsets.len());
    let middle = *offsets.get(most.start + alike / 2)?;
    let is_majority = alike >= ALIKE_MIN && 2 * alike > senders;
    (is_majority && is_off(middle)).then_some(ServerVerdict {
        ahead: middle.saturating_neg(),
        alike,
        senders,
    })
}

/// Whether three or more, and over half of all, are right by this server's clock: it is right itself.
pub(super) fn is_confirmed(offsets: &[i64]) -> bool {
    let right = offsets.iter().filter(|offset| !is_off(**offset)).count();
    right >= ALIKE_MIN && 2 * right > offsets.len()
}

/// `300 s ahead of`, `240 s behind`.
fn distance(ahead: i64) -> String {
    let seconds = Duration::from_nanos(ahead.unsigned_abs()).as_secs_f64();
    if ahead > 0 { format!("{seconds:.0} s ahead of") } else { format!("{seconds:.0} s behind") }
}

/// What the sender's own pages say.
pub(super) fn sender_text(ahead: i64) -> String {
    format!(
        "this machine's clock is {} the server's; the times of its records are moved by as much when they are stored; \
         `chronyc tracking` shows why, `chronyc makestep` sets it",
        distance(ahead)
    )
}

impl ServerVerdict {
    /// What the server's pages say.
    pub fn text(&self) -> String {
        format!(
            "this server's clock is {} {} of {} senders: it stores nothing until they agree, and batches wait in the spools of \
             agents and crawlers; `chronyc tracking` shows why, `chronyc makestep` sets it",
            distance(self.ahead),
            self.alike,
            self.senders
        )
    }

    /// What the senders' pages say.
    pub fn text_of_sender(&self) -> String {
        format!(
            "batches wait here, as the server's clock is {} {} of {} senders; on the server's machine `chronyc makestep` sets it",
            distance(self.ahead),
            self.alike,
            self.senders
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn judged(seconds: &[i64]) -> Option<ServerVerdict> {
        judge_server(seconds.iter().map(|seconds| seconds * SECOND).collect())
    }

    #[test]
    fn times_move_by_whole_steps() {
        let rounded = |seconds: f64| super::rounded((seconds * 1e9) as i64) / SECOND;
        let all = [0.0, 4.9, 5.1, 299.0, -4.9, -5.1, -300.2].map(rounded);
        assert_eq!(all, [0, 0, 10, 300, 0, -10, -300]);
        let _ = (super::rounded(i64::MAX), super::rounded(i64::MIN));
    }

    #[test]
    fn three_and_over_half_that_are_off_alike_make_it_the_server() {
        let verdict = |ahead, alike, senders| Some(ServerVerdict { ahead: ahead * SECOND, alike, senders });
        assert_eq!(judged(&[240, 241, 239, 244, 242, 0]), verdict(-241, 5, 6));
        assert_eq!(judged(&[-240, -240, -240, 0, 0]), verdict(240, 3, 5));
        assert_eq!(judged(&[240, 240, 240, 0, 0, 0]), None, "half is not over half");
        assert_eq!(judged(&[240, 240]), None, "two are too few");
        assert_eq!(judged(&[240, 300, 600]), None, "each is off for itself");
        assert_eq!(judged(&[1, 2, 3, 4, 300]), None);
        assert_eq!(judged(&[]), None);
        let is_confirmed = |seconds: &[i64]| {
            super::is_confirmed(&seconds.iter().map(|seconds| seconds * SECOND).collect::<Vec<_>>())
        };
        assert!(
            is_confirmed(&[0, 1, -2, 300]) && !is_confirmed(&[0, 0]) && !is_confirmed(&[0, 0, 0, 9, 9, 9])
        );
    }

    #[test]
    fn texts_have_the_thing_its_cause_and_the_remedy() {
        let text = ServerVerdict { ahead: -240 * SECOND, alike: 5, senders: 6 }.text();
        assert!(text.starts_with("this server's clock is 240 s behind 5 of 6 senders"), "{text}");
        assert!(text.contains("chronyc"), "{text}");
        assert!(sender_text(300 * SECOND).contains("300 s ahead of the server's"));
    }
}
