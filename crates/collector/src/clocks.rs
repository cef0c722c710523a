//! How far the clocks of senders are off, as this collector measures them, and what follows for their batches.
//!
//! No clock is believed alone, this server's least. A sender's times are moved by the offset of their span, which is written once;
//! what is measured later only shows whether it still holds. A batch waits where that is not known: until its sender was measured,
//! until a span has its offset, and while three senders and over half of all agree that this server is off. Nothing is rejected
//! for its time before that.

mod exchange;
mod senders;
mod store;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use throughline_daemon::{Clock, SelfMetrics};
use throughline_delivery::wire::{ClockReport, ClockSpan};
use throughline_sample::catalogue::{ENTRIES_PUT_OFF, SERVER_CLOCK_OFFSET_SECONDS};
use throughline_sample::clock_times::SpanMove;
use throughline_sample::wire::BatchClock;
use throughline_store::SpanOffset;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{CommitError, SOURCE};
pub(crate) use exchange::{ClockStream, answer_clock};
pub(crate) use senders::Exchange;
use senders::{Look, State, StreamClock, is_trusted, new_offset, span_move};
pub use store::ClockStore;
use verdict::{ServerVerdict, is_confirmed, is_off, judge_server, rounded, sender_text};

/// How often it is looked whether this server's own clock was set.
const OWN_INTERVAL: Duration = Duration::from_secs(1);
/// How often measurements are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// A batch waits here for so long for the offset of its span, then at its sender.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Senders whose clocks are known: those of several sites of 8,000 nodes. Batches of others wait at them.
const SENDERS_MAX: usize = 64 * 1024;
/// Offsets of spans of a sender in memory; others are read again.
const SPANS_MAX: usize = 256;
/// So few senders are compared with each measurement, more of them once a second: it takes some microseconds a sender.
const COMPARED_MAX: usize = 64;

/// Why an entry was put off, in metrics: the offset of its span is not known yet, this server's clock is off, or its times can't be
/// while its sender's clock and this server's differ.
const UNMEASURED: &str = "clock_unmeasured";
const SERVER: &str = "server_clock";
const DIFFERS: &str = "clocks_differ";

/// How clocks are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPlan {
    /// From one measurement of a sender to the next.
    pub interval: Duration,
    /// A sender alone is found to be off only so long after the first measurement: until then the others come back that tell
    /// whether it is this server.
    pub settle: Duration,
}

impl Default for ClockPlan {
    fn default() -> Self {
        // Senders come back within 5 s (`Backoff`), and are measured twice by then.
        Self { interval: Duration::from_secs(10), settle: Duration::from_secs(30) }
    }
}

/// What this server's own clock is found to be; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct OwnClock(Arc<Mutex<Option<ServerVerdict>>>);

impl OwnClock {
    /// What is wrong with it and what to do; `None` where nothing is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.verdict().map(|verdict| verdict.text())
    }

    fn verdict(&self) -> Option<ServerVerdict> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, verdict: Option<ServerVerdict>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, verdict).is_some() != verdict.is_some()
    }
}

/// By how much the times of a batch are moved back: those of its own span, and those of earlier ones.
pub(crate) type Moves = (SpanMove, HashMap<u64, i64>);

/// An entry stays with its sender.
#[derive(Debug)]
pub(crate) struct PutOff {
    /// In metrics.
    pub reason: &'static str,
    /// For people.
    pub text: String,
}

