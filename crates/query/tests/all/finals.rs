//! What is read of a job is the same before its rows go and after: then it is its final totals.

use crate::batches::{SECOND, entry};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use throughline_query::{account, job_parts, jobs, region_paths, traffic, waits};
use throughline_sample::wire::{
    Batch, Job, JobRank, JobSetting, MpiOpCell, MpiOpenCall, MpiPathCell, MpiPeerCell, MpiRankBin,
    MpiRankPeers, MpiRankRegions, MpiRankScheduling, MpiRegionCell, Names, RankGpu,
};
use throughline_store::{
    Database, Retention, Writer, apply_retention, expire_jobs, pack_totals, release_claims, testing,
};
use tokio_postgres::Client;
use uuid::Uuid;

const KEY: &str = "slurm:7@1000";
const HOUR: i64 = 3600 * SECOND;
const PATIENCE: Duration = Duration::from_secs(60);

/// Rows are kept for an hour; the job ended four hours ago.
fn retention() -> Retention {
    Retention::for_all(Duration::from_secs(3600))
}

struct Site {
    database: Database,
    client: Client,
    writer: Writer,
    now: i64,
    sequence: u64,
    spool: Uuid,
}

fn cell(operation: &str, size_class_bytes: u64, algorithm: &str, n: u64) -> MpiOpCell {
    MpiOpCell {
        operation: operation.into(),
        size_class_bytes,
        calls: 1_000 + n,
        bytes: (1_000 + n) * size_class_bytes,
        elapsed_nanoseconds: 123_456_789_000 + n * 7_000,
        longest_nanoseconds: 1_234_000 + n * 1_000,
        region: if n.is_multiple_of(2) { "solve" } else { "" }.into(),
        algorithm: algorithm.into(),
        algorithm_source: if algorithm.is_empty() { "" } else { "observed" }.into(),
        wait_nanoseconds: (operation == "isend").then_some(99_999_999_000 + n * 1_000),
        received_bytes: (operation == "irecv").then_some(4096 * n),
        ..MpiOpCell::default()
    }
}

impl Site {
    async fn new() -> Self {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let writer = Writer::new(database.clone());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let (now, spool) = (i64::try_from(now).unwrap() / SECOND * SECOND, Uuid::new_v4());
        let mut site = Self { database, client, writer, now, sequence: 0, spool };
        // Policies, with nothing to drop yet.
        site.retain().await;
        site
    }

    async fn retain(&mut self) {
        apply_retention(&self.client, &retention(), None).await.unwrap();
    }

