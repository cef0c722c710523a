//! Gives the GPUs' performance monitors to users' profilers: watches the node's processes on a thread of its own, as a look may
//! wait for the kernel, and names to the source of CUPTI who profiles.

use crate::privileges::HiddenProcesses;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_gpu::cupti::Profiling;
use throughline_host::profilers::{Look, Profiler, ProfilerWatch};
use throughline_host::{JobIdentity, Roots, identify};

/// From one look to the next: with a reaction of the source and an end of its sampler, a profiler has the GPUs within a second.
const LOOK: Duration = Duration::from_millis(500);
/// How long after the last sign of a profiler sampling begins again: many are started one after the other.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// A look that takes longer than this does not protect anybody.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// What is known of the watch.
#[derive(Debug)]
struct Known {
    look: Option<Look>,
    problem: Option<String>,
    at: Instant,
}

/// What people should know of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Processes that it can't look into; absent before the first look.
    pub unwatched: Option<usize>,
    /// What it does not see, each with the remedy.
    pub gaps: Vec<String>,
}

/// The watch. Dropping it ends it, or leaves it to itself where the kernel holds it.
pub struct Watcher {
    known: Arc<Mutex<Known>>,
    hidden: HiddenProcesses,
    proc: PathBuf,
    _stop: Sender<()>,
}

