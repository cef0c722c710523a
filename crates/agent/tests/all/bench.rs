//! What the tests of the agent run on: the real binary with folders, a port and a GPU double of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use throughline_doubles::sysfs::AdapterDouble;
use throughline_sample::wire::{Batch, JobRank};
use throughline_sample::{Guid, Message};

/// The ranks that ended, each once: what ends is reported again with its last rows.
pub fn ended_ranks(batches: &[Batch]) -> Vec<&JobRank> {
    let ended = batches.iter().flat_map(|batch| &batch.job_ranks).filter(|rank| rank.end != 0);
    let by_rank: BTreeMap<_, _> =
        ended.map(|rank| ((rank.job_key.as_str(), rank.rank, rank.start), rank)).collect();
    by_rank.into_values().collect()
}

/// Far longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The library of the NVML test double, built on first use.
pub fn nvml_double() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| make("gpu/testdouble", "agent-nvml-double").join("libnvidia-ml.so.1"))
}

/// Runs a crate's Makefile into a folder of the tests and returns that folder.
pub fn make(folder: &str, out: &str) -> PathBuf {
    make_into(folder, Path::new(env!("CARGO_TARGET_TMPDIR")).join(out))
}

/// The shim's objects, where `make test` has them for all test programs.
pub fn shim() -> PathBuf {
    make_into(
        "mpit-bridge/shim",
        Path::new(env!("CARGO_BIN_EXE_throughline-agent")).with_file_name("lib/throughline"),
    )
}

fn make_into(folder: &str, out: PathBuf) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    std::fs::create_dir_all(&out).unwrap();
    // Tests run side by side: one makes, the others wait and find it made.
    let lock = std::fs::File::create(out.join(".lock")).unwrap();
    let _lock = nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let made =
        Command::new("make").arg("-s").arg("-C").arg(source).arg(format!("OUT={}", out.display())).output();
    let made = made.expect("make is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    out
}

/// A node of its own: folders, and the configuration of its agent.
pub struct Node {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Node {
    /// A node without GPU, adapter and ranks; nobody listens where its agent delivers to.
    pub fn bare() -> Self {
        let node = Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() };
        let nowhere = node.path().join("nowhere").display().to_string();
        node.with("NODE", "n1")
            .with("HTTP__LISTEN", "127.0.0.1:0")
            // Port 9 is discard, which nobody runs.
            .with("DELIVERY__COLLECTOR", "http://127.0.0.1:9")
            .with("DELIVERY__BATCH_INTERVAL_SECONDS", "0.05")
            .with("NVML__LIBRARY", &format!("{nowhere}/libnvidia-ml.so.1"))
            .with("SYSFS__ROOT", &nowhere)
    }

