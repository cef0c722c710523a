//! `throughline job`: what jobs did with MPI, read from the database.
//!
//! One file for each subcommand: `Options` (clap) and `pub async fn run(&Client, &Options) -> anyhow::Result<ExitCode>`.
//! Nothing here writes to the database or needs a daemon.

mod find;
mod matrix;
mod top;
mod trace;

use crate::Site;
use crate::reader::Reader;
use std::process::ExitCode;
use throughline_client::Connection;
use throughline_client::job::{diff, list, show};
use tokio_postgres::Row;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job list                    the newest jobs
  throughline job list --running --user ada
  throughline job show last               the newest job on one page
  throughline job top                     jobs that run, live
  throughline job matrix last             who sent how much to whom
  throughline job diff last-1 last        the newest two, compared
  throughline job trace last -o t.json    its calls and messages, for Perfetto

A JOB is named by its key (slurm:4711.0), by its scheduler's own id (4711), by the unique beginning
of either, by `last` for the newest job or `last-1` for the one before.

Exit status: 0 done, 64 wrong usage, 69 no database to read, 77 no permission, 1 no such job or any
other failure.";

/// Options of `job`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which server.
    #[command(flatten)]
    pub connection: Connection,
    /// Which database to read, for what is no request to the server yet.
    #[command(flatten)]
    pub reader: Reader,
    /// What to show.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Jobs, the newest first
    List(list::Options),
    /// One job on a page: ranks, operations, regions, links, and what is worth knowing
    Show(show::Options),
    /// Jobs that run, by what they do with MPI now
    Top(top::Options),
    /// Who sent how much to whom, drawn
    Matrix(matrix::Options),
    /// Ratio of time of two jobs per operation and size class
    Diff(diff::Options),
    /// The traced calls and messages of a job as a file for Perfetto and Chrome
    Trace(trace::Options),
}

impl Command {
    /// Whether it queries the server.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::List(_) | Self::Show(_) | Self::Diff(_))
    }
}

/// Runs a subcommand that queries the server.
///
/// # Errors
/// See [`throughline_client::Error`].
pub fn request(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.connection.server()?;
    match &arguments.command {
        Command::List(options) => list::run(&server, options),
        Command::Show(options) => show::run(&server, options),
        Command::Diff(options) => diff::run(&server, options),
        Command::Top(_) | Command::Matrix(_) | Command::Trace(_) => anyhow::bail!("not a request"),
    }
}

/// A count; the store's are signed.
fn whole(row: &Row, column: &str) -> Result<Option<u64>, tokio_postgres::Error> {
    Ok(row.try_get::<_, Option<i64>>(column)?.and_then(|value| u64::try_from(value).ok()))
}

/// Runs the subcommand.
///
/// # Errors
/// 69 when there is no database to read; no such job.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let client = arguments.reader.connect(site).await?;
    match &arguments.command {
        Command::Top(options) => top::run(client, &arguments.reader, site, options).await,
        Command::Matrix(options) => matrix::run(&client, options).await,
        Command::Trace(options) => trace::run(&client, options).await,
        Command::List(_) | Command::Show(_) | Command::Diff(_) => request(&arguments),
    }
}
