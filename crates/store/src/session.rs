//! What of a database needs a session of its own, and what a session shows about the server: advisory locks that live as long as
//! a connection, and whether a server is a primary or a standby.

use tokio_postgres::Client;

use crate::database::Database;
use crate::error::Error;

/// What the server does so that the session of a machine that is gone ends, and with it its locks: the kernel's default would
/// hold them for two hours. 10 s of silence and three probes of 5 s; a long statement looks for its client each 10 s.
const KEEP_ALIVE: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; \
                          SET tcp_keepalives_count = 3; SET client_connection_check_interval = '10s'";

/// What a server is in a group of them, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationRole {
    /// It takes writes.
    Primary {
        /// The end of its write-ahead log, bytes since the cluster's beginning.
        position: u64,
    },
    /// It replays the log of another.
    Standby {
        /// What it has replayed, in bytes of the same count.
        position: u64,
    },
}

/// Whether a server is a primary or a standby, and its position. For a connection that may be pooled.
///
/// # Errors
/// The database is away.
pub async fn replication_role(client: &Client) -> Result<ReplicationRole, Error> {
    let what = "reading the position of a server's log";
    // Either function fails on the other kind of server, and both of CASE's ends are not evaluated.
    let query = "SELECT pg_is_in_recovery()::int::text, \
                 (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END \
                  - '0/0'::pg_lsn)::text";
    // A simple query: it needs no prepared statement.
    let messages = client.simple_query(query).await.map_err(Error::sql(what))?;
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let field = |at| row.and_then(|row| row.get(at));
    let position = field(1).and_then(|text| text.parse().ok()).unwrap_or_default();
    Ok(if field(0) == Some("1") {
        ReplicationRole::Standby { position }
    } else {
        ReplicationRole::Primary { position }
    })
}

/// Prepares a session that will hold a lock, so that the lock ends soon after its holder, however that ends.
///
/// # Errors
/// The database is away or refuses.
pub(crate) async fn keep_alive(client: &Client) -> Result<(), Error> {
    client
        .batch_execute(KEEP_ALIVE)
        .await
        .map_err(Error::sql("setting how soon a lost connection is noticed"))
}

/// Refuses a database whose connections are no sessions: locks taken there would be anybody's.
///
/// # Errors
/// The database is away, or a pooler gave the session of one connection to another.
pub async fn check_session(database: &Database) -> Result<(), Error> {
    let what = "looking for a pooler before the database";
    let pid = async |client: &Client| -> Result<String, Error> {
        let messages = client.simple_query("SELECT pg_backend_pid()").await.map_err(Error::sql(what))?;
        let first = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Ok(first.unwrap_or_default())
    };
    let (one, other) = (database.connect().await?, database.connect().await?);
    let mine = pid(&one).await?;
    // The pooler's idle session, which was just used for the first connection, serves the second one next.
    other.batch_execute("BEGIN").await.map_err(Error::sql(what))?;
    let (theirs, again) = (pid(&other).await?, pid(&one).await?);
    other.batch_execute("ROLLBACK").await.map_err(Error::sql(what))?;
    if mine == theirs || mine != again {
        return Err(Error::Place(format!(
            "the database {} is behind a pooler that gives each transaction to another session (PgBouncer, pool_mode = \
             transaction), and upkeep, export and migrations need sessions: set database.direct_url in server.toml to the \
             server itself or to a pool with pool_mode = session, and leave the pooler in database.url",
            database.place()
        )));
    }
    Ok(())
}
