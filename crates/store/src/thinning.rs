//! Chunks that are older than rows are retained at the full rate have fewer rows: upkeep replaces their rows by those that are kept,
//! a whole chunk at a time. Which rows these are is in `kept`, in which steps in `tables`.
//!
//! Everything is cumulative since an epoch, so the last value of a cell in each step is kept, and totals, ends of ranks and
//! matrices stay exact. Readers need not know: they find rows of the same form at longer intervals. On the full edition the
//! chunks become columns a day later (`columnstore`).
//!
//! The chunk is emptied and filled again in one transaction, in which rows are written frozen: a statement whose snapshot is older
//! finds them, too, where it would otherwise find the chunk empty. So each statement finds the rows before or the rows after.

mod kept;
mod merged;

use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use crate::backup_lock::may_change_chunk;
use crate::error::Error;
use crate::link_shares::read_until;
use crate::retention::Retention;
use kept::ThinnedTable;

const WHAT: &str = "thinning old rows";

/// How long a lock of the chunk is waited for at a time. Less than PostgreSQL's `deadlock_timeout`: who holds it and waits for this
/// transaction goes on.
const LOCK_LIMIT: &str = "300ms";

/// How often readers are waited for, with a pause in which those that wait behind this transaction have their turn.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// Rows that are kept are computed here, within the transaction.
const SCRATCH: &str = "thinned_rows";

/// Pages of kept rows that are in memory at a time: 16 MB. At the end of each such part up to 63 pages of the chunk stay empty.
const PAGES: i64 = 2048;

/// A thinned chunk that late rows made larger by an eighth and so many bytes is thinned again.
const GROWTH_MIN_BYTES: i64 = 65_536;

/// What a call of [`thin_chunks`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunksThinned {
    /// Chunks.
    pub chunks: u64,
    /// Their rows before.
    pub rows_before: u64,
    /// Their rows after.
    pub rows_after: u64,
    /// Whether there are more that are old enough.
    pub is_behind: bool,
}

/// Thins chunks that are older than `retention` has rows at the full rate, the oldest first, for about as long as `patience`, while there is
/// a permission (`clock_check`). Connect as the writer; one caller at a time.
///
/// # Errors
/// The database is away or refuses; chunks that were thinned so far stay so.
pub async fn thin_chunks(
    client: &mut Client,
    retention: &Retention,
    patience: Duration,
) -> Result<ChunksThinned, Error> {
    let begun = Instant::now();
    let mut done = ChunksThinned::default();
    let forget = "DELETE FROM internal.thinned_chunk t WHERE NOT EXISTS (SELECT FROM timescaledb_information.chunks c \
                  WHERE format('%I.%I', c.chunk_schema, c.chunk_name) = t.chunk)";
    client.execute(forget, &[]).await.map_err(Error::sql(WHAT))?;
    for kept in kept::all() {
        let Some(rows) = retention.full_rate(kept.table) else { continue };
        for chunk in due(client, &kept, rows).await? {
            if begun.elapsed() > patience {
                done.is_behind = true;
                return Ok(done);
            }
            if let Some((before, after)) = thin(client, &kept, &chunk).await? {
                done.chunks += 1;
                done.rows_before += before;
                done.rows_after += after;
            }
        }
    }
    Ok(done)
}

/// Chunks of a table that are old enough, by name, the oldest first. Those of traffic once link shares have read them. Compressed
/// ones are the columnstore's.
async fn due(client: &Client, kept: &ThinnedTable, rows: Duration) -> Result<Vec<String>, Error> {
    let query = format!(
        "SELECT c.name FROM (
             SELECT format('%I.%I', chunk_schema, chunk_name) AS name, range_start, range_end
             FROM timescaledb_information.chunks
             WHERE hypertable_schema = 'internal' AND hypertable_name = $1 AND NOT is_compressed) c
         CROSS JOIN internal.link_share_state s LEFT JOIN internal.thinned_chunk t ON t.chunk = c.name
         WHERE c.range_end <= (SELECT internal.expiry_time()) - make_interval(secs => $2)
           AND (c.range_end <= CASE WHEN $1 = 'mpi_node_traffic' THEN {read_until} END) IS NOT FALSE
           AND (t.chunk IS NULL OR pg_relation_size(c.name::regclass) > t.bytes_after * 9 / 8 + {GROWTH_MIN_BYTES})
         ORDER BY c.range_start",
        read_until = read_until(),
    );
    let found = client.query(&query, &[&kept.table, &rows.as_secs_f64()]).await;
    Ok(found.map_err(Error::sql(WHAT))?.iter().map(|row| row.get(0)).collect())
}

