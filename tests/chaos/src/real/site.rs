//! The site: which parts there are, how each is started, watched and ended.

use super::Options;
use super::faults::Undo;
use super::part::Part;
use super::proxy::{Proxy, Upstream};
use crate::certificates::{Authority, files, toml};
use anyhow::{Context, bail, ensure};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use throughline_daemon::stop_signal;
use throughline_delivery::TlsFiles;
use throughline_store::{Database, PrivateCluster, testing};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

pub const AGENTS: usize = 2;
pub const RANKS_OF_AGENT: usize = 2;
const WRITERS: usize = 2;
const CRAWLERS: usize = 2;
/// Size of the disk of each agent and writer, small enough to be filled in a moment.
const DISK: &str = "size=40m,mode=0755";
/// A spool that fits that disk with place to spare.
const SPOOL_BYTES: u64 = 16 << 20;
/// The job of all ranks.
pub const JOB: u32 = 7700;
/// The name in the certificate of `serve`.
const SERVER: &str = "localhost";
/// Attempts to start `serve`: after a crash of it and its database the first ones may be too early.
const SERVE_STARTS_MAX: usize = 30;

/// A sender: a process with a spool and a way to the collector.
pub struct Sender {
    pub part: Part,
    pub proxy: Proxy,
    pub folder: PathBuf,
    pub spool: PathBuf,
    pub mounted: bool,
    pub http: Option<String>,
    /// `throughline_entries_discarded_total` of the spool, without evicted ones, when last read in each life.
    pub dropped: Vec<f64>,
    /// How often its spool was damaged on purpose.
    pub torn: usize,
}

pub struct Site {
    bin: PathBuf,
    folder: Option<tempfile::TempDir>,
    pub path: PathBuf,
    pub runtime: tokio::runtime::Handle,
    pub upstream: Upstream,
    pub serve: Part,
    pub query: Option<String>,
    pub serve_ended: usize,
    pub agents: Vec<Sender>,
    pub ranks: Vec<Part>,
    pub writers: Vec<Sender>,
    pub crawlers: Vec<Sender>,
    pub fabric: Part,
    /// Those with a right to send who misuse it.
    pub hostile: Vec<Part>,
    /// Their ways to the collector.
    pub hostile_ways: Vec<Proxy>,
    pub busy: BTreeSet<String>,
    pub undo: Vec<(Instant, Undo)>,
    /// A stop signal to the run itself: what it has started must not stay.
    stop: CancellationToken,
    watched: Instant,
    pub logs: PathBuf,
    pub certificates: PathBuf,
}

impl Site {
    pub fn start(options: &Options, runtime: &Runtime) -> anyhow::Result<Self> {
        testing::ensure_programs();
        let own = std::env::current_exe()?;
        let bin = options.bin_dir.clone().or_else(|| own.parent().map(Path::to_owned)).unwrap_or_default();
        let folder = tempfile::Builder::new().prefix("tl-chaos").tempdir()?;
        // The database's user must be able to reach its cluster, and attackers the sockets.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let path = folder.path().to_owned();
        let logs = path.join("logs");
        std::fs::create_dir(&logs)?;
        println!("site in {}, programs of {}", path.display(), bin.display());
        let certificates = path.join("certificates");
        let authority = Authority::new(&certificates)?;
        authority.sign(SERVER)?;
        let mut site = Self {
            bin,
            folder: Some(folder),
            runtime: runtime.handle().clone(),
            upstream: Upstream::default(),
            serve: Part::new("serve", "listening collect=", &logs),
            query: None,
            serve_ended: 0,
            agents: Vec::new(),
            ranks: Vec::new(),
            writers: Vec::new(),
            crawlers: Vec::new(),
            fabric: Part::new("fabric", "listening sim=", &logs),
            hostile: Vec::new(),
            hostile_ways: Vec::new(),
            busy: BTreeSet::new(),
            undo: Vec::new(),
            stop: {
                let _entered = runtime.enter();
                stop_signal()?
            },
            watched: Instant::now(),
            path,
            logs,
            certificates,
        };
        for (senders, count, name, ready, disk) in [
            (&mut site.agents, AGENTS, "agent", "listening agent=", true),
            (&mut site.writers, WRITERS, "writer", "counts ", true),
            (&mut site.crawlers, CRAWLERS, "crawler", "listening fabric=", false),
        ] {
            for index in 0..count {
                let part = Part::new(&format!("{name}-{index}"), ready, &site.logs);
                authority.sign(&part.name)?;
                let upstream = site.upstream.clone();
                senders.push(Sender::new(part, &site.path, disk, runtime, upstream)?);
            }
        }
        let ranks = AGENTS * RANKS_OF_AGENT;
        site.ranks = (0..ranks).map(|rank| Part::new(&format!("rank-{rank}"), "", &site.logs)).collect();
        site.start_serve()?;
        site.start_fabric()?;
        for index in 0..CRAWLERS {
            site.start_crawler(index)?;
        }
        for index in 0..WRITERS {
            site.start_writer(index)?;
        }
        for index in 0..AGENTS {
            site.start_agent(index)?;
        }
        for rank in 0..ranks {
            site.start_rank(rank)?;
        }
        for index in 0..options.hostile_nodes {
            site.start_hostile_node(index, &authority)?;
        }
        for index in 0..options.hostile_users {
            site.start_hostile_user(index)?;
        }
        Ok(site)
    }

