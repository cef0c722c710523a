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

impl Drop for Serve {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_says_what_to_start() {
    let database = throughline_store::testing::database().await;
    let folder = database.socket_folder().unwrap();
    let url = format!(
        "host={} dbname={} user={}",
        folder.display(),
        database.name(),
        throughline_store::WRITE_ROLE
    );
    let mut serve = Command::new(env!("CARGO_BIN_EXE_throughline"));
    serve.args(["serve", "--database-url", &url]).stdout(Stdio::piped()).stderr(Stdio::null());
    for role in ["QUERY", "COLLECT"] {
        serve.env(format!("THROUGHLINE__{role}__LISTEN"), "127.0.0.1:0");
    }
    let mut serve = Serve(serve.spawn().unwrap());
    let mut lines = BufReader::new(serve.0.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().strip_prefix("listening query=").map(str::to_owned));
    let server = format!("http://{}", address.unwrap());
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
