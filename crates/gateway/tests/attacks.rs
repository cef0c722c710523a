//! Attacks by clients of the pages, on a real socket: what they cost the server, and who is let in.
#![allow(clippy::unwrap_used, missing_docs)]

use peak_alloc::PeakAlloc;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::SelfFigures;
use throughline_gateway::access::Access;
use throughline_gateway::query::Server;
use throughline_gateway::read::Limits;
use throughline_store::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A user that no machine gives to anybody.
const STRANGER: u32 = 61_999;

async fn serve(access: &Access) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let nowhere = Database::from_url("postgresql://a@nowhere/b").unwrap();
    let figures = Arc::new(SelfFigures::default());
    let server = Server::new(figures, nowhere, Limits::default(), access).unwrap();
    tokio::spawn(server.run(listener, stop.clone()));
    (address, stop)
}

/// Status line and rest of an answer.
async fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\n\
         Content-Encoding: snappy\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A field of a message in the wire format of Protocol Buffers: length-delimited.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        field.push((length & 127 | 128) as u8);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(content);
    field
}

/// A remote-read of one query with these regular expressions on the label `guid`.
fn question(expressions: &[String]) -> Vec<u8> {
    let mut query = Vec::new();
    for expression in expressions {
        let mut matcher = vec![8, 2];
        matcher.extend([field(2, b"guid"), field(3, expression.as_bytes())].concat());
        query.extend(field(3, &matcher));
    }
    snap::raw::Encoder::new().compress_vec(&field(1, &query)).unwrap()
}

/// Before, forty of these took 7 GB, and `/healthz` did not answer for 30 s.
#[tokio::test]
async fn attack_07_regexes_cost_little_and_hold_up_nobody() {
    // One thread for all sockets: whatever computes on it holds up the rest.
    let (address, stop) = serve(&Access::default()).await;
    let hostile = [r"(?:\pL{1,50}){1,30}", r"(((a{1,40}){1,40}){1,10})", r"[a-z]{1,900}.{1,900}"];
    let expressions: Vec<String> = hostile.iter().cycle().take(16).map(|e| (*e).to_owned()).collect();
    let body = question(&expressions);
    let nested = question(&[format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000))]);
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        for body in [body.clone(), nested.clone()] {
            all.spawn(async move { exchange(address, "POST /api/v1/read", &body).await });
        }
    }
    // While these are under way, everybody else is served between any two of them.
    let mut served = 0;
    while !all.is_empty() {
        assert!(exchange(address, "GET /healthz", b"").await.starts_with("HTTP/1.1 200"));
        served += 1;
        let one = tokio::time::timeout(Duration::from_millis(1), all.join_next()).await;
        if let Ok(Some(answer)) = one {
            let answer = answer.unwrap();
            let is_refused = answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 429");
            assert!(is_refused, "{answer}");
        }
    }
    assert!(served >= 20, "{served}");
    let most = ALLOCATOR.peak_usage() - before;
    assert!(most < 200 << 20, "{most} bytes");
    let left = ALLOCATOR.current_usage().saturating_sub(before);
    assert!(left < 16 << 20, "{left} bytes stay");
    stop.cancel();
}

#[tokio::test]
async fn attack_07_silent_connections_hold_up_nobody() {
    let (address, stop) = serve(&Access::default()).await;
    let mut silent = Vec::new();
    for _ in 0..700 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHos").await.unwrap();
        silent.push(stream);
    }
    for _ in 0..10 {
        assert!(exchange(address, "GET /healthz", b"").await.starts_with("HTTP/1.1 200"));
    }
    stop.cancel();
}

/// What another user of this machine gets: the status of a request made by a process of that user.
fn as_stranger(address: SocketAddr, path: &str) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
        port = address.port()
    );
    let mut shell = std::process::Command::new("bash");
    let output = shell.args(["-c", &script]).current_dir("/").uid(STRANGER).gid(STRANGER).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Before, anyone on the server's machine read all jobs.
#[tokio::test(flavor = "multi_thread")]
async fn attack_13_other_local_users_cannot_read() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root, to ask as another user");
        return;
    }
    let ask = async |address, path: &'static str| {
        tokio::task::spawn_blocking(move || as_stranger(address, path)).await.unwrap()
    };
    let (address, stop) = serve(&Access::default()).await;
    for path in ["/api/v1/jobs", "/api/v1/nodes", "/metrics"] {
        let answer = ask(address, path).await;
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("query.local_users"),
            "{path} {answer}"
        );
    }
    for path in ["/healthz", "/", "/api/v1/openapi.yaml"] {
        let answer = ask(address, path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("nosniff"), "{path} {answer}");
    }
    // The server's own user needs nothing more.
    assert!(exchange(address, "GET /metrics", b"").await.starts_with("HTTP/1.1 200"));
    stop.cancel();
    let named = Access { local_users: BTreeSet::from([STRANGER.to_string()]), ..Access::default() };
    let (address, stop) = serve(&named).await;
    assert!(ask(address, "/metrics").await.starts_with("HTTP/1.1 200"));
    stop.cancel();
}