    pub fn database_folder(&self) -> PathBuf {
        self.path.join("server")
    }

    pub fn database(&self) -> Database {
        PrivateCluster::database_in(&self.database_folder())
    }

    fn certificate(&self, name: &str) -> TlsFiles {
        files(&self.certificates, name)
    }

    pub fn start_serve(&mut self) -> anyhow::Result<()> {
        let configuration = self.path.join("server.toml");
        let crawlers: Vec<String> = (0..CRAWLERS).map(|index| format!("'crawler-{index}'")).collect();
        let settings = format!(
            // Writers make more events than a node of a site may.
            "[collect]\nlisten = '127.0.0.1:0'\nevents_per_second_of_sender = 200\ncrawlers = [{}]\ntls = {}\n[query]\nlisten = '127.0.0.1:0'\n",
            crawlers.join(", "),
            toml(&self.certificate(SERVER))
        );
        std::fs::write(&configuration, settings)?;
        for _ in 0..SERVE_STARTS_MAX {
            let mut command = Command::new(self.bin.join("throughline"));
            command.args(["serve", "--state-dir"]).arg(self.database_folder());
            command.arg("--config").arg(&configuration);
            self.serve.spawn(command)?;
            if let Some(address) = self.serve.address()? {
                let address = address.parse().with_context(|| format!("serve listens at {address}"))?;
                *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
                self.query = self.serve.find("listening query=");
                return Ok(());
            }
            self.serve_ended += 1;
            std::thread::sleep(Duration::from_secs(1));
        }
        bail!("serve did not start {SERVE_STARTS_MAX} times")
    }

    pub fn start_fabric(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(self.bin.join("throughline-simfabric"));
        command.args(["run", "--torus", "3,3", "--do", "traffic ring 100M", "--socket"]);
        command.arg(self.path.join("fab"));
        self.fabric.spawn(command)?;
        self.fabric.address()?.context("the simulated fabric did not start")?;
        Ok(())
    }

