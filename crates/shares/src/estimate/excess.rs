//! What host ports counted beyond the known, and the flows that explain it.

/// Management and headers of an idle port, bytes in a window.
pub(super) const SLACK_BYTES: f64 = 65_536.0;

/// What a port sent or received beyond the known.
#[derive(Clone, Copy)]
pub(super) struct PortExcess {
    pub port: usize,
    pub bytes: f64,
    /// At most so much: the known at its least.
    pub most: f64,
}

/// Unreported traffic between two ports.
pub(super) struct Pair {
    pub from: usize,
    pub to: usize,
    pub bytes: f64,
    pub most: f64,
}
