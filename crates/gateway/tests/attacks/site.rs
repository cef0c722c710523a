//! A server of the role query on a free port, and what talks to it.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use throughline_daemon::{Labels, SelfMetrics};
use throughline_gateway::access::Access;
use throughline_gateway::query::Server;
use throughline_gateway::read::Limits;
use throughline_sample::catalogue::Metric;
use throughline_store::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A user who may not read.
pub const STRANGER: u32 = 61_234;

pub struct Site {
    pub address: SocketAddr,
    pub metrics: SelfMetrics,
    stop: CancellationToken,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Site {
    pub async fn new(database: Database, limits: Limits, access: Access) -> Site {
        let metrics = SelfMetrics::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let server = Server::new(&metrics, database, limits, &access).unwrap();
        tokio::spawn(server.run(listener, stop.clone()));
        Site { address, metrics, stop }
    }

    /// Without a database: what is refused before that.
    pub async fn nowhere(access: Access) -> Site {
        let nowhere = Database::from_url("host=/nonexistent user=a dbname=b").unwrap();
        Site::new(nowhere, Limits::default(), access).await
    }

    pub fn count(&self, reason: impl Into<Labels>, metric: &'static Metric) -> f64 {
        self.metrics.get(reason, metric).unwrap_or_default()
    }

    /// The answer, head and body, to a request with these lines behind the first.
    pub async fn send(&self, first: &str, lines: &[&str], body: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = format!("{first} HTTP/1.1\r\nConnection: close\r\n").into_bytes();
        for line in lines {
            write!(request, "{line}\r\n").unwrap();
        }
        if !body.is_empty() {
            write!(request, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        // One that is refused is closed while it still sends.
        _ = stream.write_all(&request).await;
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub async fn get(&self, path: &str, lines: &[&str]) -> String {
        let host = format!("Host: {}", self.address);
        let has_host = lines.iter().any(|line| line.starts_with("Host:"));
        let all: Vec<&str> = lines.iter().copied().chain((!has_host).then_some(host.as_str())).collect();
        self.send(&format!("GET {path}"), &all, &[]).await
    }

    /// The answer as a user of this machine gets it; `None` where this test is not root's and can't be another.
    pub async fn get_as(&self, user: u32, path: &str, line: &str) -> Option<String> {
        if !throughline_test_support::is_root("to connect as another user") {
            return None;
        }
        let (host, port) = (self.address.ip(), self.address.port());
        let script = format!(
            "exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n{line}\
             Connection: close\\r\\n\\r\\n' >&3; cat <&3"
        );
        let run = move || {
            let mut command = Command::new("/bin/bash");
            command.args(["-c", &script]).uid(user).gid(user).current_dir("/").stdin(Stdio::null());
            String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
        };
        Some(tokio::task::spawn_blocking(run).await.unwrap())
    }
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

pub fn users(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
