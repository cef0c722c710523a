//! What the kernel counts of a rank's process: processor time, time on a run queue, involuntary switches. Cumulative, as read. And the
//! clock of the CPU that it runs on, at that moment.
//!
//! Three small files of `/proc` and one of `/sys` a reading. Nothing in the rank takes part, and what can't be read is absent.

use crate::process::{FILE_BYTES_MAX, stat_fields};
use std::path::Path;
use std::time::Duration;
use throughline_sample::wire::MpiRankScheduling;

/// How often each rank is read, at whole multiples in UTC: three readings of a rank take less than 0.1 ms, and what a process
/// did in the last minute needs a few.
const INTERVAL_NANOSECONDS: i64 = 10_000_000_000;

/// Field of `/proc/PID/stat` behind the command: user time in clock ticks; system time follows, the start is the eighth after.
const STATE: usize = 0;
const UTIME: usize = 11;
const START: usize = 19;
/// The CPU that its first thread ran on last.
const PROCESSOR: usize = 36;

/// A rank whose process is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub job_key: String,
    pub rank: u32,
    /// Its epoch, in its records.
    pub epoch: i64,
    pub pid: u32,
    /// Start of its process in clock ticks since boot: another one may have been given its id.
    pub start_ticks: Option<u64>,
}

/// Time from a moment in UTC nanoseconds to the next reading of all ranks.
pub(crate) fn until_reading(now: i64) -> Duration {
    let since = now.rem_euclid(INTERVAL_NANOSECONDS);
    Duration::from_nanos((INTERVAL_NANOSECONDS - since).unsigned_abs())
}

/// Reads a rank's process. `None` if it is gone, or nothing could be read.
pub(crate) fn read(proc: &Path, sys: &Path, target: &Target, time: i64) -> Option<MpiRankScheduling> {
    let folder = proc.join(target.pid.to_string());
    let text = |name: &str| {
        let mut text = String::new();
        let file = std::fs::File::open(folder.join(name)).ok()?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut text).ok()?;
        Some(text)
    };
    let stat = text("stat")?;
    let field = |number: usize| stat_fields(&stat)?.nth(number)?.parse::<u64>().ok();
    if target.start_ticks.is_some() && field(START) != target.start_ticks {
        return None;
    }
    let ticks = field(UTIME).zip(field(UTIME + 1)).map(|(user, system)| user.saturating_add(system));
    let schedstat = text("schedstat").as_deref().and_then(runqueue_wait);
    let switches = text("status").as_deref().and_then(involuntary_switches);
    let reading = MpiRankScheduling {
        time,
        epoch: target.epoch,
        job_key: target.job_key.clone(),
        rank: target.rank,
        cpu_nanoseconds: ticks.and_then(nanoseconds),
        runqueue_wait_nanoseconds: schedstat,
        involuntary_switches: switches,
        // An idle CPU clocks down: of a rank that sleeps it says nothing.
        cpu_hertz: field(PROCESSOR).filter(|_| is_running(&stat)).and_then(|cpu| hertz(sys, cpu)),
    };
    let is_known = ticks.is_some() || schedstat.is_some() || switches.is_some();
    is_known.then_some(reading)
}

fn is_running(stat: &str) -> bool {
    stat_fields(stat).and_then(|mut fields| fields.nth(STATE)) == Some("R")
}

/// Clock of a CPU now. Most virtual machines and some kernels do not say it.
fn hertz(sys: &Path, cpu: u64) -> Option<u64> {
    let file = sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
    let kilohertz: u64 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    kilohertz.checked_mul(1000).filter(|hertz| *hertz > 0)
}

/// Clock ticks in nanoseconds.
fn nanoseconds(ticks: u64) -> Option<u64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let per_second = u64::try_from(per_second).ok().filter(|ticks| *ticks > 0)?;
    ticks.checked_mul(1_000_000_000 / per_second)
}

