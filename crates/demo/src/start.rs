//! Starts everything, each thing as soon as what it needs is there, and reports what is being waited for.

use super::config::Server;
use super::counters::{MANAGEMENT_BYTES_PER_SECOND, WAIT_TICK_BYTES};
use super::doubles::{Gpus, Sysfs};
use super::flows::{Hop, Network, PortId};
use super::inject::{Injector, Plan};
use super::layout::{Layout, public_folder};
use super::mpi::{Mpi, RANKS};
use super::process::{Child, Recipe};
use super::size::hosts_of_ranks;
use super::stack::Stack;
use super::traffic::{Driver, LINK_BYTES_PER_SECOND};
use anyhow::{Context, anyhow};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_daemon::{Failure, paths};
use throughline_delivery::COLLECT_SOCKET;
use throughline_infiniband::topology::FatTree;
use throughline_prefix::{Prefix, Set};
use throughline_sample::Guid;
use throughline_simfabric::ibsim::{SimFabric, SimOptions, SimTools};
use throughline_store::{ClusterOptions, Database, PrivateCluster};

/// How long a daemon may take to say where it listens. Seconds on an idle machine; a first database on a busy
/// one with a cold cache takes a minute.
pub const READY_LIMIT: Duration = Duration::from_secs(180);

/// From one sweep to the next. Two seconds show a burst well and cost the simulator little.
const SWEEP_SECONDS: &str = "2.0";

/// Clients of the simulator at once beside opensm and the crawler; it takes 10.
const ROUTE_CLIENTS: usize = 4;

/// Programs beside this one, and what they need.
pub struct Programs {
    /// For people, too: what they try is typed there.
    pub throughline: PathBuf,
    pub fabric: PathBuf,
    pub agent: PathBuf,
    pub exec: PathBuf,
    /// This program, also where another one uses its parts.
    pub demo: PathBuf,
    nvml: PathBuf,
    pub objects: PathBuf,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// One is missing (69).
    pub fn find() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("finding this program's own path")?;
        let folder = own.parent().unwrap_or(Path::new("/"));
        // Beside the programs in a build folder, beside their folder where they are installed.
        let libraries = ["lib/throughline", "../lib/throughline"].map(|place| folder.join(place));
        let nvml = "libnvidia-ml.so.1";
        let objects = libraries.into_iter().find(|place| place.join(nvml).is_file());
        let missing = |what: &str| {
            Failure::unavailable(format!("{what} is not beside {}: `make demo` builds it", own.display()))
        };
        let beside = |name: &str| {
            let path = folder.join(name);
            if path.is_file() { Ok(path) } else { Err(missing(name)) }
        };
        let objects =
            objects.ok_or_else(|| missing("lib/throughline (objects for MPI, NVML test double)"))?;
        Ok(Self {
            throughline: beside("throughline")?,
            fabric: beside("throughline-fabric")?,
            agent: beside("throughline-agent")?,
            exec: beside("throughline-exec")?,
            demo: beside("throughline-demo")?,
            nvml: objects.join(nvml),
            objects,
        })
    }
}

/// What was started, beside the processes in [`Stack`].
pub struct StartedDemo {
    /// How to read the database.
    pub database: Database,
    /// PostgreSQL's own client, for people.
    pub psql: PathBuf,
    /// Page of `serve`.
    pub server_address: std::net::SocketAddr,
    /// Page of the crawler.
    pub crawler_address: std::net::SocketAddr,
    /// Pages of the agents.
    pub agent_addresses: Vec<std::net::SocketAddr>,
    /// Hosts that the ranks run on, by name.
    pub hosts: Vec<String>,
    /// Traffic to loads.
    pub driver: Driver,
    /// The script of a rank.
    pub rank_script: PathBuf,
}

/// Prints what is being done.
pub fn progress(what: &str) {
    print_line(&format!("  {what}"));
}

