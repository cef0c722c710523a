//! `throughline job`: what jobs did with MPI, read from the database.
//!
//! One file for each subcommand: `Options` (clap) and `pub async fn run(&Client, &Options) -> anyhow::Result<ExitCode>`.
//! Nothing here writes to the database or needs a daemon.

mod cells;
mod diff;
mod find;
mod list;
mod matrix;
mod show;
mod summary;
mod top;
mod trace;

use crate::Site;
use crate::reader::Reader;
use std::process::ExitCode;

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
    /// Which database to read.
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

/// Runs the subcommand.
///
/// # Errors
/// 69 when there is no database to read; no such job.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let client = arguments.reader.connect(site).await?;
    match &arguments.command {
        Command::List(options) => list::run(&client, options).await,
        Command::Show(options) => show::run(&client, options).await,
        Command::Top(options) => top::run(client, &arguments.reader, site, options).await,
        Command::Matrix(options) => matrix::run(&client, options).await,
        Command::Diff(options) => diff::run(&client, options).await,
        Command::Trace(options) => trace::run(&client, options).await,
    }
}
