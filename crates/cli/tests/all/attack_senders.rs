//! Attacks on the way to the collector, run against `throughline serve` with its private database: by anyone who reaches
//! its port without a certificate, and by other users of its machine.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throughline_daemon::raise_descriptors;
use throughline_delivery::{GrpcSink, OnRefusal, Reason, ShipStats, Sink, TlsFiles, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::{Class, Config, Spool};
use throughline_store::{PrivateCluster, testing};
use tokio_util::sync::CancellationToken;

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

/// Connections that say nothing, and as many that break off within their first TLS record.
const SILENT: usize = 1100;
const ATTACKERS: usize = 4;

/// What an ordinary service gets of descriptors where nobody raised them, and may not have more.
const DESCRIPTORS: &str = "1024";

/// Entries that a node delivers while the attack runs.
const ENTRIES: u64 = 20;

/// A user who is neither root nor the one that runs the tests, and who owns nothing.
const STRANGER: &str = "65533";

/// `throughline serve` with its state in a folder of its own, stopped when dropped.
struct Serve {
    child: Child,
    collect: SocketAddr,
    socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Serve {
    fn start(settings: impl FnOnce(&Path) -> String) -> Self {
        testing::ensure_programs();
        let folder = tempfile::Builder::new().prefix("tl-senders").tempdir().unwrap();
        // The database's user, and the stranger, must be able to reach what is theirs.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let text = "[query]\nlisten = '127.0.0.1:0'\n[collect]\nlisten = '127.0.0.1:0'\n".to_owned();
        std::fs::write(folder.path().join("server.toml"), text + &settings(folder.path())).unwrap();
        let program = std::env::var_os("THROUGHLINE_TEST_SERVE")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_throughline").into());
        let mut child = Command::new("prlimit")
            .arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}"))
            .arg(program)
            .args(["serve", "--log-level", "error", "--state-dir"])
            .arg(folder.path().join("s"))
            .arg("--config")
            .arg(folder.path().join("server.toml"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = || {
            let line =
                lines.find_map(|line| line.unwrap().strip_prefix("listening collect=").map(str::to_owned));
            line.unwrap()
        };
        let collect = address().parse().unwrap();
        let socket = address().strip_prefix("unix:").unwrap().into();
        Self { child, collect, socket, folder }
    }

    fn rows(&self, source: &str) -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = PrivateCluster::database_in(&self.folder.path().join("s")).connect().await.unwrap();
            let count = "SELECT count(*) FROM internal.events WHERE kind = 'test' AND source = $1";
            client.query_one(count, &[&source]).await.unwrap().get(0)
        })
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    fn resident_kilobytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn certificates(folder: &Path, name: &str, issuer: &rcgen::Issuer<'_, rcgen::KeyPair>) -> TlsFiles {
    let key = rcgen::KeyPair::generate().unwrap();
    let of_it = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = of_it.signed_by(&key, issuer).unwrap();
    let path = |kind: &str| folder.join(format!("{name}.{kind}.pem"));
    std::fs::write(path("certificate"), certificate.pem()).unwrap();
    std::fs::write(path("key"), key.serialize_pem()).unwrap();
    TlsFiles { ca: folder.join("ca.pem"), certificate: path("certificate"), key: path("key") }
}

fn authority(folder: &Path) -> rcgen::Issuer<'static, rcgen::KeyPair> {
    let mut of_it = rcgen::CertificateParams::new(Vec::new()).unwrap();
    of_it.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.pem"), of_it.self_signed(&key).unwrap().pem()).unwrap();
    rcgen::Issuer::new(of_it, key)
}

fn payload(node: &str, number: u64) -> Vec<u8> {
    let time = throughline_daemon::Clock::new().now();
    let event = Event { time, source: node.into(), kind: "test".into(), ..Event::default() };
    let event = Event { text: number.to_string(), severity: "info".into(), ..event };
    Batch { node: node.into(), events: vec![event], ..Batch::default() }.encode_to_vec()
}

/// Delivers entries one by one; how long each took, and how often no connection was had.
fn deliver(sink: &GrpcSink, node: &str, numbers: std::ops::Range<u64>) -> (Vec<Duration>, u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let spool = Spool::in_memory(Config::default()).unwrap();
        let (stats, stop) = (Arc::new(ShipStats::default()), CancellationToken::new());
        let (from, to, counts, end) = (spool.clone(), sink.clone(), stats.clone(), stop.clone());
        let shipping = tokio::spawn(async move { ship(&from, &to, end, &counts).await });
        let mut times = Vec::new();
        for (sequence, number) in (1..).zip(numbers) {
            let began = Instant::now();
            spool.append(payload(node, number), Class::Precious).unwrap();
            while spool.acked() < sequence {
                assert!(began.elapsed() < DEADLINE, "entry {number} was not delivered");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            times.push(began.elapsed());
        }
        stop.cancel();
        shipping.await.unwrap();
        (times, Reason::ALL.map(|reason| stats.failures(reason)).iter().sum())
    })
}

