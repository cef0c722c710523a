//! Attacks of a node that claims what others report: what it does to them, and what is shown.

use crate::batches::{SECOND, entry};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_sample::admission::Rejection;
use throughline_sample::wire::*;
use throughline_store::{
    BarSubject, ContestRounds, Database, Entry, NodeLimits, Sender, Writer, bar_node, settle_contests,
    testing, unbar_node,
};
use tokio_postgres::Client;
use uuid::Uuid;

struct Bench {
    database: Database,
    client: Client,
    writer: Writer,
    spools: BTreeMap<String, (Uuid, u64)>,
    rejected: BTreeMap<(String, Rejection), u64>,
    now: i64,
    /// Ranks of the jobs that are reported.
    world: u32,
}

impl Bench {
    async fn new() -> Self {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let writer = Writer::new(database.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let (spools, rejected) = (BTreeMap::new(), BTreeMap::new());
        Self { database, client, writer, spools, rejected, now: i64::try_from(now).unwrap(), world: 8 }
    }

    /// Sends a batch as its node's certificate.
    async fn send(&mut self, batch: Batch) {
        let (spool, sequence) = self.spools.entry(batch.node.clone()).or_insert_with(|| (Uuid::new_v4(), 0));
        *sequence += 1;
        let owners = [format!("node:{}", batch.node)].into();
        let node = batch.node.clone();
        let sender = Sender { owners, ..Sender::default() };
        let outcome =
            self.writer.write(&[Entry { sender, ..entry(*spool, *sequence, batch) }]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.denied.len()), (0, 0));
        for (reason, records) in outcome.rejected {
            *self.rejected.entry((node.clone(), reason)).or_default() += records;
        }
    }

    /// A node reports ranks of a job: each with so many calls, and the bytes that they sent to each rank.
    async fn report(&mut self, node: &str, key: &str, ranks: &[u32], calls: u64, sent: &[(i32, i64)]) {
        let job = Job { command: format!("./of-{key}"), ..self.job(key, self.world) };
        let job_ranks = ranks.iter().map(|rank| self.rank(key, *rank, self.world)).collect();
        let rows = ranks.iter().map(|rank| self.row(key, *rank, calls)).collect();
        let mpi_traffic = if sent.is_empty() { Vec::new() } else { vec![self.traffic(key, sent)] };
        let batch = Batch { jobs: vec![job], job_ranks, mpi_rank_rows: rows, mpi_traffic, ..of(node) };
        self.send(batch).await;
    }

    fn job(&self, key: &str, world_size: u32) -> Job {
        Job {
            key: key.to_owned(),
            scheduler: "slurm".into(),
            uid: 1000,
            start: self.now - 60 * SECOND,
            seen: self.now,
            world_size,
            evidence: "cgroup".into(),
            ..Job::default()
        }
    }

    fn rank(&self, key: &str, rank: u32, world_size: u32) -> JobRank {
        let (start, pid) = (self.now - 60 * SECOND, 100 + rank);
        JobRank { job_key: key.to_owned(), rank, pid, world_size, start, ..JobRank::default() }
    }

    fn row(&self, key: &str, rank: u32, calls: u64) -> MpiRankBin {
        let cell = MpiOpCell {
            operation: "allreduce".into(),
            calls,
            bytes: 8 * calls,
            elapsed_nanoseconds: calls * 1000,
            ..MpiOpCell::default()
        };
        MpiRankBin {
            time: self.now - SECOND,
            job_key: key.to_owned(),
            rank,
            epoch: self.now - 60 * SECOND,
            source: "shim".into(),
            cells: vec![cell],
        }
    }

