//! `throughline job`: what jobs did with MPI, as the server has it. The subcommands are in throughline-client, one file each.

use std::process::ExitCode;
use throughline_client::Connection;
use throughline_client::job::{diff, export, fetch, list, matrix, report, show, top, trace, waits};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job list                    the newest jobs
  throughline job list --running --user ada
  throughline job show last               the newest job on one page
  throughline job fetch last --wait       fetch its last ten minutes in full resolution from its nodes
  throughline job report last             what is to be said of it, in ten lines
  throughline job waits last              who waited for whom, in seconds
  throughline job top                     jobs that run, live
  throughline job matrix last             who sent how much to whom
  throughline job diff last-1 last        the newest two, compared
  throughline job trace last -o t.json    all of it on one time axis, for Perfetto
  throughline job export last -o t.csv    what its ranks did, for pandas

A JOB is named by its key (slurm:demo:4711.0), by its scheduler's own id (4711, or demo:4711 of one
cluster), by the unique beginning of either, by `last` for the newest job or `last-1` for the one before.

Exit status: 0 done, 64 wrong usage, 69 no server or nothing of what is
needed there, 77 no permission, 1 no such job or any
other failure.";

/// Options of `job`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which server.
    #[command(flatten)]
    pub connection: Connection,
    /// What to show.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// List jobs, the newest first
    List(list::Options),
    /// Show one job on a page: what slows it down, ranks, operations, regions, links, and what is worth knowing
    Show(show::Options),
    /// Fetch the last hour in full resolution from the nodes' recorders into the database
    Fetch(fetch::Options),
    /// Print some lines on a job that has ended, for a file beside its output
    Report(report::Options),
    /// Show what of its time in MPI was waiting for other ranks, and for whom
    Waits(waits::Options),
    /// Show jobs that run, by what they do with MPI now, live
    Top(top::Options),
    /// Draw who sent how much to whom
    Matrix(matrix::Options),
    /// Compare two jobs: ratio of time per operation and size class
    Diff(diff::Options),
    /// Write a job on one time axis as a file for Perfetto and Chrome
    Trace(trace::Options),
    /// Write what ranks did as a table for pandas, or as a tree for Hatchet
    Export(export::Options),
}

/// Runs the subcommand.
///
/// # Errors
/// See [`throughline_client::Error`]; no such job.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.connection.server()?;
    match &arguments.command {
        Command::List(options) => list::run(&server, options),
        Command::Show(options) => show::run(&server, options),
        Command::Fetch(options) => fetch::run(&server, options),
        Command::Report(options) => report::run(&server, options),
        Command::Waits(options) => waits::run(&server, options),
        Command::Top(options) => top::run(&server, options),
        Command::Matrix(options) => matrix::run(&server, options),
        Command::Diff(options) => diff::run(&server, options),
        Command::Trace(options) => trace::run(&server, options),
        Command::Export(options) => export::run(&server, options),
    }
}