    async fn send(&mut self, batch: Batch) {
        self.sequence += 1;
        let outcome = self.writer.write(&[entry(self.spool, self.sequence, batch)]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.duplicates), (0, 0));
    }

    /// A start of a rank, from so many seconds after the job's begin on.
    fn life(&self, rank: u32, node: &str, after: i64, end: Option<(i64, &str)>) -> Batch {
        let begin = self.now - 6 * HOUR + 123_456_000;
        let epoch = begin + after * SECOND;
        let ended = end.map_or(0, |(end, _)| begin + end * SECOND);
        let n = u64::from(rank) + after.unsigned_abs();
        let time = end.map_or(self.now - SECOND, |(end, _)| begin + end * SECOND);
        let peers = |kind: &str, bytes: u64| MpiRankPeers {
            time,
            epoch,
            job_key: KEY.into(),
            rank,
            kind: kind.into(),
            source: "pmpi".into(),
            cells: (0..6)
                .filter(|peer| *peer != rank)
                .map(|peer| MpiPeerCell { peer, bytes: bytes + n, messages: n + 1 })
                .collect(),
            is_whole: true,
        };
        let gpu = |uuid: &str| RankGpu {
            gpu_uuid: uuid.into(),
            evidence: "driver".into(),
            first_seen: begin,
            ..RankGpu::default()
        };
        Batch {
            node: node.into(),
            jobs: vec![Job {
                key: KEY.into(),
                scheduler: "slurm".into(),
                user: "ada".into(),
                name: "cfd".into(),
                start: begin,
                end: ended,
                seen: time,
                world_size: 6,
                ..Job::default()
            }],
            job_ranks: vec![JobRank {
                job_key: KEY.into(),
                rank,
                pid: 4000 + rank,
                world_size: 6,
                mpi_library: "Open MPI v4.1.4".into(),
                start: epoch,
                end: ended,
                ending: end.map_or(String::new(), |(_, ending)| ending.into()),
                host: node.into(),
                gpus: ["GPU-1", "GPU-x"].into_iter().filter(|_| rank == 1).map(gpu).collect(),
                gpu_evidence: if rank == 1 { "driver".into() } else { String::new() },
                visible_devices: None,
                hca_ports: (rank < 4).then(|| Names { name: vec!["mlx5_0/1".into()] }),
                cpus: if rank == 3 { String::new() } else { format!("{}-{}", 2 * rank, 2 * rank + 1) },
                numa_nodes: vec![rank % 2],
                hca_numa_nodes: vec![0, 1],
            }],
            job_settings: vec![JobSetting {
                job_key: KEY.into(),
                name: "coll_tuned_bcast_algorithm".into(),
                value: "1".into(),
                rank,
                time,
            }],
            mpi_rank_rows: vec![MpiRankBin {
                time,
                epoch,
                job_key: KEY.into(),
                rank,
                source: "pmpi".into(),
                cells: vec![
                    cell("allreduce", 8, "ring", n),
                    cell("allreduce", 8192, "recursivedoubling", n),
                    cell("isend", 1024, "", n),
                    cell("irecv", 1024, "", n),
                ],
            }],
            mpi_scheduling: vec![MpiRankScheduling {
                time,
                epoch,
                job_key: KEY.into(),
                rank,
                cpu_nanoseconds: Some(1),
                elapsed_nanoseconds: Some(1_700_000_000_000 + n),
                mpi_nanoseconds: Some(700_000_000_000 + n),
                off_outside_nanoseconds: Some(200_000_000_000),
                queued_outside_nanoseconds: Some(80_000_000_000),
                off_inside_nanoseconds: Some(30_000_000_000),
                queued_inside_nanoseconds: Some(20_000_000_000),
                throttled_nanoseconds: (rank == 1).then_some(50_000_000_000),
                file_samples: 9,
                sleep_samples: 3,
                ..MpiRankScheduling::default()
            }],
            mpi_peers: vec![peers("logical", 4_000_000_000), peers("wire", 5_000)],
            mpi_regions: vec![MpiRankRegions {
                time,
                epoch,
                job_key: KEY.into(),
                rank,
                source: "pmpi".into(),
                cells: vec![MpiRegionCell {
                    region: "solve".into(),
                    visits: n,
                    elapsed_nanoseconds: 2_000_000_000,
                    mpi_calls: 5,
                    ..MpiRegionCell::default()
                }],
                paths: vec![MpiPathCell {
                    path: "main/solve".into(),
                    visits: n,
                    elapsed_nanoseconds: 1_000_000_000,
                    ..MpiPathCell::default()
                }],
            }],
            ..Batch::default()
        }
    }

    /// Four ranks on two nodes: one was started twice, one was killed in a barrier.
    async fn run_job(&mut self) {
        let clean = Some((3600, "clean"));
        let mut killed = self.life(2, "n2", 0, Some((3590, "lost")));
        let (epoch, end) = (killed.job_ranks[0].start, killed.job_ranks[0].end);
        killed.mpi_open_calls.push(MpiOpenCall {
            time: end - SECOND,
            epoch,
            job_key: KEY.into(),
            rank: 2,
            thread: 0,
            operation: "barrier".into(),
            start: end - 40 * SECOND,
            is_on_world: true,
            ..MpiOpenCall::default()
        });
        let lives = [
            self.life(0, "n1", 0, Some((1800, "unseen"))),
            self.life(0, "n1", 1900, clean),
            self.life(1, "n1", 0, clean),
            killed,
            self.life(3, "n2", 0, clean),
        ];
        for life in lives {
            self.send(life).await;
        }
    }

    /// As if an hour went by in which nothing came.
    async fn settle(&self) {
        let age = "UPDATE internal.run_claim SET reported_at = reported_at - INTERVAL '1 hour'";
        self.client.batch_execute(age).await.unwrap();
    }

    async fn pack(&mut self) -> u64 {
        let mut client = self.database.connect().await.unwrap();
        pack_totals(&mut client, PATIENCE).await.unwrap().jobs
    }

    /// Packs, drops rows and removes claims.
    async fn pass(&mut self) {
        let mut client = self.database.connect().await.unwrap();
        pack_totals(&mut client, PATIENCE).await.unwrap();
        self.retain().await;
        release_claims(&mut client).await.unwrap();
    }

    async fn count(&self, table: &str) -> i64 {
        self.client.query_one(&format!("SELECT count(*) FROM internal.{table}"), &[]).await.unwrap().get(0)
    }

    async fn id(&self) -> i64 {
        self.client.query_one("SELECT id FROM internal.run WHERE key = $1", &[&KEY]).await.unwrap().get(0)
    }

    /// All that the pages of the job have of its totals, as text; times of sums to the nanosecond.
    async fn shown(&self) -> Vec<String> {
        let (client, id) = (&self.client, self.id().await);
        let nano = |seconds: f64| (seconds * 1e9).round();
        let mut all = Vec::new();
        let totals = |totals: &jobs::Totals| {
            let observed = totals.observed_seconds.map(|observed| (observed * 1e6).round());
            format!("{} {} {} {observed:?}", totals.calls, totals.bytes, nano(totals.mpi_seconds))
        };
        let job = jobs::one(client, KEY).await.unwrap().unwrap();
        all.push(format!("{job:?}"));
        all.extend(
            jobs::totals(client, &[id], &HashMap::new()).await.unwrap().iter().map(|(_, sums)| totals(sums)),
        );
        let of_ranks = jobs::rank_totals(client, id, None).await.unwrap();
        all.extend(of_ranks.iter().map(|(rank, sums)| format!("{rank}: {}", totals(sums))));
        for cell in jobs::cells(client, id, None).await.unwrap() {
            let times = [Some(cell.elapsed_seconds), cell.wait_seconds, cell.longest_seconds]
                .map(|time| time.map(nano));
            let cell = jobs::Cell { elapsed_seconds: 0.0, wait_seconds: None, longest_seconds: None, ..cell };
            all.push(format!("{cell:?} {times:?}"));
        }
        all.push(format!("{:?}", jobs::ranks(client, id).await.unwrap()));
        all.push(format!("{:?}", job_parts::endings(client, id).await.unwrap()));
        all.push(format!("{:?}", job_parts::settings(client, id).await.unwrap()));
        let lost = job_parts::first_lost(client, id).await.unwrap().unwrap();
        all.push(format!("{} {} {:?} {:?}", lost.rank, lost.host, lost.end_ms, lost.operation));
        all.push(format!("{:?}", job_parts::regions(client, id).await.unwrap()));
        all.push(format!("{:?}", region_paths::of_job(client, id).await.unwrap()));
        all.push(format!("{:?}", job_parts::traffic(client, id).await.unwrap()));
        all.push(format!("{:?}", traffic::kinds(client, id).await.unwrap()));
        let operations = "SELECT format('%s %s %s %s %s %s', rank, operation, calls, bytes, received_bytes, round(wait_seconds * 1e9))
            || round(elapsed_seconds * 1e9) || ' ' || round(longest_seconds * 1e9) FROM public.mpi_op_totals WHERE job_id = $1 ORDER BY 1";
        let rows = client.query(operations, &[&id]).await.unwrap();
        all.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        let summary = "SELECT (to_jsonb(s) - 'state')::text FROM public.job_summary s WHERE id = $1";
        all.push(client.query_one(summary, &[&id]).await.unwrap().get(0));
        let account = account::of_job(client, &job, &[], &waits::OfJob::default()).await.unwrap();
        let of_nodes = account.nodes.iter().map(|node| (&node.lines, node.ranks, node.elapsed_seconds));
        for (lines, ranks, elapsed) in
            of_nodes.chain([(&account.lines, account.ranks, account.elapsed_seconds)])
        {
            let milliseconds = |seconds: f64| (seconds * 1e3).round();
            let lines: Vec<_> = lines.iter().map(|line| (&line.line, milliseconds(line.seconds))).collect();
            assert!(lines.len() >= 5, "{lines:?}");
            all.push(format!("{ranks} {} {lines:?}", milliseconds(elapsed)));
        }
        all
    }

    /// Bytes from host to host of a kind, from rows of ranks.
    async fn by_node(&self, kind: &str) -> Vec<(String, String, i64, i64)> {
        let sql = "WITH hosts AS (SELECT DISTINCT ON (rank) rank, host FROM internal.job_ranks($1) ORDER BY rank, start_time DESC)
            SELECT s.host, d.host, sum(p.bytes)::bigint, sum(p.messages)::bigint FROM public.mpi_peer_totals p
            JOIN hosts s ON s.rank = p.rank JOIN hosts d ON d.rank = p.peer WHERE p.job_id = $1 AND p.kind = $2 GROUP BY 1, 2 ORDER BY 1, 2";
        let rows = self.client.query(sql, &[&self.id().await, &kind]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
    }

    async fn final_pairs(&self, kind: &str) -> (Vec<(String, String, i64, i64)>, [i64; 3]) {
        let pairs = traffic::node_pairs(&self.client, self.id().await, kind).await.unwrap().unwrap();
        let host = |place: &usize| pairs.hosts[*place].clone();
        let mut all: Vec<_> = (0..pairs.from.len())
            .map(|at| (host(&pairs.from[at]), host(&pairs.to[at]), pairs.bytes[at], pairs.messages[at]))
            .collect();
        all.sort();
        (all, [pairs.others_bytes, pairs.others_messages, pairs.others_rank_pairs])
    }
}

