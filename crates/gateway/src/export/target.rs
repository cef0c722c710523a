//! The export to one receiver: windows, what came late, and what becomes of each request.

use super::RemoteWrite;
use super::message::{Part, encoded};
use super::receiver::{Answer, Receiver};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use throughline_daemon::{Labels, SelfMetrics};
use throughline_query::history::Range;
use throughline_query::history::tail::{Slice, Tail, TailSeries, TailWindow, parts};
use throughline_sample::catalogue::{
    EXPORT_DISCARDED_SECONDS, EXPORT_FAILURES, EXPORT_LAG_SECONDS, EXPORT_LATE_SAMPLES, EXPORT_RECEIVER_UP,
    EXPORT_REPEATED_SAMPLES, EXPORT_SAMPLES_REJECTED, EXPORTED_SAMPLES,
};
use throughline_store::{Database, ExportTarget, ExportTime, LateNote, lock_export};
use tokio_postgres::Client;

/// A window in milliseconds; windows end at its multiples. Each reads all tables, so that a shorter one would cost more.
const WINDOW: i64 = 10_000;

/// Longest window while there is much to make up for: three times the memory. Of a time that is packed only a window is an hour, of a few
/// things at a time.
const CATCH_UP: i64 = 30_000;

/// Requests into which one that was refused is split to find the samples at fault. Beyond it the rest counts as refused.
const SPLITS_MAX: usize = 200;

/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Notes of late arrivals that are served together, and of how many things, and how far apart: 200 ports read each second
/// have a million samples in a minute and what is read before it.
const LATE_NOTES: i64 = 2_000;
const LATE_THINGS: usize = 200;
const LATE_SPAN: i64 = 60_000;

/// The same of a time that is packed only, where a thing's hour is unpacked at once: an hour of each, with notes of each second.
const LATE_PACKED_THINGS: usize = 4;
const LATE_PACKED_NOTES: i64 = 16_000;

/// How long late arrivals are served before the next window has its turn.
const LATE_PATIENCE: Duration = Duration::from_secs(5);

/// The export to one receiver, for as long as the connection to the database lasts.
pub struct Target<'a> {
    settings: &'a RemoteWrite,
    receiver: &'a Receiver,
    retained: Duration,
    metrics: &'a SelfMetrics,
    labels: Labels,
    tail: Tail,
    /// Whether the receiver may have had the next request already.
    is_repeated: bool,
    /// Windows that end by then are sent, milliseconds since 1970, and when that was known; for the lag.
    reached: (i64, i64, Instant),
}

