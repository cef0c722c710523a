//! The folder of the workspace, whatever folder a task is started in, and its files by their paths in it.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file.
pub fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Writes a file anew.
pub fn write(path: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(root().join(path), text).with_context(|| format!("cannot write {path}"))
}
