//! The committed bindings of CUPTI are what bindgen makes of the headers today.

use std::process::Command;

#[test]
fn the_bindings_are_what_the_headers_give() {
    let prefix = throughline_prefix::Prefix::locate().unwrap();
    if let Err(error) = prefix.wheel("nvidia-cuda-cupti-cu12", "12.9.79") {
        throughline_test_support::skip!("{error}");
    }
    let checked = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["cupti", "--check"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
