//! The columnstore of TimescaleDB's full edition: the policies follow the configuration, one job of the database goes by them, and rows that
//! became columns are read, written to, altered and removed as rows are. With programs of that edition in `THROUGHLINE_PG_BIN`; the Apache
//! edition has none of it.

use std::time::Duration;

use crate::batches::{SECOND, START, batch_of_everything, entry};
use throughline_sample::wire::Batch;
use throughline_store::{
    Retention, RetentionWay, Writer, apply_retention, hypertables, observed_retention_way, testing,
};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// Longer than anything here is old.
const ALWAYS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// Of a test that is run without it.
const NEEDS: &str = "THROUGHLINE_PG_BIN has no full edition";

/// Two hours, the shortest time of rows.
const ROWS: Duration = Duration::from_secs(2 * 3600);

/// The tables with a columnstore.
fn with_columns() -> impl Iterator<Item = &'static str> {
    hypertables().filter(|(_, chunks)| chunks.columns.is_some()).map(|(table, _)| table.name)
}

/// Runs the database's own job now, by its number: a throw-away cluster has no workers that would.
async fn run_job(client: &Client) {
    let jobs = "SELECT job_id FROM timescaledb_information.jobs WHERE proc_name = 'expire'";
    let job: i32 = client.query_one(jobs, &[]).await.unwrap().get(0);
    client.batch_execute(&format!("CALL public.run_job({job})")).await.unwrap();
}

/// Makes columns of every chunk where the edition can, however young; whether it can.
pub async fn to_columns(client: &Client) -> bool {
    let outcome = apply_retention(client, &Retention::for_all(ALWAYS).with_rows(ROWS), None).await.unwrap();
    if outcome.way == RetentionWay::Upkeep {
        return false;
    }
    for table in with_columns() {
        let compress = "SELECT public.compress_chunk(c) FROM public.show_chunks($1::text::regclass) c";
        client.query(compress, &[&format!("internal.{table}")]).await.unwrap();
    }
    true
}

/// Chunks of rows in tables with a columnstore.
async fn chunks_of_rows(client: &Client) -> i64 {
    let left = "SELECT count(*) FROM timescaledb_information.chunks WHERE NOT is_compressed AND hypertable_name = ANY ($1)";
    let tables: Vec<&str> = with_columns().collect();
    client.query_one(left, &[&tables]).await.unwrap().get(0)
}

/// Tables with rows, each with what they have. Without those that have no key: the same again is another row there.
async fn contents(client: &Client) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for table in with_columns() {
        let query = format!(
            "SELECT jsonb_agg(to_jsonb(r) ORDER BY to_jsonb(r)::text)::text FROM internal.{table} r
             WHERE EXISTS (SELECT FROM pg_index WHERE indrelid = 'internal.{table}'::regclass AND indisprimary)"
        );
        let rows: Option<String> = client.query_one(&query, &[]).await.unwrap().get(0);
        all.extend(rows.map(|rows| (table, rows)));
    }
    all
}

async fn text(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.unwrap().get::<_, Option<String>>(0).unwrap_or_default()
}

