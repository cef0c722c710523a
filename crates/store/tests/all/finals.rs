//! Final totals of jobs: their size, and that nothing is left of a job that has expired.

use crate::batches::{SECOND, batch_of_everything, entry};
use std::time::{Duration, SystemTime};
use throughline_sample::wire::{
    Batch, Job, JobRank, MpiOpCell, MpiPeerCell, MpiRankBin, MpiRankPeers, Names, RankGpu,
};
use throughline_store::{
    PlainRetention, Retention, TABLES, Writer, apply_retention, expire_jobs, pack_totals, release_claims,
    testing,
};
use uuid::Uuid;

const NODES: u32 = 8;
const RANKS: u32 = 32;
const JOBS: u32 = 12;

/// At most so many bytes of a rank stay.
const BYTES_MAX: f64 = 100.0;

/// Tables that have a job's number, and the column with it.
fn tables_of_jobs() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.iter().filter_map(|table| match table.plain()?.keep {
        PlainRetention::Job(column) | PlainRetention::Rank(column) => Some((table.name, column)),
        _ => None,
    })
}

#[tokio::test]
async fn an_expired_job_leaves_no_row_in_any_table() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    writer.write(&[entry(Uuid::new_v4(), 1, batch_of_everything())]).await.unwrap();
    let age = "UPDATE internal.rank_claim SET start_time = now() - INTERVAL '3 hours', end_time = now() - INTERVAL '2 hours', ending = 'clean';
        UPDATE internal.run SET start_time = now() - INTERVAL '3 hours', end_time = now() - INTERVAL '2 hours';
        UPDATE internal.run_claim SET reported_at = now() - INTERVAL '2 hours';
        INSERT INTO internal.job_judgement (job_id, judged_at, is_final) SELECT id, now(), true FROM internal.run;
        INSERT INTO internal.job_verdict (job_id, kind, subject, first_at, last_at, place, observation, remedy, confidence, facts)
            SELECT id, 'hung', 'job', now(), now(), 0, '', '', 'certain', '[]' FROM internal.run;
        INSERT INTO internal.report_post (job_id, node_id, uid) SELECT j.id, c.node_id, 0 FROM internal.run j JOIN internal.run_claim c
            ON c.job_id = j.id LIMIT 1";
    client.batch_execute(age).await.unwrap();
    assert!(pack_totals(&mut client, Duration::from_secs(60)).await.unwrap().jobs > 0);
    for (table, _) in tables_of_jobs() {
        let rows: i64 =
            client.query_one(&format!("SELECT count(*) FROM internal.{table}"), &[]).await.unwrap().get(0);
        assert!(rows > 0, "{table} has no row of the job, so nothing is tested of it");
    }
    let day = Retention::for_all(Duration::from_secs(3600));
    apply_retention(&client, &day, None).await.unwrap();
    let expired = expire_jobs(&mut client, &day.with_jobs(Duration::from_secs(3600))).await.unwrap();
    assert!(expired.jobs > 0 && !expired.is_behind, "{expired:?}");
    for (table, _) in tables_of_jobs() {
        let rows: i64 =
            client.query_one(&format!("SELECT count(*) FROM internal.{table}"), &[]).await.unwrap().get(0);
        assert_eq!(rows, 0, "{table}");
    }
}

/// A number that looks like any, below `below`.
fn any(seed: u64, below: u64) -> u64 {
    let mut bits = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 31;
    bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits ^ (bits >> 29)) % below
}

/// Cells of a rank: times inside and of the longest call up to so many milliseconds.
fn cells(seed: u64) -> Vec<MpiOpCell> {
    let cell = |at: u64, operation: &str, calls: u64, bytes: u64, [inside, longest]: [u64; 2]| MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 8192,
        calls,
        bytes,
        elapsed_nanoseconds: inside * 600_000 + any(seed * 8 + at, inside * 400_000),
        longest_nanoseconds: 1_000_000 + any(seed * 8 + at + 77, longest * 1_000_000),
        ..MpiOpCell::default()
    };
    let messages = 40_000 + any(seed, 4_000);
    let waited = |at: u64| Some(100_000_000_000 + any(seed * 8 + at + 99, 100_000_000_000));
    vec![
        cell(0, "allreduce", 120_000, 960_000, [500_000, 400]),
        cell(1, "barrier", 1_200, 0, [4_000, 100]),
        MpiOpCell {
            wait_nanoseconds: waited(2),
            ..cell(2, "isend", messages, messages * 8_192, [8_000, 20])
        },
        MpiOpCell {
            wait_nanoseconds: waited(3),
            received_bytes: Some(messages * 8_100),
            ..cell(3, "irecv", messages, 0, [2_000, 20])
        },
        cell(4, "waitall", 40_000, 0, [200_000, 400]),
    ]
}

