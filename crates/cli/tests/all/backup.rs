//! `db backup`, `db verify` and `db restore` of a private database, as docs/BACKUP.md has them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use throughline_store::testing;

/// Runs `throughline db` to its end: its status, what it printed, and what it said of errors.
fn db(arguments: &[&str], state: Option<&Path>) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.arg("db").args(arguments);
    if let Some(state) = state {
        command.arg("--state-dir").arg(state);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (status.code().unwrap(), String::from_utf8_lossy(&stdout).into_owned(), said)
}

#[test]
fn a_backup_is_made_verified_and_restored_and_damage_is_named() {
    testing::ensure_programs();
    let folder = tempfile::tempdir().unwrap();
    // As root its user is another, who makes the folders.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (state, other, backup) = (path("s"), path("other"), path("monday"));
    let backup = backup.to_str().unwrap();

    let (status, _, said) = db(&["backup", backup], Some(&state));
    assert!(status == 69 && said.contains("there is no database in"), "{status}: {said}");
    assert!(!Path::new(backup).exists());
    assert_eq!(db(&["init"], Some(&state)).0, 0);

    // A database that does not run is started for it, and stopped again.
    let (status, text, said) = db(&["backup", backup, "--json"], Some(&state));
    assert_eq!(status, 0, "{said}");
    let made: Value = serde_json::from_str(&text).unwrap();
    assert!(made["rows"].as_u64().is_some_and(|rows| rows > 0) && made["folder"] == backup, "{made}");
    assert_eq!(db(&["status"], Some(&state)).0, 69);
    let (status, _, said) = db(&["backup", backup], Some(&state));
    assert!(status == 64 && said.contains("is not empty"), "{status}: {said}");

    let (status, text, said) = db(&["restore", backup], Some(&other));
    assert!(status == 0 && text.contains("`throughline db verify` compares it"), "{status}: {text}{said}");
    let (status, text, said) = db(&["verify", backup], Some(&other));
    assert!(status == 0 && text.contains("Equal: all "), "{status}: {text}{said}");
    let (status, _, said) = db(&["restore", backup], Some(&other));
    assert!(
        status == 64 && said.contains("has a database, and a restore makes a new one"),
        "{status}: {said}"
    );

    let files = path("monday").join("dump");
    let file = fs::read_dir(&files).unwrap().map(|file| file.unwrap().path()).max().unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    fs::write(&file, [&fs::read(&file).unwrap()[..], b"x"].concat()).unwrap();
    let (status, text, _) = db(&["verify", backup, "--files"], None);
    assert!(status == 2 && text.starts_with(&format!("DAMAGED dump/{name} ")), "{status}: {text}");
    let third = path("third");
    let (status, _, said) = db(&["restore", backup], Some(&third));
    assert!(status == 1 && said.contains("is damaged") && said.contains(name), "{status}: {said}");
    assert_eq!(db(&["status"], Some(&third)).0, 69);
    fs::remove_file(path("monday").join("manifest.json")).unwrap();
    let (status, _, said) = db(&["verify", backup, "--files"], None);
    assert!(status == 64 && said.contains("is no backup"), "{status}: {said}");
}
