//! Changes of the schema: a later step keeps a database's data, its rights and what others built on it; functions and views follow their files; readers go on meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use throughline_store::{Database, migrate, schema_text, schema_version, testing};
use tokio_postgres::Client;

use crate::job_links::SEED;

/// Rows of kinds that [`SEED`] does not have.
pub const MORE: &str = "
INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source)
VALUES ('allreduce', 8192, 'solve', 'ring', 'observed');
INSERT INTO internal.mpi_rank_rows (time, job_id, rank, node_id, epoch, source, is_folded, cells)
SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '10 s', 1, r, 1, '2026-11-20 12:00:00+00', 'mpi', n % 3 > 0,
       pg_temp.packed_cells(ARRAY[1], ARRAY[10 * n], ARRAY[81920 * n], ARRAY[500000000 * n])
FROM generate_series(1::bigint, 10) n, generate_series(0, 1) r;
INSERT INTO internal.mpi_rank_peers (time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages)
SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '10 s', 1, r, 1, 'logical', '2026-11-20 12:00:00+00', 'mpi', n = 1,
       ARRAY[1 - r], ARRAY[8192 * n], ARRAY[n] FROM generate_series(1, 10) n, generate_series(0, 1) r;
INSERT INTO internal.mpi_regions (time, job_id, rank, node_id, region, epoch, source, visits, elapsed_seconds, own_seconds, mpi_calls, mpi_seconds)
VALUES ('2026-11-20 12:01:00+00', 1, 0, 1, 'solve', '2026-11-20 12:00:00+00', 'mpi', 3, 4, 5, 6, 7);
INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
SELECT id, guid, 'ca', 'n' || id || ' HCA-1', id, 1, 2, guid, 1, '2026-11-20' FROM internal.ib_node_key;
INSERT INTO internal.ib_port (port_id, ib_node_id, port, port_guid, lid, state, physical_state, width, speed, rate_bytes_per_second,
                     remote_port_id, valid_from)
SELECT id, ib_node_id, 1, 'x', id, 'active', 'link_up', '4x', 'hdr', 1000, 3 - id, '2026-11-20' FROM internal.ib_port_key;
INSERT INTO internal.ib_link (port_a_id, port_b_id, valid_from) VALUES (1, 2, '2026-11-20');
INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds, transmit_bytes_per_second, transmit_wait_bytes_per_second,
                             rate_bytes_per_second, errors)
VALUES ('2026-11-20 12:00:00+00', 1, '2026-11-20', 60, 500, 10, 1000, 2);
INSERT INTO internal.events (time, instance, source, kind, severity, text)
VALUES ('2026-11-20 12:00:00+00', 'n1', 'gpu', 'source.down', 'error', 'GPU 1''s driver');
INSERT INTO internal.self_stat_rows (time, instance, sources, labels, names, readings)
SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '10 s', 'n1', '{spool,spool}', array_fill(''::text, '{2}'), '{records,spool_bytes}', ARRAY[n, n]
FROM generate_series(1, 3) n;
INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
VALUES ('2026-11-20 12:00:00+00', 'fabric:1', 'mad', 2, 1, 1, 0.5);
INSERT INTO internal.batch_ledger (spool_id, sequence, owner) VALUES ('00000000-0000-0000-0000-000000000001', 7, 'node:n1');
UPDATE internal.minute_state SET made_until = '2026-11-20 12:01:00+00', noticed_until = '2026-11-20 12:03:00+00';
";

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What the catalogue says about everything of ours: columns, comments, constraints, indexes, bodies of functions and
/// views, rights.
async fn whole_schema(database: &Database) -> Vec<String> {
    let client = database.connect().await.unwrap();
    let query = "
        SELECT format('%s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                      col_description(c.oid, a.attnum))
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT format('%s %s %s', c.relname, obj_description(c.oid, 'pg_class'), c.relacl) FROM pg_class c
        WHERE c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace)
        UNION ALL
        SELECT c.relname || pg_get_viewdef(c.oid) FROM pg_class c
        WHERE c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND c.relkind = 'v'
        UNION ALL
        SELECT pg_get_functiondef(f.oid) || coalesce(obj_description(f.oid, 'pg_proc'), '') FROM pg_proc f
        WHERE f.pronamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND f.prokind = 'f'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e')
        UNION ALL
        SELECT name || checksum FROM internal.schema_objects
        ORDER BY 1";
    let rows = client.query(query, &[]).await.unwrap();
    let lines: Vec<Option<String>> = rows.iter().map(|row| row.get(0)).collect();
    lines.into_iter().flatten().collect()
}

