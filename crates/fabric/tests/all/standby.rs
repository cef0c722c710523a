//! Two crawlers of one subnet, a real collector and database: one sweeps, the other takes over when it is silent.

use crate::simulated::{CRAWLER, SMALL, Simulated, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_collector::Access;
use throughline_daemon::SelfMetrics;
use throughline_store::{TermClient, Writer, testing};
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

/// Generous: the test waits for conditions.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running crawler; killed if the test fails.
struct Crawler {
    child: Child,
    address: String,
}

impl Crawler {
    fn start(simulated: &Simulated, collector: &str) -> Crawler {
        let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
        let folder = command.get_current_dir().unwrap().to_owned();
        let configuration = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n\
             [sweep]\ninterval_seconds = 0.1\n[standby]\nlease_seconds = 2\n"
        );
        std::fs::write(folder.join("fabric.toml"), configuration).unwrap();
        command.args(["run", "--config", "fabric.toml", "--state-dir", "state"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening fabric=").unwrap_or_else(|| panic!("{line}"));
        Crawler { address: address.to_owned(), child }
    }

    /// Whether it says that it sweeps; `None` before it knows.
    fn is_active(&self) -> Option<bool> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let line = answer.lines().find(|line| line.starts_with("throughline_crawler_active{"))?;
        Some(line.rsplit(" ").next().unwrap().parse::<f64>().unwrap_or_else(|_| panic!("{line}")) == 1.0)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Crawler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < DEADLINE, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Sweeps that are stored.
async fn sweeps(client: &Client) -> i64 {
    number(client, "SELECT count(DISTINCT time) FROM internal.coverage").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_takes_over_and_never_both_write() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let collector = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let terms = Arc::new(Mutex::new(TermClient::new(database.clone())));
    let (writer, access, metrics) =
        (Writer::new(database.clone()), Access::default(), SelfMetrics::default());
    tokio::spawn(throughline_collector::run(
        listener,
        vec![writer],
        terms,
        throughline_collector::NoDetail,
        access,
        metrics,
        "n".into(),
        stop.clone(),
    ));

    let net = SMALL.to_net().unwrap();
    let simulated = start(&net);
    let mut first = Crawler::start(&simulated, &collector);
    until("sweeps of the first", async || sweeps(&client).await >= 3).await;
    until("the first being active", async || first.is_active() == Some(true)).await;
    let mut second = Crawler::start(&simulated, &collector);
    until("standing by", async || second.is_active() == Some(false)).await;

    // Silent, and then back: it must not go on where the other one is.
    first.signal(Signal::SIGSTOP);
    until("the second taking over", async || second.is_active() == Some(true)).await;
    let before = sweeps(&client).await;
    until("sweeps of the second", async || sweeps(&client).await >= before + 3).await;
    first.signal(Signal::SIGCONT);
    until("standing by in turn", async || first.is_active() == Some(false)).await;

    // Stopped in order: the lease is given back at once.
    second.signal(Signal::SIGTERM);
    let status = second.child.wait().unwrap();
    assert!(status.success(), "{status}");
    until("the first taking over", async || first.is_active() == Some(true)).await;
    let before = sweeps(&client).await;
    until("sweeps of the first again", async || sweeps(&client).await >= before + 3).await;
    first.signal(Signal::SIGTERM);
    assert!(first.child.wait().unwrap().success());

    assert_eq!(number(&client, "SELECT count(DISTINCT crawler) FROM internal.crawler_term").await, 2);
    assert_eq!(number(&client, "SELECT count(*) FROM internal.crawler_term").await, 3);
    let outside = "SELECT count(*) FROM internal.ib_port_counters c WHERE NOT EXISTS (SELECT 1 FROM internal.crawler_term t \
                   WHERE c.time >= t.began_at AND (t.ended_at IS NULL OR c.time < t.ended_at))";
    assert_eq!(number(&client, outside).await, 0, "rows outside all terms");
    // Each crawler begins epochs of its own: two that wrote at once would alternate.
    let changes = "SELECT count(*) FROM (SELECT epoch, lag(epoch) OVER (PARTITION BY port_id ORDER BY time) \
                   AS before FROM internal.ib_port_counters) e WHERE before IS DISTINCT FROM epoch";
    let ports = number(&client, "SELECT count(DISTINCT port_id) FROM internal.ib_port_counters").await;
    assert!(number(&client, changes).await <= 3 * ports);
    stop.cancel();
}
