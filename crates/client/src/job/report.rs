//! `job report`: some lines on a job that has ended: what is to be said of it, and where its time went.

use super::live;
use super::name::find;
use crate::pause::until_stopped;
use crate::{Answer, Server};
use anyhow::Context;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_api::verdicts::JobReport;
use throughline_daemon::{ExitStatus, Failure};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job report last                         the newest job; of one that runs as of now
  throughline job report 4711 --wait 120              wait until it has ended and all is known
  throughline job report $SLURM_JOB_ID --wait 120 -o slurm-$SLURM_JOB_ID.throughline
                                                      in an epilog: a file beside the job's output

The report of a job that has ended is written within a minute or two and stays as it is.";

/// Time between two requests while the report is waited for.
const PAUSE: Duration = Duration::from_secs(2);

/// Options of `job report`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Wait at most SECONDS until the job has ended and its report is final; exit status 1 if it is not then
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
    /// Write it to a file in place of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the answer of the API
    #[arg(long)]
    json: bool,
}

/// Prints the report.
///
/// # Errors
/// No such job, or it is not final in time (1); the file can't be written; see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    let until = Instant::now() + Duration::from_secs(options.wait);
    // Who waits for the end reads no figures of now.
    if options.wait == 0 {
        live::look(server, &key);
    }
    let report = loop {
        let report: Answer<JobReport> =
            server.answer(&["jobs", &key, "report"], &[]).map_err(Failure::from)?;
        if report.value.is_final || Instant::now() >= until || until_stopped(PAUSE)? {
            break report;
        }
    };
    let text = if options.json { report.body + "\n" } else { report.value.report };
    match &options.output {
        Some(path) => std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?,
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    if options.wait > 0 && !report.value.is_final {
        let why = format!(
            "the report of {key} was not final after {} s: the job runs, or ended just now",
            options.wait
        );
        return Err(Failure::new(ExitStatus::Failed, why).into());
    }
    Ok(ExitCode::SUCCESS)
}