/// Holds connections open, and opens one again as soon as it is closed.
fn hold(to: SocketAddr, count: usize, first: &[u8], opened: &AtomicUsize, stop: &AtomicBool) {
    let mut held: Vec<TcpStream> = Vec::new();
    while !stop.load(Relaxed) {
        held.retain_mut(|stream| {
            let read = stream.read(&mut [0; 64]);
            matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
        });
        while held.len() < count && !stop.load(Relaxed) {
            let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_millis(200)) else { break };
            let _ = stream.write_all(first);
            stream.set_nonblocking(true).unwrap();
            held.push(stream);
            opened.fetch_add(1, Relaxed);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `throughline serve` with certificates, and those of two nodes.
fn with_two_nodes() -> (Serve, TlsFiles, TlsFiles) {
    let mut files = None;
    let serve = Serve::start(|folder| {
        let issuer = authority(folder);
        let server = certificates(folder, "localhost", &issuer);
        files = Some((certificates(folder, "node1", &issuer), certificates(folder, "node2", &issuer)));
        let path = |path: &Path| path.display().to_string();
        format!(
            "tls = {{ ca = '{}', certificate = '{}', key = '{}' }}\n",
            path(&server.ca),
            path(&server.certificate),
            path(&server.key)
        )
    });
    let (node1, node2) = files.unwrap();
    (serve, node1, node2)
}

#[test]
fn attack_05_silent_connections() {
    assert!(raise_descriptors(4096) >= 4096, "the attacker needs descriptors");
    let (serve, node1, node2) = with_two_nodes();
    let url = format!("https://localhost:{}", serve.collect.port());
    let sink = |files: &TlsFiles| GrpcSink::with_tls(&url, Some(files.clone())).unwrap();
    let before = serve.resident_kilobytes();

    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|number| {
            let (stop, opened, to) = (stop.clone(), opened.clone(), serve.collect);
            // Half of them begin a TLS record of 512 bytes and send five.
            let first: &[u8] = if number % 2 == 0 { b"" } else { b"\x16\x03\x01\x02\x00\x01" };
            std::thread::spawn(move || hold(to, 2 * SILENT / ATTACKERS, first, &opened, &stop))
        })
        .collect();
    let end = Instant::now() + DEADLINE;
    while opened.load(Relaxed) < 2 * SILENT {
        assert!(Instant::now() < end, "the attack did not come about: {} connections", opened.load(Relaxed));
        std::thread::sleep(Duration::from_millis(20));
    }
    // New nodes come while the attack goes on, and deliver all they have.
    let (times, failures) = deliver(&sink(&node1), "node1", 0..ENTRIES);
    let slowest = times.iter().max().unwrap();
    let (descriptors, after) = (serve.descriptors(), serve.resident_kilobytes());
    println!(
        "{} connections were opened; {ENTRIES} entries in at most {slowest:?}, {failures} failed tries; serve: \
         {descriptors} descriptors, {before} kB before and {after} kB now",
        opened.load(Relaxed)
    );
    assert!(failures <= 3, "{failures} tries");
    assert!(descriptors < 600, "{descriptors} of {DESCRIPTORS} descriptors");
    assert!(after < before + (64 << 10), "{before} kB, then {after} kB");
    stop.store(true, Relaxed);
    attackers.into_iter().for_each(|attacker| attacker.join().unwrap());

    let (times, failures) = deliver(&sink(&node2), "node2", 0..ENTRIES);
    println!("afterwards at most {:?}", times.iter().max().unwrap());
    assert_eq!(failures, 0, "all is well after the attack");
    for node in ["node1", "node2"] {
        assert_eq!(serve.rows(node), ENTRIES.cast_signed(), "{node}: each entry once");
    }
    let end = Instant::now() + DEADLINE;
    while serve.descriptors() > 64 {
        assert!(Instant::now() < end, "{} descriptors are still open", serve.descriptors());
        std::thread::sleep(Duration::from_millis(50));
    }
}

const URL: &str = "ATTACK_SENDERS_URL";
const TOKEN_FILE: &str = "ATTACK_SENDERS_TOKEN_FILE";

/// One try to deliver a forged batch, reported on standard output.
#[test]
#[ignore = "needs its parent: the test below runs it as another user"]
fn stranger_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let sink = GrpcSink::new(&url).unwrap().with_token(std::env::var_os(TOKEN_FILE).map(PathBuf::from));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        if let Err(error) = sink.connect(OnRefusal::End).await {
            return error.to_string();
        }
        let spool = Spool::in_memory(Config::default()).unwrap();
        spool.append(payload("stranger", 0), Class::Precious).unwrap();
        let (from, stop) = (spool.clone(), CancellationToken::new());
        let end = stop.clone();
        let shipping = tokio::spawn(async move { ship(&from, &sink, end, &ShipStats::default()).await });
        while spool.acked() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        shipping.await.unwrap();
        "stored".to_owned()
    });
    println!("outcome: {said}");
}

