//! Bounds of what glibc's allocator retains: a daemon that answers one large request gives the memory back.
#![allow(unsafe_code)] // mallopt, mallinfo and malloc_trim have no safe wrappers.

use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Arenas. By default there are eight for each processor, and each retains what its busiest moment took.
const ARENAS: i32 = 2;
/// Larger allocations are mapped, and unmapped when they are freed. By default this rises with the largest one that was freed,
/// up to 32 MiB.
const MMAP_BYTES: i32 = 512 << 10;
/// Free memory at the end of an arena that is retained.
const TRIM_BYTES: i32 = 1 << 20;

/// From one look at the process' memory to the next.
const LOOK: Duration = Duration::from_secs(1);
/// Free memory in its arenas, above what was given back already, that is worth the some milliseconds that giving it back takes.
const FREE_BYTES: u64 = 4 << 20;

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

/// Gives free memory back to the kernel whenever there is more of it than before; for as long as it is polled. The allocator does
/// so at the end of an arena alone: what is free in between adds up from one busy moment to the next, each of another kind.
pub async fn give_back_free_memory() {
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut given_back = 0;
    loop {
        tick.tick().await;
        // It counts what was given back and not used again.
        let free = free_bytes();
        given_back = free.min(given_back);
        if free - given_back >= FREE_BYTES {
            // On a thread that may wait: it holds the allocator's locks for a moment.
            let _ = tokio::task::spawn_blocking(trim).await;
            given_back = free_bytes();
        }
    }
}

/// Free bytes of all arenas, whether the kernel has them back or not; 0 with another allocator than glibc's.
fn free_bytes() -> u64 {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes nothing and gives numbers. They are of 32 bits: beyond 4 GiB they begin anew, which costs a look.
    return u64::from(unsafe { libc::mallinfo() }.fordblks.cast_unsigned());
    #[cfg(not(target_env = "gnu"))]
    0
}

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and touches free memory only, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory of this process.
    fn resident_bytes() -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    #[tokio::test]
    async fn what_is_free_between_what_is_in_use_is_given_back() {
        bound_allocator();
        let mut blocks: Vec<Option<Vec<u8>>> = (0..40_000).map(|_| Some(vec![1; 2000])).collect();
        let full = resident_bytes();
        // Some stay, so that no arena has a free end; between them are whole pages.
        for (number, block) in blocks.iter_mut().enumerate() {
            if number % 16 != 0 {
                *block = None;
            }
        }
        let keeper = tokio::spawn(give_back_free_memory());
        let start = std::time::Instant::now();
        while resident_bytes() > full - (40 << 20) {
            assert!(start.elapsed() < Duration::from_secs(60), "{} of {full} stay", resident_bytes());
            tokio::time::sleep(LOOK / 10).await;
        }
        assert_eq!(blocks.iter().flatten().count(), 2500);
        keeper.abort();
    }
}
