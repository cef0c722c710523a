//! Recorded control groups of three releases, as trees of `/proc` and `/sys/fs/cgroup` of each test's own.

use super::*;
use crate::identity::{JobIdentity, Scheduler, identify};
use std::fs;

const RELEASES: [&str; 3] = [
    include_str!("../../tests/slurm/22.05.txt"),
    include_str!("../../tests/slurm/25.11.txt"),
    include_str!("../../tests/slurm/26.05.txt"),
];
const SLURMSTEPD: &str = include_str!("../../tests/slurm/26.05-slurmstepd.txt");
const TASK: u32 = 70_000;

struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn roots(&self) -> Roots {
        Roots { proc: self.folder.path().join("proc"), cgroup: self.folder.path().join("sys/fs/cgroup") }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process in a control group of version 2.
    fn process(&self, pid: u32, uid: u32, command: &str, group: &str) {
        let stat = format!("{pid} (x) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"));
        self.write(&format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
        self.write(&format!("proc/{pid}/cmdline"), command);
        let procs = format!("sys/fs/cgroup{group}/cgroup.procs");
        let before = fs::read_to_string(self.folder.path().join(&procs)).unwrap_or_default();
        self.write(&procs, &format!("{before}{pid}\n"));
    }

    /// The recorded processes named slurmstepd.
    fn with_recorded() -> Self {
        let node = Self::new();
        for line in SLURMSTEPD.lines().filter(|line| line.contains(" uid 0 ")) {
            let pid = line.split(' ').next().unwrap().parse().unwrap();
            let command = line.split_once('[').unwrap().1.split_once("] 0::").unwrap().0;
            let group = line.split_once("] 0::").unwrap().1.split(' ').next().unwrap();
            node.process(pid, 0, command, group);
        }
        node
    }

    /// A task in a group of a step.
    fn task(&self, group: &str) -> JobIdentity {
        self.process(TASK, 2001, "./a.out", group);
        identify(&self.roots(), TASK).unwrap()
    }
}

#[test]
fn the_number_of_a_run_is_that_of_its_slurmstepd() {
    let scope = "/system.slice/n1_slurmstepd.scope";
    for (run, step, number, is_counted) in [
        ("s1N9M8EMEN8A00", "step_0", "45", true),
        ("s1N9M8EMEN8A00", "step_batch", "45", false),
        ("s1N9M8EMEN8A00", "step_extern", "45", false),
        // A step that has no slurmstepd of its own yet: another step's names the same job.
        ("s1N9M8EMEN8A00", "step_7", "45", true),
        ("sDQNM8EMPDYS00", "step_0", "1", true),
    ] {
        let task = Node::with_recorded().task(&format!("{scope}/{run}/{step}/user/task_special"));
        assert_eq!((task.scheduler, task.sluid.as_deref()), (Some(Scheduler::Slurm), Some(run)));
        assert_eq!((task.job_id.as_deref(), task.step.is_some()), (Some(number), is_counted), "{step}");
    }
    // The second component of a heterogeneous job, and a task of an array, with numbers of their own.
    for (node, run, number) in [("n2", "sDQNM8EMPDZ800", "2"), ("n3", "sDQNM8EMPE0Z00", "3")] {
        let group = format!("/system.slice/{node}_slurmstepd.scope/{run}/step_0/user/task_0");
        assert_eq!(Node::with_recorded().task(&group).job_id.as_deref(), Some(number));
    }
    // On a host with one slurmd, and with version 1 beside version 2.
    let node = Node::new();
    let group = "/system.slice/slurmstepd.scope/s1N9M8EM2AVH00/step_0";
    node.process(9, 0, "slurmstepd: [40.0]", &format!("{group}/slurm"));
    assert_eq!(node.task(&format!("{group}/user/task_0")).job_id.as_deref(), Some("40"));
    fs::create_dir(node.roots().cgroup.join("unified")).unwrap();
    let (old, new) = (node.roots().cgroup.join("system.slice"), "unified/system.slice");
    fs::rename(old, node.roots().cgroup.join(new)).unwrap();
    assert_eq!(identify(&node.roots(), TASK).unwrap().job_id.as_deref(), Some("40"));
}

