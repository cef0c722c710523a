//! The Unix socket on which processes of this machine deliver. Everybody may connect; the kernel says who it is.

use std::fs::{self, File, Permissions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use throughline_daemon::{Failure, paths};
use tokio::net::UnixListener;

/// How often a server tries to take over the socket of another one on this machine.
const TAKE_OVER_INTERVAL: Duration = Duration::from_secs(1);

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Where the Unix socket lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was configured: then a server that can't have it does not start.
    pub is_required: bool,
}

/// Says that the socket's server lives, and removes the socket when dropped.
pub(crate) struct Mark {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Makes the socket. `None` while another server has it.
    fn bind(&self) -> Result<Option<(UnixListener, Mark)>, Failure> {
        let path = &self.path;
        paths::check_socket_path(path)?;
        let remedy = "see collect.socket in server.toml; \"\" is none";
        let failed = |error: Error| Failure::from_io(format!("socket {}", path.display()), &error, remedy);
        let folder = path.parent().unwrap_or(Path::new("/"));
        paths::create_dir(folder)?;
        only_ours(folder).map_err(|error| {
            Failure::from_io(format!("folder {} of the socket", folder.display()), &error, remedy)
        })?;
        let mut name = path.clone().into_os_string();
        name.push(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&name)
            .map_err(failed)?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        // The one who left it there is gone: the lock is ours.
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let mark = Mark { path: path.clone(), _lock: lock };
        // Who may write is decided by the kernel's credentials, so that a refusal has a message.
        fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed)?;
        Ok(Some((listener, mark)))
    }

    /// Takes the socket, or waits until the server that has it ends. `None` where it can't be had and is not required.
    ///
    /// # Errors
    /// It can't be had and is required.
    pub(crate) async fn take(&self) -> Result<Option<(UnixListener, Mark)>, Failure> {
        let mut waits = false;
        loop {
            match self.bind() {
                Ok(Some((listener, mark))) => {
                    let mut out = std::io::stdout().lock();
                    // A closed standard output does not stop a daemon.
                    let line = writeln!(out, "listening collect=unix:{}", self.path.display());
                    let _ = line.and_then(|()| out.flush());
                    return Ok(Some((listener, mark)));
                }
                Ok(None) => {
                    if !waits {
                        tracing::info!(socket = %self.path.display(), "another server has this socket");
                    }
                    waits = true;
                    tokio::time::sleep(TAKE_OVER_INTERVAL).await;
                }
                Err(failure) if self.is_required => return Err(failure),
                Err(failure) => {
                    tracing::warn!("{failure}; processes of this machine deliver over TCP only");
                    return Ok(None);
                }
            }
        }
    }
}

/// Takes care that nobody else can put a socket of his own into the folder.
fn only_ours(folder: &Path) -> std::io::Result<()> {
    let facts = fs::metadata(folder)?;
    let mode = facts.permissions().mode();
    if mode & OTHERS_WRITE == 0 || mode & STICKY != 0 {
        return Ok(());
    }
    if facts.uid() == nix::unistd::geteuid().as_raw() {
        return fs::set_permissions(folder, Permissions::from_mode(mode & 0o7777 & !OTHERS_WRITE));
    }
    Err(Error::new(ErrorKind::PermissionDenied, "other users may write to it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(folder: &Path) -> Socket {
        Socket { path: folder.join("run/collect.sock"), is_required: true }
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(folder.path());
        fs::create_dir(folder.path().join("run")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket.path).unwrap());
        assert!(socket.path.exists(), "left behind");
        let (first, mark) = socket.bind().unwrap().unwrap();
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o666);
        assert!(socket.bind().unwrap().is_none());
        drop((first, mark));
        assert!(!socket.path.exists());
        assert!(socket.bind().unwrap().is_some());
    }

    #[tokio::test]
    async fn a_folder_that_others_may_write_to_is_closed_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, Permissions::from_mode(0o777)).unwrap();
        drop(socket(folder.path()).bind().unwrap().unwrap());
        assert_eq!(fs::metadata(&run).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
