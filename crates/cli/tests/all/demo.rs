//! `throughline demo` executes the demo beside it with all options, and names the remedy where there is none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program in a folder of its own, without what a build leaves beside it.
fn alone(folder: &Path) -> PathBuf {
    let program = folder.join("throughline");
    let built = env!("CARGO_BIN_EXE_throughline");
    std::fs::hard_link(built, &program).or_else(|_| std::fs::copy(built, &program).map(drop)).unwrap();
    program
}

fn run(program: &Path, arguments: &[&str]) -> (Output, String, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    (output, stdout, stderr)
}

#[test]
fn without_the_demo_the_error_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _, stderr) = run(&alone(folder.path()), &["demo", "--once"]);
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("throughline-demo is not beside") && stderr.contains("make demo"), "{stderr}");
}

#[test]
fn all_options_reach_the_demo_and_its_status_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let program = alone(folder.path());
    let demo = folder.path().join("throughline-demo");
    std::fs::write(&demo, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 2\n").unwrap();
    std::fs::set_permissions(&demo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let given = ["--log-format", "json", "demo", "--state-dir", "a b", "--hosts", "16", "--help"];
    let (output, stdout, stderr) = run(&program, &given);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let handed: Vec<&str> = stdout.lines().collect();
    assert_eq!(handed, ["--state-dir", "a b", "--log-format", "json", "--hosts", "16", "--help"]);
    let (_, stdout, _) = run(&program, &["demo", "--config", "c.toml", "--once"]);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), ["--config", "c.toml", "--once"]);
}
