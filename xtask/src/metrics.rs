//! `cargo xtask metrics`: writes docs/METRICS.md from the catalogue. The catalogue is the truth, not the file.

/// Writes the document.
pub fn run() -> anyhow::Result<()> {
    crate::tree::write("docs/METRICS.md", &throughline_sample::catalogue::to_markdown())
}
