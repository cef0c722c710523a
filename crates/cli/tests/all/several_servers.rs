//! Two `serve` on one database, PgBouncer before it and a streaming replica beside it: each of them is killed in turn, nothing
//! that was sent is lost or doubled, and readers go on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event, Job, JobRank};
use throughline_spool::{Class, Config, Spool};
use throughline_store::testing::Replicated;
use throughline_store::{Content, Database, Entry, Writer, check_session};
use tokio_util::sync::CancellationToken;

use crate::remote_write;

/// Generous: the test waits for conditions.
const DEADLINE: Duration = Duration::from_secs(120);

const SENDERS: usize = 3;

/// How far the replica may be behind that readers use.
const LAG_MAX: u64 = 2;

async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server, killed when the test ends. It has the same addresses each time.
struct Serve {
    config: PathBuf,
    log: PathBuf,
    collect: String,
    query: String,
    child: Option<Child>,
}

impl Serve {
    fn new(group: &Replicated, name: &str) -> Serve {
        let settings = format!(
            "[database]\nurl = \"{}\"\ndirect_url = \"{}\"\nread_url = \"{}\"\nread_lag_seconds_max = {LAG_MAX}\n\
             [collect]\nlisten = '127.0.0.1:0'\nsocket = ''\n[query]\nlisten = '127.0.0.1:0'\n",
            group.pooled_url(),
            group.direct_url(),
            group.read_url()
        );
        let config = group.folder().join(format!("{name}.toml"));
        std::fs::write(&config, settings).unwrap();
        let log = group.folder().join(format!("{name}.log"));
        let mut serve = Serve { config, log, collect: String::new(), query: String::new(), child: None };
        serve.start();
        serve
    }