/// The clocks of all senders. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Clocks(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    clock: Arc<Clock>,
    plan: ClockPlan,
    own: OwnClock,
    server: String,
    store: Option<Arc<dyn ClockStore>>,
    metrics: SelfMetrics,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl Clocks {
    pub fn new(
        clock: Arc<Clock>,
        plan: ClockPlan,
        own: OwnClock,
        server: String,
        store: Option<Arc<dyn ClockStore>>,
        metrics: SelfMetrics,
    ) -> Self {
        for reason in [UNMEASURED, SERVER, DIFFERS] {
            metrics.add((SOURCE, reason), &ENTRIES_PUT_OFF, 0);
        }
        metrics.set(SOURCE, &SERVER_CLOCK_OFFSET_SECONDS, 0.0);
        let (state, changed) = (Mutex::default(), watch::Sender::new(0));
        Self(Arc::new(Parts { clock, plan, own, server, store, metrics, state, changed }))
    }

    /// This server's present, UTC nanoseconds.
    pub fn now(&self) -> i64 {
        self.0.clock.now()
    }

    /// This server's present for records of its own; `None` while its clock is off, or was set and its senders are not measured yet.
    pub fn own_time(&self) -> Option<i64> {
        let state = self.lock();
        let is_measured =
            state.senders.values().all(|known| known.streams.is_empty() || known.measured().is_some());
        drop(state);
        (is_measured && self.0.own.verdict().is_none()).then(|| self.now())
    }

    /// Follows this server's own clock and writes what is measured, until `stop`.
    pub async fn watch(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(OWN_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut written = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            self.follow();
            self.judge();
            if written.elapsed() >= WRITE_INTERVAL {
                written = Instant::now();
                self.write().await;
            }
        }
    }

    /// Where this server's clock was set, each sender is measured anew before anything of it is stored.
    fn follow(&self) {
        let mut state = self.lock();
        let Some(step) = self.0.clock.measure_again() else { return };
        state.generation += 1;
        (state.since, state.is_confirmed) = (None, false);
        for known in state.senders.values_mut() {
            known.streams.values_mut().for_each(|stream| stream.measured = None);
            known.wake.notify_one();
        }
        drop(state);
        let seconds = step / 1_000_000_000;
        tracing::warn!(seconds, "this server's clock was set: the clocks of all senders are measured anew");
    }

    /// Judges this server by its senders.
    fn judge(&self) {
        let verdict = {
            let mut state = self.lock();
            let offsets = state.offsets();
            state.is_confirmed = is_confirmed(&offsets);
            judge_server(offsets)
        };
        #[allow(clippy::cast_precision_loss)] // Seconds.
        let seconds = verdict.map_or(0.0, |verdict| verdict.ahead as f64 / 1e9);
        self.0.metrics.set(SOURCE, &SERVER_CLOCK_OFFSET_SECONDS, seconds);
        if self.0.own.set(verdict) {
            match verdict {
                Some(verdict) => tracing::error!("{}", verdict.text()),
                None => tracing::warn!("this server's clock is no longer against most of its senders"),
            }
            self.lock().senders.values().for_each(|known| known.wake.notify_one());
            self.notify();
        }
    }

    /// Wakes those who wait for something here.
    fn notify(&self) {
        self.0.changed.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// A stream of an exchange begins, or has other spans. False where there are too many senders.
    fn list(&self, stream: u64, (sender, certificate): (&Arc<str>, &str), spans: Vec<ClockSpan>) -> bool {
        let mut state = self.lock();
        if state.senders.len() >= SENDERS_MAX && !state.senders.contains_key(sender) {
            state.senders.retain(|_, known| !known.streams.is_empty());
            if state.senders.len() >= SENDERS_MAX {
                return false;
            }
        }
        let known = state.senders.entry(sender.clone()).or_default();
        certificate.clone_into(&mut known.certificate);
        let listed = Instant::now();
        match known.streams.get_mut(&stream) {
            Some(clock) => (clock.spans, clock.listed) = (spans, listed),
            None => {
                known.streams.insert(stream, StreamClock { spans, listed, measured: None });
            }
        }
        drop(state);
        self.notify();
        true
    }

    fn leave(&self, stream: u64, sender: &str) {
        if let Some(known) = self.lock().senders.get_mut(sender) {
            known.streams.remove(&stream);
        }
    }

    fn wake_of(&self, sender: &str) -> Arc<Notify> {
        self.lock().senders.get(sender).map(|known| known.wake.clone()).unwrap_or_default()
    }

    fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Notes what was measured over a stream; what its sender is to know. `None` where this server's clock was set meanwhile.
    async fn measured(
        &self,
        stream: u64,
        sender: &Arc<str>,
        best: Exchange,
        generation: u64,
    ) -> Option<ClockReport> {
        let is_small = {
            let mut state = self.lock();
            if state.generation != generation {
                return None;
            }
            state.since.get_or_insert_with(Instant::now);
            if let Some(clock) =
                state.senders.get_mut(sender).and_then(|known| known.streams.get_mut(&stream))
            {
                clock.measured = Some((best, Instant::now()));
            }
            state.senders.len() <= COMPARED_MAX
        };
        if is_small {
            self.judge();
        }
        self.notify();
        let missing = self.missing(stream, sender);
        if !missing.is_empty() && self.read(sender, &missing).await.is_ok() {
            tracing::debug!(sender = &**sender, spans = missing.len(), "offsets of spans are read");
        }
        let begin_span = match self.new_offsets(stream, sender, best.offset) {
            Some(missing) if !missing.is_empty() => {
                if let Err(error) = self.fix(sender, &missing).await {
                    tracing::debug!(%error, "offsets of spans are written later");
                }
                false
            }
            // The present one has its offset: whether it still holds.
            Some(_) => self.has_drifted(stream, sender),
            None => false,
        };
        let fault = match self.0.own.verdict() {
            Some(verdict) => verdict.text_of_sender(),
            None if is_off(best.offset) => sender_text(best.offset),
            None => String::new(),
        };
        #[allow(clippy::cast_precision_loss)] // Seconds.
        Some(ClockReport { offset_seconds: best.offset as f64 / 1e9, fault, begin_span })
    }

    /// Spans of a stream whose offsets are not in memory.
    fn missing(&self, stream: u64, sender: &str) -> Vec<u64> {
        let state = self.lock();
        let Some(known) = state.senders.get(sender) else { return Vec::new() };
        let spans = known.streams.get(&stream).map_or(&[][..], |clock| &clock.spans);
        spans.iter().map(|span| span.id).filter(|span| !known.offsets.contains_key(span)).collect()
    }

    /// The spans of a stream without an offset, with the one that this measurement gives them, and those that have ended since. `None` while nobody knows whose clock is off.
    fn new_offsets(&self, stream: u64, sender: &str, measured: i64) -> Option<Vec<SpanOffset>> {
        let state = self.lock();
        let is_settled =
            state.since.is_some_and(|since| since.elapsed() >= self.0.plan.settle) || state.is_confirmed;
        if self.0.own.verdict().is_some() || (is_off(measured) && !is_settled) {
            return None;
        }
        let known = state.senders.get(sender)?;
        let spans = &known.streams.get(&stream)?.spans;
        let present = spans.last()?.utc_less_boot;
        let mut before: Option<(&ClockSpan, i64)> = None;
        let mut missing = Vec::new();
        for span in spans {
            let fixed = known.offsets.get(&span.id);
            let by_this = measured.saturating_add(span.utc_less_boot.saturating_sub(present));
            let offset = fixed.map_or_else(|| rounded(by_this), |fixed| fixed.offset);
            if fixed.is_none() || (span.to != 0 && !known.ended.contains(&span.id)) {
                missing.push(new_offset(span, offset, before));
            }
            before = Some((span, offset));
        }
        Some(missing)
    }

    fn has_drifted(&self, stream: u64, sender: &str) -> bool {
        let state = self.lock();
        let Some(known) = state.senders.get(sender) else { return false };
        known.streams.get(&stream).is_some_and(|clock| !is_trusted(known, clock))
    }

    async fn fix(&self, sender: &str, spans: &[SpanOffset]) -> Result<(), CommitError> {
        let fixed = match &self.0.store {
            Some(store) => store.fix(sender, spans).await?,
            None => spans.to_vec(),
        };
        self.cache_offsets(sender, fixed);
        Ok(())
    }

    fn cache_offsets(&self, sender: &str, offsets: Vec<SpanOffset>) {
        if let Some(known) = self.lock().senders.get_mut(sender) {
            if known.offsets.len() + offsets.len() > SPANS_MAX {
                known.offsets.clear();
                known.ended.clear();
            }
            known.ended.extend(offsets.iter().filter(|span| span.ended.is_some()).map(|span| span.span));
            known.offsets.extend(offsets.into_iter().map(|span| (span.span, span_move(&span))));
        }
        self.notify();
    }

    /// Waits while this server's clock is off.
    pub async fn server_is_right(&self) {
        let mut changed = self.0.changed.subscribe();
        if self.0.own.verdict().is_none() {
            return;
        }
        self.0.metrics.add((SOURCE, SERVER), &ENTRIES_PUT_OFF, 1);
        while self.0.own.verdict().is_some() {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// By how much the times of a batch are moved; waits until that is known.
    ///
    /// # Errors
    /// It did not become known in time.
    pub async fn admit(&self, sender: &str, clock: &BatchClock) -> Result<Moves, PutOff> {
        let (arrived, mut changed) = (Instant::now(), self.0.changed.subscribe());
        let end = tokio::time::Instant::now() + WAIT_MAX;
        let mut is_read = false;
        loop {
            changed.mark_unchanged();
            match self.look(sender, clock, arrived) {
                Look::Known(moves) => return Ok(moves),
                Look::Read(spans) if !is_read => {
                    is_read = self.read(sender, &spans).await.is_ok();
                    continue;
                }
                // Neither this exchange nor an earlier one has them: a boot in which no collector was reached.
                Look::Unknown(spans) if is_read => {
                    if self.give_up(sender, &spans).await.is_ok() {
                        continue;
                    }
                }
                Look::Read(_) | Look::Unknown(_) | Look::Wait => self.wake_of(sender).notify_one(),
            }
            if !matches!(tokio::time::timeout_at(end, changed.changed()).await, Ok(Ok(()))) {
                let reason = if self.0.own.verdict().is_some() { SERVER } else { UNMEASURED };
                let text = self.0.own.verdict().map_or_else(
                    || "how far this sender's clock is off is not known yet: its batches wait".to_owned(),
                    |verdict| verdict.text_of_sender(),
                );
                return Err(self.put_off(reason, text));
            }
        }
    }

    fn put_off(&self, reason: &'static str, text: String) -> PutOff {
        self.0.metrics.add((SOURCE, reason), &ENTRIES_PUT_OFF, 1);
        PutOff { reason, text }
    }

    /// A batch whose times can't be is not rejected while its sender's clock and this server's differ: which is right may not be known.
    pub fn untimely(&self, sender: &str) -> Option<PutOff> {
        let (exchange, _) = self.lock().senders.get(sender)?.measured()?;
        is_off(exchange.offset).then(|| {
            let text = format!("the times of a batch can't be; {}", sender_text(exchange.offset));
            self.put_off(DIFFERS, text)
        })
    }

    fn look(&self, sender: &str, clock: &BatchClock, arrived: Instant) -> Look {
        let state = self.lock();
        let Some(known) = state.senders.get(sender) else { return Look::Wait };
        if self.0.own.verdict().is_some() || known.streams.is_empty() {
            return Look::Wait;
        }
        let wanted: Vec<u64> = clock.earlier.iter().map(|earlier| earlier.span).chain([clock.span]).collect();
        let missing: Vec<u64> =
            wanted.iter().copied().filter(|span| !known.offsets.contains_key(span)).collect();
        let is_listed =
            |stream: &StreamClock, wanted: &[u64]| stream.spans.iter().any(|span| wanted.contains(&span.id));
        let mut own = known.streams.values().filter(|stream| is_listed(stream, &wanted)).peekable();
        let is_trusted = if own.peek().is_some() {
            own.any(|stream| is_trusted(known, stream))
        } else {
            known.streams.values().any(|stream| is_trusted(known, stream))
        };
        if !missing.is_empty() {
            let is_new = known.streams.values().any(|stream| stream.listed < arrived);
            return match known.streams.values().any(|stream| is_listed(stream, &missing)) {
                true => Look::Wait,
                false if is_new || !is_trusted => Look::Read(missing),
                false => Look::Unknown(missing),
            };
        }
        if !is_trusted {
            return Look::Wait;
        }
        let of = |span: u64| known.offsets.get(&span).copied().unwrap_or_default();
        let earlier = clock.earlier.iter().map(|earlier| (earlier.span, of(earlier.span).offset)).collect();
        Look::Known((of(clock.span), earlier))
    }

    async fn read(&self, sender: &str, spans: &[u64]) -> Result<(), CommitError> {
        if let Some(store) = &self.0.store {
            let offsets = store.offsets(sender, spans).await?;
            self.cache_offsets(sender, offsets);
        }
        Ok(())
    }

    async fn give_up(&self, sender: &str, spans: &[u64]) -> Result<(), CommitError> {
        let now = self.now();
        tracing::warn!(
            sender,
            "its clock was never measured in the boot in which a batch was made: the batch is stored with its own times"
        );
        let unknown = |span: &u64| SpanOffset {
            span: *span,
            began: now,
            ended: Some(now),
            offset_seconds: None,
            slew_seconds: 0.0,
        };
        self.fix(sender, &spans.iter().map(unknown).collect::<Vec<_>>()).await
    }

    /// By how much times of this sender are moved now; `None` before that is known.
    pub fn present_offset(&self, sender: &str) -> Option<i64> {
        let state = self.lock();
        let known = state.senders.get(sender)?;
        let stream = known.streams.values().max_by_key(|stream| stream.measured.map(|(_, at)| at))?;
        known.offsets.get(&stream.present()?).map(|span| span.offset)
    }

    /// A record of this time was sent, after it was moved.
    pub fn note_newest(&self, sender: &str, time: i64) {
        if let Some(known) = self.lock().senders.get_mut(sender) {
            known.newest = known.newest.max(Some(time));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves a measurement out at worst.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
