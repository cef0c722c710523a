//! Command line: options, and one module per command.

mod check;
mod clear;
mod discover;
mod error_scan;
mod errors;
pub mod fabric;
mod help;
mod links;
mod multicast;
mod nodes;
mod recorder;
mod route;
mod save;
mod shares;
pub mod source;
mod stop;
mod sweep;
mod sweep_plan;
mod top;
mod usage;

use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use throughline_crawler::discover::Limits;
use throughline_crawler::engine::{self, Settings};
use throughline_crawler::port::TransportKind;
use throughline_crawler::run::config::{Config, Window};
use throughline_crawler::sa::Choice;
use throughline_daemon::{Failure, LogOptions};

/// Read an InfiniBand fabric: topology, routes and port counters. Only `clear` changes anything on it, and nothing else.
#[derive(Parser)]
#[command(name = "throughline-fabric", version, after_help = help::ALL)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: FabricOptions,
    #[command(flatten)]
    log: LogOptions,
}

/// Which local port, and how hard to query.
#[derive(Args)]
pub struct FabricOptions {
    /// Use this local device, for instance mlx5_0 [default: the first with an active port]
    #[arg(long, global = true, value_name = "DEVICE")]
    pub ca: Option<String>,
    /// Use this port of the local device [default: its first active port]
    #[arg(long, global = true, value_name = "NUMBER")]
    pub port: Option<u8>,
    /// Send requests through `umad`, or `sim:SOCKET` of a throughline-simfabric [default: umad]
    #[arg(long, global = true, value_name = "umad|sim:SOCKET")]
    pub transport: Option<TransportKind>,
    /// Read saved files in place of a live fabric: what ibnetdiscover, dump_fts and their family printed
    #[arg(long, global = true, value_name = "FOLDER", conflicts_with_all = ["ca", "port", "transport"])]
    pub saved: Option<PathBuf>,
    /// Query for the topology the nodes (`smp`), the subnet administrator (`sa`), or the nodes first [default: auto]
    #[arg(long, global = true, value_name = "auto|smp|sa", conflicts_with = "saved")]
    pub discovery: Option<Choice>,
    /// Read the M_Key of the subnet from FILE, which only its owner may read; for fabrics that are protected by one
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "saved")]
    pub m_key_file: Option<PathBuf>,
    /// Read the SM_Key from FILE, which only its owner may read: the subnet administrator reports members of groups to who knows it [default: none; for members opensm's own default, 1]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "saved")]
    pub sm_key_file: Option<PathBuf>,
    /// Read names of nodes in place of their descriptions from FILE, one line `0xGUID "name"` each [default: /etc/rdma/ib-node-name-map or /etc/opensm/ib-node-name-map, where one exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub node_name_map: Option<PathBuf>,
    /// Wait at most so long for an answer; repetitions begin sooner [default: 200]
    #[arg(long, global = true, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout: Option<u64>,
    /// Have at most so many requests outstanding [default: 32]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=engine::MAX_WINDOW as i64))]
    pub window: Option<u8>,
    /// Send at most so many MADs in any second, all kinds and repetitions together [default: no limit]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub mads_per_second_max: Option<u32>,
    /// Discover at most so many nodes [default: 65536]
    #[arg(long, global = true, value_name = "NUMBER", conflicts_with = "saved", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes_max: Option<u32>,
    /// Discover at most so many ports of all nodes [default: 262144]
    #[arg(long, global = true, value_name = "NUMBER", conflicts_with = "saved", value_parser = clap::value_parser!(u32).range(1..))]
    pub ports_max: Option<u32>,
    /// Report on standard error what was sent and what it cost on the wire
    #[arg(long, global = true)]
    pub stats: bool,
}

impl FabricOptions {
    /// What a discovery may take, from the options and the defaults.
    fn limits(&self) -> Limits {
        let defaults = Limits::default();
        Limits {
            nodes: self.nodes_max.map_or(defaults.nodes, |number| number as usize),
            ports: self.ports_max.map_or(defaults.ports, |number| number as usize),
            ..defaults
        }
    }

    /// Settings of an engine, from the options and the defaults.
    fn settings(&self, defaults: Settings) -> Settings {
        Settings {
            window: self.window.map_or(defaults.window, usize::from),
            timeout: self.timeout.map_or(defaults.timeout, Duration::from_millis),
            budget: throughline_crawler::engine::Budget::of_process(self.mads_per_second_max.unwrap_or(0))
                .or(defaults.budget),
            ..defaults
        }
    }
}

