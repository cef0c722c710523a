//! Clocks of senders as the collectors of all servers measured them, and by how much the times of each span are moved.
//!
//! The offset of a span is written once, by whichever server measures it first, so that all servers move its times alike, also
//! after a restart and for batches that waited in a spool for days.

use std::time::Duration;

use tokio_postgres::{Client, Row};

use crate::database::Database;
use crate::error::Error;
use crate::lazy_connection::LazyConnection;

/// Time for one statement.
const LIMIT: Duration = Duration::from_secs(5);

/// What a server does with them, for errors.
const WHAT: &str = "reading and writing the clocks of senders";

/// Spans retained of a sender, those noted last: a clock that is set each ten minutes has 1,008 within the week that batches may
/// wait in a spool.
const SPANS_KEPT: i64 = 1024;

/// A measurement. Times are UTC nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderClock {
    /// node:NAME or crawler:NAME.
    pub sender: String,
    /// By the server's clock.
    pub measured_at: i64,
    /// By the sender's clock.
    pub sender_time: i64,
    /// Sender less server.
    pub offset_seconds: f64,
    /// Of the exchange.
    pub round_trip_seconds: f64,
    /// Time of the newest record that the sender sent, moved.
    pub newest_record: Option<i64>,
}

/// What a server makes of its own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerClock {
    /// Its name.
    pub server: String,
    /// UTC nanoseconds by its clock.
    pub judged_at: i64,
    /// How far it is ahead of most senders; 0 where it is right.
    pub offset_seconds: f64,
    /// Senders that agree.
    pub senders_alike: u32,
    /// Senders that were measured.
    pub senders: u32,
}

/// A span of a sender's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanOffset {
    /// Its number.
    pub span: u64,
    /// When it began, moved; UTC nanoseconds.
    pub began: i64,
    /// When it ended.
    pub ended: Option<i64>,
    /// How far its clock is ahead; `None` where that will never be known.
    pub offset_seconds: Option<f64>,
    /// By how much less its first rows are moved.
    pub slew_seconds: f64,
}

/// The clocks in the database, through one connection.
#[derive(Debug)]
pub struct SenderClocks {
    connection: LazyConnection,
}

impl SenderClocks {
    /// Connects with the first statement.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { connection: LazyConnection::new(database) }
    }

    /// Offsets of spans that are known, seconds.
    ///
    /// # Errors
    /// The database is away, or refuses.
    pub async fn offsets(&mut self, sender: &str, spans: &[u64]) -> Result<Vec<SpanOffset>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM internal.clock_span known WHERE sender_id = $1 AND span = ANY($2)"
        );
        let spans: Vec<i64> = spans.iter().map(|span| span.cast_signed()).collect();
        let rows =
            self.connection.with(WHAT, LIMIT, async |client| client.query(&sql, &[&sender, &spans]).await);
        Ok(rows.await?.iter().map(span).collect())
    }

    /// Writes offsets of spans where none are known, and the ends of spans; the offsets that hold.
    ///
    /// # Errors
    /// As [`SenderClocks::offsets`].
    pub async fn fix(&mut self, sender: &str, spans: &[SpanOffset]) -> Result<Vec<SpanOffset>, Error> {
        self.connection.with(WHAT, LIMIT, async |client| fix(client, sender, spans).await).await
    }

    /// Writes the last measurements of some senders, and what this server makes of its own clock.
    ///
    /// # Errors
    /// As [`SenderClocks::offsets`].
    pub async fn note(&mut self, senders: &[SenderClock], server: &ServerClock) -> Result<(), Error> {
        self.connection.with(WHAT, LIMIT, async |client| note(client, senders, server).await).await
    }
}

