//! Speaking with the subnet administrator: its records, subscriptions to traps, and the subnet from its records.
//!
//! Bytes are `mad::sa`'s. Nothing here decides when to query, or what a trap is worth; that is the daemon's.

mod choice;
mod client;
mod discover;
mod exchange;
mod groups;

pub use choice::{Choice, NoChoice, is_shut_out};
pub use client::{Client, Records};
pub use discover::discover;
pub use exchange::{Report, Settings, Stats};
pub use groups::{all_groups, groups, is_trusting};

use crate::transport::TransportError;
use throughline_infiniband::mad::sa::{Status, attribute};

/// SM_Key that opensm accepts where its configuration has no other one, and that saquery uses by default. With
/// it the administrator reports the members of each group.
pub const DEFAULT_SM_KEY: u64 = 1;

/// A request to the subnet administrator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The port knows no subnet manager.
    #[error(
        "the local port knows no subnet manager (its LID is 0); start one, or choose another port with --ca and --port"
    )]
    NoManager,
    /// No answer within all attempts.
    #[error(
        "the subnet administrator at LID {lid} does not answer {} (queried {attempts} times); is the subnet manager alive, and is the SM_Key right?",
        attribute::name(*attribute)
    )]
    Silent {
        /// Attribute requested.
        attribute: u16,
        /// LID that was queried.
        lid: u16,
        /// Requests sent.
        attempts: u32,
    },
    /// An answer with an error.
    #[error("the subnet administrator refuses {}: {status}", attribute::name(*attribute))]
    Refused {
        /// Attribute requested.
        attribute: u16,
        /// Its status.
        status: Status,
    },
    /// The answer is longer than one MAD and what lies below passes one on: libumad2sim does.
    #[error(
        "the answer to {} is longer than what this fabric passes on (a simulator without RMPP)",
        attribute::name(*attribute)
    )]
    Cut {
        /// Attribute requested.
        attribute: u16,
    },
    /// The transfer of a long answer ended early, or the answer is too long.
    #[error("the answer to {} did not come whole: {reason}", attribute::name(*attribute))]
    Broken {
        /// Attribute requested.
        attribute: u16,
        /// Why.
        reason: &'static str,
    },
    /// The process is to stop.
    #[error("stopped")]
    Stopped,
    /// The transport does not work any more.
    #[error("{0}")]
    Transport(String),
}

impl From<TransportError> for SaError {
    fn from(error: TransportError) -> SaError {
        SaError::Transport(error.0)
    }
}

#[cfg(test)]
mod tests;
