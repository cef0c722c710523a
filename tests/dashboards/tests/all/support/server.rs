//! A real Prometheus from the prefix, on a free loopback port, with history that is there at once.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use throughline_dashboard_check::Prometheus;
use throughline_prefix::{Prefix, Set};

/// Long enough for a busy machine; a server on small data is up in a fraction of a second.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server; stops and is removed with this value.
pub struct Server {
    child: Child,
    pub api: Prometheus,
    pub url: String,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; there is nothing to do about a failure in a test's end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The prefix with Prometheus in it.
pub fn prefix() -> Prefix {
    throughline_prefix::ensure(Set::Fabric).unwrap()
}

/// A server that has this history (OpenMetrics with times) and scrapes nothing.
pub async fn with_history(open_metrics: &str) -> Server {
    with_history_and(open_metrics, "scrape_configs: []\n").await
}

/// A server with this history and this configuration.
pub async fn with_history_and(open_metrics: &str, configuration: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let (text, data) = (folder.path().join("history.txt"), folder.path().join("data"));
    std::fs::write(&text, open_metrics).unwrap();
    let made = Command::new(prefix().program("promtool"))
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&text, &data])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    start(folder, configuration).await
}

/// A server with this configuration; relative paths in it start at `folder`.
pub async fn start(folder: TempDir, configuration: &str) -> Server {
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, configuration).unwrap();
    // The port is free when it is chosen and may be taken when the server binds it: then another one.
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = spawn(folder.path(), &file, port);
        let url = format!("http://127.0.0.1:{port}");
        let api = Prometheus::at(&url).unwrap();
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            if api.is_ready().await {
                return Server { child, api, url, _folder: folder };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    panic!("Prometheus did not start:\n{log}");
}

fn spawn(folder: &Path, configuration: &Path, port: u16) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    Command::new(prefix().program("prometheus"))
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}
