//! The queries of `status`. They only read, and look no further back than a day.

use super::report::{Delivery, Job, Operation, Rejected, Report, Source};
use crate::reader::SCHEMA;
use anyhow::Context;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use throughline_query::RejectedRecords;
use throughline_sample::catalogue::{
    DELIVERED_ENTRIES, DELIVERY_FAILURES, DELIVERY_LAG_SECONDS, DROPPED_RECORDS, FAILED_READS,
    OVER_QUOTA_USERS, SOURCE_UP, SPOOL_ENTRIES,
};
use throughline_sample::to_rfc3339;
use tokio_postgres::{Client, Row};

/// Rows of the last minute by source and origin. Keys are few and each is one range of an index; the time of
/// the newest row before that is the coverage's, of which sources write one a round.
const SOURCES: &str = "
    SELECT source, origin, sum(rows)::bigint AS rows, max(newest) AS newest
    FROM (
        SELECT 'mad' AS source, s.prefix AS origin, c.rows, c.newest
        FROM ib_port_key k
        JOIN ib_node_key n ON n.id = k.ib_node_id
        JOIN subnet s ON s.id = n.subnet_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(time) AS newest FROM ib_port_counters
            WHERE port_id = k.id AND time > now() - INTERVAL '1 minute') c
        WHERE c.rows > 0
        UNION ALL
        SELECT 'sysfs', n.name, c.rows, c.newest
        FROM host_port_key k
        JOIN node_key n ON n.id = k.node_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(time) AS newest FROM host_port_counters
            WHERE host_port_id = k.id AND time > now() - INTERVAL '1 minute') c
        WHERE c.rows > 0
        UNION ALL
        SELECT c.source, n.name, c.rows, c.newest
        FROM gpu g
        JOIN node_key n ON n.id = g.node_id
        CROSS JOIN LATERAL (
            SELECT source, count(*) AS rows, max(time) AS newest FROM nvlink_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source
            UNION ALL
            SELECT source, count(*), max(time) FROM gpu_pcie_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source
            UNION ALL
            SELECT source, count(*), max(time) FROM gpu_pm_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source) c
        WHERE g.valid_to IS NULL
        UNION ALL
        SELECT 'mpi', r.host, m.rows, m.newest
        FROM (
            SELECT job_id, rank, count(*) AS rows, max(time) AS newest
            FROM (
                SELECT job_id, rank, time FROM mpi_ops WHERE time > now() - INTERVAL '1 minute'
                UNION ALL
                SELECT job_id, rank, time FROM mpi_peers WHERE time > now() - INTERVAL '1 minute'
                UNION ALL
                SELECT job_id, rank, time FROM mpi_pvars WHERE time > now() - INTERVAL '1 minute') rows
            GROUP BY job_id, rank) m
        JOIN (SELECT DISTINCT ON (job_id, rank) job_id, rank, host
              FROM job_rank ORDER BY job_id, rank, start_time DESC) r USING (job_id, rank)
        UNION ALL
        -- Sources that were there within a day, so that one that went away does not just vanish.
        SELECT s.source, o.origin, 0, c.newest
        FROM (SELECT name AS origin FROM node_key UNION SELECT prefix FROM subnet) o
        CROSS JOIN (VALUES ('mad'), ('sysfs'), ('nvml'), ('cupti'), ('mpi')) s (source)
        LEFT JOIN LATERAL (
            SELECT time AS newest FROM coverage
            WHERE source = s.source AND instance = o.origin AND time > now() - INTERVAL '1 day'
            ORDER BY time DESC LIMIT 1) c ON true
        LEFT JOIN LATERAL (
            SELECT time AS told FROM self_stats
            WHERE name = 'source_up' AND source = s.source AND instance = o.origin
              AND time > now() - INTERVAL '1 day'
            ORDER BY time DESC LIMIT 1) f ON true
        WHERE c.newest IS NOT NULL OR f.told IS NOT NULL
    ) all_rows
    GROUP BY source, origin";

/// The newest figures of each daemon about itself; daemons tell every 10 s.
const FIGURES: &str = "
    SELECT DISTINCT ON (instance, source, name) instance, source, name, value
    FROM self_stats
    WHERE time > now() - INTERVAL '2 minutes' AND name = ANY($1)
    ORDER BY instance, source, name, time DESC";

