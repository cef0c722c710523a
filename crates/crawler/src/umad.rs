//! The transport over libibumad: one descriptor for each management class of one local port.
//!
//! No `epoll`: the simulator's descriptors are none of the kernel's, so a thread waits in `umad_recv`.

use crate::transport::{Arrival, Class, Destination, LocalPort, Message, Transport, TransportError};
use std::sync::Arc;
use std::time::Duration;
use throughline_infiniband::mad::sa::{CLASS_ADMINISTRATION, CLASS_ADMINISTRATION_VERSION, METHOD_REPORT};
use throughline_infiniband::mad::{
    CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, CLASS_VERSION, Mad, PERMISSIVE_LID,
};
use throughline_sample::Guid;
use umad_sys::{Agent, Library, Peer, PortAttributes, ReceiveOutcome, Registration};

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
        Ok(UmadPort { library, local: local_port(found) })
    }

    /// The local port as it is now: LIDs and state change with the subnet manager. Some reads of small files;
    /// libumad2sim writes those once and never again.
    ///
    /// # Errors
    /// [`umad_sys::Error::NoDevice`] when the device is gone.
    pub fn refreshed(&self) -> Result<LocalPort, umad_sys::Error> {
        self.library.port(Some(&self.local.device), self.local.port).map(local_port)
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
        let open = |registration: &Registration<'_>| {
            self.library.open_agent(&self.local.device, self.local.port, registration)
        };
        let smp_or_gmp =
            |class| Registration { class, version: CLASS_VERSION, rmpp_version: 0, methods: &[] };
        let agent = match class {
            Class::Management => open(&smp_or_gmp(CLASS_SMP_DIRECTED))?,
            Class::Performance => open(&smp_or_gmp(CLASS_PERFORMANCE))?,
            Class::Administration => {
                let registration = Registration {
                    class: CLASS_ADMINISTRATION,
                    version: CLASS_ADMINISTRATION_VERSION,
                    rmpp_version: RMPP_VERSION,
                    methods: &[METHOD_REPORT],
                };
                match open(&registration) {
                    // One program per port may take Reports; without them, everything else still works.
                    Err(umad_sys::Error::Register { cause, .. }) => {
                        tracing::warn!(%cause, "another program takes the subnet's Reports on this port (srp_daemon does): traps won't be seen");
                        open(&Registration { methods: &[], ..registration })?
                    }
                    other => other?,
                }
            }
        };
        Ok(Box::new(UmadTransport { agent }))
    }
}

/// RMPP version 1 is the only one (IBTA volume 1, 13.6.2).
const RMPP_VERSION: u8 = 1;

fn local_port(found: PortAttributes) -> LocalPort {
    LocalPort {
        device: found.ca_name,
        port: found.port,
        port_guid: Guid(found.port_guid),
        lid: found.lid,
        sm_lid: found.sm_lid,
        service_level: found.sm_sl,
        state: u8::try_from(found.state).unwrap_or(0),
        subnet_prefix: found.subnet_prefix,
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
            // The partition is that of index 0, which every port is in; another one has not been seen.
            Destination::Agent(agent) => Peer {
                lid: agent.lid,
                queue_pair: agent.queue_pair,
                queue_key: agent.queue_key,
                service_level: agent.service_level,
            },
        };
        self.agent.send(mad, &peer, timeout).map_err(|error| TransportError(error.to_string()))
    }

    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError> {
        let received = self.agent.recv(mad, wait).map_err(|error| TransportError(error.to_string()))?;
        Ok(arrival(received))
    }

    fn receive_message(&mut self, message: &mut Message, wait: Duration) -> Result<Arrival, TransportError> {
        let received = self.agent.recv_message(&mut message.bytes, wait);
        let (received, from) = received.map_err(|error| TransportError(error.to_string()))?;
        (message.from_lid, message.from_service_level) = (from.lid, from.service_level);
        Ok(arrival(received))
    }
}

fn arrival(received: ReceiveOutcome) -> Arrival {
    match received {
        ReceiveOutcome::Nothing => Arrival::Nothing,
        ReceiveOutcome::Mad { status: 0 } => Arrival::Reply,
        ReceiveOutcome::Mad { .. } => Arrival::GivenUp,
    }
}
