//! The schemas `public` (for people) and `internal`: what is in each, that nothing of ours is looked for by a session's
//! `search_path`, and that functions of SQL are still put into the queries that call them.

use std::collections::BTreeMap;

use throughline_store::{Database, READ_ROLE, testing};
use tokio_postgres::Client;

use crate::job_links::SEED;
use crate::schema_changes::MORE;

/// What psql's `\d` shows.
const VIEWS: [&str; 18] = [
    "contested_ranks",
    "event_named",
    "ib_link_named",
    "ib_port_named",
    "intra_node_topo",
    "job_summary",
    "link_contributors",
    "moved_times",
    "mpi_node_account",
    "mpi_op_series",
    "mpi_op_totals",
    "mpi_peer_totals",
    "mpi_rank_account",
    "mpi_rank_totals",
    "nvlink_domain",
    "nvlink_metrics",
    "pvar_table",
    "self_stats",
];

/// Functions for people: rates and readings of a range of time, and parts of queries.
const FUNCTIONS: [&str; 18] = [
    "counter_increase",
    "counter_rate",
    "gpu_metric_rates",
    "gpu_pcie_rates",
    "gpu_pcie_readings",
    "gpu_pm_rates",
    "host_port_rates",
    "host_port_readings",
    "ib_port_rates",
    "ib_port_readings",
    "job_links",
    "jobs_running",
    "link_contributor_minutes",
    "link_minute_shares",
    "nvlink_link_readings",
    "nvlink_metrics_between",
    "nvlink_rates",
    "nvlink_readings",
];