impl FabricOptions {
    /// Options of the command line win over the file.
    fn apply(&self, config: &mut Config) {
        if let Some(ca) = &self.ca {
            config.device.ca = Some(ca.clone());
        }
        if let Some(port) = self.port {
            config.device.port = port;
        }
        if let Some(transport) = &self.transport {
            config.device.transport = transport.clone();
        }
        if let Some(choice) = self.discovery {
            config.discovery.source = choice;
        }
        if let Some(file) = &self.m_key_file {
            config.mad.m_key_file = Some(file.clone());
        }
        if let Some(file) = &self.sm_key_file {
            config.mad.sm_key_file = Some(file.clone());
        }
        if let Some(map) = &self.node_name_map {
            config.discovery.node_name_map = Some(map.clone());
        }
        if let Some(most) = self.nodes_max.and_then(NonZeroU32::new) {
            config.discovery.nodes_max = most;
        }
        if let Some(most) = self.ports_max.and_then(NonZeroU32::new) {
            config.discovery.ports_max = most;
        }
        if let Some(timeout) = self.timeout {
            config.mad.timeout_seconds = Duration::from_millis(timeout).into();
        }
        if let Some(most) = self.mads_per_second_max {
            config.mad.mads_per_second_max = most;
        }
        if let Some(window) = self.window {
            config.mad.window = Window(window);
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Walk the subnet and show nodes, ports and cables
    #[command(after_help = help::DISCOVER)]
    Discover(discover::Options),
    /// List all links: both ends, width and speed, and what they could be
    #[command(after_help = help::LINKS)]
    Links(links::Options),
    /// List ports with errors: rates over an interval, or totals
    #[command(after_help = help::ERRORS)]
    Errors(errors::Options),
    /// Show the hottest links, live
    #[command(after_help = help::TOP)]
    Top(top::Options),
    /// Look for whatever is wrong; exit status 2 where something is
    #[command(after_help = help::CHECK)]
    Check(check::Options),
    /// Read the counters of all ports with a link
    #[command(after_help = help::SWEEP)]
    Sweep(sweep::Options),
    /// Set counters of chosen ports to 0; without --yes only say which
    #[command(after_help = help::CLEAR)]
    Clear(clear::Options),
    /// Show the way from one node to another, from the forwarding tables
    #[command(after_help = help::ROUTE)]
    Route(route::Options),
    /// Show multicast groups, their members, and the tree that carries each
    #[command(after_help = help::MULTICAST)]
    Multicast(multicast::Options),
    /// Count how many pairs of hosts pass each link, from the forwarding tables
    #[command(after_help = help::USAGE)]
    Usage(usage::Options),
    /// Show whose bytes were on each link, from saved files and the traffic of jobs between hosts
    LinkShares(shares::Options),
    /// Write nodes, cables and forwarding tables into files, as ibnetdiscover and dump_fts print them
    #[command(after_help = help::SAVE)]
    Save(save::Options),
    /// Discover, sweep and deliver, until SIGTERM or Ctrl-C
    #[command(after_help = help::RUN)]
    Run(RunOptions),
    /// List batches that the collector rejected, and why; they are sent again once that is corrected
    #[command(after_help = help::REJECTED_BATCHES)]
    RejectedBatches {
        /// Print one JSON document per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: DaemonOptions,
    },
    /// List what this node's recorder has: the last hour of all readings
    #[command(after_help = help::RECORDER)]
    Recorder(recorder::Options),
    /// Check the daemon's configuration and print what holds, with all defaults
    CheckConfig(DaemonOptions),
}

/// Options of `run`.
#[derive(Args)]
struct RunOptions {
    #[command(flatten)]
    daemon: DaemonOptions,
    /// Begin at once where it isn't clear which fabric is seen, without a minute of agreement
    #[arg(long)]
    accept: bool,
}

/// Options of the daemon.
#[derive(Args)]
struct DaemonOptions {
    /// Read the configuration from FILE [default: /etc/throughline/fabric.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep state in FOLDER [default: /var/lib/throughline for root, else $XDG_STATE_HOME/throughline]
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
}

impl DaemonOptions {
    /// The configuration that holds: file, environment, command line.
    fn load(&self, fabric: &FabricOptions) -> anyhow::Result<Config> {
        let mut config: Config = throughline_daemon::config::load("fabric", self.config.as_deref())?;
        fabric.apply(&mut config);
        config.read_keys().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(config)
    }
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Whatever ends it early; a [`throughline_daemon::Failure`] in the chain has the exit status.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut log = self.log;
        if self.options.stats {
            // Engines report their cost at this level when they are closed.
            log.log_level.get_or_insert_with(|| "info".to_owned()).push_str(engine::COST_DIRECTIVE);
        }
        log.start()?;
        match self.command {
            Command::Discover(options) => discover::run(&self.options, &options),
            Command::Errors(options) => errors::run(&self.options, &options),
            Command::Top(options) => top::run(&self.options, &options),
            Command::Check(options) => check::run(&self.options, &options),
            Command::Links(options) => links::run(&self.options, &options),
            Command::Sweep(options) if options.plan => {
                let daemon = DaemonOptions { config: options.config.clone(), state_dir: None };
                sweep_plan::run(&self.options, &daemon.load(&self.options)?, options.json)
            }
            Command::Sweep(options) => sweep::run(&self.options, &options),
            Command::Clear(options) => clear::run(&self.options, &options),
            Command::Route(options) => route::run(&self.options, &options),
            Command::Multicast(options) => multicast::run(&self.options, &options),
            Command::Usage(options) => usage::run(&self.options, &options),
            Command::LinkShares(options) => shares::run(&self.options, &options),
            Command::Save(options) => save::run(&self.options, &options),
            Command::Run(options) => {
                throughline_daemon::bound_allocator();
                let config = options.daemon.load(&self.options)?;
                throughline_crawler::run::run(&config, options.daemon.state_dir.as_deref(), options.accept)
            }
            Command::RejectedBatches { json, daemon } => {
                let config = daemon.load(&self.options)?;
                let explicit = daemon.state_dir.as_deref().or(config.state_dir.as_deref());
                let state = throughline_daemon::paths::state_dir(explicit)?;
                let folder = state.join(throughline_crawler::run::REFUSED_FOLDER);
                throughline_delivery::print_refused(&folder, json, &mut std::io::stdout().lock())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Recorder(options) => {
                let config = options.daemon.load(&self.options)?;
                recorder::run(&options, &config)
            }
            Command::CheckConfig(options) => {
                let config = options.load(&self.options)?;
                if let Some(tls) = &config.delivery.tls {
                    tls.check_certificates(
                        "delivery.tls",
                        throughline_daemon::certificates::Purpose::Client,
                    )?;
                }
                let text = throughline_daemon::config::print(&config)?;
                std::io::stdout().write_all(text.as_bytes())?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
