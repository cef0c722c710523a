//! What arrives in the database: sources, delivery, rejected records, and the newest jobs.
//!
//! Whether something is silent is judged here, by the rules that its sender reported; commands and pages show what this says.
//!
//! Nothing looks further back than a day: a node that went away is listed until then, with the age of what it sent last.

use crate::as_of;
use crate::contests;
use crate::jobs;
use crate::pauses::{self, Pause};
use crate::sender_clocks;
use crate::{RejectedRecords, rejected_records, whole};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};
use throughline_api::status::{
    BypassedProgram, Delivery, Rejected, Source, SourceState, Status, StatusJob, StatusOperation,
};
use throughline_sample::catalogue::{
    DELIVERED_ENTRIES, DELIVERY_FAILURES, DELIVERY_LAG_SECONDS, ENTRIES_DISCARDED, FAILED_READS,
    OVER_QUOTA_USERS, RECORDS_DISCARDED, SOURCE_UP, SPOOL_ENTRIES,
};
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::RowRules;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// How far back anything is looked for.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Rows of the last minute by source and origin. Keys are few and each is one range of an index; the time of
/// the newest row before that is the coverage's: sources write one such row a round.
const SOURCES: &str = "
    SELECT source, origin, sum(rows)::bigint AS rows, max(newest) AS newest
    FROM (
        SELECT 'mad' AS source, s.name AS origin, c.rows, c.newest
        FROM internal.ib_port_key k
        JOIN internal.ib_node_key n ON n.id = k.ib_node_id
        JOIN internal.fabric s ON s.id = n.fabric_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(time) AS newest FROM internal.ib_port_counters
            WHERE port_id = k.id AND time > now() - INTERVAL '1 minute') c
        WHERE c.rows > 0
        UNION ALL
        SELECT 'sysfs', n.name, c.rows, c.newest
        FROM internal.host_port_key k
        JOIN internal.node_key n ON n.id = k.node_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(time) AS newest FROM internal.host_port_counters
            WHERE host_port_id = k.id AND time > now() - INTERVAL '1 minute') c
        WHERE c.rows > 0
        UNION ALL
        SELECT c.source, n.name, c.rows, c.newest
        FROM internal.gpu g
        JOIN internal.node_key n ON n.id = g.node_id
        CROSS JOIN LATERAL (
            SELECT source, count(*) AS rows, max(time) AS newest FROM internal.nvlink_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source
            UNION ALL
            SELECT source, count(*), max(time) FROM internal.gpu_pcie_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source
            UNION ALL
            SELECT source, count(*), max(time) FROM internal.gpu_pm_counters
            WHERE gpu_id = g.gpu_id AND time > now() - INTERVAL '1 minute' GROUP BY source) c
        WHERE g.valid_to IS NULL
        UNION ALL
        SELECT 'mpi', n.name, m.rows, m.newest
        FROM (
            SELECT node_id, count(*) AS rows, max(time) AS newest
            FROM (
                SELECT node_id, time FROM internal.mpi_rank_rows WHERE time > now() - INTERVAL '1 minute'
                UNION ALL
                SELECT node_id, time FROM internal.mpi_rank_peers WHERE time > now() - INTERVAL '1 minute'
                UNION ALL
                SELECT node_id, time FROM internal.mpi_pvars WHERE time > now() - INTERVAL '1 minute'
                UNION ALL
                SELECT node_id, time FROM internal.mpi_node_rows WHERE time > now() - INTERVAL '1 minute') rows
            GROUP BY node_id) m
        JOIN internal.node_key n ON n.id = m.node_id
        UNION ALL
        -- Sources that were there within a day, so that one that went away does not just vanish.
        SELECT s.source, o.origin, 0, c.newest
        FROM (SELECT name AS origin, name AS instance FROM internal.node_key
              UNION ALL SELECT name, 'fabric:' || id FROM internal.fabric) o
        CROSS JOIN (VALUES ('mad'), ('sysfs'), ('nvml'), ('cupti'), ('mpi')) s (source)
        LEFT JOIN LATERAL (
            SELECT time AS newest FROM internal.coverage
            WHERE source = s.source AND instance = o.instance AND time > now() - INTERVAL '1 day'
            ORDER BY time DESC LIMIT 1) c ON true
        LEFT JOIN LATERAL internal.self_stat_newest('source_up', s.source, o.instance, SINCE_DAY) f ON true
        WHERE c.newest IS NOT NULL OR f.time IS NOT NULL
    ) all_rows
    GROUP BY source, origin";