/// Policies that make columns, in number, and after how long they do.
async fn policies(client: &Client) -> (i64, String) {
    let query = "SELECT count(columns_after), coalesce(string_agg(DISTINCT columns_after::text, ' '), '') FROM internal.retention_policy";
    let row = client.query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Jobs of the database that drop, thin or compress anything, but for ours.
async fn other_jobs(client: &Client) -> i64 {
    let query = "SELECT count(*) FROM timescaledb_information.jobs WHERE hypertable_name IS NOT NULL";
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn policies_follow_the_configuration() {
    let client = testing::database().await.connect().await.unwrap();
    let outcome = apply_retention(&client, &Retention::default(), None).await.unwrap();
    assert_eq!(other_jobs(&client).await, 0, "a policy of TimescaleDB believes one clock");
    if outcome.way == RetentionWay::Upkeep {
        assert_eq!(policies(&client).await, (0, String::new()));
        // What the job of the other edition looks for.
        let rows = "INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
                        VALUES (now() - INTERVAL '3 days', 'n', 's', 1, 1, 0, 0.1);
                    UPDATE internal.retention_policy SET columns_after = INTERVAL '1 hour' WHERE hypertable = 'coverage'";
        client.batch_execute(rows).await.unwrap();
        let none = client.query("SELECT internal.next_columns('coverage')", &[]).await.unwrap();
        assert!(none.is_empty(), "a table without a columnstore: {none:?}");
        client.batch_execute("CALL internal.expire(1, '{}')").await.unwrap();
        return;
    }
    assert_eq!(observed_retention_way(&client).await.unwrap(), RetentionWay::DatabaseJob);
    let tables = with_columns().count();
    // A policy of each table, the settings of those with columns, and the job.
    assert_eq!(outcome.changed_policies, hypertables().count() + tables + 1);
    assert_eq!(policies(&client).await, (tables.try_into().unwrap(), "01:30:00 25:30:00".to_owned()));
    let again = apply_retention(&client, &Retention::default(), Some(outcome.way)).await.unwrap();
    assert_eq!(again.changed_policies, 0);
    let shorter = Retention::default().with_rows(ROWS);
    let changed = apply_retention(&client, &shorter, Some(outcome.way)).await.unwrap();
    // And windows of link shares go when readings are no longer rows.
    assert_eq!(changed.changed_policies, tables + 1);
    assert_eq!(policies(&client).await, (tables.try_into().unwrap(), "02:00:00 26:00:00".to_owned()));
    // Another order than the program sets.
    let other = "ALTER TABLE internal.mpi_rank_rows SET (timescaledb.compress, timescaledb.compress_segmentby = 'rank', \
                 timescaledb.compress_orderby = 'time')";
    client.batch_execute(other).await.unwrap();
    assert_eq!(apply_retention(&client, &shorter, Some(outcome.way)).await.unwrap().changed_policies, 1);
    // A table whose rows go before they are old enough has no policy; without a time of rows none has.
    let mut day = shorter.clone();
    day.set("mpi_trace", ROWS).unwrap();
    apply_retention(&client, &day, Some(outcome.way)).await.unwrap();
    assert_eq!(policies(&client).await.0, i64::try_from(tables).unwrap() - 1);
    let default = Duration::from_secs(7 * 24 * 3600);
    apply_retention(&client, &Retention::for_all(default), Some(outcome.way)).await.unwrap();
    assert_eq!(policies(&client).await.0, 0);
}

#[tokio::test]
#[ignore = "needs the full edition of TimescaleDB: its folder of programs in THROUGHLINE_PG_BIN"]
async fn columns_are_read_and_written_as_rows_are() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    let mut write = async |batch: Batch| {
        let outcome = writer.write(&[entry(Uuid::new_v4(), 1, batch)]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.denied.len()), (0, 0));
    };
    write(batch_of_everything()).await;
    let before = contents(&client).await;
    assert!(before.len() > 10, "{before:?}");
    assert!(chunks_of_rows(&client).await > 10);
    let outcome = apply_retention(&client, &Retention::for_all(ALWAYS).with_rows(ROWS), None).await.unwrap();
    assert_eq!(outcome.way, RetentionWay::DatabaseJob, "{NEEDS}");
    run_job(&client).await;
    assert_eq!(chunks_of_rows(&client).await, 0);
    assert_eq!(contents(&client).await, before);
    // The same from another spool: no row twice, and none lost.
    write(batch_of_everything()).await;
    assert_eq!(contents(&client).await, before);

    let rows = "SELECT count(*)::text FROM internal.mpi_rank_rows";
    let two_more = (text(&client, rows).await.parse::<u64>().unwrap() + 2).to_string();
    // A row that comes late, and what is before and behind it.
    let calls = "SELECT sum(calls)::text FROM public.mpi_op_totals WHERE operation = 'allreduce'";
    for seconds in [2, 1] {
        let mut late =
            Batch { jobs: batch_of_everything().jobs, node: "node1".to_owned(), ..Batch::default() };
        late.mpi_rank_rows = batch_of_everything().mpi_rank_rows;
        late.mpi_rank_rows[0].time = START + seconds * SECOND;
        late.mpi_rank_rows[0].cells[0].calls += seconds.unsigned_abs() * 100;
        write(late).await;
    }
    assert_eq!(text(&client, rows).await, two_more);
    // Those of the newest row.
    assert_eq!(text(&client, calls).await, "211");
    let all = contents(&client).await;
    run_job(&client).await;
    assert_eq!((text(&client, rows).await, contents(&client).await), (two_more, all));
}

#[tokio::test]
#[ignore = "needs the full edition of TimescaleDB: its folder of programs in THROUGHLINE_PG_BIN"]
async fn tables_with_columns_take_new_columns_and_lose_old_chunks() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    Writer::new(database.clone()).write(&[entry(Uuid::new_v4(), 1, batch_of_everything())]).await.unwrap();
    assert!(to_columns(&client).await, "{NEEDS}");
    // What a migration may do, and what it may not: docs/DATABASE.md.
    for change in [
        "ADD COLUMN later bigint",
        "ADD COLUMN counted integer NOT NULL DEFAULT 1",
        "DROP COLUMN later",
        "RENAME COLUMN counted TO counted_again",
    ] {
        client.batch_execute(&format!("ALTER TABLE internal.mpi_rank_rows {change}")).await.expect(change);
    }
    for change in [
        "ADD COLUMN wrong integer NOT NULL",
        "ADD COLUMN wrong timestamptz DEFAULT now()",
        "ALTER COLUMN rank TYPE bigint",
    ] {
        let refused = client
            .batch_execute(&format!("ALTER TABLE internal.mpi_rank_rows {change}"))
            .await
            .expect_err(change);
        assert_eq!(refused.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED), "{change}: {refused}");
    }
    client.batch_execute("CREATE INDEX added ON internal.mpi_rank_rows (rank, time)").await.unwrap();
    let rows = "SELECT count(*)::text FROM internal.mpi_rank_rows";
    let sum = "SELECT sum(counted_again)::text FROM internal.mpi_rank_rows";
    assert_eq!(text(&client, sum).await, text(&client, rows).await);

    // Totals of jobs that run stay.
    client.batch_execute("UPDATE internal.run SET end_time = start_time").await.unwrap();
    let day = Retention::for_all(Duration::from_secs(24 * 3600)).with_rows(ROWS);
    apply_retention(&client, &day, None).await.unwrap();
    run_job(&client).await;
    assert_eq!(contents(&client).await, []);
}
