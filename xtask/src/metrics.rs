//! `cargo xtask metrics`: writes docs/METRICS.md from the catalogue. The catalogue is the truth, not the file.

use std::path::Path;

use anyhow::Context;

/// Writes the document.
pub fn run() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/METRICS.md");
    std::fs::write(&path, throughline_sample::catalogue::to_markdown())
        .with_context(|| format!("cannot write {}", path.display()))
}
