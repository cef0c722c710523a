//! The listening socket: where it lies, who may connect, what happens to the one of a dead predecessor.
#![allow(unsafe_code)] // tokio demands a promise about the descriptor that it watches, which its owner gives

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect,
    listen, recvmsg, setsockopt, socket, sockopt,
};
use socket2::SockRef;
use std::fs::Permissions;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::io::unix::AsyncFd;

/// Longest path of a Unix socket: `sun_path` has 108 bytes with its terminating zero (unix(7)).
const PATH_BYTES: usize = 107;
/// Connections that wait to be accepted: all ranks of a large node start at the same moment.
const BACKLOG: i32 = 1024;

/// The socket can't be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The kernel takes no such path.
    #[error("MPI socket {} has {} bytes, and the kernel takes at most {PATH_BYTES}: choose a shorter folder", .0.display(), .0.as_os_str().len())]
    TooLong(PathBuf),
    /// Something else listens there.
    #[error("MPI socket {} is in use: another agent listens there; stop it or choose another path", .0.display())]
    InUse(PathBuf),
    /// There is a file that is not a socket.
    #[error("MPI socket {}: a file that is no socket lies there; move it away or choose another path", .0.display())]
    NoSocket(PathBuf),
    /// The system refused.
    #[error("MPI socket {}: cannot {action}: {source}; check the folder and its permissions", .path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What it answered.
        source: std::io::Error,
    },
}

/// A bound socket; its file is removed with it.
#[derive(Debug)]
pub(crate) struct Listening {
    pub socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file made: another agent's is left alone.
    file: Option<(u64, u64)>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            // The next agent finds a stale socket and replaces it, if this fails.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

fn new_socket(path: &Path) -> Result<OwnedFd, BindError> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
        .map_err(|error| system(path, "make it", error))
}

fn system(path: &Path, action: &'static str, error: impl Into<std::io::Error>) -> BindError {
    BindError::System { path: path.to_owned(), action, source: error.into() }
}

/// Listens at `path`; `mode` is the file's, and who may write to it may connect.
pub(crate) fn listen_at(path: &Path, mode: u32) -> Result<Listening, BindError> {
    if path.as_os_str().len() > PATH_BYTES {
        return Err(BindError::TooLong(path.to_owned()));
    }
    // Only a path with a zero byte or too long a one is refused; both are named by this error.
    let address = UnixAddr::new(path).map_err(|error| system(path, "use the path", error))?;
    remove_stale(path, &address)?;
    let descriptor = new_socket(path)?;
    bind(descriptor.as_raw_fd(), &address).map_err(|error| system(path, "bind", error))?;
    let listening = Listening { socket: descriptor, path: path.to_owned(), file: identity(path) };
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| system(path, "set its mode", error))?;
    let backlog = Backlog::new(BACKLOG).map_err(|error| system(path, "listen", error))?;
    // The sender comes with each message, from the first on, which may come before the connection is taken.
    setsockopt(&listening.socket, sockopt::PassCred, &true)
        .map_err(|error| system(path, "enable the sender's identity", error))?;
    listen(&listening.socket, backlog).map_err(|error| system(path, "listen", error))?;
    Ok(listening)
}

/// Removes the socket of an agent that was killed. One that still answers is not touched.
fn remove_stale(path: &Path, address: &UnixAddr) -> Result<(), BindError> {
    let Ok(data) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !data.file_type().is_socket() {
        return Err(BindError::NoSocket(path.to_owned()));
    }
    let probe = new_socket(path)?;
    match connect(probe.as_raw_fd(), address) {
        // EAGAIN: its queue of waiting connections is full. EPROTOTYPE: someone listens with another type.
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EPROTOTYPE) => {
            Err(BindError::InUse(path.to_owned()))
        }
        Err(Errno::ECONNREFUSED) => {
            std::fs::remove_file(path).map_err(|error| system(path, "remove the stale one", error))
        }
        Err(error) => Err(system(path, "see whether another agent listens", error)),
    }
}

/// Has tokio watch a descriptor.
pub(crate) fn watch(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open for as long as it lives, always gives the same number, and the AsyncFd, which
    // owns it, hands out shared references only.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Takes one waiting connection.
pub(crate) fn accept(listening: &OwnedFd) -> std::io::Result<OwnedFd> {
    let (accepted, _) = SockRef::from(listening).accept()?;
    accepted.set_nonblocking(true)?;
    setsockopt(&accepted, sockopt::PassCred, &true)?;
    Ok(accepted.into())
}

/// No process: the kernel's ids end at 2^22.
const STRANGER: u32 = u32::MAX;

/// A message that was read: it lies in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedMessage {
    /// Its length; it may exceed the buffer's, and then it was cut. 0 is the end.
    pub length: usize,
    /// The process that sent it, not always the one that connected: a forked child has the descriptor, too. `None`
    /// if it is in no PID namespace that is observed from here.
    pub sender: Option<u32>,
}

/// Reads one message.
///
/// A rank that ends without having read the agent's answer resets the connection. The kernel reports that once,
/// before what the rank had sent: its last words must not be taken for lost.
pub(crate) fn receive(
    connection: &OwnedFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> std::io::Result<ReceivedMessage> {
    let mut read = || {
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC | MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(connection.as_raw_fd(), &mut parts, Some(control), flags)?;
        // No shim sends control data of its own; where somebody does, it does not fit and is dropped.
        let sender = match message.cmsgs() {
            Ok(mut controls) => controls.find_map(|control| match control {
                ControlMessageOwned::ScmCredentials(sender) => u32::try_from(sender.pid()).ok(),
                _ => None,
            }),
            Err(_) => Some(STRANGER),
        };
        Ok(ReceivedMessage { length: message.bytes, sender: sender.filter(|pid| *pid > 0) })
    };
    match read() {
        Err(Errno::ECONNRESET) => Ok(read()?),
        other => Ok(other?),
    }
}

/// Lets the peer send no more; what it has sent can still be read.
pub(crate) fn refuse_more(connection: &OwnedFd) {
    // Fails only if the peer has gone already.
    let _ = nix::sys::socket::shutdown(connection.as_raw_fd(), nix::sys::socket::Shutdown::Read);
}

/// Sends one message, or fails at once.
pub(crate) fn send(connection: &OwnedFd, message: &[u8]) -> std::io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(nix::sys::socket::send(connection.as_raw_fd(), message, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_sockets_are_replaced_and_live_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mpi.sock");
        let first = listen_at(&path, 0o666).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let error = listen_at(&path, 0o666).unwrap_err().to_string();
        assert!(error.contains("in use") && error.contains("mpi.sock"), "{error}");

        // What a killed agent leaves: the file without a listener.
        let copy = folder.path().join("old.sock");
        std::fs::rename(&path, &copy).unwrap();
        drop(first);
        assert!(copy.exists(), "only its own path is removed");
        let second = listen_at(&copy, 0o600).unwrap();
        drop(second);
        assert!(!copy.exists());
    }

    #[test]
    fn clear_errors() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        assert!(listen_at(&long, 0o666).unwrap_err().to_string().contains("at most 107"));
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(listen_at(&file, 0o666).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        let nowhere = folder.path().join("no/folder.sock");
        assert!(listen_at(&nowhere, 0o666).unwrap_err().to_string().contains("cannot bind"));
    }
}