    fn traffic(&self, key: &str, sent: &[(i32, i64)]) -> MpiNodeTraffic {
        MpiNodeTraffic {
            time: self.now - SECOND,
            job_key: key.to_owned(),
            operation: "allreduce".into(),
            kind: "modelled".into(),
            direction: "transmit".into(),
            epoch: self.now - 60 * SECOND,
            since: self.now - 11 * SECOND,
            source: "shim".into(),
            is_whole: true,
            cells: sent
                .iter()
                .map(|(peer, bytes)| MpiPeerCell {
                    peer: u32::try_from(*peer).unwrap(),
                    bytes: u64::try_from(*bytes).unwrap(),
                    messages: 1,
                })
                .collect(),
        }
    }

    /// Two nodes with four ranks each that send each other the same.
    async fn exchange(&mut self, first: &str, second: &str, key: &str, calls: u64) {
        let to = |ranks: std::ops::Range<i32>| ranks.map(|rank| (rank, 1_000_000)).collect::<Vec<_>>();
        self.report(first, key, &[0, 1, 2, 3], calls, &to(4..8)).await;
        self.report(second, key, &[4, 5, 6, 7], calls, &to(0..4)).await;
    }

    async fn settle(&self) {
        let mut client = self.database.connect().await.unwrap();
        let mut rounds = ContestRounds::default();
        settle_contests(&mut client, &mut rounds).await.unwrap();
        while rounds.has_more() {
            settle_contests(&mut client, &mut rounds).await.unwrap();
        }
    }

    async fn calls(&self, key: &str) -> i64 {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM public.mpi_rank_totals WHERE job_key = $1";
        self.client.query_one(sql, &[&key]).await.unwrap().get(0)
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        self.client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

fn of(node: &str) -> Batch {
    Batch { node: node.to_owned(), ..Batch::default() }
}

const STATES: &str = "SELECT node_name || ' ' || state || ' ' || count(*) || ' ' || coalesce(sum(calls), 0)
                      FROM public.contested_ranks GROUP BY node_name, state ORDER BY 1";

#[tokio::test]
async fn attack_32_a_job_that_was_claimed_beforehand_is_shown_as_both_report_it() {
    let mut bench = Bench::new().await;
    bench.report("n1", "slurm:7777@1000", &[0, 1, 2, 3], 777_777, &[]).await;
    bench.report("n2", "slurm:7777@1000", &[0, 1, 2, 3], 20, &[]).await;
    assert_eq!(bench.rejected, BTreeMap::new(), "nobody's record is rejected for another's claim");
    assert_eq!(bench.calls("slurm:7777@1000").await, 0, "and neither counts");
    assert_eq!(bench.texts(STATES).await, ["n1 contested 4 3111108", "n2 contested 4 80"]);
    bench.settle().await;
    let events = bench.texts("SELECT text FROM internal.events WHERE kind = 'job.contested'").await;
    assert_eq!(
        events,
        [
            "nodes n1, n2 report the same 4 ranks of job slurm:7777@1000: they count in no total until it is known which node runs them"
        ]
    );
    bench.settle().await;
    assert_eq!(bench.texts("SELECT 'x' FROM internal.events WHERE kind = 'job.contested'").await.len(), 1);
    // It claims jobs of two more nodes: three that do not contest among themselves are against it, also where it was first.
    bench.report("n1", "slurm:7778@1000", &[0, 1], 777_777, &[]).await;
    bench.report("n3", "slurm:7778@1000", &[0, 1], 30, &[]).await;
    bench.report("n4", "slurm:7779@1000", &[0], 40, &[]).await;
    bench.report("n1", "slurm:7779@1000", &[0], 777_777, &[]).await;
    bench.settle().await;
    for (key, calls) in [("slurm:7777@1000", 80), ("slurm:7778@1000", 60), ("slurm:7779@1000", 40)] {
        assert_eq!(bench.calls(key).await, calls, "{key}");
    }
    // From then on its claims contest nothing, in either order.
    bench.report("n1", "slurm:7780@1000", &[0], 777_777, &[]).await;
    bench.report("n5", "slurm:7780@1000", &[0], 50, &[]).await;
    bench.report("n5", "slurm:7781@1000", &[0], 51, &[]).await;
    bench.report("n1", "slurm:7781@1000", &[0], 777_777, &[]).await;
    assert_eq!((bench.calls("slurm:7780@1000").await, bench.calls("slurm:7781@1000").await), (50, 51));
}

#[tokio::test]
async fn attack_32_what_exchanges_bytes_over_two_nodes_is_not_blanked() {
    let mut bench = Bench::new().await;
    let key = "slurm:9@1000";
    let made_up: Vec<(i32, i64)> = (0..8).map(|rank| (rank, 5_000)).collect();
    bench.report("evil", key, &[0, 1, 2, 3, 4, 5, 6, 7], 777_777, &made_up).await;
    bench.exchange("n1", "n2", key, 10).await;
    assert_eq!(bench.calls(key).await, 0);
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 80);
    assert_eq!(bench.texts(STATES).await, ["evil overruled 8 6222216", "n1 counted 4 40", "n2 counted 4 40"]);
    // Only some of the ranks: the others count all the time, and both versions of these are there.
    let key = "slurm:10@1000";
    bench.exchange("n3", "n4", key, 10).await;
    bench.report("evil2", key, &[2, 3], 777_777, &[(4, 5_000), (5, 5_000)]).await;
    assert_eq!(bench.calls(key).await, 60);
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 80);
}

