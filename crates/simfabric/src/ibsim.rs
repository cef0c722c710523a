//! A simulated fabric for tests, benches and the demo: ibsim and opensm as processes of their own.
//!
//! Programs come from a prefix (never installed: their packages would start services). Each fabric has a folder
//! and a socket name of its own, so that any number run side by side. Nothing in the crawler depends on this.

mod console;
mod tools;

pub use tools::{SimTools, ToolsMissing};

use console::Console;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// ibsim reads a net of 8,008 hosts in 3 s on an idle machine.
const IBSIM_START_LIMIT: Duration = Duration::from_secs(120);
/// opensm configures 8,008 hosts in 25 s on an idle machine.
const OPENSM_START_LIMIT: Duration = Duration::from_secs(180);
/// Time for a child to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Name of the net in the fabric's folder.
const NET_FILE: &str = "net";
/// Pause between looks at a file or a child.
const POLL: Duration = Duration::from_millis(20);
/// LIDs that a simulated switch's table can hold (ibsim's own limit is 48 x 1024, its default 30 x 1024).
const LINEAR_CAPACITY: &str = "30720";

/// Why a simulated fabric could not be started or used.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The programs are not there.
    #[error(transparent)]
    Tools(#[from] ToolsMissing),
    /// A file or process operation failed.
    #[error("{what}: {cause}")]
    Io {
        /// The operation.
        what: String,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A program ended or did not become ready.
    #[error("{program} {what}; the last it said:\n{said}")]
    Program {
        /// The program.
        program: &'static str,
        /// What happened.
        what: &'static str,
        /// The end of its output.
        said: String,
    },
    /// ibsim refused a console command.
    #[error("ibsim refused a console command: {0}")]
    Refused(String),
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> SimError {
    let what = what.into();
    move |cause| SimError::Io { what, cause }
}

/// Routing engines of opensm that separate traffic by virtual lanes.
const LANE_ENGINES: [&str; 4] = ["dfsssp", "lash", "nue", "torus-2QoS"];

/// What a simulated fabric is to have besides its net.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Whether opensm gives LIDs and routes. Without it, ports stay in state Initialize.
    pub subnet_manager: bool,
    /// Node (ibsim's id or description) at which opensm attaches; the net's first one where `None`.
    pub manager_host: Option<String>,
    /// Routing engine of opensm (`minhop`, `updn`, `ftree`); its default where `None`.
    pub routing: Option<String>,
    /// LID mask control: each port gets 2^lmc LIDs.
    pub lmc: u8,
    /// Seconds between opensm's light sweeps; 0 switches them off, for benches.
    pub manager_sweep_seconds: u32,
    /// Whether its processes are kept apart from the terminal's Ctrl-C, for a caller that stops them in order.
    pub own_process_groups: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            subnet_manager: true,
            manager_host: None,
            routing: None,
            lmc: 0,
            manager_sweep_seconds: 10,
            own_process_groups: false,
        }
    }
}

/// A running simulated fabric; dropped, its processes end.
pub struct SimFabric {
    tools: SimTools,
    folder: PathBuf,
    socket_name: String,
    clients: AtomicU32,
    console: Console,
    opensm: Option<Child>,
    ibsim: Child,
}

impl SimFabric {
    /// Starts ibsim on a net in `ibnetdiscover`'s format and, unless switched off, opensm, and waits until the
    /// subnet is up. Everything they write goes into `folder`, which is created and not removed.
    ///
    /// # Errors
    /// [`SimError`], with what the program said.
    pub fn start(
        tools: &SimTools,
        folder: &Path,
        net: &str,
        options: &SimOptions,
    ) -> Result<SimFabric, SimError> {
        std::fs::create_dir_all(folder).map_err(io(format!("creating {}", folder.display())))?;
        let folder = folder.canonicalize().map_err(io(format!("finding {}", folder.display())))?;
        let net_file = folder.join(NET_FILE);
        std::fs::write(&net_file, net).map_err(io(format!("writing {}", net_file.display())))?;
        let socket_name = socket_name();
        let (ibsim, console) = spawn_ibsim(tools, &folder, net, &socket_name, options)?;
        let mut fabric = SimFabric {
            tools: tools.clone(),
            folder,
            socket_name,
            clients: AtomicU32::new(0),
            console,
            opensm: None,
            ibsim,
        };
        fabric.wait_for_ibsim()?;
        if options.subnet_manager {
            fabric.start_opensm(options)?;
        }
        Ok(fabric)
    }

