//! What samplers may do: a vendor's library needs no capability, and a profiler two of them. As root NVML's has one, as
//! NVIDIA's driver lists the processes of other users only to who may administer.
//!
//! Capabilities belong to a thread and its children. What fails leaves all as it is: the driver decides what is read.

use rustix::thread::{self, CapabilitySet, CapabilitySets};

/// What the driver demands of a profiler.
pub const OF_PROFILERS: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::PERFMON);

/// Gives up what a sampler of links needs not: everything, but as root what the driver takes root by.
pub(crate) fn keep_for_links() {
    keep(if nix::unistd::geteuid().is_root() { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() });
}

/// Gives up all capabilities of this thread but these, and hands none on to a program that it starts.
pub(crate) fn keep(stored: CapabilitySet) {
    let _ = thread::clear_ambient_capability_set();
    if let Ok(now) = thread::capabilities(None) {
        let sets = CapabilitySets {
            effective: now.effective & stored,
            permitted: now.permitted & stored,
            inheritable: CapabilitySet::empty(),
        };
        let _ = thread::set_capabilities(None, sets);
    }
}

/// Has programs that this thread starts as an ordinary user get these, as far as it has them to hand on.
pub(crate) fn hand_on(capabilities: CapabilitySet) {
    for one in capabilities.iter() {
        // EPERM: not permitted or not inheritable, so not the site's setting.
        let _ = thread::configure_capability_in_ambient_set(one, true);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_is_retained_is_left() {
        // Of a thread alone: the others of this test process keep theirs.
        let left = std::thread::spawn(|| {
            keep(OF_PROFILERS);
            let first = thread::capabilities(None).unwrap();
            hand_on(OF_PROFILERS);
            assert!(
                !thread::capability_is_in_ambient_set(CapabilitySet::PERFMON).unwrap(),
                "not inheritable"
            );
            keep(CapabilitySet::empty());
            (first, thread::capabilities(None).unwrap())
        });
        let (first, then) = left.join().unwrap();
        assert!(OF_PROFILERS.contains(first.permitted | first.effective));
        assert!((then.permitted | then.effective | then.inheritable).is_empty());
    }
}