/// Each of them claims all ranks of three jobs before their nodes do, and again: which true calls are in no total, round by round.
#[tokio::test]
async fn attack_32_one_three_and_ten_certificates_that_contest_everything() {
    for hostile in [1, 3, 10] {
        let mut bench = Bench::new().await;
        let jobs = [("slurm:1@1000", 1_u32), ("slurm:2@1000", 2), ("slurm:8@1000", 8)];
        for again in 0..2 {
            for evil in 0..hostile {
                for (key, nodes) in jobs {
                    bench.world = 4 * nodes;
                    let ranks: Vec<u32> = (0..4 * nodes).collect();
                    let made_up: Vec<_> =
                        (0..).zip(&ranks).map(|(rank, _)| (rank, 5_000 + 7 * i64::from(evil))).collect();
                    bench.report(&format!("evil{evil}"), key, &ranks, 777_777, &made_up).await;
                }
            }
            for (key, nodes) in jobs.into_iter().filter(|_| again == 0) {
                bench.world = 4 * nodes;
                for node in 0..nodes {
                    let own: Vec<u32> = (4 * node..4 * node + 4).collect();
                    let others = (0..4 * nodes).filter(|rank| !own.contains(rank));
                    let sent: Vec<_> = others.map(|rank| (i32::try_from(rank).unwrap(), 1_000_000)).collect();
                    bench.report(&format!("n{nodes}-{node}"), key, &own, 10, &sent).await;
                }
            }
            if again == 0 {
                bench.settle().await;
            }
            for (key, nodes) in jobs {
                assert_eq!(bench.calls(key).await, 40 * i64::from(nodes), "{hostile} {key} {again}");
            }
        }
        assert_eq!(bench.rejected, BTreeMap::new());
    }
}

#[tokio::test]
async fn attack_32_contests_that_nothing_settles_hold_up_no_others() {
    let mut bench = Bench::new().await;
    bench.world = 1;
    for evil in ["evil0", "evil1"] {
        let keys: Vec<String> = (0..600).map(|number| format!("slurm:{number}@1000")).collect();
        let jobs = keys.iter().map(|key| bench.job(key, 1)).collect();
        let job_ranks = keys.iter().map(|key| bench.rank(key, 0, 1)).collect();
        bench.send(Batch { jobs, job_ranks, ..of(evil) }).await;
    }
    bench.world = 8;
    let key = "slurm:1000@1000";
    bench.report("evil0", key, &[0, 1, 2, 3, 4, 5, 6, 7], 777_777, &[]).await;
    bench.exchange("n1", "n2", key, 10).await;
    assert_eq!(bench.calls(key).await, 0);
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 80);
}

