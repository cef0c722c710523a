//! What the kernel reports about the process at the other end: pid, user, command, start time, CPUs.
//!
//! Only reads. What can't be read (another PID namespace, a process that is gone) is absent. A process id is given
//! again when its process has ended: where the kernel has them, a descriptor of the very process that connected
//! (SO_PEERPIDFD, Linux 6.5, else pidfd_open) reports whether `/proc` still reports it.

use crate::cpus::{Topology, parse_list};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Uid, User};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use throughline_sample::admission::clean_text;

/// Longest command line stored, in bytes: enough to recognise a program, little enough for a row.
const COMMAND_BYTES: usize = 512;
/// Most bytes read of a file about a process: arguments can be megabytes long, a list of groups as well.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 10;

/// Longest list of CPUs stored: 256 single CPUs.
const CPUS_CHARACTERS: usize = 1024;

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
    /// How long it has run, nanoseconds; `None` where its start is not known.
    pub age_nanoseconds: Option<i64>,
    /// Its command line, words separated by spaces.
    pub command: String,
    /// CPUs that it may run on, as the kernel writes a list; empty if not known.
    pub cpus: String,
    /// NUMA nodes of these.
    pub numa_nodes: Vec<u32>,
    /// NUMA nodes of the machine's adapters: which of them it uses is not known yet.
    pub hca_numa_nodes: Vec<u32>,
}

/// Who opened a connection.
#[derive(Debug)]
pub(crate) struct Opener {
    pub pid: u32,
    pub uid: u32,
    /// A descriptor of the process; `None` where the kernel has none.
    pub handle: Option<OwnedFd>,
}

/// Who opened a socket, by SO_PEERCRED. `None` if that process is in no PID namespace that is observed from here.
pub(crate) fn opener(socket: &impl AsFd) -> Option<Opener> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials).ok()?;
    let pid = u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)?;
    Some(Opener { pid, uid: credentials.uid(), handle: None })
}

impl Opener {
    /// Takes a descriptor of the process, where the kernel has one.
    pub(crate) fn hold(&mut self, socket: &impl AsFd) {
        self.handle = getsockopt(socket, sockopt::PeerPidfd).ok().or_else(|| handle(self.pid));
    }
}

/// A descriptor of a process; `None` if it has ended or the kernel has no such thing (before Linux 5.3).
pub(crate) fn handle(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Whether the process of a descriptor has ended.
pub(crate) fn has_ended(handle: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
    poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// When a process started, in clock ticks since boot; `None` if there is none of that id.
pub(crate) fn start_of(proc: &Path, pid: u32) -> Option<u64> {
    start_ticks(&std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?)
}

impl Process {
    /// Looks a process up. `proc` is `/proc`, or a test's folder.
    pub(crate) fn read(proc: &Path, topology: &Topology, opener: &Opener) -> Self {
        let (pid, uid) = (opener.pid, opener.uid);
        let folder = proc.join(pid.to_string());
        let text =
            |name: &str| String::from_utf8_lossy(&read(&folder.join(name)).unwrap_or_default()).into_owned();
        let user =
            User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name).unwrap_or_default();
        let cpus = text("status")
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .map(|list| list.trim().chars().take(CPUS_CHARACTERS).collect::<String>())
            .unwrap_or_default();
        let start_ticks = start_ticks(&text("stat"));
        let found = Self {
            pid,
            uid,
            user: user.clone(),
            start_ticks,
            age_nanoseconds: start_ticks.and_then(age),
            command: command(&text("cmdline")),
            numa_nodes: topology.nodes_of(&parse_list(&cpus)),
            hca_numa_nodes: topology.nodes_of_ports(None),
            cpus,
        };
        // What was read may be of another process that was given the id.
        match &opener.handle {
            Some(handle) if has_ended(handle) => Self { pid, uid, user, ..Self::default() },
            _ => found,
        }
    }
}

/// The fields of `/proc/PID/stat` behind the command, which may itself hold spaces and parentheses: field 3 is the first.
pub(crate) fn stat_fields(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Field 22 of `/proc/PID/stat`.
fn start_ticks(stat: &str) -> Option<u64> {
    stat_fields(stat)?.nth(19)?.parse().ok()
}

/// The beginning of a file.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Nanoseconds since so many clock ticks after boot.
fn age(start_ticks: u64) -> Option<i64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let started = i128::from(start_ticks) * 1_000_000_000 / i128::from(per_second.max(1));
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
    let now = i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec());
    i64::try_from(now - started).ok().map(|age| age.max(0))
}

/// Words separated by spaces, and nothing that harms a terminal.
fn command(words: &str) -> String {
    let words = words.trim_end_matches('\0');
    let spaced: String =
        words.chars().take(COMMAND_BYTES).map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean_text(&spaced, COMMAND_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opener_of(pid: u32) -> Opener {
        Opener { pid, uid: nix::unistd::getuid().as_raw(), handle: handle(pid) }
    }

    #[test]
    fn reads_this_process() {
        let own = opener_of(std::process::id());
        let process = Process::read(Path::new("/proc"), &Topology::default(), &own);
        assert!(process.command.contains("mpit"), "{}", process.command);
        assert!(process.start_ticks.unwrap() > 0);
        assert!((0..3_600_000_000_000).contains(&process.age_nanoseconds.unwrap()), "{process:?}");
        assert_eq!(process.start_ticks, start_of(Path::new("/proc"), process.pid));
        assert!(!parse_list(&process.cpus).is_empty(), "{}", process.cpus);
    }

    #[test]
    fn a_process_that_is_gone_has_no_values() {
        let nobody = Opener { pid: 1, uid: 12345, handle: None };
        let process = Process::read(Path::new("/nowhere"), &Topology::default(), &nobody);
        assert_eq!((process.start_ticks, process.command.as_str(), process.cpus.as_str()), (None, "", ""));
    }

    /// The id of a process that has ended names another one now: what `/proc` says of it is not taken.
    #[test]
    fn a_process_id_that_was_given_again() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let old = handle(child.id());
        child.wait().unwrap();
        let Some(old) = old else {
            throughline_test_support::skip!("this kernel has no pidfd_open; use Linux 5.3 or newer");
        };
        assert!(has_ended(&old));
        // As if it had been given to this one.
        let opener = Opener { handle: Some(old), ..opener_of(std::process::id()) };
        let process = Process::read(Path::new("/proc"), &Topology::default(), &opener);
        assert_eq!((process.pid, process.start_ticks, process.command.as_str()), (opener.pid, None, ""));
    }

    #[test]
    fn commands_with_parentheses_do_not_shift_the_fields() {
        let stat = "7 (a) b)) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 8765 1000 10";
        assert_eq!(start_ticks(stat), Some(8765));
        assert_eq!(start_ticks("7 (a"), None);
    }

    #[test]
    fn control_characters_in_commands_become_spaces() {
        assert_eq!(command("./a\0-x\nrm\0\0"), "./a -x rm");
        assert_eq!(command("./a\0\u{202e}x"), "./a \u{fffd}x");
        assert!(command(&"漢".repeat(10_000)).len() <= COMMAND_BYTES);
    }
}
