//! What `/proc/PID` says about a process: raw read and pure parsing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel's file systems are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// proc.
    pub proc: PathBuf,
    /// Control groups.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), cgroup: PathBuf::from("/sys/fs/cgroup") }
    }
}

/// A process as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// Session id: the process id of its leader.
    pub session: u32,
    /// Clock ticks after boot at which it started.
    pub start_ticks: u64,
    /// Real user id.
    pub uid: u32,
    /// Command name, at most 15 bytes.
    pub name: String,
    /// The text of `cgroup`.
    pub cgroup: String,
}

/// Why a process is not known.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It has ended, or its files can't be read.
    #[error("cannot read {path}: {cause}; the process may have ended")]
    Unreadable {
        /// Which file.
        path: String,
        /// The system's words.
        cause: io::Error,
    },
    /// The file has another form than any Linux writes.
    #[error("{path} is not of a form that this program knows")]
    Malformed {
        /// Which file.
        path: String,
    },
}

/// Reads a process under a `/proc` root.
///
/// # Errors
/// When the process has ended, or a file cannot be read or understood.
pub fn read(root: &Path, pid: u32) -> Result<Process, ProcessError> {
    let folder = root.join(pid.to_string());
    let text = |file: &str| {
        let path = folder.join(file);
        fs::read_to_string(&path)
            .map_err(|cause| ProcessError::Unreadable { path: path.display().to_string(), cause })
    };
    let malformed = |file: &str| ProcessError::Malformed { path: folder.join(file).display().to_string() };
    let stat = parse_stat(&text("stat")?).ok_or_else(|| malformed("stat"))?;
    let uid = parse_uid(&text("status")?).ok_or_else(|| malformed("status"))?;
    let cgroup = text("cgroup")?;
    // Read again: a pid that was given to another process in between must not mix two processes.
    let again = parse_stat(&text("stat")?).ok_or_else(|| malformed("stat"))?;
    if again.start_ticks != stat.start_ticks {
        let cause = io::Error::from(io::ErrorKind::NotFound);
        return Err(ProcessError::Unreadable { path: folder.display().to_string(), cause });
    }
    let Stat { name, parent, session, start_ticks } = stat;
    Ok(Process { pid, parent, session, start_ticks, uid, name, cgroup })
}

/// When a process started, in clock ticks after boot; `None` if there is none of that id.
#[must_use]
pub fn start_ticks(root: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(root.join(pid.to_string()).join("stat")).ok()?;
    Some(parse_stat(&stat)?.start_ticks)
}

struct Stat {
    name: String,
    parent: u32,
    session: u32,
    start_ticks: u64,
}

/// `pid (name) state parent group session …`, the start as field 22. A name can hold blanks and parentheses,
/// so fields are counted from the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    // Field 3 (state) is the first after the name.
    let field = |number: usize| fields.get(number - 3);
    Some(Stat {
        name,
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
    })
}

/// The real user id: the first number after `Uid:`.
fn parse_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Seconds since 1970 at which this machine booted, from the text of `/proc/stat`.
#[must_use]
pub fn parse_boot_seconds(stat: &str) -> Option<i64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "4711 (a) b (c)) S 4700 4711 4650 34816 4711 4194304 100 0 0 0 5 3 0 0 20 0 1 0 987654 1 2";

    #[test]
    fn a_name_may_hold_anything() {
        let stat = parse_stat(STAT).unwrap();
        assert_eq!(stat.name, "a) b (c)");
        assert_eq!((stat.parent, stat.session, stat.start_ticks), (4700, 4650, 987_654));
        assert!(parse_stat("4711 (x) S 1").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn uid_and_boot_time() {
        assert_eq!(parse_uid("Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(1000));
        assert_eq!(parse_uid("Name:\tx\n"), None);
        assert_eq!(parse_boot_seconds("cpu 1 2\nbtime 1790000000\nprocesses 5\n"), Some(1_790_000_000));
        assert_eq!(parse_boot_seconds("cpu 1 2\n"), None);
    }

    #[test]
    fn a_process_that_has_ended_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = read(root.path(), 7).unwrap_err().to_string();
        assert!(error.contains("/7/stat") && error.contains("may have ended"), "{error}");
    }
}
