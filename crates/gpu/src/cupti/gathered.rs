//! What was sampled of the metrics that a site chose, until it is reported. Pure.

use super::sums::Sum;
use super::wanted::Rollup;
use crate::cupti_frame::MetricReading;

/// What was sampled of one metric.
struct Gathered {
    name: String,
    rollup: Rollup,
    /// Since sampling began.
    sum: Sum,
    /// Since the last report: the sum of the samples' values, or their extreme.
    value: f64,
    /// Samples since the last report that held a number.
    samples: u64,
    /// Those that held none.
    void: u64,
}

impl Gathered {
    fn add(&mut self, value: f64) {
        // A sum of what a GPU counts in a sample is far below 2^63.
        let is_number = match self.rollup {
            Rollup::Sum => (0.0..9e18).contains(&value),
            Rollup::Mean | Rollup::Largest | Rollup::Least => value.is_finite(),
        };
        if !is_number {
            self.void += 1;
            return;
        }
        self.value = match self.rollup {
            Rollup::Sum => {
                self.sum.add(value);
                0.0
            }
            Rollup::Mean => self.value + value,
            Rollup::Largest if self.samples > 0 => self.value.max(value),
            Rollup::Least if self.samples > 0 => self.value.min(value),
            Rollup::Largest | Rollup::Least => value,
        };
        self.samples += 1;
    }

    /// What it was since the last report; neither sum nor value where no sample held a number.
    fn report(&mut self) -> MetricReading {
        let (samples, void) = (std::mem::take(&mut self.samples), std::mem::take(&mut self.void));
        let value = std::mem::take(&mut self.value);
        let is_known = samples > 0;
        let value = match self.rollup {
            Rollup::Sum => None,
            Rollup::Mean => is_known.then(|| value / samples as f64),
            Rollup::Largest | Rollup::Least => is_known.then_some(value),
        };
        let sum = (self.rollup == Rollup::Sum && is_known).then_some(self.sum.bytes);
        MetricReading { name: self.name.clone(), sum, value, void_samples: void }
    }
}

/// Metrics that are reported together.
struct Group {
    /// In so many readings of the source once.
    every: u64,
    metrics: Vec<Gathered>,
}

/// All chosen metrics of one GPU that are sampled.
#[derive(Default)]
pub(super) struct Gathering {
    groups: Vec<Group>,
    readings: u64,
}

impl Gathering {
    /// Of groups: in how many readings of the source each is reported once, and its metrics.
    pub fn new<'n>(groups: impl Iterator<Item = (u64, &'n [String])>) -> Self {
        let metric = |name: &String| Gathered {
            name: name.clone(),
            rollup: Rollup::of(name),
            sum: Sum::default(),
            value: 0.0,
            samples: 0,
            void: 0,
        };
        let group = |(every, names): (u64, &[String])| Group {
            every: every.max(1),
            metrics: names.iter().map(metric).collect(),
        };
        Self { groups: groups.map(group).collect(), readings: 0 }
    }

    /// Takes the values of one sample, in the order of groups and their metrics.
    pub fn add(&mut self, values: &[f64]) {
        let metrics = self.groups.iter_mut().flat_map(|group| &mut group.metrics);
        metrics.zip(values).for_each(|(metric, value)| metric.add(*value));
    }

    /// What is due in this reading of the source.
    pub fn report(&mut self) -> Vec<MetricReading> {
        self.readings += 1;
        let readings = self.readings;
        let due = self.groups.iter_mut().filter(|group| readings.is_multiple_of(group.every));
        due.flat_map(|group| &mut group.metrics).map(Gathered::report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_sums_means_and_extremes_of_a_report() {
        let names = ["a__b.sum", "a__b.avg", "a__b.max", "a__b.min"].map(str::to_owned);
        let mut all = Gathering::new([(1, &names[..])].into_iter());
        all.add(&[f64::NAN, f64::NAN, f64::NAN, f64::NAN]);
        let nothing = all.report();
        assert!(nothing.iter().all(|one| (one.sum, one.value, one.void_samples) == (None, None, 1)));
        all.add(&[1.5, 4.0, -3.0, -3.0]);
        all.add(&[1.5, 8.0, -5.0, -5.0]);
        let read = all.report();
        assert_eq!((read[0].sum, read[0].value), (Some(3), None));
        assert_eq!([read[1].value, read[2].value, read[3].value], [Some(6.0), Some(-3.0), Some(-5.0)]);
        all.add(&[2.0, 1.0, f64::INFINITY, 7.0]);
        let next = all.report();
        assert_eq!((next[0].sum, next[1].value, next[2].value), (Some(5), Some(1.0), None));
    }

    #[test]
    fn each_group_is_reported_at_its_interval() {
        let (fast, slow) = (["a.avg".to_owned()], ["b.avg".to_owned()]);
        let mut all = Gathering::new([(1, &fast[..]), (3, &slow[..])].into_iter());
        let mut reported = Vec::new();
        for value in 1..=6 {
            all.add(&[f64::from(value), f64::from(value)]);
            reported.push(all.report());
        }
        assert_eq!(reported.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2, 1, 1, 2]);
        assert_eq!((reported[5][1].name.as_str(), reported[5][1].value), ("b.avg", Some(5.0)));
    }
}
