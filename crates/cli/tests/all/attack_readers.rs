//! Attack 19 against a real `serve`: the login of people alters itself, uses up its connections and tries to end others', and
//! readers of the pages, the API and remote-read are answered all the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throughline_store::{Database, PrivateCluster, READ_ROLE, testing};
use tokio_postgres::Client;

/// Generous: the test waits for conditions. A round of upkeep looks at roles each 30 s.
const DEADLINE: Duration = Duration::from_secs(120);

/// `serve` with a private database, stopped with the test.
struct Serve {
    folder: tempfile::TempDir,
    child: Option<Child>,
    query: String,
}

impl Serve {
    fn new() -> Self {
        testing::ensure_programs();
        let folder = tempfile::tempdir().unwrap();
        // The server's user must be able to reach its files when the test runs as root.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut serve = Self { folder, child: None, query: String::new() };
        serve.start();
        serve
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THROUGHLINE__")) {
            command.env_remove(name);
        }
        command.args(["serve", "--log-level", "warn", "--state-dir"]).arg(self.folder.path().join("s"));
        for role in ["QUERY", "COLLECT"] {
            command.env(format!("THROUGHLINE__{role}__LISTEN"), "127.0.0.1:0");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |role: &str| {
            let start = format!("listening {role}=");
            lines.find_map(|line| line.unwrap().strip_prefix(&start).map(str::to_owned)).unwrap()
        };
        self.query = address("query");
        address("collect");
        self.child = Some(child);
    }

    /// Ends it: what it warned of.
    fn stop(&mut self) -> String {
        let mut child = self.child.take().unwrap();
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        said
    }

    fn database(&self) -> Database {
        PrivateCluster::database_in(&self.folder.path().join("s"))
    }

    async fn person(&self) -> Client {
        testing::connect_as(&self.database(), "throughline", READ_ROLE).await.unwrap()
    }

    /// The answer to a request.
    async fn send(&self, head: &'static str, body: &'static [u8]) -> String {
        let address = self.query.clone();
        let work = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let length = body.len();
            write!(
                stream,
                "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
            )
            .unwrap();
            stream.write_all(body).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            String::from_utf8_lossy(&answer).into_owned()
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    /// Waits until `/healthz` has this.
    async fn until_health(&self, part: &str) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let health = self.send("GET /healthz HTTP/1.1", b"").await;
            if health.contains(part) {
                return health;
            }
            assert!(Instant::now() < end, "{part}: {health}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Pages, the API and remote-read are answered by new sessions as by old ones.
    async fn assert_answers(&self) {
        for head in [
            "GET / HTTP/1.1",
            "GET /api/v1/status HTTP/1.1",
            "GET /api/v1/jobs HTTP/1.1",
            "GET /api/v1/nodes HTTP/1.1",
        ] {
            let answer = self.send(head, b"").await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{head}: {answer}");
        }
        let read =
            "POST /api/v1/read HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy";
        let answer = self.send(read, REMOTE_READ).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let state = self.folder.path().join("s");
        let stop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = runtime.block_on(PrivateCluster::stop_in(&state));
        };
        let _ = std::thread::spawn(stop).join();
    }
}

/// A remote-read of `throughline_source_up` from 1970 to 2033, as snappy has it without compression: length, one literal, then
/// the query with its start, its end and the matcher `__name__="throughline_source_up"`.
const REMOTE_READ: &[u8] =
    b".\xb4\x0a,\x08\x01\x10\x80\xc0\xa8\xca\x9a:\x1a!\x12\x08__name__\x1a\x15throughline_source_up";

/// What the login sends in place of a panel's query.
async fn alter_itself(person: &Client) {
    person.batch_execute(ALTER_ITSELF).await.unwrap();
    // PostgreSQL 17 and later: the one that ends any session at its first statement.
    let newer = "BEGIN READ WRITE; ALTER ROLE throughline_read SET transaction_timeout = '1ms'; COMMIT";
    _ = person.batch_execute(newer).await;
}

const ALTER_ITSELF: &str = "BEGIN READ WRITE;
    ALTER ROLE throughline_read SET lock_timeout = '1ms';
    ALTER ROLE throughline_read SET search_path = 'nowhere';
    ALTER ROLE throughline_read SET statement_timeout = '1ms';
    ALTER ROLE throughline_read PASSWORD 'stolen';
    COMMIT";

#[tokio::test(flavor = "multi_thread")]
async fn attack_19_the_login_of_people_keeps_nobody_from_reading() {
    let mut serve = Serve::new();
    serve.until_health("ok").await;
    serve.assert_answers().await;

    // All of its connections, each with a statement that does not end; then it alters itself.
    let mut busy = Vec::new();
    while let Ok(person) = testing::connect_as(&serve.database(), "throughline", READ_ROLE).await {
        busy.push(person);
    }
    assert_eq!(busy.len(), 30, "its limit of connections");
    let last = busy.pop().unwrap();
    for person in busy {
        tokio::spawn(async move {
            person.batch_execute("SET statement_timeout = 0; SELECT pg_sleep(3600)").await
        });
    }
    alter_itself(&last).await;
    let end = "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename <> current_user";
    assert!(last.batch_execute(end).await.is_err(), "sessions of others are not its own");
    serve.assert_answers().await;

    // The next round of upkeep resets and reports it.
    let health = serve.until_health("a reading role had altered its settings or password").await;
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("degraded"), "{health}");
    let events = serve.send("GET /api/v1/events HTTP/1.1", b"").await;
    assert!(events.contains("reader.reset") && events.contains("lock_timeout=1ms"), "{events}");
    drop(last);
    let end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'throughline_read'";
    serve.database().connect_admin().await.unwrap().query(end_all, &[]).await.unwrap();
    let shown = serve.person().await.query_one("SHOW statement_timeout", &[]).await.unwrap();
    assert_eq!(shown.get::<_, String>(0), "5min");

    // Altered again, and `serve` starts anew.
    alter_itself(&serve.person().await).await;
    serve.stop();
    serve.start();
    serve.assert_answers().await;
    let shown = serve.person().await.query_one("SHOW lock_timeout", &[]).await.unwrap();
    assert_eq!(shown.get::<_, String>(0), "0");
    let said = serve.stop();
    assert!(
        said.contains("settings of reading roles were not ours") && said.contains("search_path=nowhere"),
        "{said}"
    );
}
