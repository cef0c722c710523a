//! What the agent finds out about ranks' jobs, and what it makes of its configuration.

use super::*;
use crate::config::Config as AgentConfig;
use crate::values::VariableName;

/// A folder that has a `/proc` and a `/sys/fs/cgroup`.
struct NodeDouble {
    folder: tempfile::TempDir,
}

impl NodeDouble {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn put(&self, pid: u32, uid: u32, command: &str, cgroup: &str) {
        let stat = format!("{pid} (rank) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n");
        let status = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        for (file, text) in
            [("stat", stat.as_str()), ("status", &status), ("cgroup", cgroup), ("cmdline", command)]
        {
            self.write(&format!("proc/{pid}/{file}"), text);
        }
    }

    /// A slurmstepd, in the group of a step.
    fn put_slurmstepd(&self, pid: u32, title: &str, step: &str) {
        self.put(pid, 0, title, &format!("0::{step}/slurm\n"));
        self.write(&format!("sys/fs/cgroup{step}/slurm/cgroup.procs"), &format!("{pid}\n"));
    }

    /// The kernel's word as the agent has it: with its own configuration.
    fn kernel(&self) -> Kernel {
        let mut config = AgentConfig::default();
        config.proc.root = self.folder.path().join("proc");
        config.sysfs.root = self.folder.path().join("sys");
        config.mpi.slurm_conf = Some(self.folder.path().join("slurm.conf"));
        kernel(roots(&config), config.mpi.slurm_conf_places())
    }
}

fn claim(scheduler: &str, id: &str) -> ScheduledJob {
    ScheduledJob { scheduler: scheduler.into(), id: id.into(), components: 1, ..ScheduledJob::default() }
}

#[test]
fn control_groups_are_held_against_claims() {
    let node = NodeDouble::new();
    let put = |pid, cgroup: &str| node.put(pid, 1, "./a.out", cgroup);
    put(7, "0::/system.slice/slurmstepd.scope/job_5/step_interactive/user/task_0\n");
    put(8, "0::/user.slice/user-1.slice/session-2.scope\n");
    let kernel = node.kernel();
    assert_eq!(kernel.query(7, Some(&claim("slurm", "5"))), Verdict::In(claim("slurm", "5")));
    assert_eq!(kernel.query(7, Some(&claim("slurm", "6"))), Verdict::Contradicts);
    assert_eq!(kernel.query(7, Some(&claim("pbs", "5"))), Verdict::Contradicts);
    assert_eq!(kernel.query(7, Some(&claim("sge", "5"))), Verdict::Unknown);
    // The second component of a heterogeneous job that began with job 4.
    let component = ScheduledJob { components: 2, ..claim("slurm", "4") };
    assert_eq!(kernel.query(7, Some(&component)), Verdict::Confirms);
    assert_eq!(kernel.query(7, None), Verdict::In(claim("slurm", "5")));
    for pid in [8, 9] {
        assert_eq!(kernel.query(pid, Some(&claim("slurm", "6"))), Verdict::Unknown);
        assert_eq!(kernel.query(pid, None), Verdict::Unknown);
    }
    put(10, "0::/lsf/cluster/job.77.4242.1790000000\n");
    assert_eq!(kernel.query(10, Some(&claim("lsf", "77[3]"))), Verdict::Confirms);
    assert_eq!(kernel.query(10, Some(&claim("lsf", "78"))), Verdict::Contradicts);
    put(11, "0::/system.slice/imp-shell-0-\u{192}2oLkTLb.service\n");
    assert_eq!(kernel.query(11, Some(&claim("flux", "f2oLkTLb"))), Verdict::Confirms);
    assert_eq!(kernel.query(11, Some(&claim("flux", "f3"))), Verdict::Unknown, "of a nested instance");
    assert_eq!(kernel.query(11, Some(&claim("sge", "5"))), Verdict::Unknown);
}

const STEP: &str = "/system.slice/n1_slurmstepd.scope/s1N9M8EM2AVH00/step_0";

