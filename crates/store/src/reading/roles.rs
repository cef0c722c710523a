//! The roles that read: that they are there, and that their settings, limits and passwords are ours. A role may always alter
//! itself (`ALTER ROLE ... SET`, `PASSWORD`), and what it sets holds from its next session on.
//!
//! A superuser resets it directly. The owner of an operated database is a member of the roles and does it as the role itself.

use std::collections::BTreeSet;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::login::{Login, READING_ROLES, WHAT, run};
use super::{
    QUERY_CONNECTIONS_MAX, READ_CONNECTIONS_MAX, READ_IDLE_SECONDS_MAX, READ_SECONDS_MAX,
    READ_TEMP_FILES_MB_MAX, ReaderCheck,
};
use crate::database::{QUERY_ROLE, READ_ROLE};
use crate::error::Error;

/// Most settings that a report names; characters of each.
const REPORTED_MAX: usize = 8;
const REPORTED_CHARACTERS_MAX: usize = 60;

/// Settings that each reading role has, as PostgreSQL stores them; whether only a superuser may set it.
///
/// The log is a superuser's so that nobody fills its disk with errors and messages.
fn our_settings() -> [(&'static str, String, bool); 6] {
    [
        ("default_transaction_read_only", "on".to_owned(), false),
        ("statement_timeout", format!("{READ_SECONDS_MAX}s"), false),
        ("idle_in_transaction_session_timeout", format!("{READ_IDLE_SECONDS_MAX}s"), false),
        ("temp_file_limit", format!("{READ_TEMP_FILES_MB_MAX}MB"), true),
        ("log_min_messages", "fatal".to_owned(), true),
        ("log_min_error_statement", "panic".to_owned(), true),
    ]
}

/// Connections at a time of a role.
fn connections_max(role: &str) -> u32 {
    if role == READ_ROLE { READ_CONNECTIONS_MAX } else { QUERY_CONNECTIONS_MAX }
}

/// Makes those that are missing; for the private cluster's superuser, before there is a database.
pub(crate) async fn create_roles(admin: &Client) -> Result<(), Error> {
    let login = Login::read(admin, true).await?;
    create_where_allowed(admin, &login, &mut ReaderCheck::default()).await
}

/// Makes those that are missing where this login may, and becomes a member of them.
pub(super) async fn create_where_allowed(
    client: &Client,
    login: &Login,
    check: &mut ReaderCheck,
) -> Result<(), Error> {
    let query = "SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)";
    let rows = client.query(query, &[&&READING_ROLES[..]]).await.map_err(Error::sql(WHAT))?;
    let present: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let missing: Vec<&'static str> =
        READING_ROLES.into_iter().filter(|role| !present.contains(*role)).collect();
    let may_create = login.is_superuser || login.may_create;
    if !missing.is_empty() && !may_create {
        check.missing = missing;
        return Ok(());
    }
    for role in missing {
        match client.batch_execute(&create(role)).await {
            // Another server made it at this moment.
            Err(error)
                if [SqlState::DUPLICATE_OBJECT, SqlState::UNIQUE_VIOLATION]
                    .iter()
                    .any(|code| error.code() == Some(code)) => {}
            other => other.map_err(Error::sql("making the reading roles"))?,
        }
    }
    if login.is_superuser {
        return Ok(());
    }
    let query =
        "SELECT coalesce(bool_and(pg_has_role(oid, 'USAGE')), false) FROM pg_roles WHERE rolname = ANY($1)";
    let is_member: bool =
        client.query_one(query, &[&&READING_ROLES[..]]).await.map_err(Error::sql(WHAT))?.get(0);
    if !is_member {
        let grant = membership(&login.name);
        match client.batch_execute(&grant).await {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                check.for_administrator.push(grant);
            }
            other => other.map_err(Error::sql("becoming a member of the reading roles"))?,
        }
    }
    Ok(())
}

fn create(role: &str) -> String {
    format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT {}", connections_max(role))
}

