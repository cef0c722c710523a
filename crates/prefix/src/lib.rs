//! Programs with services, unpacked from the distribution's packages into a prefix and never installed.
//!
//! Debian's packages of opensm, ibsim, prometheus and PostgreSQL enable and start services when they are
//! installed, which on a node with an HCA puts a second subnet manager on a live fabric. This crate takes
//! the same packages, from the machine's own Debian mirrors and checked with the machine's own keyring,
//! through a private apt (own state, own cache, empty dpkg status), and unpacks them into a folder. It
//! needs no root and touches nothing outside that folder.
//!
//! Layout of a prefix:
//!
//! ```text
//! <prefix>/bin/PROGRAM          -> ../SET/wrappers/PROGRAM or ../postgres/bin/PROGRAM
//! <prefix>/lib                  -> fabric/libs: libraries for LD_LIBRARY_PATH, with libumad2sim.so
//! <prefix>/fabric/usr/...       the machine's own suite, because libumad2sim is preloaded into our programs
//! <prefix>/postgres/bin         -> usr/lib/postgresql/17/bin: wrappers that run under the set's own ld-linux
//! <prefix>/browser/...         the machine's own suite: wrappers/chromium-headless-shell, its libraries and fonts
//! <prefix>/pooler/...          wrappers/pgbouncer, which runs under the set's own ld-linux
//! <prefix>/.ready-SET           written last: the recipe a complete set was made by
//! <prefix>/wheels/NAME-VERSION  packages of the Python Package Index, for their headers and libraries
//! ```
//!
//! This crate must not install, configure or start anything, and knows nothing of databases or fabrics.

mod apt;
mod error;
mod recipe;
mod sources;
mod unpack;
mod wheels;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::{Flock, FlockArg};

pub use error::Error;

/// Environment variable that names the prefix folder.
pub const PREFIX_VARIABLE: &str = "THROUGHLINE_PREFIX";

/// Where root keeps state, unless configured otherwise.
const ROOT_STATE: &str = "/var/lib/throughline";

/// Whether this process began as root.
static AS_ROOT: OnceLock<bool> = OnceLock::new();

/// A group of packages that is made, and found complete or not, as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Set {
    /// ibsim, libumad2sim, opensm, infiniband-diags and prometheus, of the machine's own Debian suite.
    Fabric,
    /// PostgreSQL 17 with TimescaleDB, of Debian 13, with a loader and a C library of its own.
    Postgres,
    /// Chromium without a window and a font, of the machine's own Debian suite: for tests of the pages.
    Browser,
    /// nftables' command line, of the machine's own Debian suite: exact counters of flows, for a bench.
    Netfilter,
    /// PgBouncer, of Debian 13, with a loader and a C library of its own: for tests of several servers.
    Pooler,
    /// libfaketime, of the machine's own Debian suite: clocks of processes that differ, for a bench.
    Faketime,
}

impl Set {
    /// Every set.
    pub const ALL: [Set; 6] =
        [Set::Fabric, Set::Postgres, Set::Browser, Set::Netfilter, Set::Pooler, Set::Faketime];

    /// The name of the set, which is also the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Set::Fabric => "fabric",
            Set::Postgres => "postgres",
            Set::Browser => "browser",
            Set::Netfilter => "netfilter",
            Set::Pooler => "pooler",
            Set::Faketime => "faketime",
        }
    }
}

/// A prefix folder; it need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    root: PathBuf,
}

impl Prefix {
    /// The prefix of this user: `THROUGHLINE_PREFIX`, else `prefix` in the default state folder.
    ///
    /// # Errors
    /// [`Error::NoHome`] when an ordinary user has neither `XDG_STATE_HOME` nor `HOME`.
    pub fn locate() -> Result<Self, Error> {
        if let Some(folder) = non_empty(PREFIX_VARIABLE) {
            return Ok(Self::at(folder));
        }
        // As it was first: a program that gave up root since goes on with the same prefix.
        let is_root = *AS_ROOT.get_or_init(|| nix::unistd::geteuid().is_root());
        let state = if is_root {
            PathBuf::from(ROOT_STATE)
        } else if let Some(folder) = non_empty("XDG_STATE_HOME") {
            folder.join("throughline")
        } else {
            non_empty("HOME").ok_or(Error::NoHome)?.join(".local/state/throughline")
        };
        Ok(Self::at(state.join("prefix")))
    }

    /// A prefix at a folder of the caller's choice; a relative path is taken from the working directory.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { root: std::path::absolute(&folder).unwrap_or(folder) }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the set is complete and made by the recipe this program knows.
    pub fn is_ready(&self, set: Set) -> bool {
        fs::read_to_string(self.ready_file(set)).is_ok_and(|text| text == recipe::of(set).stamp())
            && self.set_folder(set).is_dir()
    }

