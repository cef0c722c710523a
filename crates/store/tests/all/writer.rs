//! The writer: rows as sent, each once, and nothing that blocks a spool.

use crate::batches::{START, batch_of_everything, entry, port_batch};
use throughline_sample::Message;
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::{self, TRANSMIT_DATA_BYTES};
use throughline_sample::wire::{
    Batch, GpuMetricValue, GpuMetricsSample, Job, JobSetting, MpiOpCell, MpiPeerCell, Values,
};
use throughline_store::{Content, Database, Entry, Sender, WriteOutcome, Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

async fn count(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM internal.{table}"), &[]).await.unwrap().get(0)
}

async fn fresh() -> (Database, Client, Writer) {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let writer = Writer::new(database.clone());
    (database, client, writer)
}

#[tokio::test]
async fn peers_of_one_record_become_one_row() {
    let (_, client, mut writer) = fresh().await;
    let mut batch = batch_of_everything();
    batch.mpi_peers[0].is_whole = true;
    batch.mpi_peers[0].cells.push(MpiPeerCell { peer: 9, bytes: u64::MAX, messages: 0 });
    batch.mpi_traffic[0].is_whole = false;
    batch.mpi_node_cells[0].is_whole = true;
    writer.write(&[entry(Uuid::new_v4(), 1, batch)]).await.unwrap();
    let row = client
        .query_one("SELECT is_whole, peers, bytes, messages FROM internal.mpi_rank_peers", &[])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, Vec<i32>>(1), [3, 9]);
    assert_eq!((row.get::<_, Vec<i64>>(2), row.get::<_, Vec<i64>>(3)), (vec![81920, i64::MAX], vec![10, 0]));
    let row = client
        .query_one("SELECT is_whole, peers, bytes, kind FROM internal.mpi_node_traffic", &[])
        .await
        .unwrap();
    assert_eq!((row.get::<_, bool>(0), row.get::<_, Vec<i32>>(1)), (false, vec![3]));
    assert_eq!((row.get::<_, Vec<i64>>(2), row.get::<_, &str>(3)), (vec![81920], "modelled"));
    let row =
        client.query_one("
            SELECT is_whole, k.operation, r.ranks, r.most_rank_nanoseconds
            FROM internal.mpi_node_rows m CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p JOIN internal.mpi_cell_key k ON k.id = p.cell_id
            CROSS JOIN LATERAL internal.mpi_packed_round(m.rounds, p.number) r", &[]);
    let row = row.await.unwrap();
    assert_eq!((row.get::<_, bool>(0), row.get::<_, &str>(1)), (true, "allreduce"));
    assert_eq!((row.get::<_, i32>(2), row.get::<_, i64>(3)), (3, 750_000_000));
}

#[tokio::test]
async fn a_cell_that_is_used_again_is_noted_so_and_keeps_its_number() {
    let (database, client, mut writer) = fresh().await;
    let rank_row = || Batch {
        jobs: batch_of_everything().jobs,
        mpi_rank_rows: batch_of_everything().mpi_rank_rows,
        ..Batch::default()
    };
    writer.write(&[entry(Uuid::new_v4(), 1, rank_row())]).await.unwrap();
    let count = "SELECT count(*) FILTER (WHERE used_at > now() - INTERVAL '1 hour'), count(*), max(id) FROM internal.mpi_cell_key";
    let numbers = |row: tokio_postgres::Row| [0, 1].map(|column| row.get::<_, i64>(column));
    let before = client.query_one(count, &[]).await.unwrap();
    let last: i64 = before.get(2);
    let [used, all] = numbers(before);
    assert!(all > 0 && used == all);
    client
        .execute("UPDATE internal.mpi_cell_key SET used_at = now() - INTERVAL '5 days'", &[])
        .await
        .unwrap();
    // Another writer, as after a start.
    Writer::new(database).write(&[entry(Uuid::new_v4(), 1, rank_row())]).await.unwrap();
    let after = client.query_one(count, &[]).await.unwrap();
    assert_eq!(after.get::<_, i64>(2), last);
    assert_eq!(numbers(after), [all, all]);
}

#[tokio::test]
async fn every_kind_of_record_becomes_a_row() {
    let (_, client, mut writer) = fresh().await;
    let outcome = writer.write(&[entry(Uuid::new_v4(), 1, batch_of_everything())]).await.unwrap();
    // Nineteen tables, two of operations and of trace records each; the clock's error is among the self-metrics.
    assert_eq!(outcome, WriteOutcome { rows: 21, unknown_values: 1, ..WriteOutcome::default() });
    for (table, rows) in [
        ("ib_port_counters", 1),
        ("host_port_counters", 1),
        ("nvlink_counters", 1),
        ("gpu_pcie_counters", 1),
        ("gpu_pm_counters", 1),
        ("gpu_metrics", 1),
        ("mpi_rank_rows", 2),
        ("mpi_node_rows", 1),
        ("mpi_rank_peers", 1),
        ("mpi_pvars", 1),
        ("mpi_regions", 1),
        ("mpi_region_paths", 1),
        ("mpi_node_traffic", 1),
        ("mpi_sampled_calls", 1),
        ("mpi_trace", 2),
        ("mpi_clock", 1),
        ("mpi_messages", 0),
        ("job_comm", 1),
        ("mpi_open_call", 1),
        ("mpi_rank_scheduling", 1),
        ("job_setting", 1),
        ("events", 1),
        ("coverage", 1),
        ("self_stat_rows", 1),
        ("node", 1),
        ("gpu", 2),
        ("gpu_link", 1),
        ("run", 1),
        ("job_rank", 1),
        ("batch_quarantine", 0),
    ] {
        assert_eq!(count(&client, table).await, rows, "{table}");
    }
    let port = client
        .query_one(
            "SELECT n.guid, k.port, c.time = 'epoch'::timestamptz + $1 * interval '1 microsecond', \
             c.transmit_data_bytes, c.transmit_wait, c.symbol_error, c.saturated, c.source \
             FROM internal.ib_port_counters c JOIN internal.ib_port_key k ON k.id = c.port_id JOIN internal.ib_node_key n ON n.id = k.ib_node_id",
            &[&((START / 1000) as f64)],
        )
        .await
        .unwrap();
    assert_eq!(port.get::<_, &str>(0), "0x0002c90300000001");
    assert_eq!(port.get::<_, i32>(1), 7);
    assert!(port.get::<_, bool>(2));
    assert_eq!(port.get::<_, Option<i64>>(3), Some(0), "zero is a value");
    assert_eq!(port.get::<_, Option<i64>>(4), None, "absent is not zero");
    assert_eq!(port.get::<_, Option<i64>>(5), None);
    assert_eq!(port.get::<_, Vec<&str>>(6), ["symbol_error"]);
    assert_eq!(port.get::<_, &str>(7), "mad");
    let links = client
        .query(
            "SELECT link, transmit_bytes, receive_bytes, crc_errors FROM internal.nvlink_link_counters ORDER BY link",
            &[],
        )
        .await
        .unwrap();
    let links: Vec<(i32, [Option<i64>; 3])> =
        links.iter().map(|row| (row.get(0), [row.get(1), row.get(2), row.get(3)])).collect();
    assert_eq!(
        links,
        [(0, [Some(100), Some(200), None]), (3, [Some(5), None, Some(1)])],
        "links 1 and 2 were not read"
    );
    let stat = "SELECT value FROM public.self_stats WHERE name = $1 AND instance = 'node1'";
    let value = client.query_one(stat, &[&catalogue::CLOCK_ERROR_SECONDS.name]).await.unwrap();
    assert_eq!(value.get::<_, f64>(0), 0.0025);
    let reasons = client.query_one("SELECT reasons->>'timeout' FROM internal.coverage", &[]).await.unwrap();
    assert_eq!(reasons.get::<_, &str>(0), "3");
}

#[tokio::test]
async fn what_an_operation_is_told_apart_by_is_kept() {
    let (_, client, mut writer) = fresh().await;
    let mut batch = batch_of_everything();
    let ring = batch.mpi_ops[0].cells[0].clone();
    // The same operation and size at the same time, elsewhere in the program and by another algorithm.
    batch.mpi_ops[0].cells.push(MpiOpCell { region: "init".into(), received_bytes: Some(7), ..ring.clone() });
    batch.mpi_ops[0].cells.push(MpiOpCell { algorithm: "linear".into(), wait_nanoseconds: None, ..ring });
    let spool = Uuid::new_v4();
    writer.write(&[entry(spool, 1, batch.clone())]).await.unwrap();
    batch.job_comms[0].name = "columns".into();
    batch.job_comms[0].time += 1_000_000_000;
    batch.job_settings[0].rank = 3;
    let repeated = Batch {
        node: batch.node,
        job_comms: batch.job_comms,
        job_settings: batch.job_settings,
        ..Batch::default()
    };
    writer.write(&[entry(spool, 2, repeated)]).await.unwrap();
    let query = "SELECT region || ' ' || algorithm || ' ' || algorithm_source || ' ' || \
                 coalesce(wait_seconds::text, '-') || ' ' || coalesce(received_bytes::text, '-') \
                 FROM internal.mpi_op_cell_totals WHERE operation = 'allreduce' ORDER BY 1";
    let cells: Vec<String> = client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(cells, ["init ring observed 0.5 7", "solve linear observed - -", "solve ring observed 0.5 -"]);
    let query =
        "SELECT calls, wait_seconds, received_bytes FROM public.mpi_op_totals WHERE operation = 'allreduce'";
    let total = client.query_one(query, &[]).await.unwrap();
    assert_eq!((total.get(0), total.get(1), total.get(2)), (31_i64, Some(1.0), Some(7_i64)));
    let region =
        client.query_one("SELECT region, visits, own_seconds FROM internal.mpi_region_totals", &[]).await;
    let region = region.unwrap();
    assert_eq!((region.get(0), region.get(1), region.get(2)), ("solve", 3_i64, 1.0));
    let path = client
        .query_one("SELECT path, visits, elapsed_seconds, mpi_seconds FROM internal.mpi_path_totals", &[])
        .await;
    let path = path.unwrap();
    assert_eq!((path.get(0), path.get(1), path.get(2), path.get(3)), ("main/solve", 2_i64, 1.5, 0.25));
    let comm = client.query_one("SELECT name, size, rank_in_comm FROM internal.job_comm", &[]).await.unwrap();
    assert_eq!((comm.get(0), comm.get(1), comm.get(2)), ("columns", 2, Some(1)));
    let setting = client.query_one("SELECT name, value, rank FROM internal.job_setting", &[]).await.unwrap();
    assert_eq!((setting.get(0), setting.get(1), setting.get(2)), ("coll_tuned_allreduce_algorithm", "4", 2));
}

#[tokio::test]
async fn a_replay_adds_nothing_also_through_another_writer() {
    let (database, client, mut writer) = fresh().await;
    let spool = Uuid::new_v4();
    let entries: Vec<Entry> = (1..=5).map(|n| entry(spool, n, port_batch(n, 10))).collect();
    assert_eq!(writer.write(&entries[..3]).await.unwrap().rows, 30);
    let again = Writer::new(database).write(&entries).await.unwrap();
    assert_eq!(again, WriteOutcome { rows: 20, duplicates: 3, ..WriteOutcome::default() });
    assert_eq!(count(&client, "ib_port_counters").await, 50);
    let ledger = client
        .query_one("SELECT sequence FROM internal.batch_ledger WHERE spool_id = $1", &[&spool])
        .await
        .unwrap();
    assert_eq!(ledger.get::<_, i64>(0), 5);
}

#[tokio::test]
async fn concurrent_senders_of_one_spool_store_each_entry_once() {
    let (database, client, _) = fresh().await;
    let spool = Uuid::new_v4();
    let entries: Vec<Entry> = (1..=20).map(|n| entry(spool, n, port_batch(n, 20))).collect();
    let writers = (0..4).map(|_| {
        let (database, entries) = (database.clone(), entries.clone());
        tokio::spawn(async move {
            let mut writer = Writer::new(database);
            for chunk in entries.chunks(3) {
                writer.write(chunk).await.unwrap();
            }
        })
    });
    for done in futures::future::join_all(writers).await {
        done.unwrap();
    }
    assert_eq!(count(&client, "ib_port_counters").await, 400);
}

#[tokio::test]
async fn a_row_that_is_there_already_does_not_stop_the_others() {
    let (_, client, mut writer) = fresh().await;
    // The same ports and times from two spools: a sender whose spool was lost begins a new one. Of crawlers only
    // one would be written, so these are a node's.
    let sweep = |n| Batch { node: "node1".to_owned(), ..port_batch(n, 10) };
    writer.write(&[entry(Uuid::new_v4(), 1, sweep(1))]).await.unwrap();
    let second = [entry(Uuid::new_v4(), 1, sweep(1)), entry(Uuid::new_v4(), 1, sweep(2))];
    let outcome = writer.write(&second).await.unwrap();
    assert_eq!(outcome, WriteOutcome { rows: 10, ..WriteOutcome::default() });
    assert_eq!(count(&client, "ib_port_counters").await, 20);
    assert_eq!(count(&client, "batch_quarantine").await, 0);
}

#[tokio::test]
async fn what_cannot_be_stored_is_set_aside_with_its_reason() {
    let (_, client, mut writer) = fresh().await;
    let spool = Uuid::new_v4();
    let mut nameless = batch_of_everything();
    nameless.node = String::new();
    let mut far = port_batch(2, 1);
    far.ib_ports[0].time = i64::MAX;
    let mut endless = batch_of_everything();
    endless.gpu_links[0].links[0].link = u32::MAX;
    let mut nul = batch_of_everything();
    nul.job_ranks[0].job_key = "x\0y".to_owned();
    let mut long = batch_of_everything();
    long.jobs[0].key = "k".repeat(1 << 20);
    let entries = [
        entry(spool, 1, nameless),
        entry(spool, 2, far),
        entry(spool, 3, endless),
        entry(spool, 4, nul),
        entry(spool, 5, long),
        Entry::decode(spool, 6, b"\xff\xff\xff"),
        entry(spool, 7, port_batch(7, 3)),
    ];
    let outcome = writer.write(&entries).await.unwrap();
    assert_eq!(outcome, WriteOutcome { rows: 3, quarantined: 6, ..WriteOutcome::default() });
    let rows = client
        .query("SELECT sequence, reason, batch FROM internal.batch_quarantine ORDER BY 1", &[])
        .await
        .unwrap();
    let reasons: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
    for (reason, expected) in reasons.iter().zip(["node", "ahead", "link", "0x00", "index", "decode"]) {
        assert!(reason.contains(expected), "{reasons:?}");
    }
    let kept = Batch::decode(rows[2].get::<_, &[u8]>(2)).unwrap();
    assert_eq!(kept.gpu_links[0].links[0].link, u32::MAX, "the batch is kept as it came");
    // All of them are done with: the same again is known.
    assert_eq!(writer.write(&entries).await.unwrap().duplicates, 7);
}

/// An entry of a sender that is judged.
fn of_node(spool: Uuid, sequence: u64, batch: Batch) -> Entry {
    let owners = [format!("node:{}", batch.node)].into();
    Entry { sender: Sender { owners, ..Sender::default() }, ..entry(spool, sequence, batch) }
}

#[tokio::test]
async fn a_record_that_the_database_refuses_costs_its_entry_nothing_else() {
    let (database, client, mut writer) = fresh().await;
    let spool = Uuid::new_v4();
    let mut bad = batch_of_everything();
    // A key too long for its index, and a link that no column takes; the rows of both kinds that are right stay.
    let long = JobSetting { job_key: "k".repeat(1 << 20), ..bad.job_settings[0].clone() };
    bad.jobs.push(Job { key: "k".repeat(1 << 20), ..bad.jobs[0].clone() });
    bad.job_settings.push(long);
    let mut link = bad.gpu_links[0].clone();
    link.links[0].link = u32::MAX;
    link.time += 1000;
    bad.gpu_links.insert(0, link);
    let next = of_node(spool, 2, Batch { node: "node1".into(), ..port_batch(7, 3) });
    let outcome = writer.write(&[of_node(spool, 1, bad), next]).await.unwrap();
    // The event is about a switch, which is no node's.
    // The setting is of the job whose key the database refuses.
    assert_eq!(
        outcome.rejected,
        [(Rejection::Node, 1), (Rejection::Job, 1), (Rejection::Database, 2)].into()
    );
    assert_eq!((outcome.rows, outcome.quarantined), (23, 0));
    for (table, rows) in [("run", 1), ("job_setting", 1), ("nvlink_counters", 1), ("batch_quarantine", 0)] {
        assert_eq!(count(&client, table).await, rows, "{table}");
    }
    let listed = "SELECT sender, reason, records FROM internal.rejected_records ORDER BY records DESC";
    let rows = database.connect_reader().await.unwrap().query(listed, &[]).await.unwrap();
    let listed: Vec<(&str, &str, i64)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(listed[0], ("node:node1", "database", 2));
    assert_eq!(listed.len(), 3);
}

/// As when the first chunk of a table is made while another server grants a right to the table.
#[tokio::test]
async fn a_catalogue_row_that_another_session_changed_is_no_refusal() {
    let (_, client, mut writer) = fresh().await;
    // A sequence keeps its value when the transaction is rolled back.
    let once = "CREATE SEQUENCE public.attempts;
        CREATE FUNCTION public.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.attempts') = 1 THEN
                RAISE EXCEPTION 'tuple concurrently updated' USING ERRCODE = 'XX000';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER fail_once BEFORE INSERT ON internal.ib_port_counters FOR EACH ROW EXECUTE FUNCTION public.fail_once()";
    client.batch_execute(once).await.unwrap();
    let outcome = writer.write(&[entry(Uuid::new_v4(), 1, port_batch(1, 1))]).await.unwrap();
    assert_eq!(outcome.rows, 1);
    assert_eq!(count(&client, "ib_port_counters").await, 1);
    let attempts: i64 = client.query_one("SELECT last_value FROM public.attempts", &[]).await.unwrap().get(0);
    assert_eq!(attempts, 2);
}

#[tokio::test]
async fn a_missing_schema_is_the_databases_fault_and_no_batch_is_set_aside() {
    let database = testing::empty_database().await;
    let mut writer = Writer::new(database.clone());
    let batch = [entry(Uuid::new_v4(), 1, port_batch(1, 5))];
    let error = writer.write(&batch).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("schema"), "{error}");
    throughline_store::migrate(&database).await.unwrap();
    assert_eq!(writer.write(&batch).await.unwrap().rows, 5);
}

