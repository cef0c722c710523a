//! `[database]`: a private cluster, or an operated server, perhaps with a pooler before it and a replica beside it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use throughline_daemon::{Failure, SelfMetrics, hide_secrets};
use throughline_query::ReadPath;
use throughline_store::{Database, Error, QUERY_ROLE, READ_ROLE};

/// How far a replica may be behind that readers use: what people see as the present is a few seconds old anyway.
const READ_LAG_SECONDS_MAX: u64 = 30;

/// The most of it: an hour.
const READ_LAG_SECONDS_CEILING: u64 = 3600;

/// `[database]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// An operated server, or a pooler before it; absent for the private cluster in the state folder.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_password")]
    pub url: Option<String>,
    /// The server itself, where `url` is a pooler that gives each transaction to another session.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_password")]
    pub direct_url: Option<String>,
    /// A standby of the server for queries, directly or through a pooler.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_password")]
    pub read_url: Option<String>,
    /// With a larger lag of the standby queries go to the server.
    pub read_lag_seconds_max: u64,
    /// Folder of PostgreSQL's programs for the private cluster; absent to look for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pg_bin: Option<PathBuf>,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        let (url, direct_url, read_url, pg_bin) = (None, None, None, None);
        Self { url, direct_url, read_url, read_lag_seconds_max: READ_LAG_SECONDS_MAX, pg_bin }
    }
}

/// As it may be shown.
fn without_password<S: serde::Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(hide_secrets).serialize(serializer)
}

/// The ways to a database, each for its purpose; cheap to clone.
#[derive(Clone, Debug)]
pub struct Databases {
    /// Batches, and readers without a replica: each transaction for itself.
    pub main: Database,
    /// Migrations, upkeep and export: sessions.
    pub direct: Database,
    /// Readers.
    pub read: ReadPath,
}

impl From<Database> for Databases {
    fn from(database: Database) -> Self {
        Self { main: database.clone(), direct: database.clone(), read: database.into() }
    }
}

impl DatabaseConfig {
    /// The operated database; `None` for the private one. `metrics` are those of the replica.
    ///
    /// # Errors
    /// A URL is wrong, and which key has it (64).
    pub fn operated(&self, metrics: &SelfMetrics) -> Result<Option<Databases>, Failure> {
        let Some(url) = &self.url else { return Ok(None) };
        let (main, direct) = match &self.direct_url {
            Some(direct) => (
                Database::behind_pooler(url).map_err(wrong("url"))?,
                Database::from_url(direct).map_err(wrong("direct_url"))?,
            ),
            None => {
                let database = Database::from_url(url).map_err(wrong("url"))?;
                (database.clone(), database)
            }
        };
        let read = match &self.read_url {
            Some(read) => {
                let replica = Database::behind_pooler(read).map_err(wrong("read_url"))?;
                let lag_max = Duration::from_secs(self.read_lag_seconds_max);
                ReadPath::with_replica(main.clone(), replica, lag_max, metrics.clone())
            }
            None => main.clone().into(),
        };
        Ok(Some(Databases { main, direct, read }))
    }

    /// The URL for a session: the server itself.
    pub fn session_url(&self) -> Option<&str> {
        self.direct_url.as_deref().or(self.url.as_deref())
    }

    /// Refuses what cannot work, naming the key.
    ///
    /// # Errors
    /// See there (64).
    pub fn check(&self) -> Result<(), Failure> {
        for (key, url) in [("direct_url", &self.direct_url), ("read_url", &self.read_url)] {
            if url.is_some() && self.url.is_none() {
                return Err(Failure::usage(format!(
                    "database.{key} is set and database.url is not: it belongs to an operated server, which \
                     database.url names"
                )));
            }
        }
        let lag = self.read_lag_seconds_max;
        if !(1..=READ_LAG_SECONDS_CEILING).contains(&lag) {
            return Err(Failure::usage(format!(
                "database.read_lag_seconds_max = {lag}: must be from 1 to {READ_LAG_SECONDS_CEILING} seconds"
            )));
        }
        self.operated(&SelfMetrics::default())?;
        for (key, url) in [("url", &self.url), ("direct_url", &self.direct_url), ("read_url", &self.read_url)]
        {
            let Some(url) = url else { continue };
            // A login that people have can be altered, used up and ended by each of them.
            if Database::from_url(url).is_ok_and(|database| database.user() == READ_ROLE) {
                return Err(Failure::usage(format!(
                    "database.{key}: {READ_ROLE} is the login of people and dashboards, who could keep this server from \
                     reading: readers of the server log in as {QUERY_ROLE}"
                )));
            }
        }
        Ok(())
    }

    /// Reads the files that the URLs name.
    ///
    /// # Errors
    /// A file can't be used; the message names the key.
    pub fn check_files(&self) -> Result<(), Failure> {
        for (key, url) in [("url", &self.url), ("direct_url", &self.direct_url), ("read_url", &self.read_url)]
        {
            if let Some(url) = url {
                let checked = Database::from_url(url).and_then(|database| database.check_files());
                checked.map_err(|error| Failure::new(error.status(), format!("database.{key}: {error}")))?;
            }
        }
        Ok(())
    }
}

fn wrong(key: &'static str) -> impl Fn(Error) -> Failure {
    move |error| Failure::usage(format!("database.{key}: {error}"))
}
