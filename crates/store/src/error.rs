//! What can go wrong between Throughline and its database, each with cause and remedy.

use std::path::{Path, PathBuf};

use throughline_daemon::{ExitStatus, Failure};

/// Why an operation on the database or its cluster failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No PostgreSQL with TimescaleDB on this machine.
    #[error(
        "no PostgreSQL with TimescaleDB found ({searched}); run `throughline db install`, name one with \
         --pg-bin or THROUGHLINE_PG_BIN, or use an operated server with --database-url"
    )]
    NoPostgres {
        /// Where it was looked for and what was missing there.
        searched: String,
    },
    /// The cluster's files are of a major version that none of the installations has.
    #[error(
        "the database in {folder} was made by PostgreSQL {found}, and here is only {available}; install \
         PostgreSQL {found} with TimescaleDB, or move the folder away to begin an empty one"
    )]
    WrongMajor {
        /// The data folder.
        folder: PathBuf,
        /// Its version.
        found: String,
        /// The versions at hand.
        available: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {path}: {cause}; {remedy}", path = path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The place of the cluster cannot be used.
    #[error("{0}")]
    Place(String),
    /// A program of PostgreSQL failed.
    #[error("{program} failed: {output}; {remedy}")]
    Program {
        /// The program.
        program: String,
        /// The end of its output.
        output: String,
        /// What to do.
        remedy: String,
    },
    /// The connection string is not valid.
    #[error(
        "the database URL is not valid: {0}; expected postgresql://USER@HOST:PORT/DATABASE or KEY=VALUE pairs"
    )]
    Url(tokio_postgres::Error),
    /// The connection string, or a file that it names, can't be used for TLS.
    #[error("the database URL: {0}")]
    UrlTls(String),
    /// No connection, or it was lost: the same may succeed later.
    #[error("{what}: {cause}; {remedy}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// The reason.
        cause: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The disk of the database is full: the same succeeds once there is space.
    #[error("{what}: the database's disk is full{place}: {cause}; {FULL_REMEDY}")]
    Full {
        /// What was tried.
        what: String,
        /// Where and how much is free, with a space before; empty for a server on another machine.
        place: String,
        /// The server's message, or the system's.
        cause: String,
    },
    /// The caller may not use the database or its files.
    #[error(
        "{what}: {cause}; run as root or as the user that the database belongs to, or let its administrator \
         give you a role"
    )]
    Permission {
        /// What was tried.
        what: String,
        /// The reason.
        cause: String,
    },
    /// The database refused a statement.
    #[error("{what}: {cause}")]
    Refused {
        /// What was tried.
        what: String,
        /// The server's message with its SQLSTATE.
        cause: String,
        /// The SQLSTATE.
        state: String,
    },
    /// The database was migrated by a newer build, or by a changed file.
    #[error("{0}")]
    Schema(String),
    /// TimescaleDB is not as it has to be.
    #[error("{0}")]
    Edition(String),
    /// A backup is incomplete, damaged, or not for here.
    #[error("{0}")]
    Backup(String),
}

/// SQLSTATE of a login to a database that the server does not have.
const NO_DATABASE: &str = "3D000";

/// What to do then. Its administrator may do so while others wait.
const NO_DATABASE_REMEDY: &str = "create it with CREATE DATABASE, or name another with --database-url";

/// What to do when there is no connection.
const CONNECT_REMEDY: &str =
    "is it running? see `throughline db status`, or check --database-url and the server's log";

/// SQLSTATE of a full disk; the writing of the log reports it as an I/O error with the system's text.
const DISK_FULL: &str = "53100";

/// The system's text for ENOSPC, in the language that the server is started with.
pub(crate) const NO_SPACE: &str = "No space left on device";

/// SQLSTATE of a prepared statement that is not there: another session has it.
const NO_STATEMENT: &str = "26000";

/// What to do then.
const NO_STATEMENT_REMEDY: &str = "a pooler between gives sessions away and does not know prepared statements: PgBouncer from 1.21 on does, with \
                                   max_prepared_statements above 0";

/// What to do when TLS can't be begun.
const TLS_REMEDY: &str = "see sslmode and sslrootcert of the database URL, and ssl of the server";

/// What to do when the disk is full.
const FULL_REMEDY: &str = "free some of it, give it another one, or shorten [retention] in server.toml; what agents and \
                           crawlers send waits in their spools meanwhile";

impl Error {
    /// The exit status that a program ends with for this error.
    pub fn status(&self) -> ExitStatus {
        match self {
            Error::Io { cause, .. } if cause.kind() == std::io::ErrorKind::PermissionDenied => {
                ExitStatus::Permission
            }
            Error::Permission { .. } => ExitStatus::Permission,
            Error::Place(_) | Error::Url(_) | Error::UrlTls(_) => ExitStatus::Usage,
            Error::Refused { .. } | Error::Schema(_) | Error::Backup(_) => ExitStatus::Failed,
            _ => ExitStatus::Unavailable,
        }
    }

