//! The transport over libibumad: one descriptor for each management class of one local port.
//!
//! No `epoll`: the simulator's descriptors are none of the kernel's, so a thread waits in `umad_recv`.

use crate::mad::{CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, CLASS_VERSION, Mad, PERMISSIVE_LID};
use crate::transport::{Arrival, Class, Destination, LocalPort, Transport, TransportError};
use std::sync::Arc;
use std::time::Duration;
use throughline_sample::Guid;
use umad_sys::{Agent, Library, Peer, Received};

/// The well-known queue key of queue pair 1 (IBTA volume 1, 10.2.5).
const QP1_KEY: u32 = 0x8001_0000;

/// Link layer of a port that has no subnet management.
const ETHERNET: &str = "Ethernet";

/// A local port, ready to open transports on it.
pub struct UmadPort {
    library: Arc<Library>,
    local: LocalPort,
}

impl UmadPort {
    /// Finds the local port: a device and port by name, or the first active one.
    ///
    /// # Errors
    /// [`umad_sys::Error`]: no library, no such device.
    pub fn find(device: Option<&str>, port: u8) -> Result<UmadPort, umad_sys::Error> {
        let library = Library::open()?;
        let found = library.port(device, port)?;
        if found.link_layer == ETHERNET {
            let what = format!("{} port {}", found.ca_name, found.port);
            let cause = std::io::Error::other("its link layer is Ethernet, and MADs need an InfiniBand port");
            return Err(umad_sys::Error::NoDevice { what, cause });
        }
        let local = LocalPort {
            device: found.ca_name,
            port: found.port,
            port_guid: Guid(found.port_guid),
            lid: found.lid,
            service_level: found.sm_sl,
            subnet_prefix: found.subnet_prefix,
        };
        Ok(UmadPort { library, local })
    }

    /// The local port.
    #[must_use]
    pub fn local(&self) -> &LocalPort {
        &self.local
    }

    /// Opens the transport of one class. One of each class per process: with libumad2sim a second descriptor
    /// of the same class takes the first one's replies.
    ///
    /// # Errors
    /// [`umad_sys::Error`]: no permission, the class is refused.
    pub fn open(&self, class: Class) -> Result<Box<dyn Transport>, umad_sys::Error> {
        let number = match class {
            Class::Management => CLASS_SMP_DIRECTED,
            Class::Performance => CLASS_PERFORMANCE,
        };
        let agent = self.library.open_agent(&self.local.device, self.local.port, number, CLASS_VERSION)?;
        Ok(Box::new(UmadTransport { agent }))
    }
}

struct UmadTransport {
    agent: Agent,
}

impl Transport for UmadTransport {
    fn send(&mut self, mad: &Mad, to: Destination, timeout: Duration) -> Result<(), TransportError> {
        let peer = match to {
            Destination::Directed => Peer { lid: PERMISSIVE_LID, ..Peer::default() },
            Destination::Lid { lid, service_level } => {
                Peer { lid, queue_pair: 1, queue_key: QP1_KEY, service_level }
            }
        };
        self.agent.send(mad, &peer, timeout).map_err(|error| TransportError(error.to_string()))
    }

    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError> {
        match self.agent.recv(mad, wait) {
            Ok(Received::Nothing) => Ok(Arrival::Nothing),
            Ok(Received::Mad { status: 0 }) => Ok(Arrival::Reply),
            Ok(Received::Mad { .. }) => Ok(Arrival::GivenUp),
            Err(error) => Err(TransportError(error.to_string())),
        }
    }
}
