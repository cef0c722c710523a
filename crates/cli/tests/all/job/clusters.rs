//! Two Slurm clusters with one database, which number their jobs alike: from the control groups of each node to what the commands
//! print. Ranks are small programs of Python; their `/proc` and `/sys/fs/cgroup` are folders, as Slurm 25.11 and 26.05 have them.

use super::*;
use std::io::Write;

/// Frames of version 2 (crates/mpit-bridge/protocol). Operation 17 is allreduce, and its size class 14 has messages of up to 8 KiB.
const RANK: &str = r#"
import socket, struct, sys, time
path, calls = sys.argv[1], int(sys.argv[2])
sys.stdin.readline()
def frame(kind, number, body):
    return struct.pack("<4sHHIIqq", b"TLM1", 2, kind, 32 + len(body), number, time.monotonic_ns(), time.time_ns()) + body
def fields(*all):
    return b"".join(struct.pack("<HH", tag, len(data)) + data for tag, data in all)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(path)
number = lambda value: struct.pack("<I", value)
hello = [(2, number(0)), (3, number(1)), (4, struct.pack("<q", time.time_ns()))]
s.send(frame(1, 0, fields(*hello, *((8, variable.encode()) for variable in sys.argv[3:]))))
s.recv(1024)
cell = struct.pack("<HH12xQQQQQQ", 17, 14, calls, calls * 8192, 1000, 100, 0, 0)
s.send(frame(3, 1, struct.pack("<qII", time.monotonic_ns(), 1, 0) + cell))
s.send(frame(7, 2, fields((32, number(1)))))
"#;

const FIRST: &str = "s1N9M8EM2AVH00";
const REQUEUED: &str = "s1N9M8EM83M700";

/// A node's `/proc`, `/sys/fs/cgroup` and slurm.conf.
struct NodeDouble {
    folder: PathBuf,
}

impl NodeDouble {
    fn new(folder: PathBuf, cluster: &str) -> Self {
        let node = Self { folder };
        node.write("slurm.conf", &format!("# of root's\nClusterName={cluster}\n"));
        node
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, uid: u32, command: &str, group: &str) {
        let stat = format!("{pid} (rank) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"));
        self.write(&format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
        self.write(&format!("proc/{pid}/cmdline"), command);
    }

    /// What the agent there is configured with.
    fn variables(&self, name: &str, socket: &Path) -> Vec<(&'static str, String)> {
        let path = |file: &str| self.folder.join(file).display().to_string();
        vec![
            ("THROUGHLINE__NODE", name.to_owned()),
            ("THROUGHLINE__STATE_DIR", path("state")),
            ("THROUGHLINE__RUN_DIR", path("run")),
            ("THROUGHLINE__PROC__ROOT", path("proc")),
            ("THROUGHLINE__SYSFS__ROOT", path("sys")),
            ("THROUGHLINE__MPI__SLURM_CONF", path("slurm.conf")),
            ("THROUGHLINE__MPI__SOCKET", socket.display().to_string()),
        ]
    }

    /// A rank in a control group with these variables, to its end.
    fn rank(&self, socket: &Path, group: &str, calls: u64, variables: &[&str]) {
        let mut rank = Command::new("/usr/bin/python3");
        rank.args(["-c", RANK]).arg(socket).arg(calls.to_string());
        let mut rank = rank.args(variables).stdin(Stdio::piped()).spawn().unwrap();
        self.process(rank.id(), nix::unistd::getuid().as_raw(), "./a.out", group);
        rank.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(rank.wait().unwrap().success());
    }

