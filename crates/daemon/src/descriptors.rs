//! The limit of open files. Each connection takes a descriptor, and many systems start a process with 1,024.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises this process' limit of open files to `wanted`, or as far as the system lets it: to the hard limit, which
/// only a process with CAP_SYS_RESOURCE raises. Returns the limit that holds now; it is never lowered.
#[must_use]
pub fn raise_descriptors(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    if soft >= wanted {
        return soft;
    }
    let set = |soft, hard| setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_ok().then_some(soft);
    let raised = if hard >= wanted { set(wanted, hard) } else { set(wanted, wanted) };
    raised.or_else(|| set(hard, hard)).unwrap_or(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_below_what_it_was() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(raise_descriptors(1), soft);
        assert!(raise_descriptors(soft + 1) >= soft);
        assert!(raise_descriptors(hard) >= hard);
    }
}
