//! `throughline job fetch`: what the recorder of a real agent has of a real job comes into the database, exactly, and what
//! can't come is said.

use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Job, JobRank};
use throughline_spool::{Class, Config, Spool};
use tokio_util::sync::CancellationToken;

/// What a request may take on an idle machine until its records are there; tests never assert on it.
const GOAL: Duration = Duration::from_secs(5);

/// Cells of bins of ranks: how many, and sums of their calls and bytes.
type Sums = (i64, i64, i64);

impl Stack {
    pub(super) fn kill_agent(&mut self) {
        self.agent.0.kill().unwrap();
        self.agent.0.wait().unwrap();
    }

    fn start_agent(&mut self) {
        self.agent = Daemon::start(&mut agent("run", &self.environment), ["agent"]).0;
    }

    /// What the recorder has of a job up to before a time, read on the node.
    fn recorded(&self, key: &str, to: &str) -> Sums {
        let mut command = agent("recorder", &self.environment);
        let output = done(command.args(["--json", "--kind", "operations", "--job", key, "--to", to]));
        let mut sums = (0, 0, 0);
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let cell: Value = serde_json::from_str(line).unwrap();
            sums.0 += 1;
            sums.1 += cell["calls"].as_i64().unwrap();
            sums.2 += cell["bytes"].as_i64().unwrap();
        }
        sums
    }

    /// What the database has of it in full resolution.
    async fn fetched(&self, to: &str) -> Sums {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let query = "SELECT coalesce(sum(cardinality(calls)), 0)::bigint, coalesce(sum((SELECT sum(c) FROM unnest(calls) c)), 0)::bigint, \
                     coalesce(sum((SELECT sum(b) FROM unnest(bytes) b)), 0)::bigint \
                     FROM internal.detail_mpi_bins WHERE time < $1::text::timestamptz";
        let row = client.query_one(query, &[&to]).await.unwrap();
        (row.get(0), row.get(1), row.get(2))
    }

    /// Requests and waits; the outcome, however it is.
    fn request(&self, arguments: &[&str]) -> (Option<i32>, Value, String) {
        let output = self.job(&[&["fetch"], arguments, &["--wait", "60", "--json"]].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let outcome = answer["requests"].get(0).cloned().unwrap_or(Value::Null);
        (output.status.code(), outcome, String::from_utf8(output.stderr).unwrap())
    }
}

fn now() -> String {
    throughline_sample::to_rfc3339(throughline_daemon::Clock::new().now())
}