#[tokio::test]
async fn the_quarantine_is_bounded() {
    let (_, client, mut writer) = fresh().await;
    let fill = "INSERT INTO internal.batch_quarantine (spool_id, sequence, quarantined_at, reason, batch) \
                SELECT gen_random_uuid(), n, now() - make_interval(secs => n), 'old', '' FROM generate_series(1, 1500) n";
    client.execute(fill, &[]).await.unwrap();
    let outcome = writer.write(&[Entry::decode(Uuid::new_v4(), 1, b"\xff")]).await.unwrap();
    assert_eq!(outcome.quarantined, 1);
    assert_eq!(count(&client, "batch_quarantine").await, 1000);
    assert_eq!(count(&client, "batch_quarantine WHERE reason <> 'old'").await, 1);
}

#[tokio::test]
async fn a_lost_connection_is_an_error_and_the_same_write_succeeds_later() {
    let (database, client, mut writer) = fresh().await;
    let spool = Uuid::new_v4();
    writer.write(&[entry(spool, 1, port_batch(1, 5))]).await.unwrap();
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let second = [entry(spool, 2, port_batch(2, 5))];
    client.query(kill, &[]).await.unwrap();
    // The first write after the loss may or may not find the connection closed in time.
    if let Err(error) = writer.write(&second).await {
        assert!(error.is_temporary(), "{error}");
        writer.write(&second).await.unwrap();
    }
    assert_eq!(count(&client, "ib_port_counters").await, 10);
    let away = Database::from_url("host=/nonexistent user=x dbname=x").unwrap();
    let error = Writer::new(away).write(&second).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("/nonexistent"), "{error}");
    drop(database);
}

