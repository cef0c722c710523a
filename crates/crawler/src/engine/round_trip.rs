//! How long an answer takes: smoothed round-trip time and deviation, as TCP keeps them. Pure.
//!
//! RFC 6298, section 2, with its gains. Its clock granularity is [`GRANULARITY_NANOSECONDS`]. Karn's rule (no sample from a
//! repeated request) is kept by the caller: each attempt has a transaction ID of its own, so that a reply always
//! says which attempt it answers, and no sample is ambiguous.

use std::time::Duration;

/// Deviations below this are taken for it: the reader's own scheduling is no more exact.
const GRANULARITY_NANOSECONDS: u64 = 100_000;

/// The round-trip time of one node, or of all. 8 bytes, since there is one for each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// Nanoseconds; 0 before the first sample.
    smoothed: u32,
    /// Nanoseconds.
    deviation: u32,
}

impl RoundTrip {
    /// Takes one sample in nanoseconds; more than 4.2 s count as 4.2 s.
    pub fn sample(&mut self, nanoseconds: u64) {
        let sample = u32::try_from(nanoseconds).unwrap_or(u32::MAX).max(1);
        if self.smoothed == 0 {
            *self = RoundTrip { smoothed: sample, deviation: sample / 2 };
            return;
        }
        let error = self.smoothed.abs_diff(sample);
        // In 64 bits, so that sums do not overflow; a mean of 32-bit numbers has 32 bits.
        self.deviation = ((u64::from(self.deviation) * 3 + u64::from(error)) / 4) as u32;
        self.smoothed = ((u64::from(self.smoothed) * 7 + u64::from(sample)) / 8).max(1) as u32;
    }

    /// The smoothed round-trip time; `None` before the first sample.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        (self.smoothed > 0).then(|| Duration::from_nanos(self.smoothed.into()))
    }

    /// The time within which an answer is expected, in nanoseconds: smoothed time and four deviations. 0 before the
    /// first sample.
    #[must_use]
    pub fn expected(&self) -> u64 {
        match self.smoothed {
            0 => 0,
            smoothed => u64::from(smoothed) + (u64::from(self.deviation) * 4).max(GRANULARITY_NANOSECONDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_follows_rfc_6298() {
        let mut time = RoundTrip::default();
        assert_eq!((time.smoothed(), time.expected()), (None, 0));
        time.sample(800_000);
        // R/2 as the first deviation: 800 + 4 * 400.
        assert_eq!(time.expected(), 2_400_000);
        time.sample(1_600_000);
        // Deviation 3/4 * 400 + 1/4 * 800 = 500, smoothed 7/8 * 800 + 1/8 * 1600 = 900.
        assert_eq!(time.smoothed(), Some(Duration::from_micros(900)));
        assert_eq!(time.expected(), 2_900_000);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_samples(samples in prop::collection::vec(1u64..5_000_000_000, 1..100)) {
            let mut time = RoundTrip::default();
            samples.iter().for_each(|sample| time.sample(*sample));
            let clipped = |sample: &u64| (*sample).min(u64::from(u32::MAX));
            let least = samples.iter().map(clipped).min().unwrap();
            let most = samples.iter().map(clipped).max().unwrap();
            let smoothed = time.smoothed().unwrap().as_nanos() as u64;
            // Rounding down each time loses less than 8 ns.
            prop_assert!(smoothed + 8 >= least && smoothed <= most, "{smoothed} in {least}..={most}");
            prop_assert!(time.expected() > smoothed);
        }

        #[test]
        fn a_steady_time_is_expected_closely(sample in 1_000u64..1_000_000_000) {
            let mut time = RoundTrip::default();
            (0..100).for_each(|_| time.sample(sample));
            prop_assert!(time.expected() <= sample + 50 + GRANULARITY_NANOSECONDS);
        }
    }
}
