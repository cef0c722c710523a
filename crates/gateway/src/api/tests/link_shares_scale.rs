//! What shares of links take in a fabric of 1,428 hosts with 200 jobs, from traffic and counters in the database to the answer of
//! the API: `benches/shares.sh window`. Prints; what is asserted is that shares are whole.

use super::*;
use std::time::{Duration, Instant};
use throughline_store::{
    Groups, LinkShareCache, Retention, largest_contributions, link_shares_made_until, make_link_shares,
    testing,
};
use tokio_postgres::Client;

const LEAVES: i32 = 42;
const SPINES: i32 = 18;
/// Hosts of a leaf.
const BELOW: i32 = 34;
const HOSTS: i32 = LEAVES * BELOW;
const JOBS: i32 = 200;
/// Nodes of a job, and ranks of a node.
const NODES: i32 = HOSTS / JOBS;
const RANKS: i32 = 8;

/// Nodes of the tables: leaves from 1, spines behind them, hosts behind these. A node's LID is its number.
fn table(node: i32) -> Vec<u8> {
    let first_host = LEAVES + SPINES + 1;
    let leaf_of = |lid: i32| if lid >= first_host { (lid - first_host) / BELOW + 1 } else { lid };
    let entry = |lid: i32| -> i32 {
        if lid == 0 || lid == node {
            return 255;
        }
        if node > LEAVES {
            return if lid <= LEAVES || lid >= first_host { leaf_of(lid) } else { 255 };
        }
        match lid {
            lid if lid >= first_host && leaf_of(lid) == node => (lid - first_host) % BELOW + 1,
            lid => BELOW + 1 + lid % SPINES,
        }
    };
    (0..=HOSTS + LEAVES + SPINES).map(|lid| u8::try_from(entry(lid)).unwrap()).collect()
}

async fn fabric(client: &Client) {
    let sql = format!(
        "INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
         INSERT INTO internal.ib_node_key (fabric_id, guid) SELECT 1, '0x' || lpad(to_hex(n), 16, '0')
             FROM generate_series(1, {all}) n ORDER BY n;
         INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
             SELECT id, guid, CASE WHEN id <= {switches} THEN 'switch' ELSE 'ca' END,
                    CASE WHEN id <= {switches} THEN 'switch' || id ELSE 'n' || id - {switches} || ' mlx5_0' END, id, 1, 1, guid, 1,
                    now() - interval '1 day' FROM internal.ib_node_key;
         INSERT INTO internal.ib_port_key (ib_node_id, port)
             SELECT {switches} + h, 1 FROM generate_series(1, {HOSTS}) h;
         INSERT INTO internal.ib_port_key (ib_node_id, port)
             SELECT l, p FROM generate_series(1, {LEAVES}) l, generate_series(1, {ports}) p;
         INSERT INTO internal.ib_port_key (ib_node_id, port)
             SELECT {LEAVES} + s, p FROM generate_series(1, {SPINES}) s, generate_series(1, {LEAVES}) p;
         CREATE TEMPORARY TABLE cable AS
             SELECT a.id AS a, b.id AS b FROM generate_series(0, {HOSTS} - 1) h
             JOIN internal.ib_port_key a ON a.ib_node_id = {switches} + h + 1 AND a.port = 1
             JOIN internal.ib_port_key b ON b.ib_node_id = h / {BELOW} + 1 AND b.port = h % {BELOW} + 1
             UNION ALL
             SELECT a.id, b.id FROM generate_series(1, {LEAVES}) l, generate_series(1, {SPINES}) s
             JOIN internal.ib_port_key a ON true JOIN internal.ib_port_key b ON true
             WHERE a.ib_node_id = l AND a.port = {BELOW} + s AND b.ib_node_id = {LEAVES} + s AND b.port = l;
         INSERT INTO internal.ib_link (port_a_id, port_b_id, valid_from)
             SELECT least(a, b), greatest(a, b), now() - interval '1 day' FROM cable;
         INSERT INTO internal.ib_port (port_id, ib_node_id, port, port_guid, lid, state, physical_state, width, speed,
                              rate_bytes_per_second, remote_port_id, valid_from)
             SELECT p.id, p.ib_node_id, p.port, '0x' || lpad(to_hex(p.ib_node_id), 16, '0'), p.ib_node_id, 'Active', 'LinkUp', '4x',
                    '50.0 Gbps', 25000000000, coalesce(c.b, d.a), now() - interval '1 day'
             FROM internal.ib_port_key p LEFT JOIN cable c ON c.a = p.id LEFT JOIN cable d ON d.b = p.id;",
        all = HOSTS + LEAVES + SPINES,
        switches = LEAVES + SPINES,
        ports = BELOW + SPINES,
    );
    client.batch_execute(&sql).await.unwrap();
    for node in 1..=LEAVES + SPINES {
        let insert = "INSERT INTO internal.ib_lft (ib_node_id, linear_forwarding_table, valid_from) \
                      VALUES ($1, $2, now() - interval '1 day')";
        client.execute(insert, &[&node, &table(node)]).await.unwrap();
    }
}

