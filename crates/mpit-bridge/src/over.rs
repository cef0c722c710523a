//! Being over quota: since when, of what, and the event at its beginning and end.

use crate::status::{OverQuota, Quota};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::wire::Event;

/// Kind of the event.
const KIND: &str = "mpi.quota";
/// Shortest time between two notices to one user that excess begins.
const EVENT_PAUSE: Duration = Duration::from_secs(300);

/// The state of one user.
#[derive(Debug, Default)]
pub(crate) struct QuotaExcess(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Option<ExcessPeriod>,
    reported: Option<Instant>,
}

#[derive(Debug)]
struct ExcessPeriod {
    last: Instant,
    quotas: [u64; Quota::ALL.len()],
    is_reported: bool,
}

impl ExcessPeriod {
    fn names(&self) -> Vec<&'static str> {
        let named = Quota::ALL.iter().zip(self.quotas).filter(|(_, times)| *times > 0);
        named.map(|(quota, _)| quota.name()).collect()
    }
}

impl QuotaExcess {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code holding it can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A quota held something up.
    pub fn note(&self, quota: Quota, now: Instant) {
        let mut state = self.lock();
        let begun = || ExcessPeriod { last: now, quotas: [0; Quota::ALL.len()], is_reported: false };
        let present = state.now.get_or_insert_with(begun);
        present.last = now;
        present.quotas[quota as usize] += 1;
    }

    pub fn is_over(&self) -> bool {
        self.lock().now.is_some()
    }

    /// What is to be said of him.
    pub fn line(&self, uid: u32, user: String) -> OverQuota {
        let state = self.lock();
        let (quotas, times) =
            state.now.as_ref().map(|now| (now.names(), now.quotas.iter().sum())).unwrap_or_default();
        OverQuota { uid, user, quotas, times }
    }

    /// The event that is due: he went over a quota, or has been within all of them for so long.
    pub fn event(
        &self,
        uid: u32,
        name: Option<&str>,
        now: Instant,
        utc: i64,
        calm: Duration,
    ) -> Option<Event> {
        let mut state = self.lock();
        let reported_lately =
            state.reported.is_some_and(|reported| now.saturating_duration_since(reported) < EVENT_PAUSE);
        let present = state.now.as_mut()?;
        let who = name.filter(|name| !name.is_empty()).map_or_else(
            || format!("user {uid}"),
            |name| format!("user {} ({uid})", throughline_sample::admission::clean_text(name, 64)),
        );
        let names = present.names().join(", ");
        let event = |severity: &str, text: String, before: &str, after: &str| Event {
            time: utc,
            source: "mpi".to_owned(),
            kind: KIND.to_owned(),
            severity: severity.to_owned(),
            text,
            before: before.to_owned(),
            after: after.to_owned(),
            ..Event::default()
        };
        if now.saturating_duration_since(present.last) >= calm {
            let was_reported = present.is_reported;
            state.now = None;
            let text = format!("MPI ranks of {who} are within their quotas again");
            return was_reported.then(|| event("info", text, &names, ""));
        }
        if present.is_reported || reported_lately {
            return None;
        }
        present.is_reported = true;
        state.reported = Some(now);
        let text = format!(
            "MPI ranks of {who} are over quota ({names}): they are read later or thinned, others are not affected"
        );
        Some(event("warning", text, "", &names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_at_the_beginning_and_one_at_the_end() {
        let (over, start, calm) = (QuotaExcess::default(), Instant::now(), Duration::from_secs(30));
        let event = |after: u64| over.event(1001, Some("alice"), start + Duration::from_secs(after), 7, calm);
        assert_eq!(event(0), None);
        over.note(Quota::Rows, start);
        over.note(Quota::Names, start);
        let first = event(1).unwrap();
        assert_eq!((&*first.kind, &*first.severity, &*first.after), ("mpi.quota", "warning", "names, rows"));
        assert!(first.text.contains("alice (1001)"), "{}", first.text);
        assert_eq!(event(2), None);
        assert_eq!(over.line(1001, "alice".into()).times, 2);
        let last = event(40).unwrap();
        assert_eq!((&*last.severity, &*last.before, over.is_over()), ("info", "names, rows", false));
        over.note(Quota::Rows, start + Duration::from_secs(50));
        assert_eq!(event(51), None, "too soon after the one before");
        assert_eq!(event(100), None);
        over.note(Quota::Rows, start + Duration::from_secs(400));
        assert!(event(401).is_some());
    }
}
