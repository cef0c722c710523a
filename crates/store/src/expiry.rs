//! Old chunks go: by a policy of the database where its edition has one, else by `drop_chunks` from upkeep. Where policies are, so is a
//! columnstore (`columnstore`). Numbers of cells and of lists of names go with the rows that had them. The edition is found by calling, not
//! by reading a setting.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::columnstore;
use crate::error::Error;
use crate::retention::{Retention, RetentionWay};
use crate::tables::hypertables;

/// How long a cell's number stays after the last row that may have it: a writer uses one for a day until it looks it up again, which is
/// noted where the last note is half a day old; and a chunk goes as a whole.
const CELL_UNUSED_SECONDS: f64 = 3.0 * 24.0 * 3600.0;

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
    for table in hypertables().map(|(table, _)| table.name) {
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
    remove_unused_names(client, retention).await?;
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
                .execute("SELECT public.remove_retention_policy(('internal.' || $1::text)::regclass, if_exists => true)", &[&table])
                .await
                .map_err(Error::sql(&what))?;
        }
        None => {}
    }
    let add = "SELECT public.add_retention_policy(('internal.' || $1::text)::regclass, make_interval(secs => $2), if_not_exists => true)";
    client.execute(add, &[&table, &keep_seconds]).await.map_err(Error::sql(&what))?;
    Ok(true)
}

/// Removes numbers of cells that no row has any more.
async fn remove_unused_cells(client: &Client, retention: &Retention) -> Result<(), Error> {
    let retained = retention.of("mpi_rank_rows").max(retention.of("mpi_node_rows"));
    let sql = "DELETE FROM internal.mpi_cell_key WHERE used_at < now() - make_interval(secs => $1)";
    let seconds = retained.as_secs_f64() + CELL_UNUSED_SECONDS;
    client
        .execute(sql, &[&seconds])
        .await
        .map_err(Error::sql("removing numbers of cells that no row has"))?;
    Ok(())
}

/// Removes lists of self-metrics that no row has any more: rows get their numbers when their chunk is thinned, at most a day after it
/// ended.
async fn remove_unused_names(client: &Client, retention: &Retention) -> Result<(), Error> {
    let sql = "DELETE FROM internal.self_stat_names WHERE used_at < now() - make_interval(secs => $1)";
    let seconds = retention.of("self_stat_rows").as_secs_f64() + CELL_UNUSED_SECONDS;
    client.execute(sql, &[&seconds]).await.map_err(Error::sql("removing lists that no row has"))?;
    Ok(())
}

async fn drop_chunks(client: &Client, table: &str, keep_seconds: f64) -> Result<usize, Error> {
    let usual = "now() - make_interval(secs => $2)";
    // After an outage windows of link shares are made that are old already: they wait for their minutes. Where no more are made, not
    // for long.
    let waiting = format!(
        "greatest(least({usual}, (SELECT minutes_until FROM internal.link_share_state)), {usual} - INTERVAL '1 day')"
    );
    let until = if table == "link_shares" { waiting.as_str() } else { usual };
    let drop =
        format!("SELECT public.drop_chunks(('internal.' || $1::text)::regclass, older_than => {until})");
    let what = format!("dropping old chunks of {table}");
    let rows = client.query(&drop, &[&table, &keep_seconds]).await.map_err(Error::sql(&what))?;
    Ok(rows.len())
}