/// Why sources do not deliver, by each one's last word; daemons repeat it each hour.
const REASONS: &str = "
    SELECT * FROM (
        SELECT DISTINCT ON (instance, source) instance, source, kind, text FROM events
        WHERE kind IN ('source.down', 'source.absent', 'source.up') AND time > now() - INTERVAL '2 hours'
        ORDER BY instance, source, time DESC) last
    WHERE kind <> 'source.up'";

/// Of each node the user who went over a quota last.
const QUOTAS: &str = "
    SELECT DISTINCT ON (instance) instance, text FROM events
    WHERE kind = 'mpi.quota' AND severity = 'warning' AND time > now() - INTERVAL '1 day'
    ORDER BY instance, time DESC";

/// Jobs, running ones first; the newest row of each is found with its operations.
const JOBS: &str = "
    SELECT j.id, j.key, j.user_name, j.command, j.world_size,
           (extract(epoch FROM j.start_time) * 1e9)::bigint AS start_ns,
           (extract(epoch FROM e.end_time) * 1e9)::bigint AS end_ns,
           extract(epoch FROM now() - e.end_time)::double precision AS end_age,
           extract(epoch FROM now() - j.start_time)::double precision AS start_age,
           r.ranks, r.nodes
    FROM job j
    CROSS JOIN LATERAL (
        SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes,
               count(*) FILTER (WHERE end_time IS NULL) AS running, max(end_time) AS last_end
        FROM job_rank WHERE job_id = j.id) r
    CROSS JOIN LATERAL (
        -- A job of which no rank is left has ended, even where nobody said so.
        SELECT coalesce(j.end_time, CASE WHEN r.ranks > 0 AND r.running = 0 THEN r.last_end END) AS end_time) e
    ORDER BY e.end_time IS NOT NULL, coalesce(e.end_time, j.start_time, j.first_seen) DESC, j.id DESC
    LIMIT $1";

/// Operations of some jobs over all ranks and size classes.
const OPERATIONS: &str = "
    SELECT job_id, operation, stored_total(sum(calls)) AS calls, stored_total(sum(bytes)) AS bytes,
           sum(elapsed_seconds)::double precision AS elapsed_seconds
    FROM mpi_op_totals WHERE job_id = ANY($1)
    GROUP BY job_id, operation ORDER BY job_id, elapsed_seconds DESC, operation";

/// How long the ranks of some jobs have been observed, summed, and the age of the newest row.
const SPANS: &str = "
    SELECT job_id, sum(observed_seconds) AS observed_seconds,
           extract(epoch FROM now() - max(last_time))::double precision AS age
    FROM mpi_rank_totals WHERE job_id = ANY($1) GROUP BY job_id";

/// A job that has not ended and sent nothing for this long is called silent.
const SILENT_SECONDS: f64 = 60.0;

/// Reads everything.
pub async fn report(client: &Client, jobs_max: u16) -> anyhow::Result<Report> {
    let now = client.query_one("SELECT (extract(epoch FROM now()) * 1e9)::bigint", &[]).await;
    let time = now.and_then(|row| row.try_get(0)).context("reading the database's time")?;
    let sources = client.query(&sources_query(), &[]).await.context(SCHEMA)?;
    let figures = figures(client).await?;
    let mut sources = join_sources(&sources, &figures)?;
    for row in client.query(REASONS, &[]).await.context(SCHEMA)? {
        give_reason(&mut sources, &row)?;
    }
    if sources.iter().any(|source| source.over_quota_users > Some(0)) {
        for row in client.query(QUOTAS, &[]).await.context(SCHEMA)? {
            name_user(&mut sources, &row)?;
        }
    }
    sources.sort_by(|one, other| (&one.source, &one.origin).cmp(&(&other.source, &other.origin)));
    Ok(Report {
        time: to_rfc3339(time),
        database: String::new(),
        sources,
        delivery: delivery(&figures),
        rejected: rejected(client).await?,
        jobs: jobs(client, jobs_max).await?,
    })
}

async fn rejected(client: &Client) -> anyhow::Result<Vec<Rejected>> {
    let all = throughline_query::rejected_records(client).await.context(SCHEMA)?;
    let one = |told: RejectedRecords| {
        let last = told.last_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Rejected {
            sender: told.sender,
            reason: told.reason,
            records: told.records.try_into().unwrap_or_default(),
            kinds: told.kinds,
            last: to_rfc3339(last.as_nanos().try_into().unwrap_or(i64::MAX)),
        }
    };
    Ok(all.into_iter().map(one).collect())
}

