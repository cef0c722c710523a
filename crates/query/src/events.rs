//! Events, how old each source's data is, and from when to when there is any.

use crate::pauses::{self, Pause};
use crate::time::{milliseconds, now};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_sample::row_rules::DEFAULT;
use throughline_store::Error;
use throughline_store::chunk_ranges::CHUNK_RANGES;
use throughline_store::sql_time::moment;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since 1970.
    pub time: i64,
    /// A host, or the fabric of a crawler.
    pub instance: String,
    /// The part of the daemon.
    pub source: String,
    /// Dotted.
    pub kind: String,
    /// debug, info, warning or error.
    pub severity: String,
    /// In words.
    pub text: String,
    /// Node of a fabric that it is about.
    pub guid: Option<String>,
    /// Its port.
    pub port: Option<i32>,
    /// GPU that it is about.
    pub gpu: Option<String>,
    /// Job that it is about.
    pub job_key: Option<String>,
    /// Other end of a cable.
    pub remote_guid: Option<String>,
    /// Its port.
    pub remote_port: Option<i32>,
    /// What was before.
    pub before: Option<String>,
    /// What is after.
    pub after: Option<String>,
}

/// Which events are requested.
#[derive(Clone, Debug, Default)]
pub struct EventFilter<'a> {
    /// After this time, milliseconds.
    pub from: i64,
    /// Up to this time, milliseconds.
    pub to: i64,
    /// Kind or its beginning.
    pub kind: Option<&'a str>,
    /// Of this node of a fabric, at either end of a cable.
    pub guid: Option<&'a str>,
    /// Of this port of it.
    pub port: Option<i32>,
    /// Of this job.
    pub job: Option<&'a str>,
    /// Reported by this host or the crawlers of this fabric.
    pub instance: Option<&'a str>,
    /// Only what is not later, microseconds, and of that time not the first so many.
    pub behind: Option<(i64, i64)>,
    /// Most events.
    pub limit: i64,
}

/// Events, the newest first.
///
/// # Errors
/// The database's.
pub async fn events(client: &Client, which: &EventFilter<'_>) -> Result<Vec<Event>, Error> {
    let (newest, skipped) = which.behind.unwrap_or((i64::MAX, 0));
    let newest = newest.min(which.to.saturating_mul(1000));
    let sql = format!(
        "SELECT time, internal.instance_name(instance), source, kind, severity, text, ib_guid, ib_port, gpu_uuid, job_key, remote_ib_guid,
                remote_ib_port, before, after
         FROM internal.events
         WHERE time > {from} AND time <= to_timestamp({newest} / 1000000.0)
           AND ($1::text IS NULL OR starts_with(kind, $1)) AND ($4::text IS NULL OR job_key = $4)
           AND ($5::text IS NULL OR instance = ANY (internal.instances_named($5)))
           AND ($2::text IS NULL OR ib_guid = $2 AND ($3::integer IS NULL OR ib_port = $3)
                OR remote_ib_guid = $2 AND ($3::integer IS NULL OR remote_ib_port = $3))
         ORDER BY time DESC, instance, kind, text, ib_guid, ib_port LIMIT $6 OFFSET $7",
        from = moment(which.from),
    );
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&which.kind, &which.guid, &which.port, &which.job, &which.instance, &which.limit, &skipped];
    let rows = client.query(&sql, &parameters).await.map_err(Error::sql("reading events"))?;
    Ok(rows.iter().map(event).collect())
}

fn event(row: &Row) -> Event {
    let time: SystemTime = row.get(0);
    let micros = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros();
    Event {
        time: i64::try_from(micros).unwrap_or(i64::MAX),
        instance: row.get(1),
        source: row.get(2),
        kind: row.get(3),
        severity: row.get(4),
        text: row.get(5),
        guid: row.get(6),
        port: row.get(7),
        gpu: row.get(8),
        job_key: row.get(9),
        remote_guid: row.get(10),
        remote_port: row.get(11),
        before: row.get(12),
        after: row.get(13),
    }
}

