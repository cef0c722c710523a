//! Where a source's records, its events and its status go.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard};

use throughline_sample::wire;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Clock, lock};
use crate::poll::monotonic_nanoseconds;
use crate::status::{SourceStatus, State};

/// The event of a source that gives way to somebody's profiler.
pub const PAUSED: &str = "source.paused";
/// The event of one whose devices another profiler has.
pub const BUSY: &str = "source.busy";
/// The event of one that reads again after either.
pub const RESUMED: &str = "source.resumed";

/// Events that wait while the channel is full, the newest of them.
const WAITING_MAX: usize = 64;

/// Why nothing is read now though nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interruption {
    /// [`State::Paused`] or [`State::Busy`].
    pub state: State,
    /// Who has the devices, for people, with what ends it.
    pub reason: String,
    /// When it ends by itself, UTC nanoseconds, where that is known.
    pub until: Option<i64>,
}

/// An interruption that has begun.
struct Begun {
    kind: &'static str,
    reason: String,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    at: i64,
}

/// Where a source's records and its status go. Used by one thread.
pub(crate) struct Outlet {
    source: &'static str,
    status: Arc<Mutex<SourceStatus>>,
    clock: Clock,
    records: mpsc::Sender<wire::Batch>,
    /// Events of batches that the channel had no space for: they come with the next.
    waiting: RefCell<Vec<wire::Event>>,
    interruption: RefCell<Option<Begun>>,
}

impl Outlet {
    pub(super) fn new(
        source: &'static str,
        status: Arc<Mutex<SourceStatus>>,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Self {
        let (waiting, interruption) = (RefCell::default(), RefCell::default());
        Self { source, status, clock, records, waiting, interruption }
    }

    /// UTC of `CLOCK_MONOTONIC`, both nanoseconds.
    pub(crate) fn utc(&self, monotonic: i64) -> i64 {
        (self.clock)(monotonic)
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, SourceStatus> {
        lock(&self.status)
    }

    /// Hands a batch on, or drops and counts it; whether it was handed on. Its events wait then.
    pub(crate) fn send(&self, mut batch: wire::Batch) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        batch.events.splice(0..0, waiting.drain(..));
        let sent = match self.records.try_send(batch) {
            Ok(()) => true,
            Err(TrySendError::Full(mut batch) | TrySendError::Closed(mut batch)) => {
                let surplus = batch.events.len().saturating_sub(WAITING_MAX);
                waiting.extend(batch.events.drain(surplus..));
                false
            }
        };
        drop(waiting);
        self.status().dropped_batches += u64::from(!sent);
        sent
    }

    /// Sends an event of this source.
    pub(crate) fn event(&self, kind: &str, severity: &str, text: String) {
        self.send_event(wire::Event {
            kind: kind.to_owned(),
            severity: severity.to_owned(),
            text,
            ..wire::Event::default()
        });
    }

    fn send_event(&self, event: wire::Event) {
        let (time, source) = (self.utc(monotonic_nanoseconds()), self.source.to_owned());
        let event = wire::Event { time, source, ..event };
        self.send(wire::Batch { events: vec![event], ..wire::Batch::default() });
    }

    /// Takes note of an interruption, or that there is none: an event when one begins and when it ends, each with the reason.
    pub(crate) fn interrupt(&self, now: Option<Interruption>) {
        let kind = now.as_ref().map(|now| if now.state == State::Paused { PAUSED } else { BUSY });
        let before = self.interruption.borrow().as_ref().map(|begun| begun.kind);
        if let Some(now) = &now {
            self.status().until = now.until;
        }
        if kind == before {
            return;
        }
        let begun = self.interruption.take();
        if let Some(begun) = begun {
            let seconds = (monotonic_nanoseconds() - begun.at) as f64 / 1e9;
            let text = format!("over after {seconds:.0} s: {}", begun.reason);
            tracing::info!(source = self.source, "{text}");
            {
                let mut status = self.status();
                (status.since, status.until) = (None, None);
            }
            let before = begun.kind.trim_start_matches("source.").to_owned();
            let (kind, severity) = (RESUMED.to_owned(), "info".to_owned());
            self.send_event(wire::Event { kind, severity, text, before, ..wire::Event::default() });
        }
        let (Some(now), Some(kind)) = (now, kind) else { return };
        let Interruption { state, reason, until } = now;
        tracing::info!(source = self.source, "{kind}: {reason}");
        let at = monotonic_nanoseconds();
        {
            let mut status = self.status();
            (status.since, status.until) = (Some(self.utc(at)), until);
        }
        let after = state.name().to_owned();
        let event = wire::Event { text: reason.clone(), after, ..wire::Event::default() };
        self.send_event(wire::Event { kind: kind.to_owned(), severity: "info".to_owned(), ..event });
        *self.interruption.borrow_mut() = Some(Begun { kind, reason, at });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn outlet(space: usize) -> (Outlet, mpsc::Receiver<wire::Batch>) {
        let (records, receiver) = mpsc::channel(space);
        (Outlet::new("cupti", Arc::default(), Arc::new(|monotonic| monotonic), records), receiver)
    }

    fn paused(reason: &str) -> Option<Interruption> {
        Some(Interruption { state: State::Paused, reason: reason.to_owned(), until: Some(7) })
    }

    #[test]
    fn an_interruption_is_one_event_when_it_begins_and_one_when_it_ends() {
        let (outlet, mut receiver) = outlet(16);
        for now in [None, paused("job 1"), paused("job 1, job 2"), paused("job 2")] {
            outlet.interrupt(now);
        }
        let status = outlet.status().clone();
        assert_eq!((status.until, status.since.is_some()), (Some(7), true));
        let busy = Interruption { state: State::Busy, reason: "Nsight".to_owned(), until: None };
        outlet.interrupt(Some(busy));
        outlet.interrupt(None);
        outlet.interrupt(None);
        let status = outlet.status().clone();
        assert_eq!((status.until, status.since), (None, None));
        let mut events = Vec::new();
        while let Ok(batch) = receiver.try_recv() {
            events.extend(batch.events.into_iter().map(|event| (event.kind, event.text, event.after)));
        }
        let of = |kind: &str, text: &str, after: &str| (kind.to_owned(), text.to_owned(), after.to_owned());
        let expected = [
            of(PAUSED, "job 1", "paused"),
            of(RESUMED, "over after 0 s: job 1", ""),
            of(BUSY, "Nsight", "busy"),
            of(RESUMED, "over after 0 s: Nsight", ""),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn events_wait_for_space_in_the_channel() {
        let (outlet, mut receiver) = outlet(1);
        for turn in 0..80 {
            outlet.event("source.crashed", "warning", turn.to_string());
        }
        assert_eq!(receiver.try_recv().unwrap().events[0].text, "0");
        outlet.send(wire::Batch::default());
        let texts: Vec<String> =
            receiver.try_recv().unwrap().events.into_iter().map(|event| event.text).collect();
        assert_eq!((texts.len(), texts[0].as_str(), texts[63].as_str()), (WAITING_MAX, "16", "79"));
        assert_eq!(outlet.status().dropped_batches, 79);
    }
}
