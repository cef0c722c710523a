//! Packed hours: the readings of a thing and an hour, bit-packed, in one row: all series (`throughline_packed::series`) one behind the other, and
//! where each begins, so that a query reads only what it needs of it. Such a row is a block; its tables are `*_blocks`.
//! A GPU's hour has a row for each source that read it. An hour without readings has a row without series, so that it need not be
//! looked for among rows of readings.
//!
//! A block repeats its readings: where there is none, readings answer. [`encode_chunks`] makes those of each hour when the
//! hour's rollups are made. `block_wanted` lists what is to be made: everything once an hour, and things with late arrivals
//! again. For a late reading the writer adds a note in the transaction that stores it (`writer/late_arrivals.rs`), and a
//! block with a note is not read. The transaction that removes the note removes the block, too ([`invalidate`]), and
//! requests it again. So no query gets an older state than rows would give, whenever upkeep is killed. A block that
//! is made twice is the same.

mod encode;
mod moved;
pub mod series_numbers;

pub use moved::move_hours;
pub(crate) use moved::packed_range;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_postgres::{Client, Transaction};

use crate::error::Error;
use crate::retention::Retention;
use crate::rollup_kind::Kind;

/// Time of a block: that of a chunk of readings, so that both go together.
pub const BLOCK: Duration = Duration::from_secs(3600);

/// How far back blocks are made where there are none yet. Older readings have none, and retention removes them soon.
const FIRST: Duration = Duration::from_secs(24 * 3600);

const WHAT: &str = "encoding chunks of readings";

/// What a call of [`encode_chunks`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunksEncoded {
    /// Blocks: a thing and an hour each.
    pub blocks: u64,
    /// Samples encoded.
    pub samples: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Whether there is more to do.
    pub is_behind: bool,
}

/// Things of one transaction. A GPU's links have a hundred times the samples of a port.
const fn slice_things(kind: Kind) -> i64 {
    match kind {
        Kind::IbPorts | Kind::HostPorts | Kind::GpuPcie => 250,
        Kind::Nvlinks => 8,
    }
}

/// Things whose readings are read at once.
const fn group_things(kind: Kind) -> usize {
    match kind {
        Kind::IbPorts | Kind::HostPorts | Kind::GpuPcie => 25,
        Kind::Nvlinks => 1,
    }
}

/// Makes the blocks in `block_wanted`, newest first, for about `patience`. Connect as the writer; one caller at a time, the
/// one that makes rollups.
///
/// # Errors
/// The database is away or refuses; what was made so far stays.
pub async fn encode_chunks(
    client: &mut Client,
    retention: &Retention,
    patience: Duration,
) -> Result<ChunksEncoded, Error> {
    let begun = Instant::now();
    let mut made = ChunksEncoded { is_behind: true, ..ChunksEncoded::default() };
    while begun.elapsed() < patience {
        while want_next(client).await? {}
        if !slice(client, retention, &mut made).await? {
            made.is_behind = false;
            break;
        }
    }
    Ok(made)
}

/// Requests the blocks of the next hour whose rollups are made. Returns whether there was one.
async fn want_next(client: &mut Client) -> Result<bool, Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    // Time without any chunk has no readings.
    let next = format!(
        "SELECT greatest(s.blocks_until, date_bin('1 hour', c.first, 'epoch'),
                         CASE WHEN s.blocks_until IS NULL THEN date_bin('1 hour', s.made_until - INTERVAL '{} seconds', 'epoch') END),
                s.made_until
         FROM internal.minute_state s, LATERAL (SELECT min(range_start) AS first FROM timescaledb_information.chunks
             WHERE hypertable_schema = 'internal' AND hypertable_name = ANY ($1::text[])
               AND range_end > coalesce(s.blocks_until, '-infinity')) c
         WHERE c.first IS NOT NULL AND s.made_until IS NOT NULL",
        FIRST.as_secs()
    );
    let tables = Kind::ALL.map(Kind::readings);
    let row = transaction.query_opt(next.as_str(), &[&&tables[..]]).await.map_err(Error::sql(WHAT))?;
    let Some(row) = row else { return Ok(false) };
    let (begin, made_until): (SystemTime, SystemTime) = (row.get(0), row.get(1));
    let end = begin + BLOCK;
    if end > made_until {
        return Ok(false);
    }
    for kind in Kind::ALL {
        let want = format!(
            "INSERT INTO internal.block_wanted (kind, time, id) SELECT $1, $2, id FROM internal.{} ON CONFLICT DO NOTHING",
            kind.keys()
        );
        transaction.execute(&want, &[&kind.blocks(), &begin]).await.map_err(Error::sql(WHAT))?;
    }
    // Older hours are rows for as long as they are retained.
    let first = "UPDATE internal.packed_state SET packed_from = $1, packed_until = $1 \
                 WHERE packed_until = '-infinity' AND (SELECT blocks_until IS NULL FROM internal.minute_state)";
    transaction.execute(first, &[&begin]).await.map_err(Error::sql(WHAT))?;
    let advance = "UPDATE internal.minute_state SET blocks_until = $1";
    transaction.execute(advance, &[&end]).await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    Ok(true)
}