/// Puts a daemon's last word about a source that does not deliver to it.
fn give_reason(sources: &mut Vec<Source>, row: &Row) -> anyhow::Result<()> {
    let (origin, source): (String, String) = (row.try_get("instance")?, row.try_get("source")?);
    let (kind, reason): (String, Option<String>) = (row.try_get("kind")?, row.try_get("text")?);
    let told = sources.iter_mut().find(|told| told.origin == origin && told.source == source);
    match (kind.as_str(), told) {
        ("source.absent", Some(told)) if told.up.is_none() => {
            told.absent = true;
            told.reason = reason;
        }
        ("source.absent", None) => {
            sources.push(Source { source, origin, absent: true, reason, ..Source::default() });
        }
        (_, Some(told)) if told.up == Some(false) => told.reason = reason,
        _ => {}
    }
    Ok(())
}

/// Puts to a source whose users are over quota what was said of the last one of them.
fn name_user(sources: &mut [Source], row: &Row) -> anyhow::Result<()> {
    let (origin, text): (String, String) = (row.try_get("instance")?, row.try_get("text")?);
    let source =
        sources.iter_mut().find(|source| source.origin == origin && source.over_quota_users > Some(0));
    if let Some(source) = source {
        let more = match source.over_quota_users {
            Some(users) if users > 1 => format!("; {users} users in all"),
            _ => String::new(),
        };
        source.reason.get_or_insert(text + &more);
    }
    Ok(())
}

/// [`SOURCES`] with its times as this program reads them.
fn sources_query() -> String {
    format!(
        "SELECT source, origin, rows, (extract(epoch FROM newest) * 1e9)::bigint AS newest_ns,
                extract(epoch FROM now() - newest)::double precision AS age
         FROM ({SOURCES}) sources ORDER BY source, origin"
    )
}

/// Figures by origin and part of the daemon, then by name.
type Figures = BTreeMap<(String, String), BTreeMap<String, f64>>;

async fn figures(client: &Client) -> anyhow::Result<Figures> {
    let names = [
        &SOURCE_UP,
        &DROPPED_RECORDS,
        &FAILED_READS,
        &OVER_QUOTA_USERS,
        &SPOOL_ENTRIES,
        &DELIVERY_LAG_SECONDS,
        &DELIVERED_ENTRIES,
        &DELIVERY_FAILURES,
    ];
    let names: Vec<&str> = names.iter().map(|metric| metric.name).collect();
    let mut figures = Figures::new();
    for row in client.query(FIGURES, &[&names]).await.context(SCHEMA)? {
        let part = (row.try_get("instance")?, row.try_get("source")?);
        figures.entry(part).or_default().insert(row.try_get("name")?, row.try_get("value")?);
    }
    Ok(figures)
}

/// Parts of daemons that have a `source_up` and are no sources.
const NO_SOURCES: [&str; 5] = ["delivery", "spool", "agent", "collector", "upkeep"];

fn join_sources(rows: &[Row], figures: &Figures) -> anyhow::Result<Vec<Source>> {
    let mut sources: BTreeMap<(String, String), Source> = BTreeMap::new();
    for row in rows {
        let (source, origin): (String, String) = (row.try_get("source")?, row.try_get("origin")?);
        let rows: i64 = row.try_get("rows")?;
        let newest: Option<i64> = row.try_get("newest_ns")?;
        // At most the rows of a minute: exact.
        #[allow(clippy::cast_precision_loss)]
        let rows_per_second = rows as f64 / 60.0;
        let told = Source {
            source: source.clone(),
            origin: origin.clone(),
            newest: newest.map(to_rfc3339),
            age_seconds: row.try_get("age")?,
            rows_per_second,
            ..Source::default()
        };
        sources.insert((source, origin), told);
    }
    for ((origin, source), values) in figures {
        let Some(up) = values.get(SOURCE_UP.name).filter(|_| !NO_SOURCES.contains(&source.as_str())) else {
            continue;
        };
        let told = sources.entry((source.clone(), origin.clone())).or_insert_with(|| Source {
            source: source.clone(),
            origin: origin.clone(),
            ..Source::default()
        });
        told.up = Some(*up > 0.0);
        told.dropped_records = count(values.get(DROPPED_RECORDS.name));
        told.failed_reads = count(values.get(FAILED_READS.name));
        told.over_quota_users = count(values.get(OVER_QUOTA_USERS.name));
    }
    Ok(sources.into_values().collect())
}

