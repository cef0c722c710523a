//! Jobs over several nodes, their ends, and nodes that say nothing any more.

use crate::batches::{PREFIX, SECOND, START, batch_of_everything, entry};
use std::time::Duration;
use throughline_sample::job_key::JobKeyParts;
use throughline_sample::wire::*;
use throughline_store::{Database, OrphanedJobs, Writer, close_orphaned_jobs, testing};
use tokio_postgres::Client;
use uuid::Uuid;

struct Bench {
    database: Database,
    client: Client,
    writer: Writer,
    spool: Uuid,
    sequence: u64,
}

impl Bench {
    async fn new() -> Self {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let writer = Writer::new(database.clone());
        Self { database, client, writer, spool: Uuid::new_v4(), sequence: 0 }
    }

    async fn send(&mut self, batch: Batch) {
        self.sequence += 1;
        let outcome = self.writer.write(&[entry(self.spool, self.sequence, batch)]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.duplicates), (0, 0));
    }

    /// Each rank as `rank@host start end ending`, seconds after the start.
    async fn ranks(&self) -> Vec<String> {
        self.texts(
            "SELECT rank || '@' || host || ' ' || seconds(start_time) || ' ' || coalesce(seconds(end_time), '-') \
             || ' ' || coalesce(ending, '-') FROM internal.job_rank ORDER BY rank, start_time",
        )
        .await
    }

    /// When the job ended, seconds after the start, or `-`.
    async fn job_end(&self) -> String {
        self.texts("SELECT coalesce(seconds(end_time), '-') FROM internal.run").await.remove(0)
    }

    async fn texts(&self, query: &str) -> Vec<String> {
        let seconds = format!("extract(epoch FROM $1::timestamptz)::bigint - {}", START / SECOND);
        let function = format!(
            "CREATE OR REPLACE FUNCTION pg_temp.seconds(timestamptz) RETURNS text LANGUAGE sql AS 'SELECT ({seconds})::text'"
        );
        self.client.batch_execute(&function).await.unwrap();
        let query = query.replace("seconds(", "pg_temp.seconds(");
        self.client.query(&query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// Makes it so that all nodes have last spoken `seconds` earlier.
    async fn age(&self, seconds: u32) {
        let sql = format!(
            "UPDATE internal.run_claim SET reported_at = reported_at - make_interval(secs => {seconds})"
        );
        self.client.batch_execute(&sql).await.unwrap();
    }

    async fn close_orphaned_jobs(&self) -> OrphanedJobs {
        let mut client = self.database.connect().await.unwrap();
        close_orphaned_jobs(&mut client, Duration::from_secs(900)).await.unwrap()
    }
}

fn job(node: &str, seen: i64, end: Option<i64>) -> Batch {
    let time = |seconds: i64| START + seconds * SECOND;
    let job = Job {
        key: "slurm:42.0@1000".to_owned(),
        scheduler: "slurm".to_owned(),
        uid: 1000,
        start: START,
        seen: time(seen),
        end: end.map_or(0, time),
        world_size: 4,
        ..Job::default()
    };
    Batch { node: node.to_owned(), jobs: vec![job], ..Batch::default() }
}

fn rank(rank: u32, host: &str, start: i64, end: Option<(i64, &str)>) -> JobRank {
    JobRank {
        job_key: "slurm:42.0@1000".to_owned(),
        rank,
        pid: 100 + rank,
        world_size: 4,
        start: START + start * SECOND,
        end: end.map_or(0, |(end, _)| START + end * SECOND),
        ending: end.map_or(String::new(), |(_, ending)| ending.to_owned()),
        host: host.to_owned(),
        ..JobRank::default()
    }
}

/// Two connections write at a time, and each commits only after the other has read the job's ranks.
#[tokio::test]
async fn a_job_ends_whose_last_ranks_are_reported_by_two_writers_at_once() {
    let mut bench = Bench::new().await;
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 0, None) }).await;
    bench.send(Batch { job_ranks: vec![rank(1, "n2", 0, None)], ..job("n2", 0, None) }).await;
    let slow_commit = "CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON internal.rank_claim DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION public.wait()";
    bench.client.batch_execute(slow_commit).await.unwrap();
    let end = |number, node: &str, at| {
        let over = rank(number, node, 0, Some((at, "clean")));
        entry(Uuid::new_v4(), 1, Batch { job_ranks: vec![over], ..job(node, at, Some(at)) })
    };
    let mut other = Writer::new(bench.database.clone());
    let (first, second) = ([end(0, "n1", 8)], [end(1, "n2", 9)]);
    let (first, second) = tokio::join!(bench.writer.write(&first), other.write(&second));
    assert_eq!((first.unwrap().quarantined, second.unwrap().quarantined), (0, 0));
    assert_eq!(bench.ranks().await, ["0@n1 0 8 clean", "1@n2 0 9 clean"]);
    assert_eq!(bench.job_end().await, "9");
}

