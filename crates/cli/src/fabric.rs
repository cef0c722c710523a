//! `throughline fabric list|rename`: the fabrics that crawlers see, and another name for one.
//!
//! A name is in one row of the database: pages, series, alerts and leases have the new one from then on, also of the past.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use throughline_daemon::{Failure, paths};
use throughline_store::{Database, FabricState, fabric_states, rename_fabric};

use crate::Site;
use crate::serve::config::ServerConfig;

/// Shown below the options.
const HELP: &str = "\
A fabric is known by its switches, whatever its subnet prefix and its subnet manager are. It is called as [fabric] name in the
fabric.toml of its first crawler says, else `fabric-` and the last digits of its lowest switch GUID.

Examples:
  throughline fabric list
  throughline fabric rename fabric-4b1c20 compute   the value of the label `instance` changes with it";

/// Options of `fabric`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Use this operated database [default: the private one in the state folder]
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// List the fabrics with their subnet prefixes, managers and crawlers
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Give a fabric another name
    Rename {
        /// Find the fabric of this name
        #[arg(value_name = "OLD")]
        old: String,
        /// Give it this name: letters, digits, `-`, `_` and `.`
        #[arg(value_name = "NEW")]
        new: String,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// 1 for a name that is not there or can't be given, 69 when the database is not there, 77 without permission.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let config: ServerConfig = throughline_daemon::config::load("server", site.config.as_deref())?;
    let url = arguments.database_url.or_else(|| config.database.session_url().map(str::to_owned));
    let operated = url.as_deref().map(Database::from_url).transpose().map_err(Failure::from)?;
    let database = crate::db::open(operated, &paths::state_dir(site.state_dir.as_deref())?)?;
    let client = database.connect().await.map_err(Failure::from)?;
    match arguments.action {
        Action::List { json } => list(&fabric_states(&client).await.map_err(Failure::from)?, json),
        Action::Rename { old, new } => {
            rename_fabric(&client, &old, &new).await.map_err(Failure::from)?;
            writeln!(std::io::stdout(), "the fabric {old} is called {new} from now on")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(all: &[FabricState], json: bool) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    if json {
        let all: Vec<_> = all.iter().map(document).collect();
        writeln!(out, "{}", serde_json::Value::from(all))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        writeln!(out, "No crawler has reported a fabric.")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:<32}{:<20}{:<20}{:<28}CRAWLER", "NAME", "SUBNET PREFIX", "SUBNET MANAGER", "LAST SEEN")?;
    for one in all {
        let manager = one.subnet_manager.map_or_else(|| "not known".to_owned(), |guid| guid.to_string());
        let crawler = match (&one.part_of, &one.crawler) {
            (Some(whole), _) => format!("part of {whole}"),
            (None, Some(crawler)) => crawler.clone(),
            (None, None) => "none sweeps".to_owned(),
        };
        let prefix = one.prefix.as_deref().unwrap_or("not known");
        writeln!(out, "{:<32}{prefix:<20}{manager:<20}{:<28}{crawler}", one.name, time(one))?;
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

// Nanoseconds of this century fit.
#[allow(clippy::cast_possible_truncation)]
fn time(one: &FabricState) -> String {
    throughline_sample::to_rfc3339((one.observed_at * 1e9) as i64)
}

fn document(one: &FabricState) -> serde_json::Value {
    serde_json::json!({
        "name": one.name, "prefix": one.prefix, "subnet_manager": one.subnet_manager, "observed_at": time(one),
        "part_of": one.part_of, "crawler": one.crawler,
    })
}
