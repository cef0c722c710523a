//! Lines up the clock of one rank with rank 0's, from the comparisons that the rank made while it ran.
//!
//! Pure. The offset runs straight from one comparison to the next, which follows any drift that is steady for
//! that long. Where the offset moved by more than drift and the bounds of both comparisons explain, the clock
//! stepped in between: the time of it is not known, so that whatever lies in between is marked. Between steps each
//! comparison also bounds its neighbours, so that one on a busy node is as good as the good ones around it allow.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // nanoseconds of a job

/// How far the drift of a clock may go from its usual one between two comparisons: an oscillator wanders by
/// less, and a clock that is being slewed harder (NTP: up to 500 ppm) is as good as one that stepped.
const DRIFT_TOLERANCE: f64 = 20e-6;

/// More than any clock drifts: oscillators are within 100 ppm, Linux slews by at most 500.
const DRIFT_MAX: f64 = 1000e-6;

/// A comparison this many times worse than the good ones, the lower quartile, is left out where there are others.
const POOR: i64 = 4;

/// Nanoseconds below which a comparison is never called poor.
const NEVER_POOR: i64 = 5_000;

/// One comparison with rank 0's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Running number of the comparison: their order, whatever the clock did.
    pub number: i64,
    /// The rank's own clock.
    pub clock: i64,
    /// To be added to it.
    pub offset: i64,
    /// The offset is not wrong by more.
    pub uncertainty: i64,
}

/// A stretch in which the clock stepped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The comparison before, by the rank's own clock.
    pub from: i64,
    /// The comparison after.
    pub to: i64,
    /// By how much the clock went ahead (negative: back), nanoseconds, without drift.
    pub jump: i64,
}

/// A time on rank 0's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedTime {
    /// Nanoseconds.
    pub time: i64,
    /// Not wrong by more, as far as the comparisons tell.
    pub error: i64,
    /// Within a stretch in which the clock stepped.
    pub is_stepped: bool,
}

/// The way from a rank's clock to rank 0's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alignment {
    points: Vec<Point>,
    /// By how much the offset may leave the straight line from each comparison to the next, nanoseconds.
    bends: Vec<i64>,
    drift: Drift,
    /// Where the clock stepped.
    pub steps: Vec<Step>,
}

impl Alignment {
    /// From all comparisons of a rank, in any order. Without any, clocks are taken as they are.
    #[must_use]
    pub fn new(mut points: Vec<Point>) -> Self {
        points.sort_unstable_by_key(|point| point.number);
        // Two comparisons at the same time of the clock say nothing about its rate.
        points.dedup_by_key(|point| point.clock);
        let mut points = without_poor(points);
        let drift = usual_drift(&points);
        let steps = points.windows(2).filter_map(|pair| step(pair[0], pair[1], drift)).collect();
        tighten(&mut points, drift);
        let bends = bends(&points, drift);
        Self { points, bends, drift, steps }
    }

    /// How many comparisons are used.
    #[must_use]
    pub fn comparisons(&self) -> usize {
        self.points.len()
    }

