//! How large the rows of thinned chunks are: of rows as `benches/row-bytes.sh` has them, of a node or rank each as often as agents send
//! them (TABLES: only those), with 10 cells, 4 peers of a rank, 128 of a node, 40 sampled calls, and 75 self-metrics, or 27 of them.

use std::time::Duration;

use throughline_store::{Retention, RetentionWay, Site, predict_size, testing, thin_chunks};
use tokio_postgres::Client;

/// The functions that make counters, cells and calls.
fn functions() -> &'static str {
    let script = include_str!("../../../../benches/row-bytes.sh");
    let (_, rest) = script.split_once("<<'SQL'\n").unwrap();
    rest.split_once("\nSQL\n").unwrap().0
}

/// Cells, rounds and calls to choose from: to make one takes some milliseconds.
const POOL: &str = "CREATE TABLE public.pool AS
    SELECT n, sampled(n * 37, n) AS calls, cells(43200 + n * 10, n, 32) AS of_node, rounds(n, n) AS rounds, cells(43200 + n * 300, n, 1) AS of_rank
    FROM generate_series(0::bigint, 199) n";

/// A table, of how many things it has rows, and how many seconds lie between those of each.
type Rows = (&'static str, u32, u32);

/// Rows of things `i` in steps `step` at `t`, of so many hours that begin so many hours before today.
async fn fill(
    client: &Client,
    (table, things, seconds): Rows,
    hours: (u32, u32),
    columns: &str,
    values: &str,
) {
    if std::env::var("TABLES").is_ok_and(|tables| !tables.split(' ').any(|one| one == table)) {
        return;
    }
    let (ago, steps) = (hours.0, hours.1 * 3600 / seconds);
    let sql = format!(
        "INSERT INTO internal.{table} (time, {columns}) SELECT t, {values}
         FROM (SELECT date_trunc('day', now(), 'UTC') - INTERVAL '{ago} hours' + step * INTERVAL '{seconds} seconds' AS t,
                      step, i, now() - INTERVAL '3 days' AS e
               FROM generate_series(1, {steps}) step, generate_series(1, {things}) i) s
         JOIN public.pool ON n = i % 200 ORDER BY step, i"
    );
    client.batch_execute(&sql).await.unwrap();
}

const STATS: &str = "'node' || i,
    (SELECT array_agg((ARRAY['delivery', 'spool', 'mpi', 'allreduce', 'sysfs', 'recorder'])[1 + n % 6] ORDER BY n) FROM generate_series(1, k) n),
    (SELECT array_agg(CASE n % 6 WHEN 0 THEN 'disk_full' ELSE '' END ORDER BY n) FROM generate_series(1, k) n),
    (SELECT array_agg((ARRAY['delivered_entries', 'records_discarded', 'records_rejected', 'mpi_elapsed_seconds', 'records', 'source_up'])[1 + n % 6]
         || n / 6 ORDER BY n) FROM generate_series(1, k) n),
    (SELECT array_agg(CASE WHEN n > 9 AND n % 2 = 0 THEN n * 1000 ELSE step * 17.5 + noise(step, i, n, 1024) END ORDER BY n)
     FROM generate_series(1, k) n)";

async fn fill_all(client: &Client) {
    let peers = |count: u32| {
        format!(
            "'pmpi', true, (SELECT array_agg((i * 7 + peer * 13)::integer % 4096) FROM generate_series(1, {count}) peer), \
             links(step, i, 1, {count}), links(step, i, 2, {count})"
        )
    };
    let hour = (12, 1);
    let of_rank = "job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages";
    fill(
        client,
        ("mpi_rank_peers", 10_000, 900),
        hour,
        of_rank,
        &format!("i / 32, i, i / 32, 'logical', e, {}", peers(4)),
    )
    .await;
    let of_node =
        "job_id, node_id, operation, kind, direction, epoch, since, source, is_whole, peers, bytes, messages";
    let traffic = format!(
        "i / 10, i, 'alltoall', 'modelled', 'transmit', e, t - INTERVAL '10 seconds', {}",
        peers(128)
    );
    fill(client, ("mpi_node_traffic", 500, 300), hour, of_node, &traffic).await;
    let rows = "i / 32, i, i / 32, e, 'pmpi', true, of_rank";
    fill(
        client,
        ("mpi_rank_rows", 10_000, 900),
        hour,
        "job_id, rank, node_id, epoch, source, is_folded, cells",
        rows,
    )
    .await;
    let rows = "i / 10, i, e, t - INTERVAL '10 seconds', 'pmpi', true, of_node, rounds";
    let columns = "job_id, node_id, epoch, since, source, is_whole, cells, rounds";
    fill(client, ("mpi_node_rows", 500, 30), hour, columns, rows).await;
    let calls = "i / 50, i, 1234567890123456789, 'allreduce', 1024, 987654321987654321, 128, '0-127', calls";
    let columns =
        "job_id, node_id, comm_group, operation, size_class_bytes, cell, group_size, members, packed";
    fill(client, ("mpi_sampled_calls", 500, 30), hour, columns, calls).await;
    let rounds =
        "'node' || i, 'sysfs', 1, 1, 0, 0.001 + noise(step, i, 1, 1024) / 1e6, 30, t - INTERVAL '29 seconds'";
    let columns = "instance, source, expected, read, failed, elapsed_seconds, rounds, first_time";
    fill(client, ("coverage", 100, 30), (48, 24), columns, rounds).await;
    // Of two hours, as a list of names is used once it is an hour old.
    let stats = STATS.replace("k)", "CASE step % 2 WHEN 0 THEN 75 ELSE 27 END)");
    fill(client, ("self_stat_rows", 1000, 60), (12, 1), "instance, sources, labels, names, readings", &stats)
        .await;
}

async fn thin(client: &mut Client) {
    let retention = Retention::default();
    let done = thin_chunks(client, &retention, Duration::from_secs(3600)).await.unwrap();
    println!("{done:?}");
}

#[tokio::test]
#[ignore = "measures: fills and thins some hours"]
async fn rows_of_thinned_chunks_are_as_large_as_predicted() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    client.batch_execute(functions()).await.unwrap();
    client.batch_execute(POOL).await.unwrap();
    fill_all(&client).await;
    thin(&mut client).await;
    client
        .batch_execute(
            "UPDATE internal.self_stat_names SET listed_at = listed_at - INTERVAL '2 hours'; TRUNCATE internal.self_stat_rows",
        )
        .await
        .unwrap();
    let stats = STATS.replace("k)", "CASE step % 2 WHEN 0 THEN 75 ELSE 27 END)");
    fill(
        &client,
        ("self_stat_rows", 1000, 60),
        (14, 1),
        "instance, sources, labels, names, readings",
        &stats,
    )
    .await;
    thin(&mut client).await;

    let site = Site { nodes: 100, ranks_per_node: 32, ports: 100, ..Site::default() };
    let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
    let sizes = "SELECT hypertable, sum(rows_before)::bigint, sum(rows_after)::bigint, sum(pg_total_relation_size(chunk::regclass))::bigint,
                        sum(pg_relation_size(chunk::regclass))::bigint, sum(pg_indexes_size(chunk::regclass))::bigint
                 FROM internal.thinned_chunk WHERE rows_after > 500 GROUP BY hypertable ORDER BY 1";
    let mut wrong = Vec::new();
    for row in client.query(sizes, &[]).await.unwrap() {
        let table: &str = row.get(0);
        let [before, after, bytes, heap, indexes] =
            [1, 2, 3, 4, 5].map(|column| row.get::<_, i64>(column) as f64);
        let form = prediction.tables.iter().find(|size| size.table == table).unwrap();
        let predicted = form.old.unwrap().bytes_per_row;
        let [each, of_rows, of_indexes] = [bytes, heap, indexes].map(|part| part / after);
        println!(
            "{table}: {before} rows became {after} of {each:.0} bytes, {of_rows:.0} in pages, {of_indexes:.0} in indexes; \
             {predicted:.0} predicted"
        );
        if (each / predicted - 1.0).abs() > 0.05 {
            wrong.push(format!("{table}: {each:.0}, not {predicted:.0}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
