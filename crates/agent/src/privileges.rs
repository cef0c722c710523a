//! What the agent may do: whatever it was started with, it keeps the capabilities that it needs and gives up the others.
//!
//! Capabilities belong to threads: [`keep_needed`] has to be called before there is a second one. As a user of its own the
//! agent needs one at most, `CAP_SYS_PTRACE`, to read `/proc` of ranks where it is mounted with hidepid. Root is root by
//! more than capabilities: it keeps those that folders of another user, `cupti.user` and the driver take.

use crate::config::Config;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::path::{Path, PathBuf};
use throughline_daemon::{Condition, Health};
use throughline_gpu::OF_PROFILERS;

/// Ports below this one take `CAP_NET_BIND_SERVICE` (ip(7)).
const UNPRIVILEGED_PORT: u16 = 1024;

/// What root keeps beside that: access to its folders where they are another user's, starting and ending the sampler of
/// `cupti.user`, and what NVIDIA's driver knows root by.
const OF_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_ADMIN);

/// The capabilities that a process retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RetainedCapabilities {
    /// By the agent itself.
    own: CapabilitySet,
    /// For the sampler of CUPTI: permitted and never in effect here.
    handed_on: CapabilitySet,
}

impl RetainedCapabilities {
    fn new(is_root: bool, port: u16, profiles: bool) -> Self {
        let mut own = CapabilitySet::SYS_PTRACE;
        own.set(CapabilitySet::NET_BIND_SERVICE, (1..UNPRIVILEGED_PORT).contains(&port));
        own.set(OF_ROOT, is_root);
        Self { own, handed_on: if profiles { OF_PROFILERS } else { CapabilitySet::empty() } }
    }

    /// What is left of these sets.
    fn of(self, now: CapabilitySets) -> CapabilitySets {
        CapabilitySets {
            effective: now.effective & self.own,
            permitted: now.permitted & (self.own | self.handed_on),
            inheritable: now.inheritable & self.handed_on,
        }
    }
}

/// Gives up what the agent does not need, for good. What can't be given up is logged: the agent reads all the same.
pub fn keep_needed(config: &Config) {
    let is_root = nix::unistd::geteuid().is_root();
    let stored = RetainedCapabilities::new(is_root, config.http.listen.port(), config.cupti.enabled);
    // By prctl(2), which filters of system calls seldom forbid: children have nothing of it where capset(2) fails.
    let cleared = thread::clear_ambient_capability_set();
    // Root's programs get what is in this set: the driver's own helper, nvidia-modprobe, makes devices with it.
    if !is_root {
        remove_from_bounding_set(stored);
    }
    let given_up = cleared.and_then(|()| {
        let now = thread::capabilities(None)?;
        let sets = stored.of(now);
        // A unit that grants no more than these may forbid the call.
        let is_needed = (sets.effective, sets.permitted) != (now.effective, now.permitted);
        let set = thread::set_capabilities(None, sets);
        if is_needed { set } else { Ok(()) }
    });
    if let Err(error) = given_up {
        tracing::warn!(
            "capabilities that this agent does not need can't be given up: {error}; allow it the system call capset"
        );
    }
}

/// Only with `CAP_SETPCAP`, which a unit need not give: it sets CapabilityBoundingSet itself.
fn remove_from_bounding_set(stored: RetainedCapabilities) {
    for capability in CapabilitySet::all().difference(stored.own | stored.handed_on).iter() {
        if thread::capability_is_in_bounding_set(capability).unwrap_or(false)
            && thread::remove_capability_from_bounding_set(capability).is_err()
        {
            return;
        }
    }
}

/// Whether `/proc` hides the processes of other users from this one.
pub struct HiddenProcesses {
    proc: PathBuf,
    /// Whether this process has the capability to read them all the same.
    is_capable: bool,
}

impl HiddenProcesses {
    /// From this process, of a `/proc` that is mounted there.
    pub fn new(proc: &Path) -> Self {
        let now = thread::capabilities(None);
        let is_capable = now.is_ok_and(|now| now.effective.contains(CapabilitySet::SYS_PTRACE));
        Self { proc: proc.to_owned(), is_capable }
    }

    /// By trying it, as a mount's group (`gid=`) may see what others don't: the first process is always there.
    pub fn is_so(&self) -> bool {
        let reads = |process: &str| std::fs::read(self.proc.join(process).join("stat")).is_ok();
        !self.is_capable && reads("self") && !reads("1")
    }
}

impl Health for HiddenProcesses {
    fn conditions(&self) -> Vec<Condition> {
        let text = || {
            format!(
                "source mpi: {} hides other users' processes (hidepid), so command, CPUs, start and control group of \
                 their ranks are not known; give the agent CAP_SYS_PTRACE, as its unit does",
                self.proc.display()
            )
        };
        self.is_so().then(|| Condition::degraded(text())).into_iter().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_capability_is_retained_and_more_only_where_it_is_used() {
        let all = CapabilitySets {
            effective: CapabilitySet::all(),
            permitted: CapabilitySet::all(),
            inheritable: CapabilitySet::all(),
        };
        let ptrace = CapabilitySet::SYS_PTRACE;
        let nothing = CapabilitySet::empty();
        let ordinary = RetainedCapabilities::new(false, 9461, false).of(all);
        assert_eq!(ordinary, CapabilitySets { effective: ptrace, permitted: ptrace, inheritable: nothing });
        let profiling = RetainedCapabilities::new(false, 0, true).of(all);
        let permitted = ptrace | OF_PROFILERS;
        assert_eq!(profiling, CapabilitySets { effective: ptrace, permitted, inheritable: OF_PROFILERS });
        let low = RetainedCapabilities::new(false, 80, false).of(all);
        assert_eq!(low.effective, ptrace | CapabilitySet::NET_BIND_SERVICE);
        let root = RetainedCapabilities::new(true, 9461, false).of(all);
        assert!(
            root.effective.contains(OF_ROOT | ptrace) && !root.effective.contains(CapabilitySet::NET_ADMIN)
        );
        // Nothing is gained.
        let none = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
        assert_eq!(RetainedCapabilities::new(true, 80, true).of(none), none);
    }

    #[test]
    fn a_proc_that_hides_processes_is_reported_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = HiddenProcesses { proc: folder.path().to_owned(), is_capable: false };
        let put = |process: &str| {
            std::fs::create_dir(folder.path().join(process)).unwrap();
            std::fs::write(folder.path().join(process).join("stat"), "1").unwrap();
        };
        assert_eq!(hidden.conditions(), [], "no /proc at all");
        put("self");
        let conditions = hidden.conditions();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].level, throughline_daemon::Level::Degraded);
        assert!(conditions[0].text.contains("CAP_SYS_PTRACE"));
        let capable = HiddenProcesses { is_capable: true, ..HiddenProcesses::new(folder.path()) };
        assert_eq!(capable.conditions(), []);
        put("1");
        assert_eq!(hidden.conditions(), []);
    }
}
