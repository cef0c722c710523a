//! Whether libumad2sim is loaded in place of the kernel's devices, and whether its simulator can be reached.
//!
//! libumad2sim attaches once in the life of a process, when a device is first looked for, and waits for ever for a
//! simulator that is not there: one that was never started, or one in another network namespace (abstract sockets
//! belong to one). So it is queried here first. And it never attaches again: when the simulator was restarted, only a
//! new process image can.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How long a simulator that is being started is waited for.
const WAIT: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// Name of the simulator's sockets where the environment has none.
const DEFAULT_NAME: &str = "sim";

/// The simulator does not answer.
#[derive(Debug, thiserror::Error)]
#[error(
    "libumad2sim is preloaded, and no simulator listens at the abstract socket `{name}:ctl` of this network namespace: \
     {cause}; start ibsim here, set IBSIM_SOCKNAME to its name, or remove LD_PRELOAD for a real adapter"
)]
pub struct NoSimulator {
    name: String,
    cause: std::io::Error,
}

/// The simulator that libumad2sim attaches to.
#[derive(Clone, Debug)]
pub struct Simulator {
    name: String,
}

impl Simulator {
    /// The one that this process would use; `None` where libumad2sim is not preloaded, or speaks UDP.
    #[must_use]
    pub fn preloaded() -> Option<Simulator> {
        let text = |name| std::env::var(name).unwrap_or_default();
        let is_local = text("IBSIM_SERVER_NAME").is_empty();
        let name = std::env::var("IBSIM_SOCKNAME").unwrap_or_else(|_| DEFAULT_NAME.to_owned());
        (text("LD_PRELOAD").contains("libumad2sim") && is_local).then_some(Simulator { name })
    }

    /// Whether it listens now.
    ///
    /// # Errors
    /// [`NoSimulator`].
    pub fn probe(&self) -> Result<(), NoSimulator> {
        // With the NUL that ibsim counts to the name.
        let address = SocketAddr::from_abstract_name(format!("{}:ctl\0", self.name));
        let probed = address.and_then(|address| UnixDatagram::unbound()?.connect_addr(&address));
        probed.map_err(|cause| NoSimulator { name: self.name.clone(), cause })
    }

    /// Waits until it listens, for a bounded time.
    ///
    /// # Errors
    /// [`NoSimulator`].
    pub fn wait(&self) -> Result<(), NoSimulator> {
        let start = Instant::now();
        loop {
            match self.probe() {
                Err(_) if start.elapsed() < WAIT => std::thread::sleep(PAUSE),
                answer => return answer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulator_is_found_by_its_name() {
        let simulator = Simulator { name: format!("throughline-test-{}", std::process::id()) };
        let error = simulator.probe().unwrap_err().to_string();
        assert!(error.contains(&simulator.name) && error.contains("network namespace"), "{error}");
        let address = SocketAddr::from_abstract_name(format!("{}:ctl\0", simulator.name)).unwrap();
        let _listens = UnixDatagram::bind_addr(&address).unwrap();
        simulator.wait().unwrap();
    }
}