/// The task of a 26.05 step as it was recorded, and claims of it.
#[test]
fn a_run_of_slurm_is_confirmed_by_its_sluid_and_by_slurmstepd() {
    let node = NodeDouble::new();
    node.put(7, 2001, "./a.out", &format!("0::{STEP}/user/task_special\n"));
    let of_run = ScheduledJob { sluid: Some("s1N9M8EM2AVH00".into()), ..claim("slurm", "40") };
    let known = ScheduledJob { step: Some("0".into()), cluster: Some("demo".into()), ..of_run.clone() };
    let unnumbered = ScheduledJob { id: String::new(), ..known.clone() };
    let kernel = node.kernel();
    // Nobody says the number but the rank.
    assert_eq!(kernel.query(7, Some(&known)), Verdict::In(unnumbered.clone()));
    let other_run = ScheduledJob { sluid: Some("s1N9M8EM2KPW00".into()), ..known.clone() };
    assert_eq!(kernel.query(7, Some(&other_run)), Verdict::Contradicts, "an earlier run of the job");
    node.put_slurmstepd(9, "slurmstepd-wlm: [40.0]   ", STEP);
    assert_eq!(kernel.query(7, Some(&known)), Verdict::In(known.clone()));
    let other_number = ScheduledJob { id: "41".into(), ..known.clone() };
    assert_eq!(kernel.query(7, Some(&other_number)), Verdict::Contradicts);
    let without = ScheduledJob { cluster: None, ..known.clone() };
    assert_eq!(kernel.query(7, None), Verdict::In(without), "variables that were taken away hide nothing");
    // The step is the control group's; a task's number within it is the rank's own word.
    let step = |step: &str| ScheduledJob { step: Some(step.into()), ..known.clone() };
    assert_eq!(kernel.query(7, Some(&step("5"))), Verdict::In(known.clone()));
    assert_eq!(kernel.query(7, Some(&step("0.3"))), Verdict::In(step("0.3")));
    // The leader's number is what all ranks of a heterogeneous job have in common.
    let component = ScheduledJob { id: "39".into(), components: 2, ..known.clone() };
    assert_eq!(kernel.query(7, Some(&component)), Verdict::Confirms);
    assert_eq!(kernel.query(7, Some(&ScheduledJob { components: 1, ..component })), Verdict::Contradicts);
}

#[test]
fn the_cluster_is_that_of_slurm_conf() {
    let node = NodeDouble::new();
    assert_eq!(node.kernel().cluster(), None);
    let kernel = node.kernel();
    node.write("slurm.conf", "ClusterName=Demo\n");
    assert_eq!(kernel.cluster().as_deref(), Some("demo"), "slurmd may have got it after the agent started");
    let places = Mpi::default().slurm_conf_places();
    assert_eq!(places.first(), Some(&PathBuf::from("/etc/slurm/slurm.conf")));
}

#[test]
fn shims_receive_what_is_configured() {
    let mut settings = Mpi::default();
    assert_eq!(welcome(&settings).variables, None);
    assert_eq!(
        (welcome(&settings).bin_milliseconds, welcome(&settings).push_milliseconds),
        (Some(100), Some(1000))
    );
    settings.pvars = VariableName::new("a").ok().map(|name| vec![name]);
    settings.connections_max = 1;
    assert_eq!(welcome(&settings).variables, Some(vec!["a".to_owned()]));
    settings.quota.accept_future_seconds = Duration::from_secs(7).into();
    let limits = limits(&settings);
    assert_eq!((limits.connections, limits.window.future), (1, Duration::from_secs(7)));
}

#[test]
fn programs_being_loaded_find_out_whether_the_wire_matrix_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mpi.sock");
    let mark = folder.path().join("mpi.sock.wire");
    mark_wire(&socket, true);
    assert!(mark.exists());
    mark_wire(&socket, false);
    mark_wire(&socket, false);
    assert!(!mark.exists());
    assert_eq!(welcome(&Mpi { wire: true, ..Mpi::default() }).wire, Some(true));
    assert_eq!(welcome(&Mpi::default()).wire, None);
}

#[test]
fn a_new_run_folder_lets_ranks_in_and_a_sites_own_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    make_run_dir(&run).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&run), 0o755);
    std::fs::set_permissions(&run, Permissions::from_mode(0o750)).unwrap();
    make_run_dir(&run).unwrap();
    assert_eq!(mode(&run), 0o750);
}

#[test]
fn errors_of_the_socket_have_their_status() {
    let in_use = failure(BindError::InUse("/x/mpi.sock".into()));
    assert_eq!(in_use.status, ExitStatus::Unavailable);
    assert!(in_use.to_string().contains("/x/mpi.sock") && in_use.to_string().contains("mpi.socket"));
    let denied = BindError::System {
        path: "/x".into(),
        action: "bind",
        source: std::io::ErrorKind::PermissionDenied.into(),
    };
    assert_eq!(failure(denied).status, ExitStatus::Permission);
}
