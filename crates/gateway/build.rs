//! Embeds what Vite made of `web/` (`make pages`): writes a table of its files into OUT_DIR.
//!
//! Without Node the table is empty and the crate builds all the same; the server then says that the pages were not
//! built and how to build them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("web/dist/pages");
    // This folder is always there: one that is missing would count as changed in each build.
    println!("cargo::rerun-if-changed=web/dist");
    let mut files = Vec::new();
    if root.join("index.html").is_file() {
        collect(&root, &mut files)?;
    }
    files.sort();
    let mut table = String::from(
        "/// Path and content of each file, by path.\npub(super) static FILES: &[(&str, &[u8])] = &[\n",
    );
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let _ = writeln!(table, "    ({:?}, include_bytes!({:?})),", format!("/{name}"), file);
    }
    table.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("pages.rs"), table)
}

/// All files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
