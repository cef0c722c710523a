//! Shares of some ports window by window, and a job's bytes on them by operation.

use super::source::RowSelection;
use super::{ContributorKey, LONG_MS, Part, Source, part, who};
use crate::time::milliseconds;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// What one contributor has of a port in a window, or in a minute of windows.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareRow {
    /// The port that sends, by its number in the tables.
    pub port: i64,
    /// End of the window, milliseconds since 1970.
    pub to: i64,
    /// How many windows it stands for.
    pub windows: u64,
    /// What was counted in them by all; `None` where the port was not read.
    pub counted: Option<i64>,
    /// Who.
    pub who: ContributorKey,
    /// What it has.
    pub part: Part,
}

/// Shares of ports in the windows of a range in which a job has one, at most `limit` rows.
///
/// # Errors
/// The database's.
pub async fn windows_of(
    client: &Client,
    job: i64,
    ports: &[i64],
    (from, to): (i64, i64),
    source: &Source,
    limit: i64,
) -> Result<Vec<ShareRow>, Error> {
    let rows = |wanted: RowSelection| source.rows(wanted, from, to, to - from > LONG_MS);
    let sql = format!(
        "SELECT s.port_id, s.time, s.windows::bigint, s.counted, s.contributor, s.job_id, s.operation, s.name, s.bytes, s.low_bytes,
                s.high_bytes, array_position(ARRAY['measured', 'modelled', 'logical', 'unreported'], s.kind) - 1, s.is_bound
         FROM (SELECT DISTINCT port_id, time FROM {own} o) w
         JOIN {all} s ON s.port_id = w.port_id AND s.time = w.time
         ORDER BY s.port_id, s.time LIMIT $3",
        own = rows(RowSelection::JobOnPorts),
        all = rows(RowSelection::PortsOfJob),
    );
    let rows = client.query(&sql, &[&job, &ports, &limit]).await;
    let rows = rows.map_err(Error::sql("reading windows of a job's links"))?;
    let row = |row: &Row| ShareRow {
        port: row.get(0),
        to: milliseconds(row.get(1)),
        windows: row.get::<_, i64>(2).unsigned_abs(),
        counted: row.get(3),
        who: who(row, 4),
        part: part(row, 8),
    };
    Ok(rows.iter().map(row).collect())
}

/// A job's bytes on ports within a range, by port and operation.
///
/// # Errors
/// The database's.
pub async fn operations_on(
    client: &Client,
    job: i64,
    ports: &[i64],
    (from, to): (i64, i64),
    source: &Source,
) -> Result<Vec<(i64, String, i64)>, Error> {
    let sql = format!(
        "SELECT port_id, operation, sum(bytes)::bigint FROM {} s WHERE operation IS NOT NULL GROUP BY port_id, operation",
        source.rows(RowSelection::JobOnPorts, from, to, to - from > LONG_MS)
    );
    let rows = client.query(&sql, &[&job, &ports]).await;
    let rows = rows.map_err(Error::sql("reading a job's operations on links"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}
