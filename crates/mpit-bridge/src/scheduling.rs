//! What the kernel counts of a rank's process: processor time, time on a run queue, involuntary switches. Cumulative, as read. And the
//! clock of the CPU that it runs on, at that moment, and where the time of the thread went that called `MPI_Init`.
//!
//! Three small files of `/proc` and one of `/sys` a reading. Nothing in the rank takes part, and what can't be read is absent.

use crate::member::RankKey;
use crate::moment::Moment;
use crate::process::{FILE_BYTES_MAX, stat_fields};
use crate::rank_account::{KernelReading, RankAccount};
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_sample::wire::MpiRankScheduling;

/// How often each rank is read, at whole multiples in UTC: three readings of a rank take less than 0.1 ms, and what a process
/// did in the last minute needs a few.
const INTERVAL_NANOSECONDS: i64 = 10_000_000_000;

/// Field of `/proc/PID/stat` behind the command: user time in clock ticks; system time follows, the start is the eighth after.
const STATE: usize = 0;
const UTIME: usize = 11;
const START: usize = 19;
/// The CPU that it ran on last.
const PROCESSOR: usize = 36;

/// A rank whose process is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub job_key: String,
    pub rank: u32,
    /// Its epoch, in its records, and as it said itself.
    pub epoch: i64,
    pub said_epoch: i64,
    pub pid: u32,
    /// Start of its process in clock ticks since boot: another one may have been given its id.
    pub start_ticks: Option<u64>,
}

/// Time from a moment in UTC nanoseconds to the next reading of all ranks.
pub(crate) fn until_reading(now: i64) -> Duration {
    let since = now.rem_euclid(INTERVAL_NANOSECONDS);
    Duration::from_nanos((INTERVAL_NANOSECONDS - since).unsigned_abs())
}

impl Target {
    pub(crate) fn key(&self) -> RankKey {
        RankKey { pid: self.pid, start_ticks: self.start_ticks, epoch: self.said_epoch }
    }
}

pub(crate) fn text(file: PathBuf) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(file).ok()?;
    std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut text).ok()?;
    Some(text)
}

/// The folder of a thread, as far as it is known which one is meant: else that of its process, which has the first one's figures.
fn folder_of(proc: &Path, pid: u32, task: Option<u32>) -> PathBuf {
    let process = proc.join(pid.to_string());
    match task.filter(|task| *task != pid) {
        Some(task) => process.join("task").join(task.to_string()),
        None => process,
    }
}

/// The thread of a process that sees itself as `own_pid`, and this thread as `tid`, by its id here.
pub(crate) fn task_of(proc: &Path, pid: u32, own_pid: u32, tid: u32) -> Option<u32> {
    if tid == own_pid {
        return Some(pid);
    }
    let tasks = proc.join(pid.to_string()).join("task");
    if own_pid == pid {
        return tasks.join(tid.to_string()).exists().then_some(tid);
    }
    // Of a PID namespace: the last number is the innermost one's.
    let is_it = |task: &u32| {
        let status = text(tasks.join(task.to_string()).join("status"));
        let line =
            status.as_deref().and_then(|status| status.lines().find_map(|line| line.strip_prefix("NSpid:")));
        line.and_then(|ids| ids.split_whitespace().last()?.parse::<u32>().ok()) == Some(tid)
    };
    let all = std::fs::read_dir(&tasks).ok()?;
    all.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).find(is_it)
}

/// What a rank's thread is in: its state, and the kernel function that it waits in where that may be read.
pub(crate) fn state(proc: &Path, pid: u32, task: Option<u32>) -> Option<(u8, String)> {
    let folder = folder_of(proc, pid, task);
    let state = *state_of(&text(folder.join("stat"))?)?.as_bytes().first()?;
    let channel = if state == b'R' { None } else { text(folder.join("wchan")) };
    Some((state, channel.unwrap_or_default()))
}

fn state_of(stat: &str) -> Option<&str> {
    stat_fields(stat)?.nth(STATE)
}