    pub fn start_crawler(&mut self, index: usize) -> anyhow::Result<()> {
        let tls = toml(&self.certificate(&self.crawlers[index].part.name));
        let crawler = &mut self.crawlers[index];
        let configuration = crawler.folder.join("fabric.toml");
        let settings = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = '{}'\ntls = {tls}\n\
             [device]\ntransport = 'sim:{}'\n[sweep]\ninterval_seconds = 1.0\n[standby]\nlease_seconds = 4\n",
            crawler.proxy.url(),
            self.path.join("fab").display()
        );
        std::fs::write(&configuration, settings)?;
        let mut command = Command::new(self.bin.join("throughline-fabric"));
        command.args(["run", "--config"]).arg(&configuration);
        command.arg("--state-dir").arg(crawler.folder.join("state"));
        crawler.start(command)
    }

    pub fn start_writer(&mut self, index: usize) -> anyhow::Result<()> {
        let writer = &mut self.writers[index];
        let name = writer.part.name.clone();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("writer").args(["--node", &name, "--source", &format!("{name}.{}", writer.part.life())]);
        command.arg("--certificates").arg(&self.certificates).args(["--collector", &writer.proxy.url()]);
        command.arg("--folder").arg(&writer.spool);
        writer.start(command)
    }

    pub fn start_agent(&mut self, index: usize) -> anyhow::Result<()> {
        let tls = toml(&self.certificate(&self.agents[index].part.name));
        let agent = &mut self.agents[index];
        let nowhere = agent.folder.join("nowhere").display().to_string();
        let mut command = Command::new(self.bin.join("throughline-agent"));
        command.arg("run").arg("--state-dir").arg(agent.folder.join("state"));
        for (key, value) in [
            ("NODE", agent.part.name.clone()),
            ("HTTP__LISTEN", "127.0.0.1:0".to_owned()),
            ("DELIVERY__COLLECTOR", agent.proxy.url()),
            ("DELIVERY__TLS", tls),
            ("DELIVERY__BATCH_INTERVAL_SECONDS", "0.5".to_owned()),
            ("SPOOL__BYTES_MAX", SPOOL_BYTES.to_string()),
            ("NVML__ENABLED", "false".to_owned()),
            ("SYSFS__ROOT", nowhere),
        ] {
            command.env(format!("THROUGHLINE__{key}"), value);
        }
        agent.start(command)
    }

    pub fn socket_of_agent(&self, agent: usize) -> PathBuf {
        self.agents[agent].folder.join("state/run/mpi.sock")
    }

    /// A rank of a job.
    pub fn rank_command(
        &self,
        rank: usize,
        size: usize,
        socket: PathBuf,
        job: u32,
    ) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("rank").arg("--socket").arg(socket).args(["--job", &job.to_string()]);
        command.args(["--rank", &rank.to_string(), "--size", &size.to_string()]);
        Ok(command)
    }

    fn start_rank(&mut self, rank: usize) -> anyhow::Result<()> {
        let socket = self.socket_of_agent(rank / RANKS_OF_AGENT);
        let command = self.rank_command(rank, self.ranks.len(), socket, JOB)?;
        self.ranks[rank].spawn(command)
    }

    /// Whether a fault is on.
    pub fn has_faults(&self) -> bool {
        !self.undo.is_empty()
    }

    /// The agent that a rank pushes to.
    pub fn agent_of(&self, rank: usize) -> &Sender {
        &self.agents[rank / RANKS_OF_AGENT]
    }

    /// Starts again what ended by itself where it may, fails where it must not; reads counters now and then.
    pub fn watch(&mut self) -> anyhow::Result<()> {
        ensure!(!self.stop.is_cancelled(), "stopped by a signal");
        if let Some(status) = self.serve.has_ended() {
            println!("         serve ended by itself with {status}: it is started again");
            self.serve_ended += 1;
            self.serve.kill();
            self.start_serve()?;
        }
        let senders = self.agents.iter_mut().chain(&mut self.writers).chain(&mut self.crawlers);
        let senders = senders.map(|sender| &mut sender.part).chain([&mut self.fabric]);
        for part in senders.chain(&mut self.ranks).chain(&mut self.hostile) {
            if let Some(status) = part.has_ended()
                && !status.success()
            {
                bail!("{} ended by itself with {status}", part.name);
            }
        }
        if self.watched.elapsed() > Duration::from_secs(2) {
            self.watched = Instant::now();
            for sender in self.agents.iter_mut().chain(&mut self.crawlers) {
                sender.read_counters();
            }
        }
        Ok(())
    }

    /// Ranks say their last sums; writers deliver what they have.
    pub fn finish_producers(&mut self) -> anyhow::Result<()> {
        self.ranks.iter_mut().for_each(Part::close_input);
        self.writers.iter_mut().for_each(|writer| writer.part.close_input());
        for part in &mut self.ranks {
            part.finish().context("a rank's last sums")?;
        }
        Ok(())
    }

    /// Takes the ends of writers that have delivered all.
    pub fn finish_writers(&mut self) -> anyhow::Result<()> {
        self.writers.iter_mut().try_for_each(|writer| writer.part.finish())
    }

    /// What is not delivered yet, for people; empty when all is.
    pub fn undelivered(&mut self) -> String {
        let mut left = Vec::new();
        for writer in &mut self.writers {
            if writer.part.is_running() && writer.part.has_ended().is_none() {
                let counts = writer.part.find_last("counts ").unwrap_or_default();
                left.push(format!("{} (lost, dropped, backlog: {counts})", writer.part.name));
            }
        }
        for agent in &mut self.agents {
            match agent.metric("throughline_spool_entries", "spool") {
                Some(0.0) => {}
                other => left.push(format!("{} ({other:?} entries)", agent.part.name)),
            }
        }
        left.join(", ")
    }

    pub fn retain(&mut self) {
        if let Some(folder) = self.folder.take() {
            println!("logs and state stay in {}", folder.keep().display());
        }
    }

    /// Ends all parts as an administrator would; each must end well.
    pub fn end(mut self) -> anyhow::Result<()> {
        let senders = self.agents.iter_mut().chain(&mut self.crawlers).chain(&mut self.writers);
        for part in senders.map(|sender| &mut sender.part).chain([&mut self.serve, &mut self.fabric]) {
            if part.is_running() {
                part.terminate()?;
            }
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for part in self.ranks.iter_mut().chain(&mut self.hostile).chain([&mut self.serve, &mut self.fabric])
        {
            part.kill();
        }
        let _ = self.runtime.block_on(PrivateCluster::stop_in(&self.database_folder()));
        for sender in self.agents.iter_mut().chain(&mut self.writers).chain(&mut self.crawlers) {
            sender.part.kill();
            if sender.mounted {
                // What a retained site had on these disks is copied aside: the disks are memory.
                if self.folder.is_none() {
                    let copy = self.path.join(format!("{}-disk", sender.part.name));
                    let _ = Command::new("cp").arg("-r").arg(&sender.folder).arg(copy).status();
                }
                let _ = Command::new("umount").arg("--lazy").arg(&sender.folder).status();
            }
        }
    }
}

