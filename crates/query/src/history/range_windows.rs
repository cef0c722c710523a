//! Which samples Prometheus needs for `rate` and `increase` at the times at which it evaluates them. Pure.
//!
//! Prometheus extrapolates the increase between the first and the last sample of a range (promql/functions.go, `extrapolatedRate`): to
//! the range's end where that is less than 1.1 of the mean distance of its samples away, else by half of that distance. So of a range whose
//! ends are that near, the first and the last sample and both sides of each fall are enough: leaving out others makes the mean distance
//! larger and the ends no farther. Of one in which a series begins or ends, so many are left that half a distance is little.

use super::Range;
use std::collections::VecDeque;

/// Share of the mean distance of samples within which an end of a range is near.
const NEAR: f64 = 1.1;

/// So many distances are left in a range that a series does not fill: half of one is then a quarter of a percent.
const DISTANCES: usize = 200;

/// Shares of the time between the first and the last sample below this are not worth a sample.
const NEGLIGIBLE: f64 = 0.002;

/// Without other reasons samples are no farther apart than this share of the range: where a selector in a subquery has an offset, the
/// times at which it is evaluated are not known.
const PARTS: i64 = 4;

/// Ranges from this one on are answered from minutes where there are some: a minute is less than half a percent of it.
const LONG: i64 = 4 * 60 * MINUTE;

/// Of ranges from this one on no more than a sample a minute is needed where readings are too many.
const COARSE: i64 = PARTS * MINUTE;

/// With so many minutes in a range that a series does not fill, readings would change nothing that counts.
const MINUTES_ENOUGH: usize = 300;

/// Ranges of one query at most: Prometheus evaluates 11,000 times, a subquery may have more.
const WINDOWS_MAX: i64 = 200_000;

/// Milliseconds.
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The ranges over which a function is evaluated; milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWindows {
    /// End of the first one.
    first: i64,
    /// None ends later.
    end: i64,
    /// From one end to the next.
    step: i64,
    length: i64,
    /// Whether the sample at a range's beginning belongs to it: Prometheus 3 leaves it out.
    is_closed: bool,
    /// Whether minutes are enough for any of these ranges.
    is_coarse: bool,
}

/// One range, and the places of its samples; it has some.
struct Window {
    from: i64,
    to: i64,
    first: usize,
    last: usize,
}

impl RangeWindows {
    /// From what Prometheus says of a query: the time of the selector's samples, the distance of the points of the result, the selector's
    /// range. `None` where that does not say at which times it evaluates, or at too many.
    #[must_use]
    pub fn new(selected: Range, step: i64, length: i64) -> Option<RangeWindows> {
        let time = selected.to - selected.from;
        if length <= 0 || time < length - 1 {
            return None;
        }
        let windows = |first: i64, step: i64, is_closed: bool| RangeWindows {
            first,
            end: selected.to,
            step,
            length,
            is_closed,
            is_coarse: false,
        };
        // Prometheus 3 begins a millisecond later.
        if time <= length {
            return Some(windows(selected.to, length, time == length));
        }
        // Times of queries are whole seconds nearly always.
        let is_closed = (selected.from + length).rem_euclid(1000) != 1;
        let first = selected.from + length - i64::from(!is_closed);
        let step = step.min(selected.to - first + 1);
        (step > 0 && (selected.to - first) / step < WINDOWS_MAX).then(|| windows(first, step, is_closed))
    }

    /// With no more than a sample a minute, if that is enough at all; `None` where it is so already.
    pub(super) fn coarser(self) -> Option<RangeWindows> {
        let can_be = !self.takes_minutes() && self.length >= COARSE;
        can_be.then_some(RangeWindows { is_coarse: true, ..self })
    }

    /// Whether minutes answer, with readings where a series begins and ends.
    pub(super) fn takes_minutes(self) -> bool {
        self.is_coarse || self.length >= LONG
    }

    /// Whether readings answer besides: there are not too many of them.
    pub(super) fn takes_readings(self) -> bool {
        !self.is_coarse
    }

    /// Whether several rows of a minute are in each range.
    pub(super) fn is_over_minutes(self) -> bool {
        self.length >= COARSE
    }

    /// Hands on the ranges that have samples, or, with their neighbours, would like some.
    fn each(
        self,
        points: &[(i64, f64)],
        mut take: impl FnMut(Window),
        mut empty: impl FnMut(i64, i64, usize),
    ) {
        let multiple = (self.first + self.step - 1).div_euclid(self.step) * self.step;
        // Ranges of subqueries end at multiples of the step.
        let begins = [Some(self.first), Some(multiple).filter(|multiple| *multiple != self.first)];
        for begin in begins.into_iter().flatten() {
            let (mut first, mut next, mut to) = (0, 0, begin);
            while to <= self.end && first < points.len() {
                let from = to - self.length + i64::from(!self.is_closed);
                first += points[first..].iter().take_while(|point| point.0 < from).count();
                next = next.max(first);
                next += points[next..].iter().take_while(|point| point.0 <= to).count();
                match next.checked_sub(1).filter(|last| *last >= first) {
                    Some(last) => take(Window { from, to, first, last }),
                    None => empty(from, to, first),
                }
                to += self.step;
            }
        }
    }