/// The newest self-metrics of each daemon that is not silent.
const SELF_METRICS: &str = "
    SELECT DISTINCT ON (instance, source, name, label) instance, source, name, value
    FROM public.self_stats
    WHERE time > SINCE_GAP AND name = ANY($1)
    ORDER BY instance, source, name, label, time DESC";

/// What each daemon reported last about its delivery, also one that has been silent for hours. Daemons and these names are
/// few, and each is one step down the index.
const DELIVERY: &str = "
    SELECT o.name AS instance, m.source, m.name, s.value, extract(epoch FROM now() - s.time)::double precision AS age
    FROM (SELECT name, name AS instance FROM internal.node_key
          UNION ALL SELECT name, 'fabric:' || id FROM internal.fabric) o
    CROSS JOIN unnest($1::text[], $2::text[], $3::text[]) m (source, name, label)
    CROSS JOIN LATERAL internal.self_stat_newest(m.name, m.source, o.instance, SINCE_DAY, of_label => m.label) s";

/// Why a spool loses entries. Evicted ones are not among them: the entries beside them have their counts.
const DISCARDED: [&str; 4] = ["memory_full", "disk_full", "damaged", "size"];

/// The rules that senders reported last.
const RULES: &str = "SELECT internal.instance_name(instance), source, largest_gap_seconds FROM internal.row_rules WHERE valid_to IS NULL";

/// Why sources do not deliver, as each one reported last; daemons repeat it each hour.
const REASONS: &str = "
    SELECT internal.instance_name(instance) AS instance, source, kind, text FROM (
        SELECT DISTINCT ON (instance, source) instance, source, kind, text FROM internal.events
        WHERE kind IN ('source.down', 'source.absent', 'source.up') AND time > now() - INTERVAL '2 hours'
        ORDER BY instance, source, time DESC) last
    WHERE kind <> 'source.up'";

/// Of each node the user who went over a quota last.
const QUOTAS: &str = "
    SELECT DISTINCT ON (instance) instance, text FROM internal.events
    WHERE kind = 'mpi.quota' AND severity = 'warning' AND time > now() - INTERVAL '1 day'
    ORDER BY instance, time DESC";

/// Programs that agents reported; each of a user once an hour.
const BYPASSED: &str = "
    SELECT internal.instance_name(instance) AS node, text, (extract(epoch FROM max(time)) * 1e3)::bigint AS time_ms FROM internal.events
    WHERE kind = 'mpi.bypassed' AND time > now() - INTERVAL '1 hour' AND text IS NOT NULL
    GROUP BY instance, text ORDER BY time_ms DESC, node, text LIMIT 100";

/// Operations of some jobs over all ranks and size classes, each as of its time.
const OPERATIONS: &str = "
    SELECT i.id AS job_id, c.operation, internal.stored_total(sum(c.calls)) AS calls, internal.stored_total(sum(c.bytes)) AS bytes,
           sum(c.elapsed_seconds)::double precision AS elapsed_seconds
    FROM unnest($1::bigint[], $2::timestamptz[], $3::boolean[]) i (id, until, is_of_nodes)
    CROSS JOIN LATERAL internal.job_cells(i.id, i.until, i.is_of_nodes) c
    GROUP BY i.id, c.operation ORDER BY i.id, elapsed_seconds DESC, c.operation";

