//! What those who only read may still do to the server, and what is taken from them.
//!
//! Two roles read: [`QUERY_ROLE`], by which `serve` answers and which is given to nobody, and [`READ_ROLE`], the login of people
//! and of Grafana, who send SQL of their own. PostgreSQL lets a role alter its own settings and password, fill disks with
//! temporary tables and large objects, hold locks, and lift the limits of its session. So settings are looked at and set again
//! ([`roles`]), rights are taken from everybody ([`rights`]), and statements without end are ended from outside ([`sessions`]).
//!
//! Repeated at each start and in each round of upkeep: rights and roles are no part of the schema, and a role may be made
//! later than that. On an operated server some of it is the administrator's; the log has the statements, and nothing waits for
//! them.

mod grants;
mod login;
mod rights;
mod roles;
mod sessions;

pub use sessions::{EndedRead, ReadBounds, end_long_reads};

use crate::database::{Database, READ_ROLE};
use crate::error::Error;
pub(crate) use grants::grant_reading;
pub(crate) use rights::restrict;
pub(crate) use roles::create_roles;
pub use roles::reader_role_statements;
use tokio_postgres::Client;

/// Longest statement and transaction of a login of people. A session may lift its own timeout; upkeep ends it then.
pub const READ_SECONDS_MAX: u64 = 300;

/// Longest pause within a transaction of such a login: it keeps old rows from being cleaned up, and a lock that it holds keeps
/// everybody waiting for whom upkeep waits.
pub const READ_IDLE_SECONDS_MAX: u64 = 60;

/// Temporary files of one of its sessions, for sorting: only a superuser may set more.
pub const READ_TEMP_FILES_MB_MAX: u64 = 4096;

/// Connections at a time of the login of people: Grafana's data source has ten, people the others.
pub const READ_CONNECTIONS_MAX: u32 = 30;

/// Connections at a time of `serve`'s own login on the private cluster: two for each of `query.parallel_max`, and a few that look
/// after the database. With those of people they leave the writer a fifth of PostgreSQL's 100.
pub const QUERY_CONNECTIONS_MAX: u32 = 50;

/// What a look at the roles and rights of readers found, and what it put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderCheck {
    /// Roles that are not there and that this login may not make.
    pub missing: Vec<&'static str>,
    /// What a role had of its own and has no more: `statement_timeout=0 of throughline_read`.
    pub reset: Vec<String>,
    /// Statements that only the administrator of an operated server may run.
    pub for_administrator: Vec<String>,
}

impl ReaderCheck {
    /// What was put right, for people; `None` where all was as it should be.
    pub fn reset_text(&self) -> Option<String> {
        (!self.reset.is_empty()).then(|| {
            format!(
                "settings of reading roles were not ours and are reset: {}. Somebody with that login altered it: find out who has it, \
                 and give it a new password",
                self.reset.join(", ")
            )
        })
    }

    /// What is missing, for people; `None` where both roles are there. `owner` is the login that looked.
    pub fn missing_text(&self, owner: &str) -> Option<String> {
        (!self.missing.is_empty()).then(|| {
            format!(
                "the database has no role {}, by which it is only read, and {owner} may make none: let the server's administrator \
                 run: {}",
                self.missing.join(" and no role "),
                reader_role_statements(owner).join("; ")
            )
        })
    }

    /// What the administrator would have to do, to the log.
    fn log(&self, owner: &str) {
        if let Some(text) = self.missing_text(owner) {
            tracing::error!("{text}");
        } else if !self.for_administrator.is_empty() {
            tracing::warn!(
                statements = self.for_administrator.join("; "),
                "the administrator of the database server can bound further what those who read may do to it"
            );
        }
    }
}

/// Looks at roles, settings and rights of readers once and puts right what this login may: `admin` is a connection of
/// [`Database::connect_admin`] to the database itself.
///
/// # Errors
/// The database is away. What the login may not do is no error.
pub(crate) async fn check(database: &Database, admin: &Client) -> Result<ReaderCheck, Error> {
    let mut check = ReaderCheck::default();
    let login = login::Login::read(admin, database.is_private()).await?;
    roles::create_where_allowed(admin, &login, &mut check).await?;
    roles::reset_settings(admin, &login, &mut check).await?;
    rights::restrict_server(admin, &login, &mut check).await?;
    if let Some(text) = check.reset_text() {
        tracing::warn!("{text}");
    }
    Ok(check)
}

/// At a start, on an operated server: as [`check`], with what was found in the log and in an event.
pub(crate) async fn check_at_start(database: &Database, owner: &Client) -> Result<(), Error> {
    let found = check(database, owner).await?;
    found.log(database.user());
    note(owner, &found).await
}

/// In a round of upkeep: looks at roles, settings and rights of readers and puts right what this login may. What was reset is in
/// the log and an event. `admin` is a connection of [`Database::connect_admin`].
///
/// # Errors
/// The database is away.
pub async fn check_readers(database: &Database, admin: &Client) -> Result<ReaderCheck, Error> {
    let found = check(database, admin).await?;
    note(admin, &found).await?;
    // A role that the administrator has made since.
    if found.missing.is_empty() && !database.is_private() && grants::lacks_grants(admin).await? {
        grant_reading(admin).await?;
        tracing::info!(role = READ_ROLE, "the reading roles are there now");
    }
    Ok(found)
}

/// An event for what was reset.
pub(crate) async fn note(client: &Client, found: &ReaderCheck) -> Result<(), Error> {
    let Some(text) = found.reset_text() else { return Ok(()) };
    let insert = "INSERT INTO internal.events (time, instance, source, kind, severity, text) \
                  VALUES (now(), $1, 'upkeep', 'reader.reset', 'warning', $2)";
    let instance = nix::sys::utsname::uname().map(|name| name.nodename().to_string_lossy().into_owned());
    let instance = instance.unwrap_or_default();
    let done = client.execute(insert, &[&instance, &text]).await;
    done.map(drop).map_err(Error::sql("reporting settings of the reading roles"))
}