/// Rows of tables and views as one checksum each, over these columns; of all tables and views where there are none.
async fn contents(
    client: &Client,
    columns: Option<&BTreeMap<String, String>>,
) -> (BTreeMap<String, String>, BTreeMap<String, (i64, String)>) {
    let all = "SELECT c.relnamespace::regnamespace::text || '.' || c.relname, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) \
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
               WHERE c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND c.relkind IN ('r', 'v') AND a.attnum > 0 \
                 AND NOT a.attisdropped AND c.relname <> 'schema_migrations' GROUP BY c.relnamespace, c.relname";
    let columns: BTreeMap<String, String> = match columns {
        Some(columns) => columns.clone(),
        None => client.query(all, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect(),
    };
    let mut rows = BTreeMap::new();
    for (name, list) in &columns {
        let query = format!(
            "SELECT count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM (SELECT {list} FROM {name}) t"
        );
        let row = client.query_one(&query, &[]).await.unwrap();
        rows.insert(name.clone(), (row.get(0), row.get(1)));
    }
    (columns, rows)
}

#[tokio::test]
async fn the_text_of_the_schema_is_current() {
    let text = schema_text(&testing::database().await).await.unwrap();
    let written = std::fs::read_to_string(folder("schema").join("current.sql")).unwrap();
    assert!(text == written, "crates/store/schema/current.sql is out of date: run `cargo xtask schema`");
}

#[tokio::test]
async fn a_later_step_keeps_the_data_and_what_others_built() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(SEED).await.unwrap();
    client.batch_execute(&[testing::PACKED_CELLS, MORE].concat()).await.unwrap();
    let theirs = "CREATE SCHEMA theirs; CREATE VIEW theirs.links AS SELECT name, speed FROM public.ib_link_named; \
                  CREATE VIEW theirs.totals AS SELECT job_key, sum(bytes) AS bytes FROM public.mpi_op_totals GROUP BY 1";
    client.batch_execute(theirs).await.unwrap();
    let (columns, before) = contents(&client, None).await;
    let seeded = before.values().filter(|(rows, _)| *rows > 0).count();
    assert!(seeded > 30, "{before:#?}");
    let step =
        "CREATE TABLE internal.later (id integer PRIMARY KEY); ALTER TABLE internal.run ADD COLUMN later integer DEFAULT 7;
        ALTER TABLE internal.ib_port_counters ADD COLUMN later text; UPDATE internal.run SET later = 8";
    let migrated = testing::migrate_with_step(&database, step).await.unwrap();
    assert_eq!((migrated.applied, migrated.version), (1, schema_version() + 1));
    let again = testing::migrate_with_step(&database, step).await.unwrap();
    assert_eq!((again.applied, again.objects), (0, 0), "replayed");
    let (_, after) = contents(&client, Some(&columns)).await;
    assert_eq!(after, before);
    for (view, rows) in [("links", 1), ("totals", 1)] {
        let count = client.query_one(&format!("SELECT count(*) FROM theirs.{view}"), &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), rows, "{view}");
    }
    client.batch_execute("DROP SCHEMA theirs CASCADE").await.unwrap();
    let fresh = testing::empty_database().await;
    assert_eq!(testing::migrate_with_step(&fresh, step).await.unwrap().version, schema_version() + 1);
    assert_eq!(whole_schema(&database).await, whole_schema(&fresh).await);
    let error = migrate(&database).await.unwrap_err().to_string();
    assert!(error.contains("use a newer throughline"), "{error}");
}

#[tokio::test]
async fn a_step_that_fails_changes_nothing() {
    let database = testing::database().await;
    let before = whole_schema(&database).await;
    let step = "ALTER TABLE internal.run ADD COLUMN later integer; SELECT 1 / 0";
    let error = testing::migrate_with_step(&database, step).await.unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(whole_schema(&database).await, before);
    assert_eq!(migrate(&database).await.unwrap().applied, 0);
}

