//! `throughline job` on real MPI programs: ranks under throughline-exec, an agent, a server and a TimescaleDB between
//! them and what is printed. Call counts are known from the program.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const RANKS: u64 = 4;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of this workspace beside the command, as `cargo test --workspace` and `make test` have built it.
fn program(package: &str, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name(name);
    if !path.is_file() {
        let build = ["build", "--quiet", "-p", package, "--bin", name];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    path
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A daemon that is stopped with the test.
struct Daemon(Child);

impl Daemon {
    /// Starts one and waits until it reports where it listens in each of these roles.
    fn start<const N: usize>(command: &mut Command, roles: [&str; N]) -> (Self, [String; N]) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut addresses = roles.map(|_| String::new());
        while addresses.iter().any(String::is_empty) {
            let line = lines.next().expect("the daemon listens").unwrap();
            for (role, address) in roles.iter().zip(&mut addresses) {
                let listening = line.strip_prefix(&format!("listening {role}=")).map(str::to_owned);
                *address = listening.unwrap_or_else(|| address.clone());
            }
        }
        (Self(child), addresses)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended has no number of its own any more.
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// The agent with this command.
fn agent(command: &str, environment: &[(String, String)]) -> Command {
    let mut agent = Command::new(program("throughline-agent", "throughline-agent"));
    agent.arg(command).envs(environment.iter().cloned());
    agent
}

/// Server, agent and database.
struct Stack {
    folder: tempfile::TempDir,
    /// Of the database, for what the tests compare with.
    url: String,
    server: String,
    collector: String,
    agent: Daemon,
    environment: Vec<(String, String)>,
    serve: Daemon,
}

impl Stack {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With these variables in the agent's environment.
    async fn start_with(variables: &[(&str, String)]) -> Self {
        Self::start_as(&[], variables).await
    }

    /// With these variables in the server's environment and in the agent's.
    async fn start_as(of_server: &[(&str, &str)], of_agent: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = throughline_store::testing::database().await;
        let socket = database.socket_folder().unwrap();
        let url = |role: &str| format!("host={} dbname={} user={role}", socket.display(), database.name());
        let mut server = Command::new(env!("CARGO_BIN_EXE_throughline"));
        server.args(["serve", "--database-url", &url(throughline_store::WRITE_ROLE)]);
        server.env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0");
        server.env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0");
        server.envs(of_server.iter().copied());
        let (serve, [collector, query]) = Daemon::start(&mut server, ["collect", "query"]);
        let collector = format!("http://{collector}");
        let usual = [
            ("NODE", "n1".to_owned()),
            ("STATE_DIR", folder.path().join("agent").display().to_string()),
            ("RUN_DIR", folder.path().join("run").display().to_string()),
            ("HTTP__LISTEN", "127.0.0.1:0".to_owned()),
            ("DELIVERY__COLLECTOR", collector.clone()),
            ("DELIVERY__BATCH_INTERVAL_SECONDS", "0.1".to_owned()),
            ("NVML__ENABLED", "false".to_owned()),
            ("SYSFS__ENABLED", "false".to_owned()),
            ("MPI__SOCKET", folder.path().join("mpi.sock").display().to_string()),
        ];
        let usual = usual.into_iter().map(|(key, value)| (format!("THROUGHLINE__{key}"), value));
        let more = of_agent.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let environment: Vec<(String, String)> = usual.chain(more).collect();
        let (agent, _) = Daemon::start(&mut agent("run", &environment), ["agent"]);
        let (url, server) = (url(throughline_store::READ_ROLE), format!("http://{query}"));
        Self { url, server, collector, folder, agent, environment, serve }
    }

    fn job(&self, arguments: &[&str]) -> Output {
        let mut job = Command::new(env!("CARGO_BIN_EXE_throughline"));
        job.args(["job", "--server", &self.server]).args(arguments);
        job.env("XDG_CONFIG_HOME", self.folder.path());
        job.output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.job(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.job(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// How the program with uneven traffic is started under the shim.
    fn launch(&self, mpi: &str, options: &[&str]) -> Command {
        let traffic = self.folder.path().join(format!("traffic-{mpi}"));
        if !traffic.is_file() {
            let bridge = crates().join("mpit-bridge");
            let mut compiler = Command::new(format!("mpicc.{mpi}"));
            compiler.args(["-O1", "-o"]).arg(&traffic).arg("-I").arg(bridge.join("include"));
            done(compiler.arg(bridge.join("demo/traffic.c")));
        }
        // Where `make test` has them already: four objects take a while.
        let objects = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name("lib/throughline");
        let out = format!("OUT={}", objects.display());
        done(Command::new("make").arg("-s").arg("-C").arg(crates().join("mpit-bridge/shim")).arg(out));
        let mut launch = Command::new(format!("mpirun.{mpi}"));
        match mpi {
            "openmpi" => {
                launch.args(["--oversubscribe", "--bind-to", "none"]);
                launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                launch.env("OMPI_MCA_plm", "isolated");
            }
            _ => drop(launch.args(["-launcher", "fork"])),
        }
        launch.args(["-np", &RANKS.to_string()]);
        launch.arg(program("throughline-mpit-bridge", "throughline-exec")).arg(&traffic);
        launch.args(options).args(["--pair-bytes", "1024"]);
        launch.env("THROUGHLINE_SOCKET", self.folder.path().join("mpi.sock"));
        launch.env("THROUGHLINE_LIB_DIR", objects);
        launch
    }

    /// Runs it and waits until the newest job is its, ended, with every call.
    fn run(&self, mpi: &str, rounds: u64) -> Value {
        done(&mut self.launch(mpi, &["--rounds", &rounds.to_string()]));
        let begin = Instant::now();
        loop {
            let output = self.job(&["show", "last", "--json"]);
            let job: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            let complete = job["job"]["job"]["state"] == "ended"
                && operation(&job, "allreduce")["calls"] == RANKS * rounds;
            if complete {
                return job;
            }
            assert!(begin.elapsed() < PATIENCE, "{job} {}", String::from_utf8_lossy(&output.stderr));
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The key of a job that `job show --json` printed.
fn key(job: &Value) -> &str {
    job["job"]["job"]["job_key"].as_str().unwrap()
}

fn operation(job: &Value, name: &str) -> Value {
    let all = job["job"]["operations"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|operation| operation["operation"] == name).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_both_libraries_are_shown_drawn_and_compared() {
    let stack = Stack::start().await;
    let none = stack.job(&["show", "last"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no job yet"));

    let first = stack.run("openmpi", 10);
    let second = stack.run("openmpi", 20);
    let third = stack.run("mpich", 10);
    let of_first = &first["job"]["job"];
    assert_eq!(
        (&of_first["world_size"], &of_first["ranks"], &of_first["nodes"]),
        (&4.into(), &4.into(), &1.into())
    );
    assert_eq!(operation(&first, "allreduce")["bytes"], RANKS * 10 * 8192);
    assert_eq!(operation(&first, "allreduce")["sizes"][0]["size_class_bytes"], 8192);
    // What has nothing to receive says nothing of it, and what received says what.
    assert_eq!(operation(&first, "allreduce")["received_bytes"], Value::Null);
    let (sent, received) = (operation(&first, "isend"), operation(&first, "irecv"));
    assert_eq!((&sent["bytes"], &sent["received_bytes"]), (&received["received_bytes"], &Value::Null));
    for (job, library) in [(&first, "Open MPI"), (&third, "MPICH")] {
        assert!(job["job"]["libraries"][0].as_str().unwrap().contains(library), "{job}");
        let ending = &job["job"]["endings"][0];
        assert_eq!((&ending["ending"], &ending["ranks"]), (&"clean".into(), &4.into()));
        let share = job["job"]["job"]["totals"]["mpi_time_share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{share}");
        assert!(job["findings"].as_array().unwrap().len() >= 5, "{job}");
    }
    assert_eq!(third["link_peaks"], Value::Null);
    let with_links = stack.json(&["show", "last", "--json", "--links-within", "10"]);
    assert_eq!(with_links["link_peaks"]["links"], Value::Array(Vec::new()));
    // The page says the same as the document.
    let page = stack.text(&["show", key(&third)]);
    for part in ["4 ranks reached MPI_Finalize", "allreduce", "Worth knowing", "of the ranks' time"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }

    // Newest first.
    let list = stack.json(&["list", "--json"]);
    let keys: Vec<&str> =
        list["jobs"].as_array().unwrap().iter().filter_map(|job| job["job_key"].as_str()).collect();
    assert_eq!(keys, [key(&third), key(&second), key(&first)]);

    // The matrix is the sum of what operations say, and a CSV line for each pair.
    let matrix = stack.json(&["matrix", "last-2", "--json"]);
    assert_eq!((&matrix["job_key"], &matrix["kind"]), (&key(&first).into(), &"logical".into()));
    let bytes = matrix["pairs"]["bytes"].as_array().unwrap();
    assert_eq!(bytes.len() as u64, RANKS * (RANKS - 1));
    let allreduce_to_each = 10 * 8192;
    assert!(bytes.iter().all(|bytes| bytes.as_u64().unwrap() >= allreduce_to_each), "{matrix}");
    assert_eq!(stack.text(&["matrix", "last-2", "--csv"]).lines().count(), 1 + bytes.len());
    assert!(stack.text(&["matrix", "last-2", "--by", "node"]).contains("1 node;"));
    assert_eq!(stack.job(&["matrix", "last-2", "--kind", "wire"]).status.code(), Some(69));

    // Twice the rounds: twice the calls, and it is said.
    let diff = stack.json(&["diff", "last-1", "last-2", "--json"]);
    assert_eq!(diff["a"]["job"], second["job"]);
    let row = |diff: &Value, name: &str| {
        let rows = diff["comparison"]["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["operation"] == name).unwrap()
    };
    let allreduce = row(&diff, "allreduce");
    assert_eq!((&allreduce["a"]["calls"], &allreduce["b"]["calls"]), (&80.into(), &40.into()));
    assert_eq!((&allreduce["calls_differ"], &allreduce["size_class_bytes"]), (&true.into(), &8192.into()));
    let ratio = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let (whole, each) = (ratio(&allreduce, "time_ratio"), ratio(&allreduce, "call_time_ratio"));
    assert!((whole / each - 2.0).abs() < 1e-6, "{allreduce}");
    // The same work on two libraries: nothing differs but the time.
    let diff = stack.json(&["diff", "last", "last-2", "--json"]);
    assert_eq!(row(&diff, "allreduce")["calls_differ"], false);
    assert!(diff["comparison"]["caveats"].to_string().contains("The MPI libraries differ"), "{diff}");
    let text = stack.text(&["diff", "last", "last-2"]);
    assert!(text.contains("Ratios are A divided by B") && text.contains("8 KiB"), "{text}");
    // All have ended.
    assert!(stack.text(&["top", "--once"]).contains("running jobs: 0"));
    let unknown = stack.job(&["show", "slurm:4711"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no job slurm:4711"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_in_top_and_ends_as_lost_when_killed() {
    let stack = Stack::start().await;
    let mut launch = stack.launch("openmpi", &["--seconds", "600", "--pause-ms", "20"]);
    let mut program = launch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let now: Value = loop {
        let output = stack.job(&["top", "--once", "--json", "--window", "1"]);
        let line = String::from_utf8(output.stdout).unwrap();
        let rates: Value = serde_json::from_str(&line).unwrap_or_default();
        let now = rates["jobs"].get(0).cloned();
        // On a busy machine a rank may be in one call for all of a second.
        match now.filter(|now| now["calls_per_second"].as_f64().unwrap() > 0.0) {
            Some(now) => break now,
            None => assert!(begin.elapsed() < PATIENCE, "{line}{}", String::from_utf8_lossy(&output.stderr)),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!((&now["ranks"], &now["nodes"]), (&4.into(), &1.into()), "{now}");
    let share = now["mpi_time_share"].as_f64().unwrap();
    assert!(share > 0.0 && share <= 1.0, "{now}");
    assert!(now["command"].as_str().unwrap().contains("traffic"), "{now}");
    assert!(stack.text(&["show", "last"]).contains("running since"));
    assert_eq!(stack.json(&["list", "--running", "--json"])["jobs"].as_array().unwrap().len(), 1);

    // Its ranks are killed: no MPI_Finalize.
    let job = stack.json(&["show", "last", "--json"]);
    let pid = Pid::from_raw(i32::try_from(program.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    program.wait().unwrap();
    let ended = loop {
        let job = stack.json(&["show", key(&job), "--json"]);
        if job["job"]["job"]["ranks_running"] == 0 {
            break job;
        }
        assert!(begin.elapsed() < PATIENCE, "{job}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let job = &ended["job"]["job"];
    assert_eq!((&job["state"], &job["ranks_lost"]), (&"lost".into(), &4.into()), "{ended}");
    assert!(ended["findings"][0].as_str().unwrap().contains("4 ranks ended without MPI_Finalize"), "{ended}");
    assert!(stack.text(&["list", "--running"]).contains("no job passes the filter"));
}

#[test]
fn without_a_server_it_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for command in [&["list"][..], &["show", "last"], &["top", "--once"], &["diff", "a", "b"]] {
        let mut job = Command::new(env!("CARGO_BIN_EXE_throughline"));
        job.args(["job", "--server", &format!("http://{free}")]).args(command);
        job.env("XDG_CONFIG_HOME", folder.path());
        let output = job.output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{command:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("throughline serve"));
    }
    for wrong in [
        &["list", "--from", "yesterday"][..],
        &["matrix", "last", "--kind", "x"],
        &["top", "--interval", "0"],
    ] {
        let mut job = Command::new(env!("CARGO_BIN_EXE_throughline"));
        let output = job.args(["job"]).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{wrong:?}");
    }
}

mod clusters;
mod detail;
mod domains;
mod export;
mod live;
mod trace;
