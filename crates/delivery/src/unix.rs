//! The way to a collector on the same machine: its Unix socket, and whose it is.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use throughline_daemon::peer::user_of_unix;
use tokio::net::UnixStream;
use tonic::transport::Uri;
use tower::Service;

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// Connects to this socket, whatever the URL.
pub(crate) fn connector(
    path: &Path,
) -> impl Service<Uri, Response = TokioIo<UnixStream>, Error = Error, Future: Send> + Send + 'static {
    let path = path.to_owned();
    tower::service_fn(move |_: Uri| connect(path.clone()))
}

async fn connect(path: PathBuf) -> Result<TokioIo<UnixStream>, Error> {
    let explain = |error: Error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "does `throughline serve` run on this machine with the same run folder? else set delivery.collector"
            }
            _ => "see delivery.collector",
        };
        Error::new(error.kind(), format!("socket {}: {error}; {remedy}", path.display()))
    };
    let stream = UnixStream::connect(&path).await.map_err(explain)?;
    is_trusted(&path, user_of_unix(&stream)).map_err(explain)?;
    Ok(TokioIo::new(stream))
}

/// Nobody else than root, this user, or the owner of a folder that only he writes to may take our records.
fn is_trusted(path: &Path, server: Option<u32>) -> Result<(), Error> {
    if server.is_some_and(|uid| uid == 0 || uid == nix::unistd::geteuid().as_raw()) {
        return Ok(());
    }
    let folder = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    if Some(folder.uid()) == server && folder.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let server = server.map_or_else(|| "nobody we know".to_owned(), |uid| format!("user {uid}"));
    Err(Error::new(
        ErrorKind::PermissionDenied,
        format!("it is {server}'s, who may not write to its folder alone"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_of_somebody_else_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("collect.sock");
        let mode = |mode| {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let own = nix::unistd::geteuid().as_raw();
        mode(0o1777);
        assert!(is_trusted(&path, Some(own)).is_ok() && is_trusted(&path, Some(0)).is_ok());
        assert!(is_trusted(&path, Some(own + 4242)).unwrap_err().to_string().contains("user"));
        assert!(is_trusted(&path, None).is_err());
        if own != 0 {
            return; // Only root gives a folder away.
        }
        std::os::unix::fs::chown(folder.path(), Some(4242), None).unwrap();
        assert!(is_trusted(&path, Some(4242)).is_err(), "others may write, too");
        mode(0o755);
        assert!(is_trusted(&path, Some(4242)).is_ok());
    }
}
