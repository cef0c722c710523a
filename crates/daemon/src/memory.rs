//! Bounds of what glibc's allocator retains: a daemon that answers one large request gives the memory back.
#![allow(unsafe_code)] // mallopt has no safe wrapper.

/// Arenas. By default there are eight for each processor, and each retains what its busiest moment took.
const ARENAS: i32 = 2;
/// Larger allocations are mapped, and unmapped when they are freed. By default this rises with the largest one that was freed,
/// up to 32 MiB.
const MMAP_BYTES: i32 = 512 << 10;
/// Free memory at the end of an arena that is retained.
const TRIM_BYTES: i32 = 1 << 20;

/// Sets the bounds. Called before there are threads. Allocators other than glibc's are left as they are.
pub fn bound_allocator() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, MMAP_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
    ] {
        // SAFETY: mallopt takes two numbers and refuses what it does not know.
        if unsafe { libc::mallopt(parameter, value) } == 0 {
            tracing::debug!(parameter, value, "the allocator takes no such bound");
        }
    }
}