    /// Makes the set unless it is there already, reporting each step through `progress`.
    ///
    /// Callers may run at the same time in any number of processes: one makes the set, the others wait.
    /// The set is made in a folder beside its place and renamed, so that nobody sees half of it.
    pub fn ensure(&self, set: Set, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        if self.is_ready(set) {
            return Ok(());
        }
        let recipe = recipe::of(set);
        make_public_folder(&self.root)?;
        let _lock = self.lock(set, progress)?;
        if self.is_ready(set) {
            return Ok(());
        }
        let build = self.root.join(format!(".build-{}", set.name()));
        remove_tree(&build)?;
        make_public_folder(&build)?;
        let made = apt::fetch(&recipe, &build, progress)
            .and_then(|packages| unpack::unpack(&recipe, &packages, &build, self, progress));
        let made = made.and_then(|tree| self.put_in_place(set, &tree));
        // The build folder holds package lists and archives: of no use after either outcome.
        let cleaned = remove_tree(&build);
        made?;
        cleaned?;
        unpack::check(&recipe, self)?;
        let ready = self.ready_file(set);
        fs::write(&ready, recipe.stamp()).map_err(Error::io("write", &ready))?;
        progress(&format!("{}: ready in {}", set.name(), self.set_folder(set).display()));
        Ok(())
    }

    /// The path of a program of any set, to be run as it is.
    pub fn program(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// The folder of PostgreSQL's programs.
    pub fn postgres_bin(&self) -> PathBuf {
        self.root.join("postgres/bin")
    }

    /// The library that, preloaded into a process, shows it a simulated HCA instead of `/dev/infiniband`.
    pub fn umad2sim(&self) -> PathBuf {
        self.library_dir().join("libumad2sim.so")
    }

    /// The folder of the fabric set's libraries, for `LD_LIBRARY_PATH`.
    pub fn library_dir(&self) -> PathBuf {
        self.root.join("lib")
    }

    fn set_folder(&self, set: Set) -> PathBuf {
        self.root.join(set.name())
    }

    fn ready_file(&self, set: Set) -> PathBuf {
        self.root.join(format!(".ready-{}", set.name()))
    }

    fn lock(&self, set: Set, progress: &mut dyn FnMut(&str)) -> Result<Flock<fs::File>, Error> {
        let path = self.root.join(format!(".lock-{}", set.name()));
        let file = fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::io("open the lock file", &path))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, _)) => file,
        };
        progress(&format!("{}: another process is making it, waiting", set.name()));
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| Error::Io {
            what: "lock",
            path,
            cause: std::io::Error::from(errno),
        })
    }

    /// Renames a finished tree to its place and links its programs into `bin`.
    fn put_in_place(&self, set: Set, tree: &Path) -> Result<(), Error> {
        let ready = self.ready_file(set);
        remove_tree(&ready)?;
        let place = self.set_folder(set);
        let old = self.root.join(format!(".build-{}", set.name())).join("old");
        if place.exists() {
            fs::rename(&place, &old).map_err(Error::io("move away", &place))?;
        }
        fs::rename(tree, &place).map_err(Error::io("move into place", &place))?;
        let bin = self.root.join("bin");
        make_public_folder(&bin)?;
        let from = recipe::of(set).programs_folder();
        for name in unpack::file_names(&place.join(from))? {
            link(&Path::new("..").join(set.name()).join(from).join(&name), &bin.join(&name))?;
        }
        if set == Set::Fabric {
            link(Path::new("fabric/libs"), &self.root.join("lib"))?;
        }
        Ok(())
    }
}

/// Makes the set in the caller's own prefix, with a line per step on standard error, and returns the prefix.
pub fn ensure(set: Set) -> Result<Prefix, Error> {
    let prefix = Prefix::locate()?;
    prefix.ensure(set, &mut |line| eprintln!("{line}"))?;
    Ok(prefix)
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes a folder that every user can enter, whatever the umask: the database server runs as another user.
fn make_public_folder(folder: &Path) -> Result<(), Error> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    for path in missing {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("set the mode of", path))?;
    }
    Ok(())
}

/// Removes a file or folder; its absence is no error.
fn remove_tree(path: &Path) -> Result<(), Error> {
    let gone = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes or replaces a symbolic link.
fn link(target: &Path, place: &Path) -> Result<(), Error> {
    if fs::read_link(place).is_ok_and(|now| now == target) {
        return Ok(());
    }
    remove_tree(place)?;
    std::os::unix::fs::symlink(target, place).map_err(Error::io("make the link", place))
}
