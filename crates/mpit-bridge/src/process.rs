//! What the kernel says about the process at the other end: pid, user, command, start time.
//!
//! Only reads. What can't be read (another PID namespace, a process that is gone) is absent.

use nix::unistd::{Uid, User};
use std::os::fd::AsFd;
use std::path::Path;

/// Longest command line kept, in characters: enough to recognise a program, little enough for a row.
const COMMAND_CHARACTERS: usize = 512;

/// One process, as the kernel knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// Process id in the agent's PID namespace.
    pub pid: u32,
    /// Effective user when it connected.
    pub uid: u32,
    /// The user's name, empty if it has none here.
    pub user: String,
    /// Its start in clock ticks since boot.
    pub start_ticks: Option<u64>,
    /// Its command line, words separated by spaces.
    pub command: String,
}

/// Who opened a socket, by SO_PEERCRED: pid and uid.
pub(crate) fn peer(socket: &impl AsFd) -> Option<(u32, u32)> {
    let credentials =
        nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    Some((u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)?, credentials.uid()))
}

impl Process {
    /// Looks a process up. `proc` is `/proc`, or a test's folder.
    pub(crate) fn read(proc: &Path, pid: u32, uid: u32) -> Self {
        let folder = proc.join(pid.to_string());
        let text = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
        Self {
            pid,
            uid,
            user: User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name).unwrap_or_default(),
            start_ticks: start_ticks(&String::from_utf8_lossy(&text("stat"))),
            command: command(&text("cmdline")),
        }
    }
}

/// Field 22 of `/proc/PID/stat`, counted behind the command, which may itself hold spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn command(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let text: String = text.trim_end_matches('\0').chars().take(COMMAND_CHARACTERS).collect();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let process = Process::read(Path::new("/proc"), std::process::id(), nix::unistd::getuid().as_raw());
        assert!(process.command.contains("mpit"), "{}", process.command);
        assert!(process.start_ticks.unwrap() > 0);
    }

    #[test]
    fn a_process_that_is_gone_has_no_values() {
        let process = Process::read(Path::new("/nowhere"), 1, 12345);
        assert_eq!((process.start_ticks, process.command.as_str()), (None, ""));
    }

    #[test]
    fn commands_with_parentheses_do_not_shift_the_fields() {
        let stat = "7 (a) b)) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 8765 1000 10";
        assert_eq!(start_ticks(stat), Some(8765));
        assert_eq!(start_ticks("7 (a"), None);
    }

    #[test]
    fn control_characters_in_commands_become_spaces() {
        assert_eq!(command(b"./a\0-x\nrm\0\0"), "./a -x rm");
    }
}