/// Prints a line. A reader that closed our output has read enough; that must not prevent the stop of the rest.
pub fn print_line(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// Makes the sets of programs that are missing.
///
/// # Errors
/// See [`throughline_prefix::Error`].
pub async fn ensure_prefix(folder: &Path, server: &Server) -> anyhow::Result<(Prefix, PathBuf)> {
    let options = ClusterOptions { state_dir: folder.to_owned(), pg_bin: server.pg_bin.clone() };
    let ready = tokio::task::spawn_blocking(move || {
        let prefix = Prefix::locate()?;
        let mut progress = |line: &str| progress(line);
        prefix.ensure(Set::Fabric, &mut progress)?;
        let cluster = match PrivateCluster::find(&options) {
            Ok(cluster) => cluster,
            Err(_no_installation) => {
                prefix.ensure(Set::Postgres, &mut progress)?;
                PrivateCluster::find(&options)?
            }
        };
        Ok::<_, anyhow::Error>((prefix, cluster.installation().bin.join("psql")))
    });
    ready.await.context("making the prefix")?
}

/// Starts everything but the MPI program.
///
/// # Errors
/// The first thing that could not be started; what was started before is in `stack`.
pub async fn start(
    stack: &mut Stack,
    layout: &Layout,
    programs: &Programs,
    server: &Server,
    tree: FatTree,
    mpi: &Mpi,
) -> anyhow::Result<StartedDemo> {
    let (prefix, psql) = ensure_prefix(&layout.server(), server).await?;
    let program = mpi.compile(&layout.programs()).await?;

    progress(&format!(
        "starting the simulator ({} hosts, {} switches) and the database",
        tree.hosts,
        tree.switches()
    ));
    stack.server = Some(start_server(layout, programs, server)?);
    let fabric = start_fabric(stack, layout, &prefix, tree).await?;
    stack.fabric_pids = fabric.pids();
    let environment = |host: usize| fabric.environment(Some(&FatTree::host_id(host)));
    let (last, before_last) = (tree.hosts - 1, tree.hosts - 2);
    let (crawler_environment, route_environment) = (environment(before_last), environment(last));
    let fabric = Arc::new(Mutex::new(fabric));
    stack.fabric = Some(fabric.clone());

    let ranks = hosts_of_ranks(&tree);
    progress("reading the fabric's routes between the ranks' hosts");
    let network = routes(layout, programs, &route_environment, &ranks.map(FatTree::host_guid)).await?;

    let server = stack.server.as_mut().ok_or_else(|| anyhow!("serve is gone"))?;
    progress("waiting for the database and `throughline serve`");
    server.address("collect", READY_LIMIT).await?;
    let collect = collect_socket(layout)?;
    let server_address = server.address("query", READY_LIMIT).await?;

    let mut nodes = Vec::new();
    for (rank, host) in ranks.iter().enumerate() {
        nodes.push(Node::make(layout, rank, *host, programs, &collect)?);
    }
    let hosts = nodes.iter().map(|node| node.name.clone()).collect();
    let sockets: Vec<PathBuf> = nodes.iter().map(|node| node.socket.clone()).collect();
    for (rank, node) in nodes.iter().enumerate() {
        stack.agents.push(node.start(layout, programs, rank)?);
    }
    let (hosts_ports, gpus): (Vec<_>, Vec<_>) =
        nodes.into_iter().map(|node| ((PortId { guid: node.guid, port: 1 }, node.sysfs), node.gpus)).unzip();
    let node_names = node_names(&tree);
    let console = Stack::console(&fabric);
    stack.injector =
        Some(Injector::start(Plan { network: network.clone(), node_names, console, hosts: hosts_ports })?);

    stack.crawler = Some(start_crawler(layout, programs, &crawler_environment, &collect)?);
    progress("waiting for the crawler and the agents");
    let crawler = stack.crawler.as_mut().ok_or_else(|| anyhow!("the crawler is gone"))?;
    let crawler_address = crawler.address("fabric", READY_LIMIT).await?;
    let mut agent_addresses = Vec::new();
    for agent in &mut stack.agents {
        agent_addresses.push(agent.address("agent", READY_LIMIT).await?);
    }
    for socket in &sockets {
        wait_for_socket(socket).await?;
    }
    let rank_script = Mpi::rank_script(&layout.run(), &programs.exec, &programs.objects, &program, &sockets)?;
    Ok(StartedDemo {
        database: PrivateCluster::database_in(&layout.server()),
        psql,
        server_address,
        crawler_address,
        agent_addresses,
        hosts,
        driver: Driver::new(network, gpus),
        rank_script,
    })
}

pub fn start_server(layout: &Layout, programs: &Programs, server: &Server) -> anyhow::Result<Child> {
    public_folder(&layout.server())?;
    let config = layout.run_folder("server")?.join("server.toml");
    write(&config, &server.own_file())?;
    Recipe::new("serve", &programs.throughline, &layout.run())
        .arg("serve")
        .option("--config", &config)
        .option("--state-dir", layout.server())
        .start(&layout.logs())
}

/// Where the daemons deliver, as TOML: the socket, on which the kernel says that they are ours.
pub fn collect_socket(layout: &Layout) -> Result<String, Failure> {
    let path = paths::run_dir(&layout.server(), true).join(COLLECT_SOCKET);
    paths::check_socket_path(&path)?;
    Ok(toml::Value::String(format!("unix:{}", path.display())).to_string())
}

async fn start_fabric(
    stack: &mut Stack,
    layout: &Layout,
    prefix: &Prefix,
    tree: FatTree,
) -> anyhow::Result<SimFabric> {
    let folder = layout.run().join("sim");
    let root = prefix.root().to_owned();
    let manager_host = Some(FatTree::host_id(tree.hosts - 1));
    let starting = stack.starting.insert(tokio::task::spawn_blocking(move || {
        let tools = SimTools::at(&root)?;
        let net = tree.to_net()?;
        Ok::<_, anyhow::Error>(SimFabric::start(
            &tools,
            &folder,
            &net,
            &SimOptions { manager_host, own_process_groups: true, ..SimOptions::default() },
        )?)
    }));
    let started = starting.await.context("starting the simulator");
    stack.starting = None;
    started?
}

/// What the simulator calls each node.
fn node_names(tree: &FatTree) -> BTreeMap<Guid, String> {
    let hosts = (0..tree.hosts).map(|index| (FatTree::host_guid(index), FatTree::host_id(index)));
    let switches = (0..tree.switches()).map(|index| (FatTree::switch_guid(index), FatTree::switch_id(index)));
    hosts.chain(switches).collect()
}

fn start_crawler(
    layout: &Layout,
    programs: &Programs,
    environment: &[(&'static str, OsString)],
    collect: &str,
) -> anyhow::Result<Child> {
    let state = layout.daemon("fabric");
    public_folder(&state)?;
    // The simulator's library writes to its working folder: one for each client.
    let folder = layout.run_folder("fabric")?;
    let config = folder.join("fabric.toml");
    write(
        &config,
        &format!(
            "[fabric]\nname = \"demo\"\n\n[http]\nlisten = \"127.0.0.1:0\"\n\n[delivery]\ncollector = {collect}\n\n\
             [sweep]\ninterval_seconds = {SWEEP_SECONDS}\nassumed_tick_bytes = {WAIT_TICK_BYTES}\n\
             assumed_bytes_per_second = {LINK_BYTES_PER_SECOND}\n"
        ),
    )?;
    let recipe = Recipe::new("fabric", &programs.fabric, &folder)
        .arg("run")
        .option("--config", &config)
        .option("--state-dir", &state);
    environment.iter().fold(recipe, |recipe, (name, value)| recipe.env(name, value)).start(&layout.logs())
}

/// One simulated node: its agent's files.
struct Node {
    name: String,
    guid: Guid,
    sysfs: Sysfs,
    gpus: Gpus,
    folder: PathBuf,
    config: PathBuf,
    socket: PathBuf,
}

impl Node {
    fn make(
        layout: &Layout,
        rank: usize,
        host: usize,
        programs: &Programs,
        collect: &str,
    ) -> anyhow::Result<Self> {
        let folder = layout.run_folder(&format!("agent-{rank}"))?;
        let socket = folder.join("mpi.sock");
        paths::check_socket_path(&socket)?;
        let (name, guid) = (FatTree::host_name(host), FatTree::host_guid(host));
        let sysfs = Sysfs::make(&folder.join("sys"), guid, LINK_BYTES_PER_SECOND.into())?;
        let gpus = Gpus::make(&folder, host)?;
        let config = folder.join("agent.toml");
        let text = format!(
            "node = \"{name}\"\nrun_dir = {run_dir}\n\n[http]\nlisten = \"127.0.0.1:0\"\n\n\
             [delivery]\ncollector = {collect}\n\n[nvml]\nlibrary = {nvml}\n\n[sysfs]\nroot = {root}\n\n\
             [mpi]\nfold_seconds = 1.0\nrank_seconds = 1.0\nrank_later_seconds = 1.0\n",
            run_dir = quoted(&folder),
            nvml = quoted(&programs.nvml),
            root = quoted(sysfs.root()),
        );
        write(&config, &text)?;
        Ok(Self { name, guid, sysfs, gpus, folder, config, socket })
    }

    fn start(&self, layout: &Layout, programs: &Programs, rank: usize) -> anyhow::Result<Child> {
        let name = format!("agent-{rank}");
        let state = layout.daemon(&name);
        public_folder(&state)?;
        Recipe::new(&name, &programs.agent, &self.folder)
            .arg("run")
            .option("--config", &self.config)
            .option("--state-dir", &state)
            .env(throughline_doubles::nvml::SCENARIO_VARIABLE, self.gpus.scenario())
            .start(&layout.logs())
    }
}

/// An agent's socket for ranks is there soon after its page; a rank that comes earlier would run unobserved.
pub async fn wait_for_socket(socket: &Path) -> anyhow::Result<()> {
    let there = async {
        while !socket.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(READY_LIMIT, there).await;
    waited.map_err(|_| anyhow!("no agent opened {} in {} s", socket.display(), READY_LIMIT.as_secs()))
}

/// Routes between all ranks' hosts, from the fabric's forwarding tables, and the speed of each link.
async fn routes(
    layout: &Layout,
    programs: &Programs,
    environment: &[(&'static str, OsString)],
    guids: &[Guid; RANKS],
) -> anyhow::Result<Network> {
    let folder = layout.run_folder("route")?;
    let ask = |arguments: Vec<String>| {
        let mut command = tokio::process::Command::new(&programs.fabric);
        command.args(&arguments).current_dir(&folder).kill_on_drop(true);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        async move {
            let what = format!("throughline-fabric {}", arguments.join(" "));
            let answer = tokio::time::timeout(READY_LIMIT, command.output()).await;
            let output = answer.map_err(|_| anyhow!("{what}: no answer in {} s", READY_LIMIT.as_secs()))?;
            let output = output.with_context(|| what.clone())?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            anyhow::ensure!(output.status.success(), "{what}: {}: {}", output.status, said.trim());
            Ok::<_, anyhow::Error>(output.stdout)
        }
    };
    let speeds = speeds(&ask(vec!["discover".into(), "--json".into()]).await?)?;
    let pairs =
        (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let answers: Vec<_> = stream::iter(pairs)
        .map(|(from, to)| {
            let answer =
                ask(vec!["route".into(), "--json".into(), guids[from].to_string(), guids[to].to_string()]);
            async move { Ok::<_, anyhow::Error>((from, to, answer.await?)) }
        })
        .buffered(ROUTE_CLIENTS)
        .try_collect()
        .await?;
    let mut network = Network::default();
    for (from, to, answer) in answers {
        let route: RouteDocument = serde_json::from_slice(&answer).context("reading a route")?;
        let most = f64::from(LINK_BYTES_PER_SECOND - MANAGEMENT_BYTES_PER_SECOND);
        network.add_route(from, to, &route.hops, |port| {
            speeds.get(&port).map_or(0.0, |speed| speed.min(most))
        })?;
    }
    Ok(network)
}

/// What `route --json` prints.
#[derive(serde::Deserialize)]
struct RouteDocument {
    hops: Vec<Hop>,
}

/// The part of `discover --json` that is needed: the speed of each port's link in bytes per second.
fn speeds(document: &[u8]) -> anyhow::Result<HashMap<PortId, f64>> {
    #[derive(serde::Deserialize)]
    struct Document {
        nodes: Vec<NodeDocument>,
    }
    #[derive(serde::Deserialize)]
    struct NodeDocument {
        guid: Guid,
        ports: Vec<PortDocument>,
    }
    #[derive(serde::Deserialize)]
    struct PortDocument {
        num: u8,
        rate_bytes_per_second: Option<f64>,
    }
    let document: Document = serde_json::from_slice(document).context("reading the discovered fabric")?;
    let ports = document.nodes.into_iter().flat_map(|node| {
        node.ports.into_iter().filter_map(move |port| {
            Some((PortId { guid: node.guid, port: port.num }, port.rate_bytes_per_second?))
        })
    });
    Ok(ports.collect())
}

/// A path as TOML writes text.
pub fn quoted(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}

pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
