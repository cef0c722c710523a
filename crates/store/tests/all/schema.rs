//! The schema: migrations, the catalogue in columns and comments, and what the roles may do.

use std::collections::BTreeMap;

use throughline_sample::catalogue::Table;
use throughline_store::{Database, QUERY_ROLE, READ_ROLE, TABLES, migrate, schema_version, testing};

/// Every column of every table and view of ours, with its type, as one sorted text.
async fn columns(database: &Database) -> Vec<String> {
    let client = database.connect().await.unwrap();
    let query = "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) \
                     || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END \
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
                 WHERE c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND a.attnum > 0 AND NOT a.attisdropped \
                 ORDER BY c.relname, a.attnum";
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn migrating_twice_changes_nothing_and_fresh_equals_migrated() {
    let fresh = testing::empty_database().await;
    assert_eq!(migrate(&fresh).await.unwrap().applied, 1);
    let first = columns(&fresh).await;
    let again = migrate(&fresh).await.unwrap();
    assert_eq!((again.applied, again.version), (0, schema_version()));
    assert_eq!(columns(&fresh).await, first);
    assert_eq!(columns(&testing::database().await).await, first);
    assert!(first.len() > 100, "{}", first.len());
}

#[tokio::test]
async fn many_processes_may_migrate_at_once() {
    let database = testing::empty_database().await;
    let all = futures::future::join_all((0..4).map(|_| migrate(&database))).await;
    let applied: usize = all.into_iter().map(|migrated| migrated.unwrap().applied).sum();
    assert_eq!(applied, 1);
}

#[tokio::test]
async fn a_newer_or_a_foreign_schema_is_refused() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client
        .execute("UPDATE internal.schema_migrations SET checksum = 'x' WHERE version = 1", &[])
        .await
        .unwrap();
    let error = migrate(&database).await.unwrap_err().to_string();
    assert!(error.contains("before 0.1.0") && error.contains("begin an empty database"), "{error}");
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.execute("INSERT INTO internal.schema_migrations VALUES (9999, 'later', '')", &[]).await.unwrap();
    let error = migrate(&database).await.unwrap_err().to_string();
    assert!(error.contains("9999") && error.contains("newer"), "{error}");
}

/// Columns of sample tables that are no metrics.
const OTHER_COLUMNS: [&str; 30] = [
    "is_folded",
    "stored_time",
    "bin_length",
    "covered_since",
    "covered_until",
    "node_id",
    "direction",
    "since",
    "time",
    "port_id",
    "host_port_id",
    "gpu_id",
    "gpu_metric_id",
    "epoch",
    "source",
    "saturated",
    "job_id",
    "rank",
    "operation",
    "size_class_bytes",
    "region",
    "path",
    "algorithm",
    "algorithm_source",
    "peer",
    "kind",
    "name",
    "value",
    "instance",
    "element",
];

#[tokio::test]
async fn columns_and_comments_are_the_catalogues_in_both_directions() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let query = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum) \
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
                 WHERE c.relnamespace = 'internal'::regnamespace AND c.relname = $1 AND a.attnum > 0";
    for table in Table::ALL.into_iter().filter(|table| *table != Table::SelfStats) {
        let rows = client.query(query, &[&table.name()]).await.unwrap();
        let mut found: BTreeMap<String, (String, Option<String>)> =
            rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
        for metric in table.metrics() {
            let place = format!("{}.{}", table.name(), metric.name);
            let (kind, comment) = found.remove(metric.name).unwrap_or_else(|| panic!("no column {place}"));
            let element = if metric.is_fractional() { "double precision" } else { "bigint" };
            let array = if table.has_arrays() { "[]" } else { "" };
            assert_eq!(kind, format!("{element}{array}"), "{place}");
            let comment = comment.unwrap_or_else(|| panic!("no comment on {place}"));
            assert!(comment.starts_with(metric.help), "{place}: {comment}");
            assert!(
                comment.contains(metric.unit.name()) && comment.contains(metric.origin),
                "{place}: {comment}"
            );
        }
        let surplus: Vec<&String> =
            found.keys().filter(|name| !OTHER_COLUMNS.contains(&name.as_str())).collect();
        assert!(
            surplus.is_empty(),
            "{}: columns that the catalogue does not know: {surplus:?}",
            table.name()
        );
    }
    // The views that repeat metric columns follow too.
    for (table, view) in
        [(Table::NvlinkCounters, "nvlink_link_counters"), (Table::IbPortLaneCounters, "ib_port_lane_values")]
    {
        assert!(
            client.query(&format!("SELECT * FROM internal.{view} LIMIT 0"), &[]).await.unwrap().is_empty()
        );
        let statement = client.prepare(&format!("SELECT * FROM internal.{view}")).await.unwrap();
        for metric in table.metrics() {
            assert!(statement.columns().iter().any(|column| column.name() == metric.name), "{}", metric.name);
        }
    }
}

#[tokio::test]
async fn sample_tables_are_hypertables_with_one_index() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    for table in Table::ALL.into_iter().filter(|table| !table.is_view()) {
        let query = "SELECT count(*) FROM timescaledb_information.hypertables WHERE hypertable_name = $1";
        assert_eq!(
            client.query_one(query, &[&table.name()]).await.unwrap().get::<_, i64>(0),
            1,
            "{}",
            table.name()
        );
        let query = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'internal' AND tablename = $1";
        assert_eq!(
            client.query_one(query, &[&table.name()]).await.unwrap().get::<_, i64>(0),
            1,
            "{}",
            table.name()
        );
    }
}

