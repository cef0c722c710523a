//! What becomes of a test that skips itself: the tests marked `#[ignore]` are run as processes of their own.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output};

use throughline_test_support::{FILE_VARIABLE, left_out, skip};

#[test]
#[ignore = "needs its parent: the tests below run it"]
fn lacks_a_tool() {
    skip!("no {} here; apt-get install it", "frobnicator");
}

#[test]
#[ignore = "needs its parent: the tests below run it"]
fn meets_a_fault_of_others() {
    left_out("the library fails without us\ntoo");
}

/// Runs one of the tests above, and returns what the harness and the file of skipped tests have.
fn run(test: &str, ci: Option<&str>) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skipped");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored"]).env(FILE_VARIABLE, &list).env_remove("CI");
    command.envs(ci.map(|value| ("CI", value)));
    let output = command.output().unwrap();
    (output, std::fs::read_to_string(&list).unwrap_or_default())
}

#[test]
fn a_skipped_test_is_reported_though_the_harness_captures_its_output() {
    let (output, list) = run("lacks_a_tool", None);
    assert!(output.status.success(), "{output:?}");
    assert!(list.starts_with("SKIPPED ") && list.lines().count() == 1, "{list}");
    assert!(list.ends_with(" lacks_a_tool: no frobnicator here; apt-get install it\n"), "{list}");
    assert!(list.contains("skipped.rs:"), "{list}");
    assert!(String::from_utf8(output.stderr).unwrap().contains(&list));
}

#[test]
fn continuous_integration_fails_on_a_skipped_test() {
    for ci in ["true", "1"] {
        let (output, list) = run("lacks_a_tool", Some(ci));
        assert!(!output.status.success() && list.is_empty(), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("no frobnicator here"));
    }
    let (output, _) = run("lacks_a_tool", Some("false"));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_fault_of_others_is_listed_and_fails_nowhere() {
    let (output, list) = run("meets_a_fault_of_others", Some("true"));
    assert!(output.status.success(), "{output:?}");
    assert!(list.ends_with(": the library fails without us too\n"), "{list}");
}
