//! Neighbouring runs with the shim and without, as ratios, and what their median may be.
//!
//! The interval is that of the sign test: whatever the distribution of the ratios, the order statistics reported hold their
//! median with at least [`CONFIDENCE`]. A machine that is busy for some runs widens it and does not move it.

/// Of the interval.
const CONFIDENCE: f64 = 0.95;
/// Fewest pairs with which the sign test has an interval of that confidence: 1 - 2/2^6 = 0.969.
pub const FEWEST: usize = 6;
/// An interval wider than this decides nothing about 1 %: the machine was busy.
pub const WIDEST: f64 = 0.04;

/// Seconds with the shim and without it, of runs beside each other in time.
#[derive(Default)]
pub struct Pairs {
    with: Vec<f64>,
    without: Vec<f64>,
}

/// Ratios of time with the shim to time without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The median of the ratios.
    pub median: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// How wide it is.
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// More pairs would not change what is said of the limit.
    pub fn is_decided(self, limit: f64) -> bool {
        self.high <= limit || self.low > limit
    }

    /// Within the noise of the limit, and the noise is small enough to say so.
    pub fn is_within(self, limit: f64) -> bool {
        self.low <= limit && (self.high <= limit || self.width() <= WIDEST)
    }
}

impl Pairs {
    /// Takes in a pair.
    pub fn push(&mut self, with: f64, without: f64) {
        self.with.push(with);
        self.without.push(without);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.with.len()
    }

    /// Median seconds with the shim and without it.
    pub fn seconds(&self) -> (f64, f64) {
        (median(&self.with), median(&self.without))
    }

    /// The fastest run with the shim against the fastest without: what disturbs a machine only adds.
    pub fn ratio_of_fastest(&self) -> f64 {
        let fastest = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
        fastest(&self.with) / fastest(&self.without)
    }

    /// What the median ratio may be; `None` with fewer than [`FEWEST`] pairs.
    pub fn interval(&self) -> Option<Interval> {
        let mut ratios: Vec<f64> = self.with.iter().zip(&self.without).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let cut = cut(ratios.len())?;
        Some(Interval {
            low: *ratios.get(cut)?,
            median: median(&ratios),
            high: *ratios.get(ratios.len() - 1 - cut)?,
        })
    }
}

/// How many of the smallest and of the largest of `count` values the sign test leaves out.
fn cut(count: usize) -> Option<usize> {
    // Probability that at most `left_out` of `count` values lie below their median.
    let (mut term, mut tail, mut left_out) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0, 0);
    while 2.0 * (tail + term) <= 1.0 - CONFIDENCE && left_out < count / 2 {
        tail += term;
        term *= (count - left_out) as f64 / (left_out + 1) as f64;
        left_out += 1;
    }
    left_out.checked_sub(1)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle), middle.checked_sub(1).and_then(|left| sorted.get(left))) {
        (0, Some(right), Some(left)) => f64::midpoint(*left, *right),
        (_, Some(value), _) => *value,
        _ => f64::NAN,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn of(ratios: &[f64]) -> Option<Interval> {
        let mut pairs = Pairs::default();
        ratios.iter().for_each(|ratio| pairs.push(*ratio, 1.0));
        pairs.interval()
    }

    /// Tables of the sign test: 6 to 8 values leave out none on each side, 9 to 11 one, 12 to 14 two, 20 five.
    #[test]
    fn order_statistics_of_the_sign_test() {
        for (count, expected) in
            [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (12, Some(2)), (15, Some(3)), (20, Some(5))]
        {
            assert_eq!(cut(count), expected, "{count}");
        }
    }

    #[test]
    fn an_outlier_widens_and_does_not_move() {
        let quiet = of(&[1.0, 1.002, 1.001, 0.999, 1.003, 1.0, 0.998, 1.001, 1.002]).unwrap();
        assert_eq!((quiet.low, quiet.median, quiet.high), (0.999, 1.001, 1.002));
        let disturbed = of(&[1.0, 1.002, 1.001, 0.999, 1.003, 1.0, 0.998, 3.0, 1.002]).unwrap();
        assert!((disturbed.median - quiet.median).abs() < 0.001 && disturbed.high == 1.003);
        assert!(quiet.is_within(1.01) && quiet.is_decided(1.01));
        let mut pairs = Pairs::default();
        pairs.push(1.2, 1.0);
        pairs.push(1.1, 3.0);
        assert!((pairs.ratio_of_fastest() - 1.1).abs() < 1e-9);
    }

    #[test]
    fn slow_ones_are_missed_and_wide_ones_are_not_decided() {
        let slow = of(&[1.02, 1.03, 1.02, 1.025, 1.03, 1.02]).unwrap();
        assert!(!slow.is_within(1.01) && slow.is_decided(1.01));
        let wide = of(&[0.8, 1.3, 1.0, 0.9, 1.1, 1.2]).unwrap();
        assert!(!wide.is_within(1.01) && !wide.is_decided(1.01));
        let fast = of(&[0.8, 0.9, 0.7, 0.85, 0.9, 1.0]).unwrap();
        assert!(fast.is_within(1.01), "wide, but all of it below");
    }
}