/// A member may reset the role's settings and end its sessions.
fn membership(owner: &str) -> String {
    format!("GRANT {} TO {owner}", READING_ROLES.join(", "))
}

/// What the administrator of an operated server runs where the owner of the database may make no roles.
pub fn reader_role_statements(owner: &str) -> [String; 3] {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let owner = match owner.chars().all(is_plain) {
        true => owner.to_owned(),
        false => format!("\"{}\"", owner.replace('"', "\"\"")),
    };
    [create(QUERY_ROLE), create(READ_ROLE), membership(&owner)]
}

/// What is to be done to one role.
#[derive(Default)]
struct Deviation {
    /// Settings that are not ours, for people.
    foreign: Vec<String>,
    /// Databases in which it has settings.
    databases: BTreeSet<String>,
    /// Ours that it does not have.
    absent: Vec<(&'static str, String)>,
}

/// Resets what a role has set for itself, and sets ours.
pub(super) async fn reset_settings(
    client: &Client,
    login: &Login,
    check: &mut ReaderCheck,
) -> Result<(), Error> {
    for role in READING_ROLES.into_iter().filter(|role| !check.missing.contains(role)).collect::<Vec<_>>() {
        let found = deviation(client, login, role).await?;
        if !found.foreign.is_empty() || !found.absent.is_empty() {
            match set_again(client, login, role, &found.databases).await {
                Ok(()) => {
                    // What only the administrator may reset is still there, and no news.
                    let left = deviation(client, login, role).await?.foreign;
                    let gone = found.foreign.iter().filter(|one| !left.contains(one)).cloned();
                    check.reset.extend(shown(&gone.collect::<Vec<_>>(), role));
                }
                Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                    let alter = format!("ALTER ROLE {role}");
                    let everywhere =
                        found.databases.iter().map(|name| format!("{alter} IN DATABASE {name} RESET ALL"));
                    check.for_administrator.extend(everywhere);
                    if !found.foreign.is_empty() {
                        check.for_administrator.push(format!("{alter} RESET ALL"));
                    }
                    let ours =
                        found.absent.iter().map(|(name, value)| format!("{alter} SET {name} = '{value}'"));
                    check.for_administrator.extend(ours);
                }
                // Two servers that look at once: the other one does the same.
                Err(error) if error.code() == Some(&SqlState::INTERNAL_ERROR) => {
                    tracing::debug!(%error, "another server did it");
                }
                Err(error) => return Err(Error::sql("resetting settings of the reading roles")(error)),
            }
        }
        limit_connections(client, login, role, check).await?;
    }
    if login.is_private && login.is_superuser {
        remove_passwords(client, check).await?;
    }
    Ok(())
}

/// How a role's settings differ from ours. To a login that is no superuser, those that only a superuser may set are the
/// administrator's, whatever they are.
async fn deviation(client: &Client, login: &Login, role: &str) -> Result<Deviation, Error> {
    let query = "SELECT quote_ident(b.datname), split_part(entry, '=', 1), substr(entry, strpos(entry, '=') + 1), \
                        $2 OR coalesce(s.context NOT IN ('superuser', 'superuser-backend'), true) \
                 FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole \
                 LEFT JOIN pg_database b ON b.oid = d.setdatabase \
                 CROSS JOIN LATERAL unnest(d.setconfig) entry \
                 LEFT JOIN pg_settings s ON s.name = split_part(entry, '=', 1) \
                 WHERE r.rolname = $1 ORDER BY 1 NULLS FIRST, 2";
    let rows = client.query(query, &[&role, &login.is_superuser]).await.map_err(Error::sql(WHAT))?;
    let mut found = Deviation::default();
    let mut present = BTreeSet::new();
    let ours = our_settings();
    for row in &rows {
        let (database, name, value): (Option<String>, String, String) = (row.get(0), row.get(1), row.get(2));
        let is_ours = database.is_none() && ours.iter().any(|own| own.0 == name && own.1 == value);
        if is_ours {
            present.insert(name);
        } else if row.get::<_, bool>(3) {
            match database {
                Some(database) => {
                    found.foreign.push(format!("{name}={value} in database {database}"));
                    found.databases.insert(database);
                }
                None => found.foreign.push(format!("{name}={value}")),
            }
        } else {
            present.insert(name);
        }
    }
    let absent = ours.into_iter().filter(|own| (login.is_superuser || !own.2) && !present.contains(own.0));
    found.absent = absent.map(|(name, value, _)| (name, value)).collect();
    // A role that was just made has none; later one is absent because the role removed it.
    if !rows.is_empty() && found.foreign.is_empty() {
        found.foreign.extend(found.absent.iter().map(|(name, _)| format!("{name} removed")));
    }
    Ok(found)
}