/// Thins one chunk; how many rows it had and has. `None` where somebody writes into it now, or reads it for long: it has its turn later.
async fn thin(client: &mut Client, kept: &ThinnedTable, chunk: &str) -> Result<Option<(u64, u64)>, Error> {
    let mut transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    if !may_change_chunk(&transaction, chunk).await? {
        return Ok(None);
    }
    let columns = columns(&transaction, chunk).await?;
    // Nobody deletes rows: as many rows are the same rows. Counted first, so that what comes meanwhile is noticed.
    let before = count(&transaction, chunk).await?;
    let make = format!("CREATE TEMP TABLE {SCRATCH} (LIKE {chunk}) ON COMMIT DROP");
    transaction.batch_execute(&make).await.map_err(Error::sql(WHAT))?;
    kept.fill(&transaction, chunk, SCRATCH, &columns).await?;
    if !lock(&mut transaction, chunk, "SHARE ROW EXCLUSIVE", 1).await?
        || is_columns(&transaction, chunk).await?
        || count(&transaction, chunk).await? != before
        || !lock(&mut transaction, chunk, "ACCESS EXCLUSIVE", LOCK_TRIES).await?
    {
        return Ok(None);
    }
    transaction.batch_execute(&format!("TRUNCATE {chunk}")).await.map_err(Error::sql(WHAT))?;
    let after = refill(&transaction, chunk, &columns).await?;
    let note = "INSERT INTO internal.thinned_chunk (chunk, hypertable, range_start, range_end, rows_before, rows_after, bytes_after)
                SELECT $1, c.hypertable_name, c.range_start, c.range_end, $2, $3, pg_relation_size($1::text::regclass)
                FROM timescaledb_information.chunks c WHERE format('%I.%I', c.chunk_schema, c.chunk_name) = $1
                ON CONFLICT (chunk) DO UPDATE SET rows_before = excluded.rows_before, rows_after = excluded.rows_after,
                    bytes_after = excluded.bytes_after, thinned_at = excluded.thinned_at";
    let rows = [before, after].map(|rows| i64::try_from(rows).unwrap_or(i64::MAX));
    transaction.execute(note, &[&chunk, &rows[0], &rows[1]]).await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    // How many rows there are is estimated from what was there before, until they are looked at.
    client.batch_execute(&format!("ANALYZE {chunk}")).await.map_err(Error::sql(WHAT))?;
    Ok(Some((before, after)))
}

/// The columns of a chunk, quoted, in their order.
async fn columns(transaction: &Transaction<'_>, chunk: &str) -> Result<Vec<String>, Error> {
    let query = "SELECT quote_ident(attname) FROM pg_attribute \
                 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let rows = transaction.query(query, &[&chunk]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn count(transaction: &Transaction<'_>, table: &str) -> Result<u64, Error> {
    let row = transaction.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await;
    Ok(row.map_err(Error::sql(WHAT))?.get::<_, i64>(0).unsigned_abs())
}

/// Whether a policy has made columns of the chunk: it stays as it is then.
async fn is_columns(transaction: &Transaction<'_>, chunk: &str) -> Result<bool, Error> {
    let query = "SELECT is_compressed FROM timescaledb_information.chunks WHERE format('%I.%I', chunk_schema, chunk_name) = $1";
    Ok(transaction.query_one(query, &[&chunk]).await.map_err(Error::sql(WHAT))?.get(0))
}

/// Locks the chunk; whether nobody was in the way.
async fn lock(transaction: &mut Transaction<'_>, chunk: &str, mode: &str, tries: u32) -> Result<bool, Error> {
    for number in 0..tries {
        if number > 0 {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        // What is locked within it stays locked once it is released.
        let savepoint = transaction.savepoint("lock").await.map_err(Error::sql(WHAT))?;
        let lock = format!("SET LOCAL lock_timeout = '{LOCK_LIMIT}'; LOCK TABLE ONLY {chunk} IN {mode} MODE");
        match savepoint.batch_execute(&lock).await {
            Ok(()) => {
                savepoint.commit().await.map_err(Error::sql(WHAT))?;
                return Ok(true);
            }
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                savepoint.rollback().await.map_err(Error::sql(WHAT))?;
            }
            Err(error) => return Err(Error::sql(WHAT)(error)),
        }
    }
    Ok(false)
}

/// Writes the kept rows into the empty chunk, some pages at a time; how many.
async fn refill(transaction: &Transaction<'_>, chunk: &str, columns: &[String]) -> Result<u64, Error> {
    let columns = columns.join(", ");
    let size = format!("SELECT pg_relation_size('{SCRATCH}') / current_setting('block_size')::bigint");
    let pages: i64 = transaction.query_one(&size, &[]).await.map_err(Error::sql(WHAT))?.get(0);
    let into = format!("COPY {chunk} ({columns}) FROM STDIN (FORMAT binary, FREEZE)");
    let mut written = 0;
    for first in (0..pages).step_by(usize::try_from(PAGES).unwrap_or(usize::MAX)) {
        let some = format!(
            "COPY (SELECT {columns} FROM {SCRATCH} WHERE ctid >= '({first},0)' AND ctid < '({},0)') TO STDOUT (FORMAT binary)",
            first + PAGES
        );
        let rows = transaction.copy_out(&some).await.map_err(Error::sql(WHAT))?;
        let rows: BytesMut = rows
            .try_fold(BytesMut::new(), |mut all, part| async move {
                all.extend_from_slice(&part);
                Ok(all)
            })
            .await
            .map_err(Error::sql(WHAT))?;
        let mut sink = pin!(transaction.copy_in::<_, Bytes>(&into).await.map_err(Error::sql(WHAT))?);
        sink.send(rows.freeze()).await.map_err(Error::sql(WHAT))?;
        written += sink.finish().await.map_err(Error::sql(WHAT))?;
    }
    Ok(written)
}
