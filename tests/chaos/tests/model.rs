//! The model level: a thousand seeds, each with a site of its own, its faults and its ledger.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

#[test]
fn a_thousand_seeds() {
    let program = env!("CARGO_BIN_EXE_throughline-chaos");
    let output = Command::new(program).args(["model", "--seeds", "1000"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}
