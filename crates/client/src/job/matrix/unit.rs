//! What a matrix counts: bytes or messages.

use super::grid::Entry;
use crate::text::{bytes, count, thousands};

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
}

impl Unit {
    /// What an entry has of it.
    pub fn of(self, entry: &Entry) -> u64 {
        match self {
            Self::Bytes => entry.bytes,
            Self::Messages => entry.messages,
        }
    }

    /// For people, where the unit stands elsewhere.
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::Messages => thousands(value),
        }
    }

    /// With its unit.
    pub fn amount(self, value: u64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::Messages => count(value, "message"),
        }
    }

    /// Its name.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Messages => "messages",
        }
    }
}