    fn start(&mut self) {
        let end = Instant::now() + DEADLINE;
        // While it was away another process may have had its port for a moment.
        while !self.has_started() {
            let log = std::fs::read_to_string(&self.log).unwrap();
            assert!(!self.collect.is_empty() && Instant::now() < end, "{log}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn has_started(&mut self) -> bool {
        let log = std::fs::File::options().create(true).append(true).open(&self.log).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_throughline"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THROUGHLINE__")) {
            child.env_remove(name);
        }
        if !self.collect.is_empty() {
            child.env("THROUGHLINE__COLLECT__LISTEN", &self.collect);
            child.env("THROUGHLINE__QUERY__LISTEN", &self.query);
        }
        let child = child.args(["serve", "--log-level", "info", "--config"]).arg(&self.config);
        let mut child = child.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |role: &str| {
            let start = format!("listening {role}=");
            lines.find_map(|line| line.unwrap().strip_prefix(&start).map(str::to_owned))
        };
        let Some((query, collect)) = address("query").zip(address("collect")) else {
            child.wait().unwrap();
            return false;
        };
        (self.query, self.collect, self.child) = (query, collect, Some(child));
        true
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether this one did a round of upkeep.
    async fn does_upkeep(&self) -> bool {
        let page = fetch(self.query.clone(), "/metrics").await.unwrap_or_default();
        page.lines().any(|line| line.starts_with("throughline_last_round_seconds{source=\"upkeep\"}"))
    }

    async fn replica(&self) -> Value {
        let status = fetch(self.query.clone(), "/api/v1/status?jobs=0").await.unwrap_or_default();
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        status["replica"].clone()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// The body of an answer with status 200.
async fn fetch(address: String, path: &str) -> Option<String> {
    let path = path.to_owned();
    let work = move || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// A node's way out: appends an event every few milliseconds, and delivers to whichever server is there.
struct Sender {
    spool: Spool,
    appended: Arc<AtomicU64>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    is_paused: Arc<AtomicBool>,
}

impl Sender {
    fn start(folder: &Path, node: &str, urls: &[String]) -> Sender {
        let spool = Spool::open(&folder.join(node), Config::default()).unwrap();
        let (stop, appended) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let is_paused = Arc::new(AtomicBool::new(false));
        let sink = GrpcSink::to_all(urls, None).unwrap();
        let shipping = tokio::spawn({
            let (spool, stop) = (spool.clone(), stop.clone());
            async move { ship(&spool, &sink, stop, &ShipStats::default()).await }
        });
        let appending = tokio::spawn({
            let (spool, count, is_paused) = (spool.clone(), appended.clone(), is_paused.clone());
            let node = node.to_owned();
            async move {
                while !is_paused.load(Relaxed) {
                    let text = count.load(Relaxed).to_string();
                    let time = throughline_daemon::Clock::new().now();
                    let event = Event { time, source: node.clone(), kind: "test".into(), ..Event::default() };
                    let event = Event { text, severity: "info".into(), ..event };
                    let batch = Batch { node: node.clone(), events: vec![event], ..Batch::default() };
                    spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
                    count.fetch_add(1, Relaxed);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
        Sender { spool, appended, stop, tasks: vec![shipping, appending], is_paused }
    }

    /// Reports a rank of a job that began and, in the same moment, ended there.
    fn report_job(&self, node: &str, rank: u32) {
        let now = throughline_daemon::Clock::new().now();
        let start = now - 10_000_000_000;
        let job = Job {
            key: "slurm:42.0@1000".to_owned(),
            scheduler: "slurm".to_owned(),
            uid: 1000,
            start,
            seen: now,
            end: now,
            world_size: 2,
            ..Job::default()
        };
        let one = JobRank {
            job_key: job.key.clone(),
            rank,
            host: node.to_owned(),
            start,
            end: now,
            ending: "clean".to_owned(),
            ..JobRank::default()
        };
        let batch =
            Batch { node: node.to_owned(), jobs: vec![job], job_ranks: vec![one], ..Batch::default() };
        self.spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    }

    /// Whether something is stored that is appended from now on.
    async fn delivers(&self) {
        let next = self.spool.stats().appended_entries;
        wait_for("delivery", async || self.spool.acked() > next).await;
    }

    async fn end(self) -> u64 {
        self.is_paused.store(true, Relaxed);
        wait_for("the end of the delivery", async || self.spool.stats().backlog_entries == 0).await;
        let stats = self.spool.stats();
        assert_eq!(stats.dropped_memory_entries + stats.dropped_disk_entries, 0);
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        self.appended.load(Relaxed)
    }
}

/// Someone who looks at the monitoring all the time, by whichever server answers.
struct Reader {
    is_over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(u64, Duration)>,
}

impl Reader {
    fn start(addresses: [String; 2]) -> Reader {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let task = tokio::spawn(async move {
            let (mut answers, mut longest) = (0, Duration::ZERO);
            let mut at = 0;
            while !over.load(Relaxed) {
                let begun = Instant::now();
                while fetch(addresses[at].clone(), "/api/v1/events?kind=test&limit=3").await.is_none() {
                    at = 1 - at;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answers += 1;
                longest = longest.max(begun.elapsed());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (answers, longest)
        });
        Reader { is_over, task }
    }

    async fn end(self) -> (u64, Duration) {
        self.is_over.store(true, Relaxed);
        self.task.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_nothing_is_lost_and_readers_go_on() {
    let mut group = Replicated::start(include_str!("../../../../deploy/postgresql/pgbouncer.ini")).await;
    let direct = Database::from_url(&group.direct_url()).unwrap();
    let pooled = Database::from_url(&group.pooled_url()).unwrap();
    check_session(&direct).await.unwrap();
    let error = check_session(&pooled).await.unwrap_err().to_string();
    assert!(error.contains("database.direct_url"), "{error}");

    write_through_pooler(&group).await;
    let mut first = Serve::new(&group, "first");
    wait_for("upkeep by the first", async || first.does_upkeep().await).await;
    let mut second = Serve::new(&group, "second");
    let urls = [&first, &second].map(|serve| format!("http://{}", serve.collect));
    let spools = tempfile::tempdir().unwrap();
    let nodes: Vec<String> = (0..SENDERS).map(|n| format!("n{n}")).collect();
    let senders: Vec<Sender> = nodes.iter().map(|node| Sender::start(spools.path(), node, &urls)).collect();
    for serve in [&first, &second] {
        wait_for("reading from the replica", async || serve.replica().await["state"] == "used").await;
    }
    let reader = Reader::start([first.query.clone(), second.query.clone()]);
    let all_deliver = async || {
        for sender in &senders {
            sender.delivers().await;
        }
    };
    all_deliver().await;
    assert!(!second.does_upkeep().await, "one of them does upkeep");

    first.kill();
    let killed = Instant::now();
    all_deliver().await;
    let delivered = killed.elapsed();
    wait_for("upkeep by the second", async || second.does_upkeep().await).await;
    println!("after SIGKILL: all deliver after {delivered:?}, upkeep goes on after {:?}", killed.elapsed());
    // A job ends on two nodes while one server is away.
    senders[0].report_job("n0", 0);
    senders[1].report_job("n1", 1);
    first.start();
    second.kill();
    all_deliver().await;
    wait_for("upkeep by the first again", async || first.does_upkeep().await).await;
    second.start();
    // The session with the lock ends and its server lives on: another session gets the lock, and only one.
    let admin = direct.connect().await.unwrap();
    let before = upkeep_sessions(&admin).await;
    assert_eq!(before.len(), 1, "one of them does upkeep");
    admin.execute("SELECT pg_terminate_backend($1)", &[&before[0]]).await.unwrap();
    wait_for("another session with the lock", async || {
        let now = upkeep_sessions(&admin).await;
        now.len() == 1 && now != before
    })
    .await;

    for serve in [&first, &second] {
        wait_for("reading from the replica", async || serve.replica().await["state"] == "used").await;
    }
    group.pause_replay(true).await;
    wait_for("the replica's lag", async || first.replica().await["state"] == "behind").await;
    let replica = first.replica().await;
    assert!(replica["lag_seconds"].as_f64().unwrap() > LAG_MAX as f64, "{replica}");
    group.pause_replay(false).await;
    wait_for("the replica's return", async || first.replica().await["state"] == "used").await;
    group.kill_standby();
    for serve in [&first, &second] {
        wait_for("the primary for readers", async || serve.replica().await["state"] == "away").await;
    }
    let health = fetch(first.query.clone(), "/healthz").await.unwrap();
    assert!(health.contains("degraded: replica"), "{health}");
    group.start_standby().await;
    for serve in [&first, &second] {
        wait_for("the replica for readers", async || serve.replica().await["state"] == "used").await;
    }

    group.kill_pooler();
    tokio::time::sleep(Duration::from_millis(500)).await;
    group.start_pooler();
    all_deliver().await;

    let (answers, longest) = reader.end().await;
    let mut appended = Vec::new();
    for sender in senders {
        appended.push(sender.end().await);
    }
    compare(&direct, &nodes, &appended).await;
    unknown_faults(&[&first, &second]);
    println!(
        "{appended:?} events, each stored once; {answers} answers to a reader, the slowest after {longest:?}"
    );
    assert!(answers > 20 && longest < Duration::from_secs(20), "{answers} answers, {longest:?}");
}

/// Nothing is logged that is not what was done to them: a pooler that breaks something would be retried in silence.
fn unknown_faults(servers: &[&Serve]) {
    let known =
        ["readers use the primary", "trying again", "the database", "sender", "a request was not answered"];
    for serve in servers {
        let log = std::fs::read_to_string(&serve.log).unwrap();
        let faults = log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        for line in faults {
            println!("{line}");
            assert!(known.iter().any(|known| line.contains(known)), "{line}");
            for wrong in ["prepared statement", "SQLSTATE 26000", "SQLSTATE 25P01", "SQLSTATE 0A000"] {
                assert!(!line.contains(wrong), "{line}");
            }
        }
    }
}

/// The server's processes of sessions that hold the lock of upkeep, "thruline".
async fn upkeep_sessions(client: &tokio_postgres::Client) -> Vec<i32> {
    let query = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
                 AND (classid::bigint << 32 | objid::bigint) = x'746872756c696e65'::bigint";
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// What the writer does beyond plain COPYs: rows that are there already go through temporary tables.
async fn write_through_pooler(group: &Replicated) {
    let database = Database::behind_pooler(&group.pooled_url()).unwrap();
    let mut writers = [Writer::new(database.clone()), Writer::new(database)];
    let now = throughline_daemon::Clock::new().now();
    let entry = |spool: u128, sequence: u64, seconds: i64| Entry {
        spool_id: uuid::Uuid::from_u128(spool),
        sequence,
        content: Content::Batch(remote_write::batch("staged", now - seconds * 1_000_000_000, 100 - seconds)),
        sender: throughline_store::Sender::default(),
    };
    let stored = writers[0].write(&[entry(1, 1, 9), entry(1, 2, 8)]).await.unwrap();
    let again = writers[1].write(&[entry(2, 1, 9), entry(2, 2, 7)]).await.unwrap();
    let repeated = writers[0].write(&[entry(1, 2, 8), entry(1, 3, 6)]).await.unwrap();
    assert_eq!((stored.quarantined, again.quarantined, repeated.quarantined), (0, 0, 0));
    assert_eq!((stored.duplicates, again.duplicates, repeated.duplicates), (0, 0, 1));
    assert!(again.rows < stored.rows, "{} and {} rows", stored.rows, again.rows);
    let client = Database::from_url(&group.direct_url()).unwrap().connect().await.unwrap();
    let count = "SELECT count(*) FROM internal.nvlink_counters";
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 4, "one row a reading");
}

/// Each event is stored once, and the job ended once.
async fn compare(database: &Database, nodes: &[String], appended: &[u64]) {
    let client = database.connect().await.unwrap();
    let count = "SELECT source, count(*), count(DISTINCT text), min(text::bigint), max(text::bigint) FROM internal.events \
                 WHERE kind = 'test' GROUP BY 1";
    let mut stored = BTreeMap::new();
    for row in client.query(count, &[]).await.unwrap() {
        let numbers: [i64; 4] = [row.get(1), row.get(2), row.get(3), row.get(4)];
        stored.insert(row.get::<_, String>(0), numbers);
    }
    for (node, appended) in nodes.iter().zip(appended) {
        let all = appended.cast_signed();
        assert_eq!(stored[node], [all, all, 0, all - 1], "{node}");
    }
    let job = "SELECT count(*), count(end_time), (SELECT count(*) FROM internal.job_rank WHERE end_time IS NOT NULL), \
               (SELECT count(*) FROM internal.batch_quarantine) FROM internal.run";
    let row = client.query_one(job, &[]).await.unwrap();
    let counts: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
    assert_eq!(counts, [1, 1, 2, 0], "a job with two ranks that ended, and nothing set aside");
}
