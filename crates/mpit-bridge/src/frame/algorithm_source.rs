//! How the algorithm of a collective is known.

use super::Malformed;

/// How the algorithm of a collective is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmSource {
    /// The operation has none.
    #[default]
    None,
    /// Nobody says.
    Unknown,
    /// Its function was observed at work.
    Observed,
    /// A performance variable counted it.
    Pvar,
    /// A setting requests it.
    Forced,
}

impl AlgorithmSource {
    /// The word in records; empty for [`AlgorithmSource::None`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Unknown => "unknown",
            Self::Observed => "observed",
            Self::Pvar => "pvar",
            Self::Forced => "forced",
        }
    }

    /// That of a number in frames.
    pub(super) fn of_number(number: u16) -> Result<Self, Malformed> {
        use AlgorithmSource::{Forced, None, Observed, Pvar, Unknown};
        const SOURCES: [AlgorithmSource; 5] = [None, Unknown, Observed, Pvar, Forced];
        SOURCES.get(usize::from(number)).copied().ok_or(Malformed::Body)
    }
}
