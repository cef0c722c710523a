//! Who speaks on a connection: forked children, programs that follow one another in a process, other users, other
//! PID namespaces. Each rank here is a small Python program, as nothing else forks so easily.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use throughline_mpit_bridge::frame::{MAGIC, VERSION};
use throughline_mpit_bridge::{Config, Kernel, Malformed, Receiver, Verdict};
use throughline_sample::wire::{Batch, Job, JobRank};
use tokio::sync::mpsc;

const DEADLINE: Duration = Duration::from_secs(60);

/// Frames and a connection, for the programs below.
const PRELUDE: &str = r#"
import os, socket, struct, sys, time
path, magic, version = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    return s
def frame(kind, number, fields):
    body = b"".join(struct.pack("<HH", tag, len(data)) + data for tag, data in fields)
    return struct.pack("<IHHIIqq", magic, version, kind, 32 + len(body), number, time.monotonic_ns(), time.time_ns()) + body
def hello(s, rank=0, launcher=b"one launcher", variables=()):
    fields = [(2, struct.pack("<I", rank)), (3, struct.pack("<I", 4)), (4, struct.pack("<q", time.time_ns())), (9, launcher)]
    s.send(frame(1, 0, fields + [(8, v) for v in variables]))
    s.recv(1024)
def status(s, number): s.send(frame(6, number, []))
def bye(s, number): s.send(frame(7, number, [(32, struct.pack("<I", 1))]))
"#;