#[tokio::test]
async fn a_job_of_last_month_is_shown_as_before() {
    let mut site = Site::new().await;
    site.run_job().await;
    site.settle().await;
    let before = site.shown().await;
    let pairs = site.by_node("logical").await;
    assert_eq!(pairs.len(), 4);
    assert!(
        traffic::node_pairs(&site.client, site.id().await, "logical").await.unwrap().is_none(),
        "rows are there"
    );
    assert_eq!(site.pack().await, 1);
    assert_eq!(site.pack().await, 0, "it is packed");
    // With its rows and claims, as totals, and without any of them.
    assert_eq!(site.shown().await, before);
    site.pass().await;
    for table in ["mpi_rank_rows", "mpi_rank_peers", "mpi_regions", "rank_claim", "mpi_open_call"] {
        assert_eq!(site.count(table).await, 0, "{table}");
    }
    assert_eq!(site.shown().await, before);
    let (all, others) = site.final_pairs("logical").await;
    assert_eq!(all, pairs);
    // Ranks 4 and 5 are of no node: their part is in the rest.
    assert!(others[0] > 0 && others[2] == 4 * 2, "{others:?}");
    assert!(site.by_node("wire").await.is_empty());
}

#[tokio::test]
async fn a_job_that_runs_and_one_whose_records_come_are_not_packed() {
    let mut site = Site::new().await;
    let running = site.life(0, "n1", 0, None);
    site.send(running).await;
    site.settle().await;
    assert_eq!(site.pack().await, 0);
    site.pass().await;
    assert_eq!(site.count("rank_claim").await, 1, "it runs");
    let ended = site.life(0, "n1", 0, Some((3600, "clean")));
    site.send(ended).await;
    assert_eq!(site.pack().await, 0, "a record came a moment ago");
    site.settle().await;
    assert_eq!(site.pack().await, 1);
}