/// A user may name a process as he likes, and start programs of root's; none of them is in the group of a slurmstepd.
#[test]
fn nothing_of_the_users_names_a_run() {
    let group = "/system.slice/slurmstepd.scope/s1N9M8EM2AVH00/step_0";
    let number = |uid: u32, command: &str, of: &str| {
        let node = Node::new();
        node.process(9, uid, command, of);
        let task = node.task(&format!("{group}/user/task_0"));
        assert_eq!(task.sluid.as_deref(), Some("s1N9M8EM2AVH00"), "the run is known in any case");
        task.job_id
    };
    let own = format!("{group}/slurm");
    assert_eq!(number(0, "slurmstepd: [40.0]", &own).as_deref(), Some("40"));
    assert_eq!(number(2001, "slurmstepd: [41.0]", &own), None, "not root's");
    assert_eq!(number(0, "slurmstepd: [41.0]", &format!("{group}/user/task_0")), None, "among the tasks");
    for title in
        ["bash", "slurmstepd", "slurmstepd: [x.0]", "slurmstepd: [.0]", "evil: [41.0]", "slurmstepd: [+1.0]"]
    {
        assert_eq!(number(0, title, &own), None, "{title}");
    }
    // A process id that was given to a process of another run.
    let node = Node::new();
    node.process(9, 0, "slurmstepd: [41.0]", "/system.slice/slurmstepd.scope/s1N9M8EM2KPW00/step_0/slurm");
    node.write(&format!("sys/fs/cgroup{group}/slurm/cgroup.procs"), "9\n");
    assert_eq!(node.task(&format!("{group}/user/task_0")).job_id, None);
}

/// Each recorded process: what its control group says of it.
#[test]
fn recorded_groups_of_three_releases() {
    let found = RELEASES.map(|release| {
        let groups = release.lines().filter_map(|line| line.strip_prefix("0::"));
        let known = |group: &str| {
            let task = Node::new().task(group);
            (task.scheduler, task.job_id, task.sluid, task.step)
        };
        groups.map(known).collect::<Vec<_>>()
    });
    let text = |text: &str| Some(text.to_owned());
    let slurm = Some(Scheduler::Slurm);
    // proctrack/linuxproc: no groups.
    assert_eq!(found[0], vec![(None, None, None, None); 3]);
    let numbered = [
        (slurm, text("56"), None, None),
        (slurm, text("56"), None, text("0")),
        (slurm, text("57"), None, None),
    ];
    assert_eq!(found[1], numbered);
    // Without a slurmstepd to be read, the run is known and its number is not.
    let run = text("s1N9M8EM2AVH00");
    let named = [
        (slurm, None, run.clone(), None),
        (slurm, None, run, text("0")),
        (slurm, None, text("s1N9M8EM2KPW00"), None),
    ];
    assert_eq!(found[2], named);
}

#[test]
fn what_is_no_run() {
    for group in [
        "/system.slice/slurmstepd.scope/system",
        "/system.slice/n1_slurmstepd.scope/slurmd",
        "/system.slice/slurmstepd.scope/s1N9M8EM2AVHI0/step_0/user/task_0",
        "/system.slice/other.scope/s1N9M8EM2AVH00/step_0/user/task_0",
        "/user.slice/user-2001.slice/user@2001.service/slurmstepd.scope/s1N9M8EM2AVH00/step_0/user/task_0",
    ] {
        let task = Node::new().task(group);
        assert_eq!((task.scheduler, task.sluid), (None, None), "{group}");
    }
    // Outside of the control group namespace nothing can be followed, and the run is known all the same.
    let node = Node::new();
    node.process(9, 0, "slurmstepd: [40.0]", "/system.slice/slurmstepd.scope/s1N9M8EM2AVH00/step_0/slurm");
    let outside = node.task("/../../system.slice/slurmstepd.scope/s1N9M8EM2AVH00/step_0/user/task_0");
    assert_eq!((outside.job_id, outside.sluid.as_deref()), (None, Some("s1N9M8EM2AVH00")));
}

#[test]
fn the_cluster_is_named_by_root() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name)
    };
    let named = |text: &str| cluster_of_node([put("slurm.conf", text).as_path()]);
    assert_eq!(named("# a\nClusterName=demo\n").as_deref(), Some("demo"));
    assert_eq!(
        named("SlurmctldHost=ctl CLUSTERNAME=Demo # x\n").as_deref(),
        Some("demo"),
        "in small letters"
    );
    assert_eq!(named("ClusterName = \"a-b_1\"\r\n").as_deref(), Some("a-b_1"));
    assert_eq!(named("#ClusterName=demo\nSlurmctldHost=ctl\n"), None);
    assert_eq!(named("ClusterName=a:b\n"), None);
    put("cluster.conf", "ClusterName=included\n");
    assert_eq!(named("include cluster.conf\nSlurmctldHost=ctl\n").as_deref(), Some("included"));
    let missing = folder.path().join("missing.conf");
    let second = put("second.conf", "ClusterName=second\n");
    assert_eq!(cluster_of_node([missing.as_path(), &second]).as_deref(), Some("second"));
    assert_eq!(cluster_of_node([missing.as_path(), folder.path()]), None);
}