/// Makes the next start apply these objects again.
async fn make_due(client: &Client, names: &[&str]) {
    let changed = client
        .execute(
            "UPDATE internal.schema_objects SET checksum = '' WHERE name = ANY ($1) OR $1 = '{}'",
            &[&names],
        )
        .await
        .unwrap();
    assert!(changed > 0, "{names:?}");
}

#[tokio::test]
async fn functions_and_views_follow_their_files() {
    let database = testing::database().await;
    let expected = whole_schema(&database).await;
    assert_eq!(migrate(&database).await.unwrap().objects, 0);
    let client = database.connect().await.unwrap();
    for (change, objects) in [
        // Replaced in place: other text, and one more column than there was.
        (
            "DROP VIEW internal.rejected_records; CREATE VIEW internal.rejected_records AS SELECT ''::text AS sender, ''::text AS reason",
            1,
        ),
        (
            "CREATE OR REPLACE FUNCTION internal.at_most_one(ratio double precision) RETURNS double precision \
          LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN 7",
            1,
        ),
        // Other results: the function that no view uses is made again alone.
        (
            "DROP FUNCTION public.job_links; CREATE FUNCTION public.job_links(job bigint) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            1,
        ),
        // Other arguments: the old one goes, also where it is called in the same way.
        (
            "DROP FUNCTION public.host_port_rates; CREATE FUNCTION public.host_port_rates(since timestamptz) RETURNS integer \
          LANGUAGE sql AS 'SELECT 1'",
            1,
        ),
        // A column of another type, beneath two others.
        (
            "DROP VIEW internal.mpi_op_cell_totals CASCADE; CREATE VIEW internal.mpi_op_cell_totals AS SELECT 1 AS job_key, 2 AS job_id; \
          CREATE VIEW public.mpi_op_totals AS SELECT job_key FROM internal.mpi_op_cell_totals",
            2,
        ),
        // Lost.
        ("DROP VIEW public.pvar_table", 1),
        ("DROP FUNCTION internal.at_most_one CASCADE", 2),
        // Not of this program, but installed by one: a view, and a function beneath it.
        (
            "CREATE FUNCTION internal.old_f() RETURNS integer LANGUAGE sql RETURN 1; \
          CREATE VIEW public.old_v AS SELECT internal.old_f() AS one; \
          INSERT INTO internal.schema_objects (name, kind, schema, checksum) \
          VALUES ('old_v', 'view', 'public', ''), ('old_f', 'function', 'internal', '')",
            2,
        ),
    ] {
        client.batch_execute(change).await.unwrap();
        let names: Vec<&str> =
            ["rejected_records", "at_most_one", "job_links", "host_port_rates", "mpi_op_cell_totals"]
                .into_iter()
                .filter(|name| change.contains(&format!(".{name}")))
                .collect();
        if !names.is_empty() {
            make_due(&client, &names).await;
        }
        let migrated = migrate(&database).await.unwrap();
        assert!(migrated.objects >= objects, "{change}: {migrated:?}");
        assert_eq!(whole_schema(&database).await, expected, "{change}");
    }
}

#[tokio::test]
async fn rights_survive_a_view_that_has_to_be_made_again() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client
        .batch_execute(
            "DROP VIEW internal.mpi_messages; CREATE VIEW internal.mpi_messages AS SELECT 'x'::text AS job_id; \
             GRANT SELECT, INSERT ON internal.mpi_messages TO PUBLIC; REVOKE ALL ON FUNCTION internal.job_span FROM PUBLIC; \
             GRANT EXECUTE ON FUNCTION internal.job_span TO throughline_read WITH GRANT OPTION; \
             CREATE OR REPLACE FUNCTION internal.job_span(job bigint, extra integer) RETURNS integer LANGUAGE sql RETURN 1; \
             DROP FUNCTION internal.job_span(bigint)",
        )
        .await
        .unwrap();
    client
        .batch_execute("REVOKE ALL ON FUNCTION internal.job_span FROM PUBLIC; GRANT EXECUTE ON FUNCTION internal.job_span TO throughline_read")
        .await
        .unwrap();
    make_due(&client, &["mpi_messages", "job_span"]).await;
    migrate(&database).await.unwrap();
    let query = "SELECT has_table_privilege('throughline_read', 'internal.mpi_messages', 'SELECT'), \
                        (SELECT relacl::text LIKE '%=ar/%' FROM pg_class WHERE relname = 'mpi_messages'), \
                        has_function_privilege('throughline_read', 'internal.job_span(bigint)', 'EXECUTE'), \
                        (SELECT proacl::text NOT LIKE '%{=X%' AND proacl::text NOT LIKE '%,=X%' \
                         FROM pg_proc WHERE proname = 'job_span')";
    let row = client.query_one(query, &[]).await.unwrap();
    let rights: Vec<bool> = (0..4).map(|column| row.get(column)).collect();
    assert_eq!(rights, [true; 4], "reading role, everybody, reading role, not everybody");
}