/// Reads everything; `jobs_max` is how many jobs. Where the database is, and its replica, the caller knows.
///
/// # Errors
/// The database's.
pub async fn read(client: &Client, jobs_max: i64) -> Result<Status, Error> {
    let time_ms = crate::time::now(client).await?;
    let rows =
        client.query(&sources_query(time_ms), &[]).await.map_err(Error::sql("reading what arrives"))?;
    let mut sources = join_sources(&rows, &self_metrics(client, time_ms).await?);
    for row in client.query(REASONS, &[]).await.map_err(Error::sql("reading why sources are down"))? {
        add_reason(&mut sources, &row);
    }
    if sources.iter().any(|source| source.over_quota_users > Some(0)) {
        for row in client.query(QUOTAS, &[]).await.map_err(Error::sql("reading who is over quota"))? {
            add_user(&mut sources, &row);
        }
    }
    judge(&mut sources, &rules(client).await?, &pauses::read(client, time_ms).await?);
    sources.sort_by(|one, other| (&one.source, &one.instance).cmp(&(&other.source, &other.instance)));
    Ok(Status {
        time_ms,
        database: String::new(),
        replica: None,
        clock: Some(crate::database_clock::read(client).await?),
        history: Some(crate::stored_history::read(client).await?),
        sources,
        delivery: delivery(client, time_ms).await?,
        rejected: rejected(client).await?,
        contests: contests::nodes(client).await?,
        bypassed: bypassed(client).await?,
        clocks: sender_clocks::faults(client).await?,
        jobs: read_jobs(client, jobs_max, time_ms).await?,
    })
}

/// The largest gap of each source that has reported one, by instance and source.
async fn rules(client: &Client) -> Result<BTreeMap<(String, String), f64>, Error> {
    let rows = client.query(RULES, &[]).await;
    let rows = rows.map_err(Error::sql("reading by which rules rows are left out"))?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect())
}

/// Puts its sender's rule to each source, and what it does by that.
fn judge(
    sources: &mut [Source],
    rules: &BTreeMap<(String, String), f64>,
    pauses: &BTreeMap<(String, String), Pause>,
) {
    for source in sources {
        // GPM's readings come from NVML's section of the configuration.
        let section = if source.source == "nvml_gpm" { "nvml" } else { &source.source };
        let reported = rules.get(&(source.instance.clone(), section.to_owned()));
        source.largest_gap_seconds = reported.copied().unwrap_or(DEFAULT.largest_gap_seconds);
        let rules = RowRules { largest_gap_seconds: source.largest_gap_seconds, ..DEFAULT };
        // Only of a daemon that reports that it is well.
        let pause = pauses.get(&(source.instance.clone(), source.source.clone()));
        let pause = pause.filter(|_| !source.absent && source.up == Some(true));
        if let Some(pause) = pause {
            source.reason.clone_from(&pause.reason);
            (source.since_ms, source.until_ms) = (pause.since_ms, pause.until_ms);
        }
        source.state = match (source.absent, source.up, source.age_seconds) {
            (true, ..) => SourceState::Absent,
            (_, Some(false), _) => SourceState::Down,
            _ if pause.is_some() => pause.map_or(SourceState::Up, |pause| pause.state),
            (_, Some(true), None) => SourceState::UpWithoutRows,
            (_, _, age) if rules.is_silent(age) => SourceState::Silent,
            (_, Some(true), _) => SourceState::Up,
            (_, None, _) => SourceState::Rows,
        };
    }
}

async fn bypassed(client: &Client) -> Result<Vec<BypassedProgram>, Error> {
    let rows = client.query(BYPASSED, &[]).await;
    let rows = rows.map_err(Error::sql("reading which programs bypass the shim"))?;
    let one = |row: &Row| BypassedProgram {
        node: row.get("node"),
        text: row.get("text"),
        time_ms: row.get("time_ms"),
    };
    Ok(rows.iter().map(one).collect())
}

async fn rejected(client: &Client) -> Result<Vec<Rejected>, Error> {
    let one = |row: RejectedRecords| {
        let last = row.last_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Rejected {
            sender: row.sender,
            reason: row.reason,
            records: row.records.try_into().unwrap_or_default(),
            kinds: row.kinds,
            last_ms: last.as_millis().try_into().unwrap_or(i64::MAX),
        }
    };
    Ok(rejected_records(client).await?.into_iter().map(one).collect())
}

