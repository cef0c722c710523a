//! The samples of one series: in order, gaps of unchanged counters filled, thinned where that was requested. Pure.

use super::range_windows::RangeWindows;
use throughline_packed::gaps::{FILL_EVERY, is_gap, is_long};
use throughline_packed::prometheus::{Chunk, chunks};

/// Which samples are handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinning {
    /// All.
    #[default]
    None,
    /// Those that the increase over each of these ranges needs; wrong for anything that looks at each sample.
    Increase(RangeWindows),
}

/// What is made of samples as they are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub is_counter: bool,
    /// Of the thing that the series is of, by its sender's rule. Milliseconds.
    pub largest_gap: i64,
    pub thinning: Thinning,
    /// No more than a sample a minute is wanted: nothing is filled, and what is packed is unpacked to be thinned.
    pub is_coarse: bool,
    pub takes_chunks: bool,
}

/// Milliseconds since 1970, and the value.
pub(super) type Point = (i64, f64);

/// Times and values of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// By time once finished.
    points: Vec<Point>,
    /// Chunks out of blocks, by time once finished; then none overlaps others or points.
    packed: Vec<Packed>,
}

/// A chunk that lies whole in the range that was requested.
#[derive(Clone, Debug, PartialEq)]
struct Packed {
    chunk: Chunk,
    /// The shortest standstill of a counter in it that is far enough apart to be filled.
    standstill: Option<i64>,
}

impl Samples {
    pub(super) fn push(&mut self, time: i64, value: f64) {
        self.points.push((time, value));
    }

    pub(super) fn push_chunk(&mut self, chunk: Chunk, standstill: Option<i64>) {
        self.packed.push(Packed { chunk, standstill });
    }

    /// Adds samples as they were read.
    pub(super) fn extend(&mut self, read: &Samples) {
        self.points.extend_from_slice(&read.points);
    }

    /// Leaves out what comes after `to`.
    pub(super) fn cut(&mut self, to: i64) {
        self.points.retain(|point| point.0 <= to);
    }

    /// Puts a mark at a time that has no sample and none of a chunk.
    pub(super) fn end(&mut self, time: i64, mark: f64) {
        let place = self.points.partition_point(|point| point.0 < time);
        let is_taken = self.points.get(place).is_some_and(|point| point.0 == time)
            || self.packed.iter().any(|packed| (packed.chunk.first..=packed.chunk.last).contains(&time));
        if !is_taken {
            self.points.insert(place, (time, mark));
        }
    }

    /// Takes a sample out.
    pub(super) fn remove(&mut self, time: i64) {
        self.points.retain(|point| point.0 != time);
    }

    /// Of samples as they were read those after `from`, with gaps of counters up to `largest_gap` filled behind `before`, the last one
    /// until then: what a reading of ranges that follow each other adds with this one. The last one until its end is returned, too.
    pub(super) fn added(
        mut self,
        from: i64,
        before: Option<Point>,
        (is_counter, largest_gap): (bool, i64),
    ) -> (Vec<Point>, Option<Point>) {
        self.order();
        let split = self.points.partition_point(|point| point.0 <= from);
        let read_before = split.checked_sub(1).and_then(|place| self.points.get(place)).copied();
        let before = before.filter(|before| before.0 <= from);
        let before = match (before, read_before) {
            (Some(known), Some(read)) if known.0 > read.0 => Some(known),
            (known, read) => read.or(known),
        };
        let last = self.points.last().copied().filter(|last| last.0 > from).or(before);
        self.points.drain(..split);
        if self.points.is_empty() {
            return (self.points, last);
        }
        if is_counter && let Some(before) = before {
            self.points.insert(0, before);
        }
        if is_counter {
            self.fill(largest_gap);
        }
        let is_before = |point: &(i64, f64)| before.is_some_and(|before| point.0 <= before.0);
        let done = self.points.iter().take_while(|point| is_before(point)).count();
        self.points.drain(..done);
        (self.points, last)
    }

    pub(super) fn len(&self) -> u64 {
        self.points.len() as u64 + self.packed.iter().map(|packed| packed.chunk.count()).sum::<u64>()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.packed.is_empty()
    }

    /// (Milliseconds since 1970, value), times strictly rising. All there are, unless chunks were requested.
    #[must_use]
    pub fn points(&self) -> &[(i64, f64)] {
        &self.points
    }