impl<'a> Target<'a> {
    /// With nothing read yet.
    pub fn new(
        settings: &'a RemoteWrite,
        receiver: &'a Receiver,
        retained: Duration,
        metrics: &'a SelfMetrics,
        labels: Labels,
    ) -> Target<'a> {
        let (tail, reached) = (Tail::default(), (0, 0, Instant::now()));
        Target { settings, receiver, retained, metrics, labels, tail, is_repeated: true, reached }
    }

    /// Sends for as long as this server has the lock; returns at once where another one has it.
    pub async fn hold(mut self, database: &Database, is_failing: &mut bool) -> anyhow::Result<()> {
        let mut client = database.connect().await?;
        if !lock_export(&client, &self.settings.name).await? {
            tracing::debug!(receiver = self.labels.label, "another server exports to this receiver");
            return Ok(());
        }
        let start = ExportTarget::time(&client).await?.now;
        let mut target = ExportTarget::open(&client, &self.settings.name, self.newest_end(start)).await?;
        loop {
            let ExportTime { now, expiry } = ExportTarget::time(&client).await?;
            self.note_lag(&target, now);
            if let Some(expiry) = expiry {
                self.skip(&client, &mut target, expiry).await?;
            }
            let Some(end) = self.next_end(&client, &target, now).await? else {
                self.metrics.set(self.labels, &EXPORT_RECEIVER_UP, 1.0);
                self.late(&mut client, &mut target).await?;
                let due = target.exported_until + WINDOW + self.delay();
                let pause = due.saturating_sub(ExportTarget::time(&client).await?.now).clamp(0, WINDOW);
                tokio::time::sleep(Duration::from_millis(pause.cast_unsigned())).await;
                continue;
            };
            self.window(&mut client, &mut target, end).await?;
            if std::mem::take(is_failing) {
                tracing::info!(receiver = self.labels.label, "the export goes on");
            }
            self.late(&mut client, &mut target).await?;
        }
    }

    fn delay(&self) -> i64 {
        // At most an hour.
        self.settings.delay().as_millis() as i64
    }

    /// The end of the newest window that has settled.
    fn newest_end(&self, now: i64) -> i64 {
        (now - self.delay()).div_euclid(WINDOW) * WINDOW
    }

    /// The end of the window to be sent, if there is one.
    async fn next_end(
        &self,
        client: &Client,
        target: &ExportTarget,
        now: i64,
    ) -> anyhow::Result<Option<i64>> {
        if target.window_end.is_some() {
            return Ok(target.window_end);
        }
        let from = target.exported_until;
        let most = Tail::packed_hour_end(client, None, from + 1).await?.unwrap_or(from + CATCH_UP);
        let end = self.newest_end(now).min(most);
        Ok((end > from).then_some(end))
    }

    fn note_lag(&mut self, target: &ExportTarget, now: i64) {
        self.reached = (target.exported_until, now, Instant::now());
        self.show_lag();
    }

    /// Shows how long ago the last window ended that was sent; also while the receiver is away.
    fn show_lag(&self) {
        let (until, now, since) = self.reached;
        let lag = (now - until).max(0) as f64 / 1e3 + since.elapsed().as_secs_f64();
        self.metrics.set(self.labels, &EXPORT_LAG_SECONDS, lag);
    }

    /// Goes on where readings are still retained; `now` is the time by which they expire.
    async fn skip(&mut self, client: &Client, target: &mut ExportTarget, now: i64) -> anyhow::Result<()> {
        let retained = i64::try_from(self.retained.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(retained).div_euclid(WINDOW) * WINDOW;
        if target.exported_until >= oldest {
            return Ok(());
        }
        let seconds = (oldest - target.exported_until).unsigned_abs() / 1000;
        tracing::warn!(
            receiver = self.labels.label,
            seconds,
            "not exported: readings are no longer retained"
        );
        self.metrics.add(self.labels, &EXPORT_DISCARDED_SECONDS, seconds);
        target.skip_to(client, oldest).await?;
        self.tail = Tail::default();
        Ok(())
    }

    /// Sends a window, or what is left of it.
    async fn window(
        &mut self,
        client: &mut Client,
        target: &mut ExportTarget,
        end: i64,
    ) -> anyhow::Result<()> {
        if target.window_end != Some(end) {
            target.begin_window(client, end).await?;
        }
        let window = TailWindow { from: target.exported_until, to: end };
        let all = parts();
        // Of another version of this program, whose parts are others: all of the window again.
        let known = target.reached.clone().filter(|(part, _)| all.contains(&part.as_str()));
        let mut is_whole = known.is_none();
        let (mut skipped, mut after) =
            known.map_or((None, String::new()), |(part, after)| (Some(part), after));
        for part in all {
            if skipped.as_deref().is_some_and(|skipped| skipped != part) {
                continue;
            }
            skipped = None;
            let mut from = std::mem::take(&mut after);
            loop {
                ExportTarget::begin_reading(client).await?;
                let round = self.tail.read(client, part, window, &from).await?;
                let served = target.notes_of_window(client, part).await?;
                ExportTarget::end_reading(client).await?;
                if !self.tail.is_as_read(client, part).await? {
                    self.tail = Tail::default();
                    is_whole = false;
                    continue;
                }
                self.round(client, target, part, &round.slices, &served).await?;
                let Some(next) = round.next else { break };
                from = next;
            }
        }
        target.end_window(client).await?;
        if is_whole {
            self.tail.window_read();
        }
        Ok(())
    }

    /// Sends what was read of a part, some things in a request.
    async fn round(
        &mut self,
        client: &mut Client,
        target: &mut ExportTarget,
        part: &str,
        slices: &[Slice],
        served: &[LateNote],
    ) -> anyhow::Result<()> {
        for some in requests(slices, self.settings.samples_per_request) {
            let Some(last) = some.last() else { continue };
            let counts = self.send(some).await?;
            let of_these: Vec<LateNote> = served
                .iter()
                .filter(|note| some.iter().any(|slice| slice.thing == note.thing))
                .cloned()
                .collect();
            target.acknowledge(client, (part, &last.thing), counts, &of_these).await?;
        }
        Ok(())
    }

    /// Sends what arrived for windows that were sent, for a while.
    async fn late(&mut self, client: &mut Client, target: &mut ExportTarget) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < LATE_PATIENCE {
            let notes = target.late(client, LATE_NOTES).await?;
            let Some(first) = notes.first() else { break };
            let part = first.part.clone();
            let hour_end = Tail::packed_hour_end(client, Some(&part), first.since).await?;
            let (things, ids) = match hour_end {
                Some(end) => {
                    let few = first_things(&notes, LATE_PACKED_THINGS);
                    together(&target.late_of(client, (&part, &few), end, LATE_PACKED_NOTES).await?, end)
                }
                None => together(&notes, first.since + LATE_SPAN),
            };
            let slices = self.tail.read_late(client, &part, &things).await?;
            for some in requests(&slices, self.settings.samples_per_request) {
                let (samples, refused) = self.send(some).await?;
                self.metrics.add(self.labels, &EXPORT_LATE_SAMPLES, samples);
                let done: Vec<i64> =
                    some.iter().filter_map(|slice| ids.get(&slice.thing)).flatten().copied().collect();
                target.acknowledge_late(client, (samples, refused), &done).await?;
            }
            // Things without a series, and those that were served.
            let all: Vec<i64> = ids.into_values().flatten().collect();
            target.acknowledge_late(client, (0, 0), &all).await?;
        }
        Ok(())
    }

    /// Sends the samples of some things until they are taken or refused: how many there were, and how many of them were
    /// refused.
    async fn send(&mut self, slices: &[Slice]) -> anyhow::Result<(u64, u64)> {
        let series = slices.iter().flat_map(|slice| &slice.series);
        let whole: Vec<Part<'_>> =
            series.map(|series| Part { series, points: 0..series.points.len() }).collect();
        let (samples, mut refused, mut splits) = (count(&whole), 0, 0);
        // A thing with very many series is several requests.
        let mut pieces = pieces(whole, self.settings.samples_per_request * 2);
        pieces.reverse();
        while let Some(piece) = pieces.pop() {
            let of_piece = count(&piece);
            let (why, written) = match self.answer(&piece).await? {
                Answer::Taken => {
                    self.metrics.add(self.labels, &EXPORTED_SAMPLES, of_piece);
                    continue;
                }
                Answer::Refused { why, written } => (why, written),
                Answer::Failed { .. } => continue,
            };
            if written.is_none() && of_piece > 1 && splits < SPLITS_MAX {
                splits += 1;
                let (first, second) = halves(piece);
                pieces.extend([second, first]);
                continue;
            }
            let written = written.unwrap_or_default().min(of_piece);
            self.metrics.add(self.labels, &EXPORTED_SAMPLES, written);
            if self.is_repeated {
                // Most likely it has them: an earlier request had no answer.
                self.metrics.add(self.labels, &EXPORT_REPEATED_SAMPLES, of_piece - written);
            } else {
                if refused == 0 {
                    tracing::warn!(receiver = self.labels.label, why, "the receiver refuses samples");
                }
                refused += of_piece - written;
            }
        }
        self.metrics.add(self.labels, &EXPORT_SAMPLES_REJECTED, refused);
        self.is_repeated = false;
        Ok((samples, refused))
    }

    /// Sends a request until it is taken or refused.
    async fn answer(&mut self, parts: &[Part<'_>]) -> anyhow::Result<Answer> {
        let body = encoded(self.settings.protocol, parts)?;
        let (mut pause, mut failing) = (PAUSES.0, None);
        loop {
            match self.receiver.send(body.clone()).await {
                Answer::Failed { why, after } => {
                    self.metrics.add(self.labels, &EXPORT_FAILURES, 1);
                    self.metrics.set(self.labels, &EXPORT_RECEIVER_UP, 0.0);
                    self.show_lag();
                    if failing.is_none() {
                        tracing::warn!(receiver = self.labels.label, why, "remote write fails: trying again");
                    }
                    failing.get_or_insert_with(Instant::now);
                    self.is_repeated = true;
                    tokio::time::sleep(after.unwrap_or(pause)).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                answer => {
                    if let Some(since) = failing {
                        let seconds = since.elapsed().as_secs();
                        tracing::info!(receiver = self.labels.label, seconds, "remote write goes on");
                    }
                    self.metrics.set(self.labels, &EXPORT_RECEIVER_UP, 1.0);
                    return Ok(answer);
                }
            }
        }
    }
}

fn count(parts: &[Part<'_>]) -> u64 {
    parts.iter().map(|part| part.points.len() as u64).sum()
}

/// Things in requests of about so many samples.
fn requests(slices: &[Slice], most: usize) -> Vec<&[Slice]> {
    let samples =
        |slice: &Slice| slice.series.iter().map(|series: &TailSeries| series.points.len()).sum::<usize>();
    let (mut all, mut begin, mut open) = (Vec::new(), 0, 0);
    for (place, slice) in slices.iter().enumerate() {
        open += samples(slice);
        if open >= most {
            all.push(&slices[begin..=place]);
            (begin, open) = (place + 1, 0);
        }
    }
    all.push(&slices[begin..]);
    all.retain(|some| !some.is_empty());
    all
}

/// Parts in requests of at most so many samples, but for a series that has more.
fn pieces(parts: Vec<Part<'_>>, most: usize) -> Vec<Vec<Part<'_>>> {
    let mut all: Vec<Vec<Part<'_>>> = Vec::new();
    let mut open = usize::MAX;
    for part in parts {
        let samples = part.points.len();
        match all.last_mut().filter(|_| open.saturating_add(samples) <= most) {
            Some(last) => {
                open += samples;
                last.push(part);
            }
            None => {
                open = samples;
                all.push(vec![part]);
            }
        }
    }
    all
}

/// Two halves, earlier samples of a series in the first.
fn halves(mut parts: Vec<Part<'_>>) -> (Vec<Part<'_>>, Vec<Part<'_>>) {
    if parts.len() > 1 {
        let second = parts.split_off(parts.len() / 2);
        return (parts, second);
    }
    let second = parts
        .iter_mut()
        .map(|part| {
            let middle = part.points.start + part.points.len() / 2;
            let second = Part { series: part.series, points: middle..part.points.end };
            part.points.end = middle;
            second
        })
        .collect();
    (parts, second)
}

/// The things of the oldest notes.
fn first_things(notes: &[LateNote], most: usize) -> Vec<&str> {
    let mut things: Vec<&str> = Vec::new();
    for note in notes {
        if things.len() < most && !things.contains(&note.thing.as_str()) {
            things.push(&note.thing);
        }
    }
    things
}

/// Of the oldest notes of a part, until about a time, some things' ranges of time, and the ids of their notes.
fn together(notes: &[LateNote], end: i64) -> (HashMap<String, Vec<Range>>, BTreeMap<String, Vec<i64>>) {
    let (mut things, mut ids) = (HashMap::<String, Vec<Range>>::new(), BTreeMap::<String, Vec<i64>>::new());
    let Some(first) = notes.first() else { return (things, ids) };
    for note in notes.iter().take_while(|note| note.since <= end) {
        let is_new = !things.contains_key(&note.thing);
        // Another thing only where the first note is not alone: all of it is read.
        if is_new && things.len() >= LATE_THINGS || note.until > first.until.max(end) {
            continue;
        }
        let ranges = things.entry(note.thing.clone()).or_default();
        match ranges.last_mut().filter(|last| note.since <= last.to + 1) {
            // A replay of what is noted: once.
            Some(last) => last.to = last.to.max(note.until),
            None => ranges.push(Range { from: note.since, to: note.until }),
        }
        ids.entry(note.thing.clone()).or_default().push(note.id);
    }
    (things, ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(thing: &str, points: usize) -> Slice {
        let points = (0..points).map(|time| (time as i64, 1.0)).collect();
        Slice {
            thing: thing.into(),
            series: vec![TailSeries { family: 0, labels: Vec::new().into(), points }],
        }
    }

    #[test]
    fn requests_have_whole_things_and_halves_have_everything_in_order() {
        let slices = [slice("a", 3), slice("b", 3), slice("c", 1)];
        let sizes = |most| requests(&slices, most).iter().map(|some| some.len()).collect::<Vec<_>>();
        assert_eq!(
            (sizes(1), sizes(4), sizes(6), sizes(100)),
            (vec![1, 1, 1], vec![2, 1], vec![2, 1], vec![3])
        );
        assert!(requests(&[], 5).is_empty());

        let whole = |slices: &'static [Slice]| -> Vec<Part<'static>> {
            let series = slices.iter().flat_map(|slice| &slice.series);
            series.map(|series| Part { series, points: 0..series.points.len() }).collect()
        };
        let slices: &'static [Slice] = Box::leak(Box::new([slice("a", 5), slice("b", 2), slice("c", 2)]));
        let sizes: Vec<u64> = pieces(whole(slices), 4).iter().map(|piece| count(piece)).collect();
        assert_eq!(sizes, [5, 4]);
        // Split down to single samples, all are there and in the order of time.
        let (mut open, mut single) = (vec![whole(slices)], Vec::new());
        while let Some(piece) = open.pop() {
            if count(&piece) == 1 {
                single.push((piece[0].series.points.len(), piece[0].points.start));
                continue;
            }
            let (first, second) = halves(piece);
            assert!(count(&first) > 0 && count(&second) > 0);
            open.extend([second, first]);
        }
        assert_eq!(single, [(5, 0), (5, 1), (5, 2), (5, 3), (5, 4), (2, 0), (2, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn notes_are_served_by_thing_within_a_minute() {
        let note = |id, thing: &str, since, until| LateNote {
            id,
            part: "self_stats".into(),
            thing: thing.into(),
            since,
            until,
        };
        let notes = [
            note(1, "n1", 1_000, 3_000),
            note(2, "n2", 2_000, 3_000),
            note(3, "n1", 3_000, 4_000),
            note(4, "n1", 9_000, 10_000),
            note(5, "n3", 5_000, 90_000),
            note(6, "n1", 70_000, 80_000),
        ];
        let (things, ids) = together(&notes, 1_000 + LATE_SPAN);
        let range = |from, to| Range { from, to };
        assert_eq!(things["n1"], [range(1_000, 4_000), range(9_000, 10_000)]);
        assert_eq!(things["n2"], [range(2_000, 3_000)]);
        assert_eq!(
            ids.into_iter().collect::<Vec<_>>(),
            [("n1".into(), vec![1, 3, 4]), ("n2".into(), vec![2])]
        );
        // One that is long is served all the same.
        assert_eq!(together(&notes[4..5], 5_000 + LATE_SPAN).0["n3"], [range(5_000, 90_000)]);
        assert_eq!(first_things(&notes, 2), ["n1", "n2"]);
    }
}
