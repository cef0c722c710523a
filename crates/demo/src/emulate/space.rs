//! Network namespaces of nodes, each held by a process of its own that does nothing else. A namespace lives as long as a
//! process in it: when those end, nothing is left behind, no name and no mount.
//!
//! As root the namespaces are made directly; else in a user namespace in which this user counts as root.

use super::plan::{Plan, settings};
use crate::process::{Child, Recipe, STOP_GRACE};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use throughline_daemon::Failure;
use tokio::io::AsyncWriteExt;

/// How long a namespace may take to be there. Milliseconds on an idle machine.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Programs of the machine that are needed.
#[derive(Clone, Debug)]
pub struct Tools {
    unshare: PathBuf,
    nsenter: PathBuf,
    setpriv: PathBuf,
    ip: PathBuf,
    tc: PathBuf,
    /// Whether namespaces are made in a user namespace.
    is_user: bool,
}

impl Tools {
    /// Finds them, and how namespaces can be made here.
    ///
    /// # Errors
    /// A program is missing (69), or this user may make no network namespace (77).
    pub fn find() -> Result<Tools, Failure> {
        let find = |name: &str, package: &str| {
            program(name).ok_or_else(|| {
                Failure::unavailable(format!(
                    "an emulated fabric needs the program {name}; on Debian: apt-get install {package}. \
                     `throughline demo` without --emulate does without"
                ))
            })
        };
        let mut tools = Tools {
            unshare: find("unshare", "util-linux")?,
            nsenter: find("nsenter", "util-linux")?,
            setpriv: find("setpriv", "util-linux")?,
            ip: find("ip", "iproute2")?,
            tc: find("tc", "iproute2")?,
            is_user: false,
        };
        // A device of each kind and a limit, in a namespace that goes at once.
        let script = "ip link add name p1 type veth peer name p2 && tc qdisc add dev p1 root tbf rate 1mbit burst 9k limit 64k";
        let mut said = String::new();
        for is_user in [false, true] {
            let mut command = std::process::Command::new(&tools.unshare);
            command.args(if is_user { &["-U", "-r", "-n", "-u"][..] } else { &["-n", "-u"][..] });
            let output = command.args(["sh", "-c", script]).stdin(Stdio::null()).output();
            match output {
                Ok(output) if output.status.success() => {
                    tools.is_user = is_user;
                    return Ok(tools);
                }
                Ok(output) => said = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(error) => said = error.to_string(),
            }
        }
        Err(Failure::permission(format!(
            "this user can't make network namespaces with virtual Ethernet devices and a token bucket (veth, sch_tbf): {said}; \
             run as root, or where user namespaces are allowed. `throughline demo` without --emulate needs none"
        )))
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The namespaces of a fabric. Dropped, their processes end.
pub struct FabricNamespaces {
    tools: Tools,
    /// Holds the user namespace.
    user: Option<Child>,
    /// Of each node, in the plan's order.
    nodes: Vec<Child>,
    /// Of the star's middle.
    centre: Option<Child>,
    logs: PathBuf,
}

impl FabricNamespaces {
    /// Nothing yet; logs of what is started go to `logs`.
    #[must_use]
    pub fn new(tools: Tools, logs: &Path) -> FabricNamespaces {
        FabricNamespaces { tools, user: None, nodes: Vec::new(), centre: None, logs: logs.to_owned() }
    }

    /// Makes all namespaces of a plan, their devices, routes and limits.
    ///
    /// # Errors
    /// The kernel refuses something; the message has what `ip` or `tc` said.
    pub async fn build(&mut self, plan: &Plan, folder: &Path) -> anyhow::Result<()> {
        if self.tools.is_user {
            let recipe = Recipe::new("namespaces", &self.tools.unshare, folder);
            let mut user = recipe.arg("-U").arg("-r").arg("sleep").arg("infinity").start(&self.logs)?;
            wait_for_space(&mut user, "user").await?;
            self.user = Some(user);
        }
        let mut starting = Vec::new();
        for name in plan.nodes.iter().map(|node| node.name.as_str()).chain(["launcher"]) {
            starting.push(self.hold(name, folder)?);
        }
        for holder in &mut starting {
            wait_for_space(holder, "net").await?;
        }
        self.centre = starting.pop();
        self.nodes = starting;
        let pids: Vec<u32> = self.nodes.iter().map(|node| node.pid).collect();
        let centre = self.centre_pid();
        for (pid, name) in pids.iter().zip(plan.nodes.iter().map(|node| node.name.as_str())) {
            self.prepare(*pid, name).await?;
        }
        self.prepare(centre, "launcher").await?;
        self.batch(centre, &self.tools.ip, &plan.cable_commands(&pids, centre)).await?;
        for (index, pid) in pids.iter().enumerate() {
            self.batch(*pid, &self.tools.ip, &plan.node_commands(index)).await?;
            self.batch(*pid, &self.tools.tc, &plan.limit_commands(index)).await?;
        }
        self.batch(centre, &self.tools.ip, &plan.centre_commands()).await
    }

    fn hold(&self, name: &str, folder: &Path) -> anyhow::Result<Child> {
        let recipe = match &self.user {
            None => Recipe::new("namespaces", &self.tools.unshare, folder),
            Some(user) => Recipe::new("namespaces", &self.tools.nsenter, folder)
                .arg("-t")
                .arg(user.pid.to_string())
                .arg("-U")
                .arg("--preserve-credentials")
                .arg(&self.tools.unshare),
        };
        let recipe = recipe.arg("-n").arg("-u").arg(&self.tools.setpriv).arg("--pdeathsig").arg("TERM");
        recipe
            .arg("sleep")
            .arg("infinity")
            .start(&self.logs)
            .with_context(|| format!("the namespace of {name}"))
    }

    /// Sets a namespace's host name and settings.
    async fn prepare(&self, pid: u32, name: &str) -> anyhow::Result<()> {
        let mut script = format!("hostname {name}\ncd /proc/sys/net\n");
        for (setting, value) in settings() {
            script.push_str(&format!("[ ! -e {setting} ] || echo '{value}' > {setting} || exit 1\n"));
        }
        let sh = Path::new("/bin/sh");
        let mut command = self.command(pid, sh);
        command.args(["-e", "-c", &script]);
        run(command, "").await.with_context(|| format!("settings of {name}"))?;
        Ok(())
    }

    async fn batch(&self, pid: u32, tool: &Path, commands: &str) -> anyhow::Result<()> {
        let mut command = self.command(pid, tool);
        command.args(["-batch", "-"]);
        run(command, commands)
            .await
            .with_context(|| format!("making the emulated fabric by {}", tool.display()))?;
        Ok(())
    }

    /// The process that holds a node's namespace.
    #[must_use]
    pub fn pid(&self, node: usize) -> u32 {
        self.nodes[node].pid
    }

    /// The process that holds the namespace of the star's middle.
    #[must_use]
    pub fn centre_pid(&self) -> u32 {
        self.centre.as_ref().map_or(0, |centre| centre.pid)
    }

    /// `tc`.
    #[must_use]
    pub fn tc(&self) -> &Path {
        &self.tools.tc
    }

    /// As [`FabricNamespaces::entering`], for a process that is in another of these namespaces, and so in the user namespace already:
    /// nobody can enter that twice.
    #[must_use]
    pub fn entering_from_within(&self, pid: u32) -> Vec<String> {
        let mut words = self.entering(pid);
        words.retain(|word| word != "-U" && word != "--preserve-credentials");
        words
    }

    /// Words before a command that run it in the namespace that `pid` holds; it ends with its parent.
    #[must_use]
    pub fn entering(&self, pid: u32) -> Vec<String> {
        let mut words = vec![self.tools.nsenter.display().to_string(), "-t".into(), pid.to_string()];
        if self.tools.is_user {
            words.extend(["-U", "--preserve-credentials"].map(String::from));
        }
        words.extend(["-n".into(), "-u".into(), self.tools.setpriv.display().to_string()]);
        words.extend(["--pdeathsig", "TERM"].map(String::from));
        words
    }

    /// A command in the namespace that `pid` holds.
    #[must_use]
    pub fn command(&self, pid: u32, program: &Path) -> tokio::process::Command {
        let words = self.entering(pid);
        let mut command = tokio::process::Command::new(&words[0]);
        command.args(&words[1..]).arg(program).kill_on_drop(true);
        command
    }

    /// A child in the namespace that `pid` holds, to be started.
    #[must_use]
    pub fn recipe(&self, pid: u32, name: &str, program: &Path, folder: &Path) -> Recipe {
        let words = self.entering(pid);
        let recipe = Recipe::new(name, Path::new(&words[0]), folder);
        words[1..].iter().fold(recipe, |recipe, word| recipe.arg(word)).arg(program)
    }

    /// An error that names a namespace whose process is gone.
    ///
    /// # Errors
    /// One ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.all().try_for_each(|child| child.check())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Child> {
        self.nodes.iter_mut().chain(&mut self.centre).chain(&mut self.user)
    }

    /// Ends the processes that hold the namespaces.
    pub async fn stop(&mut self) -> bool {
        let mut clean = true;
        for child in self.all() {
            clean &= child.stop(STOP_GRACE).await;
        }
        self.nodes.clear();
        self.centre = None;
        self.user = None;
        clean
    }
}

/// Waits until a process is in a namespace of its own: `unshare` gets there soon after its start.
async fn wait_for_space(child: &mut Child, kind: &str) -> anyhow::Result<()> {
    let own = std::fs::read_link(format!("/proc/self/ns/{kind}")).context("reading /proc/self/ns")?;
    let place = format!("/proc/{}/ns/{kind}", child.pid);
    let begin = Instant::now();
    loop {
        child.check()?;
        let is_there = std::fs::read_link(&place).is_ok_and(|theirs| theirs != own);
        // The last program it becomes: until then nobody may enter.
        let name = std::fs::read_to_string(format!("/proc/{}/comm", child.pid)).unwrap_or_default();
        if is_there && name.trim() == "sleep" {
            return Ok(());
        }
        anyhow::ensure!(
            begin.elapsed() < READY_LIMIT,
            "process {} is in no {kind} namespace of its own",
            child.pid
        );
        tokio::time::sleep(POLL).await;
    }
}

/// Runs a command with some input to its end; what it printed.
///
/// # Errors
/// It can't be started or fails; the message has what it said.
pub async fn run(mut command: tokio::process::Command, input: &str) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {:?}", command.as_std()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early closes it; its status says why.
        drop(stdin.write_all(input.as_bytes()).await);
    }
    let output = child.wait_with_output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
