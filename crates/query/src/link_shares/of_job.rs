//! A job's busiest links, and who else is on them.

use super::source::RowSelection;
use super::{LONG_MS, Part, PortTraffic, Source, part, who};
use std::collections::HashMap;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A direction of a link on which a job has a share, over the windows in which it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPort {
    /// The port that sends, by its number in the tables.
    pub port: i64,
    /// Windows.
    pub windows: u64,
    /// Those of them in which the port was read.
    pub counted_windows: u64,
    /// What was counted in these.
    pub counted: Option<i64>,
    /// The largest of a window.
    pub peak: Option<i64>,
    /// The job's part.
    pub own: Part,
    /// Speed of the link; 0 where it is not known.
    pub bytes_per_second: i64,
}

/// Directions of links on which a job has a share within a range: how many there are, and the most utilised ones. In a range of
/// more than an hour windows are those of the minutes in which it has one.
///
/// # Errors
/// The database's.
pub async fn of_job(
    client: &Client,
    job: i64,
    from: i64,
    to: i64,
    limit: i64,
    source: &Source,
) -> Result<(u64, Vec<JobPort>), Error> {
    let sql = format!(
        "WITH windows AS (
             SELECT port_id, time, sum(bytes) AS bytes, sum(low_bytes) AS low, sum(high_bytes) AS high,
                    max(array_position(ARRAY['measured', 'modelled', 'logical', 'unreported'], kind)) - 1 AS kind,
                    bool_or(is_bound) AS is_bound, max(counted) AS counted, max(peak) AS peak, max(windows) AS windows,
                    max(counted_windows) AS counted_windows
             FROM {rows} s GROUP BY port_id, time
         ), ports AS (
             SELECT port_id, sum(windows)::bigint AS windows, sum(counted_windows)::bigint AS counted_windows, sum(counted)::bigint AS counted, max(peak) AS peak,
                    sum(bytes)::bigint AS bytes, sum(low)::bigint AS low, sum(high)::bigint AS high, max(kind) AS kind,
                    bool_or(is_bound) AS is_bound
             FROM windows GROUP BY port_id
         )
         SELECT p.port_id, p.windows, p.counted, p.peak, p.bytes, p.low, p.high, p.kind, p.is_bound,
                coalesce(s.speed, 0), count(*) OVER (), p.counted_windows
         FROM ports p
         LEFT JOIN LATERAL (SELECT b.rate_bytes_per_second AS speed FROM internal.ib_port b WHERE b.port_id = p.port_id
                            AND b.valid_from <= {to} ORDER BY b.valid_from DESC LIMIT 1) s ON true
         ORDER BY p.counted / nullif(p.counted_windows, 0)::float8 / nullif(s.speed, 0) DESC NULLS LAST, p.bytes DESC, p.port_id LIMIT $2",
        rows = source.rows(RowSelection::Job, from, to, to - from > LONG_MS),
        to = moment(to),
    );
    let rows = client.query(&sql, &[&job, &limit]).await;
    let rows = rows.map_err(Error::sql("reading a job's shares of links"))?;
    let count = rows.first().map_or(0, |row| row.get::<_, i64>(10).unsigned_abs());
    let port = |row: &Row| JobPort {
        port: row.get(0),
        windows: row.get::<_, i64>(1).unsigned_abs(),
        counted_windows: row.get::<_, i64>(11).unsigned_abs(),
        counted: row.get(2),
        peak: row.get(3),
        own: part(row, 4),
        bytes_per_second: row.get(9),
    };
    Ok((count, rows.iter().map(port).collect()))
}

/// Who else was on ports in the windows in which a job had a share there: of jobs those that ran while it did. A window has what was
/// sent in ten seconds, also of two jobs that never met.
///
/// # Errors
/// The database's.
pub async fn beside_job(
    client: &Client,
    job: i64,
    ports: &[i64],
    from: i64,
    to: i64,
    source: &Source,
) -> Result<HashMap<i64, PortTraffic>, Error> {
    let rows = |wanted: RowSelection| source.rows(wanted, from, to, to - from > LONG_MS);
    let sql = format!(
        "SELECT s.port_id, s.contributor, s.job_id, s.operation, s.name, sum(s.bytes)::bigint, sum(s.low_bytes)::bigint,
                sum(s.high_bytes)::bigint,
                max(array_position(ARRAY['measured', 'modelled', 'logical', 'unreported'], s.kind)) - 1,
                bool_or(s.is_bound), sum(s.windows)::bigint, sum(s.counted_windows)::bigint, sum(s.counted)::bigint, max(s.peak)
         FROM (SELECT DISTINCT port_id, time FROM {own} o) w
         JOIN {all} s ON s.port_id = w.port_id AND s.time = w.time
         LEFT JOIN internal.run other ON other.id = s.job_id
         LEFT JOIN internal.run job ON job.id = $1
         WHERE other.id IS NULL OR other.id = job.id
            OR (coalesce(other.start_time, '-infinity') < coalesce(job.end_time, 'infinity')
                AND coalesce(other.end_time, 'infinity') > coalesce(job.start_time, '-infinity'))
         GROUP BY s.port_id, s.contributor, s.job_id, s.operation, s.name",
        own = rows(RowSelection::JobOnPorts),
        all = rows(RowSelection::PortsOfJob),
    );
    let rows = client.query(&sql, &[&job, &ports]).await;
    let mut all: HashMap<i64, PortTraffic> = HashMap::new();
    for row in rows.map_err(Error::sql("reading who shares links with a job"))? {
        let sent = all.entry(row.get(0)).or_default();
        let who = who(&row, 1);
        if who.contributor == "rest" {
            sent.windows = row.get::<_, i64>(10).unsigned_abs();
            sent.counted_windows = row.get::<_, i64>(11).unsigned_abs();
            (sent.counted, sent.peak) = (row.get(12), row.get(13));
        }
        sent.parts.insert(who, (part(&row, 5), Vec::new()));
    }
    Ok(all)
}
