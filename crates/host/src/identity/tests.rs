//! Identity from trees of `/proc` and control groups made for each test, and of this very process.

use super::*;

/// A `/proc` and a control group root with processes.
struct Kernel {
    folder: tempfile::TempDir,
}

impl Kernel {
    fn new() -> Self {
        let kernel = Self { folder: tempfile::tempdir().unwrap() };
        kernel.write("proc/stat", "cpu 1 2 3\nbtime 1790000000\n");
        kernel
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, session: u32, start_ticks: u64, cgroup: &str) {
        let stat =
            format!("{pid} (rank) S 1 {pid} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 0 0\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/status"), "Name:\trank\nUid:\t1000\t1000\t1000\t1000\n");
        self.write(&format!("proc/{pid}/cgroup"), cgroup);
    }

    fn roots(&self) -> Roots {
        Roots { proc: self.folder.path().join("proc"), cgroup: self.folder.path().join("cgroup") }
    }
}

const IN_SLURM: &str = "0::/system.slice/slurmstepd.scope/job_4711/step_3/user/task_0\n";

#[test]
fn a_scheduled_job_is_in_the_control_group() {
    let kernel = Kernel::new();
    kernel.process(50, 50, 12_300, IN_SLURM);
    let identity = identify(&kernel.roots(), 50).unwrap();
    assert_eq!((identity.scheduler, identity.job_id.as_deref()), (Some(Scheduler::Slurm), Some("4711")));
    assert_eq!((identity.uid, identity.session, identity.command.as_str()), (1000, 50, "rank"));
    assert_eq!(identity.step.as_deref(), Some("3"));
}

#[test]
fn without_a_scheduler_there_is_the_session() {
    let kernel = Kernel::new();
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap().unsigned_abs();
    kernel.process(40, 40, 100 * ticks, "0::/user.slice/user-1000.slice/session-5.scope\n");
    kernel.process(50, 40, 200 * ticks, "0::/user.slice/user-1000.slice/session-5.scope\n");
    kernel.process(60, 41, 300 * ticks, "0::/user.slice/user-1000.slice/session-5.scope\n");
    let identity = identify(&kernel.roots(), 50).unwrap();
    assert_eq!((identity.scheduler, identity.session), (None, 40));
    assert_eq!(identity.session_start_time, Some(1_790_000_100_000_000_000));
    assert_eq!(identity.start_time, Some(1_790_000_200_000_000_000));
    assert_eq!(identity.login_session.as_deref(), Some("5"));
    // The leader of session 41 has ended: the process's own start stands for it.
    let orphan = identify(&kernel.roots(), 60).unwrap();
    assert_eq!((orphan.session, orphan.session_start_time), (41, Some(1_790_000_300_000_000_000)));
}

#[test]
fn a_claim_is_held_against_the_kernel() {
    let kernel = Kernel::new();
    kernel.process(50, 50, 1, IN_SLURM);
    kernel.process(51, 51, 1, "3:cpuset:/pbs_jobs.service/jobid/12.head\n");
    kernel.process(52, 52, 1, "0::/user.slice\n");
    kernel.process(53, 53, 1, "0::/kubepods/pod8a3c0f9e-1b2d-4c5e-8f70-112233445566/x\n");
    let says =
        |pid, scheduler, id, step| identify(&kernel.roots(), pid).unwrap().agrees_with(scheduler, id, step);
    assert_eq!(says(50, Scheduler::Slurm, "4711", Some("3")), ClaimAgreement::Agrees);
    assert_eq!(says(50, Scheduler::Slurm, "4711", None), ClaimAgreement::Agrees);
    assert_eq!(says(50, Scheduler::Slurm, "4711", Some("4")), ClaimAgreement::Contradicts);
    assert_eq!(says(50, Scheduler::Slurm, "4712", Some("3")), ClaimAgreement::Contradicts);
    assert_eq!(says(50, Scheduler::Pbs, "4711", None), ClaimAgreement::Contradicts);
    assert_eq!(says(51, Scheduler::Pbs, "12", None), ClaimAgreement::Agrees);
    assert_eq!(says(52, Scheduler::Slurm, "1", None), ClaimAgreement::NotKnown);
    assert_eq!(says(53, Scheduler::Slurm, "1", None), ClaimAgreement::NotKnown);
}

#[test]
fn this_process_is_known_from_the_real_kernel() {
    let pid = std::process::id();
    let identity = identify(&Roots::default(), pid).unwrap();
    assert_eq!(identity.uid, nix::unistd::getuid().as_raw());
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
    // btime has whole seconds, and a container's clock may be a little off its host's boot time.
    let start = identity.start_time.unwrap();
    assert!(start < now + 5_000_000_000, "{start} {now}");
}