/// Our settings and no others, in one transaction.
async fn set_again(
    client: &Client,
    login: &Login,
    role: &str,
    databases: &BTreeSet<String>,
) -> Result<(), tokio_postgres::Error> {
    let mut statements = vec!["BEGIN".to_owned()];
    if !login.is_superuser {
        // It may alter itself, and a member may be it.
        statements.push(format!("SET LOCAL ROLE {role}"));
    }
    statements.extend(databases.iter().map(|name| format!("ALTER ROLE {role} IN DATABASE {name} RESET ALL")));
    statements.push(format!("ALTER ROLE {role} RESET ALL"));
    let ours = our_settings().into_iter().filter(|own| login.is_superuser || !own.2);
    statements.extend(ours.map(|(name, value, _)| format!("ALTER ROLE {role} SET {name} = '{value}'")));
    statements.push("COMMIT".to_owned());
    let done = client.batch_execute(&statements.join("; ")).await;
    if done.is_err() {
        // Its own failure is that of the connection, which the next statement finds out.
        _ = client.batch_execute("ROLLBACK").await;
    }
    done
}

/// On the private cluster the limits are ours; on an operated server there has to be one.
async fn limit_connections(
    client: &Client,
    login: &Login,
    role: &str,
    check: &mut ReaderCheck,
) -> Result<(), Error> {
    let query = "SELECT rolconnlimit FROM pg_roles WHERE rolname = $1";
    let Some(row) = client.query_opt(query, &[&role]).await.map_err(Error::sql(WHAT))? else { return Ok(()) };
    let (limit, ours) = (row.get::<_, i32>(0), connections_max(role));
    let is_limited = limit >= 0 && (!login.is_private || u32::try_from(limit) == Ok(ours));
    if !is_limited {
        let statement = format!("ALTER ROLE {role} CONNECTION LIMIT {ours}");
        run(client, &statement, check).await?;
    }
    Ok(())
}

/// The private cluster knows its logins by the peer's user; a password there is one that somebody set for himself.
async fn remove_passwords(client: &Client, check: &mut ReaderCheck) -> Result<(), Error> {
    let query = "SELECT rolname::text FROM pg_authid WHERE rolname = ANY($1) AND rolpassword IS NOT NULL";
    let rows = client.query(query, &[&&READING_ROLES[..]]).await.map_err(Error::sql(WHAT))?;
    for role in rows.iter().map(|row| row.get::<_, String>(0)) {
        run(client, &format!("ALTER ROLE {role} PASSWORD NULL"), check).await?;
        check.reset.push(format!("password of {role}"));
    }
    Ok(())
}

/// Settings for people: what a role set is its own text, so it is cut and without control characters.
fn shown(foreign: &[String], role: &str) -> Vec<String> {
    let one = |text: &String| {
        let plain = text.chars().filter(|character| !character.is_control());
        let cut: String = plain.take(REPORTED_CHARACTERS_MAX).collect();
        format!("{cut} of {role}")
    };
    let mut all: Vec<String> = foreign.iter().take(REPORTED_MAX).map(one).collect();
    if foreign.len() > REPORTED_MAX {
        all.push(format!("{} more of {role}", foreign.len() - REPORTED_MAX));
    }
    all
}
