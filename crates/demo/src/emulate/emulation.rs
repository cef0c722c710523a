//! The emulated fabric with everything on it: namespaces, cables and their counters, the simulated fabric that answers MADs,
//! and the real daemons. What is started is in [`Emulation`] from then on, so that it can be stopped at any point.

use super::counters::TICK_BYTES;
use super::jobs::{Job, Launcher};
use super::meter::Meter;
use super::plan::Plan;
use super::space::{FabricNamespaces, Tools};
use super::{Shape, fabric};
use crate::config::Server;
use crate::doubles::Sysfs;
use crate::layout::{Layout, public_folder};
use crate::mpi::Mpi;
use crate::process::{Child, Recipe, STOP_GRACE};
use crate::stack::Stack;
use crate::start::{self, Programs, READY_LIMIT, progress, quoted, write};
use anyhow::{Context, anyhow};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use throughline_daemon::{Failure, paths};
use throughline_infiniband::topology::FatTree;
use throughline_prefix::Prefix;
use throughline_simfabric::SimFabric;

/// From one sweep to the next: on a busy machine one may be seconds late, and a longer gap counts as not read.
const SWEEP_SECONDS: &str = "2.0";

/// What runs.
pub struct Emulation {
    /// Folders of this demo.
    pub layout: Layout,
    /// What was built.
    pub plan: Plan,
    /// Namespaces.
    pub spaces: FabricNamespaces,
    /// Page of `serve`.
    pub server_address: SocketAddr,
    launcher: Option<Launcher>,
    fabric: Option<SimFabric>,
    meter: Option<Meter>,
    stack: Stack,
    jobs: Vec<Child>,
    streams: Vec<Child>,
}

/// What is looked for before anything is started.
pub struct Prerequisites {
    programs: Programs,
    mpi: Mpi,
    tools: Tools,
    server: Server,
}

impl Prerequisites {
    /// Looks for programs and permissions.
    ///
    /// # Errors
    /// Something is not there (69), or namespaces are not allowed (77).
    pub fn find(server: Server) -> anyhow::Result<Prerequisites> {
        let (programs, mpi) = (Programs::find()?, Mpi::find()?);
        if !mpi.has_pvars {
            let text = "an emulated fabric needs Open MPI: MPICH can't be led to the hosts; on Debian: apt-get install \
                        libopenmpi-dev openmpi-bin";
            return Err(Failure::unavailable(text).into());
        }
        Ok(Prerequisites { programs, mpi, tools: Tools::find()?, server })
    }

    /// The command line tool, for people to type.
    #[must_use]
    pub fn throughline(&self) -> &Path {
        &self.programs.throughline
    }
}

