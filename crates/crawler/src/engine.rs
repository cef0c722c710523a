//! The pipelined MAD engine: a window of outstanding requests over many nodes.
//!
//! One engine serves one management class on one thread. It goes round the nodes and holds at most a few requests
//! open at each. How many are outstanding in all follows what is lost ([`window`](Engine::window)); when an
//! attempt is repeated follows the round-trip times (`round_trip`, `overdue`). A node from which nothing came for
//! a whole request with all its repetitions is *silent*: its other requests end at once, and until it answers
//! again one thing is requested of it in each round, aside from the window, for which nobody else waits. All engines of a
//! process share one promise of MADs per second ([`Budget`]). The engine does not know what the attributes mean;
//! a [`Work`] does. Nothing is allocated per MAD once queues have grown.

mod arrivals;
mod backpressure;
mod budget;
mod overdue;
mod queue;
mod round_trip;
mod run;
mod settings;
mod slots;
mod stats;
mod tick;
mod window;

pub use backpressure::Backpressure;
pub use budget::Budget;
pub use queue::{NodeId, Queue, Request, Route};
pub use run::Engine;
pub use settings::{
    DEFAULT_PER_NODE, DEFAULT_RETRIES, DEFAULT_TIMEOUT, DEFAULT_WINDOW, MAX_RETRIES, MAX_SMP_WINDOW,
    MAX_WINDOW, MIN_REPEAT, Settings,
};
pub use stats::{Stats, WIRE_BYTES, WIRE_OVERHEAD_BYTES};

use crate::transport::TransportError;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::Mad;

/// Target of the log line, at level debug, with which an engine says at its end what it cost.
pub const COST_TARGET: &str = "throughline_crawler::cost";
/// What a log filter has to have in addition to show it.
pub const COST_DIRECTIVE: &str = ",throughline_crawler::cost=debug";

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// A reply with status 0.
    Reply(&'a Mad),
    /// A reply with this status: the agent does not know the attribute or the value.
    Refused(u16),
    /// No answer within all attempts.
    Timeout,
    /// Not queried, because the node is silent.
    Silent,
    /// Not sent: the transport refused it.
    NotSent,
}

/// When a request ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// About the time of the reply.
    pub at: Instant,
    /// Since the MAD that was answered was sent: what the reply says is of some time in between. Zero where there is no reply.
    pub took: Duration,
}

/// Gets the outcomes and may queue more.
pub trait Work {
    /// One request ended.
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, ended: Ended);
}

/// A round was given up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The process is to stop.
    #[error("stopped")]
    Stopped,
    /// The transport does not work any more.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

#[cfg(test)]
mod tests;
