//! Where ranks' time went over a run, step by step: whether a line costs time from some moment on, or only at the start. Pure.
//!
//! Both are said where the steps leave no doubt: a line that goes up and down says nothing.

/// A line costs something from this part of the ranks' time on.
const SHARE_MIN: f64 = 0.05;
/// Fewer steps say nothing.
const STEPS_MIN: usize = 8;
/// Of a change this many steps are on both sides.
const SIDE_MIN: usize = 3;
/// A change is as many standard errors of the means on its two sides.
const ERRORS_MIN: f64 = 4.0;
/// Since a change the line has at least so many times the part that it had before.
const GROWTH_MIN: f64 = 1.5;
/// What is only at the start has at least this part of its time there, and the start is at most that part of the run.
const START_SECONDS_MIN: f64 = 0.9;
const START_STEPS_MAX: f64 = 0.25;
/// And hardly anything of the time after it.
const AFTER_START_MAX: f64 = 0.01;

/// What a line does over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trend {
    /// It takes more of the ranks' time since the beginning of a step: its number, and the parts before and since.
    GrowsSince(usize, f64, f64),
    /// All that it costs lies before the end of a step: its number, and the parts until then and after.
    OnlyAtStart(usize, f64, f64),
}

/// What a line does, given its seconds and those of all lines in each step; `None` where neither is sure.
#[must_use]
pub fn trend(seconds: &[f64], elapsed: &[f64]) -> Option<Trend> {
    // Steps without any time: a node was not heard.
    if seconds.len() != elapsed.len() || elapsed.iter().filter(|elapsed| **elapsed > 0.0).count() < STEPS_MIN
    {
        return None;
    }
    only_at_start(seconds, elapsed).or_else(|| grows(seconds, elapsed))
}

fn part(seconds: &[f64], elapsed: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / elapsed.iter().sum::<f64>().max(f64::MIN_POSITIVE)
}

fn only_at_start(seconds: &[f64], elapsed: &[f64]) -> Option<Trend> {
    let all: f64 = seconds.iter().sum();
    let mut sum = 0.0;
    let last = seconds.iter().position(|step| {
        sum += step;
        sum >= START_SECONDS_MIN * all
    })?;
    #[allow(clippy::cast_precision_loss)] // some hundred steps
    let is_start = (last + 1) as f64 <= START_STEPS_MAX * seconds.len() as f64;
    let (during, after) =
        (part(&seconds[..=last], &elapsed[..=last]), part(&seconds[last + 1..], &elapsed[last + 1..]));
    let is_said = is_start && all > 0.0 && during >= 2.0 * SHARE_MIN && after < AFTER_START_MAX;
    is_said.then_some(Trend::OnlyAtStart(last, during, after))
}

/// The two halves whose means are the most steps' errors apart.
fn grows(seconds: &[f64], elapsed: &[f64]) -> Option<Trend> {
    let known: Vec<(usize, f64)> = (0..seconds.len())
        .filter(|at| elapsed[*at] > 0.0)
        .map(|at| (at, seconds[at] / elapsed[at]))
        .collect();
    let shares: Vec<f64> = known.iter().map(|(_, share)| *share).collect();
    let squares = |of: &[f64]| {
        let mean = mean(of);
        of.iter().map(|share| (share - mean).powi(2)).sum::<f64>()
    };
    let splits = SIDE_MIN..=shares.len().checked_sub(SIDE_MIN)?;
    let cost = |at: usize| squares(&shares[..at]) + squares(&shares[at..]);
    let at = splits.min_by(|one, other| cost(*one).total_cmp(&cost(*other)))?;
    let (before, since) = (&shares[..at], &shares[at..]);
    let growth = mean(since) - mean(before);
    #[allow(clippy::cast_precision_loss)] // some hundred steps
    let error_of = |of: &[f64]| squares(of) / (of.len() as f64 - 1.0).max(1.0) / of.len() as f64;
    let error = (error_of(before) + error_of(since)).sqrt();
    // It still does: the last steps are nearer to those since than to those before.
    let is_now = mean(&shares[shares.len() - SIDE_MIN..]) >= f64::midpoint(mean(before), mean(since));
    let is_said = growth >= SHARE_MIN
        && growth >= ERRORS_MIN * error
        && mean(since) >= GROWTH_MIN * mean(before)
        && is_now;
    let first = known[at].0;
    is_said.then(|| {
        Trend::GrowsSince(
            first,
            part(&seconds[..first], &elapsed[..first]),
            part(&seconds[first..], &elapsed[first..]),
        )
    })
}

fn mean(of: &[f64]) -> f64 {
    #[allow(clippy::cast_precision_loss)] // some hundred steps
    let count = of.len().max(1) as f64;
    of.iter().sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &[f64]) -> Option<Trend> {
        let seconds: Vec<f64> = shares.iter().map(|share| share * 80.0).collect();
        trend(&seconds, &vec![80.0; shares.len()])
    }

    #[test]
    fn a_line_that_costs_more_since_a_step() {
        let steps = [0.1, 0.11, 0.1, 0.09, 0.1, 0.4, 0.41, 0.39, 0.4, 0.4];
        let Some(Trend::GrowsSince(5, before, since)) = of(&steps) else { panic!("{:?}", of(&steps)) };
        assert!((before - 0.1).abs() < 0.001 && (since - 0.4).abs() < 0.001);
        // More and more.
        let steps: Vec<f64> = (0..30).map(|step| f64::from(step) * 0.02).collect();
        assert!(matches!(of(&steps), Some(Trend::GrowsSince(12..=18, ..))), "{:?}", of(&steps));
    }

    #[test]
    fn a_line_that_lies_at_the_start() {
        let mut steps = vec![0.8, 0.7, 0.1];
        steps.extend(vec![0.002; 20]);
        assert!(
            matches!(of(&steps), Some(Trend::OnlyAtStart(1, during, _)) if during > 0.7),
            "{:?}",
            of(&steps)
        );
        // Not only: it goes on at a lower part.
        steps.iter_mut().skip(3).for_each(|share| *share = 0.05);
        assert_eq!(of(&steps), None);
    }

    #[test]
    fn what_goes_up_and_down_says_nothing() {
        assert_eq!(of(&[0.3; 20]), None);
        let steps: Vec<f64> = (0..40).map(|step| if step % 2 == 0 { 0.1 } else { 0.5 }).collect();
        assert_eq!(of(&steps), None);
        // It grew, and is over.
        let mut steps = vec![0.1; 10];
        steps.extend([0.6; 6]);
        steps.extend([0.1; 4]);
        assert_eq!(of(&steps), None);
        assert_eq!(of(&[0.0, 0.0, 0.0, 0.9, 0.9, 0.9, 0.9]), None, "too few");
        assert_eq!(of(&[0.01, 0.01, 0.01, 0.01, 0.01, 0.04, 0.04, 0.04, 0.04]), None, "too little");
        assert_eq!(trend(&[1.0; 9], &[0.0; 9]), None, "nothing is known");
    }
}