    /// Sets a configuration key.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.variables.push((format!("THROUGHLINE__{key}"), value.to_owned()));
        self
    }

    /// Sets a variable of its agent's environment, in place of an earlier one.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it the GPUs of one of the crate's scenarios.
    pub fn with_gpus(mut self, scenario: &str) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../gpu/scenarios/{scenario}.scenario"));
        assert!(path.is_file(), "{}", path.display());
        self.variables.push(("THROUGHLINE_NVML_SCENARIO".to_owned(), path.display().to_string()));
        self.with("NVML__LIBRARY", &nvml_double().display().to_string())
            .with("NVML__INTERVAL_SECONDS", "0.05")
    }

    /// The same with lines added to a copy of the scenario.
    pub fn with_scenario(self, scenario: &str, more: &str) -> Self {
        let path = format!("{}/../gpu/scenarios/{scenario}.scenario", env!("CARGO_MANIFEST_DIR"));
        let copy = self.path().join("scenario");
        std::fs::write(&copy, format!("{}\n{more}\n", std::fs::read_to_string(path).unwrap())).unwrap();
        self.with_gpus(scenario).with_variable("THROUGHLINE_NVML_SCENARIO", copy.to_str().unwrap())
    }

    /// Gives it a `/proc` of its own, whose processes are those that [`Node::show`] shows: on the real one a profiler of
    /// another test would have its agent give way.
    pub fn with_own_processes(self) -> Self {
        let proc = self.path().join("proc");
        std::fs::create_dir_all(proc.join("2")).unwrap();
        std::fs::write(proc.join("2/comm"), "kthreadd\n").unwrap();
        self.with("PROC__ROOT", proc.to_str().unwrap())
    }

    /// Shows a process in its own `/proc`.
    pub fn show(&self, pid: u32) {
        std::os::unix::fs::symlink(format!("/proc/{pid}"), self.path().join("proc").join(pid.to_string()))
            .unwrap();
    }

    /// Has it read its GPUs by every library there is a double of, each at this interval.
    pub fn with_every_gpu_library(self, interval_seconds: &str) -> Self {
        let doubles = nvml_double().parent().unwrap();
        let mut node = self.with_own_processes().with("NVML__INTERVAL_SECONDS", interval_seconds);
        for (section, library) in [
            ("DCGM", "libdcgm.so.4"),
            ("AMD_SMI", "libamd_smi.so"),
            ("LEVEL_ZERO", "libze_loader.so.1"),
            ("CUPTI", "libcupti.so"),
        ] {
            node = node
                .with(&format!("{section}__ENABLED"), "true")
                .with(&format!("{section}__LIBRARY"), doubles.join(library).to_str().unwrap())
                .with(&format!("{section}__INTERVAL_SECONDS"), interval_seconds);
        }
        node.with("CUPTI__CUDA", doubles.join("libcuda.so.1").to_str().unwrap())
            .with("CUPTI__SAMPLES_PER_SECOND", "1000")
    }

    /// Gives it an adapter whose port has sent 4096 bytes.
    pub fn with_adapter(self, device: &str, node_guid: Guid) -> Self {
        let sys = self.path().join("sys");
        let adapter = AdapterDouble::create(&sys, device, node_guid).unwrap();
        adapter.set_counter("port_xmit_data", 1024).unwrap();
        self.with("SYSFS__ROOT", sys.to_str().unwrap()).with("SYSFS__INTERVAL_SECONDS", "0.05")
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The state folder of its agent.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The socket of its agent.
    pub fn socket(&self) -> PathBuf {
        self.state().join("run/mpi.sock")
    }

    /// Its agent, not started.
    pub fn command(&self, command: &str) -> Command {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_throughline-agent"));
        agent.args([command, "--log-level", "debug", "--state-dir"]).arg(self.state());
        agent.envs(self.variables.iter().cloned()).stdin(Stdio::null());
        agent
    }

    /// What `once` prints.
    pub fn once(&self) -> serde_json::Value {
        let output = self.command("once").output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts its agent and waits until it listens.
    pub fn run(&self) -> Agent {
        Self::started(self.command("run"))
    }

    /// The same with RLIMIT_FSIZE: no file of it grows beyond so many bytes.
    pub fn run_with_file_limit(&self, bytes: u64) -> Agent {
        let agent = self.command("run");
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--fsize={bytes}")).arg(agent.get_program()).args(agent.get_args());
        limited.envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        Self::started(limited)
    }

    /// The same by a line of a shell that may mount what it likes; it ends by running its arguments, `"$@"`.
    pub fn run_by(&self, line: &str) -> Agent {
        let agent = self.command("run");
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", line, "sh"]).arg(agent.get_program()).args(agent.get_args());
        shell.envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        Self::started(shell)
    }

    fn started(mut command: Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let mut errors = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let address = line.strip_prefix("listening agent=").map(|address| address.parse().unwrap());
        let mut agent = Agent { child, address: ([127, 0, 0, 1], 0).into(), log: Some(log) };
        match address {
            Some(address) => agent.address = address,
            None => panic!("the agent did not start: {line} {}", agent.end().1),
        }
        agent
    }

    /// All batches in the spool of an agent that has ended. A copy is read: opening a spool writes to it as the
    /// user who runs the tests, and the node's next agent may run as another user.
    pub fn spooled(&self) -> Vec<Batch> {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(self.state().join("spool")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let config = throughline_spool::Config { owner: "n1".into(), ..Default::default() };
        let spool = throughline_spool::Spool::open(copy.path(), config).unwrap();
        let (mut reader, mut after, mut batches) = (spool.reader(), 0, Vec::new());
        loop {
            let entries = reader.next_batch(after, 1000, 1 << 20).unwrap();
            let Some(last) = entries.last() else { return batches };
            after = last.sequence;
            batches.extend(entries.into_iter().map(|entry| Batch::decode(entry.payload).unwrap()));
        }
    }
}

/// A running agent; killed when dropped.
pub struct Agent {
    child: Child,
    address: SocketAddr,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Agent {
    /// Its `/metrics` now.
    pub fn metrics(&self) -> String {
        let (head, body) = self.response("/metrics");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body
    }

    /// The body of a page, whatever its status.
    pub fn page(&self, path: &str) -> String {
        self.response(path).1
    }

    fn response(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (head.to_owned(), if is_chunked { unchunk(body) } else { body.to_owned() })
    }

    /// Waits until `/metrics` has a line that begins with each of `parts`.
    pub fn wait_for(&self, parts: &[&str]) -> String {
        let missing = |text: &str| {
            let missing = parts.iter().find(|part| !text.lines().any(|line| line.starts_with(**part)));
            missing.map(|part| format!("{part} is not in"))
        };
        self.wait_while(missing)
    }

    /// Waits until no line of `/metrics` begins with `part`.
    pub fn wait_without(&self, part: &str) {
        let is_there = |text: &str| text.lines().any(|line| line.starts_with(part));
        self.wait_while(|text| is_there(text).then(|| format!("{part} is still in")));
    }

    /// Waits while something is wrong with `/metrics`.
    fn wait_while(&self, wrong: impl Fn(&str) -> Option<String>) -> String {
        let begin = Instant::now();
        loop {
            let text = self.metrics();
            let Some(wrong) = wrong(&text) else { return text };
            assert!(begin.elapsed() < PATIENCE, "{wrong}\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Signals it to end and waits for it; gives its log.
    pub fn stop(&mut self) -> (ExitStatus, String) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.end()
    }

    /// Signals it to stop as timeout(1) does, by two signals that it finds at the same time.
    pub fn stop_by_two_signals(&mut self) -> (ExitStatus, String) {
        use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGSTOP, SIGTERM};
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        for signal in [SIGSTOP, SIGTERM, SIGINT, SIGCONT] {
            nix::sys::signal::kill(pid, signal).unwrap();
        }
        self.end()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.end();
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        (status, self.log.take().map(|log| log.join().unwrap()).unwrap_or_default())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unchunk(body: &str) -> String {
    let (mut rest, mut text) = (body, String::new());
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&more[..length]);
        rest = more[length..].trim_start_matches("\r\n");
        if length == 0 {
            break;
        }
    }
    text
}
