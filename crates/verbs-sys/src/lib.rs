//! What libibverbs reports of a local port without a request: its asynchronous events.
//!
//! The bindings are rdma-sys's, and only there with the feature `rdma`, because building them needs the headers
//! of rdma-core and libclang. Without it every watch says that it is not built in. Nothing here sends anything.
#![allow(unsafe_code)] // Foreign functions; each block has its reason.

#[cfg(feature = "rdma")]
mod watch;

#[cfg(feature = "rdma")]
pub use watch::Watch;

/// An asynchronous event of a port (`enum ibv_event_type` of infiniband/verbs.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The link became active.
    Active,
    /// The link is not available any more.
    Error,
    /// The port has another LID.
    LidChange,
    /// The partition table changed.
    PKeyChange,
    /// Another subnet manager is master.
    SmChange,
    /// The subnet manager wants all clients to register again: it begins anew.
    ClientReregister,
    /// The GID table changed.
    GidChange,
}

impl PortEvent {
    /// The event with a number of `enum ibv_event_type`; `None` for those that are not about a port.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<PortEvent> {
        match number {
            9 => Some(PortEvent::Active),
            10 => Some(PortEvent::Error),
            11 => Some(PortEvent::LidChange),
            12 => Some(PortEvent::PKeyChange),
            13 => Some(PortEvent::SmChange),
            17 => Some(PortEvent::ClientReregister),
            18 => Some(PortEvent::GidChange),
            _ => None,
        }
    }

    /// What happened, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            PortEvent::Active => "active",
            PortEvent::Error => "no longer active",
            PortEvent::LidChange => "another LID",
            PortEvent::PKeyChange => "other partitions",
            PortEvent::SmChange => "another subnet manager",
            PortEvent::ClientReregister => "to register again",
            PortEvent::GidChange => "other GIDs",
        }
    }
}

/// A device can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such device.
    #[error(
        "verbs know no device {device} (they know: {known}); `ibv_devices` shows them, and the kernel module ib_uverbs must be loaded"
    )]
    NoDevice {
        /// What was requested.
        device: String,
        /// Devices there are, by name.
        known: String,
    },
    /// A call failed.
    #[error("{call} failed on {device}: {cause}")]
    Call {
        /// The function.
        call: &'static str,
        /// The device.
        device: String,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// The feature is off.
    #[error("verbs are not built in: build throughline-fabric with `--features verbs`")]
    NotBuilt,
}

/// Without the feature nothing can be watched.
#[cfg(not(feature = "rdma"))]
pub struct Watch(std::convert::Infallible);

#[cfg(not(feature = "rdma"))]
impl Watch {
    /// Never opens.
    ///
    /// # Errors
    /// [`Error::NotBuilt`].
    pub fn open(_device: &str, _port: u8) -> Result<Watch, Error> {
        Err(Error::NotBuilt)
    }

    /// There is no watch to call this on.
    ///
    /// # Errors
    /// None.
    pub fn next(&mut self, _wait: std::time::Duration) -> Result<Option<PortEvent>, Error> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_queues_are_none_of_a_port() {
        let known = (0..32).filter_map(PortEvent::from_number).count();
        assert_eq!(known, 7);
        assert_eq!(PortEvent::from_number(1), None, "a queue pair's error");
        assert_eq!(PortEvent::from_number(17).unwrap().text(), "to register again");
    }

    #[test]
    fn a_machine_without_the_device_gets_a_clear_message() {
        let error = Watch::open("mlx5_77", 1).err().unwrap().to_string();
        let expected = if cfg!(feature = "rdma") { "mlx5_77" } else { "--features verbs" };
        assert!(error.contains(expected), "{error}");
    }
}