#[tokio::test]
async fn the_reading_roles_read_and_write_nothing() {
    let database = testing::database().await;
    for role in [QUERY_ROLE, READ_ROLE] {
        let reader = testing::connect_as(&database, database.name(), role).await.unwrap();
        assert!(reader.query("SELECT * FROM public.ib_port_named", &[]).await.is_ok());
        assert!(
            reader.query("SELECT * FROM public.ib_port_rates(now() - interval '1 hour')", &[]).await.is_ok()
        );
        assert!(reader.query("SELECT * FROM internal.batch_quarantine", &[]).await.is_err());
        for session in ["", "SET default_transaction_read_only = off;"] {
            let insert = format!("{session} INSERT INTO internal.fabric (name) VALUES ('x')");
            let error = reader.batch_execute(&insert).await.unwrap_err();
            assert!(error.as_db_error().is_some(), "{error}");
        }
    }
}

#[tokio::test]
async fn attack_14_the_reading_role_fills_no_disk_and_holds_no_lock() {
    let database = testing::database().await;
    let reader = testing::connect_as(&database, database.name(), READ_ROLE).await.unwrap();
    // What a session may set for itself is no bound: each is tried with that off.
    reader.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    for attack in [
        "CREATE TEMPORARY TABLE t AS SELECT n FROM generate_series(1, 10) n",
        "SELECT n INTO TEMPORARY t FROM generate_series(1, 10) n",
        "CREATE TABLE public.t (n integer)",
        "CREATE SCHEMA s",
        "CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "SELECT lo_creat(-1)",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_put(1, 0, 'x')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_open(1, 131072)",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(1, 2)",
        "SELECT pg_advisory_xact_lock(1)",
        "SET temp_file_limit = -1",
        "ALTER ROLE throughline_read CONNECTION LIMIT -1",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ] {
        let error = reader.batch_execute(attack).await.unwrap_err();
        let code = error.code().unwrap().code();
        assert_eq!(code, "42501", "{attack}: {error}");
    }
    let shown = async |setting: &str| {
        let row = reader.query_one(&format!("SHOW {setting}"), &[]).await.unwrap();
        row.get::<_, String>(0)
    };
    assert_eq!(shown("statement_timeout").await, "5min");
    assert_eq!(shown("idle_in_transaction_session_timeout").await, "1min");
    assert_eq!(shown("temp_file_limit").await, "4GB");
    let limit = "SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user";
    assert_eq!(reader.query_one(limit, &[]).await.unwrap().get::<_, i32>(0), 30);
    // The writer has what it needs.
    let writer = database.connect().await.unwrap();
    writer.batch_execute("SELECT pg_advisory_lock(1); CREATE TEMPORARY TABLE t (n integer)").await.unwrap();
}

#[tokio::test]
async fn another_server_that_makes_chunks_meanwhile_is_no_failure() {
    let database = testing::database().await;
    let mut other = database.connect().await.unwrap();
    let transaction = other.transaction().await.unwrap();
    transaction.batch_execute("GRANT INSERT ON internal.events TO throughline_read").await.unwrap();
    let starting = tokio::spawn({
        let database = database.clone();
        async move { migrate(&database).await }
    });
    // It waits for the row; then the row is another one.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let watcher = database.connect().await.unwrap();
    while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    transaction.commit().await.unwrap();
    starting.await.unwrap().unwrap();
}

/// Files that list tables and write to none.
const LISTS: [&str; 3] = ["list.rs", "retention.rs", "tables_tests.rs"];

/// The source files of this crate below a folder, but for lists.
fn sources(folder: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension() == Some("rs".as_ref()) && !LISTS.iter().any(|list| name == *list) {
            all += &std::fs::read_to_string(path).unwrap();
        }
    }
    all
}

#[tokio::test]
async fn each_table_is_written_by_some_code() {
    let client = testing::database().await.connect().await.unwrap();
    let tables =
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'internal'::regnamespace AND relkind = 'r'";
    let tables: Vec<String> = client.query(tables, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 70, "{tables:?}");
    let sources = sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let is_written = |table: &&String| {
        // As a whole word: in a statement, or as the name of a table whose statements are made.
        sources.match_indices(table.as_str()).any(|(at, _)| {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let (before, after) = (&sources[..at], &sources[at + table.len()..]);
            !is_word(before.chars().next_back())
                && !is_word(after.chars().next())
                && ["\"", "INTO internal.", "UPDATE internal.", "COPY internal."]
                    .iter()
                    .any(|verb| before.ends_with(verb))
        })
    };
    let dead: Vec<&String> = tables.iter().filter(|table| !is_written(table)).collect();
    assert!(dead.is_empty(), "nothing writes to {dead:?}");
    // And the reverse: what a statement writes to has an entry.
    let written = ["INSERT INTO internal.", "UPDATE internal.", "DELETE FROM internal."]
        .iter()
        .flat_map(|verb| sources.split(verb).skip(1));
    let names = written.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap());
    // Not where the name is made.
    let unknown: Vec<&str> =
        names.filter(|name| !name.is_empty() && !TABLES.iter().any(|table| table.name == *name)).collect();
    assert!(unknown.is_empty(), "no entry of {unknown:?}");
}
