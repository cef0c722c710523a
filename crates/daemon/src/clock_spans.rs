//! Spans of a sender's clock: stretches of time in which CLOCK_REALTIME was not set against CLOCK_BOOTTIME.
//!
//! Each batch names the span that its times were made in, so that the collector moves them by how far the clock was off then,
//! also where the batch waited in a spool meanwhile. An epoch is sent again long after it was made: what a batch holds of
//! earlier spans it lists. Where a clock was set back, two spans have the same numbers for a while; epochs are therefore
//! stored with the span in which they came first. The spans of this boot are stored, as a daemon may be started anew.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use throughline_sample::clock_times::{TimeKind, newest_row, visit_times};
use throughline_sample::wire::{Batch, BatchClock, EarlierTimes};

use crate::clock::{Clock, STEP_NANOSECONDS, boot_id, boot_nanoseconds};

/// Spans of one boot that are stored, the last ones: a clock is set a few times in a boot, most often once.
pub const SPANS_MAX: usize = 64;
/// Epochs in memory: those of 100,000 ports of a fabric twice over. Each takes some 30 bytes.
const ORIGINS_MAX: usize = 1 << 18;
/// An epoch that was in no batch for two of these is forgotten.
const ORIGINS_NANOSECONDS: i64 = 3_600_000_000_000;
/// Epochs in the file: those of the last minutes before a clock was set back.
const SAVED_MAX: usize = 4096;
/// Largest file that is read: spans and epochs in lines of 60 bytes, twice over.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What was made before a step comes through queues within this time of it.
const LATE_NANOSECONDS: i64 = 30_000_000_000;
/// A span that the collector requests begins at most this soon after the one before: a clock that drifts needs one a day.
const SHORTEST_NANOSECONDS: i64 = 60_000_000_000;
/// How the file begins.
const HEADING: &str = "throughline clock 1";

/// A span, as others get to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSpan {
    /// Random.
    pub id: u64,
    /// When it began, by its own clock; UTC nanoseconds.
    pub from: i64,
    /// When it ended, by its own clock; `None` for the present one.
    pub to: Option<i64>,
    /// UTC less CLOCK_BOOTTIME, nanoseconds: the difference of two spans is how far the clock was set.
    pub utc_less_boot: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    id: u64,
    /// CLOCK_BOOTTIME.
    from: i64,
    offset: i64,
}

/// The spans of a daemon's clock.
#[derive(Debug)]
pub struct ClockSpans {
    clock: Arc<Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Never empty; the last is the present one.
    spans: Vec<Span>,
    /// Epochs with the spans in which they came first: of this hour, and of the one before.
    origins: HashMap<i64, u64>,
    older: HashMap<i64, u64>,
    rotated: i64,
    file: Option<PathBuf>,
}

