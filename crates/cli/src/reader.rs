//! Reading the database as `status` and `job` do: which one, and with the role that can change nothing.
//!
//! Starts no database and makes no file: without a server the message says how one is started.

use crate::Site;
use crate::serve::config::ServerConfig;
use throughline_daemon::{ExitStatus, Failure, paths};
use throughline_store::{Database, Error, PrivateCluster};
use tokio_postgres::Client;

/// What to do when a table or a function is missing.
pub const SCHEMA: &str = "reading the database; has `throughline serve` of this version run on it?";

/// The option of every subcommand that reads.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Reader {
    /// Database to read [default: the private one of the state folder]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
}

impl Reader {
    /// The database that is named, that `serve` is configured to use, or the private one.
    ///
    /// # Errors
    /// The URL is none, or the configuration is wrong.
    pub fn database(&self, site: &Site) -> Result<Database, Failure> {
        let url = match (&self.database_url, &site.state_dir) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(_)) => None,
            (None, None) => configured_url(site)?,
        };
        match url {
            Some(url) => Ok(Database::from_url(&url)?),
            None => Ok(PrivateCluster::database_in(&paths::state_dir(site.state_dir.as_deref())?)),
        }
    }

    /// A connection as reader.
    ///
    /// # Errors
    /// 69 when there is no database to read.
    pub async fn connect(&self, site: &Site) -> Result<Client, Failure> {
        connect(&self.database(site)?).await
    }
}

/// The operated server of `server.toml`. An ordinary user may not read that file, which holds a password.
fn configured_url(site: &Site) -> Result<Option<String>, Failure> {
    match throughline_daemon::config::load::<ServerConfig>("server", site.config.as_deref()) {
        Ok(config) => Ok(config.database.url),
        Err(failure) if failure.status == ExitStatus::Permission && site.config.is_none() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Connects as reader. Without a server the message says how one is started.
///
/// # Errors
/// 69 when there is none.
pub async fn connect(database: &Database) -> Result<Client, Failure> {
    database.connect_reader().await.map_err(|error| match error {
        Error::Unavailable { cause, .. } => Failure::unavailable(format!(
            "no database to read at {}: {cause}; start it with `throughline serve` (or `throughline db start`), \
             or name another with --state-dir or --database-url",
            database.place()
        )),
        other => other.into(),
    })
}
