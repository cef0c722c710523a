//! How a switch routes, as it reports it. Pure.

/// How a switch chooses its output ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SwitchRouting {
    /// By its linear forwarding table alone.
    Static,
    /// Adaptive routing is switched on: the table is one possibility.
    Adaptive,
}

impl SwitchRouting {
    /// The name in JSON and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SwitchRouting::Static => "static",
            SwitchRouting::Adaptive => "adaptive",
        }
    }
}