/// Makes some blocks of one kind and hour. Returns whether any was requested.
async fn slice(client: &mut Client, retention: &Retention, made: &mut ChunksEncoded) -> Result<bool, Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    let newest = "SELECT kind, time, internal.upkeep_time() FROM internal.block_wanted WHERE isfinite(internal.upkeep_time()) \
                  ORDER BY time DESC, kind LIMIT 1";
    let Some(row) = transaction.query_opt(newest, &[]).await.map_err(Error::sql(WHAT))? else {
        return Ok(false);
    };
    let (name, begin, now): (&str, SystemTime, SystemTime) = (row.get(0), row.get(1), row.get(2));
    let kind = Kind::ALL.into_iter().find(|kind| kind.blocks() == name);
    let take = format!(
        "WITH few AS (SELECT id FROM internal.block_wanted WHERE kind = $1 AND time = $2 ORDER BY id LIMIT {})
         DELETE FROM internal.block_wanted w USING few WHERE w.kind = $1 AND w.time = $2 AND w.id = few.id RETURNING w.id",
        kind.map_or(i64::MAX, slice_things)
    );
    let rows = transaction.query(&take, &[&name, &begin]).await.map_err(Error::sql(WHAT))?;
    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    // Readings that retention removes soon need no block.
    if let Some(kind) = kind.filter(|kind| begin + BLOCK > now - retention.of(kind.readings())) {
        encode::pack(&transaction, kind, begin, &ids, made).await?;
        made.blocks += ids.len() as u64;
    }
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    Ok(true)
}

/// Removes blocks with late arrivals, and requests them again: things, and for each the times of its first and last late
/// reading. For the transaction that removes the notes. Hours that are packed only keep their blocks: what came late is read
/// from rows beside them until they are packed again. Such a note was written after its hour's rows were dropped, so the
/// statement that removes blocks knows of the hour.
pub(crate) async fn invalidate(
    transaction: &Transaction<'_>,
    kind: Kind,
    ids: &[i64],
    since: &[SystemTime],
    until: &[SystemTime],
) -> Result<(), Error> {
    let what = "forgetting blocks of late readings";
    let (Some(first), Some(last)) = (since.iter().min(), until.iter().max()) else { return Ok(()) };
    let touched = "SELECT DISTINCT a.id, b.time FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) AS a (id, since, until)
                   CROSS JOIN LATERAL generate_series(date_bin('1 hour', a.since, 'epoch'), a.until, INTERVAL '1 hour') AS b (time)
                   WHERE b.time < (SELECT blocks_until FROM internal.minute_state)";
    // The statement has the whole time as constants, so that other chunks are no part of its plan.
    let invalidate = format!(
        "WITH touched AS ({touched}) DELETE FROM internal.{table} m USING touched t
         WHERE NOT EXISTS (SELECT FROM internal.packed_state s WHERE s.readings = '{readings}' AND m.time >= s.packed_from
                           AND m.time < s.packed_until)
           AND m.{id} = t.id AND m.time = t.time AND m.time > to_timestamp({}) AND m.time <= to_timestamp({})",
        seconds(*first) - BLOCK.as_secs_f64(),
        seconds(*last),
        table = kind.blocks(),
        readings = kind.readings(),
        id = kind.id(),
    );
    transaction.execute(&invalidate, &[&ids, &since, &until]).await.map_err(Error::sql(what))?;
    let want = format!(
        "INSERT INTO internal.block_wanted (kind, time, id) SELECT '{}', t.time, t.id FROM ({touched}) t ON CONFLICT DO NOTHING",
        kind.blocks()
    );
    transaction.execute(&want, &[&ids, &since, &until]).await.map_err(Error::sql(what))?;
    Ok(())
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
