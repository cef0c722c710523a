//! Who sends a batch, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use throughline_daemon::{Clock, ClockSpans, boot_id};
use throughline_sample::wire::Batch;

/// The sender of this boot.
pub struct Sender {
    subnet_prefix: u64,
    boot_id: String,
    /// Number of the last batch. Begins at the microseconds since boot, so that it also rises over a restart of
    /// the crawler within one boot.
    order: AtomicU64,
    spans: Arc<ClockSpans>,
}

impl Sender {
    pub fn new(subnet_prefix: u64, spans: Arc<ClockSpans>) -> Sender {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
        // Linux always has this clock, and it is never negative.
        let order =
            time.map_or(0, |t| u64::try_from(t.tv_sec() * 1_000_000 + t.tv_nsec() / 1000).unwrap_or(0));
        Sender { subnet_prefix, boot_id: boot_id(), order: AtomicU64::new(order), spans }
    }

    /// The subnet of all batches.
    pub fn subnet_prefix(&self) -> u64 {
        self.subnet_prefix
    }

    /// The spans of this machine's clock.
    pub fn spans(&self) -> &Arc<ClockSpans> {
        &self.spans
    }

    /// Signs a batch.
    pub fn sign(&self, batch: &mut Batch) {
        self.spans.adopt(batch);
        self.spans.sign(batch, None);
        batch.order = self.order.fetch_add(1, Ordering::Relaxed) + 1;
        batch.subnet_prefix = self.subnet_prefix;
        batch.boot_id.clone_from(&self.boot_id);
        batch.clock_error_nanoseconds = Clock::error_nanoseconds();
    }
}