/// The test above as the stranger.
fn as_stranger(url: &str, token_file: Option<&Path>) -> String {
    let mut command = Command::new("setpriv");
    command
        .args([
            format!("--reuid={STRANGER}"),
            format!("--regid={STRANGER}"),
            "--clear-groups".into(),
            "--".into(),
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["attack_senders::stranger_process", "--exact", "--ignored", "--nocapture"])
        .env(URL, url)
        .current_dir("/");
    if let Some(path) = token_file {
        command.env(TOKEN_FILE, path);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let outcome = said.lines().find_map(|line| line.split_once("outcome: ").map(|(_, rest)| rest.to_owned()));
    outcome.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Whom `serve` becomes when it is started as root.
fn server_user() -> u32 {
    let user = |name: &str| nix::unistd::User::from_name(name).unwrap().map(|user| user.uid.as_raw());
    user("throughline").or_else(|| user("postgres")).unwrap()
}

#[test]
fn attack_13_other_local_users_cannot_write() {
    if !throughline_test_support::is_root("to run a process as another user") {
        return;
    }
    let token = |folder: &Path, name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let owner = if name == "server.token" { server_user() } else { STRANGER.parse().unwrap() };
        std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
        path
    };
    let (right, wrong) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let serve =
        Serve::start(|folder| format!("token_file = '{}'\n", token(folder, "server.token", right).display()));
    let folder = serve.folder.path();
    let urls = [format!("http://{}", serve.collect), format!("unix:{}", serve.socket.display())];
    for url in &urls {
        let said = as_stranger(url, None);
        assert!(said.contains("refused") && said.contains(&format!("user {STRANGER}")), "{url}: {said}");
        assert!(said.contains("collect.local_users"), "the remedy: {said}");
        let said = as_stranger(url, Some(&token(folder, "wrong.token", wrong)));
        assert!(said.contains("refused") && said.contains("collect.token_file"), "{url}: {said}");
    }
    assert_eq!(serve.rows("stranger"), 0);
    // This user delivers both ways, and the stranger with the token.
    for (number, url) in (0..).zip(&urls) {
        let (_, failures) = deliver(&GrpcSink::new(url).unwrap(), "own", number..number + 1);
        assert_eq!(failures, 0, "{url}");
    }
    let right = token(folder, "right.token", right);
    assert_eq!(as_stranger(&urls[0], Some(&right)), "stored");
    assert_eq!((serve.rows("own"), serve.rows("stranger")), (2, 1));
}

/// Runs `throughline node` on the state of a server: its status and what it printed.
fn node(serve: &Serve, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.arg("node").args(arguments).arg("--state-dir").arg(serve.folder.path().join("s"));
    command.arg("--config").arg(serve.folder.path().join("server.toml"));
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn attack_23_a_stolen_certificate_is_barred_on_the_command_line() {
    let (serve, node1, node2) = with_two_nodes();
    let url = format!("https://localhost:{}", serve.collect.port());
    let sink = |files: &TlsFiles| GrpcSink::with_tls(&url, Some(files.clone())).unwrap();
    let (stolen, other) = (sink(&node1), sink(&node2));
    deliver(&stolen, "node1", 0..1);
    let (status, said) = node(&serve, &["bar", "node1", "--reason", "stolen"]);
    assert!(status == 0 && said.contains("node node1 is barred"), "{status} {said}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = Instant::now() + DEADLINE;
    let refused = loop {
        // Whether the stream opens, or why not.
        match runtime.block_on(stolen.connect(OnRefusal::End)) {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(Instant::now() < end, "it is not refused"),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(refused.contains("node node1 is barred (stolen)"), "{refused}");
    let (_, failures) = deliver(&other, "node2", 0..1);
    assert_eq!(failures, 0, "others go on");
    let (status, said) = node(&serve, &["list", "--barred"]);
    assert!(status == 0 && said.contains("node1") && said.contains("by name since"), "{said}");
    assert!(!said.contains("node2"), "{said}");
    let (status, said) = node(&serve, &["list", "--json"]);
    let document = said.lines().next().unwrap_or_default();
    let listed: serde_json::Value =
        serde_json::from_str(document).unwrap_or_else(|_| panic!("{status} {said}"));
    assert!(listed.as_array().unwrap().iter().any(|one| one["bar"]["reason"] == "stolen"), "{listed}");
    // Wrong usage, and what is not barred.
    assert_eq!(node(&serve, &["bar", "--serial", "node1"]).0, 64);
    assert_eq!(node(&serve, &["bar"]).0, 64);
    assert_eq!(node(&serve, &["unbar", "node2"]).0, 1);
    let (status, said) = node(&serve, &["unbar", "node1"]);
    assert!(status == 0 && said.contains("accepted again"), "{said}");
    deliver(&stolen, "node1", 1..2);
    assert_eq!((serve.rows("node1"), serve.rows("node2")), (2, 1));
}
