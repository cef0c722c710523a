//! `throughline serve`: the roles collect, query, upkeep and export in one process, with a private database or an
//! operated one. Also `throughline check-config`.
//!
//! Only wiring: opens the database and the listeners, spawns the roles, waits, stops in order.

mod collect;
pub mod config;
mod health;

use crate::Site;
use collect::Collect;
use config::{Databases, ServerConfig};
use health::{Roles, ServeHealth};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_collector::{OwnClock, RejectedSenders};
use throughline_daemon::{Failure, GRACE, SelfMetrics, http, paths, stop_signal};
use throughline_delivery::Backoff;
use throughline_gateway::{export, query, upkeep};
use throughline_store::{
    ClusterOptions, ClusterStart, ClusterStatus, Database, Lifetime, PrivateCluster, check_session, migrate,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often the private database server is looked after.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Shown below the options.
const HELP: &str = "\
Prints `listening collect=ADDRESS`, `listening collect=unix:PATH` and `listening query=ADDRESS`
on standard output. Without --database-url it starts a PostgreSQL of its own in STATE/db, on a
Unix socket only, and stops it when it ends. Started as root it becomes the user that STATE/db
belongs to, at first throughline or postgres, for good. A database that is away is waited for.

Examples:
  throughline db install            once, where there is no PostgreSQL with TimescaleDB
  throughline serve
  throughline serve --database-url 'postgresql://me@db.example.org/throughline?sslmode=verify-full'
  curl -s http://127.0.0.1:9460/metrics
  throughline status

Files:
  /etc/throughline/server.toml      configuration; see `throughline check-config`
  STATE/db                          the private database

Environment:
  THROUGHLINE__SECTION__KEY=VALUE   any key: THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0
  THROUGHLINE_PG_BIN=FOLDER         PostgreSQL's programs, as --pg-bin
  THROUGHLINE_PREFIX=FOLDER         where `throughline db install` unpacks";

/// Options of `serve`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Use this operated database [default: a private one in the state folder]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// Find PostgreSQL's programs for the private database in FOLDER
    #[arg(long, value_name = "FOLDER", conflicts_with = "database_url")]
    pub pg_bin: Option<std::path::PathBuf>,
}

/// Options of `check-config`.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckArguments {
    /// Print what `job` and `status` use instead: server, certificates, where the token is from
    #[arg(long, conflicts_with_all = ["config", "state_dir"])]
    pub client: bool,
}

