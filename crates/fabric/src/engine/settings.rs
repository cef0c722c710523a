//! Limits of an engine: how much may be outstanding, and how long an answer may take. Numbers only.

use crate::transport::Class;
use std::time::Duration;

/// Outstanding requests by default; opensm's performance manager allows itself 500, kernel queues hold 512.
pub const DEFAULT_WINDOW: usize = 32;
/// Outstanding requests at most: libumad2sim deadlocks at about 256, the kernel's send queue has 128.
pub const MAX_WINDOW: usize = 128;
/// Outstanding SMPs at most: VL15 has no flow control and drops; opensm allows itself 4.
pub const MAX_SMP_WINDOW: usize = 16;
/// Outstanding requests at one node by default: agents answer one after the other and drop what they can't
/// hold.
pub const DEFAULT_PER_NODE: u8 = 2;
/// Time until a request without an answer is repeated.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
/// Repetitions of a request without an answer.
pub const DEFAULT_RETRIES: u8 = 2;
/// Limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Outstanding requests, 1 to [`MAX_WINDOW`].
    pub window: usize,
    /// Outstanding requests at one node, at least 1.
    pub per_node: u8,
    /// Deadline of one attempt.
    pub timeout: Duration,
    /// Attempts after the first.
    pub retries: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            window: DEFAULT_WINDOW,
            per_node: DEFAULT_PER_NODE,
            timeout: DEFAULT_TIMEOUT,
            retries: DEFAULT_RETRIES,
        }
    }
}

impl Settings {
    /// The same, with the narrower window that subnet management allows.
    #[must_use]
    pub fn for_class(self, class: Class) -> Self {
        let most = if class == Class::Management { MAX_SMP_WINDOW } else { MAX_WINDOW };
        Settings { window: self.window.min(most), ..self }
    }
}