    /// All of them in chunks, by time.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk> {
        let (mut all, mut done) = (Vec::with_capacity(self.packed.len() + 1), 0);
        for Packed { chunk, .. } in &self.packed {
            let before = done + self.points[done..].partition_point(|point| point.0 < chunk.first);
            all.extend(chunks(&self.points[done..before]));
            all.push(chunk.clone());
            done = before;
        }
        all.extend(chunks(&self.points[done..]));
        all
    }

    /// Brings rows and blocks as they came out of the database into the form of a series. Where chunks are taken, those
    /// stay as they are that need no change. `None` for a chunk that can't be unpacked.
    pub(super) fn finish(&mut self, form: &Form) -> Option<()> {
        self.packed.sort_by_key(|packed| packed.chunk.first);
        self.order();
        if !self.packed.is_empty() {
            // Thinning is a leave to leave out: what is packed as finely as that costs less as it is.
            let stays = !self.has_point_in_chunk()
                && (!form.is_counter || !form.is_coarse && !self.has_gap(form.largest_gap));
            if form.takes_chunks && stays {
                return Some(());
            }
            self.unpack()?;
        }
        if form.is_counter {
            if !form.is_coarse {
                self.fill(form.largest_gap);
            }
            if let Thinning::Increase(windows) = form.thinning {
                self.points = windows.thin(&self.points);
            }
        }
        Some(())
    }

    /// Has points in place of chunks, in order. `None` for a chunk that can't be unpacked.
    pub(super) fn unpack(&mut self) -> Option<()> {
        for Packed { chunk, .. } in std::mem::take(&mut self.packed) {
            chunk.unpack(&mut self.points)?;
        }
        self.order();
        Some(())
    }

    fn order(&mut self) {
        let is_rising = self.points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !is_rising {
            self.points.sort_by_key(|point| point.0);
            // Of one millisecond the last holds.
            self.points.reverse();
            self.points.dedup_by_key(|point| point.0);
            self.points.reverse();
        }
    }

    /// Whether a row lies within the time of a chunk: it came late for an hour that is packed only.
    fn has_point_in_chunk(&self) -> bool {
        self.packed.iter().any(|Packed { chunk, .. }| {
            let next = self.points.partition_point(|point| point.0 < chunk.first);
            self.points.get(next).is_some_and(|point| point.0 <= chunk.last)
        })
    }

    /// Whether something may have to be filled; between chunks only times are looked at.
    fn has_gap(&self, largest: i64) -> bool {
        let mut chunks = self.packed.iter().peekable();
        let mut end: Option<(i64, Option<f64>)> = None;
        let mut is_found = false;
        let mut follows = |time: i64, value: Option<f64>, last: (i64, Option<f64>)| {
            is_found |= end.is_some_and(|(before, known)| {
                let may_stand = known.is_none() || value.is_none() || known == value;
                may_stand && is_long(time - before, largest)
            });
            end = Some(last);
        };
        for point in &self.points {
            while let Some(Packed { chunk, .. }) = chunks.next_if(|next| next.chunk.first < point.0) {
                follows(chunk.first, None, (chunk.last, None));
            }
            follows(point.0, Some(point.1), (point.0, Some(point.1)));
        }
        chunks.for_each(|Packed { chunk, .. }| follows(chunk.first, None, (chunk.last, None)));
        is_found || self.packed.iter().filter_map(|packed| packed.standstill).any(|length| length <= largest)
    }

    fn fill(&mut self, largest: i64) {
        let is_gap = |pair: &[(i64, f64)]| is_gap(pair[0], pair[1], largest);
        if !self.points.windows(2).any(is_gap) {
            return;
        }
        let mut filled = Vec::with_capacity(self.points.len() * 2);
        for pair in self.points.windows(2) {
            filled.push(pair[0]);
            if is_gap(pair) {
                let times = (1..).map(|step| pair[0].0 + step * FILL_EVERY);
                filled.extend(times.take_while(|time| *time < pair[1].0).map(|time| (time, pair[0].1)));
            }
        }
        filled.extend(self.points.last());
        self.points = filled;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Range;
    use super::*;
    use crate::row_rules::Gaps;

    /// For ranges of that length, evaluated each 15 s from the first sample on.
    fn increase(length: i64) -> Thinning {
        Thinning::Increase(RangeWindows::new(Range { from: -length, to: 100_000 }, 15_000, length).unwrap())
    }

    fn finished(points: &[(i64, f64)], is_counter: bool, thinning: Thinning) -> Vec<(i64, f64)> {
        let mut samples = Samples { points: points.to_vec(), packed: Vec::new() };
        let is_coarse = matches!(thinning, Thinning::Increase(windows) if windows.is_over_minutes());
        let largest_gap = Gaps::usual();
        samples.finish(&Form { is_counter, largest_gap, thinning, is_coarse, takes_chunks: true }).unwrap();
        samples.points
    }

    #[test]
    fn late_rows_find_their_place_and_the_last_of_a_millisecond_holds() {
        let rows = [(2_000, 2.0), (1_000, 1.0), (2_000, 2.5), (3_000, 3.0)];
        assert_eq!(finished(&rows, true, Thinning::None), [(1_000, 1.0), (2_000, 2.5), (3_000, 3.0)]);
    }

    #[test]
    fn a_counter_that_stands_still_is_filled_and_silence_is_not() {
        let still = finished(&[(0, 7.0), (60_000, 7.0)], true, Thinning::None);
        assert_eq!(still, [(0, 7.0), (15_000, 7.0), (30_000, 7.0), (45_000, 7.0), (60_000, 7.0)]);
        for cache in [[(0, 7.0), (60_000, 8.0)], [(0, 7.0), (76_000, 7.0)], [(0, 7.0), (15_000, 7.0)]] {
            assert_eq!(finished(&cache, true, Thinning::None), cache);
        }
        // Thinned for rate(…[1m]), which would find one sample, and no more where a sample a minute is enough.
        let filled = |length| finished(&[(0, 7.0), (60_000, 7.0)], true, increase(length)).len();
        assert_eq!((filled(60_000), filled(240_000)), (5, 2));
        // A gauge says nothing about the time between.
        assert_eq!(finished(&[(0, 7.0), (60_000, 7.0)], false, Thinning::None).len(), 2);
    }

    #[test]
    fn a_mark_stands_between_samples_and_in_no_chunk() {
        let packed =
            Packed { chunk: chunks(&[(5_000, 1.0), (7_000, 2.0)]).next().unwrap(), standstill: None };
        let mut samples = Samples { points: vec![(1_000, 1.0), (9_000, 3.0)], packed: vec![packed] };
        for time in [500, 1_000, 2_000, 6_000, 9_500] {
            samples.end(time, f64::NAN);
        }
        let times: Vec<(i64, bool)> =
            samples.points.iter().map(|(time, value)| (*time, value.is_nan())).collect();
        assert_eq!(times, [(500, true), (1_000, false), (2_000, true), (9_000, false), (9_500, true)]);
    }

    #[test]
    fn ranges_one_after_the_other_add_what_one_reading_has() {
        let rows: Vec<(i64, f64)> = [0, 10, 70, 71, 131, 207, 260]
            .map(|second| (second * 1_000, f64::from(u8::from(second > 70)) + 7.0))
            .into();
        let together = finished(&rows, true, Thinning::None);
        for length in [5, 10, 30, 61, 300] {
            let (mut all, mut last) = (Vec::new(), None);
            for range in 0..=300 / length {
                let (from, to) = (range * length * 1_000 - 1, (range + 1) * length * 1_000 - 1);
                let within = rows.iter().filter(|row| row.0 > from && row.0 <= to).copied().collect();
                let samples = Samples { points: within, packed: Vec::new() };
                let (added, next) = samples.added(from, last, (true, Gaps::usual()));
                all.extend(added);
                last = next;
            }
            assert_eq!(all, together, "{length} s");
        }
        // What was read before the range stands for what is not known of it.
        let samples = Samples { points: rows.clone(), packed: Vec::new() };
        let (added, last) = samples.added(71_000, None, (true, Gaps::usual()));
        let expected: Vec<_> = together.iter().filter(|point| point.0 > 71_000).copied().collect();
        assert_eq!((added, last), (expected, rows.last().copied()));
        assert_eq!(
            Samples::default().added(5, Some((3, 1.0)), (true, Gaps::usual())),
            (vec![], Some((3, 1.0)))
        );
    }

    #[test]
    fn thinning_keeps_ends_and_both_sides_of_each_fall() {
        let mut rows: Vec<(i64, f64)> = (0..100).map(|i| (i * 1_000, i as f64)).collect();
        rows[55].1 = 3.0;
        let cache = finished(&rows, true, increase(60_000));
        for point in [rows[0], rows[54], rows[55], rows[99]] {
            assert!(cache.contains(&point), "{point:?}");
        }
        assert!(cache.len() < 60, "{cache:?}");
        assert!(cache.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 15_000));
        let grown = |points: &[(i64, f64)]| {
            points.windows(2).map(|p| if p[1].1 >= p[0].1 { p[1].1 - p[0].1 } else { p[1].1 }).sum::<f64>()
        };
        assert_eq!(grown(&cache), grown(&rows));
        assert_eq!(finished(&rows, false, increase(60_000)), rows);
    }
}