impl Watcher {
    /// Begins to look at the processes under this root of `/proc`, and notes in `profiling` who profiles.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(roots: Roots, profiling: Profiling) -> io::Result<Self> {
        let proc = roots.proc.clone();
        let known = Arc::new(Mutex::new(Known { look: None, problem: None, at: Instant::now() }));
        let (stop, stopped) = channel();
        let (watch, shared) = (ProfilerWatch::new(&proc), Arc::clone(&known));
        let mut watched = Watched { watch, profiling, sighting: None, roots };
        std::thread::Builder::new().name("profilers".to_owned()).spawn(move || {
            loop {
                let begin = Instant::now();
                watched.look(&shared);
                let left = LOOK.saturating_sub(begin.elapsed());
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { known, hidden: HiddenProcesses::new(&proc), proc, _stop: stop })
    }

    /// What it sees and what not.
    pub fn coverage(&self) -> Coverage {
        let known = lock(&self.known);
        let mut gaps = known.look.as_ref().map_or_else(Vec::new, |look| gaps(look, &self.hidden, &self.proc));
        gaps.extend(known.problem.clone());
        let silent = known.at.elapsed();
        if silent > STUCK_AFTER {
            let seconds = silent.as_secs();
            gaps.push(format!(
                "the kernel has held the look at processes for {seconds} s: no profiler is noticed"
            ));
        }
        Coverage { unwatched: known.look.as_ref().map(|look| look.unreadable), gaps }
    }
}

/// One look, for a person: who profiles now, and what is not seen.
///
/// # Errors
/// When the processes can't be listed.
pub fn once(proc: &Path) -> io::Result<(Look, Vec<String>)> {
    let mut watch = ProfilerWatch::new(proc);
    let mut look = watch.look()?;
    while look.waiting > 0 {
        look = watch.look()?;
    }
    let gaps = gaps(&look, &HiddenProcesses::new(proc), proc);
    Ok((look, gaps))
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the watch can't see, each with the remedy.
fn gaps(look: &Look, hidden: &HiddenProcesses, proc: &Path) -> Vec<String> {
    let mut gaps = Vec::new();
    if look.unreadable > 0 {
        gaps.push(format!(
            "{} of {} processes can't be looked into, so a profiler in them is noticed by its program's name only; give \
             the agent CAP_SYS_PTRACE, as its unit does",
            look.unreadable, look.processes
        ));
    }
    if hidden.is_so() {
        let proc = proc.display();
        gaps.push(format!(
            "{proc} hides other users' processes (hidepid), so their profilers are not noticed; give the agent \
             CAP_SYS_PTRACE, as its unit does"
        ));
    } else if !is_of_the_whole_node(proc) {
        let proc = proc.display();
        gaps.push(format!(
            "{proc} has the processes of one container only, so profilers elsewhere on the node are not noticed; run \
             the agent in the node's PID namespace, or set proc.root to the node's /proc"
        ));
    }
    gaps
}

/// Whether the kernel's own threads are there: no container has them, and their parent's process id is always 2.
fn is_of_the_whole_node(proc: &Path) -> bool {
    std::fs::read_to_string(proc.join("2/comm")).is_ok_and(|name| name.trim_end() == "kthreadd")
}

/// What the thread has.
struct Watched {
    watch: ProfilerWatch,
    profiling: Profiling,
    sighting: Option<Sighting>,
    roots: Roots,
}

/// A profiler that was seen.
struct Sighting {
    /// Who, for people.
    who: String,
    /// When it was last seen.
    last: Instant,
}

impl Watched {
    fn look(&mut self, known: &Mutex<Known>) {
        let looked = self.watch.look();
        let now = Instant::now();
        let seen = looked.as_ref().ok().and_then(|look| Some((look.profilers.first()?, look.count)));
        let roots = &self.roots;
        let describe = || seen.map(|(first, count)| said_of(first, count, roots));
        self.sighting = next(self.sighting.take(), seen.is_some(), describe, now);
        self.profiling.set(self.sighting.as_ref().map(|sighting| sighting.who.clone()));
        let mut known = lock(known);
        known.at = now;
        known.problem = looked.as_ref().err().map(|error| {
            format!("the node's processes can't be listed ({error}), so no profiler is noticed")
        });
        known.look = looked.ok().or(known.look.take());
    }
}

/// The sighting after a look. The first profiler of it is named until there has been none for a while.
fn next(
    before: Option<Sighting>,
    is_seen: bool,
    describe: impl FnOnce() -> Option<String>,
    now: Instant,
) -> Option<Sighting> {
    match (before, is_seen) {
        (Some(before), true) => Some(Sighting { last: now, ..before }),
        (Some(before), false) => (now.saturating_duration_since(before.last) < GONE_AFTER).then_some(before),
        (None, _) => describe().map(|who| Sighting { who, last: now }),
    }
}

/// Who profiles: program, process, user, job and the sign.
fn said_of(profiler: &Profiler, count: usize, roots: &Roots) -> String {
    let Profiler { pid, uid, command, sign } = profiler;
    // Names are their users': no control characters in logs and events.
    let plain = |text: &str| text.replace(char::is_control, "?");
    let job = identify(roots, *pid).ok().and_then(|identity| job_of(&identity));
    let job = job.map_or_else(String::new, |job| format!(", {job}"));
    let how = if sign == command { "runs".to_owned() } else { format!("has {} in memory", plain(sign)) };
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    format!(
        "{} profiles: process {pid} of user {uid}{job} {how}{more}; the GPUs are its own until {} s after its end",
        plain(command),
        GONE_AFTER.as_secs()
    )
}

fn job_of(identity: &JobIdentity) -> Option<String> {
    let scheduler = identity.scheduler?.name();
    let id = identity.job_id.as_ref().or(identity.sluid.as_ref())?;
    Some(format!("job {id} of {scheduler}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_is_there_until_two_seconds_after_its_last_sign() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let says = |who: &str| {
            let who = who.to_owned();
            move || Some(who)
        };
        assert!(next(None, false, || None, begin).is_none());
        let sighting = next(None, true, says("ncu"), at(0));
        let sighting = next(sighting, true, says("nsys"), at(500));
        let sighting = next(sighting, false, || None, at(1000));
        let sighting = next(sighting, false, || None, at(2400));
        assert_eq!(sighting.as_ref().unwrap().who, "ncu");
        assert!(next(sighting, false, || None, at(2500)).is_none());
    }

    #[test]
    fn who_profiles_is_named_with_the_job() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("42");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("stat"), "42 (app) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 1 2")
            .unwrap();
        std::fs::write(folder.join("status"), "Name:\tapp\nUid:\t1000\t1000\t1000\t1000\n").unwrap();
        std::fs::write(
            folder.join("cgroup"),
            "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
        )
        .unwrap();
        let profiler = |command: &str, sign: &str| Profiler {
            pid: 42,
            uid: 1000,
            command: command.to_owned(),
            sign: sign.to_owned(),
        };
        let roots = |proc: &Path| Roots { proc: proc.to_owned(), ..Roots::default() };
        let said = said_of(&profiler("a\u{1b}p", "libnvperf_host.so"), 3, &roots(proc.path()));
        let begin = "a?p profiles: process 42 of user 1000, job 4711 of slurm has libnvperf_host.so in memory (and 2 more);";
        assert!(said.starts_with(begin), "{said}");
        let said = said_of(&profiler("ncu", "ncu"), 1, &roots(Path::new("/nowhere")));
        assert!(said.starts_with("ncu profiles: process 42 of user 1000 runs;"), "{said}");
    }

    #[test]
    fn what_is_not_seen_is_a_gap_with_the_remedy() {
        let proc = tempfile::tempdir().unwrap();
        let put = |process: &str, comm: &str| {
            std::fs::create_dir_all(proc.path().join(process)).unwrap();
            std::fs::write(proc.path().join(process).join("comm"), comm).unwrap();
            std::fs::write(proc.path().join(process).join("stat"), "1").unwrap();
        };
        let all = Look { processes: 9, ..Look::default() };
        let of = |look: &Look| gaps(look, &HiddenProcesses::new(proc.path()), proc.path());
        put("self", "x");
        put("1", "systemd");
        put("2", "kthreadd\n");
        assert_eq!(of(&all), Vec::<String>::new());
        let some = Look { unreadable: 2, ..all.clone() };
        assert!(of(&some)[0].starts_with("2 of 9 processes can't be looked into"));
        put("2", "sh\n");
        assert!(of(&all)[0].contains("one container only"));
    }
}