/// Each node of a job sends to each rank elsewhere in an alltoall and to some in two more operations, and reports each 5 s;
/// counters are read each 5 s.
async fn traffic(client: &Client) {
    let sql = format!(
        "INSERT INTO internal.node_key (name) SELECT 'n' || h FROM generate_series(1, {HOSTS}) h ORDER BY h;
         INSERT INTO internal.node (node_id, name, hca_guids, valid_from)
             SELECT id, name, ARRAY['0x' || lpad(to_hex({switches} + id), 16, '0')], now() - interval '1 day' FROM internal.node_key;
         INSERT INTO internal.host_port_key (node_id, device, port, guid)
             SELECT id, 'mlx5_0', 1, '0x' || lpad(to_hex({switches} + id), 16, '0') FROM internal.node_key;
         INSERT INTO internal.run (key, user_name, start_time)
             SELECT 'slurm:' || j || '@1', 'user' || j % 20, now() - interval '1 hour' FROM generate_series(1, {JOBS}) j;
         INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen)
             SELECT j, (j - 1) + n * {JOBS} + 1, now(), now() FROM generate_series(1, {JOBS}) j, generate_series(0, {NODES} - 1) n;
         INSERT INTO internal.job_rank (job_id, rank, pid, world_size, host, node_id, mpi_library, start_time, hca_ports)
             SELECT j, n * {RANKS} + r, 1, {world}, 'n', (j - 1) + n * {JOBS} + 1, '', now() - interval '1 hour',
                    ARRAY['mlx5_0/1']
             FROM generate_series(1, {JOBS}) j, generate_series(0, {NODES} - 1) n, generate_series(0, {RANKS} - 1) r;
         CREATE TEMPORARY TABLE tick AS
             SELECT to_timestamp(floor(extract(epoch FROM now()) / 10) * 10) - interval '120 seconds'
                    + t * interval '5 seconds' AS time, t FROM generate_series(0, 24) t;
         INSERT INTO internal.mpi_node_traffic (time, job_id, node_id, operation, kind, direction, epoch, since, source, is_whole, peers, bytes,
                                       messages)
             SELECT t.time + interval '0.7 seconds', j, (j - 1) + n * {JOBS} + 1, o.operation, o.kind, 'transmit',
                    date_trunc('hour', now()) - interval '2 hours', t.time - interval '4.3 seconds', 'pmpi', true,
                    array_agg(p ORDER BY p), array_agg(o.bytes::bigint * (t.t + 1)), array_agg(o.bytes::bigint / 8192 * (t.t + 1))
             FROM generate_series(1, {JOBS}) j, generate_series(0, {NODES} - 1) n, generate_series(0, {world} - 1) p, tick t,
                  (VALUES ('alltoall', 'modelled', 40000000, 1), ('allreduce', 'modelled', 20000000, 4), ('isend', 'measured', 30000000, 7))
                      AS o (operation, kind, bytes, each)
             WHERE p / {RANKS} <> n AND p % o.each = 0
             GROUP BY t.time, j, n, o.operation, o.kind;
         INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes)
             SELECT t.time + interval '0.3 seconds', p.id, date_trunc('hour', now()) - interval '2 hours', 'mad',
                    (2000000000 + p.id * 1000)::bigint * 5 * t.t, 2000000000::bigint * 5 * t.t FROM internal.ib_port_key p, tick t;
         INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
             SELECT t.time + interval '0.4 seconds', 'fabric:1', 'mad', 1, 1, 0, 0.1 FROM tick t;
         UPDATE internal.link_share_state SET computed_until = (SELECT min(time) + interval '40 seconds' FROM tick);
         ANALYZE;",
        switches = LEAVES + SPINES,
        world = NODES * RANKS,
    );
    client.batch_execute(&sql).await.unwrap();
}

