//! Shares that were said against those that were true, window by window. Pure.

use std::collections::BTreeMap;

/// Links with less are not compared: there a share says little.
pub const LOADED: f64 = 0.2;
/// Most that a share may be off, as a part of what was counted.
pub const GOAL: f64 = 0.03;
/// Most by which a port's counter in a window may differ from the flows' counters: beyond it the emulation read cables late,
/// which says nothing of shares.
pub const LATE: f64 = 0.03;
/// With more late windows the machine was too busy to decide anything.
pub const LATE_MOST: f64 = 0.1;
/// Most by which contributors' sum may differ from the counter.
pub const SUM_GOAL: f64 = 0.001;

/// Whose bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The first job.
    First,
    /// The second job.
    Second,
    /// The sender that no job knows.
    Stranger,
    /// A host beside the three, or nobody known.
    Other,
}

/// All of them.
pub const ALL: [Who; 4] = [Who::First, Who::Second, Who::Stranger, Who::Other];

/// One direction of a link in one window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Bytes that crossed, by flows' counters.
    pub truth: BTreeMap<Who, f64>,
    /// Bytes by the answer.
    pub said: BTreeMap<Who, f64>,
    /// What the port counted, by the answer.
    pub counted: f64,
    /// What the link could have carried.
    pub capacity: f64,
    /// Bytes of hosts of jobs that the answer calls unmonitored.
    pub unreported: f64,
}

impl Window {
    /// True bytes as a part of what the link could have carried.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.truth.values().sum::<f64>() / self.capacity.max(1.0)
    }

    /// How far one's share is off, as a part of all.
    #[must_use]
    pub fn error(&self, who: Who) -> f64 {
        let part =
            |bytes: &BTreeMap<Who, f64>, all: f64| bytes.get(&who).copied().unwrap_or(0.0) / all.max(1.0);
        let truth = part(&self.truth, self.truth.values().sum());
        part(&self.said, self.counted) - truth
    }

    /// The largest error of anybody.
    #[must_use]
    pub fn worst(&self) -> f64 {
        ALL.iter().map(|who| self.error(*who).abs()).fold(0.0, f64::max)
    }

    /// How far contributors' sum is from the counter.
    #[must_use]
    pub fn sum_error(&self) -> f64 {
        (self.said.values().sum::<f64>() - self.counted).abs() / self.counted.max(1.0)
    }

    /// How far the counter of the answer is from the flows' counters.
    #[must_use]
    pub fn counter_error(&self) -> f64 {
        self.counted / self.truth.values().sum::<f64>().max(1.0) - 1.0
    }
}

/// Errors over many windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Windows of loaded directions that were compared.
    pub windows: usize,
    /// Beside these, windows whose counters were read late.
    pub late: usize,
    /// The mean of the largest error in each.
    pub mean: f64,
    /// 95 of 100 are below.
    pub most: f64,
    /// The largest.
    pub worst: f64,
    /// The largest of the stranger's.
    pub stranger: f64,
    /// The mean of what is too much at nobody known and hosts beside the three.
    pub nobody: f64,
    /// The largest of the sum.
    pub sum: f64,
    /// The largest of the counter.
    pub counter: f64,
    /// Windows beyond the goal.
    pub beyond: usize,
}

impl Summary {
    /// Of windows, those of loaded links only.
    #[must_use]
    pub fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Summary {
        let loaded = windows.into_iter().filter(|window| window.load() >= LOADED);
        let (late, loaded): (Vec<&Window>, Vec<&Window>) =
            loaded.partition(|window| window.counter_error().abs() > LATE);
        let mut errors: Vec<f64> = loaded.iter().map(|window| window.worst()).collect();
        errors.sort_by(f64::total_cmp);
        let largest =
            |value: &dyn Fn(&Window) -> f64| loaded.iter().map(|w| value(w).abs()).fold(0.0, f64::max);
        let place = (errors.len() * 95).div_ceil(100).saturating_sub(1);
        Summary {
            windows: loaded.len(),
            late: late.len(),
            mean: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
            most: errors.get(place).copied().unwrap_or(0.0),
            worst: errors.last().copied().unwrap_or(0.0),
            stranger: largest(&|window| window.error(Who::Stranger)),
            nobody: loaded.iter().map(|window| window.error(Who::Other)).sum::<f64>()
                / loaded.len().max(1) as f64,
            sum: largest(&Window::sum_error),
            counter: largest(&Window::counter_error),
            beyond: errors.iter().filter(|error| **error > GOAL).count(),
        }
    }

    /// Whether every goal is met; nothing compared meets none.
    #[must_use]
    pub fn meets_goals(&self) -> bool {
        self.is_decided() && self.worst <= GOAL && self.sum <= SUM_GOAL
    }

    /// Whether enough windows were read in time to say anything.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.windows > 0 && self.late as f64 <= LATE_MOST * (self.windows + self.late) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(truth: [f64; 3], said: [f64; 3]) -> Window {
        let of = |bytes: [f64; 3]| ALL.into_iter().zip(bytes).collect::<BTreeMap<_, _>>();
        Window {
            truth: of(truth),
            said: of(said),
            counted: said.iter().sum(),
            capacity: 100.0,
            unreported: 0.0,
        }
    }

    #[test]
    fn errors_are_parts_of_all_and_idle_links_are_left_out() {
        let good = window([60.0, 10.0, 10.0], [60.0, 10.0, 10.0]);
        let bad = window([60.0, 10.0, 10.0], [52.0, 10.0, 18.0]);
        let idle = window([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]);
        assert!((bad.error(Who::Stranger) - 0.1).abs() < 1e-9 && (bad.error(Who::First) + 0.1).abs() < 1e-9);
        let summary = Summary::of([&good, &bad, &idle]);
        assert_eq!((summary.windows, summary.beyond), (2, 1));
        assert!((summary.worst - 0.1).abs() < 1e-9 && (summary.mean - 0.05).abs() < 1e-9);
        assert!(!summary.meets_goals());
        assert!(Summary::of([&good]).meets_goals());
        assert!(!Summary::of([&idle]).meets_goals(), "nothing was compared");
    }

    #[test]
    fn windows_that_were_read_late_are_counted_and_not_compared() {
        let good = window([60.0, 10.0, 10.0], [60.0, 10.0, 10.0]);
        let late = window([60.0, 10.0, 10.0], [60.0, 10.0, 30.0]);
        let summary = Summary::of([&good, &late]);
        assert_eq!((summary.windows, summary.late, summary.beyond), (1, 1, 0));
        assert!(!summary.is_decided() && !summary.meets_goals(), "half of them were late");
        let many: Vec<&Window> = std::iter::repeat_n(&good, 19).chain([&late]).collect();
        assert!(Summary::of(many).meets_goals());
    }

    #[test]
    fn a_sum_beside_the_counter_misses_the_goal() {
        let mut odd = window([60.0, 10.0, 10.0], [60.0, 10.0, 10.0]);
        odd.counted = 81.0;
        assert!(odd.sum_error() > SUM_GOAL && !Summary::of([&odd]).meets_goals());
    }
}
