//! The pages in a browser, against a real `throughline serve` on a database that goes on. The tests themselves are
//! `crates/gateway/web/tests`, run by Node with the prefix's Chromium; here is what they look at, and what goes away and
//! comes back when they ask for it. Needs `make pages`, as the server's pages do.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod detail;
mod multicast;
mod seed;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_prefix::Set;
use throughline_store::{Database, WRITE_ROLE, testing};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far longer than the tests take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between rows.
const INTERVAL: Duration = Duration::from_secs(1);

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/web")
}

/// The server, on the same port each time, and its way to the database.
struct Server {
    child: Option<Child>,
    address: String,
    /// A link to the folder of the database's socket.
    way: PathBuf,
    database: Database,
}

impl Server {
    fn start(database: &Database, folder: &Path) -> Server {
        let way = folder.join("database");
        std::os::unix::fs::symlink(database.socket_folder().unwrap(), &way).unwrap();
        let mut server =
            Server { child: None, address: "127.0.0.1:0".into(), way, database: database.clone() };
        server.run();
        server
    }

    fn run(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THROUGHLINE__")) {
            command.env_remove(name);
        }
        let url = format!("host={} dbname={} user={WRITE_ROLE}", self.way.display(), self.database.name());
        command
            .args(["serve", "--database-url", &url])
            .env("THROUGHLINE__QUERY__LISTEN", &self.address)
            .env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.map_while(Result::ok).find_map(|l| l.strip_prefix("listening query=").map(str::to_owned));
        self.address = address.expect("the server listens");
        self.child = Some(child);
    }

    fn signal(&self, signal: Signal) {
        let Some(child) = &self.child else { return };
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    }

    fn stop(&mut self) {
        self.signal(Signal::SIGCONT);
        self.signal(Signal::SIGTERM);
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends what the server has open, once its way to new connections is gone.
async fn cut_off(database: &Database) {
    let client = database.connect().await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    client.execute(others, &[]).await.unwrap();
}

/// Does what a test asks for; `None` where there is no such thing.
async fn act(server: &Mutex<Server>, what: &str) -> Option<()> {
    let (way, database) = {
        let server = server.lock().unwrap();
        (server.way.clone(), server.database.clone())
    };
    match what {
        "/server/stop" => tokio::task::block_in_place(|| server.lock().unwrap().stop()),
        "/server/start" => tokio::task::block_in_place(|| server.lock().unwrap().run()),
        "/server/pause" => server.lock().unwrap().signal(Signal::SIGSTOP),
        "/server/continue" => server.lock().unwrap().signal(Signal::SIGCONT),
        "/database/stop" => {
            std::fs::remove_file(&way).unwrap();
            cut_off(&database).await;
        }
        "/database/start" => std::os::unix::fs::symlink(database.socket_folder().unwrap(), &way).unwrap(),
        _ => return None,
    }
    Some(())
}

/// Answers one request of a test: its path says what to do.
async fn answer(mut stream: TcpStream, server: Arc<Mutex<Server>>) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = tokio::io::BufReader::new(read).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let status = match act(&server, first.split(' ').nth(1).unwrap_or_default()).await {
        Some(()) => "204 No Content",
        None => "404 Not Found",
    };
    write
        .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
        .await
}

/// Writes rows, through a connection of its own, also while the server has none.
async fn go_on(mut site: seed::Site) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // A cut connection is made anew by the next round.
        let _ = site.go_on().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_in_a_browser() {
    let runner = web().join("node_modules/vitest/vitest.mjs");
    assert!(runner.is_file(), "{} is missing: `make pages` puts it there", runner.display());
    let browser = throughline_prefix::ensure(Set::Browser).unwrap().program("chromium-headless-shell");
    let folder = tempfile::tempdir().unwrap();
    let database = testing::database().await;
    let site = seed::Site::seed(&database).await;
    let server = Server::start(&database, folder.path());
    let address = server.address.clone();
    let server = Arc::new(Mutex::new(server));
    let writer = tokio::spawn(go_on(site));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control = listener.local_addr().unwrap();
    let answering = server.clone();
    let controller = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answer(stream, answering.clone()).await.unwrap();
        }
    });
    let mut tests = tokio::process::Command::new("node");
    tests
        .arg(&runner)
        .args(["run", "--config", "tests/vitest.config.ts"])
        // Some of them only, while working on them: a part of their names.
        .args(std::env::var("PAGES_TESTS").iter().flat_map(|names| ["-t", names]))
        .current_dir(web())
        .env("PAGES_URL", format!("http://{address}"))
        .env("PAGES_CONTROL", format!("http://{control}"))
        .env("PAGES_BROWSER", browser)
        .process_group(0);
    let mut tests = tests.spawn().unwrap();
    let group = Pid::from_raw(i32::try_from(tests.id().unwrap()).unwrap());
    let ended = tokio::time::timeout(PATIENCE, tests.wait()).await;
    if ended.is_err() {
        // Its workers and the browser too.
        killpg(group, Signal::SIGKILL).unwrap();
    }
    let status = ended.expect("the tests end").unwrap();
    writer.abort();
    controller.abort();
    assert!(status.success(), "{status}");
}
