//! A simulated InfiniBand fabric: agents with latency, faults and traffic, behind a Unix socket.
//!
//! It shows what ibsim can't: round trips and service times, loss, dead nodes, late and duplicate replies,
//! 64-bit error counters, redirection, M_Key protection, counters that advance by a traffic matrix. Attributes
//! are written from the specification's tables, not by the crawler's decoders, so the two do not share mistakes.
//! It is for tests and benches only; nothing of Throughline that runs on a site depends on it.
//!
//! net file → [`Scenario`] → model and subnet manager → world (time, faults, counters) → server (socket).
//!
//! As a process: `throughline-simfabric --help`. In a test, in a thread of its own:
//!
//! ```ignore
//! use throughline_simfabric::{Scenario, SimFabric, fat_tree};
//! use throughline_crawler::port::FabricPort;
//!
//! let scenario = Scenario::new(fat_tree(146)?).with("latency 50us").with("loss 0.01");
//! let fabric = SimFabric::start(&scenario)?;
//! fabric.control("dead \"node0007 mlx5_0\"\nlink leaf001 3 down")?;
//! let port = FabricPort::find(&fabric.via(), None, 0)?;
//! assert_eq!(port.local().lid, 1);
//! // Programs: throughline-fabric discover --transport sim:SOCKET, SOCKET being fabric.socket().
//! ```

mod bits;
mod commands;
mod control;
mod counters;
mod forwarding;
pub mod ibsim;
mod liar;
mod manager;
mod model;
mod multicast;
mod net;
mod notices;
mod parser;
mod plan;
mod pma;
mod sa;
mod scenario;
mod server;
mod shapes;
mod smp;
mod traffic;
mod world;

pub use commands::HELP;
pub use control::{ControlError, control};
pub use scenario::{Scenario, ScenarioError, fat_tree};
pub use shapes::{back_to_back, torus};

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use throughline_crawler::port::TransportKind;

/// Longest path of a Unix socket (sockaddr_un has 108 bytes with the closing NUL).
const MAX_SOCKET_PATH: usize = 107;

/// A simulated fabric could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The scenario can't be played.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The socket can't be made.
    #[error("socket {socket}: {cause}; choose another path with --socket")]
    Socket {
        /// The path.
        socket: String,
        /// The reason.
        cause: std::io::Error,
    },
    /// The thread or its folder.
    #[error("starting a simulated fabric: {0}")]
    Io(#[from] std::io::Error),
}

/// Plays a scenario at a socket until `stop` can be read; calls `ready` once clients can connect. The socket is
/// removed at the end.
///
/// # Errors
/// [`StartError`].
pub fn serve(
    scenario: &Scenario,
    socket: &Path,
    stop: BorrowedFd<'_>,
    ready: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), StartError> {
    let world = scenario.build()?;
    let listener = listen(socket)?;
    let ended = ready().and_then(|()| server::Server::new(listener, world)?.run(stop));
    // Somebody else may have removed it; then there is nothing to do.
    let _ = std::fs::remove_file(socket);
    Ok(ended?)
}

/// Binds the socket; one that a killed process left behind is taken over.
fn listen(socket: &Path) -> Result<UnixListener, StartError> {
    let fail = |cause| StartError::Socket { socket: socket.display().to_string(), cause };
    if socket.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(fail(std::io::Error::other(format!("its path is longer than {MAX_SOCKET_PATH} bytes"))));
    }
    match UnixListener::bind(socket) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if UnixStream::connect(socket).is_ok() {
                return Err(fail(std::io::Error::other("another simulated fabric listens there")));
            }
            std::fs::remove_file(socket).map_err(fail)?;
            UnixListener::bind(socket).map_err(fail)
        }
        bound => bound.map_err(fail),
    }
}

/// A simulated fabric in a thread of this process, with a socket in a folder of its own; dropped, it ends.
pub struct SimFabric {
    socket: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl SimFabric {
    /// Starts it; clients can connect at once.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(scenario: &Scenario) -> Result<SimFabric, StartError> {
        let world = scenario.build()?;
        let folder = tempfile::Builder::new().prefix("simfabric-").tempdir()?;
        let socket = folder.path().join("fabric.sock");
        let server = server::Server::new(listen(&socket)?, world)?;
        let (stop, reported) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().name("simfabric".to_owned()).spawn(move || {
            if let Err(error) = server.run(reported.as_fd()) {
                tracing::error!(%error, "the simulated fabric broke off");
            }
        })?;
        Ok(SimFabric { socket, stop: Some(stop), thread: Some(thread), _folder: folder })
    }

    /// Where clients connect.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The transport to it, for [`FabricPort::find`](throughline_crawler::port::FabricPort::find); printed, for
    /// `--transport`.
    #[must_use]
    pub fn via(&self) -> TransportKind {
        TransportKind::Sim(self.socket.clone())
    }

    /// Runs commands, one a line; what they said.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn control(&self, commands: &str) -> Result<String, ControlError> {
        control(&self.socket, commands)
    }
}

impl Drop for SimFabric {
    fn drop(&mut self) {
        // Closing our end can be read as an end of file at the other.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The log has the error if it broke off.
            let _ = thread.join();
        }
    }
}