/// Compared with each other, these would be millions of pairs in a statement that writers wait for.
#[tokio::test]
async fn attack_32_a_rank_that_two_nodes_begin_thousands_of_times_holds_up_no_others() {
    let mut bench = Bench::new().await;
    let own = "slurm:900@1000";
    bench.world = 4;
    for evil in ["evil0", "evil1"] {
        for rank in 0..4 {
            let life = |number: i64| JobRank {
                start: bench.now - number * SECOND / 1000,
                ..bench.rank(own, rank, 4)
            };
            let job_ranks = (1..=4000).map(life).collect();
            bench.send(Batch { jobs: vec![bench.job(own, 4)], job_ranks, ..of(evil) }).await;
        }
    }
    bench.world = 8;
    let key = "slurm:1000@1000";
    bench.report("evil0", key, &[0, 1, 2, 3, 4, 5, 6, 7], 777_777, &[]).await;
    bench.exchange("n1", "n2", key, 10).await;
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 80);
    let counted = "SELECT count(*) FROM internal.job_rank WHERE job_id = (SELECT id FROM internal.run WHERE key = 'slurm:900@1000')";
    let counted: i64 = bench.client.query_one(counted, &[]).await.unwrap().get(0);
    assert_eq!(counted, 0, "of the other job none counts");
}

#[tokio::test]
async fn attack_32_facts_about_which_nodes_disagree_are_nobodys() {
    let mut bench = Bench::new().await;
    let key = "slurm:11@1000";
    bench.exchange("n1", "n2", key, 1).await;
    let shown =
        "SELECT coalesce(command, '-') || ' ' || coalesce(contested_facts::text, '-') FROM internal.run";
    assert_eq!(bench.texts(shown).await, ["./of-slurm:11@1000 -"]);
    // Who runs none of its ranks says nothing of it.
    let forged = Job { command: "FORGED".into(), ..bench.job(key, 9) };
    bench.send(Batch { jobs: vec![forged], ..of("evil") }).await;
    assert_eq!(bench.texts(shown).await, ["./of-slurm:11@1000 -"]);
    let forged = Job { command: "FORGED".into(), start: bench.now - 3000 * SECOND, ..bench.job(key, 9) };
    let beyond = bench.rank(key, 8, 9);
    let row = bench.row(key, 8, 888_888);
    bench
        .send(Batch { jobs: vec![forged], job_ranks: vec![beyond], mpi_rank_rows: vec![row], ..of("evil") })
        .await;
    assert_eq!(bench.texts(shown).await, ["- {command,world_size}"]);
    assert_eq!(bench.calls(key).await, 8, "a rank that its world does not have is in no total");
    // Also where it was claimed before.
    let early = "slurm:16@1000";
    let (rank, row) = (bench.rank(early, 5, 8), bench.row(early, 5, 888_888));
    let job = bench.job(early, 8);
    bench
        .send(Batch { jobs: vec![job], job_ranks: vec![rank], mpi_rank_rows: vec![row], ..of("evil") })
        .await;
    bench.world = 1;
    bench.report("n4", early, &[0], 4, &[]).await;
    assert_eq!(bench.calls(early).await, 4);
    // Another user's job by the same name is none.
    let other = Job { uid: 0, ..bench.job(key, 8) };
    bench.send(Batch { jobs: vec![other], ..of("n3") }).await;
    assert_eq!(bench.rejected, [(("n3".to_owned(), Rejection::Job), 1)].into());
}

#[tokio::test]
async fn attack_33_records_that_are_rejected_leave_no_key() {
    let mut bench = Bench::new().await;
    let made_up = |number: i64| MpiRankScheduling {
        job_key: format!("slurm:{number}@1000"),
        time: bench.now,
        epoch: bench.now,
        ..MpiRankScheduling::default()
    };
    let mpi_scheduling: Vec<_> = (0..5000).map(made_up).collect();
    let rows = (0..50).map(|number| bench.row(&format!("slurm:x{number}@1000"), 0, 1)).collect();
    bench.send(Batch { mpi_scheduling, mpi_rank_rows: rows, ..of("n1") }).await;
    assert_eq!(bench.rejected, [(("n1".to_owned(), Rejection::Job), 5050)].into());
    for table in ["run", "run_alias", "run_claim", "rank_claim"] {
        let rows = bench.texts(&format!("SELECT count(*)::text FROM internal.{table}")).await;
        assert_eq!(rows, ["0"], "{table}");
    }
}

