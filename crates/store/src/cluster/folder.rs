//! The cluster's place on disk and the user it belongs to. PostgreSQL refuses to run as root, so root hands
//! the folder to another user, once, when it is made; after that it is handled as that user only (see `root`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};

use super::STATE_REMEDY;
use crate::error::Error;

/// Users that root runs the server as, best first. Never nobody: files that belong to nobody belong to every
/// program on the machine that was given no user of its own.
const SERVER_USERS: [&str; 2] = ["throughline", "postgres"];

/// The account that must not own a database.
const NOBODY: &str = "nobody";

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
    /// The owner of the files where there are some. Else the caller, or for root the owner of the place where
    /// they will be, or throughline or postgres.
    pub fn choose(folder: &Path) -> Result<Self, Error> {
        let caller = nix::unistd::geteuid();
        if caller.is_root() {
            return Self::choose_for_root(folder);
        }
        let owner = fs::metadata(folder).ok().map(|data| Uid::from_raw(data.uid()));
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
        Ok(Self { name: user.name, uid: user.uid, gid: user.gid, differs: false })
    }

    fn choose_for_root(folder: &Path) -> Result<Self, Error> {
        let of = |user: User| Self { name: user.name, uid: user.uid, gid: user.gid, differs: true };
        if let Some(owner) = owner_of_cluster(folder)? {
            let user = User::from_uid(owner).ok().flatten();
            return match user {
                Some(user) if user.name != NOBODY => Ok(of(user)),
                _ => Err(Error::Place(format!(
                    "the database in {folder} belongs to {owner}, as which it is not run any more; give it to a \
                     user of its own: useradd --system --no-create-home throughline; chown -R throughline: {folder}",
                    folder = folder.display(),
                    owner = name_of(owner),
                ))),
            };
        }
        let place = owner_of_place(folder).and_then(|uid| User::from_uid(uid).ok().flatten());
        let named = SERVER_USERS.iter().filter_map(|name| User::from_name(name).ok().flatten());
        place
            .into_iter()
            .filter(|user| user.name != NOBODY)
            .chain(named)
            .find(|user| !user.uid.is_root())
            .map(of)
            .ok_or_else(|| Error::Place(NO_USER.to_owned()))
    }
}

/// The error of root on a machine without a user for the server.
const NO_USER: &str = "PostgreSQL does not run as root, and there is neither a user throughline nor postgres; make one \
                       (useradd --system --no-create-home throughline, or deploy/sysusers.d), or run as an ordinary user";

/// The owner of a cluster's folder that is there and not root's. Root must not follow a link that somebody else
/// put there, and a folder into which others write is nobody's in particular.
fn owner_of_cluster(folder: &Path) -> Result<Option<Uid>, Error> {
    let Ok(link) = fs::symlink_metadata(folder) else { return Ok(None) };
    let data = fs::metadata(folder).map_err(Error::io("look at", folder, STATE_REMEDY))?;
    let refused = |cause: String| Err(Error::Place(format!("{}: {cause}", folder.display())));
    if link.is_symlink() && link.uid() != 0 {
        let owner = name_of(Uid::from_raw(link.uid()));
        return refused(format!(
            "is a link of {owner}, which root does not follow; put the folder in its place"
        ));
    }
    if !data.is_dir() {
        return refused("is no folder; move it away".to_owned());
    }
    if data.uid() == 0 {
        return Ok(None);
    }
    if data.mode() & 0o022 != 0 {
        return refused(
            "others than its owner may write into it; chmod go-w and see what they wrote".to_owned(),
        );
    }
    Ok(Some(Uid::from_raw(data.uid())))
}

/// The owner of the nearest folder above that is there.
fn owner_of_place(folder: &Path) -> Option<Uid> {
    let data = folder.ancestors().skip(1).find_map(|path| fs::metadata(path).ok())?;
    Some(Uid::from_raw(data.uid()))
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

/// Makes the folders inside the cluster's own, as its user.
pub(super) fn make(folder: &Path) -> Result<(), Error> {
    let data = data_folder(folder);
    // Left by an initdb that was killed: without PG_VERSION it is no cluster.
    if data.exists() {
        fs::remove_dir_all(&data).map_err(Error::io("remove", &data, STATE_REMEDY))?;
    }
    let socket = socket_folder(folder);
    if !socket.exists() {
        fs::create_dir(&socket).map_err(Error::io("make the folder", &socket, STATE_REMEDY))?;
    }
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&socket, private).map_err(Error::io("set the mode of", &socket, STATE_REMEDY))
}

/// Writes a file anew under its name: what was there, also a link, is replaced and not written through. A
/// crash leaves the old one or the new one.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    let written = options.open(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&new, path)).map_err(Error::io("write", path, STATE_REMEDY))
}

/// Whether the server's user can enter every folder above the cluster's.
pub(super) fn check_way(folder: &Path, user: &ServerUser) -> Result<(), Error> {
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