/// Reads a rank's process. `None` if it is gone, or nothing could be read.
pub(crate) fn read(
    proc: &Path,
    sys: &Path,
    target: &Target,
    now: Moment,
    account: Option<&RankAccount>,
    throttled: Option<u64>,
) -> Option<MpiRankScheduling> {
    let task = account.and_then(|account| account.task);
    let stat = text(folder_of(proc, target.pid, None).join("stat"))?;
    let thread = folder_of(proc, target.pid, task);
    let field = |number: usize| stat_fields(&stat)?.nth(number)?.parse::<u64>().ok();
    if target.start_ticks.is_some() && field(START) != target.start_ticks {
        return None;
    }
    let ticks = field(UTIME).zip(field(UTIME + 1)).map(|(user, system)| user.saturating_add(system));
    let of_thread = text(thread.join("schedstat")).as_deref().and_then(schedstat);
    let schedstat = of_thread.map(|(_, waited)| waited);
    let switches = text(thread.join("status")).as_deref().and_then(involuntary_switches);
    let own_stat = task.filter(|task| *task != target.pid).and_then(|_| text(thread.join("stat")));
    let state = *state_of(own_stat.as_deref().unwrap_or(&stat))?.as_bytes().first()?;
    let kernel = of_thread.map(|(cpu, queued)| KernelReading { time: now.monotonic, cpu, queued, state });
    // Where the thread is not known, neither is what it did since its own reading.
    let sums = account.map(|account| account.at(kernel.filter(|_| task.is_some())));
    let samples = account.map(|account| account.samples).unwrap_or_default();
    let reading = MpiRankScheduling {
        time: now.utc,
        epoch: target.epoch,
        job_key: target.job_key.clone(),
        rank: target.rank,
        cpu_nanoseconds: ticks.and_then(nanoseconds),
        runqueue_wait_nanoseconds: schedstat,
        involuntary_switches: switches,
        // An idle CPU clocks down: of a rank that sleeps it says nothing.
        cpu_hertz: field(PROCESSOR).filter(|_| state_of(&stat) == Some("R")).and_then(|cpu| hertz(sys, cpu)),
        elapsed_nanoseconds: sums.map(|sums| sums.elapsed),
        mpi_nanoseconds: sums.map(|sums| sums.in_mpi),
        off_outside_nanoseconds: sums.map(|sums| sums.off_outside),
        queued_outside_nanoseconds: sums.map(|sums| sums.queued_outside),
        off_inside_nanoseconds: sums.map(|sums| sums.off_inside),
        queued_inside_nanoseconds: sums.map(|sums| sums.queued_inside),
        file_samples: samples.file,
        sleep_samples: samples.sleep,
        lock_samples: samples.lock,
        stopped_samples: samples.stopped,
        other_samples: samples.other,
        is_stopped: matches!(state, b'T' | b't'),
        throttled_nanoseconds: throttled.filter(|_| account.is_some()),
    };
    let is_known = ticks.is_some() || schedstat.is_some() || switches.is_some();
    is_known.then_some(reading)
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

/// The first two of the three numbers of a schedstat: how long a thread ran, and how long it waited for a processor. A kernel without
/// CONFIG_SCHED_INFO has zeros only.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace();
    let (ran, waited, slices) = (numbers.next()?, numbers.next()?.parse().ok()?, numbers.next()?);
    if (ran, slices) == ("0", "0") { None } else { Some((ran.parse().ok()?, waited)) }
}

