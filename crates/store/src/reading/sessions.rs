//! Ends statements and transactions of people that last too long, whatever their session has set: a session may lift its own
//! `statement_timeout`, and a block of PL/pgSQL may catch the cancellation of its statement. So the session is ended.

use std::time::Duration;

use tokio_postgres::Client;

use super::{READ_IDLE_SECONDS_MAX, READ_SECONDS_MAX};
use crate::database::{QUERY_ROLE, READ_ROLE};
use crate::error::Error;

/// How long people's sessions may take.
#[derive(Clone, Copy, Debug)]
pub struct ReadBounds {
    /// A statement, and a transaction of several.
    pub busy: Duration,
    /// A pause within a transaction.
    pub idle: Duration,
}

impl Default for ReadBounds {
    fn default() -> Self {
        Self { busy: Duration::from_secs(READ_SECONDS_MAX), idle: Duration::from_secs(READ_IDLE_SECONDS_MAX) }
    }
}

/// A session that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRead {
    /// Its login.
    pub role: String,
    /// Whether it paused within a transaction; else a statement or transaction lasted too long.
    pub is_idle: bool,
    /// How long, in seconds.
    pub seconds: i64,
}

/// The sessions of [`READ_ROLE`], and of logins of a site's own that have its rights, as far as this login may end them. Neither
/// `serve`'s nor the owner's, who is a member to be able to do this, nor those of administrators. A statement that commits on
/// and on (`DO` with `COMMIT`) has young transactions, so both beginnings count.
const LATE: &str = "
    SELECT a.pid, a.usename::text AS role, a.state LIKE 'idle in transaction%' AND p.idle > $3 AS is_idle,
           CASE WHEN a.state LIKE 'idle in transaction%' AND p.idle > $3 THEN p.idle ELSE p.busy END AS seconds
    FROM pg_stat_activity a
    JOIN pg_roles r ON r.oid = a.usesysid
    JOIN pg_roles people ON people.rolname = $1
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM clock_timestamp() - CASE WHEN a.state = 'active' THEN least(a.query_start, a.xact_start)
                                                           ELSE a.xact_start END)::float8 AS busy,
               extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS idle) p
    WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
      AND (pg_has_role(r.oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
      AND pg_has_role(r.oid, people.oid, 'USAGE') AND NOT r.rolsuper AND NOT r.rolcreaterole AND r.rolname <> $2
      AND r.oid <> (SELECT nspowner FROM pg_namespace WHERE nspname = 'internal')
      AND (p.busy > $4 OR (a.state LIKE 'idle in transaction%' AND p.idle > $3))";

/// Ends what lasts too long, in all databases of the server. The owner of an operated database who is no member of the role finds
/// nothing, as it may end nothing.
///
/// # Errors
/// The database is away.
pub async fn end_long_reads(admin: &Client, bounds: ReadBounds) -> Result<Vec<EndedRead>, Error> {
    let query =
        format!("SELECT role, is_idle, seconds::bigint, pg_terminate_backend(pid) FROM ({LATE}) late");
    let rows = admin
        .query(&query, &[&READ_ROLE, &QUERY_ROLE, &bounds.idle.as_secs_f64(), &bounds.busy.as_secs_f64()])
        .await
        .map_err(Error::sql("ending reads without end"))?;
    let ended = rows.iter().filter(|row| row.get(3));
    Ok(ended.map(|row| EndedRead { role: row.get(0), is_idle: row.get(1), seconds: row.get(2) }).collect())
}
