//! Where state, run-time files and sockets lie.

use crate::Failure;
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket: `sun_path` has 108 bytes with its terminating zero (unix(7)).
pub const SOCKET_PATH_BYTES: usize = 107;

/// The state folder: `explicit` (`--state-dir`), else `/var/lib/throughline` for root, else
/// `$XDG_STATE_HOME/throughline` (`~/.local/state/throughline`).
///
/// # Errors
/// Neither `HOME` nor `XDG_STATE_HOME` is set for an ordinary user (64).
pub fn state_dir(explicit: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = explicit {
        return Ok(absolute(path));
    }
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/throughline"));
    }
    if let Some(home) = variable("XDG_STATE_HOME") {
        return Ok(PathBuf::from(home).join("throughline"));
    }
    variable("HOME")
        .map(|home| PathBuf::from(home).join(".local/state/throughline"))
        .ok_or_else(|| Failure::usage("no state folder: HOME is not set; name one with --state-dir"))
}

/// The run-time folder: `/run/throughline` for root without an explicit state folder, else
/// `$XDG_RUNTIME_DIR/throughline`, else `run` in the state folder.
#[must_use]
pub fn run_dir(state_dir: &Path, state_is_explicit: bool) -> PathBuf {
    if state_is_explicit {
        return state_dir.join("run");
    }
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/run/throughline");
    }
    variable("XDG_RUNTIME_DIR")
        .map_or_else(|| state_dir.join("run"), |dir| PathBuf::from(dir).join("throughline"))
}

/// Refuses a socket path that the kernel can't take.
///
/// # Errors
/// The path is longer than [`SOCKET_PATH_BYTES`] (64).
pub fn check_socket_path(path: &Path) -> Result<(), Failure> {
    let bytes = path.as_os_str().len();
    if bytes <= SOCKET_PATH_BYTES {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "socket path {} has {bytes} bytes, and the kernel takes at most {SOCKET_PATH_BYTES}: choose a shorter folder",
        path.display()
    )))
}

/// Creates a folder and its parents.
///
/// # Errors
/// It can't be created (77 without permission, else 69); the message names it.
pub fn create_dir(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| {
        let remedy = "choose another place with --state-dir or in the configuration";
        Failure::from_io(format!("folder {}", path.display()), &error, remedy)
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_socket_paths_are_refused_with_the_reason() {
        let path = PathBuf::from("/").join("x".repeat(107));
        let error = check_socket_path(&path).unwrap_err().to_string();
        assert!(error.contains("108 bytes") && error.contains("107"), "{error}");
        assert!(check_socket_path(&PathBuf::from("/").join("x".repeat(106))).is_ok());
    }

    #[test]
    fn an_explicit_state_folder_holds_the_run_folder() {
        let state = state_dir(Some(Path::new("/srv/t"))).unwrap();
        assert_eq!(run_dir(&state, true), PathBuf::from("/srv/t/run"));
    }
}
