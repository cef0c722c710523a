//! What can go wrong while a set is made, each with its remedy. No error is handled here.

use std::path::{Path, PathBuf};

/// Why a set could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No folder to keep state in.
    #[error("cannot determine where to store the prefix: set THROUGHLINE_PREFIX, XDG_STATE_HOME or HOME")]
    NoHome,
    /// A file operation failed.
    #[error(
        "cannot {what} {path}: {cause}; check the folder's owner and free space, or choose another with \
         THROUGHLINE_PREFIX"
    )]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A tool of the distribution is not there.
    #[error(
        "cannot run {program}: {cause}; the prefix is made from Debian packages and needs apt and dpkg. On \
         another system install the programs by hand: {by_hand}"
    )]
    NoTool {
        /// The program that could not be run.
        program: &'static str,
        /// The system's reason.
        cause: std::io::Error,
        /// What to install, and how to name it to Throughline.
        by_hand: &'static str,
    },
    /// The machine has no Debian archive among its apt sources.
    #[error(
        "no Debian archive with suite {codename} and component main in /etc/apt/sources.list or \
         /etc/apt/sources.list.d; add one (apt itself stays as it is). Entries passed over: {passed_over}"
    )]
    NoSource {
        /// The machine's release.
        codename: String,
        /// Why the entries there were did not serve.
        passed_over: String,
    },
    /// The machine's release is not known.
    #[error("no VERSION_CODENAME in /etc/os-release: the prefix can be made on Debian only")]
    NoRelease,
    /// apt or dpkg failed.
    #[error("{step} failed: {output}; {remedy}")]
    Failed {
        /// What was tried.
        step: String,
        /// The tool's own last words.
        output: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A program of the finished set does not start.
    #[error("{program} in the prefix does not start: {output}; report this with the machine's release")]
    Broken {
        /// The program.
        program: String,
        /// What it said.
        output: String,
    },
}

impl Error {
    /// For `map_err`: names the operation and the path.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::Io { what, path, cause }
    }
}