#[tokio::test]
async fn a_job_runs_until_its_last_rank_on_any_node_ends() {
    let mut bench = Bench::new().await;
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 0, None) }).await;
    // Of the four ranks of its world two are on a node without an agent: nobody will ever tell of them.
    bench.send(Batch { job_ranks: vec![rank(1, "n2", 0, None)], ..job("n2", 0, None) }).await;
    let over = vec![rank(0, "n1", 0, Some((8, "clean")))];
    bench.send(Batch { job_ranks: over.clone(), ..job("n1", 8, Some(8)) }).await;
    assert_eq!(bench.job_end().await, "-", "it runs on n2");
    let ends = Batch { job_ranks: vec![rank(1, "n2", 0, Some((9, "clean")))], ..job("n2", 9, Some(9)) };
    bench.send(ends).await;
    assert_eq!(bench.job_end().await, "9");
    // A replay of the beginning by a node whose spool was behind.
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 0, None) }).await;
    assert_eq!(bench.job_end().await, "9");
    assert_eq!(bench.ranks().await, ["0@n1 0 8 clean", "1@n2 0 9 clean"]);
    // The key begins again: a rank number with another process.
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 20, None)], ..job("n1", 20, None) }).await;
    assert_eq!(bench.job_end().await, "-");
    assert_eq!(bench.ranks().await.len(), 3);
}

#[tokio::test]
async fn a_rank_that_connects_anew_is_no_second_one() {
    let mut bench = Bench::new().await;
    for _ in 0..3 {
        bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 0, None) }).await;
    }
    assert_eq!(bench.ranks().await, ["0@n1 0 - -"]);
    // What is known of its places stays, and grows.
    let on = RankGpu {
        gpu_uuid: "GPU-1".into(),
        evidence: "driver".into(),
        first_seen: START,
        ..Default::default()
    };
    let (gpus, gpu_evidence) = (vec![on], "driver".to_owned());
    let placed = JobRank { gpus, gpu_evidence, cpus: "0-1".to_owned(), ..rank(0, "n1", 0, None) };
    bench.send(Batch { job_ranks: vec![placed], ..job("n1", 1, None) }).await;
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 2, None) }).await;
    let places = bench
        .texts(
            "SELECT gpu_uuids::text || cpus || numa_nodes::text || (hca_ports IS NULL)::text FROM internal.job_rank",
        )
        .await;
    assert_eq!(places, ["{GPU-1}0-1{}true"]);
}

