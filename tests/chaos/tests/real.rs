//! A short run of the real processes. `make soak` runs it for an hour.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

#[test]
#[ignore = "takes a minute and a half, and programs in target/debug: make soak runs it for longer"]
fn a_minute_of_faults() {
    let program = env!("CARGO_BIN_EXE_throughline-chaos");
    assert!(Command::new(program).args(["--minutes", "1"]).status().unwrap().success());
}
