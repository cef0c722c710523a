//! A server, agents and programs on this machine.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use throughline_client::Settings;

use crate::server::Server;

/// A program and where it runs.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name of its source, without the ending.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Ranks, divided among as many agents.
    pub ranks: usize,
    /// One or two.
    pub agents: usize,
    /// As in the names of Debian's alternatives.
    pub mpi: &'a str,
    /// Environment of the launcher.
    pub environment: &'a [(&'a str, &'a str)],
}

/// A server with two agents, all ended when dropped.
#[allow(missing_debug_implementations)] // it holds processes
pub struct Site {
    folder: PathBuf,
    programs: PathBuf,
    agents: Vec<Child>,
    server: Server,
}

impl Site {
    /// Starts them with programs from a folder, and compiles a C source below `benches/` for both libraries.
    ///
    /// # Errors
    /// One of them does not start, or a compiler is not there.
    pub fn start(programs: &Path, folder: &Path, source: &str) -> anyhow::Result<Self> {
        let server = Server::start(&programs.join("throughline"), folder, "")?;
        let mut agents = Vec::new();
        for node in ["n1", "n2"] {
            let mut agent = Command::new(programs.join("throughline-agent"));
            agent.args(["run", "--log-level", "warn", "--state-dir"]).arg(folder.join(node));
            let collector = format!("http://{}", server.collect);
            for (key, value) in
                [("NODE", node), ("HTTP__LISTEN", "127.0.0.1:0"), ("DELIVERY__COLLECTOR", &collector)]
            {
                agent.env(format!("THROUGHLINE__{key}"), value);
            }
            agents.push(agent.stdout(Stdio::null()).spawn().context("throughline-agent")?);
        }
        for mpi in ["openmpi", "mpich"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
            let name = source.file_stem().context("a source has a name")?.to_string_lossy().into_owned();
            let mut compiler = Command::new(format!("mpicc.{mpi}"));
            // MPICH's header lets gcc warn of MPI_STATUSES_IGNORE.
            compiler.args(["-O2", "-Wall", "-Wextra", "-Wno-stringop-overflow", "-pthread", "-o"]);
            compiler.arg(folder.join(format!("{name}.{mpi}")));
            let status = compiler.arg(source).status().context("mpicc is not there: make deps")?;
            ensure!(status.success(), "mpicc.{mpi}: {status}");
        }
        Ok(Self { folder: folder.to_owned(), programs: programs.to_owned(), agents, server })
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.query)
    }

    /// To read from it.
    ///
    /// # Errors
    /// Its settings are wrong.
    pub fn client(&self) -> anyhow::Result<throughline_client::Server> {
        let settings = Settings { server: self.url(), token: None, token_source: None, ca_file: None };
        throughline_client::Server::new(settings).map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// What a command prints.
    ///
    /// # Errors
    /// It fails.
    pub fn says(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(self.programs.join("throughline"));
        let output =
            command.args(arguments).args(["--server", &self.url()]).env("COLUMNS", "110").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// Where a run's ranks write what they did.
    pub fn log_folder(&self, run: &str) -> PathBuf {
        self.folder.join("logs").join(run)
    }

    /// Starts a program under the shim.
    ///
    /// # Errors
    /// There is no launcher.
    pub fn launch(&self, run: &Launch<'_>) -> anyhow::Result<Child> {
        let mut command = Command::new(format!("mpirun.{}", run.mpi));
        if run.mpi == "openmpi" {
            command.args(["--oversubscribe", "--mca", "btl", "self,vader"]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        for agent in 1..=run.agents {
            let ranks = run.ranks / run.agents;
            let socket = self.folder.join(format!("n{agent}/run/mpi.sock"));
            command.args((agent > 1).then_some(":")).args(["-n", &ranks.to_string(), "env"]);
            command.arg(format!("THROUGHLINE_SOCKET={}", socket.display()));
            command.arg(self.programs.join("throughline-exec"));
            command.arg(self.folder.join(format!("{}.{}", run.program, run.mpi)));
            command.args(&run.arguments);
        }
        command.env("THROUGHLINE_LIB_DIR", self.programs.join("lib/throughline"));
        command.envs(run.environment.iter().copied());
        command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("mpirun.{} is not there: make deps", run.mpi))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            if let Ok(pid) = i32::try_from(agent.id()) {
                let signal = nix::sys::signal::Signal::SIGTERM;
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
            }
            let _ = agent.wait();
        }
    }
}