struct Agent {
    receiver: Receiver,
    records: mpsc::Receiver<Batch>,
    folder: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        Self::with(Kernel::default())
    }

    fn with(kernel: Kernel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Other users have to get in.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("mpi.sock");
        let config = Config { socket, node: "n1".into(), kernel, ..Config::default() };
        let (sender, records) = mpsc::channel(64);
        let receiver = Receiver::start(config, Arc::new(|monotonic| monotonic), sender).unwrap();
        Self { receiver, records, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("mpi.sock")
    }

    /// A program with the prelude, behind the words of `before`.
    fn program(&self, before: &[&str], text: &str) -> Command {
        let words = [before, &["/usr/bin/python3", "-c"]].concat();
        let mut program = Command::new(words[0]);
        program.args(&words[1..]).arg(format!("{PRELUDE}{text}")).arg(self.socket());
        program.args([MAGIC.to_string(), VERSION.to_string()]);
        program
    }

    /// Runs a program to its end beside the receiver.
    async fn run(&self, mut program: Command) -> Output {
        tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap()
    }

    /// All records of jobs that have come so far and within so long.
    async fn jobs(&mut self, patience: Duration) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Ok(Some(batch)) = tokio::time::timeout(patience, self.records.recv()).await {
            jobs.extend(batch.jobs);
        }
        jobs
    }

    /// All records of ranks until `count` of them have ended.
    async fn ended(&mut self, count: usize) -> Vec<JobRank> {
        let mut ranks = Vec::new();
        let all = async {
            while ranks.iter().filter(|rank: &&JobRank| rank.end != 0).count() < count {
                ranks.extend(self.records.recv().await.unwrap().job_ranks);
            }
        };
        let found = tokio::time::timeout(DEADLINE, all).await.is_ok();
        assert!(found, "{ranks:?} {:?}", self.receiver.status());
        ranks
    }

    fn refused(&self, why: Malformed) -> u64 {
        self.receiver.status().malformed.iter().find(|(reason, _)| *reason == why).unwrap().1
    }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_child_does_not_speak_for_its_parent() {
    let mut agent = Agent::start();
    let text = r#"
s = connect(); hello(s); status(s, 1)
child = os.fork()
if child == 0:
    for number in range(2, 5): status(s, number)
    bye(s, 5)
    os._exit(0)
os.waitpid(child, 0)
status(s, 2); bye(s, 3)
"#;
    succeeded(&agent.run(agent.program(&[], text)).await);
    let ranks = agent.ended(1).await;
    assert_eq!(ranks.last().unwrap().ending, "clean");
    let status = agent.receiver.status();
    assert_eq!((agent.refused(Malformed::Sender), status.frames, status.lost_frames), (4, 4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_child_does_not_keep_its_parent_alive() {
    let mut agent = Agent::start();
    let text = r#"
s = connect(); hello(s); status(s, 1)
if os.fork() == 0:
    os.close(1); os.close(2)
    time.sleep(600) # with the connection
    os._exit(0)
print(os.getpid(), flush=True)
os._exit(0) # without a goodbye
"#;
    // The child's own session, so that it can be ended.
    let output = agent.run(agent.program(&["setsid", "-w"], text)).await;
    succeeded(&output);
    let session: i32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let ranks = agent.ended(1).await;
    assert_eq!((ranks.len(), ranks.last().unwrap().ending.as_str()), (2, "lost"));
    let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(session), nix::sys::signal::Signal::SIGKILL);
}

/// One process, two programs one after the other: the descriptor is closed by exec, and the second one is a rank of
/// its own of the same process.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_execs() {
    let mut agent = Agent::start();
    let text = r#"
if len(sys.argv) == 4:
    s = connect(); hello(s); status(s, 1)
    os.execv(sys.executable, [sys.executable] + sys.orig_argv[1:] + ["again"])
s = connect(); hello(s); status(s, 1); bye(s, 2)
"#;
    succeeded(&agent.run(agent.program(&[], text)).await);
    let ranks = agent.ended(2).await;
    let starts: BTreeSet<_> = ranks.iter().map(|rank| (rank.start, rank.pid)).collect();
    assert_eq!(starts.len(), 2);
    let endings: BTreeSet<_> = ranks.iter().filter(|rank| rank.end != 0).map(|rank| &*rank.ending).collect();
    assert_eq!(endings, BTreeSet::from(["clean", "lost"]));
    assert_eq!(ranks.iter().map(|rank| rank.pid).collect::<BTreeSet<_>>().len(), 1);
}

/// The same launcher, the same scheduler's job, the same rank: reported by another user it is another job.
#[tokio::test(flavor = "multi_thread")]
async fn another_users_rows_are_another_job() {
    if !throughline_test_support::is_root("to become another user") {
        return;
    }
    let mut agent = Agent::start();
    let text = r#"
for launcher, variables in [(b"one launcher", []), (b"", [b"SLURM_JOB_ID=7", b"SLURM_STEP_ID=0"])]:
    s = connect(); hello(s, 0, launcher, variables); status(s, 1); bye(s, 2); s.close()
"#;
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    succeeded(&agent.run(agent.program(&[], text)).await);
    succeeded(&agent.run(agent.program(&nobody, text)).await);
    let ranks = agent.ended(4).await;
    let keys: BTreeSet<_> = ranks.iter().map(|rank| rank.job_key.as_str()).collect();
    let of = |uid: &str| keys.iter().filter(|key| key.ends_with(&format!("@{uid}"))).count();
    assert_eq!((keys.len(), of("0"), of("65534")), (4, 2, 2), "{keys:?}");
    assert!(keys.contains("slurm:7.0@0") && keys.contains("slurm:7.0@65534"), "{keys:?}");
}

/// In a PID and user namespace, as in a container that has the socket mounted: the kernel's ids are the agent's.
#[tokio::test(flavor = "multi_thread")]
async fn a_rank_in_a_container() {
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let possible = Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        throughline_test_support::skip!("no user and PID namespaces; allow them, or run the tests as root");
    }
    let mut agent = Agent::start();
    let text = "s = connect(); hello(s); status(s, 1); print(os.getpid(), os.getuid()); bye(s, 2)\n";
    let output = agent.run(agent.program(&unshare, text)).await;
    succeeded(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1 0", "as it sees itself");
    let ranks = agent.ended(1).await;
    assert_ne!(ranks[0].pid, 1);
    assert!(ranks[0].job_key.ends_with(&format!("@{}", nix::unistd::getuid())), "{}", ranks[0].job_key);
    assert_eq!((agent.refused(Malformed::Sender), ranks.last().unwrap().ending.as_str()), (0, "clean"));
}

/// Descriptors in a message: not used here, and none is kept open.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_descriptors_is_refused() {
    let mut agent = Agent::start();
    let text = r#"
s = connect(); hello(s)
for number in range(3):
    socket.send_fds(s, [frame(6, 1, [])], [0, 1, 2])
status(s, 1); bye(s, 2)
"#;
    let open = || std::fs::read_dir(Path::new("/proc/self/fd")).unwrap().count();
    let before = open();
    succeeded(&agent.run(agent.program(&[], text)).await);
    assert_eq!(agent.ended(1).await.last().unwrap().ending, "clean");
    assert_eq!(agent.refused(Malformed::Sender), 3);
    assert!(open() <= before + 16, "other tests of this process have some, these nine are not among them");
}