/// Functions of ours, not of the extension, with a condition.
fn functions(columns: &str, condition: &str) -> String {
    format!(
        "SELECT {columns} FROM pg_proc f JOIN pg_language l ON l.oid = f.prolang
         WHERE f.pronamespace IN ('public'::regnamespace, 'internal'::regnamespace)
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e') AND {condition} ORDER BY 1"
    )
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// A database with rows of each kind.
async fn seeded() -> Database {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(SEED).await.unwrap();
    client.batch_execute(&[testing::PACKED_CELLS, MORE].concat()).await.unwrap();
    database
}

#[tokio::test]
async fn a_person_sees_some_ten_views_each_with_a_comment() {
    let client = testing::database().await.connect().await.unwrap();
    let relations =
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1";
    assert_eq!(texts(&client, relations).await, VIEWS);
    let public = functions("f.proname::text", "f.pronamespace = 'public'::regnamespace");
    assert_eq!(texts(&client, &public).await, FUNCTIONS);
    let silent = "SELECT relname::text FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'internal'::regnamespace)
                  AND relkind = 'v' AND obj_description(oid, 'pg_class') IS NULL";
    assert!(texts(&client, silent).await.is_empty());
    assert!(
        texts(&client, &functions("f.proname::text", "obj_description(f.oid, 'pg_proc') IS NULL"))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn functions_of_sql_are_bound_at_creation_and_only_others_set_a_search_path() {
    let client = testing::database().await.connect().await.unwrap();
    let unbound = functions(
        "f.proname::text",
        "l.lanname = 'sql' AND (f.prosqlbody IS NULL OR f.proconfig IS NOT NULL)",
    );
    assert!(texts(&client, &unbound).await.is_empty(), "{:?}", texts(&client, &unbound).await);
    // A procedure with a setting of its own can't commit: the one that there is calls functions of ours only.
    let open = functions(
        "f.proname::text",
        "f.prokind <> 'p' AND l.lanname <> 'sql' AND NOT coalesce('search_path=\"\"' = ANY (f.proconfig), false)",
    );
    assert!(texts(&client, &open).await.is_empty(), "{:?}", texts(&client, &open).await);
    assert!(texts(&client, &functions("f.proname::text", "l.lanname = 'plpgsql'")).await.len() > 10);
}

/// What every view and every function for people has, in a session with this setting.
async fn contents(database: &Database, search_path: &str) -> BTreeMap<String, String> {
    let client = testing::connect_as(database, database.name(), READ_ROLE).await.unwrap();
    client.batch_execute(&format!("SET search_path = {search_path}")).await.unwrap();
    let views = "SELECT pg_catalog.format('%I.%I', schemaname, viewname) FROM pg_catalog.pg_views
                 WHERE schemaname IN ('public', 'internal') AND viewname <> 'rejected_records'";
    let mut sources = texts(&client, views).await;
    let range = "'2026-11-20 12:00:00+00', '2026-11-20 12:02:00+00'";
    for name in FUNCTIONS {
        sources.push(match name {
            "counter_increase" => "public.counter_increase(1, 3)".into(),
            "counter_rate" => "public.counter_rate(1, 3, 2)".into(),
            "job_links" => "public.job_links(1)".into(),
            "jobs_running" => "public.jobs_running('2026-11-20 12:01:00+00')".into(),
            _ => format!("public.{name}({range})"),
        });
    }
    let mut all = BTreeMap::new();
    for source in sources {
        let query = format!(
            "SELECT pg_catalog.count(*) || ' ' || coalesce(pg_catalog.md5(pg_catalog.string_agg(t::text, '|' ORDER BY t::text)), '')
             FROM {source} t"
        );
        let row = client.query_one(&query, &[]).await.unwrap_or_else(|error| panic!("{source}: {error:?}"));
        all.insert(source, row.get(0));
    }
    all
}

/// Tables and functions with our names in a schema that a reader's path has first, and some of PostgreSQL's own.
const DECOYS: &str = "
CREATE SCHEMA decoys;
GRANT USAGE ON SCHEMA decoys TO throughline_query, throughline_read;
DO $do$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT relname FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'internal'::regnamespace)
               AND relkind IN ('r', 'v') LOOP
        EXECUTE format('CREATE TABLE decoys.%I (id integer, name integer, time integer)', one.relname);
    END LOOP;
    FOR one IN SELECT f.proname, pg_get_function_identity_arguments(f.oid) AS arguments FROM pg_proc f
               WHERE f.pronamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND f.prokind = 'f'
               AND NOT coalesce(f.proargmodes && '{o,b}', false)
               AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e') LOOP
        EXECUTE format('CREATE FUNCTION decoys.%I(%s) RETURNS integer LANGUAGE plpgsql AS
                        $f$ BEGIN RAISE EXCEPTION ''a decoy was called''; END $f$',
                       one.proname, one.arguments);
    END LOOP;
END
$do$;
CREATE FUNCTION decoys.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a decoy was called'; END $$;
CREATE FUNCTION decoys.time_bucket(interval, timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'a decoy was called'; END $$;
";

#[tokio::test]
async fn every_view_is_the_same_under_a_hostile_search_path() {
    let database = seeded().await;
    let writer = database.connect().await.unwrap();
    writer.batch_execute(DECOYS).await.unwrap();
    let expected = contents(&database, "''").await;
    let filled = expected.values().filter(|rows| !rows.starts_with("0 ")).count();
    assert!(expected.len() > 40 && filled > 15, "{expected:#?}");
    assert_eq!(contents(&database, "decoys, public, internal, pg_catalog").await, expected);
}

#[tokio::test]
async fn the_reading_role_creates_and_changes_nothing_in_either_schema() {
    let database = testing::database().await;
    let reader = testing::connect_as(&database, database.name(), READ_ROLE).await.unwrap();
    reader.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    for attack in [
        "CREATE TABLE internal.mine (n integer)",
        "CREATE VIEW public.mine AS SELECT 1",
        "CREATE FUNCTION internal.mine() RETURNS integer LANGUAGE sql RETURN 1",
        "CREATE OR REPLACE VIEW public.job_summary AS SELECT 1",
        "DROP VIEW public.job_summary",
        "ALTER TABLE internal.run ADD COLUMN mine integer",
        "UPDATE internal.run SET key = 'mine'",
        "TRUNCATE internal.run",
        "COMMENT ON VIEW public.job_summary IS 'mine'",
    ] {
        let error = reader.batch_execute(attack).await.expect_err(attack);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{attack}: {error}");
    }
}

/// Calls of SQL functions that have to be part of the query, so that conditions and unused columns reach the tables.
#[tokio::test]
async fn functions_of_sql_are_part_of_the_queries_that_call_them() {
    let client = seeded().await.connect().await.unwrap();
    let range = "now() - INTERVAL '1 hour', now()";
    for (query, functions) in [
        (
            format!("SELECT transmit_data_bytes FROM public.ib_port_readings({range}) WHERE port_id = 1"),
            &["ib_port_readings", "packed_part"][..],
        ),
        (
            format!("SELECT transmit_bytes_per_second FROM public.ib_port_rates({range}) WHERE port_id = 1"),
            &["ib_port_rates", "ib_port_readings", "row_rules_of"],
        ),
        (
            format!("SELECT * FROM public.host_port_rates({range})"),
            &["host_port_rates", "host_port_readings"],
        ),
        (
            format!("SELECT * FROM public.nvlink_rates({range})"),
            &["nvlink_rates", "nvlink_link_readings", "packed_link", "packed_part"],
        ),
        (format!("SELECT * FROM public.gpu_pcie_rates({range})"), &["gpu_pcie_rates", "gpu_pcie_readings"]),
        (
            format!("SELECT * FROM public.link_minute_shares({range}) WHERE port_id = 1"),
            &["link_minute_shares"],
        ),
        (
            "SELECT calls FROM internal.mpi_op_rows WHERE job_id = 1".into(),
            &["mpi_packed_cells", "packed_rows"],
        ),
        ("SELECT state FROM public.job_summary".into(), &["job_state", "minutely_gap"]),
    ] {
        let plan = texts(&client, &format!("EXPLAIN (VERBOSE, COSTS OFF) {query}")).await.join("\n");
        for function in functions {
            assert!(!plan.contains(&format!("{function}(")), "{function} is called by {query}:\n{plan}");
        }
    }
}