/// Operations and peers of each rank, each 10 s for five minutes.
async fn operations(client: &Client) {
    let sql = format!(
        "{packed_cells}
         INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source)
             VALUES ('allreduce', 8, '', '', ''), ('alltoall', 1048576, '', '', ''), ('isend', 65536, '', '', '');
         INSERT INTO internal.mpi_rank_rows (time, job_id, rank, node_id, epoch, source, is_folded, cells)
             SELECT now() - interval '300 seconds' + t * interval '10 seconds', j.id, r, 1, j.start_time, 'pmpi', true, p.cells
             FROM internal.run j, generate_series(0, {world} - 1) r, (
                 SELECT t, pg_temp.packed_cells(array_agg(c.id), array_agg(t * 1000::bigint), array_agg(t * 1000 * c.size_class_bytes),
                                                array_agg(t * 2000000000::bigint)) AS cells
                 FROM generate_series(1, 30) t, internal.mpi_cell_key c GROUP BY t) p;
         INSERT INTO internal.mpi_rank_peers (time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages)
             SELECT now() - interval '60 seconds' + t * interval '20 seconds', j.id, r, 1, 'logical', j.start_time, 'pmpi', true,
                    array_agg((r + d) % {world}), array_agg(t * 6553600::bigint), array_agg(t * 100::bigint)
             FROM internal.run j, generate_series(0, {world} - 1) r, generate_series(1, 3) t, generate_series(1, {world} - 1) d
             GROUP BY t, j.id, r, j.start_time;
         ANALYZE internal.mpi_rank_rows, internal.mpi_rank_peers;",
        world = NODES * RANKS,
        packed_cells = testing::PACKED_CELLS,
    );
    client.batch_execute(&sql).await.unwrap();
}

/// Processor time of this process and of the database's process behind its connection, seconds.
fn processor(backend: i32) -> f64 {
    let used = |id: u32| -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        // proc(5): utime and stime are fields 14 and 15, the state behind the name is 3; a tick is 10 ms.
        fields.skip(11).take(2).map(|field| field.parse::<f64>().unwrap() / 100.0).sum()
    };
    used(std::process::id()) + used(backend.unsigned_abs())
}

/// Memory of this process, megabytes: now and at most.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.unwrap_or_default() / 1024
    };
    format!("{} MB, at most {} MB", field("VmRSS"), field("VmHWM"))
}

/// Makes all windows, one at a time, as upkeep does, and reads the series of `/metrics` after each. Returns how many.
async fn windows(client: &mut Client) -> usize {
    let (groups, retention) = (Groups::default(), Retention::default());
    let mut cache = LinkShareCache::default();
    let mut windows = 0;
    loop {
        // No patience: one window a call.
        let (begun, before) = (Instant::now(), link_shares_made_until(client).await.unwrap().unwrap());
        let little = Duration::from_nanos(1);
        let made = make_link_shares(client, &mut cache, &groups, &retention, little).await.unwrap();
        if made.windows == 0 {
            return windows;
        }
        windows += 1;
        let seconds = begun.elapsed().as_secs_f64();
        let until = link_shares_made_until(client).await.unwrap().unwrap();
        let is_minute = until.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().is_multiple_of(60);
        let what = if is_minute { "window and its minute" } else { "window" };
        let begun = Instant::now();
        let largest = largest_contributions(client, before, until, 8).await.unwrap().len();
        let series = begun.elapsed().as_secs_f64();
        println!(
            "{what}: {seconds:.3} s, {} rows; {largest} for /metrics in {series:.3} s; memory {}",
            made.rows,
            memory()
        );
    }
}

/// The windows that there are once more for a quarter of an hour before them, those of the ports of a switch for some three
/// hours: what a link's rows are among.
async fn history(client: &Client) {
    let again = |steps: u32, ports: &str| {
        format!(
            "INSERT INTO internal.link_shares SELECT s.time - n * make_interval(secs => 10 * w.windows), port_id, contributor, job_id,
                    operation, name, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes
             FROM (SELECT count(DISTINCT time) AS windows, max(time) AS until FROM internal.link_shares) w, internal.link_shares s,
                  generate_series(1, {steps}) n WHERE s.time > w.until - INTERVAL '1 day' {ports};"
        )
    };
    let of_switch = "AND port_id IN (SELECT id FROM internal.ib_port_key WHERE ib_node_id = 1)";
    client.batch_execute(&again(10, "")).await.unwrap();
    client.batch_execute(&again(11, of_switch)).await.unwrap();
    let minutes = "
        INSERT INTO internal.link_share_minutes (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, is_bound,
                                        counted_bytes, peak_counted_bytes, windows)
            SELECT date_trunc('minute', time - INTERVAL '1 second'), port_id, contributor, job_id, operation, name, sum(bytes),
                   sum(low_bytes), sum(high_bytes), min(kind), bool_or(is_bound), sum(counted_bytes), max(counted_bytes), count(*)
            FROM internal.link_shares WHERE time <= date_trunc('minute', now()) GROUP BY 1, 2, 3, 4, 5, 6;
        UPDATE internal.link_share_state SET minutes_since = date_trunc('minute', now()) - INTERVAL '1 day', minutes_until = date_trunc('minute', now());
        ANALYZE internal.link_shares, internal.link_share_minutes";
    client.batch_execute(minutes).await.unwrap();
}

/// Milliseconds of an answer, serialised.
async fn milliseconds(router: &Router, path: &str) -> f64 {
    let begun = Instant::now();
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    assert!(to_bytes(response.into_body(), usize::MAX).await.unwrap().len() > 10);
    begun.elapsed().as_secs_f64() * 1000.0
}

