//! The command `throughline`: reads the command line and hands over to one module per subcommand.
//!
//! Each module has `Arguments` (clap) and `pub async fn run(arguments, &Site) -> anyhow::Result<ExitCode>`. What queries a
//! server is in throughline-client, and takes no [`Site`].
//! Nothing is done here that belongs to one subcommand, and nothing is printed but the final error.

mod dashboards;
mod db;
mod demo;
mod fabric;
mod job;
mod node;
mod serve;
mod user;

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_client::{link, multicast, status};
use throughline_daemon::{LogFormat, LogOptions, finish, usage};

/// Observe HPC and AI clusters: MPI, GPU links and fabric on one clock
#[derive(Debug, Parser)]
#[command(name = "throughline", version, max_term_width = 100)]
struct Cli {
    /// How log lines look and which there are.
    #[command(flatten)]
    log: LogOptions,
    #[command(subcommand)]
    command: Command,
}

/// Options of what runs on the server: where its configuration and state are.
#[derive(Args, Clone, Debug)]
pub struct Site {
    /// Read the configuration from FILE [default: /etc/throughline/server.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep state in FOLDER [default: /var/lib/throughline for root, else $XDG_STATE_HOME/throughline]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
}

/// A subcommand that works on the server's own files and database.
#[derive(Args, Clone, Debug)]
struct OnSite<T: Args> {
    #[command(flatten)]
    arguments: T,
    #[command(flatten)]
    site: Site,
}

impl Site {
    /// These options and those of the log as they are written on a command line.
    fn as_arguments(&self, log: &LogOptions) -> Vec<OsString> {
        let paths = [("--config", &self.config), ("--state-dir", &self.state_dir)];
        let paths = paths.into_iter().filter_map(|(name, path)| Some([name.into(), path.as_ref()?.into()]));
        let level = log.log_level.as_ref().map(|level| ["--log-level".into(), level.into()]);
        let form = match log.log_format {
            LogFormat::Text => None,
            LogFormat::Json => Some(["--log-format".into(), "json".into()]),
        };
        paths.chain(level).chain(form).flatten().collect()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take batches, answer HTTP, keep the database within its retention
    Serve(OnSite<serve::Arguments>),
    /// Manage the database: install, init, start, stop, status, backup, restore, verify, and predict its size
    Db(OnSite<db::Arguments>),
    /// Refuse nodes and certificates that were stolen, and list those that send records
    Node(OnSite<node::Arguments>),
    /// List the fabrics that crawlers see, and give one another name
    Fabric(OnSite<fabric::Arguments>),
    /// Print the effective configuration of `serve`
    CheckConfig(OnSite<serve::CheckArguments>),
    /// Show each source with the age of its newest row, and each job with its top operations
    Status(status::Arguments),
    /// Write the Grafana dashboards with this site's colours and addresses
    Dashboards(dashboards::Arguments),
    /// Show what jobs did with MPI: list, show, fetch, report, waits, top, matrix, diff, trace, export
    Job(job::Arguments),
    /// Show whose bytes are on a link: jobs by operation, hosts that nobody monitors, and a rest
    Link(link::Arguments),
    /// Show multicast groups: what is wrong with them, members, tree, packets and loss
    Multicast(multicast::Arguments),
    /// Show the whole path on simulated hardware with a real MPI program and a database of its own
    #[command(disable_help_flag = true)]
    Demo(OnSite<demo::Arguments>),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return usage(&said),
    };
    finish("throughline", start(cli))
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    cli.log.start()?;
    match cli.command {
        // One request after the other: no runtime, and no thread of one that would take a signal.
        Command::Status(arguments) => status::run(&arguments),
        Command::Dashboards(arguments) => dashboards::run(&arguments),
        Command::Job(arguments) => job::run(&arguments),
        Command::Link(arguments) => link::run(&arguments),
        Command::Multicast(arguments) => multicast::run(&arguments),
        Command::CheckConfig(OnSite { arguments, .. }) if arguments.client => {
            throughline_client::check::run()
        }
        command => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(run(command, &cli.log))
        }
    }
}

async fn run(command: Command, log: &LogOptions) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(OnSite { arguments, site }) => serve::run(arguments, &site).await,
        Command::Db(OnSite { arguments, site }) => db::run(arguments, &site).await,
        Command::Node(OnSite { arguments, site }) => node::run(arguments, &site).await,
        Command::Fabric(OnSite { arguments, site }) => fabric::run(arguments, &site).await,
        Command::CheckConfig(OnSite { arguments, site }) => serve::check_config(arguments, &site).await,
        Command::Status(arguments) => status::run(&arguments),
        Command::Dashboards(arguments) => dashboards::run(&arguments),
        Command::Job(arguments) => job::run(&arguments),
        Command::Link(arguments) => link::run(&arguments),
        Command::Multicast(arguments) => multicast::run(&arguments),
        Command::Demo(OnSite { arguments, site }) => demo::run(arguments, &site, log),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
