//! The local port, whichever way it is reached: libibumad on real hardware and ibsim, or the socket of a
//! simulated fabric. The one place where a transport is chosen; nothing here knows what a MAD says.

use crate::simulator::{NoSimulator, Simulator};
use crate::transport::sim::{SimError, SimPort};
use crate::transport::{Class, LocalPort, Transport};
use crate::umad::UmadPort;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How MADs get to the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// Through libibumad and the device files of a local adapter.
    #[default]
    Umad,
    /// Through the socket of a simulated fabric.
    Sim(PathBuf),
}

/// Prefix of [`TransportKind::Sim`] in text.
const SIM: &str = "sim:";

/// Text that names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no transport: expected `umad`, or `sim:` and the socket of a simulated fabric")]
pub struct NoTransport(String);

impl FromStr for TransportKind {
    type Err = NoTransport;

    fn from_str(text: &str) -> Result<TransportKind, NoTransport> {
        match text.strip_prefix(SIM) {
            Some(socket) if !socket.is_empty() => Ok(TransportKind::Sim(socket.into())),
            None if text == "umad" => Ok(TransportKind::Umad),
            _ => Err(NoTransport(text.to_owned())),
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportKind::Umad => f.write_str("umad"),
            TransportKind::Sim(socket) => write!(f, "{SIM}{}", socket.display()),
        }
    }
}

impl Serialize for TransportKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransportKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TransportKind, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A port could not be found or opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// By libibumad.
    #[error(transparent)]
    Umad(#[from] umad_sys::Error),
    /// By a simulated fabric.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// libumad2sim has no simulator.
    #[error(transparent)]
    NoSimulator(#[from] NoSimulator),
}

/// A local port, ready to open transports on it.
pub struct FabricPort(PortBackend);

enum PortBackend {
    Umad(UmadPort),
    Sim(SimPort),
}

impl FabricPort {
    /// Finds the local port: a device and port by name, or the first active one. In a simulated fabric the
    /// device is a node, by GUID, id or description.
    ///
    /// # Errors
    /// [`PortError`]: no library, no such device, nothing listens on the socket.
    pub fn find(via: &TransportKind, device: Option<&str>, port: u8) -> Result<FabricPort, PortError> {
        if let (TransportKind::Umad, Some(simulator)) = (via, Simulator::preloaded()) {
            simulator.wait()?;
        }
        Ok(FabricPort(match via {
            TransportKind::Umad => PortBackend::Umad(UmadPort::find(device, port)?),
            TransportKind::Sim(socket) => PortBackend::Sim(SimPort::find(socket, device, port)?),
        }))
    }

    /// The local port.
    #[must_use]
    pub fn local(&self) -> &LocalPort {
        match &self.0 {
            PortBackend::Umad(port) => port.local(),
            PortBackend::Sim(port) => port.local(),
        }
    }

    /// The local port as it is now: LIDs and state change with the subnet manager.
    ///
    /// # Errors
    /// [`PortError`] when the device or the simulated fabric is gone.
    pub fn refreshed(&self) -> Result<LocalPort, PortError> {
        Ok(match &self.0 {
            PortBackend::Umad(port) => port.refreshed()?,
            PortBackend::Sim(port) => port.refreshed()?,
        })
    }

    /// Opens the transport of one class. One of each class per process: see [`UmadPort::open`].
    ///
    /// # Errors
    /// [`PortError`]: no permission, the class is refused.
    pub fn open(&self, class: Class) -> Result<Box<dyn Transport>, PortError> {
        Ok(match &self.0 {
            PortBackend::Umad(port) => port.open(class)?,
            PortBackend::Sim(port) => port.open(class)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_named() {
        for text in ["umad", "sim:/run/fabric.sock"] {
            assert_eq!(text.parse::<TransportKind>().unwrap().to_string(), text);
        }
        for text in ["", "sim:", "verbs", "umad:x"] {
            assert!(
                text.parse::<TransportKind>().unwrap_err().to_string().contains("expected `umad`"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_socket_where_nothing_listens_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("none");
        let error = FabricPort::find(&TransportKind::Sim(socket.clone()), None, 0).err().unwrap().to_string();
        assert!(
            error.contains(&socket.display().to_string()) && error.contains("throughline-simfabric"),
            "{error}"
        );
    }
}