    /// One of the second cluster, whose groups are named by SLUID; its slurmstepd says which number it has.
    fn rank_of_run(&self, socket: &Path, run: &str, calls: u64) {
        let step = format!("/system.slice/slurmstepd.scope/{run}/step_0");
        self.process(1, 0, "slurmstepd: [123.0]", &format!("{step}/slurm"));
        self.write(&format!("sys/fs/cgroup{step}/slurm/cgroup.procs"), "1\n");
        let sluid = format!("SLURM_JOB_SLUID={run}");
        // The name of the other cluster is a lie: root's slurm.conf counts.
        let variables = ["SLURM_JOB_ID=123", "SLURM_STEP_ID=0", "SLURM_CLUSTER_NAME=alpha", &sluid];
        self.rank(socket, &format!("{step}/user/task_0"), calls, &variables);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_clusters_with_one_number_stay_two() {
    let folder = tempfile::tempdir().unwrap();
    let [alpha, beta] = ["alpha", "beta"].map(|name| NodeDouble::new(folder.path().join(name), name));
    let [first, second] = ["alpha.sock", "beta.sock"].map(|name| folder.path().join(name));
    let of_agent = alpha.variables("n1", &first);
    let stack = Stack::start_with(&of_agent).await;
    let mut environment = stack.environment.clone();
    environment
        .extend(beta.variables("n2", &second).into_iter().map(|(name, value)| (name.to_owned(), value)));
    let (_agent, _) = Daemon::start(&mut agent("run", &environment), ["agent"]);

    let numbered = "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0";
    alpha.rank(&first, numbered, 48, &["SLURM_JOB_ID=123", "SLURM_STEP_ID=0", "SLURM_CLUSTER_NAME=alpha"]);
    beta.rank_of_run(&second, FIRST, 50);
    beta.rank_of_run(&second, REQUEUED, 52);

    let uid = nix::unistd::getuid();
    let keys = [
        format!("slurm:alpha:123.0@{uid}"),
        format!("slurm:beta:{FIRST}.0@{uid}"),
        format!("slurm:beta:{REQUEUED}.0@{uid}"),
    ];
    let begin = Instant::now();
    for (key, calls) in keys.iter().zip([48, 50, 52]) {
        let job = loop {
            let output = stack.job(&["show", key, "--json"]);
            let job: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            if job["job"]["job"]["state"] == "ended" && !operation(&job, "allreduce")["calls"].is_null() {
                break job;
            }
            assert!(begin.elapsed() < PATIENCE, "{job} {}", String::from_utf8_lossy(&output.stderr));
            std::thread::sleep(Duration::from_millis(200));
        };
        assert_eq!(operation(&job, "allreduce")["calls"], calls, "{key}");
        let of_job = &job["job"]["job"];
        let cluster = key.split(':').nth(1).unwrap();
        assert_eq!((&of_job["cluster"], &of_job["native_id"]), (&cluster.into(), &"123".into()), "{key}");
        let page = stack.text(&["show", key]);
        assert!(page.contains(&format!("slurm job 123 of {cluster}, step 0")), "{page}");
    }
    let (client, connection) = tokio_postgres::connect(&stack.url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let evidence = client.query("SELECT key, evidence FROM internal.run ORDER BY key", &[]).await.unwrap();
    let evidence: Vec<(String, String)> = evidence.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(evidence, keys.clone().map(|key| (key, "cgroup".to_owned())), "each by the kernel");
    connection.abort();

    // A number alone is three runs, and all are named; with its cluster it is one, or two.
    let said = |name: &str| String::from_utf8_lossy(&stack.job(&["show", name]).stderr).into_owned();
    let all = said("123");
    assert!(all.contains("123 fits 3 jobs") && keys.iter().all(|key| all.contains(key.as_str())), "{all}");
    let of_beta = said("beta:123");
    assert!(
        of_beta.contains("fits 2 jobs") && !of_beta.contains(&keys[0]) && of_beta.contains("(job 123, "),
        "{of_beta}"
    );
    for (name, key) in [("alpha:123", &keys[0]), ("slurm:alpha:123.0", &keys[0]), (REQUEUED, &keys[2])] {
        assert_eq!(stack.json(&["show", name, "--json"])["job"]["job"]["job_key"], **key, "{name}");
    }
}
