//! All tests of the tree as a whole, in one test program.
#![allow(clippy::unwrap_used, missing_docs)]

mod adding;
mod architecture;
mod config_keys;
mod contract;
mod cupti;
mod decisions;
mod metric_names;
mod targets;
mod units;

/// The folder of the workspace.
fn top() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
