//! The pipelined MAD engine: a window of outstanding requests over many nodes.
//!
//! One engine serves one management class on one thread. It goes round the nodes, holds at most a few requests
//! open at each, keeps its own deadlines and repeats what got no answer. A node from which nothing came for a
//! whole request with all its repetitions is *silent*: its other requests end at once, and until it answers
//! again it is asked one thing at a time without repetition, so it costs one deadline per round and not one per
//! port. The engine does not know what the attributes mean; a [`Work`] does. Nothing is allocated per MAD once
//! queues have grown.

mod queue;
mod run;
mod settings;
mod stats;

pub use queue::{NodeId, Queue, Request, Route};
pub use run::Engine;
pub use settings::{
    DEFAULT_PER_NODE, DEFAULT_RETRIES, DEFAULT_TIMEOUT, DEFAULT_WINDOW, MAX_SMP_WINDOW, MAX_WINDOW, Settings,
};
pub use stats::Stats;

use crate::mad::Mad;
use crate::transport::TransportError;
use std::time::Instant;

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// A reply with status 0.
    Reply(&'a Mad),
    /// A reply with this status: the agent does not know the attribute or the value.
    Refused(u16),
    /// No answer within all attempts.
    Timeout,
    /// Not asked, because the node is silent.
    Silent,
    /// Not sent: the transport refused it.
    NotSent,
}

/// Gets the outcomes and may queue more.
pub trait Work {
    /// One request ended. `now` is about the time of the reply.
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, now: Instant);
}

/// A round was given up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The process was asked to stop.
    #[error("stopped")]
    Stopped,
    /// The transport does not work any more.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

#[cfg(test)]
mod tests;