impl Emulation {
    /// Nothing yet.
    #[must_use]
    pub fn new(found: &Prerequisites, layout: Layout) -> Emulation {
        let spaces = FabricNamespaces::new(found.tools.clone(), &layout.logs());
        Emulation {
            layout,
            plan: Plan { nodes: Vec::new(), cables: Vec::new(), bits_per_second: 0 },
            spaces,
            server_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            launcher: None,
            fabric: None,
            meter: None,
            stack: Stack::default(),
            jobs: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// Starts everything but jobs.
    ///
    /// # Errors
    /// The first thing that could not be started.
    pub async fn start(&mut self, found: &Prerequisites, shape: Shape) -> anyhow::Result<()> {
        let tree = shape.tree();
        let (prefix, _) = start::ensure_prefix(&self.layout.server(), &found.server).await?;
        progress(&format!(
            "configuring {} hosts and {} switches by opensm, and starting the database",
            tree.hosts,
            tree.switches()
        ));
        self.stack.server = Some(start::start_server(&self.layout, &found.programs, &found.server)?);
        self.build(found, tree, &prefix, shape.link_bits_per_second()).await?;

        progress("waiting for the database and `throughline serve`");
        let server = self.stack.server.as_mut().ok_or_else(|| anyhow!("serve is gone"))?;
        server.address("collect", READY_LIMIT).await?;
        let collect = start::collect_socket(&self.layout)?;
        self.server_address = server.address("query", READY_LIMIT).await?;

        let mut nodes = Vec::new();
        for (place, host) in self.plan.hosts().into_iter().enumerate() {
            nodes.push(Node::make(&self.layout, place, &self.plan, host, &collect)?);
        }
        for node in &nodes {
            self.stack.agents.push(node.start(&self.layout, &found.programs)?);
        }
        let sockets: Vec<(usize, PathBuf)> =
            nodes.iter().map(|node| (node.host, node.socket.clone())).collect();
        let sysfs = nodes.into_iter().map(|node| (node.host, node.sysfs)).collect();
        let fabric = self.fabric.as_ref().ok_or_else(|| anyhow!("the simulated fabric is gone"))?;
        self.meter = Some(Meter::start(&self.plan, &self.spaces, fabric.socket(), sysfs)?);
        let crawler = start_crawler(&self.layout, &found.programs, fabric, &self.plan, &collect)?;
        self.stack.crawler = Some(crawler);
        progress("waiting for the crawler and the agents");
        for (child, role) in self.stack.crawler.iter_mut().map(|child| (child, "fabric")) {
            child.address(role, READY_LIMIT).await?;
        }
        for agent in &mut self.stack.agents {
            agent.address("agent", READY_LIMIT).await?;
        }
        for (_, socket) in &sockets {
            start::wait_for_socket(socket).await?;
        }
        let folders = (&*self.layout.programs(), &*self.layout.run());
        let built = (&self.plan, &self.spaces);
        self.launcher = Some(Launcher::make(&found.mpi, &found.programs, folders, built, &sockets).await?);
        Ok(())
    }

    /// The fabric: opensm's tables, the namespaces, and what answers MADs.
    async fn build(
        &mut self,
        found: &Prerequisites,
        tree: FatTree,
        prefix: &Prefix,
        bits_per_second: u64,
    ) -> anyhow::Result<()> {
        let topology = fabric::configured_by_opensm(tree, prefix, &self.layout, &found.programs)?;
        self.plan = Plan::of(&topology, bits_per_second)?;
        progress(&format!(
            "making {} namespaces and {} cables",
            self.plan.nodes.len(),
            self.plan.cables.len()
        ));
        let folder = self.layout.run_folder("namespaces")?;
        self.spaces.build(&self.plan, &folder).await?;
        self.fabric = Some(fabric::start(&tree, &topology)?);
        Ok(())
    }

    /// Starts a job.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start_job(&mut self, job: &Job) -> anyhow::Result<()> {
        let launcher = self.launcher.as_ref().ok_or_else(|| anyhow!("nothing is started yet"))?;
        self.jobs.push(launcher.start(job, &self.plan, &self.spaces, &self.layout.logs())?);
        Ok(())
    }

    /// Starts the sender that no job knows, from one host (a position in the plan) to another one.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start_stream(&mut self, from: usize, to: usize, bytes_per_second: u64) -> anyhow::Result<()> {
        let launcher = self.launcher.as_ref().ok_or_else(|| anyhow!("nothing is started yet"))?;
        let pair =
            launcher.stream((from, to), bytes_per_second, (&self.plan, &self.spaces), &self.layout.logs())?;
        self.streams.extend(pair);
        Ok(())
    }

    /// Compiles another program for jobs, given its name and text.
    ///
    /// # Errors
    /// The compiler fails.
    pub async fn compile(&self, name: &str, source: &str) -> anyhow::Result<PathBuf> {
        let launcher = self.launcher.as_ref().ok_or_else(|| anyhow!("nothing is started yet"))?;
        launcher.compile(name, source).await
    }

    /// Ends a job that would not end by itself.
    pub async fn stop_job(&mut self, name: &str) {
        let (stopped, kept): (Vec<Child>, Vec<Child>) = self.jobs.drain(..).partition(|job| job.name == name);
        self.jobs = kept;
        for mut job in stopped {
            job.stop(STOP_GRACE).await;
        }
    }

    /// Waits until all jobs ended.
    ///
    /// # Errors
    /// One of them failed, or something else ended.
    pub async fn wait_for_jobs(&mut self) -> anyhow::Result<()> {
        while !self.jobs.is_empty() {
            self.check()?;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Takes note of jobs that ended.
    ///
    /// # Errors
    /// A job failed, or something that should run ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        for job in &mut self.jobs {
            if !job.exited().is_none_or(|status| status.success()) {
                job.check()?;
            }
        }
        self.jobs.retain_mut(|job| job.exited().is_none());
        if let Some(meter) = &mut self.meter {
            meter.check()?;
        }
        self.streams.iter_mut().try_for_each(Child::check)?;
        self.spaces.check()?;
        self.stack.check()
    }

