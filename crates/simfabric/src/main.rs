//! `throughline-simfabric`: a simulated fabric as a process of its own. Wiring only.

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_daemon::{Failure, LogOptions, finish, usage};
use throughline_simfabric::{
    ControlError, Scenario, StartError, back_to_back, control, fat_tree, serve, torus,
};

const EXAMPLES: &str = "\
Examples:
  throughline-simfabric run --socket /tmp/fab --fat-tree 1428 --do 'latency 100us' --do 'service 20us'
  throughline-fabric sweep --once --transport sim:/tmp/fab
  throughline-simfabric ctl /tmp/fab 'dead 0.05 hosts'
  throughline-simfabric ctl /tmp/fab 'link leaf001 3 down' 'counter leaf002 1 SymbolErrorCounter 7'
  throughline-simfabric ctl /tmp/fab help             all commands
  throughline-simfabric net --torus 4,4 > torus.net   the net as text, for ibsim

A scenario is a TOML file:
  fat_tree = 1428                  # or net = 'FILE', torus = { sizes = [4, 4], hosts = 2 }, back_to_back = true
  subnet_prefix = '0xfe80000000000000'
  lmc = 0
  seed = 1                         # of loss, jitter and choices
  manager = 'node0001 mlx5_0'      # or 'none': no LIDs, ports stay in Initialize
  setup = ['latency 100us', 'loss 0.01', 'traffic all-to-all 2G']

Clients choose the port that they are attached to with --ca and --port: a node by GUID, id or description; without,
it is the first host.";

/// Simulates an InfiniBand fabric: what a crawler queries is answered after the latency and with the faults that a
/// scenario has. For tests and benches; it touches no hardware.
#[derive(Parser)]
#[command(name = "throughline-simfabric", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a fabric until SIGTERM or Ctrl-C; prints `listening sim=SOCKET` when ready
    Run(RunOptions),
    /// Send commands to a running one
    Ctl {
        /// Its socket
        socket: PathBuf,
        /// Commands; `help` lists them
        #[arg(required = true)]
        commands: Vec<String>,
    },
    /// Print a net in ibnetdiscover's format
    Net(Net),
}

/// The fabric: one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Net {
    /// A scenario file
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// A net in the format of ibnetdiscover
    #[arg(long, value_name = "FILE")]
    net: Option<PathBuf>,
    /// A fat tree of so many hosts: 146, 1428 or 8008
    #[arg(long, value_name = "HOSTS")]
    fat_tree: Option<usize>,
    /// A torus of switches with a host at each, for instance 4,4,2
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    torus: Vec<usize>,
    /// Two hosts and a cable
    #[arg(long)]
    back_to_back: bool,
}

#[derive(Args)]
struct RunOptions {
    /// Where clients connect
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    net: Net,
    /// A command to begin with; may be given several times
    #[arg(long = "do", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Seed of everything random [default: 1, or the scenario's]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

impl Net {
    fn scenario(&self) -> anyhow::Result<Scenario> {
        let scenario = if let Some(path) = &self.scenario {
            Scenario::read(path)
        } else if let Some(path) = &self.net {
            let text = std::fs::read_to_string(path);
            Ok(Scenario::new(text.map_err(|error| {
                Failure::usage(format!("{}: {error}; give a net as ibnetdiscover prints it", path.display()))
            })?))
        } else if let Some(hosts) = self.fat_tree {
            fat_tree(hosts).map(Scenario::new)
        } else if self.back_to_back {
            Ok(Scenario::new(back_to_back("4xEDR")))
        } else {
            Ok(Scenario::new(torus(&self.torus, 1, "4xEDR").map_err(Failure::usage)?))
        };
        Ok(scenario.map_err(|error| Failure::usage(error.to_string()))?)
    }
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => finish("throughline-simfabric", run(cli)),
        Err(said) => usage(&said),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    cli.log.start()?;
    match cli.command {
        Command::Run(options) => simulate(&options)?,
        Command::Ctl { socket, commands } => {
            let said = command(&socket, &commands.join("\n"))?;
            std::io::stdout().write_all(said.as_bytes())?;
        }
        Command::Net(net) => std::io::stdout().write_all(net.scenario()?.net.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn command(socket: &Path, commands: &str) -> anyhow::Result<String> {
    control(socket, commands).map_err(|error| match error {
        ControlError::Io { .. } => Failure::unavailable(error.to_string()).into(),
        ControlError::Refused(reason) => Failure::usage(reason).into(),
    })
}

fn simulate(options: &RunOptions) -> anyhow::Result<()> {
    let mut scenario = options.net.scenario()?;
    scenario.setup.extend(options.commands.iter().cloned());
    scenario.seed = options.seed.unwrap_or(scenario.seed);
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block().context("signals")?;
    let stop = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signals")?;
    let ready = || {
        let mut out = std::io::stdout().lock();
        writeln!(out, "listening sim={}", options.socket.display())?;
        out.flush()
    };
    let ended = serve(&scenario, &options.socket, stop.as_fd(), ready);
    Ok(ended.map_err(|error| match &error {
        StartError::Scenario(_) => Failure::usage(error.to_string()),
        StartError::Socket { cause, .. } if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::permission(error.to_string())
        }
        _ => Failure::unavailable(error.to_string()),
    })?)
}