    /// Leaves out what changes no answer.
    pub(super) fn thin(self, points: &[(i64, f64)]) -> Vec<(i64, f64)> {
        let mut is_end = vec![false; points.len()];
        let mut strides = Vec::new();
        let ends = |window: Window| {
            is_end[window.first] = true;
            is_end[window.last] = true;
            if let Some(stride) = window.stride(points) {
                strides.push((window.first, window.last, stride));
            }
        };
        self.each(points, ends, |_, _, _| {});
        // Those of a second set of ranges are behind the first.
        strides.sort_unstable();
        let mut strides = Strides { all: strides.into_iter().peekable(), open: VecDeque::new() };
        let (mut left, mut last) = (Vec::new(), (0, i64::MIN / 2));
        for (place, point) in points.iter().enumerate() {
            let falls = |before: usize, after: usize| {
                points.get(before).zip(points.get(after)).is_some_and(|(before, after)| after.1 < before.1)
            };
            let stride = strides.at(place);
            let is_needed = is_end[place]
                || place == 0
                || place + 1 == points.len()
                || falls(place, place + 1)
                || falls(place.wrapping_sub(1), place)
                || stride.is_some_and(|stride| place - last.0 >= stride)
                || point.0 - last.1 >= self.length / PARTS;
            if is_needed {
                left.push(*point);
                last = (place, point.0);
            }
        }
        left
    }

    /// Where readings are needed besides samples that are a minute apart: of whole hours. A series begins or ends within some ranges, and
    /// has too few minutes there.
    pub(super) fn wanted(self, points: &[(i64, f64)]) -> Vec<Range> {
        let mut wanted: Vec<Range> = Vec::new();
        let mut add = |from: i64, to: i64| {
            if from > to {
                return;
            }
            let range = Range { from: from.div_euclid(HOUR) * HOUR, to: (to.div_euclid(HOUR) + 1) * HOUR };
            if wanted.last() != Some(&range) {
                wanted.push(range);
            }
        };
        // The first reading of a minute may be that much before the one that the minute has.
        let around = |from: i64, to: i64, first: i64, last: i64| {
            (from.max(first - 2 * MINUTE), to.min(last + 2 * MINUTE))
        };
        let mut of_empty = Vec::new();
        let has_few = |window: Window| {
            let (first, last) = (points[window.first].0, points[window.last].0);
            let distances = window.last - window.first;
            if distances == 0 || distances < MINUTES_ENOUGH && window.is_cut(points) {
                let (from, to) = around(window.from, window.to, first, last);
                add(from, to);
            }
        };
        self.each(points, has_few, |from, to, next| {
            for place in [next.checked_sub(1), Some(next)].into_iter().flatten() {
                if let Some((time, _)) = points.get(place) {
                    of_empty.push(around(from, to, *time, *time));
                }
            }
        });
        of_empty.into_iter().for_each(|(from, to)| add(from, to));
        wanted.sort_unstable_by_key(|range| (range.from, range.to));
        let mut merged: Vec<Range> = Vec::new();
        for range in wanted {
            match merged.last_mut() {
                Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
                _ => merged.push(range),
            }
        }
        merged
    }
}

impl Window {
    /// Times from the range's ends to its samples, those between first and last, and their mean distance.
    fn distances(&self, points: &[(i64, f64)]) -> ([f64; 2], f64, f64) {
        let (first, last) = (points[self.first].0, points[self.last].0);
        let sampled = (last - first) as f64;
        let mean = sampled / (self.last - self.first).max(1) as f64;
        ([(first - self.from) as f64, (self.to - last) as f64], sampled, mean)
    }

    /// Whether an end is so far from its samples that Prometheus takes it that the series begins or ends in between.
    fn is_cut(&self, points: &[(i64, f64)]) -> bool {
        let (ends, sampled, mean) = self.distances(points);
        ends.iter().any(|end| *end >= NEAR * mean && *end > NEGLIGIBLE * sampled)
    }

    /// How many samples on the next one is needed, if ends are not near.
    fn stride(&self, points: &[(i64, f64)]) -> Option<usize> {
        let (ends, sampled, mean) = self.distances(points);
        let far =
            ends.into_iter().filter(|end| *end >= NEAR * mean && *end - mean / 2.0 > NEGLIGIBLE * sampled);
        // With fewer samples an end must not come near.
        let strides =
            far.map(|end| ((self.last - self.first) / DISTANCES).min((end / (NEAR * mean)) as usize));
        strides.min().map(|stride| stride.max(1))
    }
}

/// The least stride of those ranges that are open at a place; ranges rise.
struct Strides<I: Iterator<Item = (usize, usize, usize)>> {
    all: std::iter::Peekable<I>,
    /// (last place, stride): strides rise, and so do last places.
    open: VecDeque<(usize, usize)>,
}

impl<I: Iterator<Item = (usize, usize, usize)>> Strides<I> {
    fn at(&mut self, place: usize) -> Option<usize> {
        while let Some((_, last, stride)) = self.all.next_if(|next| next.0 <= place) {
            while self.open.back().is_some_and(|open| open.1 >= stride && open.0 <= last) {
                self.open.pop_back();
            }
            self.open.push_back((last, stride));
        }
        while self.open.front().is_some_and(|open| open.0 < place) {
            self.open.pop_front();
        }
        self.open.front().map(|open| open.1)
    }
}

#[cfg(test)]
mod tests;