/// Another user's process that names somebody's job in its environment: `job show` had two answers, and `last` a decoy.
#[tokio::test(flavor = "multi_thread")]
async fn attack_14_claims_of_another_users_job() {
    if !throughline_test_support::is_root("to become another user") {
        return;
    }
    // Control groups know of one user's processes only.
    let kernel = Kernel::new(|pid, _| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let owner = status.lines().any(|line| line.starts_with("Uid:\t4001\t"));
        if owner { Verdict::Confirms } else { Verdict::Unknown }
    });
    let mut agent = Agent::with(kernel);
    let text = |rest: &str| {
        format!(
            "name = \"SLURM_JOB_NAME=pay\\u202eroll\\u001b[2J\" + \"x\" * 20000\n\
             s = connect(); hello(s, 0, b'', [b'SLURM_JOB_ID=900', b'SLURM_STEP_ID=0', name.encode()]); status(s, 1)\n{rest}"
        )
    };
    let user = |uid: &'static str| ["setpriv", uid, "--clear-groups"];
    // The owner's rank runs until the other one has gone.
    let flag = agent.folder.path().join("over");
    let wait =
        format!("while not os.path.exists({:?}): time.sleep(0.01)\nbye(s, 2)\n", flag.to_str().unwrap());
    let mut owner = agent.program(&user("--reuid=4001"), &text(&wait)).spawn().unwrap();
    while agent.receiver.status().connected == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = agent.program(&user("--reuid=4002"), &text("bye(s, 2)\n"));
    succeeded(&agent.run(other).await);
    std::fs::write(&flag, "").unwrap();
    assert!(tokio::task::spawn_blocking(move || owner.wait().unwrap()).await.unwrap().success());
    let jobs = agent.jobs(Duration::from_secs(1)).await;
    let of = |uid: u32| jobs.iter().filter(|job| job.uid == uid).collect::<Vec<_>>();
    assert!(of(4001).iter().all(|job| job.key == "slurm:900.0@4001" && job.evidence == "cgroup"), "{jobs:?}");
    let claimed = of(4002);
    assert!(!claimed.is_empty() && !of(4001).is_empty(), "{jobs:?}");
    assert!(claimed.iter().all(|job| job.native_id.is_empty() && job.scheduler == "local"), "{jobs:?}");
    assert!(claimed.iter().all(|job| job.key.starts_with("local:") && job.evidence == "process"), "{jobs:?}");
    assert_eq!(agent.receiver.status().contested_claims, 1);
    for job in &jobs {
        assert!(job.name.len() <= 256 && !job.name.contains(['\u{202e}', '\u{1b}']), "{:?}", job.name);
        assert!(job.command.len() <= 512 && !job.command.contains('\u{202e}'), "{:?}", job.command);
    }
}