    /// Ends both programs without a word to their clients and starts them again under the same name, with `meanwhile` in
    /// between.
    ///
    /// # Errors
    /// As [`SimFabric::start`].
    pub fn restart(
        &mut self,
        net: &str,
        options: &SimOptions,
        meanwhile: impl FnOnce(),
    ) -> Result<(), SimError> {
        if let Some(mut opensm) = self.opensm.take() {
            stop(&mut opensm);
        }
        stop(&mut self.ibsim);
        meanwhile();
        (self.ibsim, self.console) = spawn_ibsim(&self.tools, &self.folder, net, &self.socket_name, options)?;
        self.wait_for_ibsim()?;
        if options.subnet_manager { self.start_opensm(options) } else { Ok(()) }
    }

    fn wait_for_ibsim(&mut self) -> Result<(), SimError> {
        let start = Instant::now();
        while !self.console.is_ready() {
            let ended = self.ibsim.try_wait().map_err(io("waiting for ibsim"))?.is_some();
            if ended || start.elapsed() > IBSIM_START_LIMIT {
                let what = if ended { "ended: the net file is wrong" } else { "did not become ready" };
                let said = format!("{}{}", self.console.output(), tail(&self.folder.join("ibsim.log")));
                return Err(SimError::Program { program: "ibsim", what, said });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn start_opensm(&mut self, options: &SimOptions) -> Result<(), SimError> {
        let log_file = self.folder.join("opensm.log");
        let settings_file = self.folder.join("opensm.conf");
        // Its log is read for "SUBNET UP", which stays in a buffer otherwise. Lanes are set only with QoS.
        let has_lanes = options.routing.as_deref().is_some_and(|routing| LANE_ENGINES.contains(&routing));
        let settings = format!("force_log_flush TRUE\nqos {}\n", if has_lanes { "TRUE" } else { "FALSE" });
        std::fs::write(&settings_file, settings)
            .map_err(io(format!("writing {}", settings_file.display())))?;
        let mut command = self.client(self.tools.program("opensm"), options.manager_host.as_deref())?;
        if options.own_process_groups {
            command.process_group(0);
        }
        command.arg("-F").arg(&settings_file).arg("-f").arg(&log_file);
        command.arg("-s").arg(options.manager_sweep_seconds.to_string());
        if options.lmc > 0 {
            command.arg("-l").arg(options.lmc.to_string());
        }
        if let Some(routing) = &options.routing {
            command.arg("-R").arg(routing);
        }
        command
            .env("OSM_TMP_DIR", &self.folder)
            .env("OSM_CACHE_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(log(&self.folder, "opensm.out")?)
            .stderr(log(&self.folder, "opensm.err")?);
        self.opensm = Some(command.spawn().map_err(io("starting opensm"))?);
        let start = Instant::now();
        while !std::fs::read_to_string(&log_file).unwrap_or_default().contains("SUBNET UP") {
            let opensm = self.opensm.as_mut();
            let ended = opensm.map(Child::try_wait).transpose().map_err(io("waiting for opensm"))?.flatten();
            if ended.is_some() || start.elapsed() > OPENSM_START_LIMIT {
                let what = if ended.is_some() { "ended" } else { "did not bring the subnet up" };
                let said = format!("{}{}", tail(&self.folder.join("opensm.err")), tail(&log_file));
                return Err(SimError::Program { program: "opensm", what, said });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The environment of a client that attaches at `host` (ibsim's node id or description; the net's first
    /// node where `None`). A client also needs a working folder of its own: see [`SimFabric::client`].
    #[must_use]
    pub fn environment(&self, host: Option<&str>) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("LD_PRELOAD", self.tools.umad2sim().into_os_string()),
            ("LD_LIBRARY_PATH", self.tools.libraries().into_os_string()),
            ("IBSIM_SOCKNAME", OsString::from(&self.socket_name)),
        ];
        if let Some(host) = host {
            variables.push(("SIM_HOST", OsString::from(host)));
        }
        variables
    }

    /// A command that runs a program as a client at `host`, in a new folder of its own (libumad2sim writes one
    /// there). A fabric takes at most 10 clients at once, opensm among them.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn client(&self, program: impl AsRef<OsStr>, host: Option<&str>) -> Result<Command, SimError> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("client-{number}"));
        std::fs::create_dir_all(&folder).map_err(io(format!("creating {}", folder.display())))?;
        let mut command = Command::new(program);
        command.envs(self.environment(host)).current_dir(folder);
        Ok(command)
    }

    /// A program of infiniband-diags as a client at `host`.
    ///
    /// # Errors
    /// As [`SimFabric::client`].
    pub fn tool(&self, name: &str, host: Option<&str>) -> Result<Command, SimError> {
        self.client(self.tools.program(name), host)
    }

    /// Runs console commands, one a line of at most 120 bytes, and waits until ibsim has done them. Returns
    /// what it printed.
    ///
    /// # Errors
    /// [`SimError::Refused`] when it complains about one; [`SimError::Program`] when it is gone.
    pub fn console(&mut self, commands: &str) -> Result<String, SimError> {
        let said = self.console.run(commands)?;
        match said.lines().find(|line| is_complaint(line)) {
            Some(line) => Err(SimError::Refused(line.trim().to_owned())),
            None => Ok(said),
        }
    }

    /// Where its files lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ids of its processes: ibsim, then opensm.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        std::iter::once(&self.ibsim).chain(&self.opensm).map(Child::id).collect()
    }
}

impl Drop for SimFabric {
    fn drop(&mut self) {
        // First the client: one whose simulator is gone hangs.
        if let Some(opensm) = &mut self.opensm {
            stop(opensm);
        }
        stop(&mut self.ibsim);
    }
}

/// Starts ibsim on the net that lies in `folder`.
fn spawn_ibsim(
    tools: &SimTools,
    folder: &Path,
    net: &str,
    socket_name: &str,
    options: &SimOptions,
) -> Result<(Child, Console), SimError> {
    let (fifo, stdin) = console::fifo(folder)?;
    let mut ibsim = command(tools.program("ibsim"), options)
        .args(limits(net))
        .arg(folder.join(NET_FILE))
        .env("IBSIM_SOCKNAME", socket_name)
        .current_dir(folder)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(log(folder, "ibsim.log")?)
        .spawn()
        .map_err(io("starting ibsim"))?;
    match ibsim.stdout.take() {
        Some(output) => Ok((ibsim, Console::new(fifo, output))),
        None => Err(io("starting ibsim")(std::io::Error::other("no standard output"))),
    }
}

/// ibsim's complaints begin with `#` and say what is wrong.
fn is_complaint(line: &str) -> bool {
    let line = line.trim_start_matches("sim> ");
    line.starts_with('#')
        && ["match", "Can't", "can't", "not found", "unknown", "bad"].iter().any(|word| line.contains(word))
}

/// Ends a child: SIGTERM, then SIGKILL.
fn stop(child: &mut Child) {
    use nix::sys::signal::{Signal, kill};
    if let Ok(pid) = i32::try_from(child.id()) {
        // It may have ended by itself; then there is nothing to do.
        let _ = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM);
    }
    let start = Instant::now();
    while start.elapsed() < STOP_LIMIT {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn command(program: PathBuf, options: &SimOptions) -> Command {
    let mut command = Command::new(program);
    if options.own_process_groups {
        command.process_group(0);
    }
    command
}

/// A name for the simulator's abstract sockets that no other one has.
fn socket_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("throughline-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Options for a net of any size: ibsim's own limits are 2,048 nodes and 256 switches.
fn limits(net: &str) -> Vec<String> {
    let switches = net.lines().filter(|line| line.starts_with("Switch")).count();
    let nodes = switches
        + net.lines().filter(|l| l.starts_with("Ca") || l.starts_with("Hca") || l.starts_with("Rt")).count();
    // The second word of a node's line is its ports; a switch has port 0 as well.
    let ports_of = |line: &str| {
        line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0) + 1
    };
    let ports: usize = net
        .lines()
        .filter(|line| line.contains('"') && !line.starts_with(['[', '@', '#']))
        .map(ports_of)
        .sum();
    let option = |name: &str, value: usize| [name.to_owned(), (value + 16).to_string()];
    let mut options = vec!["-s".to_owned(), "-L".to_owned(), LINEAR_CAPACITY.to_owned()];
    options.extend(option("-N", nodes));
    options.extend(option("-S", switches));
    options.extend(option("-P", ports));
    options
}

fn log(folder: &Path, name: &str) -> Result<File, SimError> {
    let path = folder.join(name);
    File::create(&path).map_err(io(format!("creating {}", path.display())))
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