impl ClockSpans {
    /// The spans of this boot so far, from this file. One that is damaged or can't be read is logged, and a new span begins.
    #[must_use]
    pub fn open(clock: Arc<Clock>, file: Option<PathBuf>) -> Self {
        let now = boot_nanoseconds();
        let mut state = State { rotated: now, ..State::default() };
        match file.as_deref().map(load) {
            Some(Ok(Some((spans, origins)))) => (state.spans, state.origins) = (spans, origins),
            Some(Err(error)) => {
                let file = file.as_deref().unwrap_or(Path::new("")).display();
                tracing::warn!("{file} is not used: {error}; a new span of the clock begins");
            }
            _ => {}
        }
        state.file = file;
        let is_set = |last: &Span| last.offset.abs_diff(clock.offset()) > STEP_NANOSECONDS.unsigned_abs();
        if state.spans.last().is_none_or(is_set) {
            state.begin(now, clock.offset());
        }
        Self { clock, state: Mutex::new(state) }
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Looks whether the clock was set; call it about once a second. The step in nanoseconds, and the span that ended.
    pub fn follow(&self) -> Option<(i64, u64)> {
        let mut state = self.lock();
        let step = self.clock.measure_again()?;
        let ended = state.present().id;
        state.begin(boot_nanoseconds(), self.clock.offset());
        Some((step, ended))
    }

    /// Begins a span because the collector finds that the clock drifted.
    pub fn begin(&self) {
        let mut state = self.lock();
        let now = boot_nanoseconds();
        if now - state.present().from >= SHORTEST_NANOSECONDS {
            state.begin(now, self.clock.offset());
        }
    }

    /// The spans, the present one last.
    #[must_use]
    pub fn spans(&self) -> Vec<ClockSpan> {
        let state = self.lock();
        let ends = state.spans.iter().skip(1).map(|next| Some(next.from)).chain([None]);
        let one = |(span, end): (&Span, Option<i64>)| ClockSpan {
            id: span.id,
            from: span.from.saturating_add(span.offset),
            to: end.map(|end| end.saturating_add(span.offset)),
            utc_less_boot: span.offset,
        };
        state.spans.iter().zip(ends).map(one).collect()
    }

    /// From this time on (UTC nanoseconds) a record's time is of the present span and no other.
    #[must_use]
    pub fn certain_from(&self) -> i64 {
        let spans = self.spans();
        let Some((present, earlier)) = spans.split_last() else { return 0 };
        earlier
            .iter()
            .filter_map(|span| span.to)
            .chain([present.from])
            .max()
            .filter(|_| !earlier.is_empty())
            .unwrap_or(0)
    }

    /// Notes in a batch by which span its times were made: the present one, or this one, which has ended.
    pub fn sign(&self, batch: &mut Batch, ended: Option<u64>) {
        let mut state = self.lock();
        let now = boot_nanoseconds();
        state.rotate(now);
        let span = ended.unwrap_or(state.present().id);
        let mut earlier: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        visit_times(batch, |kind, time| {
            if kind == TimeKind::Origin {
                let made = state.span_of(*time, ended, now);
                let listed = earlier.entry(made).or_default();
                if made != span && !listed.contains(time) {
                    listed.push(*time);
                }
            }
        });
        let earlier = earlier.into_iter().filter(|(_, time)| !time.is_empty());
        let earlier = earlier.map(|(span, time)| EarlierTimes { span, time }).collect();
        batch.clock = Some(BatchClock { span, earlier });
    }

    /// What sources made just before the clock was set comes a moment after: its rows get the times that the clock has now for
    /// those moments, and its epochs are those of the span before.
    pub fn adopt(&self, batch: &mut Batch) {
        let mut state = self.lock();
        let now = boot_nanoseconds();
        let [.., before, present] = state.spans[..] else { return };
        if now - present.from > LATE_NANOSECONDS {
            return;
        }
        let Some(newest) = newest_row(batch) else { return };
        let apart = |span: &Span| newest.abs_diff(now.saturating_add(span.offset));
        if apart(&present) <= apart(&before) {
            return;
        }
        let step = present.offset - before.offset;
        visit_times(batch, |kind, time| match kind {
            TimeKind::Row | TimeKind::Difference => *time = time.saturating_add(step),
            TimeKind::Origin => {
                if !state.older.contains_key(time) {
                    state.origins.entry(*time).or_insert(before.id);
                }
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves an epoch unnoted at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn present(&self) -> Span {
        self.spans.last().copied().unwrap_or(Span { id: 0, from: 0, offset: 0 })
    }

    fn begin(&mut self, now: i64, offset: i64) {
        if self.spans.len() >= SPANS_MAX {
            self.spans.remove(0);
        }
        let id = RandomState::new().hash_one(now).max(1);
        self.spans.push(Span { id, from: now, offset });
        if let Some(file) = &self.file
            && let Err(error) = store(file, &self.text())
        {
            tracing::warn!(
                "{} can't be written: {error}; after a restart of this daemon epochs of the time before the clock was set may be \
                 taken for new ones; free space or correct its permissions",
                file.display()
            );
        }
    }

    /// Forgets epochs that were in no batch for long.
    fn rotate(&mut self, now: i64) {
        if now - self.rotated >= ORIGINS_NANOSECONDS || self.origins.len() >= ORIGINS_MAX {
            self.rotated = now;
            self.older = std::mem::take(&mut self.origins);
        }
    }

    /// The span in which this time was made, which comes in a batch now; `ended` where that is of a span that has just ended.
    fn span_of(&mut self, time: i64, ended: Option<u64>, now: i64) -> u64 {
        if let Some(known) = self.origins.get(&time) {
            return *known;
        }
        let known = self.older.get(&time).copied().or(ended);
        let span = known.unwrap_or_else(|| self.last_with(time, now));
        self.origins.insert(time, span);
        span
    }

    /// The last span whose clock showed this time.
    fn last_with(&self, time: i64, now: i64) -> u64 {
        let mut end = now.saturating_add(1_000_000_000);
        for (place, span) in self.spans.iter().enumerate().rev() {
            let has_begun = place == 0 || time >= span.from.saturating_add(span.offset);
            if has_begun && time < end.saturating_add(span.offset) {
                return span.id;
            }
            end = span.from;
        }
        self.present().id
    }

    /// The file: spans, and epochs that the present span could be taken for.
    fn text(&self) -> String {
        let mut text = format!("{HEADING}\nboot {}\n", boot_id());
        for Span { id, from, offset } in &self.spans {
            // Writing to a string does not fail.
            let _ = writeln!(text, "span {id:x} {from} {offset}");
        }
        let present = self.present();
        let is_ambiguous = |(time, _): &(&i64, &u64)| **time >= present.from.saturating_add(present.offset);
        for (time, id) in self.origins.iter().chain(&self.older).filter(is_ambiguous).take(SAVED_MAX) {
            let _ = writeln!(text, "time {time} {id:x}");
        }
        text
    }
}

/// Replaces the file whole.
fn store(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, path)
}

type Stored = (Vec<Span>, HashMap<i64, u64>);

/// What the file has of this boot; `None` where there is none, or it is of another boot.
fn load(path: &Path) -> io::Result<Option<Stored>> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    parse(&text, &boot_id())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))
        .map(|stored| Some(stored).filter(|(spans, _)| !spans.is_empty()))
}

/// Reads the text; nothing of another boot.
fn parse(text: &str, boot: &str) -> Option<Stored> {
    let mut lines = text.lines();
    if lines.next()? != HEADING {
        return None;
    }
    let (mut spans, mut origins) = (Vec::new(), HashMap::new());
    if lines.next()?.strip_prefix("boot ")? != boot {
        return Some((spans, origins));
    }
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["span", id, from, offset] if spans.len() < SPANS_MAX => spans.push(Span {
                id: u64::from_str_radix(id, 16).ok()?,
                from: from.parse().ok()?,
                offset: offset.parse().ok()?,
            }),
            ["time", time, id] if origins.len() < SAVED_MAX => {
                origins.insert(time.parse().ok()?, u64::from_str_radix(id, 16).ok()?);
            }
            _ => return None,
        }
    }
    Some((spans, origins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};
    use throughline_sample::wire::{Event, JobRank};

    const SECOND: i64 = 1_000_000_000;

    /// A clock that is so far ahead of the system's, and can be set.
    fn clock(ahead: i64) -> (Arc<AtomicI64>, Arc<Clock>) {
        let (ahead, system) = (Arc::new(AtomicI64::new(ahead)), Clock::new());
        let set = ahead.clone();
        (ahead, Arc::new(Clock::reading(Arc::new(move || system.now() + set.load(Ordering::Relaxed)))))
    }

    fn rank(start: i64) -> Batch {
        Batch { job_ranks: vec![JobRank { start, ..JobRank::default() }], ..Batch::default() }
    }

    fn earlier(spans: &ClockSpans, mut batch: Batch) -> Vec<EarlierTimes> {
        spans.sign(&mut batch, None);
        batch.clock.unwrap().earlier
    }

    #[test]
    fn an_epoch_stays_of_its_span_however_the_clock_is_set() {
        let (ahead, clock) = clock(300 * SECOND);
        let spans = ClockSpans::open(clock.clone(), None);
        assert_eq!((spans.follow(), spans.spans().len(), spans.certain_from()), (None, 1, 0));
        let (old, first) = (clock.now(), spans.spans()[0]);
        assert_eq!(earlier(&spans, rank(old)), []);
        ahead.store(0, Ordering::Relaxed);
        let (step, ended) = spans.follow().unwrap();
        assert!((step + 300 * SECOND).abs() < SECOND && ended == first.id, "{step}");
        // The present span will have the same number in 300 s, and had never seen it.
        assert_eq!(earlier(&spans, rank(old)), [EarlierTimes { span: first.id, time: vec![old] }]);
        // Made now, and before the number came in the earlier span.
        assert_eq!(earlier(&spans, rank(clock.now())), []);
        let all = spans.spans();
        assert!(all[0].to.unwrap() > all[1].from && all[1].to.is_none(), "{all:?}");
        // Both clocks are read anew for it.
        let moved = all[1].utc_less_boot - all[0].utc_less_boot;
        assert!((moved - step).abs() < SECOND, "{moved} and {step}");
        assert_eq!(Some(spans.certain_from()), all[0].to);
        // What was made long ago is of the first span that is known.
        assert_eq!(earlier(&spans, rank(5)), [EarlierTimes { span: first.id, time: vec![5] }]);
    }

    #[test]
    fn what_comes_late_gets_the_time_that_the_clock_has_for_it_now() {
        let (ahead, clock) = clock(300 * SECOND);
        let spans = ClockSpans::open(clock.clone(), None);
        let old = clock.now();
        ahead.store(-60 * SECOND, Ordering::Relaxed);
        spans.follow().unwrap();
        let event = |time| Event { time, ..Event::default() };
        let mut late = Batch { events: vec![event(old)], ..rank(old) };
        spans.adopt(&mut late);
        assert!((clock.now() - late.events[0].time).abs() < SECOND, "{late:?}");
        assert_eq!(late.job_ranks[0].start, old, "an epoch stays as it was sent");
        assert_eq!(earlier(&spans, late).len(), 1);
        let mut fresh = Batch { events: vec![event(clock.now())], ..Batch::default() };
        let before = fresh.clone();
        spans.adopt(&mut fresh);
        assert_eq!(fresh, before);
    }

    #[test]
    fn spans_of_this_boot_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clock");
        let (ahead, clock) = clock(300 * SECOND);
        let spans = ClockSpans::open(clock.clone(), Some(file.clone()));
        let old = clock.now();
        assert_eq!(earlier(&spans, rank(old)), []);
        ahead.store(0, Ordering::Relaxed);
        spans.follow().unwrap();
        let again = ClockSpans::open(clock.clone(), Some(file.clone()));
        assert_eq!(again.spans(), spans.spans(), "the same clock goes on");
        assert_eq!(earlier(&again, rank(old)).len(), 1, "also where the number fits the present span");
        ahead.store(7 * SECOND, Ordering::Relaxed);
        clock.measure_again();
        let set = ClockSpans::open(clock.clone(), Some(file.clone()));
        assert_eq!(set.spans().len(), 3, "set while nothing ran");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(parse(&text, "another boot"), Some((Vec::new(), HashMap::new())));
        for damaged in [text.replace("span", "spam"), text.replace("clock 1", "clock 2"), "x".into()] {
            assert_eq!(parse(&damaged, &boot_id()), None);
        }
        std::fs::write(&file, "x").unwrap();
        assert_eq!(ClockSpans::open(clock, Some(file)).spans().len(), 1);
    }

    #[test]
    fn a_span_that_was_requested_has_some_length() {
        let (_, clock) = clock(0);
        let spans = ClockSpans::open(clock, None);
        spans.begin();
        assert_eq!(spans.spans().len(), 1);
    }
}
