//! Shares of links by the minute, an hour of a port in one row: made of `link_share_minutes` once no window of them is made again.
//!
//! `link_share_state.hours_until` says where readers change from one table to the other. Rows of `link_share_hours` after it are of a
//! chunk of minutes whose ports are not all through; rows of `link_share_minutes` before it wait for their chunk to be dropped.

use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

use futures::{SinkExt, TryStreamExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use super::hour::Hour;
use super::{Micros, micros, moment};
use crate::backup_lock::may_change_chunks;
use crate::copy::RowBuffer;
use crate::error::Error;
use crate::retention::Retention;

const WHAT: &str = "putting shares of links by the minute into hours";

/// Ports of one transaction: an hour of a port has some hundred rows.
const PORTS: i64 = 250;

/// How long the lock of a chunk that is to be dropped is waited for. Less than PostgreSQL's `deadlock_timeout`.
const LOCK_LIMIT: &str = "300ms";

/// A chunk of minutes that is to be put into hours.
struct Chunk {
    begin: Micros,
    end: Micros,
}

/// Puts the minutes that stay as they are into hours, for about `patience` but some ports at least. Returns whether there is more.
pub(super) async fn make(
    client: &mut Client,
    retention: &Retention,
    patience: Duration,
) -> Result<bool, Error> {
    let begun = Instant::now();
    while let Some(chunk) = next(client, retention).await? {
        loop {
            let ports = some_ports(client, &chunk).await?;
            let (Some(first), Some(last)) = (ports.first(), ports.last()) else { break };
            write(client, &chunk, *first, *last).await?;
            if begun.elapsed() >= patience {
                return Ok(true);
            }
        }
        let advance = "UPDATE internal.link_share_state SET hours_until = TIMESTAMPTZ 'epoch' + $1::bigint * INTERVAL '1 microsecond'";
        client.execute(advance, &[&chunk.end]).await.map_err(Error::sql(WHAT))?;
    }
    drop_minutes(client).await?;
    Ok(false)
}

/// The oldest chunk of minutes that is not in hours yet and has no window that is made again.
async fn next(client: &Client, retention: &Retention) -> Result<Option<Chunk>, Error> {
    let sql = format!(
        "SELECT greatest(c.range_start, s.hours_until), c.range_end FROM timescaledb_information.chunks c, internal.link_share_state s
         WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = 'link_share_minutes'
           AND c.range_end > coalesce(s.hours_until, '-infinity')
           AND c.range_end <= least(s.minutes_until, (SELECT internal.upkeep_time()) - INTERVAL '{} microseconds')
         ORDER BY c.range_start LIMIT 1",
        retention.shares_change().as_micros()
    );
    let row = client.query_opt(&sql, &[]).await.map_err(Error::sql(WHAT))?;
    let time = |row: &Row, column: usize| micros(row.get::<_, SystemTime>(column));
    Ok(row.map(|row| Chunk { begin: time(&row, 0), end: time(&row, 1) }))
}

/// The next ports that have minutes in a chunk: those after the last one that is through.
async fn some_ports(client: &Client, chunk: &Chunk) -> Result<Vec<i64>, Error> {
    let sql = format!(
        "SELECT id FROM internal.ib_port_key k
         WHERE id > coalesce((SELECT max(port_id) FROM internal.link_share_hours WHERE time >= {begin} AND time < {end}), 0)
           AND EXISTS (SELECT FROM internal.link_share_minutes m WHERE m.port_id = k.id AND m.time >= {begin} AND m.time < {end})
         ORDER BY id LIMIT {PORTS}",
        begin = moment(chunk.begin),
        end = moment(chunk.end),
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Writes the hours of some ports of a chunk.
async fn write(client: &mut Client, chunk: &Chunk, first: i64, last: i64) -> Result<(), Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    let minutes = format!(
        "SELECT {} FROM internal.link_share_minutes WHERE port_id BETWEEN {first} AND {last} AND time >= {} AND time < {}
         ORDER BY port_id, time",
        Hour::COLUMNS,
        moment(chunk.begin),
        moment(chunk.end),
    );
    let none: [i64; 0] = [];
    let mut rows = pin!(transaction.query_raw(&minutes, none).await.map_err(Error::sql(WHAT))?);
    let mut buffer = RowBuffer::new(10);
    let mut open: Option<((i64, Micros), Hour)> = None;
    while let Some(row) = rows.try_next().await.map_err(Error::sql(WHAT))? {
        let of = Hour::of(&row);
        if let Some((_, done)) = open.take_if(|(open, _)| *open != of) {
            done.put(&mut buffer);
        }
        open.get_or_insert_with(|| (of, Hour::new(of))).1.add(&row);
    }
    open.into_iter().for_each(|(_, last)| last.put(&mut buffer));
    let copy = format!("COPY internal.link_share_hours ({}) FROM STDIN (FORMAT binary)", Hour::WRITTEN);
    let mut sink = pin!(transaction.copy_in(copy.as_str()).await.map_err(Error::sql(WHAT))?);
    sink.send(buffer.finish()).await.map_err(Error::sql(WHAT))?;
    sink.close().await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))
}

/// Drops chunks of minutes that are in hours. One that somebody reads goes with a later call.
async fn drop_minutes(client: &mut Client) -> Result<(), Error> {
    let sql = "SELECT s.hours_until FROM internal.link_share_state s WHERE (SELECT internal.expiry_time()) IS NOT NULL AND EXISTS (
                   SELECT FROM timescaledb_information.chunks c WHERE c.hypertable_schema = 'internal'
                   AND c.hypertable_name = 'link_share_minutes' AND c.range_end <= s.hours_until)";
    let Some(row) = client.query_opt(sql, &[]).await.map_err(Error::sql(WHAT))? else { return Ok(()) };
    let until: SystemTime = row.get(0);
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    if !may_change_chunks(&transaction).await? {
        return Ok(());
    }
    let limit = format!("SET LOCAL lock_timeout = '{LOCK_LIMIT}'");
    transaction.batch_execute(&limit).await.map_err(Error::sql(WHAT))?;
    let drop = "SELECT public.drop_chunks('internal.link_share_minutes', older_than => $1::timestamptz)";
    match transaction.query(drop, &[&until]).await {
        Ok(_) => transaction.commit().await.map_err(Error::sql(WHAT)),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(()),
        Err(error) => Err(Error::sql(WHAT)(error)),
    }
}