async fn fix(
    client: &mut Client,
    sender: &str,
    spans: &[SpanOffset],
) -> Result<Vec<SpanOffset>, tokio_postgres::Error> {
    let insert = format!(
        "INSERT INTO internal.clock_span AS known (sender_id, span, began_at, ended_at, offset_seconds, slew_seconds)
         SELECT DISTINCT ON (s.span) $1, s.span, 'epoch'::timestamptz + s.began * interval '1 microsecond',
                'epoch'::timestamptz + s.ended * interval '1 microsecond', s.offset_seconds, s.slew_seconds
         FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::float8[], $6::float8[])
             s (span, began, ended, offset_seconds, slew_seconds)
         ORDER BY s.span
         ON CONFLICT (sender_id, span) DO UPDATE SET ended_at = coalesce(known.ended_at, EXCLUDED.ended_at)
         RETURNING {COLUMNS}"
    );
    const BOUND: &str = "
        DELETE FROM internal.clock_span WHERE sender_id = $1 AND span IN (
            SELECT span FROM internal.clock_span WHERE sender_id = $1 ORDER BY noted_at DESC, span OFFSET $2)";
    let numbers: Vec<i64> = spans.iter().map(|one| one.span.cast_signed()).collect();
    let began: Vec<i64> = spans.iter().map(|one| one.began / 1000).collect();
    let ended: Vec<Option<i64>> = spans.iter().map(|one| one.ended.map(|ended| ended / 1000)).collect();
    let offsets: Vec<Option<f64>> = spans.iter().map(|one| one.offset_seconds).collect();
    let slews: Vec<f64> = spans.iter().map(|one| one.slew_seconds).collect();
    let rows = client.query(&insert, &[&sender, &numbers, &began, &ended, &offsets, &slews]).await?;
    client.execute(BOUND, &[&sender, &SPANS_KEPT]).await?;
    Ok(rows.iter().map(span).collect())
}

/// What [`span`] reads.
const COLUMNS: &str = "known.span, (extract(epoch FROM known.began_at) * 1000000)::bigint, \
    (extract(epoch FROM known.ended_at) * 1000000)::bigint, known.offset_seconds, known.slew_seconds";

fn span(row: &Row) -> SpanOffset {
    SpanOffset {
        span: row.get::<_, i64>(0).cast_unsigned(),
        began: row.get::<_, i64>(1).saturating_mul(1000),
        ended: row.get::<_, Option<i64>>(2).map(|ended| ended.saturating_mul(1000)),
        offset_seconds: row.get(3),
        slew_seconds: row.get(4),
    }
}

async fn note(
    client: &mut Client,
    senders: &[SenderClock],
    server: &ServerClock,
) -> Result<(), tokio_postgres::Error> {
    const SENDERS: &str = "
        INSERT INTO internal.sender_clock AS known
            (sender_id, measured_at, sender_time, offset_seconds, round_trip_seconds, newest_record)
        SELECT s.sender_id, 'epoch'::timestamptz + s.measured * interval '1 microsecond',
               'epoch'::timestamptz + s.time * interval '1 microsecond', s.offset_seconds, s.round_trip_seconds,
               'epoch'::timestamptz + s.newest * interval '1 microsecond'
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::float8[], $5::float8[], $6::bigint[])
            s (sender_id, measured, time, offset_seconds, round_trip_seconds, newest)
        ORDER BY s.sender_id
        ON CONFLICT (sender_id) DO UPDATE SET
            measured_at = EXCLUDED.measured_at, sender_time = EXCLUDED.sender_time,
            offset_seconds = EXCLUDED.offset_seconds, round_trip_seconds = EXCLUDED.round_trip_seconds,
            newest_record = coalesce(EXCLUDED.newest_record, known.newest_record)";
    const SERVER: &str = "
        INSERT INTO internal.server_clock (server, judged_at, offset_seconds, senders_alike, senders)
        VALUES ($1, 'epoch'::timestamptz + $2::bigint * interval '1 microsecond', $3, $4, $5)
        ON CONFLICT (server) DO UPDATE SET
            judged_at = EXCLUDED.judged_at, offset_seconds = EXCLUDED.offset_seconds,
            senders_alike = EXCLUDED.senders_alike, senders = EXCLUDED.senders, noted_at = now()";
    let names: Vec<&str> = senders.iter().map(|one| one.sender.as_str()).collect();
    let measured: Vec<i64> = senders.iter().map(|one| one.measured_at / 1000).collect();
    let times: Vec<i64> = senders.iter().map(|one| one.sender_time / 1000).collect();
    let offsets: Vec<f64> = senders.iter().map(|one| one.offset_seconds).collect();
    let trips: Vec<f64> = senders.iter().map(|one| one.round_trip_seconds).collect();
    let newest: Vec<Option<i64>> =
        senders.iter().map(|one| one.newest_record.map(|time| time / 1000)).collect();
    if !names.is_empty() {
        client.execute(SENDERS, &[&names, &measured, &times, &offsets, &trips, &newest]).await?;
    }
    let count = |senders: u32| i32::try_from(senders).unwrap_or(i32::MAX);
    let (alike, all) = (count(server.senders_alike), count(server.senders));
    let judged = server.judged_at / 1000;
    client.execute(SERVER, &[&server.server, &judged, &server.offset_seconds, &alike, &all]).await?;
    Ok(())
}