    /// Drift against rank 0 in parts per million: positive when this clock is slow.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        self.drift.usual * 1e6
    }

    /// The largest bound between comparisons where the clock did not step, nanoseconds.
    #[must_use]
    pub fn error(&self) -> i64 {
        let spans = self.points.windows(2).zip(&self.bends);
        let smooth = spans.filter(|(pair, _)| !self.has_step(pair[0].clock + 1, pair[1].clock - 1));
        let largest = smooth.map(|(pair, bend)| pair[0].uncertainty.max(pair[1].uncertainty) + bend).max();
        largest.or_else(|| self.points.iter().map(|point| point.uncertainty).max()).unwrap_or(0)
    }

    /// A time of the rank's clock on rank 0's.
    #[must_use]
    pub fn align(&self, clock: i64) -> AlignedTime {
        let after = self.points.partition_point(|point| point.clock <= clock);
        let (before, next) =
            (after.checked_sub(1).map(|at| self.points[at]), self.points.get(after).copied());
        let (offset, error) = match (before, next) {
            (Some(before), Some(after_it)) => {
                let (offset, error) = between(before, after_it, clock);
                (offset, error + self.bends[after - 1])
            }
            (Some(one), None) | (None, Some(one)) => self.beyond(one, clock),
            (None, None) => (0, 0),
        };
        let stepped = self.steps.iter().find(|step| (step.from.min(step.to)..=step.to).contains(&clock));
        let error = stepped.map_or(error, |step| error + step.jump.abs());
        AlignedTime { time: clock.saturating_add(offset), error, is_stepped: stepped.is_some() }
    }

    /// Whether a span of the rank's clock reaches into a stretch in which it stepped: then neither its length nor any
    /// end of it can be relied on.
    #[must_use]
    pub fn has_step(&self, from: i64, to: i64) -> bool {
        self.steps.iter().any(|step| step.from.min(step.to) <= to && from <= step.from.max(step.to))
    }

    /// Before the first comparison and after the last one the drift goes on.
    fn beyond(&self, point: Point, clock: i64) -> (i64, i64) {
        let away = clock.saturating_sub(point.clock) as f64;
        let wander = (away.abs() * self.drift.tolerance) as i64;
        (point.offset + (away * self.drift.usual) as i64, point.uncertainty + wander)
    }
}

fn between(before: Point, after: Point, clock: i64) -> (i64, i64) {
    let span = (after.clock - before.clock).max(1) as f64;
    let share = (clock - before.clock) as f64 / span;
    let offset = before.offset as f64 + (after.offset - before.offset) as f64 * share;
    (offset.round() as i64, before.uncertainty.max(after.uncertainty))
}

/// Those whose bound is much wider than that of the good ones go: a rank that was put aside by its kernel in the middle
/// of a comparison. The first and the last stay, as nothing else is known there.
fn without_poor(points: Vec<Point>) -> Vec<Point> {
    let mut bounds: Vec<i64> = points.iter().map(|point| point.uncertainty).collect();
    bounds.sort_unstable();
    let Some(good) = bounds.get(bounds.len() / 4).copied() else { return points };
    let most = (good.saturating_mul(POOR)).max(NEVER_POOR);
    let last = points.len() - 1;
    let kept = points.into_iter().enumerate();
    kept.filter(|(at, point)| *at == 0 || *at == last || point.uncertainty <= most)
        .map(|(_, point)| point)
        .collect()
}

/// The rate at which an offset moves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Drift {
    /// Nanoseconds per nanosecond of the rank's clock.
    usual: f64,
    /// By how much it may be another one between two comparisons.
    tolerance: f64,
}

impl Default for Drift {
    /// Of an unknown clock.
    fn default() -> Self {
        Self { usual: 0.0, tolerance: DRIFT_MAX }
    }
}

/// The median of the most precise slopes between the best comparisons. A step is no slope, and as no pair is further
/// apart than an eighth of the run, few pairs lie around one.
fn usual_drift(points: &[Point]) -> Drift {
    let mut bounds: Vec<i64> = points.iter().map(|point| point.uncertainty).collect();
    bounds.sort_unstable();
    let most = bounds.get(bounds.len() / 10).map_or(0, |best| best.saturating_mul(2));
    let points: Vec<Point> = points.iter().copied().filter(|point| point.uncertainty <= most).collect();
    let lags = (0..).map(|power| 1usize << power).take_while(|lag| *lag == 1 || lag * 8 <= points.len());
    let pairs = lags.flat_map(|lag| points.iter().zip(points.iter().skip(lag)));
    let mut slopes: Vec<(f64, f64)> =
        pairs.filter_map(|(before, after)| Some((error(*before, *after), slope(*before, *after)?))).collect();
    slopes.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    slopes.truncate(slopes.len().div_ceil(4).max(3));
    let Some(least_precise) = slopes.last().map(|slope| slope.0) else { return Drift::default() };
    slopes.sort_unstable_by(|one, other| one.1.total_cmp(&other.1));
    Drift { usual: slopes[slopes.len() / 2].1, tolerance: DRIFT_TOLERANCE + least_precise }
}

