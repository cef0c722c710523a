//! Jobs that run for longer than rows are kept: their totals are the same whatever has expired.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::batches::{SECOND, START, entry};
use crate::job_totals::{Form, life, lives};
use crate::{node_rows, thinning};
use throughline_sample::wire::{Batch, MpiPathCell};
use throughline_store::{Database, Retention, Writer, apply_retention, testing};
use tokio_postgres::Client;
use uuid::Uuid;

const HOUR: i64 = 3600 * SECOND;

/// Totals of all jobs, of whatever is counted of them.
const TOTALS: &str = "
    SELECT t.job_id, 'operation' AS what, t.rank, t.operation AS name, concat_ws('/', t.size_class_bytes, t.region, t.algorithm) AS other, t.calls AS count,
           t.bytes, t.elapsed_seconds, t.wait_seconds, t.received_bytes FROM internal.mpi_op_cell_totals t
    UNION ALL SELECT job_id, 'peer', rank, kind, peer::text, messages, bytes, NULL, NULL, NULL FROM public.mpi_peer_totals
    UNION ALL SELECT job_id, 'region', rank, region, '', visits, mpi_calls, elapsed_seconds, own_seconds, NULL FROM internal.mpi_region_totals
    UNION ALL SELECT job_id, 'path', rank, path, '', visits, mpi_calls, elapsed_seconds, own_seconds, NULL FROM internal.mpi_path_totals
    UNION ALL SELECT job_id, 'traffic', peer, operation, kind || direction || node_name, messages, bytes, NULL, NULL, NULL FROM internal.mpi_traffic_totals
    UNION ALL SELECT j.id, 'node', c.node_id, c.operation, c.region, c.calls, c.bytes, c.elapsed_seconds, c.wait_seconds, c.received_bytes
        FROM internal.run j CROSS JOIN LATERAL internal.mpi_node_op_cells(j.id) c";

