//! The cluster's place on disk and the user it belongs to. PostgreSQL refuses to run as root, so root hands
//! the folder to another user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};

use super::STATE_REMEDY;
use crate::Error;

/// Users that root runs the server as, best first.
const SERVER_USERS: [&str; 3] = ["throughline", "postgres", "nobody"];

/// The number in the socket's name; there is no TCP port.
pub(super) const SOCKET_NUMBER: u16 = 5432;

/// Whom the server's process and files belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUser {
    pub name: String,
    pub uid: Uid,
    pub gid: Gid,
    /// The caller is root and the server another user.
    pub differs: bool,
}

impl ServerUser {
    /// The owner of the files where there are some. Else the caller, or for root the first of throughline,
    /// postgres and nobody that exists.
    pub fn choose(folder: &Path) -> Result<Self, Error> {
        let caller = nix::unistd::geteuid();
        let owner = fs::metadata(folder).ok().map(|data| Uid::from_raw(data.uid()));
        if !caller.is_root() {
            if let Some(owner) = owner.filter(|owner| *owner != caller) {
                return Err(Error::Permission {
                    what: format!("using the database in {}", folder.display()),
                    cause: format!("it belongs to {}", name_of(owner)),
                });
            }
            let user = User::from_uid(caller).ok().flatten().ok_or_else(|| {
                Error::Place(format!(
                    "user id {caller} has no name (no entry in the user database), and PostgreSQL needs one; \
                     run as a user with a name, or use an operated server with --database-url"
                ))
            })?;
            return Ok(Self { name: user.name, uid: user.uid, gid: user.gid, differs: false });
        }
        let owner = owner.and_then(|owner| User::from_uid(owner).ok().flatten());
        let named = SERVER_USERS.iter().filter_map(|name| User::from_name(name).ok().flatten());
        owner
            .into_iter()
            .chain(named)
            .find(|user| !user.uid.is_root())
            .map(|user| Self { name: user.name, uid: user.uid, gid: user.gid, differs: true })
            .ok_or_else(|| {
                Error::Place(format!(
                    "PostgreSQL does not run as root, and none of the users {} exists; make one, or run as an \
                     ordinary user",
                    SERVER_USERS.join(", ")
                ))
            })
    }
}

fn name_of(uid: Uid) -> String {
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("user {}", user.name),
        _ => format!("user id {uid}"),
    }
}

/// PostgreSQL's own files.
pub(super) fn data_folder(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The folder of the socket.
pub(super) fn socket_folder(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// The content of `PG_VERSION`: there once initdb is complete, for initdb removes what it leaves half done.
pub(super) fn major_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(data_folder(folder).join("PG_VERSION")).ok()?;
    Some(text.trim().to_owned())
}

/// Refuses a folder whose socket path the kernel would not take.
pub(super) fn check_socket(folder: &Path) -> Result<(), Error> {
    let socket = socket_folder(folder).join(format!(".s.PGSQL.{SOCKET_NUMBER}"));
    throughline_daemon::paths::check_socket_path(&socket)
        .map_err(|failure| Error::Place(format!("{failure}, with --state-dir")))
}

/// Makes the state folder, enterable by all: the server may be another user.
pub(super) fn make_state(state: &Path) -> Result<(), Error> {
    let missing: Vec<&Path> = state.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(state).map_err(Error::io("make the folder", state, STATE_REMEDY))?;
    for path in missing {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(Error::io(
            "set the mode of",
            path,
            STATE_REMEDY,
        ))?;
    }
    Ok(())
}

/// Makes the cluster's folder and the socket's, the server's own.
pub(super) fn make(folder: &Path, user: &ServerUser) -> Result<(), Error> {
    check_way(folder, user)?;
    let data = data_folder(folder);
    // Left by an initdb that was killed: without PG_VERSION it is no cluster.
    if data.exists() {
        fs::remove_dir_all(&data).map_err(Error::io("remove", &data, STATE_REMEDY))?;
    }
    for (path, mode) in [(folder.to_owned(), 0o700), (socket_folder(folder), 0o700)] {
        if !path.exists() {
            fs::create_dir(&path).map_err(Error::io("make the folder", &path, STATE_REMEDY))?;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(Error::io(
            "set the mode of",
            &path,
            STATE_REMEDY,
        ))?;
        give(&path, user)?;
    }
    Ok(())
}

/// Gives a file or folder to the server's user.
pub(super) fn give(path: &Path, user: &ServerUser) -> Result<(), Error> {
    if !user.differs {
        return Ok(());
    }
    std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(Error::io(
        "change the owner of",
        path,
        STATE_REMEDY,
    ))
}

/// Whether the server's user can enter every folder above the cluster's.
fn check_way(folder: &Path, user: &ServerUser) -> Result<(), Error> {
    if !user.differs {
        return Ok(());
    }
    for path in folder.ancestors().skip(1) {
        let data = fs::metadata(path).map_err(Error::io("look at", path, STATE_REMEDY))?;
        let may_enter = if data.uid() == user.uid.as_raw() {
            0o100
        } else if data.gid() == user.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        if data.mode() & may_enter == 0 {
            return Err(Error::Place(format!(
                "user {}, as whom root runs the database, cannot enter {}; choose another folder with \
                 --state-dir, for instance /var/lib/throughline",
                user.name,
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_refused_with_the_way_out() {
        let error = check_socket(&PathBuf::from(format!("/{}", "x".repeat(120)))).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("107") && text.ends_with("--state-dir"), "{text}");
    }

    #[test]
    fn a_closed_folder_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = ServerUser {
            name: "nobody".to_owned(),
            uid: Uid::from_raw(65534),
            gid: Gid::from_raw(65534),
            differs: true,
        };
        let error = check_way(&folder.path().join("db"), &stranger).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }

    #[test]
    fn no_version_file_no_cluster() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(major_of(folder.path()), None);
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/PG_VERSION"), "17\n").unwrap();
        assert_eq!(major_of(folder.path()), Some("17".to_owned()));
    }
}
