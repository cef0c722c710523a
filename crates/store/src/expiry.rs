//! Retention: a policy of the registry on both editions (`retention_policy`), and one procedure that goes by it (`internal.expire`). Upkeep calls
//! it on TimescaleDB's Apache edition; on the full one a job of the database does, which also makes columns of old chunks (`columnstore`).
//! Policies of TimescaleDB are not used: they believe one clock. Either way nothing goes without a permission (`clock_check`). The edition
//! is found by calling, not by reading a setting.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::columnstore;
use crate::error::Error;
use crate::retention::{Retention, RetentionWay};
use crate::tables::{TotalForm, hypertables};

/// How often the database's job runs. A round in which nothing is old takes some milliseconds.
const JOB_INTERVAL_SECONDS: f64 = 60.0;

/// What a call of [`apply_retention`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionOutcome {
    /// How it is done on this server.
    pub way: RetentionWay,
    /// Chunks dropped so far, by whichever way, since the database was made.
    pub dropped_in_all: u64,
    /// Chunks dropped by this call.
    pub dropped_chunks: u64,
    /// Policies, settings of columnstores and jobs that this call added or changed.
    pub changed_policies: usize,
    /// Whether there is a permission to drop (`clock_check`).
    pub is_permitted: bool,
}

/// Writes the configured retention into the database and lets it be applied. To be called at start and then at an interval: on the
/// Apache edition each call drops what is too old by then. Connect as the writer.
///
/// `known` is the way of an earlier call on the same server, `None` at first: a refused job is an ERROR in
/// the database's log, and is to be there once.
///
/// # Errors
/// The database is away or refuses for another reason than its edition.
pub async fn apply_retention(
    client: &Client,
    retention: &Retention,
    known: Option<RetentionWay>,
) -> Result<RetentionOutcome, Error> {
    let (way, is_new) = match known {
        Some(RetentionWay::Upkeep) => (RetentionWay::Upkeep, false),
        _ => ensure_job(client).await?,
    };
    let mut changed = usize::from(is_new) + write_policies(client, retention, way).await?;
    let (before, _) = dropped_in_all(client).await?;
    match way {
        RetentionWay::DatabaseJob => changed += columnstore::apply(client, retention).await?,
        RetentionWay::Upkeep => {
            client
                .batch_execute("CALL internal.expire()")
                .await
                .map_err(Error::sql("dropping old chunks"))?;
        }
    }
    let (dropped_in_all, is_permitted) = dropped_in_all(client).await?;
    Ok(RetentionOutcome {
        way,
        dropped_in_all,
        dropped_chunks: dropped_in_all - before.min(dropped_in_all),
        changed_policies: changed,
        is_permitted,
    })
}

/// Whether the database has the job that drops, and whether it was added now; the Apache edition refuses it.
async fn ensure_job(client: &Client) -> Result<(RetentionWay, bool), Error> {
    let what = "adding the job that drops old chunks";
    let present = "SELECT EXISTS (SELECT FROM timescaledb_information.jobs WHERE proc_schema = 'internal' AND proc_name = 'expire')";
    if client.query_one(present, &[]).await.map_err(Error::sql(what))?.get(0) {
        return Ok((RetentionWay::DatabaseJob, false));
    }
    let add = "SELECT public.add_job('internal.expire'::regproc, make_interval(secs => $1))";
    match client.execute(add, &[&JOB_INTERVAL_SECONDS]).await {
        Ok(_) => Ok((RetentionWay::DatabaseJob, true)),
        Err(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => {
            Ok((RetentionWay::Upkeep, false))
        }
        Err(error) => Err(Error::sql(what)(error)),
    }
}

/// Writes the policies that differ; how many did.
async fn write_policies(client: &Client, retention: &Retention, way: RetentionWay) -> Result<usize, Error> {
    let (mut names, mut keep, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut carried, mut keys) = (Vec::new(), Vec::new());
    for (table, chunks) in hypertables() {
        names.push(table.name);
        keep.push(retention.of(table.name).as_secs_f64());
        let after = columnstore::columns_after(table, chunks, retention, way);
        columns.push(after.map(|after| after.as_secs_f64()));
        let (form, key) = table.carried().unzip();
        carried.push(form.map(TotalForm::name));
        keys.push(key.map(|key| key.join(",")));
    }
    let write = "
        WITH wanted AS (
            SELECT w.hypertable, make_interval(secs => w.keep) AS keep, make_interval(secs => w.after) AS columns_after, w.carried_by,
                string_to_array(w.carried_key, ',') AS carried_key
            FROM unnest($1::text[], $2::float8[], $3::float8[], $4::text[], $5::text[]) AS w (hypertable, keep, after, carried_by, carried_key)
        ), gone AS (
            DELETE FROM internal.retention_policy p WHERE p.hypertable <> ALL ($1)
        )
        INSERT INTO internal.retention_policy AS p (hypertable, keep, columns_after, carried_by, carried_key)
        SELECT * FROM wanted ORDER BY hypertable
        ON CONFLICT (hypertable) DO UPDATE SET keep = excluded.keep, columns_after = excluded.columns_after,
            carried_by = excluded.carried_by, carried_key = excluded.carried_key
        WHERE (p.keep, p.columns_after, p.carried_by, p.carried_key)
            IS DISTINCT FROM (excluded.keep, excluded.columns_after, excluded.carried_by, excluded.carried_key)";
    let written = client.execute(write, &[&names, &keep, &columns, &carried, &keys]).await;
    let written = written.map_err(Error::sql("writing how long rows are kept"))?;
    Ok(usize::try_from(written).unwrap_or(usize::MAX))
}

/// Chunks that were dropped so far, and whether any may be dropped now.
async fn dropped_in_all(client: &Client) -> Result<(u64, bool), Error> {
    let query = "SELECT coalesce(sum(dropped_chunks), 0)::bigint, internal.expiry_time() IS NOT NULL FROM internal.retention_policy";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("counting chunks that were dropped"))?;
    Ok((row.get::<_, i64>(0).unsigned_abs(), row.get(1)))
}