    /// Whether a job of this name runs.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.jobs.iter().any(|job| job.name == name)
    }

    /// Packets that cables lost.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.meter.as_ref().map_or(0, Meter::drops)
    }

    /// How long counters stood at most since this was read last.
    #[must_use]
    pub fn take_oldest_counters(&self) -> std::time::Duration {
        self.meter.as_ref().map_or(std::time::Duration::ZERO, Meter::take_oldest)
    }

    /// Stops the sender that no job knows.
    pub async fn stop_streams(&mut self) -> bool {
        let mut clean = true;
        for mut child in self.streams.drain(..).rev() {
            clean &= child.stop(STOP_GRACE).await;
        }
        clean
    }

    /// Stops everything, those who send before those who take; returns whether all went well.
    pub async fn stop(&mut self) -> bool {
        let mut clean = true;
        for mut job in self.jobs.drain(..) {
            clean &= job.stop(STOP_GRACE).await;
        }
        clean &= self.stop_streams().await;
        clean &= self.stack.stop(&self.layout).await;
        if let Some(Err(error)) = self.meter.take().map(Meter::stop) {
            tracing::warn!("reading cables: {error:#}");
        }
        drop(self.fabric.take());
        clean & self.spaces.stop().await
    }
}

fn start_crawler(
    layout: &Layout,
    programs: &Programs,
    fabric: &SimFabric,
    plan: &Plan,
    collect: &str,
) -> anyhow::Result<Child> {
    let state = layout.daemon("fabric");
    public_folder(&state)?;
    let folder = layout.run_folder("fabric")?;
    let config = folder.join("fabric.toml");
    let transport = toml::Value::String(fabric.via().to_string());
    let text = format!(
        "[fabric]\nname = \"{name}\"\n\n[device]\ntransport = {transport}\n\n[http]\nlisten = \"127.0.0.1:0\"\n\n[delivery]\ncollector = {collect}\n\n\
         [sweep]\ninterval_seconds = {SWEEP_SECONDS}\nassumed_tick_bytes = {TICK_BYTES}\n\
         assumed_bytes_per_second = {}\n",
        plan.bytes_per_second(),
        name = super::read::FABRIC,
    );
    write(&config, &text)?;
    let recipe = Recipe::new("fabric", &programs.fabric, &folder).arg("run");
    recipe.option("--config", &config).option("--state-dir", &state).start(&layout.logs())
}

/// An emulated host: its agent's files.
struct Node {
    /// Position in the plan.
    host: usize,
    child: String,
    sysfs: Sysfs,
    folder: PathBuf,
    config: PathBuf,
    socket: PathBuf,
}

impl Node {
    fn make(layout: &Layout, place: usize, plan: &Plan, host: usize, collect: &str) -> anyhow::Result<Node> {
        let child = format!("agent-{place}");
        let folder = layout.run_folder(&child)?;
        let socket = folder.join("mpi.sock");
        paths::check_socket_path(&socket)?;
        let sysfs = Sysfs::make(&folder.join("sys"), plan.nodes[host].guid, plan.bytes_per_second())?;
        let config = folder.join("agent.toml");
        let text = format!(
            "node = \"{name}\"\nrun_dir = {run_dir}\n\n[http]\nlisten = \"127.0.0.1:0\"\n\n\
             [delivery]\ncollector = {collect}\n\n[nvml]\nenabled = false\n\n[sysfs]\nroot = {root}\n",
            name = plan.nodes[host].name,
            run_dir = quoted(&folder),
            root = quoted(sysfs.root()),
        );
        write(&config, &text).with_context(|| format!("the agent of {}", plan.nodes[host].name))?;
        Ok(Node { host, child, sysfs, folder, config, socket })
    }

    fn start(&self, layout: &Layout, programs: &Programs) -> anyhow::Result<Child> {
        let state = layout.daemon(&self.child);
        public_folder(&state)?;
        let recipe = Recipe::new(&self.child, &programs.agent, &self.folder).arg("run");
        recipe.option("--config", &self.config).option("--state-dir", &state).start(&layout.logs())
    }
}
