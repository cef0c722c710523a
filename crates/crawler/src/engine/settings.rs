//! Limits of an engine: how much may be outstanding, and how long an answer may take. Numbers only.

use super::Budget;
use super::tick::Tick;
use crate::transport::Class;
use std::time::Duration;
use throughline_infiniband::key::Key;

/// Outstanding requests by default; opensm's performance manager allows itself 500, kernel queues hold 512.
pub const DEFAULT_WINDOW: usize = 32;
/// Outstanding requests at most: libumad2sim deadlocks at about 256, the kernel's send queue has 128.
pub const MAX_WINDOW: usize = 128;
/// Outstanding SMPs at most: VL15 has no flow control and drops; opensm allows itself 4.
pub const MAX_SMP_WINDOW: usize = 16;
/// Outstanding SMPs with which an engine begins, and below which losses do not bring it.
pub const MIN_SMP_WINDOW: usize = 4;
/// Outstanding SMPs while the engine pauses for the subnet manager.
pub const YIELD_SMP_WINDOW: usize = 2;
/// SMPs in a second while the engine pauses: a tenth of what opensm sends while it runs a heavy sweep.
pub const YIELD_SMPS_PER_SECOND: u32 = 1000;
/// Outstanding requests at one node by default: agents answer one after the other and drop what they can't
/// hold.
pub const DEFAULT_PER_NODE: u8 = 2;
/// How long an answer may take: after this time without one the last attempt of a request has failed. Earlier
/// attempts are repeated sooner, see [`MIN_REPEAT`].
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
/// Repetitions of a request without an answer. With 1 % of MADs lost each way, one request in 10^7 fails.
pub const DEFAULT_RETRIES: u8 = 3;
/// Repetitions at most: the attempt has 3 bits of the transaction ID.
pub const MAX_RETRIES: u8 = 7;
/// A request is not repeated sooner, whatever the round-trip times, unless its node has answered a later one:
/// agents are software, and one that is busy takes milliseconds. Doubled with each attempt.
pub const MIN_REPEAT: Duration = Duration::from_millis(5);
/// The same as the engine reckons.
pub(super) const MIN_REPEAT_TICKS: Tick = MIN_REPEAT.as_nanos() as Tick;
/// Time until the first repetition while no round trip has been measured yet.
pub(super) const INITIAL_REPEAT_TICKS: Tick = 50_000_000;

/// Limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Outstanding requests, 1 to [`MAX_WINDOW`].
    pub window: usize,
    /// Outstanding requests at one node, at least 1.
    pub per_node: u8,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Attempts after the first, at most [`MAX_RETRIES`].
    pub retries: u8,
    /// The management class: subnet management gets narrower windows and pauses for the subnet manager.
    pub class: Class,
    /// What the process may send in a second, shared by all its engines; `None`: no limit.
    pub budget: Option<&'static Budget>,
    /// M_Key of the nodes; none by default. It goes into subnet management requests and nowhere else.
    pub m_key: Key,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            window: DEFAULT_WINDOW,
            per_node: DEFAULT_PER_NODE,
            timeout: DEFAULT_TIMEOUT,
            retries: DEFAULT_RETRIES,
            class: Class::Performance,
            budget: None,
            m_key: Key::default(),
        }
    }
}

impl Settings {
    /// The same for a class: with the narrower window that subnet management allows.
    #[must_use]
    pub fn for_class(self, class: Class) -> Self {
        let most = if class == Class::Management { MAX_SMP_WINDOW } else { MAX_WINDOW };
        Settings { window: self.window.min(most), class, ..self }
    }

    /// The same, brought into range.
    pub(super) fn in_range(self) -> Self {
        let most = if self.class == Class::Management { MAX_SMP_WINDOW } else { MAX_WINDOW };
        Settings {
            window: self.window.clamp(1, most),
            per_node: self.per_node.max(1),
            timeout: self.timeout.max(Duration::from_millis(1)),
            retries: self.retries.min(MAX_RETRIES),
            ..self
        }
    }
}
