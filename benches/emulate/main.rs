//! `bench-emulate`: shares of links against the truth, on an emulated fabric (docs/DEMO.md).
//!
//! Two jobs on hosts of their own and a sender that no job knows, step by step with other operations and sizes; counters of
//! nftables by (source, destination) on every cable as the truth. All operations run once with Open MPI's monitoring layer
//! (measured) and once without (modelled). Prints a table of errors; status 2 where a goal is missed.

mod compare;
mod report;
mod truth;

use anyhow::{Context, anyhow};
use clap::{Parser, ValueEnum};
use compare::{Who, Window};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use throughline_api::jobs::JobDetail;
use throughline_api::link_shares::{DirectionShares, LinkShares};
use throughline_client::Server;
use throughline_daemon::{LogOptions, finish, stop_signal, usage};
use throughline_demo::config;
use throughline_demo::emulate::emulation::{Emulation, Prerequisites};
use throughline_demo::emulate::jobs::Job;
use throughline_demo::emulate::plan::{Cable, Plan, fabric_address};
use throughline_demo::emulate::{Cast, Shape, read};
use throughline_demo::layout::Layout;
use throughline_infiniband::topology::PortEnd;
use throughline_prefix::Set;
use truth::{Flow, Series, Truth, between};

/// Windows of shares.
const WINDOW_SECONDS: i64 = 10;
/// How long the last windows may take to be made.
const MADE_LIMIT: Duration = Duration::from_secs(120);
/// A step's jobs are started so long before its first window counts: Open MPI's own start.
const START_SECONDS: f64 = 10.0;
/// How long the first window may take to be made.
const FIRST_LIMIT: Duration = Duration::from_secs(180);

/// Operations of the two jobs in each step, with bytes of a call.
const STEPS: [[(&str, u32); 2]; 13] = [
    [("p2p", 256 << 10), ("allreduce", 4 << 10)],
    [("alltoall", 32 << 10), ("allreduce", 256 << 10)],
    [("allreduce", 256 << 10), ("p2p", 64 << 10)],
    [("allreduce", 4 << 10), ("alltoall", 32 << 10)],
    [("bcast", 16 << 10), ("halo", 64 << 10)],
    [("bcast", 256 << 10), ("isend", 64 << 10)],
    [("allgather", 32 << 10), ("put", 64 << 10)],
    [("reduce_scatter", 32 << 10), ("get", 64 << 10)],
    [("gather", 64 << 10), ("scatter", 64 << 10)],
    [("halo", 128 << 10), ("bcast", 64 << 10)],
    [("reduce", 256 << 10), ("allgather", 8 << 10)],
    [("put", 128 << 10), ("reduce_scatter", 16 << 10)],
    [("get", 128 << 10), ("alltoall", 4 << 10)],
];

/// How a job's messages are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// By Open MPI's monitoring layer
    Measured,
    /// By the shape of collectives' algorithms
    Modelled,
}

/// Compare shares of links with counters of each flow on an emulated fabric
#[derive(Parser, Clone, Debug)]
#[command(name = "bench-emulate", max_term_width = 100)]
struct Options {
    /// Hosts
    #[arg(long, default_value_t = 16)]
    hosts: usize,
    /// Leaf switches
    #[arg(long, default_value_t = 4)]
    leaves: usize,
    /// Spine switches
    #[arg(long, default_value_t = 2)]
    spines: usize,
    /// Speed of a link, Mbit/s
    #[arg(long, default_value_t = 20)]
    link_mbit: u64,
    /// How long each step's jobs run
    #[arg(long, default_value_t = 32)]
    seconds: u32,
    /// Only steps whose first operation has this in its name
    #[arg(long)]
    only: Option<String>,
    /// Only this kind
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Print each loaded direction and window whose error is beyond the goal
    #[arg(long)]
    verbose: bool,
    /// Write all windows of all directions to this file, comma-separated
    #[arg(long)]
    windows: Option<PathBuf>,
    #[command(flatten)]
    log: LogOptions,
}

