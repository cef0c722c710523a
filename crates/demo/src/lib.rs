//! `throughline-demo`: the whole path on simulated hardware, with a real MPI program and a real database.
//! `throughline demo` executes it. It is a program of its own because it contains test doubles, which no product does.
//!
//! Simulated are the fabric (ibsim, opensm), the hosts' adapters (`/sys` trees) and the GPUs (a test double of
//! NVML). Real are the MPI program and its calls, the MADs, and everything from the sources to the database. The
//! counters of the simulated ports move with the program's measured traffic along the fabric's routes.
//!
//! Nothing outside `<state>/demo` is written, and every process started here is stopped here.

pub mod config;
mod counters;
mod doubles;
pub mod emulate;
mod flows;
mod inject;
pub mod layout;
mod meter;
mod mpi;
mod process;
mod show;
mod size;
mod sources;
mod stack;
mod start;
mod table;
mod traffic;

use anyhow::Context;
use clap::{Parser, Subcommand};
use layout::Layout;
use mpi::Mpi;
use show::View;
use sources::SOURCES;
use stack::Stack;
use start::{Programs, StartedDemo};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use throughline_daemon::{LogOptions, finish, paths, stop_signal, usage};
use throughline_infiniband::topology::FatTree;
use throughline_query::recent::{self, Client};

/// From one reading of traffic to the next; ranks push once a second.
const ROUND: Duration = Duration::from_secs(1);

/// From one refresh of the status to the next, on a terminal and elsewhere.
const REFRESH_ROUNDS: u32 = 2;
const REFRESH_ROUNDS_PLAIN: u32 = 5;

/// With `--once`, rounds between two lines about what is still missing.
const REMINDER_ROUNDS: u32 = 15;

/// Seconds over which status looks back at rows, and at links: a few sweeps.
const WINDOW_SECONDS: f64 = 10.0;
const LINKS_WINDOW_SECONDS: f64 = 6.5;
const LINKS_SHOWN: i64 = 10;

/// How long one run of the MPI program takes before the next begins.
const RUN_SECONDS: u32 = 180;

/// The same of the first one: soon there is a job that has ended, to look at and to compare with.
const FIRST_RUN_SECONDS: u32 = 40;

/// With `--once`, how long every source may take to deliver. Seconds on an idle machine.
const ONCE_LIMIT: Duration = Duration::from_secs(240);

/// With `--once`, the busiest link must have been seen this busy: the traffic has gone the whole way round. On a machine
/// that does other work, too, the program is slower, and so are its links.
const ONCE_UTILISATION: f64 = 0.5;

/// Show the whole path on simulated hardware with a real MPI program and a database of its own
#[derive(Parser, Clone, Debug)]
#[command(name = "throughline-demo", version, max_term_width = 100)]
struct Arguments {
    /// End with status 0 once every source has delivered
    #[arg(long, conflicts_with = "emulate")]
    once: bool,
    /// Emulate a small fabric by network namespaces, with real congestion between two MPI jobs and an unmonitored
    /// sender; needs root or user namespaces
    #[arg(long, conflicts_with = "size")]
    emulate: bool,
    #[command(flatten)]
    shape: emulate::Shape,
    /// Simulate a fat-tree of this size
    #[arg(long, value_enum, default_value = "small", value_name = "SIZE")]
    size: size::Size,
    /// Simulate so many hosts, 4 to 8008; with --emulate 6 to 64 [default there: 16]
    #[arg(long, value_name = "N", conflicts_with = "size")]
    hosts: Option<usize>,
    /// Read the configuration of `throughline serve` whose PostgreSQL ([database] pg_bin) the demo's own database uses
    /// [default: /etc/throughline/server.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep state in `demo` of this folder [default: /var/lib/throughline for root, else $XDG_STATE_HOME/throughline]
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    /// How log lines look and which there are.
    #[command(flatten)]
    log: LogOptions,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Parts of the demo that are processes of their own.
#[derive(Subcommand, Clone, Debug)]
enum Part {
    /// Run the sender that no job knows, or its receiver
    #[command(hide = true)]
    Stream(emulate::stream::StreamOptions),
}

/// The program: its options from the command line, to its end.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    finish("throughline-demo", begin(arguments))
}

fn begin(arguments: Arguments) -> anyhow::Result<ExitCode> {
    arguments.log.start()?;
    if let Some(Part::Stream(options)) = &arguments.part {
        emulate::stream::run(options)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(arguments))
}

/// Runs the demo until Ctrl-C, or until every source has delivered.
///
/// # Errors
/// 69 when something needed is not there or another demo runs, 1 when a part fails or does not deliver.
async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.emulate {
        return run_emulated(&arguments).await;
    }
    let tree = match arguments.hosts {
        Some(hosts) => size::tree_of(hosts)?,
        None => arguments.size.tree(),
    };
    let server = config::Server::load(arguments.config.as_deref())?;
    let programs = Programs::find()?;
    let mpi = Mpi::find()?;
    let layout = Layout::take(&paths::state_dir(arguments.state_dir.as_deref())?)?;
    let stop = stop_signal().context("installing signal handlers")?;

    let mut stack = Stack::default();
    let result = tokio::select! {
        result = demonstrate(&arguments, tree, &programs, &mpi, &layout, &server, &mut stack) => result,
        () = stop.cancelled() => Ok(()),
    };
    if stop.is_cancelled() || result.is_err() {
        start::print_line(&format!("Stopping; the data stays in {}", layout.server().display()));
    }
    let clean = stack.stop(&layout).await;
    layout.clean()?;
    result?;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same with an emulated fabric, until Ctrl-C.
