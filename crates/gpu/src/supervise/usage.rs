//! What a sampler uses of the node: processor time and memory, as the kernel counts them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

/// Longest line that the kernel writes of a process.
const LINE_BYTES: usize = 2048;

/// What a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// Processor time, of user and kernel.
    pub processor: Duration,
    /// Memory that it occupies.
    pub memory_bytes: u64,
}

/// A process that is watched. Its file is opened once, so that it can't become another process of the same id.
pub(super) struct Watched {
    stat: File,
    tick: Duration,
    page_bytes: u64,
}

impl Watched {
    pub(super) fn open(pid: u32) -> io::Result<Self> {
        let of = |variable, usual: u64| {
            sysconf(variable).ok().flatten().and_then(|value| u64::try_from(value).ok()).unwrap_or(usual)
        };
        Ok(Self {
            stat: File::open(format!("/proc/{pid}/stat"))?,
            tick: Duration::from_secs(1) / u32::try_from(of(SysconfVar::CLK_TCK, 100)).unwrap_or(100).max(1),
            page_bytes: of(SysconfVar::PAGE_SIZE, 4096),
        })
    }

    /// `None` where it has ended.
    pub(super) fn read(&self) -> Option<Usage> {
        let mut line = [0; LINE_BYTES];
        let length = self.stat.read_at(&mut line, 0).ok()?;
        parse(&String::from_utf8_lossy(&line[..length]), self.tick, self.page_bytes)
    }
}

/// Reads a line of `/proc/PID/stat` (proc_pid_stat(5)).
fn parse(line: &str, tick: Duration, page_bytes: u64) -> Option<Usage> {
    // A program's name may hold blanks and parentheses; the third field follows it.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = u32::try_from(number(14)? + number(15)?).unwrap_or(u32::MAX);
    Some(Usage { processor: tick * ticks, memory_bytes: number(24)?.saturating_mul(page_bytes) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let line =
            "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 1000 4096000 256 184467";
        let usage = parse(line, Duration::from_millis(10), 4096).unwrap();
        assert_eq!((usage.processor, usage.memory_bytes), (Duration::from_secs(2), 1 << 20));
        assert_eq!(parse("42 (a", Duration::from_millis(10), 4096), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let usage = Watched::open(std::process::id()).unwrap().read().unwrap();
        assert!(usage.memory_bytes > 1 << 16 && usage.memory_bytes < 1 << 36, "{usage:?}");
    }
}
