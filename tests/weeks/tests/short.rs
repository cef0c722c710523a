//! Ten days of jumps, with real processes. `benches/weeks.sh` plays more than a year.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::Command;
use throughline_test_support::skip;

#[test]
fn ten_days_of_jumps() {
    let program = Path::new(env!("CARGO_BIN_EXE_throughline-weeks"));
    for needed in ["throughline", "throughline-agent"] {
        if !program.with_file_name(needed).exists() {
            skip!("{needed} is not there: cargo build --workspace builds it");
        }
    }
    let output = Command::new(program).arg("--quiet").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
