//! Packages of the Python Package Index, unpacked into the prefix for their files: NVIDIA's headers and libraries,
//! a libclang. Nothing of them is installed, imported or committed.
//!
//! pip downloads them with the machine's own configuration (index, proxy, certificates).
//!
//! ```text
//! <prefix>/wheels/NAME-VERSION/     what lies in the wheel
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{Flock, FlockArg};

use crate::{Error, Prefix, make_public_folder, remove_tree};

/// What a person does where pip is not there or reaches nothing.
const REMEDY: &str =
    "install python3-pip, and let `python3 -m pip download` reach a package index (pip.conf)";

impl Prefix {
    /// The folder of a package's wheel for this machine, downloaded and unpacked on first use.
    ///
    /// Callers may run at the same time in any number of processes: one unpacks, the others wait.
    ///
    /// # Errors
    /// [`Error::Failed`] with pip's own last words where it is not there or reaches no index, and [`Error::Io`].
    pub fn wheel(&self, name: &str, version: &str) -> Result<PathBuf, Error> {
        let wheels = self.root().join("wheels");
        let place = wheels.join(format!("{name}-{version}"));
        if place.is_dir() {
            return Ok(place);
        }
        make_public_folder(&wheels)?;
        let lock = wheels.join(".lock");
        let file = fs::File::options().create(true).append(true).open(&lock);
        let file = file.map_err(Error::io("open the lock file", &lock))?;
        let _lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| Error::Io {
            what: "lock",
            path: lock,
            cause: std::io::Error::from(errno),
        })?;
        if place.is_dir() {
            return Ok(place);
        }
        let build = wheels.join(".build");
        remove_tree(&build)?;
        make_public_folder(&build.join("unpacked"))?;
        let made = download(name, version, &build).and_then(|()| {
            fs::rename(build.join("unpacked"), &place).map_err(Error::io("move into place", &place))
        });
        remove_tree(&build)?;
        made.map(|()| place)
    }
}

/// Downloads one wheel and unpacks it into `unpacked` of the folder.
fn download(name: &str, version: &str, folder: &Path) -> Result<(), Error> {
    let step = format!("downloading {name} {version} with pip");
    let arguments =
        ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"];
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip"]).args(arguments).arg("--dest").arg(folder).arg(format!("{name}=={version}"));
    run(pip, &step)?;
    let files = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    let wheel = files
        .filter_map(Result::ok)
        .map(|file| file.path())
        .find(|path| path.extension() == Some("whl".as_ref()));
    let wheel = wheel.ok_or_else(|| failed(&step, "it left no wheel".to_owned()))?;
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(folder.join("unpacked"));
    run(unpack, &format!("unpacking {}", wheel.display()))
}

fn run(mut command: Command, step: &str) -> Result<(), Error> {
    let output = command.output().map_err(|error| failed(step, error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(step, said.lines().last().unwrap_or("it said nothing").trim().to_owned()))
}

fn failed(step: &str, output: String) -> Error {
    Error::Failed { step: step.to_owned(), output, remedy: REMEDY }
}
