//! Bounds that a sampler sets itself, beside those that its parent watches: for a leak that is faster than a look.

use nix::sys::resource::{Resource, setrlimit};

/// Memory of its own that a sampler of a vendor's library may have: allocations beyond it fail. Twice what its parent
/// allows it to occupy, and within `MemoryMax` of the agent's unit together with a sampler of CUPTI.
pub(crate) const DATA_BYTES_MAX: u64 = 384 << 20;

/// Sets them. What fails leaves all as it is: the parent watches.
pub(crate) fn set(data_bytes_max: Option<u64>) {
    // Where memory runs out the kernel ends this process before the agent or a job. Raising it needs no right.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    if let Some(most) = data_bytes_max {
        let _ = setrlimit(Resource::RLIMIT_DATA, most, most);
    }
}