fn involuntary_switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account_frame::Account;
    use crate::rank_account::OffSamples;

    fn target(pid: u32, start_ticks: Option<u64>) -> Target {
        Target { job_key: "slurm:1".into(), rank: 3, epoch: 5, said_epoch: 5, pid, start_ticks }
    }

    fn folder(stat: &str, schedstat: &str, status: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("7")).unwrap();
        for (name, text) in [("stat", stat), ("schedstat", schedstat), ("status", status)] {
            std::fs::write(proc.path().join("7").join(name), text).unwrap();
        }
        proc
    }

    const NOW: Moment = Moment { monotonic: 20_000_000_000, utc: 9 };

    const STAT: &str = "7 (a) b) R 1 7 7 0 -1 0 1 0 0 0 150 50 9 9 20 0 1 0 8765 1000 10";

    #[test]
    fn what_the_kernel_counted() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t41\n";
        let proc = folder(STAT, "1500000000 2500000000 77\n", status);
        let reading =
            read(proc.path(), Path::new("/nowhere"), &target(7, Some(8765)), NOW, None, None).unwrap();
        let ticks = u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap());
        assert_eq!(reading.cpu_nanoseconds, Some(200 * (1_000_000_000 / ticks.unwrap())));
        assert_eq!(reading.runqueue_wait_nanoseconds, Some(2_500_000_000));
        assert_eq!(reading.involuntary_switches, Some(41));
        assert_eq!((reading.rank, reading.epoch, reading.time), (3, 5, 9));
        assert_eq!(
            read(proc.path(), Path::new("/nowhere"), &target(7, Some(8766)), NOW, None, None),
            None,
            "another process of that id"
        );
        assert_eq!(read(proc.path(), Path::new("/nowhere"), &target(8, None), NOW, None, None), None, "none");
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let proc = folder(STAT, "0 0 0\n", "Name:\ta\n");
        let reading = read(proc.path(), Path::new("/nowhere"), &target(7, None), NOW, None, None).unwrap();
        assert_eq!((reading.runqueue_wait_nanoseconds, reading.involuntary_switches), (None, None));
        // A kernel that counts, and a process that never waited.
        assert_eq!(schedstat("5 0 1"), Some((5, 0)));
        assert_eq!(
            read(folder("", "", "").path(), Path::new("/nowhere"), &target(7, None), NOW, None, None),
            None
        );
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
            read(proc.path(), sys.path(), &target(7, None), NOW, None, None).unwrap().cpu_hertz
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
            NOW,
            None,
            None,
        );
        assert!(reading.unwrap().cpu_nanoseconds.is_some());
    }

    #[test]
    fn the_thread_that_called_init() {
        let proc = folder(STAT, "1500000000 2500000000 77\n", "");
        let thread = proc.path().join("7/task/9");
        std::fs::create_dir_all(&thread).unwrap();
        let files = [
            ("stat", STAT.replace("7 (a) b) R", "9 (a) b) T")),
            ("schedstat", "103000000000 50500000000 7\n".into()),
            ("status", "NSpid:\t9\t3\nnonvoluntary_ctxt_switches:\t5\n".into()),
            ("wchan", "do_signal_stop".into()),
        ];
        files.iter().for_each(|(name, text)| std::fs::write(thread.join(name), text).unwrap());
        assert_eq!(task_of(proc.path(), 7, 2, 3), Some(9), "of a PID namespace");
        assert_eq!((task_of(proc.path(), 7, 2, 2), task_of(proc.path(), 7, 7, 9)), (Some(7), Some(9)));
        assert_eq!((task_of(proc.path(), 7, 2, 4), task_of(proc.path(), 7, 7, 8)), (None, None));
        assert_eq!(state(proc.path(), 7, Some(9)), Some((b'T', "do_signal_stop".into())));
        let reported = Account {
            began: 10_000_000_000,
            time: 15_000_000_000,
            read_time: 15_000_000_000,
            read_cpu: 102_000_000_000,
            read_queued: 50_000_000_000,
            ..Account::default()
        };
        let account = RankAccount {
            reported,
            task: Some(9),
            samples: OffSamples { stopped: 3, ..OffSamples::default() },
            is_stopped: true,
            recorded: 0,
        };
        let reading =
            read(proc.path(), Path::new("/nowhere"), &target(7, None), NOW, Some(&account), Some(7)).unwrap();
        assert_eq!((reading.elapsed_nanoseconds, reading.mpi_nanoseconds), (Some(10_000_000_000), Some(0)));
        assert_eq!(reading.off_outside_nanoseconds, Some(4_000_000_000), "it ran for one of five seconds");
        assert_eq!(reading.queued_outside_nanoseconds, Some(500_000_000));
        assert_eq!(
            (reading.is_stopped, reading.stopped_samples, reading.involuntary_switches),
            (true, 3, Some(5))
        );
        let nobody = RankAccount { task: None, ..account };
        let reading =
            read(proc.path(), Path::new("/nowhere"), &target(7, None), NOW, Some(&nobody), None).unwrap();
        assert_eq!(reading.off_outside_nanoseconds, Some(0), "its thread is not known");
    }
}
