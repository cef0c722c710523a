//! What was in a spool for a second is in the store exactly once, whichever process is killed meanwhile.
//!
//! Real processes: `throughline serve` with its private PostgreSQL, and writers like an agent's (spool and
//! ship loop), all on real folders. `serve` is killed with SIGKILL 20 times while entries are on their way,
//! the writers at random, the database server once; and the database is stopped for a while. Then rows are
//! counted. `THROUGHLINE_AWAY_SECONDS` sets how long the database is away (2; `make soak` takes 30).

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throughline_delivery::{GrpcSink, OnRefusal, Reason, Session, ShipStats, Sink, SinkError, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::{Class, Config, Spool};
use throughline_store::{ClusterOptions, ClusterStatus, Lifetime, PrivateCluster, testing};
use tokio_util::sync::CancellationToken;

/// Generous: the test waits for conditions.
const DEADLINE: Duration = Duration::from_secs(120);
const SERVE_KILLS: usize = 20;
const WRITERS: usize = 3;
/// What an entry must have behind it to be safe.
const SAFE_AFTER: Duration = Duration::from_secs(1);

// ---- the writer, in a process of its own ----

const WRITER_FOLDER: &str = "CRASH_DELIVERY_FOLDER";
const WRITER_NAME: &str = "CRASH_DELIVERY_NAME";

/// Sends to whatever collector the address file names at the moment.
struct MovingSink(PathBuf);

impl Sink for MovingSink {
    fn connect(&self, on_refusal: OnRefusal) -> throughline_delivery::Connecting<'_> {
        Box::pin(async move {
            let error = |detail: String| SinkError { to: self.name(), reason: Reason::Connect, detail };
            let url = std::fs::read_to_string(&self.0).map_err(|e| error(e.to_string()))?;
            let sink = GrpcSink::new(&url).map_err(|e| error(e.to_string()))?;
            let session: Session = sink.connect(on_refusal).await?;
            Ok(session)
        })
    }

    fn name(&self) -> String {
        "the running server".into()
    }
}