fn main() -> ExitCode {
    match Options::try_parse() {
        Ok(options) => finish("bench-emulate", begin(options)),
        Err(said) => usage(&said),
    }
}

fn begin(options: Options) -> anyhow::Result<ExitCode> {
    options.log.start()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(options))
}

/// What ran when.
struct Step {
    kind: Kind,
    operations: [(&'static str, u32); 2],
    begin: f64,
    end: f64,
}

async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let shape = Shape {
        hosts: options.hosts,
        leaves: options.leaves,
        spines: options.spines,
        link_mbit: options.link_mbit,
    };
    shape.check()?;
    let found = Prerequisites::find(config::Server::default())?;
    let nft = tokio::task::spawn_blocking(nft).await??;
    let folder = tempfile::Builder::new().prefix("tl-emulate-").tempdir()?;
    let stop = stop_signal().context("installing signal handlers")?;
    let mut emulation = Emulation::new(&found, Layout::take(folder.path())?);
    let result = tokio::select! {
        result = measure(&mut emulation, &found, shape, &options, nft) => result,
        () = stop.cancelled() => Err(anyhow!("stopped")),
    };
    let clean = emulation.stop().await;
    if result.is_err() {
        keep_logs(&emulation, folder);
    }
    let is_good = result?;
    anyhow::ensure!(clean, "something did not stop by itself");
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// After a failure the logs are worth more than the place they take.
fn keep_logs(emulation: &Emulation, folder: tempfile::TempDir) {
    eprintln!("logs: {}", emulation.layout.logs().display());
    let _ = folder.keep();
}

/// nft of this machine, else of the prefix.
fn nft() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    if let Some(own) = places.map(|folder| folder.join("nft")).find(|path| path.is_file()) {
        return Ok(own);
    }
    Ok(throughline_prefix::ensure(Set::Netfilter)?.program("nft"))
}

async fn measure(
    emulation: &mut Emulation,
    found: &Prerequisites,
    shape: Shape,
    options: &Options,
    nft: PathBuf,
) -> anyhow::Result<bool> {
    emulation.start(found, shape).await?;
    let truth = Truth::start(&emulation.plan, &emulation.spaces, nft).await?;
    let cast = Cast::of(&shape);
    let hosts = emulation.plan.hosts();
    let begin = seconds_now();
    // A quarter of a link.
    let rate = shape.link_bits_per_second() / 8 / 4;
    emulation.start_stream(hosts[cast.stranger.0], hosts[cast.stranger.1], rate)?;
    wait_for_windows(emulation).await?;
    let mut steps = Vec::new();
    for kind in [Kind::Measured, Kind::Modelled] {
        if options.kind.is_some_and(|only| only != kind) {
            continue;
        }
        for operations in STEPS {
            let name = operations[0].0;
            if options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            steps.push(step(emulation, &cast, kind, operations, options.seconds).await?);
        }
    }
    anyhow::ensure!(!steps.is_empty(), "no step has this name");
    emulation.stop_streams().await;
    let end = seconds_now();
    let (address, plan) = (emulation.server_address, emulation.plan.clone());
    let answers =
        tokio::task::spawn_blocking(move || answers(&read::client(address)?, &plan, begin, end)).await??;
    let flows = tokio::task::spawn_blocking(move || truth.finish()).await??;
    let speed = shape.link_bits_per_second() as f64 / 8.0;
    let scene = Scene { plan: &emulation.plan, cast: &cast, jobs: &answers.jobs, speed };
    let windows: Vec<Compared> =
        answers.windows.iter().flat_map(|links| scene.windows(links, &flows)).collect();
    if emulation.drops() > 0 {
        println!("the cables lost {} packets: queues were too short", emulation.drops());
    }
    if let Some(path) = &options.windows {
        std::fs::write(path, report::table(&windows))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(report::report(&steps, &windows, options.verbose))
}

/// Waits until windows are made at all: before, the database and the crawler were just started.
async fn wait_for_windows(emulation: &mut Emulation) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    loop {
        emulation.check()?;
        let (address, plan) = (emulation.server_address, emulation.plan.clone());
        let to = (seconds_now() * 1e3) as i64;
        let read = move || read::shares(&read::client(address)?, &plan, to - 60_000, to);
        let links = tokio::task::spawn_blocking(read).await??;
        if links.iter().any(|link| link.computed_until_ms.is_some() && link.ab.windows + link.ba.windows > 0)
        {
            return Ok(());
        }
        anyhow::ensure!(start.elapsed() < FIRST_LIMIT, "no share of a link in {} s", FIRST_LIMIT.as_secs());
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn step(
    emulation: &mut Emulation,
    cast: &Cast,
    kind: Kind,
    operations: [(&'static str, u32); 2],
    seconds: u32,
) -> anyhow::Result<Step> {
    let hosts = emulation.plan.hosts();
    // So that whole windows follow the jobs' start.
    let window = WINDOW_SECONDS as f64;
    let wait = (window - START_SECONDS - 0.5 - seconds_now().rem_euclid(window)).rem_euclid(window);
    tokio::time::sleep(Duration::from_secs_f64(wait)).await;
    let begin = seconds_now();
    for (name, places, (operation, bytes)) in
        [("first", &cast.first, operations[0]), ("second", &cast.second, operations[1])]
    {
        let on = places.iter().map(|place| hosts[*place]).collect();
        let job = Job::of_operation(name, on, operation, bytes, seconds, 0);
        emulation.start_job(&Job { is_measured: kind == Kind::Measured, ..job })?;
    }
    let is_running = |emulation: &Emulation| emulation.runs("first") && emulation.runs("second");
    let mut end = begin;
    while is_running(emulation) {
        end = seconds_now();
        tokio::time::sleep(Duration::from_millis(100)).await;
        emulation.check()?;
    }
    emulation.wait_for_jobs().await?;
    let [(first, _), (second, _)] = operations;
    let oldest = emulation.take_oldest_counters().as_secs_f64();
    eprintln!(
        "{kind:?}: {first} and {second} ran {:.0} s; counters stood {oldest:.2} s at most",
        end - begin
    );
    Ok(Step { kind, operations, begin, end })
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What the server answers.
struct Answers {
    /// All links, of each window.
    windows: Vec<Vec<LinkShares>>,
    /// Hosts of each job that has a share.
    jobs: BTreeMap<String, Vec<String>>,
}

/// Waits until the windows are made, and reads each for itself: over a longer range, who has less than a part of it is among
/// the others.
fn answers(server: &Server, plan: &Plan, begin: f64, end: f64) -> anyhow::Result<Answers> {
    let (from, to) = ((begin * 1e3) as i64, (end * 1e3) as i64);
    let start = std::time::Instant::now();
    let length = WINDOW_SECONDS * 1000;
    loop {
        let links = read::shares(server, plan, to - length, to)?;
        let until = links.iter().filter_map(|link| link.computed_until_ms).max().unwrap_or(0);
        if until >= to - length {
            break;
        }
        anyhow::ensure!(start.elapsed() < MADE_LIMIT, "windows are made until {until} ms, not until {to} ms");
        std::thread::sleep(Duration::from_secs(2));
    }
    let ends = (from / length + 1..=to / length).map(|number| number * length);
    let windows: Vec<Vec<LinkShares>> =
        ends.map(|end| read::shares(server, plan, end - length, end)).collect::<anyhow::Result<_>>()?;
    let mut jobs = BTreeMap::new();
    let directions = windows.iter().flatten().flat_map(|link| [&link.ab, &link.ba]);
    for key in
        directions.flat_map(|direction| &direction.contributors).filter_map(|part| part.job_key.as_ref())
    {
        if !jobs.contains_key(key) {
            let detail: JobDetail = server.get(&["jobs", key], &[])?;
            jobs.insert(key.clone(), detail.hosts.into_iter().map(|host| host.host).collect());
        }
    }
    Ok(Answers { windows, jobs })
}

/// Who is where.
struct Scene<'a> {
    plan: &'a Plan,
    cast: &'a Cast,
    jobs: &'a BTreeMap<String, Vec<String>>,
    speed: f64,
}

/// A window's end in seconds, the direction's name, and both sides.
type Compared = (f64, String, Window);

impl Scene<'_> {
    fn windows(&self, links: &[LinkShares], flows: &BTreeMap<Flow, Series>) -> Vec<Compared> {
        let mut windows = Vec::new();
        for (cable, link) in self.plan.cables.iter().zip(links) {
            for (end, direction) in self.directions(cable, link) {
                for (place, time) in link.times_ms.iter().enumerate() {
                    let to = *time as f64 / 1e3;
                    let window = self.window(end, direction, place, (to - link.step_seconds, to), flows);
                    windows.push((to, format!("{} > {}", direction.from.name, direction.to.name), window));
                }
            }
        }
        windows
    }

    /// Which end of a cable sends in each direction of the answer, whose order of ends is its own.
    fn directions<'l>(&self, cable: &Cable, link: &'l LinkShares) -> [(PortEnd, &'l DirectionShares); 2] {
        let node = &self.plan.nodes[cable.a.node];
        let is_from_a =
            link.ab.from.guid == node.guid.to_string() && link.ab.from.port == i32::from(cable.a.port);
        match is_from_a {
            true => [(cable.a, &link.ab), (cable.b, &link.ba)],
            false => [(cable.b, &link.ab), (cable.a, &link.ba)],
        }
    }

    fn window(
        &self,
        end: PortEnd,
        direction: &DirectionShares,
        place: usize,
        (from, to): (f64, f64),
        flows: &BTreeMap<Flow, Series>,
    ) -> Window {
        let seconds = to - from;
        let mut window = Window { capacity: self.speed * seconds, ..Window::default() };
        for ((sender, source, destination), series) in flows {
            if *sender == end {
                let who = self.who_sent(*source, *destination);
                *window.truth.entry(who).or_default() += between(series, from, to);
            }
        }
        let at = |series: &[Option<f64>]| series.get(place).copied().flatten().unwrap_or(0.0) * seconds;
        window.counted = at(&direction.counted_bytes_per_second);
        for part in &direction.contributors {
            let bytes = at(&part.series);
            let who = self.who_said(part.job_key.as_deref(), part.name.as_deref());
            *window.said.entry(who).or_default() += bytes;
            if who == Who::Other && part.contributor == "host" {
                window.unreported += bytes;
            }
        }
        window
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        self.plan.hosts().iter().position(|host| self.plan.nodes[*host].name == name)
    }

    fn who_of(&self, place: usize) -> Who {
        match place {
            place if self.cast.first.contains(&place) => Who::First,
            place if self.cast.second.contains(&place) => Who::Second,
            place if place == self.cast.stranger.0 || place == self.cast.stranger.1 => Who::Stranger,
            _ => Who::Other,
        }
    }

    /// A flow belongs to the owner of its source.
    fn who_sent(&self, source: Ipv4Addr, _destination: Ipv4Addr) -> Who {
        let hosts = self.plan.hosts();
        let place = hosts.iter().position(|host| fabric_address(self.plan.nodes[*host].lid) == source);
        place.map_or(Who::Other, |place| self.who_of(place))
    }

    fn who_said(&self, job: Option<&str>, host: Option<&str>) -> Who {
        if let Some(hosts) = job.and_then(|key| self.jobs.get(key)) {
            return hosts
                .first()
                .and_then(|name| self.place_of(name))
                .map_or(Who::Other, |place| self.who_of(place));
        }
        match host.and_then(|name| self.place_of(name)) {
            // Bytes of a job's host beside its job are wrongly said to be nobody's.
            Some(place) if self.who_of(place) == Who::Stranger => Who::Stranger,
            _ => Who::Other,
        }
    }
}