#[tokio::test]
async fn attack_33_a_node_has_so_many_jobs_and_leaves_others_theirs() {
    let mut bench = Bench::new().await;
    let limits = NodeLimits { jobs_max: 100, jobs_per_hour: 60, ..NodeLimits::default() };
    bench.writer = Writer::new(bench.database.clone()).with_node_limits(limits);
    let jobs = (0..1000).map(|number| bench.job(&format!("slurm:{number}@1000"), 1)).collect();
    bench.send(Batch { jobs, ..of("n1") }).await;
    assert_eq!(bench.rejected, [(("n1".to_owned(), Rejection::Quota), 970)].into());
    // Another user of the node, and another node.
    let other = Job { uid: 1001, ..bench.job("slurm:5000@1001", 1) };
    bench.send(Batch { jobs: vec![other], ..of("n1") }).await;
    bench.report("n2", "slurm:6000@1000", &[0], 7, &[]).await;
    assert_eq!(bench.calls("slurm:6000@1000").await, 7);
    assert_eq!(bench.texts("SELECT count(*)::text FROM internal.run").await, ["32"]);
}

#[tokio::test]
async fn attack_34_devices_that_two_nodes_report_are_both_stored_and_contested() {
    let mut bench = Bench::new().await;
    let reported = |node: &str, bench: &Bench| {
        let gpu = GpuInfo {
            uuid: "GPU-n2-secret".into(),
            name: "H100".into(),
            source: "nvml".into(),
            ..GpuInfo::default()
        };
        let named = NodeInfo { name: node.to_owned(), hca_guids: vec![0x10], ..NodeInfo::default() };
        let port = HostPortSample {
            time: bench.now,
            device: "mlx5_0".into(),
            port: 1,
            node_guid: 0x10,
            source: "sysfs".into(),
            ..HostPortSample::default()
        };
        Batch { gpus: vec![gpu], nodes: vec![named], host_ports: vec![port], ..of(node) }
    };
    bench.send(reported("n1", &bench)).await;
    bench.send(reported("n2", &bench)).await;
    assert_eq!(bench.rejected, BTreeMap::new());
    let here =
        "SELECT k.name || ' ' || g.name FROM internal.gpu g JOIN internal.node_key k ON k.id = g.node_id
                WHERE g.valid_to IS NULL ORDER BY 1";
    assert_eq!(bench.texts(here).await, ["n1 H100", "n2 H100"], "neither ends the other's");
    bench.report("n1", "slurm:1@1000", &[0], 1, &[]).await;
    bench.report("n2", "slurm:2@1000", &[0], 1, &[]).await;
    let ports = "SELECT node_name FROM internal.job_rank_ports WHERE device IS NOT NULL OR port IS NOT NULL ORDER BY 1";
    assert_eq!(bench.texts(ports).await, [""; 0], "an adapter that two nodes claim carries nobody's job");
    let described = IbNodeInfo {
        generation: bench.now,
        guid: 0x10,
        r#type: "ca".into(),
        description: "n2 mlx5_0".into(),
        ..IbNodeInfo::default()
    };
    let fabric = Batch {
        fabric: throughline_store::testing::fabric(7),
        ib_nodes: vec![described],
        ..Batch::default()
    };
    bench.writer.write(&[entry(Uuid::new_v4(), 1, fabric)]).await.unwrap();
    assert_eq!(bench.texts(ports).await, ["n2"], "the fabric says whose it is");
}

