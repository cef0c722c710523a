//! `throughline-agent recorder`: what this node's recorder has, as a summary or record by record.

use crate::config::{Config, Places};
use crate::detail::RECORDER_FOLDER;
use crate::sample_json::samples;
use clap::Args;
use std::process::ExitCode;
use throughline_detail::{DaemonRecorder, Filter, ListOptions};

/// What is wanted of the recorder.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    list: ListOptions,
    /// List records of this job only
    #[arg(long, value_name = "JOB_KEY", conflicts_with = "device")]
    job: Option<String>,
    /// List records of this GPU (UUID) or adapter (mlx5_0) only
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Prints what there is.
///
/// # Errors
/// There is no recorder here (69), or output fails.
pub fn list(options: &Options, config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    let filter = Filter { job_key: options.job.clone(), device: options.device.clone(), ..Filter::default() };
    let listed = DaemonRecorder {
        daemon: "throughline-agent",
        folder: &places.state_dir.join(RECORDER_FOLDER),
        is_memory_only: config.spool.memory_only,
    };
    options.list.list(listed, filter, samples)
}
