//! The lock by which a backup and those who drop or rewrite chunks keep out of each other's way. Its other half is SQL:
//! `internal.try_lock_chunks`, which the database's job takes, too.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

use crate::error::Error;
use crate::session::keep_alive;

/// Key of the advisory lock: "tlbackup" in ASCII. The functions of SQL have it, too.
const LOCK_KEY: i64 = 0x746c_6261_636b_7570;

/// How long those who work on a chunk are waited for: thinning of a large one takes its minutes.
const WAIT: Duration = Duration::from_secs(15 * 60);

/// How long at a time: meanwhile nobody else begins to work on a chunk.
const TRY: &str = "10s";

/// Takes the lock for this session, which has it until it ends.
///
/// # Errors
/// Another backup of this database is in progress, or somebody works on a chunk for longer than is waited for.
pub(crate) async fn lock(client: &Client) -> Result<(), Error> {
    const WHAT: &str = "keeping upkeep from chunks";
    keep_alive(client).await?;
    let until = Instant::now() + WAIT;
    loop {
        let take = format!(
            "SET lock_timeout = '{TRY}'; SELECT pg_catalog.pg_advisory_lock({LOCK_KEY}); SET lock_timeout = 0"
        );
        match client.batch_execute(&take).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
            Err(error) => return Err(Error::sql(WHAT)(error)),
        }
        if is_backup_running(client).await? {
            return Err(Error::Backup(
                "another backup of this database is in progress; wait until it has ended, or stop it"
                    .to_owned(),
            ));
        }
        if Instant::now() > until {
            return Err(Error::late(WHAT, WAIT.as_secs()));
        }
    }
}

/// Whether a backup reads the database now.
///
/// # Errors
/// The database is away, or has not our schema.
pub async fn is_backup_running(client: &impl GenericClient) -> Result<bool, Error> {
    let row = client.query_one("SELECT internal.is_backup_running()", &[]).await;
    Ok(row.map_err(Error::sql("looking for a backup in progress"))?.get(0))
}

/// Whether chunks may be dropped in this transaction: no backup is in progress, and none begins before it ends.
pub(crate) async fn may_change_chunks(transaction: &Transaction<'_>) -> Result<bool, Error> {
    let row = transaction.query_one("SELECT internal.try_lock_chunks()", &[]).await;
    Ok(row.map_err(Error::sql("taking the lock of chunks"))?.get(0))
}

/// As [`may_change_chunks`] for one, which nobody else rewrites then.
pub(crate) async fn may_change_chunk(transaction: &Transaction<'_>, chunk: &str) -> Result<bool, Error> {
    let row = transaction.query_one("SELECT internal.try_lock_chunk($1::text::regclass)", &[&chunk]).await;
    Ok(row.map_err(Error::sql("taking the lock of a chunk"))?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_and_this_program_have_one_key() {
        let taken = include_str!("../schema/functions/try_lock_chunks.sql");
        assert!(taken.contains(&format!("({LOCK_KEY})")), "{LOCK_KEY}");
        let shown = include_str!("../schema/functions/is_backup_running.sql");
        let (high, low) = (LOCK_KEY >> 32, LOCK_KEY & 0xffff_ffff);
        assert!(shown.contains(&format!("classid = {high}")) && shown.contains(&format!("objid = {low}")));
    }
}