#[tokio::test]
async fn silence_ends_a_job_and_a_word_takes_that_back() {
    let mut bench = Bench::new().await;
    let two = vec![rank(0, "n1", 0, None), rank(1, "n1", 0, None)];
    bench.send(Batch { job_ranks: two, ..job("n1", 0, None) }).await;
    bench.send(Batch { job_ranks: vec![rank(2, "n2", 0, None)], ..job("n2", 0, None) }).await;
    bench.send(job("n1", 60, None)).await;
    assert_eq!(bench.close_orphaned_jobs().await, OrphanedJobs::default(), "both nodes spoke just now");
    bench.age(1000).await;
    bench.send(job("n2", 60, None)).await;
    assert_eq!(
        bench.close_orphaned_jobs().await,
        OrphanedJobs { ranks: 2, jobs: 0 },
        "n1 is silent, n2 is not"
    );
    assert_eq!(bench.ranks().await, ["0@n1 0 60 silent", "1@n1 0 60 silent", "2@n2 0 - -"]);
    bench.age(1000).await;
    assert_eq!(bench.close_orphaned_jobs().await, OrphanedJobs { ranks: 1, jobs: 1 });
    assert_eq!(bench.job_end().await, "60");
    assert_eq!(bench.close_orphaned_jobs().await, OrphanedJobs::default());
    // n1 was cut off, not dead: its spool arrives, with the end of one rank.
    bench
        .send(Batch { job_ranks: vec![rank(1, "n1", 0, Some((70, "clean")))], ..job("n1", 120, None) })
        .await;
    assert_eq!(bench.ranks().await, ["0@n1 0 - -", "1@n1 0 70 clean", "2@n2 0 60 silent"]);
    assert_eq!(bench.job_end().await, "-");
    // The node is done, and one rank's own record was lost on the way.
    bench.send(job("n1", 0, Some(130))).await;
    assert_eq!(bench.ranks().await[0], "0@n1 0 130 lost");
    assert_eq!(bench.job_end().await, "130");
}

#[tokio::test]
async fn the_way_from_a_rank_to_its_links() {
    let mut bench = Bench::new().await;
    let mut all = batch_of_everything();
    let samples = ["mlx5_0", "mlx5_1"].map(|device| HostPortSample {
        device: device.to_owned(),
        node_guid: if device == "mlx5_0" { 0x10 } else { 0x11 },
        ..all.host_ports[0].clone()
    });
    all.host_ports = samples.to_vec();
    let known = rank(0, "node1", 0, None);
    let names = |names: &[&str]| Some(Names { name: names.iter().map(|name| (*name).to_owned()).collect() });
    all.jobs = vec![Job { world_size: 8, ..job("node1", 0, None).jobs[0].clone() }];
    all.job_ranks = vec![
        JobRank { hca_ports: names(&["mlx5_1/1"]), ..known },
        rank(1, "node1", 0, None),
        JobRank { hca_ports: names(&[]), ..rank(2, "node1", 0, None) },
    ];
    let port = |number: u32, remote: Option<(u64, u32)>| IbPortInfo {
        port: number,
        port_guid: 0x1000 + u64::from(number),
        lid: 7,
        remote_guid: remote.map(|(guid, _)| guid),
        remote_port: remote.map(|(_, port)| port),
        ..IbPortInfo::default()
    };
    let adapter = |guid: u64, switch_port: u32| IbNodeInfo {
        generation: START,
        guid,
        r#type: "ca".to_owned(),
        ports: vec![port(1, Some((0x99, switch_port)))],
        ..IbNodeInfo::default()
    };
    let switch = IbNodeInfo {
        generation: START,
        guid: 0x99,
        r#type: "switch".to_owned(),
        description: "leaf 3".to_owned(),
        ports: vec![port(5, Some((0x10, 1))), port(6, Some((0x11, 1)))],
        ..IbNodeInfo::default()
    };
    bench.send(all).await;
    let fabric = vec![adapter(0x10, 5), adapter(0x11, 6), switch];
    bench
        .send(Batch {
            fabric: throughline_store::testing::fabric(PREFIX),
            ib_nodes: fabric,
            ..Batch::default()
        })
        .await;
    let ways = bench
        .texts(
            "SELECT rank || ' ' || coalesce(device || '/' || port, '-') || ' ' || coalesce(port_guid, '-') || ' ' || \
             coalesce(remote_description || ' ' || remote_port, '-') || ' ' || is_exact \
             FROM internal.job_rank_ports WHERE rank < 4 ORDER BY rank, device",
        )
        .await;
    assert_eq!(
        ways,
        [
            "0 mlx5_1/1 0x0000000000001001 leaf 3 6 true",
            "1 mlx5_0/1 0x0000000000001001 leaf 3 5 false",
            "1 mlx5_1/1 0x0000000000001001 leaf 3 6 false",
            "2 - - - true",
        ]
    );
    // A node that reads no ports of its own, and names its adapter: a rank has the ports of that, unless it is known to use none.
    let named = NodeInfo { name: "node2".into(), hca_guids: vec![0x10], ..NodeInfo::default() };
    let ranks = vec![
        rank(4, "node2", 0, None),
        JobRank { hca_ports: names(&["mlx5_0/1"]), ..rank(5, "node2", 0, None) },
        JobRank { hca_ports: names(&[]), ..rank(6, "node2", 0, None) },
    ];
    bench
        .send(Batch { node: "node2".to_owned(), nodes: vec![named], job_ranks: ranks, ..Batch::default() })
        .await;
    let ways = bench
        .texts(
            "SELECT rank || ' ' || coalesce(device, '-') || ' ' || coalesce(port::text, '-') || ' ' || \
             coalesce(remote_description || ' ' || remote_port, '-') || ' ' || is_exact \
             FROM internal.job_rank_ports WHERE rank >= 4 ORDER BY rank",
        )
        .await;
    assert_eq!(ways, ["4 - 1 leaf 3 5 false", "5 - 1 leaf 3 5 false", "6 - - - true"]);
}