/// Appends an entry every few milliseconds and says so on standard output; when standard input ends, waits
/// until all is delivered.
#[test]
#[ignore = "needs its parent: the other test runs it as a process that can be killed"]
fn writer_process() {
    let (Ok(folder), Ok(name)) = (std::env::var(WRITER_FOLDER), std::env::var(WRITER_NAME)) else { return };
    let folder = PathBuf::from(folder);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // A spool belongs to one node, whatever its runs are called.
    let node = name.split('.').next().unwrap().to_owned();
    let spool = Spool::open(&folder.join(&node), Config::default()).unwrap();
    let stop = CancellationToken::new();
    let sink = MovingSink(folder.join("address"));
    let shipping = runtime.spawn({
        let (spool, stop) = (spool.clone(), stop.clone());
        async move { ship(&spool, &sink, stop, &ShipStats::default()).await }
    });
    let ended = CancellationToken::new();
    std::thread::spawn({
        let ended = ended.clone();
        move || {
            let _ = std::io::stdin().read(&mut [0]);
            ended.cancel();
        }
    });
    let mut out = std::fs::File::options().append(true).open("/proc/self/fd/1").unwrap();
    for number in 0u64.. {
        if ended.is_cancelled() {
            break;
        }
        // Rows of the past would fall to retention.
        let time = throughline_daemon::Clock::new().now();
        let event = Event { time, source: name.clone(), kind: "test".into(), ..Event::default() };
        let event = Event { text: number.to_string(), severity: "info".into(), ..event };
        let batch = Batch { node: node.clone(), events: vec![event], ..Batch::default() };
        spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
        // In one write: a line is there wholly or not at all.
        out.write_all(format!("appended {number}\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    while spool.stats().backlog_entries > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stats = spool.stats();
    assert_eq!(stats.dropped_memory_entries + stats.dropped_disk_entries, 0);
    stop.cancel();
    runtime.block_on(shipping).unwrap();
    writeln!(out, "done").unwrap();
}

// ---- the test ----

/// A writer's process and what it said.
struct WriterRun {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    /// Numbers appended, and when that was acknowledged.
    said: Arc<Mutex<Vec<(u64, Instant)>>>,
    done: Arc<Mutex<bool>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl WriterRun {
    fn start(folder: &Path, writer: usize, run: usize) -> Self {
        let name = format!("w{writer}.{run}");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash_delivery::writer_process", "--exact", "--ignored", "--nocapture"])
            .env(WRITER_FOLDER, folder)
            .env(WRITER_NAME, &name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(false)));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listener = std::thread::spawn({
            let (said, done) = (said.clone(), done.clone());
            move || {
                for line in lines.map_while(Result::ok) {
                    // The test harness's own words share the stream.
                    if let Some((_, number)) = line.split_once("appended ") {
                        said.lock().unwrap().push((number.parse().unwrap(), Instant::now()));
                    } else if line.contains("done") {
                        *done.lock().unwrap() = true;
                    }
                }
            }
        });
        let stdin = child.stdin.take();
        Self { name, child, stdin, said, done, listener: Some(listener) }
    }

    /// Kills it; the numbers that were safe by then, and all numbers.
    fn kill(mut self) -> (String, Vec<u64>, Vec<u64>) {
        let at = Instant::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.finish(|acknowledged| at.saturating_duration_since(acknowledged) >= SAFE_AFTER)
    }

    /// Lets it deliver everything and end.
    fn end(mut self) -> (String, Vec<u64>, Vec<u64>) {
        drop(self.stdin.take());
        wait_for("the writer's end", || *self.done.lock().unwrap());
        assert!(self.child.wait().unwrap().success());
        self.finish(|_| true)
    }

    fn finish(&mut self, safe: impl Fn(Instant) -> bool) -> (String, Vec<u64>, Vec<u64>) {
        self.listener.take().unwrap().join().unwrap();
        let said = self.said.lock().unwrap();
        let all = said.iter().map(|(number, _)| *number).collect();
        (self.name.clone(), said.iter().filter(|(_, at)| safe(*at)).map(|(n, _)| *n).collect(), all)
    }
}

impl Drop for WriterRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Serve(Child);

impl Serve {
    /// Starts it and gives the writers its address once it listens.
    fn start(folder: &Path, state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_throughline"))
            .args(["serve", "--log-level", "error", "--state-dir"])
            .arg(state)
            .arg("--config")
            .arg(folder.join("server.toml"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("serve prints its address").unwrap();
            if let Some(address) = line.strip_prefix("listening collect=") {
                break address.to_owned();
            }
        };
        std::fs::write(folder.join("address.new"), format!("http://{address}")).unwrap();
        std::fs::rename(folder.join("address.new"), folder.join("address")).unwrap();
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success(), "serve ends with 0 on SIGTERM");
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops the private cluster whatever happens.
struct Cleanup(PathBuf, tokio::runtime::Runtime);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = self.1.block_on(PrivateCluster::stop_in(&self.0));
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What must be and what may be in the store.
#[derive(Default)]
struct Expected {
    safe: HashMap<String, Vec<u64>>,
    all: HashMap<String, Vec<u64>>,
}

impl Expected {
    fn note(&mut self, (name, safe, all): (String, Vec<u64>, Vec<u64>)) {
        self.safe.insert(name.clone(), safe);
        self.all.insert(name, all);
    }
}

#[test]
fn everything_safe_is_stored_exactly_once_whoever_is_killed() {
    testing::ensure_programs();
    let folder = tempfile::Builder::new().prefix("tl-crash").tempdir().unwrap();
    let state = folder.path().join("s");
    // The server's user must be able to reach its cluster when the test runs as root.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let settings = "[collect]\nlisten = '127.0.0.1:0'\n[query]\nlisten = '127.0.0.1:0'\n";
    std::fs::write(folder.path().join("server.toml"), settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cleanup = Cleanup(state.clone(), runtime);
    let random = RandomState::new();
    let mut drawn = 0u64;
    let mut pause = |most_ms: u64| {
        drawn += 1;
        std::thread::sleep(Duration::from_millis(random.hash_one(drawn) % most_ms));
    };

    let mut expected = Expected::default();
    let mut serve = Serve::start(folder.path(), &state);
    let mut runs = [1; WRITERS];
    let mut writers: Vec<Option<WriterRun>> =
        (0..WRITERS).map(|w| Some(WriterRun::start(folder.path(), w, 0))).collect();
    for kills in 0..SERVE_KILLS {
        pause(400);
        serve.kill();
        if kills % 2 == 0 {
            // Some time alone with the spool, so that entries of it become safe before the writer goes.
            let victim = kills / 2 % WRITERS;
            pause(1500);
            expected.note(writers[victim].take().unwrap().kill());
            writers[victim] = Some(WriterRun::start(folder.path(), victim, runs[victim]));
            runs[victim] += 1;
        }
        serve = Serve::start(folder.path(), &state);
    }

    kill_the_database_server(&cleanup);
    pause(500);
    take_the_database_away(&cleanup);

    for writer in &mut writers {
        expected.note(writer.take().unwrap().end());
    }
    compare(&cleanup, &expected);
    serve.stop();
    drop(cleanup);
}

/// SIGKILL for the database server: the one who serves starts it again.
fn kill_the_database_server(cleanup: &Cleanup) {
    let ClusterStatus::Running { pid } = PrivateCluster::status_of(&cleanup.0) else {
        panic!("the database runs while serve runs");
    };
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    wait_for("the database's return", || {
        let state = PrivateCluster::status_of(&cleanup.0);
        matches!(state, ClusterStatus::Running { pid: new } if new != pid)
            && cleanup.1.block_on(PrivateCluster::database_in(&cleanup.0).connect()).is_ok()
    });
}

/// Stopped by a person for a while, under load, and started again.
fn take_the_database_away(cleanup: &Cleanup) {
    let seconds = std::env::var("THROUGHLINE_AWAY_SECONDS").map_or(2, |s| s.parse().unwrap());
    assert!(cleanup.1.block_on(PrivateCluster::stop_in(&cleanup.0)).unwrap());
    std::thread::sleep(Duration::from_secs(seconds));
    assert_eq!(
        PrivateCluster::status_of(&cleanup.0),
        ClusterStatus::Stopped,
        "nobody starts it behind our back"
    );
    let options = ClusterOptions { state_dir: cleanup.0.clone(), pg_bin: None };
    let cluster = PrivateCluster::find(&options).unwrap();
    cleanup.1.block_on(cluster.start(Lifetime::Detached)).unwrap();
}

fn compare(cleanup: &Cleanup, expected: &Expected) {
    let rows = cleanup.1.block_on(async {
        let client = PrivateCluster::database_in(&cleanup.0).connect().await.unwrap();
        let aside = client.query_one("SELECT count(*) FROM internal.batch_quarantine", &[]).await.unwrap();
        assert_eq!(aside.get::<_, i64>(0), 0);
        let count =
            "SELECT source, text::bigint, count(*) FROM internal.events WHERE kind = 'test' GROUP BY 1, 2";
        client.query(count, &[]).await.unwrap()
    });
    let mut stored: HashMap<String, BTreeMap<u64, i64>> = HashMap::new();
    for row in rows {
        let number: i64 = row.get(1);
        stored.entry(row.get(0)).or_default().insert(number.cast_unsigned(), row.get(2));
    }
    let (mut safe_count, mut all_count) = (0, 0);
    for (name, safe) in &expected.safe {
        let none = BTreeMap::new();
        let found = stored.get(name).unwrap_or(&none);
        for number in safe {
            assert_eq!(
                found.get(number),
                Some(&1),
                "{name} {number} was safe; stored {} times",
                found.get(number).unwrap_or(&0)
            );
        }
        assert!(found.values().all(|count| *count == 1), "{name}: rows stored twice");
        // The last one may have been appended without a word about it.
        let all = &expected.all[name];
        let strangers = found.keys().filter(|n| !all.contains(n)).count();
        assert!(strangers <= 1, "{name}: {strangers} rows that were never appended");
        safe_count += safe.len();
        all_count += all.len();
    }
    println!("{safe_count} entries were safe and {all_count} appended; each safe one is stored once");
    assert!(safe_count > 1000, "only {safe_count} entries: this proved little");
}
