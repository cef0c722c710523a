//! Sums of what samples held of bytes. Pure.

use super::metrics::Quantity;

/// What was sampled of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Whole bytes since sampling began, modulo 2^64: a sum that is stored as a number with a fraction would lose bytes
    /// after some hours of a busy GPU.
    pub bytes: u64,
    /// What samples held beyond whole bytes.
    rest: f64,
    /// Highest rate in one sample, bytes per second, since it was last taken.
    pub peak: f64,
}

impl Sum {
    /// Adds what a sample held.
    pub(super) fn add(&mut self, value: f64) {
        let value = value + self.rest;
        // A sample's bytes are far below 2^64; one that isn't would stick there.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = value as u64;
        self.bytes = self.bytes.wrapping_add(whole);
        self.rest = value.fract();
    }
}

/// No GPU carries as much in one direction over all its links, bytes per second: a sample with more is void.
const FASTEST: f64 = 4e12;

/// What was sampled, by [`Quantity`]; `None` for what the chip does not offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// In the order of [`Quantity::ALL`].
    pub of: [Option<Sum>; 4],
    /// Samples in the sums.
    pub samples: u64,
    /// Samples without a number, or with more than any GPU carries: the first one has none now and then.
    pub void: u64,
    /// Times the GPU's buffer was full, so that samples were lost.
    pub overflows: u64,
}

impl Sums {
    /// Adds the values of one sample that lasted so long.
    pub fn add(&mut self, wanted: &[Quantity], values: &[f64], nanoseconds: u64) {
        let seconds = nanoseconds as f64 / 1e9;
        let is_believed = |value: &f64| {
            value.is_finite() && *value >= 0.0 && (nanoseconds == 0 || *value <= FASTEST * seconds)
        };
        if !values.iter().all(is_believed) {
            self.void += 1;
            return;
        }
        self.samples += 1;
        for (quantity, value) in wanted.iter().zip(values) {
            let sum = self.of[*quantity as usize].get_or_insert_default();
            sum.add(*value);
            if nanoseconds > 0 {
                sum.peak = sum.peak.max(value * 1e9 / nanoseconds as f64);
            }
        }
    }

    /// Begins the highest rates anew.
    pub fn begin_peaks(&mut self) {
        self.of.iter_mut().flatten().for_each(|sum| sum.peak = 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_leave_out_what_is_no_number_and_keep_the_highest_rate() {
        let mut sums = Sums::default();
        let wanted = [Quantity::NvlinkTransmit, Quantity::PcieWrite];
        sums.add(&wanted, &[f64::NAN, 5.0], 1_000_000);
        sums.add(&wanted, &[1000.0, 2.0], 1_000_000);
        sums.add(&wanted, &[3000.0, 0.0], 2_000_000);
        assert_eq!((sums.samples, sums.void), (2, 1));
        assert_eq!(sums.of[0], Some(Sum { bytes: 4000, rest: 0.0, peak: 1_500_000.0 }));
        assert_eq!((sums.of[1], sums.of[3]), (None, Some(Sum { bytes: 2, rest: 0.0, peak: 2000.0 })));
        sums.begin_peaks();
        assert_eq!(sums.of[0], Some(Sum { bytes: 4000, rest: 0.0, peak: 0.0 }));
    }

    #[test]
    fn a_sum_loses_no_byte_and_begins_again_after_64_bits() {
        let wanted = [Quantity::PcieRead];
        let mut sums = Sums::default();
        sums.add(&wanted, &[0.75], 1);
        // A number with a fraction has 53 bits: beyond them a single byte would be lost.
        sums.of[2].as_mut().unwrap().bytes = 1 << 60;
        (0..6).for_each(|_| sums.add(&wanted, &[1.0], 1));
        sums.add(&wanted, &[0.25], 1);
        assert_eq!(sums.of[2].unwrap().bytes, (1 << 60) + 7);
        sums.of[2].as_mut().unwrap().bytes = u64::MAX - 2;
        sums.add(&wanted, &[10.0], 1);
        assert_eq!(sums.of[2].unwrap().bytes, 7);
        assert_eq!(throughline_sample::increase((u64::MAX - 2) & (u64::MAX >> 1), 7), 10);
    }
}
