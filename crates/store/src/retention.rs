//! Old chunks go: by a policy of the database where its edition has one, else by `drop_chunks` from upkeep. Which of the configured
//! times holds for a table stands in `forms`. Where policies are, so is a columnstore (`columnstore`).
//! Numbers of cells go with the rows that had them. The edition is found by calling, not by reading a setting.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::Error;
use crate::columnstore;
use crate::forms::{Keep, TableForm};
use crate::rollup_kind::Kind;
use throughline_sample::catalogue::HYPERTABLES;

/// Raw samples are retained for a week unless configured: long enough to examine a job of the last days.
const DEFAULT_RAW: Duration = Duration::from_secs(7 * 24 * 3600);

/// Rollups are retained for a year unless configured: a port has 1,440 a day of some 150 bytes, a hundredth of what
/// readings once a second take.
const DEFAULT_MINUTES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Readings of ports, NVLinks and PCIe are rows for so long unless configured: live views and alerts look back an hour at most, and
/// dashboards read ranges of up to six hours from readings.
const DEFAULT_ROWS: Duration = Duration::from_secs(6 * 3600);

/// Detail on demand is retained for a day unless configured: long enough for whoever requested it, and short because it is a
/// hundred times what is stored anyway.
const DEFAULT_DETAIL: Duration = Duration::from_secs(24 * 3600);

/// Windows of link shares are retained as long as readings are rows, and where these are not packed for a day, unless configured: at a
/// large site a week of them is as much as all else of that week, and minutes with the peaks of windows are there for longer.
const LONGEST_WINDOWS: Duration = Duration::from_secs(24 * 3600);

/// Windows of link shares older than that are not made again.
const LATE_WINDOWS: Duration = Duration::from_secs(24 * 3600);

/// How long a cell's number stays after the last row that may have it: a writer uses one for a day until it looks it up again, which is
/// noted where the last note is half a day old; and a chunk goes as a whole.
const CELL_UNUSED_SECONDS: f64 = 3.0 * 24.0 * 3600.0;

/// How long rows are retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    default: Duration,
    minutes: Duration,
    detail: Duration,
    rows: Option<Duration>,
    tables: BTreeMap<String, Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            default: DEFAULT_RAW,
            minutes: DEFAULT_MINUTES,
            detail: DEFAULT_DETAIL,
            rows: Some(DEFAULT_ROWS),
            tables: BTreeMap::new(),
        }
    }
}

impl Retention {
    /// The same time for all tables; readings are rows for as long.
    pub fn for_all(keep: Duration) -> Self {
        Self { default: keep, minutes: keep, detail: keep, rows: None, tables: BTreeMap::new() }
    }

    /// Another time for rollups.
    #[must_use]
    pub fn with_minutes(self, keep: Duration) -> Self {
        Self { minutes: keep, ..self }
    }

    /// Another time for detail on demand.
    #[must_use]
    pub fn with_detail(self, keep: Duration) -> Self {
        Self { detail: keep, ..self }
    }

    /// For how long readings of ports, NVLinks and PCIe are rows; older ones are packed only, and old chunks of other tables become columns
    /// on the full edition.
    #[must_use]
    pub fn with_rows(self, keep: Duration) -> Self {
        Self { rows: Some(keep), ..self }
    }

    /// For how long readings are rows, if that is not for as long as they are retained.
    pub(crate) fn rows(&self, kind: Kind) -> Option<Duration> {
        self.full_rate(kind.readings())
    }

    /// For how long a table has its rows at the full rate, if that is not for as long as they are retained.
    pub(crate) fn full_rate(&self, table: &str) -> Option<Duration> {
        self.rows.filter(|rows| *rows < self.of(table))
    }

    /// For how long readings of ports, NVLinks and PCIe are rows where they are retained longer; `None` for as long as they are.
    pub fn rows_at_most(&self) -> Option<Duration> {
        self.rows
    }

    /// How long after its end a window of link shares is made again: not when it may be gone. Minutes of windows are rows for so long.
    pub(crate) fn shares_change(&self) -> Duration {
        self.of("link_shares").min(LATE_WINDOWS)
    }

    /// How long rollups are retained, unless a table has its own time.
    pub fn minutes(&self) -> Duration {
        self.minutes
    }

    /// Another time for one table.
    ///
    /// # Errors
    /// The table is no hypertable of ours; the message lists those that are.
    pub fn set(&mut self, table: &str, keep: Duration) -> Result<(), String> {
        // Its name while it had a row for each value.
        let table = if table == "self_stats" { "self_stat_rows" } else { table };
        if !HYPERTABLES.contains(&table) {
            return Err(format!(
                "unknown table '{table}': retention can be set for {}",
                HYPERTABLES.join(", ")
            ));
        }
        self.tables.insert(table.to_owned(), keep);
        Ok(())
    }

    /// For how long all readings are rows: those of some tables longer.
    pub fn readings(&self) -> Duration {
        let tables = Kind::ALL.map(|kind| self.rows(kind).unwrap_or_else(|| self.of(kind.readings())));
        tables.into_iter().chain([self.of("self_stat_rows")]).min().unwrap_or(self.default)
    }

    /// How long a table's rows are retained.
    pub fn of(&self, table: &str) -> Duration {
        if let Some(own) = self.tables.get(table) {
            return *own;
        }
        match TableForm::of(table).map(|form| form.keep) {
            Some(Keep::Minutes) => self.minutes,
            Some(Keep::Windows) => {
                self.default.min(self.rows.unwrap_or(LONGEST_WINDOWS)).min(LONGEST_WINDOWS)
            }
            Some(Keep::Detail) => self.detail,
            Some(Keep::With(other)) => self.of(other),
            Some(Keep::Readings) | None => self.default,
        }
    }
}

