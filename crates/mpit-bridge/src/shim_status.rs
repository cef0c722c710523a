//! What a rank's shim reports of itself: sums since its beginning, which are added to the receiver's counters once, whether they come
//! over one connection, over the next, or in what the rank left behind at its end.

use crate::frame::{Field, number};
use crate::status::{Counters, Malformed, add};
use std::sync::{Arc, Mutex, PoisonError};

/// Tags of STATUS that have a meaning or may get one.
const TAGS: usize = 64;

/// Sums of one rank that are in the counters already, by tag. Clones are of the same rank.
#[derive(Clone, Debug)]
pub(crate) struct ShimStatus(Arc<Mutex<[u64; TAGS]>>);

impl Default for ShimStatus {
    fn default() -> Self {
        Self(Arc::new(Mutex::new([0; TAGS])))
    }
}

impl ShimStatus {
    /// Adds what is new of these sums to the counters.
    pub(crate) fn take(&self, fields: &[Field<'_>], counters: &Counters) -> Result<(), Malformed> {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (tag, data) in fields {
            let value = number(data)?;
            let Some(before) = sums.get_mut(usize::from(*tag)) else { continue };
            let more = value.saturating_sub(*before);
            *before = value.max(*before);
            match tag {
                2 => add(&counters.unknown_messages, more),
                3 => add(&counters.refused_threads, more),
                5 => add(&counters.missing_variables, more),
                6 => add(&counters.refused_regions, more),
                7 => add(&counters.mismatched_regions, more),
                8 => add(&counters.lost_rows, more),
                _ => {}
            }
        }
        Ok(())
    }
}