#[tokio::test]
async fn attack_32_a_node_that_is_barred_claims_nothing_also_in_the_past() {
    let mut bench = Bench::new().await;
    let key = "slurm:13@1000";
    bench.report("n1", key, &[0], 777_777, &[]).await;
    bench.report("n1", "slurm:14@1000", &[0], 777_777, &[]).await;
    bench.report("n2", key, &[0], 9, &[]).await;
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 0);
    let n1 = BarSubject::Node("n1".into());
    assert!(bar_node(&mut bench.client, &n1, "root", "stolen").await.unwrap());
    bench.settle().await;
    assert_eq!(bench.calls(key).await, 9);
    assert_eq!(bench.calls("slurm:14@1000").await, 0, "what it alone claimed is out, too");
    assert_eq!(bench.texts(STATES).await, ["n1 barred 2 1555554", "n2 counted 1 9"]);
    let shown = "SELECT key || ' ' || coalesce(command, '-') FROM internal.run ORDER BY 1";
    assert_eq!(bench.texts(shown).await, ["slurm:13@1000 ./of-slurm:13@1000", "slurm:14@1000 -"]);
    assert!(unbar_node(&mut bench.client, &n1, "root").await.unwrap());
    bench.settle().await;
    assert_eq!((bench.calls(key).await, bench.calls("slurm:14@1000").await), (0, 777_777));
    assert_eq!(bench.texts(STATES).await, ["n1 contested 1 777777", "n2 contested 1 9"]);
}

#[tokio::test]
async fn attack_32_a_claim_that_never_ends_keeps_no_job_running() {
    let mut bench = Bench::new().await;
    let key = "slurm:15@1000";
    bench.report("n1", key, &[0], 5, &[]).await;
    bench.report("evil", key, &[0], 777_777, &[]).await;
    let end = bench.now - SECOND;
    let rank = JobRank { end, ending: "clean".into(), ..bench.rank(key, 0, 8) };
    let job = Job { end, ..bench.job(key, 8) };
    bench.send(Batch { jobs: vec![job], job_ranks: vec![rank], ..of("n1") }).await;
    let ended = "SELECT (end_time IS NOT NULL)::text FROM internal.run";
    assert_eq!(bench.texts(ended).await, ["true"]);
    bench.settle().await;
    assert_eq!((bench.texts(ended).await, bench.calls(key).await), (vec!["true".to_owned()], 0));
    // Nor one that begins after the end, as if the rank had moved, of a node that contests the job.
    let again = JobRank { start: end + SECOND / 2, ..bench.rank(key, 0, 8) };
    bench.send(Batch { job_ranks: vec![again], ..of("evil") }).await;
    bench.settle().await;
    assert_eq!(bench.texts(ended).await, ["true"]);
    assert_eq!(
        bench.texts("SELECT count(*)::text FROM internal.job_rank").await,
        ["0"],
        "it is contested as well"
    );
}

#[tokio::test]
async fn a_rank_that_moves_to_another_node_is_no_contest() {
    let mut bench = Bench::new().await;
    let key = "slurm:12@1000";
    bench.report("n1", key, &[0], 5, &[]).await;
    // The node fails: it says nothing for three intervals, and was last known to run the rank before it begins elsewhere.
    let silent = "UPDATE internal.run_claim SET reported_at = now() - INTERVAL '4 minutes', last_seen = now() - INTERVAL '50 seconds'";
    bench.client.execute(silent, &[]).await.unwrap();
    let again = JobRank { start: bench.now - 20 * SECOND, ..bench.rank(key, 0, 8) };
    let row = MpiRankBin { epoch: again.start, ..bench.row(key, 0, 6) };
    let job = bench.job(key, 8);
    bench.send(Batch { jobs: vec![job], job_ranks: vec![again], mpi_rank_rows: vec![row], ..of("n2") }).await;
    assert_eq!(bench.rejected, BTreeMap::new());
    assert_eq!(bench.calls(key).await, 11);
    assert_eq!(bench.texts(STATES).await, [""; 0]);
}