/// Prints the effective configuration of `serve`, without passwords, once its files were checked.
///
/// # Errors
/// 64 when it is wrong, 69 when a file is missing, 77 when this user may not read one.
#[allow(clippy::unused_async)] // Like every subcommand.
pub async fn check_config(_: CheckArguments, site: &Site) -> anyhow::Result<ExitCode> {
    let config: ServerConfig = throughline_daemon::config::load("server", site.config.as_deref())?;
    config.check()?;
    let state = paths::state_dir(site.state_dir.as_deref()).ok();
    let run_dir = state.map(|state| paths::run_dir(&state, site.state_dir.is_some()));
    config.check_files(run_dir.as_deref())?;
    std::io::stdout().write_all(throughline_daemon::config::print(&config)?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// 64 for a wrong configuration, 69 when there is no database or a port is in use, 77 without permission.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let mut config: ServerConfig = throughline_daemon::config::load("server", site.config.as_deref())?;
    if arguments.database_url.is_some() {
        config.database.url = arguments.database_url;
    }
    if arguments.pg_bin.is_some() {
        config.database.pg_bin = arguments.pg_bin;
    }
    config.check()?;
    let stop = stop_signal()?;
    // While this process may still raise its limits.
    collect::raise_limits(&config.collect)?;
    // Without a state folder there is no run folder either; an operated database needs neither.
    let run_dir = paths::state_dir(site.state_dir.as_deref()).ok();
    let run_dir = run_dir.map(|state| paths::run_dir(&state, site.state_dir.is_some()));
    let metrics = SelfMetrics::default();
    if let Some(databases) = config.database.operated(&metrics)? {
        let wait = wait_for(&databases.direct, &stop);
        return serve(&config, &databases, metrics, run_dir.as_deref(), wait, &stop).await;
    }
    let state_dir = paths::state_dir(site.state_dir.as_deref())?;
    let options = ClusterOptions { state_dir, pg_bin: config.database.pg_bin.clone() };
    let cluster = PrivateCluster::find(&options).map_err(Failure::from)?;
    // Certificates, keys, tokens and sockets are from here on used as the database's user.
    let shared: Vec<&Path> = run_dir.as_deref().into_iter().collect();
    let cluster = cluster.leave_root(&shared).map_err(Failure::from)?;
    let result = serve_privately(&config, &cluster, run_dir.as_deref(), &stop).await;
    if cluster.stop_own().await.map_err(Failure::from)? {
        tracing::info!("private database stopped");
    }
    result
}

async fn serve_privately(
    config: &ServerConfig,
    cluster: &PrivateCluster,
    run_dir: Option<&Path>,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let Some((database, started)) = start_privately(cluster, stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    tracing::info!(folder = %cluster.folder().display(), ?started, "private database");
    let (databases, metrics) = (Databases::from(database), SelfMetrics::default());
    let served = serve(config, &databases, metrics, run_dir, async { Ok(()) }, stop);
    tokio::select! {
        result = served => result,
        never = keep_running(cluster) => never,
    }
}

/// Starts the private server and waits as long as what is left of the one before still ends or recovers: `serve`
/// and its server may have been killed together a moment ago. `None`: stopped meanwhile.
async fn start_privately(
    cluster: &PrivateCluster,
    stop: &CancellationToken,
) -> anyhow::Result<Option<(Database, ClusterStart)>> {
    let mut backoff = Backoff::default();
    let mut waiting: Option<Instant> = None;
    loop {
        let error = match cluster.run(Lifetime::WithCaller).await {
            Ok(running) => {
                if let Some(since) = waiting {
                    tracing::info!(seconds = since.elapsed().as_secs(), "the private database is there");
                }
                return Ok(Some(running));
            }
            Err(error) if error.is_temporary() => error,
            Err(error) => return Err(Failure::from(error).into()),
        };
        match waiting {
            None => tracing::warn!(%error, "the private database is not ready: trying again until it is"),
            Some(since) => {
                tracing::info!(%error, seconds = since.elapsed().as_secs(), "still waiting for the private database");
            }
        }
        waiting.get_or_insert_with(Instant::now);
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

/// Starts the private server again when it died: killed for memory, for instance. One that somebody stopped
/// with `throughline db stop` is not ours any more and stays stopped; one that somebody started with `throughline db
/// start` and that died goes on being theirs.
async fn keep_running(cluster: &PrivateCluster) -> ! {
    let is_gone = || match cluster.is_own() {
        true => cluster.status() == ClusterStatus::Stopped,
        false => cluster.has_crashed(),
    };
    let mut backoff = Backoff::default();
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        if !is_gone() {
            continue;
        }
        // The one who stops it takes our mark away just after it ended.
        tokio::time::sleep(WATCH_INTERVAL).await;
        if !is_gone() {
            continue;
        }
        tracing::warn!("the private database server is gone: starting it again");
        let lifetime = if cluster.is_own() { Lifetime::WithCaller } else { Lifetime::Detached };
        match cluster.start(lifetime).await {
            Ok(_) => backoff.reset(),
            Err(error) => {
                tracing::error!(%error, "the private database server does not start");
                tokio::time::sleep(backoff.next_pause()).await;
            }
        }
    }
}

/// Waits until an operated database answers, and brings it to this build's schema.
async fn wait_for(database: &Database, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut backoff = Backoff::default();
    let mut logged = false;
    loop {
        let opened = async {
            check_session(database).await?;
            migrate(database).await
        };
        match opened.await {
            Ok(_) => {
                tracing::info!(database = database.place(), "database");
                return Ok(());
            }
            Err(error) if error.is_temporary() => {
                if logged {
                    tracing::debug!(%error, "no database yet");
                } else {
                    tracing::warn!(%error, "no database yet: trying again until it is there");
                }
                logged = true;
            }
            Err(error) => return Err(Failure::from(error).into()),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

/// Opens the listeners, waits for the database, and runs the roles until `stop` or until one of them fails.
async fn serve(
    config: &ServerConfig,
    databases: &Databases,
    metrics: SelfMetrics,
    run_dir: Option<&Path>,
    ready: impl Future<Output = anyhow::Result<()>>,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let webhook = config.report.receiver()?;
    let exported = metrics.clone();
    let series = upkeep::LinkSeries::default();
    let (rejected, own_clock) = (RejectedSenders::default(), OwnClock::default());
    let mut roles: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let has =
        Roles { collect: config.collect.enabled, query: config.query.enabled, upkeep: config.upkeep.enabled };
    // Without readers nobody looks at a replica.
    let read = if config.query.enabled { databases.read.clone() } else { databases.main.clone().into() };
    let health = ServeHealth::new(databases.main.clone(), read, metrics.clone(), has);
    let health = health.with_clock(own_clock.clone());
    if config.query.enabled {
        let (limits, access) = (config.query.limits()?, config.query.access());
        let long_range =
            config.query.promql()?.map(|promql| promql.long_range()).transpose()?.unwrap_or_default();
        let server = query::Server::with_health(
            &metrics,
            (databases.read.clone(), config.query.own_history()?),
            limits,
            &access,
            (config.query.thresholds.thresholds()?, config.detail.triggers()?, long_range),
            Arc::new(health.clone()),
            vec![Arc::new(series.clone()), Arc::new(rejected.clone())],
        )?;
        let listener = http::listen("query", config.query.listen, "query.listen").await?;
        roles.spawn(server.run(listener, stop.clone()));
        tokio::spawn(databases.read.clone().watch(stop.clone()));
    }
    tokio::spawn(health.watch(stop.clone()));
    let collect = if config.collect.enabled {
        let listener = http::listen("collect", config.collect.listen, "collect.listen").await?;
        Some(Collect::new(listener, &config.collect, run_dir, rejected, own_clock)?)
    } else {
        None
    };
    ready.await?;
    if stop.is_cancelled() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(collect) = collect {
        let node = nix::sys::utsname::uname()?.nodename().to_string_lossy().into_owned();
        roles.spawn(collect.run(databases.main.clone(), metrics.clone(), node, stop.clone()));
    }
    if config.upkeep.enabled {
        let options = upkeep::Options { webhook, ..config.upkeep_options()? };
        let work = upkeep::run(databases.direct.clone(), options, metrics, series, stop.clone());
        roles.spawn(async {
            work.await;
            Ok(())
        });
    }
    if !config.export.remote_write.is_empty() {
        let (targets, retained) =
            (config.export.remote_write.clone(), config.upkeep_options()?.retention.readings());
        roles.spawn(export::run(databases.direct.clone(), targets, retained, exported, stop.clone()));
    }
    let mut result = Ok(ExitCode::SUCCESS);
    while let Some(ended) = roles.join_next().await {
        let early = !stop.is_cancelled();
        if let Err(error) = ended.map_err(anyhow::Error::from).and_then(|r| r) {
            result = Err(error.context("serve"));
        } else if early {
            result = Err(anyhow::anyhow!("a role ended before a stop signal"));
        }
        if early {
            stop.cancel();
        }
        // One grace time for all of them, from the first that ends.
        if tokio::time::timeout(GRACE, async { while roles.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("stopped before every connection was closed");
            roles.abort_all();
        }
    }
    result
}
