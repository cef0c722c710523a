//! `throughline status` without a server, and of one whose database is empty.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn status(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_throughline"))
        .arg("status")
        .args(arguments)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .unwrap()
}

#[test]
fn without_a_server_it_says_how_to_start_one() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = status(&["--server", &format!("http://{free}")]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("throughline serve") && message.contains(&free.to_string()), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_usage_is_64() {
    for wrong in
        [&["--server", "host:port"][..], &["--watch", "0"], &["--colour"], &["--state-dir", "/nonexistent"]]
    {
        let output = status(wrong);
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A server that is stopped with the test.
struct Serve(Child);

impl Serve {
    /// On this database; and where it answers.
    fn start(url: &str) -> (Self, String) {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_throughline"));
        serve.args(["serve", "--database-url", url]).stdout(Stdio::piped()).stderr(Stdio::null());
        for role in ["QUERY", "COLLECT"] {
            serve.env(format!("THROUGHLINE__{role}__LISTEN"), "127.0.0.1:0");
        }
        let mut serve = Serve(serve.spawn().unwrap());
        let mut lines = BufReader::new(serve.0.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| line.unwrap().strip_prefix("listening query=").map(str::to_owned));
        (serve, format!("http://{}", address.unwrap()))
    }
}

fn url(database: &throughline_store::Database) -> String {
    let folder = database.socket_folder().unwrap();
    format!("host={} dbname={} user={}", folder.display(), database.name(), throughline_store::WRITE_ROLE)
}

impl Drop for Serve {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_says_what_to_start() {
    let database = throughline_store::testing::database().await;
    let url = url(&database);
    let (_serve, server) = Serve::start(&url);
    let text = status(&["--server", &server]);
    assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
    let page = String::from_utf8_lossy(&text.stdout);
    assert!(page.contains("throughline-agent run") && page.starts_with(&server), "{page}");
    let json = status(&["--json", "--server", &server]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (json["sources"].as_array().map(Vec::len), &json["replica"]),
        (Some(0), &serde_json::Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumped_is_named_and_accepted() {
    let database = throughline_store::testing::database().await;
    let url = url(&database);
    let client = database.connect().await.unwrap();
    // It was confirmed nine days ago by its own word, and a moment ago by the monotonic clock of this machine.
    let jumped = "UPDATE internal.clock_check SET state = 'unchecked', permitted_until = '-infinity', trusted_at = now() - INTERVAL '9 days',
                      anchor_at = now() - INTERVAL '9 days', anchor_boot = $1, anchor_seconds = $2";
    let since_boot = throughline_daemon::since_boot().as_secs_f64();
    client.execute(jumped, &[&throughline_daemon::boot_id(), &since_boot]).await.unwrap();
    let (_serve, server) = Serve::start(&url);
    let clock = |more: &[&str]| {
        let arguments = [&["db", "clock", "--database-url", &url][..], more].concat();
        Command::new(env!("CARGO_BIN_EXE_throughline")).args(arguments).output().unwrap()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut shown = clock(&[]);
    while shown.status.code() != Some(2) {
        assert!(std::time::Instant::now() < until, "{}", String::from_utf8_lossy(&shown.stdout));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        shown = clock(&[]);
    }
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(
        text.starts_with("jumped since") && text.contains("9 d 0 h ahead of this server's monotonic clock"),
        "{text}"
    );
    let page = status(&["--server", &server]);
    let page = String::from_utf8_lossy(&page.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.starts_with("NOTHING IS DROPPED, thinned or packed:") && page.contains("db clock accept"),
        "{page}"
    );
    let accepted = clock(&["accept"]);
    let text = String::from_utf8_lossy(&accepted.stdout);
    assert_eq!(accepted.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&accepted.stderr));
    let json = clock(&["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["warning"], &json["accept_requested_at"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let page = status(&["--server", &server]);
    assert!(!String::from_utf8_lossy(&page.stdout).contains("NOTHING IS DROPPED"));
}
