//! Hours whose readings are packed only: their rows are dropped, a whole chunk at a time, once every block of the hour is made.
//!
//! `packed_state` says which hours those are. It and the chunk change in one transaction, so that each statement finds a reading
//! either as a row or in a block. What comes late for such an hour is a row again, which readers add to what is packed, until
//! upkeep packs both together.

use std::time::SystemTime;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

use super::BLOCK;
use crate::backup_lock::may_change_chunks;
use crate::error::Error;
use crate::link_shares::read_until;
use crate::retention::Retention;
use crate::rollup_kind::Kind;

const WHAT: &str = "dropping rows of packed hours";

/// How long the lock of a chunk is waited for. Less than PostgreSQL's `deadlock_timeout`: a writer of late readings that waits for
/// this transaction goes on.
const LOCK_LIMIT: &str = "300ms";

/// The hours of a kind that are packed only: from, until. `None` while there are none.
pub(crate) async fn packed_range(
    client: &impl GenericClient,
    kind: Kind,
) -> Result<Option<(SystemTime, SystemTime)>, Error> {
    // The type of times has no beginning.
    let query = "SELECT greatest(packed_from, 'epoch'), packed_until FROM internal.packed_state \
                 WHERE readings = $1 AND isfinite(packed_until) AND packed_from < packed_until";
    let row = client.query_opt(query, &[&kind.readings()]).await.map_err(Error::sql(WHAT))?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// Drops the rows of hours that are older than `retention` has readings as rows and whose blocks are all made. Returns how
/// many hours. Connect as the writer; one caller at a time, the one that makes blocks.
///
/// # Errors
/// The database is away or refuses; what was dropped so far stays so.
pub async fn move_hours(client: &mut Client, retention: &Retention) -> Result<u64, Error> {
    let mut moved = 0;
    for kind in Kind::ALL {
        let Some(rows) = retention.rows(kind) else { continue };
        while move_next(client, kind, rows.as_secs_f64()).await? {
            moved += 1;
        }
        drop_emptied(client, kind).await?;
    }
    Ok(moved)
}

/// Drops the next hour of a kind. Returns whether there was one.
async fn move_next(client: &mut Client, kind: Kind, rows_seconds: f64) -> Result<bool, Error> {
    let length = format!("INTERVAL '{} seconds'", BLOCK.as_secs());
    // The oldest chunk of rows that is not older than what is packed; shares of links read rows.
    let next = format!(
        "SELECT c.range_start, format('%I.%I', c.chunk_schema, c.chunk_name)
         FROM timescaledb_information.chunks c, internal.packed_state p, internal.minute_state m, internal.link_share_state s
         WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = $1 AND p.readings = $1
           AND c.range_start >= greatest(p.packed_from, p.packed_until) AND c.range_end - c.range_start = {length}
           AND c.range_end <= (SELECT internal.expiry_time()) - make_interval(secs => $2)
           AND (c.range_end <= least(m.blocks_until, {read_until})) IS NOT FALSE
         ORDER BY c.range_start LIMIT 1",
        read_until = read_until(),
    );
    let row = client.query_opt(&next, &[&kind.readings(), &rows_seconds]).await.map_err(Error::sql(WHAT))?;
    let Some(row) = row else { return Ok(false) };
    let (begin, chunk): (SystemTime, &str) = (row.get(0), row.get(1));
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    // All writers of this chunk have committed, with a note.
    if !lock(&transaction, chunk).await? {
        return Ok(false);
    }
    let end = begin + BLOCK;
    let is_open = format!(
        "SELECT EXISTS (SELECT FROM internal.block_wanted WHERE kind = $1 AND time < $4)
             OR EXISTS (SELECT FROM internal.minute_late WHERE kind = $2 AND since < $4)
             OR EXISTS (SELECT FROM internal.{keys} k WHERE EXISTS (SELECT FROM {chunk} r WHERE r.{id} = k.id)
                 AND NOT EXISTS (SELECT FROM internal.{blocks} b WHERE b.{id} = k.id AND b.time = $3))",
        keys = kind.keys(),
        blocks = kind.blocks(),
        id = kind.id(),
    );
    let row = transaction
        .query_one(&is_open, &[&kind.blocks(), &kind.table(), &begin, &end])
        .await
        .map_err(Error::sql(WHAT))?;
    if row.get(0) {
        return Ok(false);
    }
    let advance = "UPDATE internal.packed_state SET packed_until = $2 WHERE readings = $1";
    transaction.execute(advance, &[&kind.readings(), &end]).await.map_err(Error::sql(WHAT))?;
    drop_chunk(&transaction, kind, begin, end).await?;
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    Ok(true)
}

/// Drops chunks of packed hours in which nothing is left: readings that came late made them, and are packed by now.
async fn drop_emptied(client: &mut Client, kind: Kind) -> Result<(), Error> {
    let find = "SELECT c.range_start, c.range_end, format('%I.%I', c.chunk_schema, c.chunk_name)
                FROM timescaledb_information.chunks c JOIN internal.packed_state p ON p.readings = c.hypertable_name
                WHERE c.hypertable_schema = 'internal' AND p.readings = $1 AND c.range_start >= p.packed_from AND c.range_end <= p.packed_until";
    for row in client.query(find, &[&kind.readings()]).await.map_err(Error::sql(WHAT))? {
        let (begin, end, chunk): (SystemTime, SystemTime, &str) = (row.get(0), row.get(1), row.get(2));
        if has_rows(client, chunk).await? {
            continue;
        }
        let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
        if lock(&transaction, chunk).await? && !has_rows(&transaction, chunk).await? {
            drop_chunk(&transaction, kind, begin, end).await?;
            transaction.commit().await.map_err(Error::sql(WHAT))?;
        }
    }
    Ok(())
}

async fn has_rows(client: &impl GenericClient, chunk: &str) -> Result<bool, Error> {
    let query = format!("SELECT EXISTS (SELECT FROM {chunk})");
    match client.query_one(&query, &[]).await {
        // Retention was first.
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(true),
        found => Ok(found.map_err(Error::sql(WHAT))?.get(0)),
    }
}

/// Locks a chunk against everybody; whether nobody was in the way, and no backup is in progress.
async fn lock(transaction: &Transaction<'_>, chunk: &str) -> Result<bool, Error> {
    if !may_change_chunks(transaction).await? {
        return Ok(false);
    }
    let lock =
        format!("SET LOCAL lock_timeout = '{LOCK_LIMIT}'; LOCK TABLE {chunk} IN ACCESS EXCLUSIVE MODE");
    match transaction.batch_execute(&lock).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
        other => other.map(|()| true).map_err(Error::sql(WHAT)),
    }
}

async fn drop_chunk(
    transaction: &Transaction<'_>,
    kind: Kind,
    begin: SystemTime,
    end: SystemTime,
) -> Result<(), Error> {
    let drop = "SELECT public.drop_chunks(('internal.' || $1::text)::regclass, older_than => $3::timestamptz, newer_than => $2::timestamptz)";
    transaction
        .query(drop, &[&kind.readings(), &begin, &end])
        .await
        .map(std::mem::drop)
        .map_err(Error::sql(WHAT))
}
