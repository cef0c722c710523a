//! `throughline status` without a database, and on one that is empty.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output};

fn status(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_throughline")).arg("status").args(arguments).output().unwrap()
}

#[test]
fn without_a_database_it_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = status(&["--state-dir", folder.path().to_str().unwrap()]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("throughline serve") && message.contains("throughline db start"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(output.stdout.is_empty());
    // Asking makes nothing.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_64() {
    for wrong in [&["--database-url", "postgresql://host:port/x"][..], &["--watch", "0"], &["--colour"]] {
        let output = status(wrong);
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_says_what_to_start() {
    let database = throughline_store::testing::database().await;
    let folder = database.socket_folder().unwrap();
    let url =
        format!("host={} dbname={} user={}", folder.display(), database.name(), throughline_store::READ_ROLE);
    let text = status(&["--database-url", &url]);
    assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
    assert!(String::from_utf8_lossy(&text.stdout).contains("throughline-agent run"));
    let json = status(&["--json", "--database-url", &url]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["sources"].as_array().map(Vec::len), Some(0));
}
