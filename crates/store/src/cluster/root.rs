//! What root does for the cluster, and how it stops being root.
//!
//! The cluster's folder belongs to a user who may put links into it at any time. Root must therefore neither
//! write, chown nor run anything in it: programs become that user for good ([`leave`]), and a caller that stays
//! root (a test) does its work on a thread whose file accesses are that user's ([`with_files_of`]).

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{self, Uid};
use throughline_prefix::Prefix;

use super::STATE_REMEDY;
use super::folder::ServerUser;
use crate::error::Error;

/// What a folder above the cluster's is made with: the server may be another user.
const PARENT_MODE: u32 = 0o755;

/// Becomes the user, with that user's groups, for the rest of this process.
pub(super) fn leave(user: &ServerUser) -> Result<(), Error> {
    // Where root's prefix is must be known before it looks like another user's.
    let _ = Prefix::locate();
    let name = std::ffi::CString::new(user.name.as_str()).unwrap_or_default();
    unistd::initgroups(&name, user.gid)
        .and_then(|()| unistd::setgid(user.gid))
        .and_then(|()| unistd::setuid(user.uid))
        .map_err(|errno| Error::Permission {
            what: format!("becoming user {} to use the database's folder", user.name),
            cause: errno.to_string(),
        })?;
    // Nothing that follows may depend on this having worked unobserved.
    if unistd::geteuid() != user.uid || unistd::setuid(Uid::from_raw(0)).is_ok() {
        return Err(Error::Permission {
            what: format!("becoming user {}", user.name),
            cause: "the system left this process the rights of root".to_owned(),
        });
    }
    tracing::info!(user = user.name, "no longer root: the database's folder is used as its owner");
    Ok(())
}

/// Does `work` on a thread of its own whose file accesses are those of the server's user (credentials(7),
/// `setfsuid`). Where the caller is that user already, `work` is just done.
pub(super) fn with_files_of<T: Send>(user: &ServerUser, work: impl FnOnce() -> T + Send) -> T {
    if !user.differs {
        return work();
    }
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unistd::setfsgid(user.gid);
            unistd::setfsuid(user.uid);
            work()
        });
        thread.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether nobody but root can put anything at this path: the folders that are there are root's, and only root
/// writes into them, or they are sticky like /tmp.
pub(super) fn is_roots_alone(path: &Path) -> bool {
    let Some(there) = path.ancestors().find_map(|path| fs::canonicalize(path).ok()) else { return false };
    there.ancestors().all(|path| {
        fs::metadata(path)
            .is_ok_and(|data| data.uid() == 0 && (data.mode() & 0o022 == 0 || data.mode() & 0o1000 != 0))
    })
}

/// Makes a folder and those above unless it is there: as root for the user where only root writes, else as the user.
pub(super) fn make_folder(path: &Path, user: &ServerUser, mode: u32) -> Result<(), Error> {
    let is_empty_of_root = || {
        user.differs
            && fs::symlink_metadata(path).is_ok_and(|data| data.is_dir() && data.uid() == 0)
            && fs::read_dir(path).is_ok_and(|mut files| files.next().is_none())
    };
    if path.exists() && !is_empty_of_root() {
        return Ok(());
    }
    if user.differs && is_roots_alone(path) {
        make(path, mode)?;
        return give(path, user, mode);
    }
    with_files_of(user, || make(path, mode))
}

/// `mkdir -p`, with modes that do not depend on the umask.
fn make(path: &Path, mode: u32) -> Result<(), Error> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path).map_err(Error::io("make the folder", path, STATE_REMEDY))?;
    for (level, path) in missing.into_iter().enumerate() {
        let mode = if level == 0 { mode } else { PARENT_MODE };
        let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set.map_err(Error::io("set the mode of", path, STATE_REMEDY))?;
    }
    Ok(())
}

/// Gives a folder that root has just made to the server's user, by its descriptor and never through a link.
fn give(path: &Path, user: &ServerUser, mode: u32) -> Result<(), Error> {
    let failed = |errno: nix::Error| Error::io("change the owner of", path, STATE_REMEDY)(errno.into());
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder: OwnedFd = open(path, flags, Mode::empty()).map_err(failed)?;
    if fstat(&folder).map_err(failed)?.st_uid != 0 {
        // Another start was faster: it is somebody's already.
        return Ok(());
    }
    fchmod(&folder, Mode::from_bits_truncate(mode)).map_err(failed)?;
    unistd::fchown(&folder, Some(user.uid), Some(user.gid)).map_err(failed)
}
