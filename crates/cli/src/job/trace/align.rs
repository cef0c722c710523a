//! Lines up the clock of one rank with rank 0's, from the comparisons that the rank made while it ran.
//!
//! Pure. The offset runs straight from one comparison to the next, which follows any drift that is steady for
//! that long. Where the offset moved by more than drift and the bounds of both comparisons explain, the clock
//! stepped in between: the time of it is not known, so that whatever lies in between is marked.

/// How far the drift of a clock may go from its usual one between two comparisons: an oscillator wanders by
/// less, and a clock that is being slewed harder (NTP: up to 500 ppm) is as good as one that stepped.
const DRIFT_TOLERANCE: f64 = 20e-6;

/// More than any clock drifts: oscillators are within 100 ppm, Linux slews by at most 500.
const DRIFT_MAX: f64 = 1000e-6;

/// A comparison this many times worse than the usual one is left out where there are others.
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
pub struct Aligned {
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
    drift: f64,
    /// Where the clock stepped.
    pub steps: Vec<Step>,
}

impl Alignment {
    /// From all comparisons of a rank, in any order. Without any, clocks are taken as they are.
    pub fn new(mut points: Vec<Point>) -> Self {
        points.sort_unstable_by_key(|point| point.number);
        // Two comparisons at the same time of the clock say nothing about its rate.
        points.dedup_by_key(|point| point.clock);
        let points = without_poor(points);
        let drift = usual_drift(&points);
        let steps = points.windows(2).filter_map(|pair| step(pair[0], pair[1], drift)).collect();
        Self { points, drift, steps }
    }

    /// How many comparisons are used.
    pub fn comparisons(&self) -> usize {
        self.points.len()
    }

    /// Drift against rank 0 in parts per million: positive when this clock is slow.
    pub fn drift_ppm(&self) -> f64 {
        self.drift * 1e6
    }

    /// The largest bound of all comparisons, nanoseconds.
    pub fn error(&self) -> i64 {
        self.points.iter().map(|point| point.uncertainty).max().unwrap_or(0)
    }

    /// A time of the rank's clock on rank 0's.
    pub fn align(&self, clock: i64) -> Aligned {
        let after = self.points.partition_point(|point| point.clock <= clock);
        let (before, after) =
            (after.checked_sub(1).map(|at| self.points[at]), self.points.get(after).copied());
        let (offset, error) = match (before, after) {
            (Some(before), Some(after)) => between(before, after, clock),
            (Some(one), None) | (None, Some(one)) => self.beyond(one, clock),
            (None, None) => (0, 0),
        };
        let stepped = self.steps.iter().find(|step| (step.from.min(step.to)..=step.to).contains(&clock));
        let error = stepped.map_or(error, |step| error + step.jump.abs());
        Aligned { time: clock.saturating_add(offset), error, is_stepped: stepped.is_some() }
    }

    /// Whether a span of the rank's clock reaches into a stretch in which it stepped: then neither its length nor any
    /// end of it can be relied on.
    pub fn has_step(&self, from: i64, to: i64) -> bool {
        self.steps.iter().any(|step| step.from.min(step.to) <= to && from <= step.from.max(step.to))
    }

    /// Before the first comparison and after the last one the drift goes on.
    fn beyond(&self, point: Point, clock: i64) -> (i64, i64) {
        let away = clock.saturating_sub(point.clock) as f64;
        let wander = (away.abs() * DRIFT_TOLERANCE) as i64;
        (point.offset + (away * self.drift) as i64, point.uncertainty + wander)
    }
}

fn between(before: Point, after: Point, clock: i64) -> (i64, i64) {
    let span = (after.clock - before.clock).max(1) as f64;
    let share = (clock - before.clock) as f64 / span;
    let offset = before.offset as f64 + (after.offset - before.offset) as f64 * share;
    (offset.round() as i64, before.uncertainty.max(after.uncertainty))
}

/// Those whose bound is much wider than the usual one go: a rank that was put aside by its kernel in the middle
/// of a comparison. The first and the last stay, as nothing else is known there.
fn without_poor(points: Vec<Point>) -> Vec<Point> {
    let mut bounds: Vec<i64> = points.iter().map(|point| point.uncertainty).collect();
    bounds.sort_unstable();
    let Some(usual) = bounds.get(bounds.len() / 2).copied() else { return points };
    let most = (usual.saturating_mul(POOR)).max(NEVER_POOR);
    let last = points.len() - 1;
    let kept = points.into_iter().enumerate();
    kept.filter(|(at, point)| *at == 0 || *at == last || point.uncertainty <= most)
        .map(|(_, point)| point)
        .collect()
}

/// The median of the slopes that a drift can have: a step is no slope.
fn usual_drift(points: &[Point]) -> f64 {
    let mut slopes: Vec<f64> = points.windows(2).filter_map(|pair| slope(pair[0], pair[1])).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

fn slope(before: Point, after: Point) -> Option<f64> {
    let span = (after.clock - before.clock) as f64;
    let moved = (after.offset - before.offset) as f64;
    let bound = (before.uncertainty + after.uncertainty) as f64;
    (span > 0.0 && moved.abs() - bound <= DRIFT_MAX * span).then(|| moved / span)
}

fn step(before: Point, after: Point, drift: f64) -> Option<Step> {
    let span = (after.clock - before.clock) as f64;
    let unexplained = (after.offset - before.offset) as f64 - drift * span;
    let explained = (before.uncertainty + after.uncertainty) as f64 + DRIFT_TOLERANCE * span.abs();
    // A clock that goes ahead needs less to be added.
    let jump = -unexplained.round() as i64;
    (unexplained.abs() > explained || span <= 0.0).then_some(Step {
        from: before.clock,
        to: after.clock,
        jump,
    })
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;