/// A node of a job of four hours, an hour ago.
fn node(job: u32, node: u32, now: i64) -> Batch {
    let key = format!("slurm:{job}@1000");
    let name = format!("node{node:04}");
    let begin = now - 5 * 3600 * SECOND;
    let start =
        |rank: u32| begin + i64::try_from(any(u64::from(job * 1000 + rank), 300_000)).unwrap() * 1_000;
    let end = |rank: u32| {
        now - 3600 * SECOND + i64::try_from(any(u64::from(job * 1000 + rank + 7), 200_000)).unwrap() * 1_000
    };
    let ranks = node * RANKS..(node + 1) * RANKS;
    let claim = |rank: u32| JobRank {
        job_key: key.clone(),
        rank,
        pid: 100_000
            + u32::try_from(any(u64::from(job * 100 + node), 1_000_000)).unwrap()
            + 3 * (rank % RANKS),
        world_size: NODES * RANKS,
        mpi_library: "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"
            .into(),
        start: start(rank),
        end: end(rank),
        ending: "clean".into(),
        host: name.clone(),
        gpus: vec![RankGpu {
            gpu_uuid: format!("GPU-{node:08}-1234-5678-9abc-{:012}", rank % 4),
            evidence: "driver".into(),
            first_seen: start(rank),
            ..RankGpu::default()
        }],
        gpu_evidence: "driver".into(),
        visible_devices: None,
        hca_ports: Some(Names { name: vec![format!("mlx5_{}/1", rank % 2)] }),
        cpus: (rank % RANKS).to_string(),
        numa_nodes: vec![rank % RANKS / 16],
        hca_numa_nodes: vec![0],
    };
    let row = |rank: u32| MpiRankBin {
        time: end(rank),
        epoch: start(rank),
        job_key: key.clone(),
        rank,
        source: "pmpi".into(),
        cells: cells(u64::from(job * 10_000 + rank)),
    };
    let peers = |rank: u32| MpiRankPeers {
        time: end(rank),
        epoch: start(rank),
        job_key: key.clone(),
        rank,
        kind: "logical".into(),
        source: "pmpi".into(),
        cells: [1, 2, RANKS, NODES * RANKS - 1]
            .map(|step| MpiPeerCell {
                peer: (rank + step) % (NODES * RANKS),
                bytes: 80_000_000_000 + u64::from(rank),
                messages: 10_000,
            })
            .into(),
        is_whole: true,
    };
    Batch {
        node: name.clone(),
        jobs: vec![Job {
            key: key.clone(),
            start: begin,
            end: end(ranks.end),
            seen: now - 3600 * SECOND,
            ..Job::default()
        }],
        job_ranks: ranks.clone().map(claim).collect(),
        mpi_rank_rows: ranks.clone().map(row).collect(),
        mpi_peers: ranks.map(peers).collect(),
        ..Batch::default()
    }
}

#[tokio::test]
async fn a_rank_takes_as_many_bytes_as_predicted() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let now = i64::try_from(now).unwrap() / SECOND * SECOND;
    let spool = Uuid::new_v4();
    let batches = (0..JOBS).flat_map(|job| (0..NODES).map(move |at| node(job, at, now)));
    for (sequence, batch) in (1..).zip(batches) {
        let outcome = writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
        assert_eq!(outcome.quarantined, 0);
    }
    client
        .batch_execute("UPDATE internal.run_claim SET reported_at = now() - INTERVAL '1 hour'")
        .await
        .unwrap();
    let packed = pack_totals(&mut client, Duration::from_secs(300)).await.unwrap();
    assert_eq!(packed.jobs, u64::from(JOBS));
    apply_retention(&client, &Retention::for_all(Duration::from_secs(1800)), None).await.unwrap();
    assert_eq!(release_claims(&mut client).await.unwrap().jobs, u64::from(JOBS));
    // As many jobs as fill their pages.
    let columns = |table: &str| {
        format!(
            "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
             WHERE attrelid = 'internal.{table}'::regclass AND attnum > 1 AND NOT attisdropped"
        )
    };
    client.batch_execute("INSERT INTO internal.run (key) SELECT 'copy' || c || '/' || id FROM internal.run, generate_series(1, 40) c").await.unwrap();
    for table in ["job_final", "job_node_final"] {
        let columns: String = client.query_one(&columns(table), &[]).await.unwrap().get(0);
        let selected = columns.split(", ").map(|column| format!("f.{column}")).collect::<Vec<_>>().join(", ");
        let copy = format!(
            "INSERT INTO internal.{table} (job_id, {columns}) SELECT r.id, {selected} FROM internal.run r
             JOIN internal.{table} f ON f.job_id = split_part(r.key, '/', 2)::bigint WHERE r.key LIKE 'copy%'"
        );
        client.batch_execute(&copy).await.unwrap();
    }
    let size = "SELECT pg_total_relation_size('internal.job_node_final')::float8, pg_total_relation_size('internal.job_final')::float8,
                       (SELECT sum(ranks) FROM internal.job_final)::float8";
    let row = client.query_one(size, &[]).await.unwrap();
    let (of_nodes, of_jobs, ranks): (f64, f64, f64) = (row.get(0), row.get(1), row.get(2));
    assert!((ranks - 41.0 * f64::from(JOBS * NODES * RANKS)).abs() < 0.5);
    let parts = "SELECT format('ranks %s, places %s, texts %s, totals %s, row %s', avg(pg_column_size(ranks)), avg(pg_column_size(places)),
        avg(pg_column_size(texts)), avg(pg_column_size(totals)), avg(pg_column_size(n.*))) FROM internal.job_node_final n";
    println!("{}", client.query_one(parts, &[]).await.unwrap().get::<_, String>(0));
    println!("{:.1} bytes a rank in job_node_final, {:.1} in job_final", of_nodes / ranks, of_jobs / ranks);
    assert!((of_nodes + of_jobs) / ranks <= BYTES_MAX, "{:.1} and {:.1}", of_nodes / ranks, of_jobs / ranks);
    let claims: i64 = client.query_one("SELECT count(*) FROM internal.rank_claim", &[]).await.unwrap().get(0);
    assert_eq!(claims, 0);
}