    /// Whether the same operation may succeed later without anybody changing anything here.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unavailable { .. } | Error::Full { .. } => true,
            Error::Io { cause, .. } => cause.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    /// For `map_err` of file operations.
    pub(crate) fn io<'a>(
        what: &'static str,
        path: &'a Path,
        remedy: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Error + 'a {
        move |cause| Error::Io { what, path: path.to_owned(), cause, remedy }
    }

    /// For `map_err` of database calls: separates a server that refused from one that was not reachable.
    pub fn sql(what: &str) -> impl FnOnce(tokio_postgres::Error) -> Error + '_ {
        move |error| Error::from_postgres(what, &error)
    }

    pub(crate) fn from_postgres(what: &str, error: &tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            // Wrong user, wrong password, or no such role.
            Some(refusal) if refusal.code().code().starts_with("28") => {
                Error::Permission { what: what.to_owned(), cause: describe(refusal) }
            }
            Some(refusal) if refusal.code().code() == DISK_FULL || refusal.message().contains(NO_SPACE) => {
                Error::Full { what: what.to_owned(), place: String::new(), cause: describe(refusal) }
            }
            Some(refusal) if refusal.code().code() == NO_DATABASE => Error::Unavailable {
                what: what.to_owned(),
                cause: describe(refusal),
                remedy: NO_DATABASE_REMEDY,
            },
            Some(refusal) if refusal.code().code() == NO_STATEMENT => Error::Unavailable {
                what: what.to_owned(),
                cause: describe(refusal),
                remedy: NO_STATEMENT_REMEDY,
            },
            Some(refusal) if is_about_the_statement(refusal.code().code()) => Error::Refused {
                what: what.to_owned(),
                cause: describe(refusal),
                state: refusal.code().code().to_owned(),
            },
            Some(refusal) => {
                Error::Unavailable { what: what.to_owned(), cause: describe(refusal), remedy: CONNECT_REMEDY }
            }
            None if is_permission_denied(error) => {
                Error::Permission { what: what.to_owned(), cause: chain(error) }
            }
            None if is_about_tls(error) => {
                Error::Unavailable { what: what.to_owned(), cause: chain(error), remedy: TLS_REMEDY }
            }
            None => Error::Unavailable { what: what.to_owned(), cause: chain(error), remedy: CONNECT_REMEDY },
        }
    }

    /// What a writer's caller should see: no entry is at fault when the login or the schema is, and the same
    /// entries succeed once somebody has put that right.
    pub(crate) fn not_the_entries_fault(self) -> Error {
        // Classes: no such schema, no such table or column or no right to it.
        const ENVIRONMENT: [&str; 2] = ["3F", "42"];
        match self {
            Error::Permission { what, cause } => Error::Unavailable { what, cause, remedy: CONNECT_REMEDY },
            Error::Refused { what, cause, state }
                if ENVIRONMENT.iter().any(|class| state.starts_with(class)) =>
            {
                Error::Unavailable { what, cause, remedy: "the database must have this build's schema" }
            }
            other => other,
        }
    }

    /// A time limit passed: the connection is of no use any more.
    pub fn late(what: &str, seconds: u64) -> Error {
        Error::Unavailable {
            what: what.to_owned(),
            cause: format!("no answer within {seconds} s"),
            remedy: CONNECT_REMEDY,
        }
    }

    /// The server's SQLSTATE, empty when the error did not come from a server's refusal.
    pub(crate) fn state(&self) -> &str {
        match self {
            Error::Refused { state, .. } => state,
            _ => "",
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(error.status(), error.to_string())
    }
}

/// The handshake failed, or the server has no TLS.
fn is_about_tls(error: &tokio_postgres::Error) -> bool {
    // The driver's kinds are not public; its words are.
    error.to_string().contains("TLS")
}

/// The socket's folder is closed to this user.
fn is_permission_denied(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

/// SQLSTATE classes of errors that pass (connection, resources, shutdown, lost races, a read-only standby).
fn is_about_the_statement(state: &str) -> bool {
    const NOT_NOW: [&str; 7] = ["08", "25", "40", "53", "55", "57", "58"];
    !NOT_NOW.iter().any(|class| state.starts_with(class))
}

/// The server's message.
fn describe(refusal: &tokio_postgres::error::DbError) -> String {
    let mut text = format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code());
    if let Some(detail) = refusal.detail() {
        text.push_str(": ");
        text.push_str(detail);
    }
    text
}

/// An error with its causes: the driver's own message is only "error connecting to server".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_its_place_and_the_way_out() {
        let place = " (3 MB free in /var/lib/throughline/db)".to_owned();
        let error = Error::Full { what: "writing".to_owned(), place, cause: NO_SPACE.to_owned() };
        let text = error.to_string();
        assert!(error.is_temporary() && text.contains("3 MB free in /var/lib"), "{text}");
        assert!(text.contains("[retention]") && !text.contains("is it running"), "{text}");
        let file = Error::io("write", Path::new("/db/pg_hba.conf"), "free some");
        assert!(file(std::io::ErrorKind::StorageFull.into()).is_temporary());
    }
}