/// By how much a slope may be wrong.
fn error(before: Point, after: Point) -> f64 {
    (before.uncertainty + after.uncertainty) as f64 / (after.clock - before.clock) as f64
}

/// None where it would tell more about the comparisons than about the clock.
fn slope(before: Point, after: Point) -> Option<f64> {
    let span = (after.clock - before.clock) as f64;
    let moved = (after.offset - before.offset) as f64;
    let error = error(before, after);
    let rate = moved / span;
    (span > 0.0 && error <= DRIFT_MAX && rate.abs() - error <= DRIFT_MAX).then_some(rate)
}

/// Each comparison leaves the offset a range; between steps, ranges of neighbours bound each other, as the drift keeps
/// near its usual one. Once forwards and once backwards, so that the best of them reach everywhere.
fn tighten(points: &mut [Point], drift: Drift) {
    for at in 1..points.len() {
        narrow(points, at - 1, at, drift);
    }
    for at in (1..points.len()).rev() {
        narrow(points, at, at - 1, drift);
    }
}

/// What the comparison `by` leaves of the range of `at`.
fn narrow(points: &mut [Point], by: usize, at: usize, drift: Drift) {
    let (first, second) = (points[by.min(at)], points[by.max(at)]);
    if step(first, second, drift).is_some() {
        return;
    }
    let (good, own) = (points[by], points[at]);
    let span = (own.clock - good.clock) as f64;
    let expected = good.offset + (drift.usual * span).round() as i64;
    let bound = good.uncertainty + (drift.tolerance * span.abs()).ceil() as i64;
    let low = (own.offset - own.uncertainty).max(expected - bound);
    let high = (own.offset + own.uncertainty).min(expected + bound);
    if low <= high {
        points[at].offset = low + (high - low) / 2;
        points[at].uncertainty = (high - low + 1) / 2;
    }
}

/// Where the drift changes on the way from one comparison to the next, from the rate before to the rate after, the
/// offset leaves the straight line by at most a quarter of the way times the change.
fn bends(points: &[Point], drift: Drift) -> Vec<i64> {
    let rates: Vec<Option<f64>> = points
        .windows(2)
        .map(|pair| slope(pair[0], pair[1]).filter(|_| step(pair[0], pair[1], drift).is_none()))
        .collect();
    let rate = |at: Option<usize>| at.and_then(|at| rates.get(at).copied().flatten());
    let bend = |(at, pair): (usize, &[Point])| {
        let (before, own, after) = (rate(at.checked_sub(1)), rate(Some(at)), rate(Some(at + 1)));
        let change = match (before, after) {
            (Some(before), Some(after)) => Some(after - before),
            (Some(other), None) | (None, Some(other)) => own.map(|own| own - other),
            (None, None) => None,
        };
        let most = 2.0 * drift.tolerance;
        let span = (pair[1].clock - pair[0].clock).abs() as f64;
        (span / 4.0 * change.map_or(most, |change| change.abs().min(most))).ceil() as i64
    };
    points.windows(2).enumerate().map(bend).collect()
}

fn step(before: Point, after: Point, drift: Drift) -> Option<Step> {
    let span = (after.clock - before.clock) as f64;
    let unexplained = (after.offset - before.offset) as f64 - drift.usual * span;
    let explained = (before.uncertainty + after.uncertainty) as f64 + drift.tolerance * span.abs();
    // A clock that goes ahead needs less to be added.
    let jump = -unexplained.round() as i64;
    (unexplained.abs() > explained || span <= 0.0).then_some(Step {
        from: before.clock,
        to: after.clock,
        jump,
    })
}

#[cfg(test)]
mod tests;
