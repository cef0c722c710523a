//! What runs on the emulated hosts: MPI programs of Open MPI over TCP, one rank a host, and a sender that no job knows.

use super::plan::{FABRIC_NETWORK, MANAGEMENT_NETWORK, Plan, fabric_address};
use super::space::FabricNamespaces;
use crate::mpi::{Mpi, quoted};
use crate::process::{Child, Recipe};
use crate::start::Programs;
use anyhow::Context;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program that ranks run, so that no source tree is needed.
pub const SOURCE: &str = include_str!("../../programs/operations.c");

/// Port of the sender that no job knows.
const STREAM_PORT: u16 = 7411;

/// One run of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its log's name.
    pub name: String,
    /// Positions of its hosts in the plan, in the order of ranks: one after the other, then again from the first.
    pub hosts: Vec<usize>,
    /// Ranks on each.
    pub ranks_a_host: usize,
    /// What runs; `operations.c` where there is none.
    pub program: Option<PathBuf>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Whether Open MPI reports each message that it sends.
    pub is_measured: bool,
}

impl Job {
    /// One rank of `operations.c` on each host: an operation by its name there, bytes of a call, how long it runs, and the pause
    /// between calls.
    #[must_use]
    pub fn of_operation(
        name: &str,
        hosts: Vec<usize>,
        operation: &str,
        bytes: u32,
        seconds: u32,
        pause_ms: u32,
    ) -> Job {
        let arguments =
            vec![operation.to_owned(), bytes.to_string(), seconds.to_string(), pause_ms.to_string()];
        Job { name: name.to_owned(), hosts, ranks_a_host: 1, program: None, arguments, is_measured: false }
    }
}

/// What is needed to start jobs.
#[derive(Clone, Debug)]
pub struct Launcher {
    mpi: Mpi,
    program: PathBuf,
    enter: PathBuf,
    exec: PathBuf,
    objects: PathBuf,
    folder: PathBuf,
    own_program: PathBuf,
}

impl Launcher {
    /// Compiles the program and writes the script by which Open MPI gets to a host. `sockets` are those of the hosts' agents,
    /// with the host's position.
    ///
    /// # Errors
    /// The compiler fails, or a file can't be written.
    pub async fn make(
        mpi: &Mpi,
        programs: &Programs,
        (compiled, run): (&Path, &Path),
        (plan, spaces): (&Plan, &FabricNamespaces),
        sockets: &[(usize, PathBuf)],
    ) -> anyhow::Result<Launcher> {
        let program = mpi.compile_source("operations", SOURCE, compiled).await?;
        let enter = run.join("enter.sh");
        let cases = sockets.iter().map(|(host, socket)| {
            (plan.nodes[*host].name.clone(), spaces.entering_from_within(spaces.pid(*host)), socket.clone())
        });
        write_script(&enter, &enter_script(cases))?;
        let folder = run.join("mpi");
        crate::layout::public_folder(&folder)?;
        Ok(Launcher {
            mpi: mpi.clone(),
            program,
            enter,
            exec: programs.exec.clone(),
            objects: programs.objects.clone(),
            folder,
            own_program: programs.demo.clone(),
        })
    }