fn delivery(figures: &Figures) -> Vec<Delivery> {
    let mut origins: BTreeMap<&str, Delivery> = BTreeMap::new();
    for ((origin, part), values) in figures {
        let get = |name: &str| values.get(name);
        let told = || Delivery { origin: origin.clone(), ..Delivery::default() };
        match part.as_str() {
            "spool" => {
                let told = origins.entry(origin).or_insert_with(told);
                told.spool_entries = count(get(SPOOL_ENTRIES.name));
                told.dropped_records = count(get(DROPPED_RECORDS.name));
            }
            "delivery" => {
                let told = origins.entry(origin).or_insert_with(told);
                told.lag_seconds = get(DELIVERY_LAG_SECONDS.name).copied();
                told.delivered_entries = count(get(DELIVERED_ENTRIES.name));
                told.delivery_failures = count(get(DELIVERY_FAILURES.name));
            }
            _ => {}
        }
    }
    origins.into_values().collect()
}

/// Counts travel as floating point; they are whole and not negative.
fn count(value: Option<&f64>) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    value.map(|value| value.round().max(0.0) as u64)
}

async fn jobs(client: &Client, jobs_max: u16) -> anyhow::Result<Vec<Job>> {
    let rows = client.query(JOBS, &[&i64::from(jobs_max)]).await.context(SCHEMA)?;
    let ids = rows.iter().map(|row| row.try_get("id")).collect::<Result<Vec<i32>, _>>()?;
    let mut operations: BTreeMap<i32, Vec<Operation>> = BTreeMap::new();
    for row in client.query(OPERATIONS, &[&ids]).await.context(SCHEMA)? {
        let operation = Operation {
            operation: row.try_get("operation")?,
            calls: whole(&row, "calls")?.unwrap_or_default(),
            bytes: whole(&row, "bytes")?.unwrap_or_default(),
            elapsed_seconds: row.try_get::<_, Option<f64>>("elapsed_seconds")?.unwrap_or_default(),
        };
        operations.entry(row.try_get("job_id")?).or_default().push(operation);
    }
    let mut spans: BTreeMap<i32, (Option<f64>, Option<f64>)> = BTreeMap::new();
    for row in client.query(SPANS, &[&ids]).await.context(SCHEMA)? {
        spans.insert(row.try_get("job_id")?, (row.try_get("observed_seconds")?, row.try_get("age")?));
    }
    let job = |(row, id): (&Row, &i32)| {
        job(row, operations.remove(id).unwrap_or_default(), spans.get(id).copied().unwrap_or_default())
    };
    rows.iter().zip(&ids).map(job).collect()
}

fn job(
    row: &Row,
    operations: Vec<Operation>,
    (observed, age): (Option<f64>, Option<f64>),
) -> anyhow::Result<Job> {
    let end: Option<i64> = row.try_get("end_ns")?;
    let start_age: Option<f64> = row.try_get("start_age")?;
    // A job that has only begun has no row yet.
    let age = age.or(start_age);
    let silent = age.is_none_or(|age| age > SILENT_SECONDS);
    let inside: f64 = operations.iter().map(|operation| operation.elapsed_seconds).sum();
    let share = observed.filter(|observed| *observed > 0.0).map(|observed| (inside / observed).min(1.0));
    Ok(Job {
        job_key: row.try_get("key")?,
        user: row.try_get("user_name")?,
        command: row.try_get("command")?,
        ranks: whole(row, "ranks")?.unwrap_or_default(),
        nodes: whole(row, "nodes")?.unwrap_or_default(),
        world_size: row.try_get::<_, Option<i32>>("world_size")?.and_then(|size| u64::try_from(size).ok()),
        state: if end.is_some() {
            "ended"
        } else if silent {
            "silent"
        } else {
            "running"
        }
        .to_owned(),
        start: row.try_get::<_, Option<i64>>("start_ns")?.map(to_rfc3339),
        end: end.map(to_rfc3339),
        age_seconds: if end.is_some() { row.try_get("end_age")? } else { age },
        mpi_time_share: share.filter(|_| !operations.is_empty()),
        operations,
    })
}

fn whole(row: &Row, column: &str) -> Result<Option<u64>, tokio_postgres::Error> {
    Ok(row.try_get::<_, Option<i64>>(column)?.and_then(|value| u64::try_from(value).ok()))
}

#[cfg(test)]
mod tests;
