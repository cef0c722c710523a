//! A program without tests of its own is not built as a test (`test = false`). One that got a test would never run it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources of a program: those of its folder where that is its own, else its file.
fn sources(main: &Path) -> Vec<PathBuf> {
    let folder = main.parent().unwrap();
    if !main.ends_with("main.rs") || folder.ends_with("src") {
        return vec![main.to_owned()];
    }
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension() == Some("rs".as_ref())).collect()
}

#[test]
fn programs_that_are_not_tested_have_no_tests() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
    let untested = targets.filter(|target| target["kind"][0] == "bin" && target["test"] == false);
    let files: Vec<_> =
        untested.flat_map(|target| sources(Path::new(target["src_path"].as_str().unwrap()))).collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("test]\n"), "{}: remove `test = false` from its Cargo.toml", file.display());
    }
}