impl Sender {
    fn new(
        part: Part,
        site: &Path,
        own_disk: bool,
        runtime: &Runtime,
        upstream: Upstream,
    ) -> anyhow::Result<Self> {
        let folder = site.join(&part.name);
        std::fs::create_dir(&folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&folder);
        let mounted =
            own_disk && nix::unistd::geteuid().is_root() && mount.status().is_ok_and(|s| s.success());
        if own_disk && !mounted {
            println!("LEFT OUT: full disks of {}: no right to mount a tmpfs", part.name);
        }
        // Where the daemons have it, and the writer the same.
        let spool = folder.join("state/spool");
        std::fs::create_dir(folder.join("state"))?;
        let proxy = runtime.block_on(Proxy::start(upstream))?;
        Ok(Self { part, proxy, folder, spool, mounted, http: None, dropped: Vec::new(), torn: 0 })
    }

    fn start(&mut self, command: Command) -> anyhow::Result<()> {
        self.part.spawn(command)?;
        self.dropped.push(0.0);
        let address = self.part.address()?;
        self.http = Some(address.with_context(|| format!("{} did not start", self.part.name))?);
        Ok(())
    }

    /// Reads what would be gone with the process.
    pub fn read_counters(&mut self) {
        if let Some(dropped) = self.discarded()
            && let Some(last) = self.dropped.last_mut()
        {
            *last = dropped;
        }
    }

    /// Entries that the spool lost.
    fn discarded(&self) -> Option<f64> {
        let page = self.page()?;
        let begin = "throughline_entries_discarded_total{source=\"spool\",reason=\"";
        let losses = page.lines().filter_map(|line| line.strip_prefix(begin)?.split_once("\"} "));
        let losses = losses.filter(|(reason, _)| *reason != "evicted");
        losses.map(|(_, count)| count.parse::<f64>().ok()).sum()
    }

    fn page(&self) -> Option<String> {
        get(self.http.as_ref().filter(|_| self.part.is_running())?)
    }

    pub fn metric(&self, name: &str, source: &str) -> Option<f64> {
        let page = self.page()?;
        let begin = format!("{name}{{source=\"{source}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
    }
}

fn get(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address.parse().ok()?, Duration::from_millis(500)).ok()?;
    // A stopped process takes connections and answers nothing.
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}