/// Who drops old chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionWay {
    /// The database, by policies; the full edition of TimescaleDB.
    Native,
    /// The caller, by calling [`apply_retention`] again and again; the Apache edition refuses policies.
    DropChunks,
}

/// What a call of [`apply_retention`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionOutcome {
    /// How it is done on this server.
    pub way: RetentionWay,
    /// Chunks dropped by this call; policies drop theirs later.
    pub dropped_chunks: usize,
    /// Policies added or changed by this call.
    pub changed_policies: usize,
}

/// Applies the configured retention. To be called at start and then at an interval: on
/// the Apache edition each call drops what is too old by then. Connect as the writer.
///
/// `known` is the way of an earlier call on the same server, `None` at first: a refused policy is an ERROR in
/// the database's log, and is to be there once.
///
/// # Errors
/// The database is away or refuses for another reason than its edition.
pub async fn apply_retention(
    client: &Client,
    retention: &Retention,
    known: Option<RetentionWay>,
) -> Result<RetentionOutcome, Error> {
    let way = known.unwrap_or(RetentionWay::Native);
    let mut outcome = RetentionOutcome { way, dropped_chunks: 0, changed_policies: 0 };
    for table in HYPERTABLES {
        let keep = retention.of(table).as_secs_f64();
        if outcome.way == RetentionWay::Native {
            match native(client, table, keep).await {
                Ok(changed) => {
                    outcome.changed_policies += usize::from(changed);
                    continue;
                }
                Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED.code() => {
                    outcome.way = RetentionWay::DropChunks;
                }
                Err(error) => return Err(error),
            }
        }
        outcome.dropped_chunks += drop_chunks(client, table, keep).await?;
    }
    if outcome.way == RetentionWay::Native {
        outcome.changed_policies += columnstore::apply(client, retention).await?;
    }
    remove_unused_cells(client, retention).await?;
    Ok(outcome)
}

/// A policy with this time; `true` when there was none or another.
async fn native(client: &Client, table: &str, keep_seconds: f64) -> Result<bool, Error> {
    let what = format!("setting the retention of {table}");
    let current = "SELECT (config->>'drop_after')::interval = make_interval(secs => $2) FROM timescaledb_information.jobs \
                   WHERE proc_name = 'policy_retention' AND hypertable_name = $1::text";
    let row = client.query_opt(current, &[&table, &keep_seconds]).await.map_err(Error::sql(&what))?;
    match row.map(|row| row.get::<_, Option<bool>>(0)) {
        Some(Some(true)) => return Ok(false),
        Some(_) => {
            client
                .execute("SELECT remove_retention_policy($1::text::regclass, if_exists => true)", &[&table])
                .await
                .map_err(Error::sql(&what))?;
        }
        None => {}
    }
    let add =
        "SELECT add_retention_policy($1::text::regclass, make_interval(secs => $2), if_not_exists => true)";
    client.execute(add, &[&table, &keep_seconds]).await.map_err(Error::sql(&what))?;
    Ok(true)
}

/// Removes numbers of cells that no row has any more.
async fn remove_unused_cells(client: &Client, retention: &Retention) -> Result<(), Error> {
    let retained = retention.of("mpi_rank_rows").max(retention.of("mpi_node_rows"));
    let sql = "DELETE FROM mpi_cell_key WHERE used_at < now() - make_interval(secs => $1)";
    let seconds = retained.as_secs_f64() + CELL_UNUSED_SECONDS;
    client
        .execute(sql, &[&seconds])
        .await
        .map_err(Error::sql("removing numbers of cells that no row has"))?;
    Ok(())
}

async fn drop_chunks(client: &Client, table: &str, keep_seconds: f64) -> Result<usize, Error> {
    let drop = "SELECT drop_chunks($1::text::regclass, older_than => now() - make_interval(secs => $2))";
    let what = format!("dropping old chunks of {table}");
    let rows = client.query(drop, &[&table, &keep_seconds]).await.map_err(Error::sql(&what))?;
    Ok(rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_can_have_its_own_time_and_a_wrong_name_is_an_error() {
        let mut retention = Retention::for_all(Duration::from_secs(60));
        retention.set("mpi_ops", Duration::from_secs(5)).unwrap();
        assert_eq!(retention.of("mpi_ops"), Duration::from_secs(5));
        assert_eq!(retention.of("events"), Duration::from_secs(60));
        assert_eq!(retention.of("nvlink_minutes"), Duration::from_secs(60));
        let longer = retention.clone().with_minutes(Duration::from_secs(90));
        assert_eq!(longer.of("nvlink_minutes"), Duration::from_secs(90));
        assert_eq!(longer.of("link_share_minutes"), Duration::from_secs(90));
        assert_eq!(longer.of("link_shares"), Duration::from_secs(60));
        assert_eq!(Retention::default().of("link_shares"), DEFAULT_ROWS);
        let of_rows = |retention: Retention| retention.of("link_shares").as_secs();
        let week = Retention::for_all(Duration::from_secs(7 * 86_400));
        assert_eq!(of_rows(week.clone()), 86_400);
        assert_eq!(of_rows(week.with_rows(Duration::from_secs(3 * 86_400))), 86_400);
        assert_eq!(longer.of("link_share_hours"), longer.of("link_share_minutes"));
        retention.set("nvlink_counters", Duration::from_secs(7)).unwrap();
        assert_eq!(retention.of("nvlink_blocks"), Duration::from_secs(7));
        assert!(retention.set("mpi_op", Duration::ZERO).unwrap_err().contains("mpi_ops"));
    }
}
