//! What carries MADs: the trait that the engine speaks to, so that a simulated fabric can replace the real one.
//!
//! A transport sends and receives single MADs of one management class and knows nothing of requests, retries
//! or deadlines; those are the engine's.
//!
//! # Long messages
//! Only subnet administration has them: an answer to GetTable is sent in segments (RMPP, IBTA volume 1, 13.6).
//! Putting them together is the business of the layer below: the kernel does it for an agent that registered
//! with RMPP version 1. Such a transport has [`Transport::receive_message`] hand over the whole message: the
//! first segment's 56 bytes of headers (common 24, RMPP 12, SA 20) with a segment number of 1 or more, then the
//! data of all segments without anything between them, and the length is exact (a last record is not filled
//! up). A simulated transport does the same in one frame. A layer that hands over single segments of 256 bytes
//! needs nothing more than [`Transport::receive`]: `sa::Client` then does RMPP itself. libumad2sim is neither:
//! it cuts each message after 256 bytes and leaves the segment number 0, by which it is known.

mod on_the_way;
pub mod sim;
pub mod wire;

use std::time::{Duration, Instant};
use throughline_infiniband::mad::{MAD_BYTES, Mad, Redirection};
use throughline_sample::Guid;

/// The management classes in use; one transport each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Directed-route subnet management, over queue pair 0 and VL15.
    Management,
    /// Performance management, over queue pair 1.
    Performance,
    /// Subnet administration, over queue pair 1 to the subnet manager's LID. Its transport also delivers the
    /// Reports that the administrator sends to subscribers.
    Administration,
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
    /// To an agent that redirected its class elsewhere.
    Agent(Redirection),
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

/// A whole message and who sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Headers and data; see the module's documentation.
    pub bytes: Vec<u8>,
    /// LID of the sender; 0 where the transport does not know.
    pub from_lid: u16,
    /// Service level that it came by.
    pub from_service_level: u8,
}

/// A transport failed: the operation and the reason in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Carries MADs of one class. Used by one thread at a time.
pub trait Transport: Send {
    /// Sends one request. The layer below may give it up after `timeout`. A MAD that expects no answer has a
    /// timeout of zero.
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

    /// Takes one message of any length, waiting at most `wait`. By default it is one MAD of unknown origin.
    ///
    /// # Errors
    /// As [`Transport::receive`].
    fn receive_message(&mut self, message: &mut Message, wait: Duration) -> Result<Arrival, TransportError> {
        let mut mad = [0; MAD_BYTES];
        let arrival = self.receive(&mut mad, wait)?;
        message.bytes.clear();
        message.bytes.extend_from_slice(&mad);
        (message.from_lid, message.from_service_level) = (0, 0);
        Ok(arrival)
    }
}

/// The local port through which the fabric is queried.
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
    /// LID of the subnet manager; 0 where there was none yet. It can change: see `UmadPort::refreshed`.
    pub sm_lid: u16,
    /// Service level to the subnet manager.
    pub service_level: u8,
    /// Logical state: 1 down, 2 initialize, 3 armed, 4 active; 0 where it is not known.
    pub state: u8,
    /// Subnet prefix.
    pub subnet_prefix: u64,
}