/// A source and its last round.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// mad, sysfs, nvml …
    pub source: String,
    /// A host, or the fabric of a crawler.
    pub instance: String,
    /// End of the last round within a day, milliseconds.
    pub newest: Option<i64>,
    /// How old that is, by the database's clock.
    pub age_seconds: Option<f64>,
    /// By the rule that its sender reported, a round older than this is silence.
    pub largest_gap_seconds: f64,
    /// Its own last word, unless that is silent.
    pub is_up: Option<bool>,
    /// Why it reads nothing on purpose.
    pub pause: Option<Pause>,
    /// What the round was to read.
    pub expected: Option<i64>,
    /// What it read.
    pub read: Option<i64>,
    /// What did not answer.
    pub failed: Option<i64>,
}

/// Pairs of source and instance are found by steps down the primary key, however many rounds there are.
const SOURCES: &str = "
    WITH RECURSIVE rounds (source, instance) AS (
        (SELECT source, instance FROM internal.coverage WHERE time > now() - INTERVAL '1 day'
         ORDER BY source, instance LIMIT 1)
        UNION ALL SELECT n.source, n.instance FROM rounds p CROSS JOIN LATERAL (
            SELECT source, instance FROM internal.coverage c
            WHERE (c.source, c.instance) > (p.source, p.instance) AND c.time > now() - INTERVAL '1 day'
            ORDER BY c.source, c.instance LIMIT 1) n
    ), reported (source, instance, value) AS (
        SELECT DISTINCT ON (source, instance_key) source, instance_key, value FROM public.self_stats
        WHERE name = 'source_up' AND time > SINCE_GAP
        ORDER BY source, instance_key, time DESC
    )
    SELECT a.source, internal.instance_name(a.instance), c.time, extract(epoch FROM now() - c.time)::float8, u.value > 0, c.expected, c.read,
           c.failed, coalesce(g.largest_gap_seconds, d.largest_gap_seconds)
    FROM (SELECT * FROM rounds UNION SELECT source, instance FROM reported) a
    LEFT JOIN LATERAL (
        SELECT time, expected, read, failed FROM internal.coverage c
        WHERE c.source = a.source AND c.instance = a.instance AND c.time > now() - INTERVAL '1 day'
        ORDER BY c.time DESC LIMIT 1) c ON true
    LEFT JOIN reported u ON u.source = a.source AND u.instance = a.instance
    LEFT JOIN internal.row_rules g ON g.source = a.source AND g.instance = a.instance AND g.valid_to IS NULL
    CROSS JOIN internal.row_rules_default() d
    ORDER BY 1, 2";

/// All sources that reported anything within a day.
///
/// # Errors
/// The database's.
pub async fn sources(client: &Client) -> Result<Vec<Source>, Error> {
    // A constant: other chunks are no part of the plan.
    let gap = i64::try_from(DEFAULT.largest_gap().as_millis()).unwrap_or(i64::MAX);
    let now = now(client).await?;
    let pauses = pauses::read(client, now).await?;
    let sql = SOURCES.replace("SINCE_GAP", &moment(now - gap));
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading the sources"))?;
    let source = |row: &Row| Source {
        source: row.get(0),
        instance: row.get(1),
        newest: row.get::<_, Option<SystemTime>>(2).map(milliseconds),
        age_seconds: row.get(3),
        is_up: row.get(4),
        pause: pauses
            .get(&(row.get(1), row.get(0)))
            .filter(|_| row.get::<_, Option<bool>>(4) == Some(true))
            .cloned(),
        expected: row.get(5),
        read: row.get(6),
        failed: row.get(7),
        largest_gap_seconds: row.get(8),
    };
    Ok(rows.iter().map(source).collect())
}

/// Tables with rows, and from when to when, milliseconds: by chunks, so to the hour or day.
///
/// # Errors
/// The database's.
pub async fn ranges(client: &Client) -> Result<Vec<(String, i64, i64)>, Error> {
    let sql = format!(
        "SELECT table_name::text, first, least(last, now()) FROM ({CHUNK_RANGES}) c WHERE first <= now() ORDER BY 1"
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading the ranges of tables"))?;
    Ok(rows.iter().map(|row| (row.get(0), milliseconds(row.get(1)), milliseconds(row.get(2)))).collect())
}