#[tokio::test]
async fn a_view_of_somebody_elses_stops_what_would_break_it_and_nothing_is_changed() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client
        .batch_execute(
            "DROP VIEW internal.mpi_messages; CREATE VIEW internal.mpi_messages AS SELECT 'x'::text AS job_id; CREATE SCHEMA theirs; \
             CREATE VIEW theirs.messages AS SELECT job_id FROM internal.mpi_messages",
        )
        .await
        .unwrap();
    make_due(&client, &["mpi_messages", "at_most_one"]).await;
    let before = whole_schema(&database).await;
    let error = migrate(&database).await.unwrap_err().to_string();
    assert!(error.contains("theirs.messages") && error.contains("view internal.mpi_messages"), "{error}");
    assert!(error.contains("drop it"), "the remedy: {error}");
    assert_eq!(whole_schema(&database).await, before);
    client.batch_execute("DROP VIEW theirs.messages").await.unwrap();
    migrate(&database).await.unwrap();
}

#[tokio::test]
async fn readers_go_on_while_several_servers_change_functions_and_views() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(SEED).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let queries = [
        "SELECT count(*) FROM public.ib_link_named l JOIN public.ib_port_named p ON p.port_id = l.port_a_id",
        "SELECT count(*) FROM public.ib_port_named p LEFT JOIN public.ib_link_named l ON p.port_id = l.port_a_id",
        "SELECT count(*) FROM public.ib_port_rates('2026-11-20 12:00:00+00', '2026-11-20 12:01:00+00')",
        "SELECT count(*) FROM public.mpi_rank_totals t JOIN public.job_summary s ON s.id = t.job_id",
    ];
    let readers = queries.map(|query| {
        let (database, is_done) = (database.clone(), is_done.clone());
        tokio::spawn(async move {
            let reader = database.connect_reader().await.unwrap();
            let statement = reader.prepare(query).await.unwrap();
            let mut read = 0;
            while !is_done.load(Ordering::Relaxed) {
                reader.query(&statement, &[]).await.unwrap();
                read += 1;
            }
            read
        })
    });
    let expected = whole_schema(&database).await;
    for _ in 0..3 {
        make_due(&client, &[]).await;
        let servers = futures::future::join_all((0..2).map(|_| migrate(&database))).await;
        let objects: Vec<usize> = servers.into_iter().map(|migrated| migrated.unwrap().objects).collect();
        assert!(
            objects.contains(&0) && objects.iter().any(|objects| *objects > 30),
            "one does it: {objects:?}"
        );
    }
    is_done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(whole_schema(&database).await, expected);
}

#[tokio::test]
async fn a_reader_in_a_transaction_is_waited_for() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut reader = database.connect_reader().await.unwrap();
    let transaction = reader.transaction().await.unwrap();
    transaction.query("SELECT * FROM public.ib_link_named", &[]).await.unwrap();
    make_due(&client, &[]).await;
    let starting = tokio::spawn({
        let database = database.clone();
        async move { migrate(&database).await }
    });
    // It comes to the lock, gives it up, and comes back; meanwhile others get what they ask for.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = database.connect_reader().await.unwrap();
    other.query("SELECT * FROM public.ib_link_named", &[]).await.unwrap();
    assert!(!starting.is_finished());
    transaction.query("SELECT * FROM public.ib_port_named", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(starting.await.unwrap().unwrap().objects > 30);
}