/// A job that runs until it is killed, once its ranks are known.
#[allow(clippy::zombie_processes)] // The caller ends it.
pub(super) fn running_job(stack: &Stack) -> (Child, String) {
    let mut launch = stack.launch("openmpi", &["--seconds", "600", "--pause-ms", "5"]);
    let program = launch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    loop {
        let output = stack.job(&["show", "last", "--json"]);
        let job: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if job["job"]["job"]["ranks_running"] == RANKS {
            return (program, super::key(&job).to_owned());
        }
        assert!(begin.elapsed() < PATIENCE, "{job}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(super) fn end(mut program: Child) {
    kill(Pid::from_raw(i32::try_from(program.id()).unwrap()), Signal::SIGTERM).unwrap();
    program.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorders_content_is_fetched_exactly_whatever_becomes_of_the_agent() {
    let mut stack = Stack::start().await;
    let (program, key) = running_job(&stack);
    std::thread::sleep(Duration::from_secs(5));

    let to = now();
    let begin = Instant::now();
    let (code, outcome, errors) = stack.request(&["last", "--to", &to]);
    eprintln!("fetched in {:?} (the goal is {GOAL:?})", begin.elapsed());
    assert_eq!((code, &outcome["nodes"][0]["state"]), (Some(0), &"done".into()), "{outcome} {errors}");
    let (recorded, fetched) = (stack.recorded(&key, &to), stack.fetched(&to).await);
    assert_eq!(fetched, recorded);
    // 100 ms bins of four ranks over five seconds.
    assert!(recorded.0 > 100 && recorded.1 > 1000, "{recorded:?}");
    // Again: each row is there once, and what came since is added.
    let (code, ..) = stack.request(&["last", "--to", &to]);
    assert_eq!((code, stack.fetched(&to).await), (Some(0), recorded));
    // It is read as steps of a tenth of a second, which the rows of each minute are not.
    let steps = stack.text(&["export", "last", "-o", "-", "--step", "0.1"]);
    assert!(steps.lines().count() > 100, "{steps}");

    // The page's chart has it, too, in steps of a tenth of a second.
    let series = operations_over_time(&stack, &key, &outcome);
    assert_eq!(series["step_seconds"], 0.1, "{series}");
    let calls = series["series"].as_array().unwrap().iter().flat_map(|one| one["calls"].as_array().unwrap());
    let busy = calls.filter(|calls| calls.as_i64().unwrap() > 0).count();
    assert!(busy > 10, "{series}");

    // The agent is killed while requests are open: the next one answers them.
    let to = now();
    let requested = stack.json(&["fetch", "last", "--to", &to, "--json"]);
    stack.kill_agent();
    stack.start_agent();
    let begin = Instant::now();
    loop {
        let listed = stack.json(&["fetch", "last", "--list", "--json"]);
        let request =
            listed["requests"].as_array().unwrap().iter().find(|one| one["id"] == requested["id"]).unwrap();
        if request["is_open"] == false {
            assert_eq!(request["nodes"][0]["state"], "done", "{request}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{request}");
        std::thread::sleep(Duration::from_millis(200));
    }
    // What the killed agent had not written is in neither.
    let recorded = stack.recorded(&key, &to);
    assert!(recorded.0 > 100, "{recorded:?}");
    let fetched = stack.fetched(&to).await;
    assert!(fetched.0 >= recorded.0 && fetched.0 - recorded.0 <= 400, "{fetched:?} {recorded:?}");

    // A spot on the disk is damaged: what is left comes, and it is said.
    let ring = stack.folder.path().join("agent/recorder");
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(&ring).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "rec"));
    segments.sort();
    let first = std::fs::File::options().read(true).write(true).open(&segments[0]).unwrap();
    let middle = first.metadata().unwrap().len() / 2;
    first.write_all_at(&[0x55; 64], middle).unwrap();
    let (code, outcome, _) = stack.request(&["last"]);
    let node = &outcome["nodes"][0];
    assert_eq!(
        (code, &node["state"], &node["damaged"]),
        (Some(1), &"incomplete".into(), &1.into()),
        "{outcome}"
    );
    assert!(
        node["remark"].as_str().unwrap().contains("damaged") && node["records"].as_i64().unwrap() > 0,
        "{outcome}"
    );

    // All that was recorded is gone: it is said, too.
    stack.kill_agent();
    std::fs::remove_dir_all(&ring).unwrap();
    stack.start_agent();
    std::thread::sleep(Duration::from_secs(2));
    let (code, outcome, errors) = stack.request(&["last", "--to", &to]);
    assert_eq!((code, &outcome["nodes"][0]["records"]), (Some(1), &0.into()), "{outcome}");
    assert!(
        outcome["nodes"][0]["remark"].as_str().unwrap().contains("does not reach back"),
        "{outcome} {errors}"
    );
    // A rank that is killed: the server requests what came before by itself.
    end(program);
    let begin = Instant::now();
    loop {
        let listed = stack.json(&["fetch", &key, "--list", "--json"]);
        let all = listed["requests"].as_array().unwrap();
        if let Some(one) = all.iter().find(|one| one["reason"] == "job_end") {
            assert_eq!(one["requested_by"], "server", "{one}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{listed}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_a_quota_or_has_no_recorder_is_refused_with_the_reason() {
    let limit = ("THROUGHLINE__DETAIL__USER_REQUESTS_PER_HOUR", "2");
    let stack = Stack::start_as(&[limit], &[("THROUGHLINE__RECORDER__ENABLED", "false".to_owned())]).await;
    let (program, _) = running_job(&stack);
    let (code, outcome, _) = stack.request(&["last"]);
    let node = &outcome["nodes"][0];
    assert_eq!(
        (code, &node["state"], &node["refusal"]),
        (Some(1), &"refused".into(), &"off".into()),
        "{outcome}"
    );
    assert!(node["remark"].as_str().unwrap().contains("[recorder]"), "{outcome}");
    end(program);

    // A sender that takes no requests.
    let node = deaf_agent(&stack);
    let (code, outcome, errors) = stack.request(&["old:1@7"]);
    assert_eq!((code, &outcome["nodes"][0]["refusal"]), (Some(1), &"agent".into()), "{outcome} {errors}");
    node.cancel();

    let (code, _, errors) = stack.request(&["old:1@7"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("detail.user_requests_per_hour"), "{errors}");
    let listed = stack.text(&["fetch", "old:1@7", "--list"]);
    assert!(listed.contains("refused"), "{listed}");
    let metrics = metrics(&stack.server);
    let counted: BTreeMap<&str, &str> = metrics
        .lines()
        .filter_map(|line| {
            line.strip_prefix("throughline_requests_rejected_total{source=\"detail\",reason=")?
                .split_once("} ")
        })
        .collect();
    assert_eq!(counted.get("\"requests\""), Some(&"1.0"), "{counted:?}");
}

/// What the page of a job charts of two seconds in the middle of what was fetched.
fn operations_over_time(stack: &Stack, key: &str, outcome: &Value) -> Value {
    let to = outcome["to_ms"].as_i64().unwrap() - 1000;
    let path = format!("/api/v1/jobs/{}/operations?from={}&to={to}", escaped(key), to - 2000);
    let answer = page(&stack.server, &path);
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A job's key in an address.
pub(super) fn escaped(key: &str) -> String {
    key.replace(':', "%3A").replace('@', "%40").replace('/', "%2F")
}

/// The server's `/metrics`.
fn metrics(server: &str) -> String {
    page(server, "/metrics")
}

/// What the server answers, with its headers.
pub(super) fn page(server: &str, path: &str) -> String {
    send(server, "GET", path)
}

pub(super) fn post(server: &str, path: &str) -> String {
    send(server, "POST", path)
}

fn send(server: &str, method: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let address = server.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A node n2 whose sender is connected and knows nothing of requests, with a job of one rank.
fn deaf_agent(stack: &Stack) -> CancellationToken {
    let spool = Spool::in_memory(Config::default()).unwrap();
    let start = throughline_daemon::Clock::new().now() - 60_000_000_000;
    let job = Job { key: "old:1@7".into(), uid: 7, start, evidence: "process".into(), ..Job::default() };
    let host = "n2".to_owned();
    let rank = JobRank { job_key: job.key.clone(), host, start, world_size: 1, pid: 5, ..JobRank::default() };
    let batch = Batch { node: "n2".into(), jobs: vec![job], job_ranks: vec![rank], ..Batch::default() };
    spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    let sink = GrpcSink::new(&stack.collector).unwrap();
    let stop = CancellationToken::new();
    let (sending, token) = (spool.clone(), stop.clone());
    tokio::spawn(async move { ship(&sending, &sink, token, &ShipStats::default()).await });
    let begin = Instant::now();
    while spool.stats().backlog_entries > 0 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    stop
}
