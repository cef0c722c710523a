//! The sparse set of catalogue values that counters travel in.

use crate::catalogue::Metric;
use crate::wire::Values;

impl Values {
    /// Adds one value. A byte counter beyond the catalogue's width is reduced to it (see
    /// [`Width`](crate::catalogue::Width)), so that every value fits the store's signed 64-bit columns.
    pub fn put(&mut self, metric: &Metric, value: u64) {
        self.metric.push(metric.id);
        self.value.push(metric.width.reduce(value));
    }

    /// The value of a metric, `None` when it was not read.
    #[must_use]
    pub fn get(&self, metric: &Metric) -> Option<u64> {
        let at = self.metric.iter().position(|id| *id == metric.id)?;
        self.value.get(at).copied()
    }

    /// All pairs of metric number and value; a damaged message's surplus entries are left out.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.metric.iter().copied().zip(self.value.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{TRANSMIT_DATA_BYTES, TRANSMIT_WAIT};

    #[test]
    fn absent_is_not_zero() {
        let mut values = Values::default();
        values.put(&TRANSMIT_DATA_BYTES, 0);
        assert_eq!(values.get(&TRANSMIT_DATA_BYTES), Some(0));
        assert_eq!(values.get(&TRANSMIT_WAIT), None);
    }

    #[test]
    fn values_fit_a_signed_column() {
        let mut values = Values::default();
        values.put(&TRANSMIT_DATA_BYTES, u64::MAX);
        assert_eq!(values.get(&TRANSMIT_DATA_BYTES), Some(u64::MAX >> 1));
    }
}