async fn run_emulated(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let shape = emulate::Shape { hosts: arguments.hosts.unwrap_or(arguments.shape.hosts), ..arguments.shape };
    let server = config::Server::load(arguments.config.as_deref())?;
    let layout = Layout::take(&paths::state_dir(arguments.state_dir.as_deref())?)?;
    let stop = stop_signal().context("installing signal handlers")?;
    let clean = emulate::run(shape, server, layout, stop).await?;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn demonstrate(
    arguments: &Arguments,
    tree: FatTree,
    programs: &Programs,
    mpi: &Mpi,
    layout: &Layout,
    server: &config::Server,
    stack: &mut Stack,
) -> anyhow::Result<()> {
    let simulated = "simulated fabric, adapters and GPUs";
    start::print_line(&format!("Throughline demo: {simulated}; real MPI ({}), MADs and database", mpi.name));
    let begin = SystemTime::now();
    let mut started = start::start(stack, layout, programs, server, tree, mpi).await?;
    let client = started.database.connect_reader().await?;
    let daemons: Vec<_> = stack.daemons().map(|child| &*child).collect();
    start::print_line(&format!("\n{}", show::whereabouts(&started, daemons.into_iter(), &layout.logs())));
    if arguments.once {
        return once(stack, layout, mpi, &mut started, &client, begin).await;
    }
    start::print_line(&show::suggestions(&started, &programs.throughline));
    watch(stack, layout, mpi, &mut started, &client).await
}

/// Refreshes the status for ever.
async fn watch(
    stack: &mut Stack,
    layout: &Layout,
    mpi: &Mpi,
    started: &mut StartedDemo,
    client: &Client,
) -> anyhow::Result<()> {
    let mut shown_lines = 0;
    let on_terminal = std::io::stdout().is_terminal();
    let refresh = if on_terminal { REFRESH_ROUNDS } else { REFRESH_ROUNDS_PLAIN };
    for round in 1_u32.. {
        one_round(stack, layout, mpi, started, client).await?;
        if round % refresh != 0 {
            continue;
        }
        let since = SystemTime::now() - Duration::from_secs_f64(WINDOW_SECONDS);
        let view = view(started, client, since).await?;
        let text = if on_terminal {
            let status = show::status(&view, started.driver.network());
            show::in_place(&format!("{status}\nCtrl-C stops everything.\n"), &mut shown_lines)
        } else {
            format!("{}\n", show::status_line(&view))
        };
        let mut out = std::io::stdout();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    }
    Ok(())
}

/// Ends when every source has delivered and the program's traffic was seen on the fabric's links.
async fn once(
    stack: &mut Stack,
    layout: &Layout,
    mpi: &Mpi,
    started: &mut StartedDemo,
    client: &Client,
    begin: SystemTime,
) -> anyhow::Result<()> {
    let start = Instant::now();
    start::progress("waiting for rows of every source");
    for round in 1_u32.. {
        one_round(stack, layout, mpi, started, client).await?;
        let view = view(started, client, begin).await?;
        let Some((what, child)) = missing(&view, mpi) else {
            start::print_line(&format!("\n{}", show::summary(&view, started.driver.network(), mpi)));
            return Ok(());
        };
        if start.elapsed() > ONCE_LIMIT {
            let log = layout.logs().join(format!("{child}.log"));
            anyhow::bail!("{what} in {} s; see {}", ONCE_LIMIT.as_secs(), log.display());
        }
        if round % REMINDER_ROUNDS == 0 {
            start::progress(&format!("{what} yet; waiting, at most {} s", ONCE_LIMIT.as_secs()));
        }
    }
    Ok(())
}

/// What has not arrived yet, and the name of the log to look at.
fn missing(view: &View, mpi: &Mpi) -> Option<(String, &'static str)> {
    let silent = SOURCES
        .iter()
        .zip(&view.rows)
        .filter(|(source, _)| mpi.has_pvars || source.table != "mpi_pvars")
        .find(|(_, rows)| rows.count == 0);
    if let Some((source, _)) = silent {
        return Some((format!("no rows of {} (table {})", source.name, source.table), source.child));
    }
    let busiest = view.links.first().map_or(0.0, |link| link.utilisation);
    (busiest < ONCE_UTILISATION)
        .then(|| ("no traffic of the MPI program on the fabric's links".to_owned(), "fabric"))
}

/// One second: notices what has died, keeps the MPI program running, and moves the traffic on.
async fn one_round(
    stack: &mut Stack,
    layout: &Layout,
    mpi: &Mpi,
    started: &mut StartedDemo,
    client: &Client,
) -> anyhow::Result<()> {
    stack.check()?;
    let ended = match &mut stack.mpi {
        None => true,
        Some(child) => {
            child.exited().is_some_and(|status| status.success()) || child.check().map(|()| false)?
        }
    };
    if ended {
        let seconds = if stack.mpi.is_none() { FIRST_RUN_SECONDS } else { RUN_SECONDS };
        let recipe = mpi.run(&started.rank_script, &layout.run(), seconds);
        stack.mpi = Some(recipe.start(&layout.logs())?);
    }
    tokio::time::sleep(ROUND).await;
    let Some(injector) = &stack.injector else { return Ok(()) };
    started.driver.round(client, injector).await
}

async fn view(started: &StartedDemo, client: &Client, since: SystemTime) -> anyhow::Result<View> {
    Ok(View {
        rows: recent::rows_since(client, &SOURCES.map(|source| source.table), since).await?,
        window_seconds: since.elapsed().unwrap_or_default().as_secs_f64().max(1.0),
        links: recent::busy_links(client, LINKS_WINDOW_SECONDS, LINKS_SHOWN).await?,
        job: recent::newest_job(client).await?,
        measured: started.driver.measured_bytes_per_second(),
    })
}