async fn ask(router: &Router, what: &str, paths: impl Iterator<Item = String>) {
    let mut times = Vec::new();
    for path in paths {
        times.push(milliseconds(router, &path).await);
    }
    let first = times.remove(0);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: median {:.1} ms, 95 % {:.1}, most {:.1} of {}; the first {first:.1} (goal: 100)",
        at(0.5),
        at(0.95),
        at(1.0),
        times.len()
    );
}

#[tokio::test]
#[ignore = "measures: a million rows"]
async fn a_window_of_1428_hosts_and_200_jobs() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    fabric(&client).await;
    traffic(&client).await;
    let rows: i64 =
        client.query_one("SELECT count(*) FROM internal.mpi_traffic_rows", &[]).await.unwrap().get(0);
    println!("{HOSTS} hosts, {JOBS} jobs, {rows} cells of traffic; memory before: {}", memory());
    assert!(windows(&mut client).await >= 3);
    let wrong =
        "SELECT count(*) FROM (SELECT sum(bytes) AS sum, max(counted_bytes) AS counted FROM internal.link_shares
                 GROUP BY port_id, time) s WHERE sum <> counted";
    assert_eq!(client.query_one(wrong, &[]).await.unwrap().get::<_, i64>(0), 0);
    history(&client).await;
    let count = "SELECT count(*), count(DISTINCT time), pg_size_pretty(public.hypertable_size('internal.link_shares')) FROM internal.link_shares";
    let row = client.query_one(count, &[]).await.unwrap();
    let (rows, times, size): (i64, i64, String) = (row.get(0), row.get(1), row.get(2));
    println!("link_shares: {rows} rows of {times} windows, {size}");
    let router = api_on(database);
    // Ports of the first leaf: to hosts, then to spines.
    let links = || {
        (1..=BELOW + SPINES).map(|port| format!("/fabric/0xfe80000000000000/links/0x0000000000000001.{port}"))
    };
    ask(&router, "panel of a link", links()).await;
    ask(&router, "shares of a link, an hour", links().map(|link| link + "/shares")).await;
    let jobs = (1..=JOBS).map(|job| format!("/jobs/slurm%3A{job}%401/link-shares"));
    ask(&router, "a job's busiest links, ten minutes", jobs).await;
    operations(&client).await;
    throughline_query::evidence::limit(&client).await.unwrap();
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let mut known = crate::upkeep::VerdictMemory::default();
    for round in ["first", "second", "third"] {
        client
            .batch_execute(
                "UPDATE internal.job_judgement SET judged_at = judged_at - INTERVAL '1 minute'; \
                 UPDATE internal.run_claim SET judge_after = now()",
            )
            .await
            .unwrap();
        let (begun, before) = (Instant::now(), processor(backend));
        crate::upkeep::judge_jobs(
            &mut client,
            &throughline_daemon::SelfMetrics::default(),
            crate::upkeep::AfterJudgement::default(),
            &mut known,
        )
        .await
        .unwrap();
        let (seconds, used) = (begun.elapsed().as_secs_f64(), processor(backend) - before);
        println!(
            "verdicts on {JOBS} jobs, {round} time: {seconds:.2} s, {used:.2} s of processors (goal: 5)"
        );
    }
    let judged = "SELECT count(*) FROM internal.job_judgement";
    assert_eq!(client.query_one(judged, &[]).await.unwrap().get::<_, i64>(0), i64::from(JOBS));
    let said = "SELECT string_agg(kind || ' ' || n, ', ' ORDER BY kind) FROM (SELECT kind, count(*) AS n FROM internal.job_verdict GROUP BY 1) v";
    println!("said: {}", client.query_one(said, &[]).await.unwrap().get::<_, String>(0));
    for part in ["", "/ranks", "/traffic", "/verdicts", "/report"] {
        let jobs = (1..=20).map(|job| format!("/jobs/slurm%3A{job}%401{part}"));
        ask(&router, &format!("/jobs/JOB{part}"), jobs).await;
    }
    show(&router).await;
}

/// What `job show` requests of a job, at once.
async fn show(router: &Router) {
    const PARTS: [&str; 6] = ["", "/ranks", "/regions", "/traffic", "/link-shares", "/waits"];
    let mut times = Vec::new();
    for job in 1..=JOBS {
        let begun = Instant::now();
        let paths = PARTS.map(|part| format!("/jobs/slurm%3A{job}%401{part}"));
        let requests = paths.iter().map(|path| milliseconds(router, path));
        futures::future::join_all(requests).await;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "job show, 200 jobs: median {:.1} ms, 95 % {:.1}, most {:.1} (goal: 300)",
        times[100], times[190], times[199]
    );
}