#[tokio::test]
async fn late_records_are_packed_too() {
    let mut site = Site::new().await;
    site.run_job().await;
    site.settle().await;
    site.pass().await;
    let first = site.shown().await;
    // A node that was cut off for longer than rows are kept.
    let late = site.life(4, "n3", 0, Some((3600, "clean")));
    site.send(late).await;
    assert_eq!(site.count("job_final_wanted").await, 1);
    site.settle().await;
    site.pass().await;
    assert_eq!((site.count("job_final_wanted").await, site.count("mpi_rank_rows").await), (0, 0));
    let job = jobs::one(&site.client, KEY).await.unwrap().unwrap();
    assert_eq!((job.ranks, job.nodes), (5, 3));
    let totals = jobs::rank_totals(&site.client, job.id, None).await.unwrap();
    assert_eq!(totals.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(totals[4].1.calls, 4 * 1_004);
    let calls = |rows: &[jobs::Cell]| rows.iter().map(|cell| cell.calls).sum::<i64>();
    let cells = jobs::cells(&site.client, job.id, None).await.unwrap();
    assert_eq!(calls(&cells), totals.iter().map(|(_, totals)| totals.calls).sum::<i64>());
    // The rest of the job is as it was.
    let second = site.shown().await;
    let of_ranks = |all: &[String]| {
        all.iter()
            .filter(|line| line.starts_with("0:") || line.starts_with("2:"))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of_ranks(&second), of_ranks(&first));
    let (all, _) = site.final_pairs("logical").await;
    assert!(all.iter().any(|(from, to, ..)| from == "n3" && to == "n1"), "{all:?}");
}

#[tokio::test]
async fn the_largest_pairs_of_nodes_stay_and_the_rest_is_one() {
    let mut site = Site::new().await;
    let first = site.life(0, "n1", 0, Some((3600, "clean")));
    site.send(first).await;
    // 102 nodes with a rank each; each rank sends to all.
    let fill = "
        DELETE FROM internal.mpi_rank_peers;
        INSERT INTO internal.rank_claim (job_id, rank, host, pid, world_size, mpi_library, start_time, end_time, ending)
        SELECT r.job_id, n, 'm' || n, n, 102, r.mpi_library, r.start_time, r.end_time, 'clean'
        FROM internal.rank_claim r, generate_series(1, 101) n;
        INSERT INTO internal.mpi_rank_peers (time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages)
        SELECT r.end_time, r.job_id, r.rank, (SELECT min(id) FROM internal.node_key), 'logical', r.start_time, 'pmpi', true,
               ARRAY(SELECT generate_series(0, 101)), ARRAY(SELECT 1000 * r.rank + p FROM generate_series(0, 101) p),
               ARRAY(SELECT 1 FROM generate_series(0, 101))
        FROM internal.rank_claim r";
    site.client.batch_execute(fill).await.unwrap();
    site.settle().await;
    site.pass().await;
    let (all, others) = site.final_pairs("logical").await;
    assert_eq!(all.len(), 10_000);
    let sum = all.iter().map(|(_, _, bytes, _)| bytes).sum::<i64>() + others[0];
    assert_eq!(
        sum,
        (0..102).map(|rank: i64| (0..102).map(|peer: i64| 1000 * rank + peer).sum::<i64>()).sum::<i64>()
    );
    assert_eq!((others[1], others[2]), (102 * 102 - 10_000, 102 * 102 - 10_000));
    assert!(all.iter().all(|(.., bytes, _)| *bytes >= others[0] / others[2]));
}

#[tokio::test]
async fn an_expired_job_leaves_no_list_and_no_page() {
    let mut site = Site::new().await;
    site.run_job().await;
    site.settle().await;
    site.pass().await;
    let mut client = site.database.connect().await.unwrap();
    let keep = |hours: u64| retention().with_jobs(Duration::from_secs(hours * 3600));
    // Reported in the last hours: its number may be in use.
    assert_eq!(expire_jobs(&mut client, &keep(3)).await.unwrap().jobs, 0);
    let age = "UPDATE internal.run_claim SET reported_at = reported_at - INTERVAL '9 hours'";
    site.client.batch_execute(age).await.unwrap();
    assert_eq!(expire_jobs(&mut client, &keep(8)).await.unwrap().jobs, 0, "it is not old enough");
    site.client.batch_execute("UPDATE internal.clock_check SET permitted_until = '-infinity'").await.unwrap();
    assert_eq!(expire_jobs(&mut client, &keep(3)).await.unwrap().jobs, 0, "the clock is in doubt");
    testing::trust_clock(&site.client).await;
    assert_eq!(expire_jobs(&mut client, &keep(3)).await.unwrap().jobs, 1);
    assert_eq!(jobs::one(&site.client, KEY).await.unwrap(), None);
    assert!(jobs::running_first(&site.client, 10).await.unwrap().is_empty());
    // The same key again is another job.
    let again = site.life(0, "n1", 0, Some((3600, "clean")));
    site.send(again).await;
    assert_eq!(jobs::one(&site.client, KEY).await.unwrap().unwrap().ranks, 1);
}