/// Totals of jobs with some keys, by these.
async fn totals(client: &Client, keys: &[&str]) -> Vec<String> {
    let query = format!(
        "SELECT j.key || ' ' || (to_jsonb(t) - 'job_id')::text FROM ({TOTALS}) t JOIN internal.run j ON j.id = t.job_id
         WHERE j.key = ANY ($1) ORDER BY 1"
    );
    client.query(&query, &[&keys]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// What has expired where rows from a time on are kept.
async fn expire_until(client: &Client, oldest: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let keep = u64::try_from(now).unwrap() - u64::try_from(oldest).unwrap();
    apply_retention(client, &Retention::for_all(Duration::from_nanos(keep)), None).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
}

async fn write(database: &Database, batches: Vec<Batch>) {
    let spool = Uuid::new_v4();
    let entries: Vec<_> = (1..).zip(batches).map(|(number, batch)| entry(spool, number, batch)).collect();
    for some in entries.chunks(100) {
        Writer::new(database.clone()).write(some).await.unwrap();
    }
}

/// Rows of a table that are older than a time.
async fn older(client: &Client, table: &str, time: i64) -> i64 {
    let query =
        format!("SELECT count(*) FROM internal.{table} WHERE time < to_timestamp({}::float8)", time / SECOND);
    client.query_one(&query, &[]).await.unwrap().get(0)
}

/// Job A of `job_totals` with its ranks that were started again, and two on a node whose rows have all cells, or those that grew.
async fn seeded(form: Form) -> (Database, Client) {
    let database = testing::database().await;
    let paths = |mut batch: Batch| {
        for record in &mut batch.mpi_regions {
            let cell = record.cells[0].clone();
            record.paths.push(MpiPathCell {
                path: "main/solve".into(),
                visits: cell.visits,
                elapsed_nanoseconds: cell.elapsed_nanoseconds,
                ..MpiPathCell::default()
            });
        }
        batch
    };
    write(&database, lives().iter().map(|of| paths(form.apply(life(of)))).collect()).await;
    write(&database, vec![node_rows::job("changes", false), node_rows::job("wholes", true)]).await;
    let client = database.connect().await.unwrap();
    (database, client)
}

#[tokio::test]
async fn totals_stay_while_a_job_runs_and_until_its_last_rows_would_go() {
    for form in [Form::Bins, Form::Rows, Form::Replaced] {
        let (_, client) = seeded(form).await;
        let (ended, running) = (["slurm:1.0"], ["slurm:1.1", "changes", "wholes"]);
        let before = (totals(&client, &ended).await, totals(&client, &running).await);
        assert!(before.0.len() > 4 * 8 && before.1.len() > 3 * 5, "{before:?}");
        // Job A ended after 7300 seconds.
        for oldest in [3000, 5000, 7299] {
            expire_until(&client, START + oldest * SECOND).await;
            assert_eq!(totals(&client, &ended).await, before.0, "{form:?} {oldest}");
        }
        for days in [1, 8, 40] {
            let oldest = START + days * 24 * HOUR;
            expire_until(&client, oldest).await;
            assert_eq!(totals(&client, &running).await, before.1, "{form:?} {days}");
            assert_eq!(totals(&client, &ended).await, Vec::<String>::new());
            for table in ["mpi_rank_rows", "mpi_rank_peers", "mpi_node_rows", "mpi_regions"] {
                assert_eq!(older(&client, table, oldest - HOUR).await, 0, "{table}");
            }
        }
    }
}

#[tokio::test]
async fn a_job_that_was_quiet_goes_on_where_it_was() {
    let (database, other) = (testing::database().await, testing::database().await);
    let (client, expected) = (database.connect().await.unwrap(), other.connect().await.unwrap());
    let begin = START.div_euclid(HOUR) * HOUR + 60 * SECOND;
    let keys = ["a", "b", "c"];
    for (key, each) in [("a", Some(7)), ("b", None), ("c", Some(1))] {
        let mut batches = thinning::job(key, begin, 3400, each);
        let mut later = batches.split_off(170);
        for batch in &mut later {
            batch.mpi_traffic.iter_mut().for_each(|record| record.time += 240 * HOUR);
            batch.mpi_rank_rows.iter_mut().for_each(|record| record.time += 240 * HOUR);
            batch.mpi_peers.iter_mut().for_each(|record| record.time += 240 * HOUR);
        }
        write(&other, batches.clone()).await;
        write(&other, later.clone()).await;
        write(&database, batches).await;
        let before = totals(&client, &[key]).await;
        for hour in [1, 2, 30, 200] {
            expire_until(&client, begin + hour * HOUR).await;
            assert_eq!(totals(&client, &[key]).await, before, "{key} {hour}");
        }
        write(&database, later).await;
    }
    let before = totals(&expected, &keys).await;
    assert!(before.len() > 3 * 12);
    assert_eq!(totals(&client, &keys).await, before);
    // What came since is there however much of it is old.
    expire_until(&client, begin + 480 * HOUR).await;
    assert_eq!(totals(&client, &keys).await, before);
}

#[tokio::test]
async fn a_round_in_which_nothing_goes_writes_nothing() {
    let (_, client) = seeded(Form::Rows).await;
    let oldest = START + 24 * HOUR;
    expire_until(&client, oldest).await;
    let rows = "SELECT sum(n)::bigint FROM (SELECT count(*) AS n FROM internal.mpi_rank_rows UNION ALL SELECT count(*) FROM internal.mpi_regions) c";
    let before: i64 = client.query_one(rows, &[]).await.unwrap().get(0);
    for _ in 0..2 {
        expire_until(&client, oldest + 60 * SECOND).await;
    }
    assert_eq!(client.query_one(rows, &[]).await.unwrap().get::<_, i64>(0), before);
    // Numbers of cells are used as long as such rows have them.
    client
        .batch_execute("UPDATE internal.mpi_cell_key SET used_at = now() - INTERVAL '400 days'")
        .await
        .unwrap();
    expire_until(&client, oldest + 2 * HOUR).await;
    let unnamed = "SELECT count(*) FROM internal.mpi_rank_rows m CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
                   WHERE NOT EXISTS (SELECT FROM internal.mpi_cell_key k WHERE k.id = p.cell_id)";
    assert_eq!(client.query_one(unnamed, &[]).await.unwrap().get::<_, i64>(0), 0);
}
