//! A hint from elsewhere that the subnet manager runs a heavy sweep. No more than a shared flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says to engines of subnet management that the subnet manager needs the agents for itself. Clones are one hint.
#[derive(Clone, Debug, Default)]
pub struct Backpressure(Arc<AtomicBool>);

impl Backpressure {
    /// Sets or clears it. Engines look before each MAD.
    pub fn set(&self, has_backpressure: bool) {
        self.0.store(has_backpressure, Ordering::Relaxed);
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
