//! PCIe byte counters that are only 32 bits wide, unfolded to 64.
//!
//! NVML hands PCIe bytes out as a 32-bit number: a Gen5 x16 slot fills it in 68 ms. The sampler therefore
//! reads it often enough that at most one wrap can lie between two readings, and adds the differences up
//! here. Where that can't be guaranteed the sum starts anew and says so. Pure: times are arguments.

/// Values of a 32-bit counter.
const WRAP: u64 = 1 << 32;
/// Share of a wrap that may pass between two readings: the rest covers a reading that comes late.
const SAFE_SHARE: f64 = 0.75;
/// Never read more often than this: a reading costs some 0.2 to 0.4 ms of the driver's time.
const SHORTEST_INTERVAL_NANOSECONDS: u64 = 20_000_000;

/// How often a 32-bit byte counter must be read on a slot of this rate.
#[must_use]
pub fn read_interval_nanoseconds(bytes_per_second: u64) -> u64 {
    let seconds = WRAP as f64 * SAFE_SHARE / bytes_per_second.max(1) as f64;
    ((seconds * 1e9) as u64).max(SHORTEST_INTERVAL_NANOSECONDS)
}

/// The running sums of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcieUnfold {
    last: Option<LastReading>,
    transmitted: u64,
    received: u64,
    restarts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastReading {
    nanoseconds: i64,
    transmitted: u32,
    received: u32,
}

impl PcieUnfold {
    /// Takes one reading in and gives the sums: (transmitted, received).
    pub fn read(
        &mut self,
        nanoseconds: i64,
        transmitted: u32,
        received: u32,
        bytes_per_second: u64,
    ) -> (u64, u64) {
        match self.last {
            Some(last) if certain(nanoseconds - last.nanoseconds, bytes_per_second) => {
                self.transmitted += u64::from(transmitted.wrapping_sub(last.transmitted));
                self.received += u64::from(received.wrapping_sub(last.received));
            }
            Some(_) => {
                self.restarts += 1;
                (self.transmitted, self.received) = (u64::from(transmitted), u64::from(received));
            }
            None => (self.transmitted, self.received) = (u64::from(transmitted), u64::from(received)),
        }
        self.last = Some(LastReading { nanoseconds, transmitted, received });
        (self.transmitted, self.received)
    }

    /// How often a sum had to start anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

/// Whether at most one wrap fits in this time.
fn certain(elapsed_nanoseconds: i64, bytes_per_second: u64) -> bool {
    let Ok(elapsed) = u64::try_from(elapsed_nanoseconds) else { return false };
    u128::from(elapsed) * u128::from(bytes_per_second) < u128::from(WRAP) * 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEN5: u64 = 63_000_000_000;

    #[test]
    fn wraps_are_added_up() {
        let mut unfold = PcieUnfold::default();
        assert_eq!(unfold.read(0, u32::MAX - 9, 5, GEN5), (4_294_967_286, 5));
        assert_eq!(unfold.read(50_000_000, 10, 6, GEN5), (4_294_967_306, 6));
        assert_eq!(unfold.restarts(), 0);
    }

    #[test]
    fn a_late_reading_starts_anew_instead_of_guessing() {
        let mut unfold = PcieUnfold::default();
        unfold.read(0, 100, 100, GEN5);
        assert_eq!(unfold.read(1_000_000_000, 200, 300, GEN5), (200, 300));
        assert_eq!(unfold.restarts(), 1);
    }

    #[test]
    fn the_interval_suits_the_slot() {
        assert_eq!(read_interval_nanoseconds(GEN5) / 1_000_000, 51);
        assert_eq!(read_interval_nanoseconds(15_750_000_000) / 1_000_000, 204);
        assert_eq!(read_interval_nanoseconds(u64::MAX), SHORTEST_INTERVAL_NANOSECONDS);
        assert!(certain(read_interval_nanoseconds(GEN5) as i64, GEN5));
    }
}