    /// Starts a job; its output goes to `NAME.log` in `logs`.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(
        &self,
        job: &Job,
        plan: &Plan,
        spaces: &FabricNamespaces,
        logs: &Path,
    ) -> anyhow::Result<Child> {
        let script = self.folder.join(format!("{}.sh", job.name));
        let program = job.program.as_ref().unwrap_or(&self.program);
        write_script(&script, &self.rank_script(program, job.is_measured))?;
        let hosts: Vec<String> =
            job.hosts.iter().map(|host| format!("{}:{}", plan.nodes[*host].name, job.ranks_a_host)).collect();
        let temporary = self.folder.join("tmp");
        crate::layout::public_folder(&temporary)?;
        let recipe = spaces.recipe(spaces.centre_pid(), &job.name, self.mpi.launcher(), &self.folder);
        let recipe = recipe
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("TMPDIR", &temporary);
        let settings = settings(&self.enter);
        let recipe =
            settings.iter().fold(recipe, |recipe, (name, value)| recipe.arg("--mca").arg(name).arg(value));
        let recipe = recipe
            .option("--host", hosts.join(","))
            .option("-np", (job.hosts.len() * job.ranks_a_host).to_string())
            .option("--bind-to", "none")
            .option("--map-by", "node")
            .arg(&script);
        job.arguments.iter().fold(recipe, |recipe, argument| recipe.arg(argument)).start(logs)
    }

    /// Compiles another program, given its name and text.
    ///
    /// # Errors
    /// The compiler fails.
    pub async fn compile(&self, name: &str, source: &str) -> anyhow::Result<PathBuf> {
        let folder = self.program.parent().context("the program's folder")?;
        self.mpi.compile_source(name, source, folder).await
    }

    /// Starts the sender that no job knows, from one host to another one, and its receiver, which is returned first.
    ///
    /// # Errors
    /// One of them can't be started.
    pub fn stream(
        &self,
        (from, to): (usize, usize),
        bytes_per_second: u64,
        (plan, spaces): (&Plan, &FabricNamespaces),
        logs: &Path,
    ) -> anyhow::Result<[Child; 2]> {
        let address = format!("{}:{STREAM_PORT}", fabric_address(plan.nodes[to].lid));
        let receive: Recipe = spaces.recipe(spaces.pid(to), "receiver", &self.own_program, &self.folder);
        let receiver = receive.arg("stream").option("--listen", &address).start(logs)?;
        let send = spaces.recipe(spaces.pid(from), "stranger", &self.own_program, &self.folder);
        let send = send.arg("stream").option("--to", &address);
        let sender = send.option("--bytes-per-second", bytes_per_second.to_string()).start(logs)?;
        Ok([receiver, sender])
    }

    fn rank_script(&self, program: &Path, is_measured: bool) -> String {
        format!(
            "#!/bin/sh\n# A rank reports to the agent of its host, which enter.sh has named.\n\
             export THROUGHLINE_LIB_DIR={objects} THROUGHLINE_WIRE={wire}\n\
             exec {exec} {program} \"$@\"\n",
            objects = quoted(&self.objects),
            wire = u8::from(is_measured),
            exec = quoted(&self.exec),
            program = quoted(program),
        )
    }
}

/// Settings of Open MPI: programs are started through the star and send through the fabric. Components that look for
/// InfiniBand are left out by name: to choose another one (`pml ob1`) would leave the monitoring layer out as well.
fn settings(enter: &Path) -> Vec<(&'static str, String)> {
    [
        ("plm", "rsh"),
        ("plm_rsh_agent", &*enter.to_string_lossy()),
        ("plm_rsh_no_tree_spawn", "1"),
        ("oob_tcp_if_include", MANAGEMENT_NETWORK),
        ("btl", "tcp,self"),
        ("btl_tcp_if_include", FABRIC_NETWORK),
        ("pml", "^ucx,cm"),
        ("osc", "^ucx"),
        ("coll", "^hcoll"),
        // Ranks share few cores with the kernel that forwards for them.
        ("mpi_yield_when_idle", "1"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// The text of the script that Open MPI takes for ssh: HOST COMMAND.
fn enter_script(hosts: impl Iterator<Item = (String, Vec<String>, PathBuf)>) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Runs a command on an emulated host. Ranks poll: whatever counts goes first.\nhost=$1\nshift\ncase $host in\n",
    );
    for (name, entering, socket) in hosts {
        let words: Vec<String> = entering.iter().map(|word| quoted(Path::new(word))).collect();
        text.push_str(&format!(
            "{name}) exec {} nice -n 10 env THROUGHLINE_SOCKET={} /bin/sh -c \"$*\" ;;\n",
            words.join(" "),
            quoted(&socket)
        ));
    }
    text.push_str("esac\necho \"there is no host $host\" >&2\nexit 1\n");
    text
}

fn write_script(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .with_context(|| format!("mode of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_script_runs_a_command_on_the_host_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("enter.sh");
        let hosts = ["node0001", "node0002"].map(|name| {
            let entering = vec!["/usr/bin/env".to_owned(), format!("HOST={name}")];
            (name.to_owned(), entering, folder.path().join(format!("{name}'s.sock")))
        });
        write_script(&script, &enter_script(hosts.into_iter())).unwrap();
        let run = |host: &str| {
            let mut command = Command::new("/bin/sh");
            command.arg(&script).arg(host).arg(r#"X=1; export X; echo "$HOST $THROUGHLINE_SOCKET $X""#);
            command.output().unwrap()
        };
        let text = String::from_utf8(run("node0002").stdout).unwrap();
        assert_eq!(text, format!("node0002 {}/node0002's.sock 1\n", folder.path().display()));
        assert_eq!(run("node0009").status.code(), Some(1));
    }

    #[test]
    fn the_monitoring_layer_stays() {
        let settings = settings(Path::new("/run/enter.sh"));
        let pml = settings.iter().find(|(name, _)| *name == "pml").unwrap();
        assert!(pml.1.starts_with('^'), "a choice leaves out pml_monitoring: {pml:?}");
    }
}