#[tokio::test]
async fn a_run_has_several_names_and_what_each_node_says_of_it() {
    let mut bench = Bench::new().await;
    bench.send(Batch { job_ranks: vec![rank(0, "n1", 0, None)], ..job("n1", 0, None) }).await;
    let alias =
        "INSERT INTO internal.run_alias (key, job_id) SELECT 'slurm:s1BETTER@1000', id FROM internal.run";
    bench.client.batch_execute(alias).await.unwrap();
    // Another writer, as after a start, and another node, which knows the other name alone.
    bench.writer = Writer::new(bench.database.clone());
    let key = "slurm:s1BETTER@1000".to_owned();
    let mut named = job("n2", 30, None);
    named.jobs[0] =
        Job { key: key.clone(), command: "./solve".to_owned(), world_size: 8, ..named.jobs[0].clone() };
    named.job_ranks = vec![JobRank { job_key: key, ..rank(1, "n2", 0, None) }];
    bench.send(named).await;
    assert_eq!(
        bench.texts("SELECT key || ' ' || command || ' ' || coalesce(world_size, 0) || ' ' || contested_facts::text FROM internal.run").await,
        ["slurm:42.0@1000 ./solve 0 {world_size}"],
        "what one knows fills what another left empty, and what they disagree about is not shown"
    );
    assert_eq!(bench.ranks().await, ["0@n1 0 - -", "1@n2 0 - -"]);
    let claims = "SELECT n.name || ' ' || coalesce(c.command, '-') || ' ' || c.world_size || ' ' || c.uid
                  FROM internal.run_claim c JOIN internal.node_key n ON n.id = c.node_id ORDER BY 1";
    assert_eq!(
        bench.texts(claims).await,
        ["n1 - 4 1000", "n2 ./solve 8 1000"],
        "neither displaces the other"
    );
}

/// The parts of keys: generated columns of SQL, and `throughline_sample::job_key`.
#[tokio::test]
async fn keys_are_read_alike_in_sql_and_in_rust() {
    let bench = Bench::new().await;
    let keys = [
        "slurm:demo:123.0@1000",
        "slurm:123.0.7@1000",
        "slurm:a-b_1.x:s1N9M8EM2AVH00.m0012abcd@0",
        "pbs:12[3].server@7",
        "flux:f2oLkTLb-f3@4294967295",
        "local:n1:42:99@1000",
        "local:00ffee0011223344@1000",
        // No keys.
        "slurm:1",
        "slurm:1@x",
        "anything",
        "1@7",
    ];
    let add = "INSERT INTO internal.run (key) SELECT unnest($1::text[])";
    bench.client.execute(add, &[&keys.as_slice()]).await.unwrap();
    let rows =
        bench.client.query("SELECT key, cluster, key_job, key_uid FROM internal.run", &[]).await.unwrap();
    assert_eq!(rows.len(), keys.len());
    for row in rows {
        let (key, read): (&str, [Option<&str>; 3]) = (row.get(0), [row.get(1), row.get(2), row.get(3)]);
        let parts = JobKeyParts::read(key);
        let uid = parts.map(|parts| parts.uid.to_string());
        let expected = [parts.and_then(|parts| parts.cluster), parts.map(|parts| parts.job), uid.as_deref()];
        assert_eq!(read, expected, "{key}");
    }
}