/// Puts why a source does not deliver to it, as its daemon reported.
fn add_reason(sources: &mut Vec<Source>, row: &Row) {
    let (instance, source): (String, String) = (row.get("instance"), row.get("source"));
    let (kind, reason): (String, Option<String>) = (row.get("kind"), row.get("text"));
    let known = sources.iter_mut().find(|known| known.instance == instance && known.source == source);
    match (kind.as_str(), known) {
        ("source.absent", Some(known)) if known.up.is_none() => {
            known.absent = true;
            known.reason = reason;
        }
        ("source.absent", None) => {
            sources.push(Source { source, instance, absent: true, reason, ..Source::default() });
        }
        (_, Some(known)) if known.up == Some(false) => known.reason = reason,
        _ => {}
    }
}

/// Puts the last event of a user over quota to a source that has any.
fn add_user(sources: &mut [Source], row: &Row) {
    let (instance, text): (String, String) = (row.get("instance"), row.get("text"));
    let mut sources = sources.iter_mut();
    let Some(source) =
        sources.find(|source| source.instance == instance && source.over_quota_users > Some(0))
    else {
        return;
    };
    let more = match source.over_quota_users {
        Some(users) if users > 1 => format!("; {users} users in all"),
        _ => String::new(),
    };
    source.reason.get_or_insert(text + &more);
}

