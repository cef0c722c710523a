//! What carries MADs: the trait that the engine speaks to, so that a simulated fabric can stand in.
//!
//! A transport sends and receives single MADs of one management class and knows nothing of requests, retries
//! or deadlines; those are the engine's.

pub mod sim;
pub mod wire;

use crate::mad::Mad;
use std::time::{Duration, Instant};
use throughline_sample::Guid;

/// The management classes in use; one transport each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Directed-route subnet management, over queue pair 0 and VL15.
    Management,
    /// Performance management, over queue pair 1.
    Performance,
}

/// Where a MAD goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Along the directed route that the MAD itself holds.
    Directed,
    /// By local identifier.
    Lid {
        /// LID of the port.
        lid: u16,
        /// Service level.
        service_level: u8,
    },
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing within the wait.
    Nothing,
    /// A reply.
    Reply,
    /// The echo of a request that the layer below gave up (no answer in time, or not deliverable).
    GivenUp,
}

/// A transport failed: the operation and the reason in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Carries MADs of one class. Used by one thread at a time.
pub trait Transport: Send {
    /// Sends one request. The layer below may give it up after `timeout`.
    ///
    /// # Errors
    /// [`TransportError`]; nothing was sent then.
    fn send(&mut self, mad: &Mad, to: Destination, timeout: Duration) -> Result<(), TransportError>;

    /// Hands on what [`Transport::send`] has gathered. The engine calls it each time before it waits, so that a
    /// transport may write many MADs at once.
    ///
    /// # Errors
    /// [`TransportError`] when sending does not work any more; what was gathered is lost then.
    fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The time by which deadlines count: a simulated transport may have its own.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Takes one MAD into `mad`, waiting at most `wait`.
    ///
    /// # Errors
    /// [`TransportError`] when receiving does not work any more.
    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError>;
}

/// The local port through which the fabric is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPort {
    /// Adapter.
    pub device: String,
    /// Port number.
    pub port: u8,
    /// Port GUID.
    pub port_guid: Guid,
    /// Base LID; 0 before the subnet manager gave one.
    pub lid: u16,
    /// Service level to the subnet manager.
    pub service_level: u8,
    /// Subnet prefix.
    pub subnet_prefix: u64,
}