/// The second of the three numbers of `/proc/PID/schedstat`. A kernel without CONFIG_SCHED_INFO has zeros only.
fn runqueue_wait(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split_whitespace();
    let (ran, waited, slices) = (numbers.next()?, numbers.next()?.parse().ok()?, numbers.next()?);
    ((ran, slices) != ("0", "0")).then_some(waited)
}

fn involuntary_switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pid: u32, start_ticks: Option<u64>) -> Target {
        Target { job_key: "slurm:1".into(), rank: 3, epoch: 5, pid, start_ticks }
    }

    fn folder(stat: &str, schedstat: &str, status: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("7")).unwrap();
        for (name, text) in [("stat", stat), ("schedstat", schedstat), ("status", status)] {
            std::fs::write(proc.path().join("7").join(name), text).unwrap();
        }
        proc
    }

    const STAT: &str = "7 (a) b) R 1 7 7 0 -1 0 1 0 0 0 150 50 9 9 20 0 1 0 8765 1000 10";

    #[test]
    fn what_the_kernel_counted() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t41\n";
        let proc = folder(STAT, "1500000000 2500000000 77\n", status);
        let reading = read(proc.path(), Path::new("/nowhere"), &target(7, Some(8765)), 9).unwrap();
        let ticks = u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap());
        assert_eq!(reading.cpu_nanoseconds, Some(200 * (1_000_000_000 / ticks.unwrap())));
        assert_eq!(reading.runqueue_wait_nanoseconds, Some(2_500_000_000));
        assert_eq!(reading.involuntary_switches, Some(41));
        assert_eq!((reading.rank, reading.epoch, reading.time), (3, 5, 9));
        assert_eq!(
            read(proc.path(), Path::new("/nowhere"), &target(7, Some(8766)), 9),
            None,
            "another process of that id"
        );
        assert_eq!(read(proc.path(), Path::new("/nowhere"), &target(8, None), 9), None, "none");
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let proc = folder(STAT, "0 0 0\n", "Name:\ta\n");
        let reading = read(proc.path(), Path::new("/nowhere"), &target(7, None), 9).unwrap();
        assert_eq!((reading.runqueue_wait_nanoseconds, reading.involuntary_switches), (None, None));
        // A kernel that counts, and a process that never waited.
        assert_eq!(runqueue_wait("5 0 1"), Some(0));
        assert_eq!(read(folder("", "", "").path(), Path::new("/nowhere"), &target(7, None), 9), None);
    }

    #[test]
    fn the_clock_is_that_of_the_cpu_it_runs_on() {
        let sys = tempfile::tempdir().unwrap();
        let folder_of_cpu = sys.path().join("devices/system/cpu/cpu5/cpufreq");
        std::fs::create_dir_all(&folder_of_cpu).unwrap();
        std::fs::write(folder_of_cpu.join("scaling_cur_freq"), "2450000\n").unwrap();
        let stat = |state: &str, cpu: u32| {
            format!(
                "7 (a) {state} 1 7 7 0 -1 0 1 0 0 0 150 50 9 9 20 0 1 0 8765 1000 10 1 1 1 1 1 1 1 1 1 1 1 1 1 17 {cpu} 0 0"
            )
        };
        let of = |stat: String| {
            let proc = folder(&stat, "1 1 1\n", "");
            read(proc.path(), sys.path(), &target(7, None), 9).unwrap().cpu_hertz
        };
        assert_eq!(of(stat("R", 5)), Some(2_450_000_000));
        assert_eq!(of(stat("S", 5)), None, "its CPU may be idle");
        assert_eq!(of(stat("R", 6)), None, "the kernel does not say");
    }

    #[test]
    fn this_process_has_run() {
        let own = std::process::id();
        let reading = read(
            Path::new("/proc"),
            Path::new("/sys"),
            &target(own, crate::process::start_of(Path::new("/proc"), own)),
            9,
        );
        assert!(reading.unwrap().cpu_nanoseconds.is_some());
    }
}