/// A statement with its times as constants, which a function passes on to the planner: other chunks are then no part of the plan.
fn with_times(sql: &str, now: i64) -> String {
    let before = |span: Duration| moment(now - i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    sql.replace("SINCE_DAY", &before(DAY)).replace("SINCE_GAP", &before(DEFAULT.largest_gap()))
}

/// [`SOURCES`] with its times as this program reads them.
fn sources_query(now: i64) -> String {
    let sources = with_times(SOURCES, now);
    format!(
        "SELECT source, origin, rows, (extract(epoch FROM newest) * 1e3)::bigint AS newest_ms,
                extract(epoch FROM now() - newest)::double precision AS age
         FROM ({sources}) sources ORDER BY source, origin"
    )
}

/// Self-metrics by instance and part of the daemon, then by name: sums over the reasons of losses.
type SelfMetrics = BTreeMap<(String, String), BTreeMap<String, f64>>;

async fn self_metrics(client: &Client, now: i64) -> Result<SelfMetrics, Error> {
    let names = [&SOURCE_UP, &RECORDS_DISCARDED, &FAILED_READS, &OVER_QUOTA_USERS].map(|metric| metric.name);
    let rows = client
        .query(&with_times(SELF_METRICS, now), &[&&names[..]])
        .await
        .map_err(Error::sql("reading self-metrics"))?;
    let mut metrics = SelfMetrics::new();
    for row in &rows {
        let part = (row.get("instance"), row.get("source"));
        *metrics.entry(part).or_default().entry(row.get("name")).or_default() += row.get::<_, f64>("value");
    }
    Ok(metrics)
}

/// Parts of daemons that have a `source_up` and are no sources.
const NO_SOURCES: [&str; 5] = ["delivery", "spool", "agent", "collector", "upkeep"];

fn join_sources(rows: &[Row], metrics: &SelfMetrics) -> Vec<Source> {
    let mut sources: BTreeMap<(String, String), Source> = BTreeMap::new();
    let named = |source: &str, instance: &str| Source {
        source: source.to_owned(),
        instance: instance.to_owned(),
        ..Source::default()
    };
    for row in rows {
        let (source, instance): (String, String) = (row.get("source"), row.get("origin"));
        let rows: i64 = row.get("rows");
        // At most the rows of a minute: exact.
        #[allow(clippy::cast_precision_loss)]
        let rows_per_second = rows as f64 / 60.0;
        let (newest_ms, age_seconds) = (row.get("newest_ms"), row.get("age"));
        let known = Source { newest_ms, age_seconds, rows_per_second, ..named(&source, &instance) };
        sources.insert((source, instance), known);
    }
    for ((instance, source), values) in metrics {
        let Some(up) = values.get(SOURCE_UP.name).filter(|_| !NO_SOURCES.contains(&source.as_str())) else {
            continue;
        };
        let key = (source.clone(), instance.clone());
        let known = sources.entry(key).or_insert_with(|| named(source, instance));
        known.up = Some(*up > 0.0);
        known.records_discarded = values.get(RECORDS_DISCARDED.name).map(count);
        known.failed_reads = values.get(FAILED_READS.name).map(count);
        known.over_quota_users = values.get(OVER_QUOTA_USERS.name).map(count);
    }
    sources.into_values().collect()
}

async fn delivery(client: &Client, now: i64) -> Result<Vec<Delivery>, Error> {
    let wanted = [
        ("spool", SPOOL_ENTRIES.name, ""),
        ("delivery", DELIVERY_LAG_SECONDS.name, ""),
        ("delivery", DELIVERED_ENTRIES.name, ""),
        ("delivery", DELIVERY_FAILURES.name, ""),
    ];
    let discarded = DISCARDED.map(|reason| ("spool", ENTRIES_DISCARDED.name, reason));
    let wanted: Vec<_> = wanted.into_iter().chain(discarded).collect();
    let column = |of: fn(&(&'static str, &'static str, &'static str)) -> &'static str| wanted.iter().map(of);
    let sources: Vec<&str> = column(|one| one.0).collect();
    let names: Vec<&str> = column(|one| one.1).collect();
    let labels: Vec<&str> = column(|one| one.2).collect();
    let rows = client.query(&with_times(DELIVERY, now), &[&sources, &names, &labels]).await;
    let mut all: BTreeMap<String, Delivery> = BTreeMap::new();
    for row in &rows.map_err(Error::sql("reading what daemons report of their delivery"))? {
        let instance: String = row.get("instance");
        let one = all.entry(instance.clone()).or_insert(Delivery { instance, ..Delivery::default() });
        let (name, value, age): (String, f64, f64) = (row.get("name"), row.get("value"), row.get("age"));
        one.age_seconds = Some(one.age_seconds.map_or(age, |newest| newest.min(age)));
        match name.as_str() {
            name if name == SPOOL_ENTRIES.name => one.spool_entries = Some(count(&value)),
            name if name == ENTRIES_DISCARDED.name => {
                *one.records_discarded.get_or_insert_default() += count(&value);
            }
            name if name == DELIVERY_LAG_SECONDS.name => one.lag_seconds = Some(value),
            name if name == DELIVERED_ENTRIES.name => one.delivered_entries = Some(count(&value)),
            _ => one.delivery_failures = Some(count(&value)),
        }
    }
    for one in all.values_mut() {
        one.is_silent = DEFAULT.is_silent(one.age_seconds);
        one.is_late = one.lag_seconds.is_some_and(|lag| DEFAULT.is_silent(Some(lag)));
    }
    Ok(all.into_values().collect())
}

/// Counts travel as floating point; they are whole and not negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn count(value: &f64) -> u64 {
    value.round().max(0.0) as u64
}

async fn read_jobs(client: &Client, jobs_max: i64, now: i64) -> Result<Vec<StatusJob>, Error> {
    let jobs = jobs::running_first(client, jobs_max).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    let as_of = as_of::sums(client, &ids).await?;
    let totals: BTreeMap<i64, jobs::Totals> = jobs::totals(client, &ids, &as_of).await?.into_iter().collect();
    let until: Vec<_> = ids.iter().map(|id| as_of.get(id).map(|at| at.until)).collect();
    let is_of_nodes: Vec<_> = ids.iter().map(|id| as_of.get(id).is_some_and(|at| at.is_of_nodes)).collect();
    let mut operations: BTreeMap<i64, Vec<StatusOperation>> = BTreeMap::new();
    let rows = client.query(OPERATIONS, &[&ids, &until, &is_of_nodes]).await;
    for row in &rows.map_err(Error::sql("summing operations of jobs"))? {
        let operation = StatusOperation {
            operation: row.get("operation"),
            calls: whole(row.get("calls")),
            bytes: whole(row.get("bytes")),
            elapsed_seconds: row.get::<_, Option<f64>>("elapsed_seconds").unwrap_or_default(),
        };
        operations.entry(row.get("job_id")).or_default().push(operation);
    }
    let one = |job: jobs::Job| {
        let operations = operations.remove(&job.id).unwrap_or_default();
        let (totals, as_of) = (totals.get(&job.id).copied(), as_of.get(&job.id));
        StatusJob { job: job.described(now, totals, as_of), operations }
    };
    Ok(jobs.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests;