#[tokio::test]
async fn values_that_need_63_bits_and_wrong_tables_are_harmless() {
    let (_, client, mut writer) = fresh().await;
    let mut batch = port_batch(1, 1);
    let mut values = Values::default();
    values.put(&TRANSMIT_DATA_BYTES, u64::MAX);
    // A metric of another table, and a value without a metric.
    values.put(&catalogue::NVLINK_TRANSMIT_BYTES, 1);
    values.value.push(5);
    batch.ib_ports[0].values = Some(values);
    let outcome = writer.write(&[entry(Uuid::new_v4(), 1, batch)]).await.unwrap();
    assert_eq!((outcome.rows, outcome.unknown_values), (1, 1));
    let stored =
        client.query_one("SELECT transmit_data_bytes FROM internal.ib_port_counters", &[]).await.unwrap();
    assert_eq!(stored.get::<_, i64>(0), i64::MAX);
}

#[tokio::test]
async fn entries_need_not_hold_anything() {
    let (_, client, mut writer) = fresh().await;
    assert_eq!(writer.write(&[]).await.unwrap(), WriteOutcome::default());
    let empty = Entry {
        spool_id: Uuid::nil(),
        sequence: 0,
        content: Content::Batch(Batch::default()),
        sender: Sender::default(),
    };
    assert_eq!(writer.write(&[empty]).await.unwrap(), WriteOutcome::default());
    assert_eq!(count(&client, "batch_ledger").await, 1);
}

#[tokio::test]
async fn names_of_a_gpus_chosen_metrics_are_limited_and_what_is_known_goes_on() {
    let (_, client, mut writer) = fresh().await;
    let batch = |names: std::ops::Range<u32>, time: i64| {
        let base = batch_of_everything();
        let sample = GpuMetricsSample {
            time: base.gpu_metrics[0].time + time,
            metrics: names
                .map(|number| GpuMetricValue { name: format!("m{number:04}.sum"), sum: Some(1), value: None })
                .collect(),
            ..base.gpu_metrics[0].clone()
        };
        Batch { node: base.node, gpu_metrics: vec![sample], ..Batch::default() }
    };
    let mut unknown = Vec::new();
    for (sequence, names) in [(1, 0..200), (2, 200..400), (3, 400..600), (4, 0..200)] {
        let entry = entry(Uuid::from_u128(77), sequence, batch(names, sequence as i64 * 1_000_000_000));
        unknown.push(writer.write(&[entry]).await.unwrap().unknown_values);
    }
    assert_eq!(unknown, [0, 0, 88, 0], "512 names of a GPU");
    assert_eq!(count(&client, "gpu_metric_key").await, 512);
    assert_eq!(count(&client, "gpu_metrics").await, 712);
}
